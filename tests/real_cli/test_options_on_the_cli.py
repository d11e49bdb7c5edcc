"""Options that a session is made of, on the real CLI: what is asked for is there, or the session does not start."""

from pathlib import Path

import pytest

from claude_agent_py import AgentDefinition, Client, InterruptedRunError, OptionsError
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


async def test_a_session_is_the_agent_it_names_or_nothing() -> None:
    reviewer = AgentDefinition(description="Reviews code", prompt="You are the reviewer.")
    async with ScriptedModel(["fine"]) as model:
        for wrong in ("Reviewer", "auditor"):  # the CLI would run without its prompt and its restrictions
            with pytest.raises(OptionsError, match=rf"agent: there is no agent '{wrong}'.*reviewer") as caught:
                await Client(model.options(agents={"reviewer": reviewer}, agent=wrong)).connect()
            assert caught.value.option == "agent"
        async with Client(model.options(agents={"reviewer": reviewer}, agent="reviewer")) as client:
            await client.query("hi")
    [request] = model.requests
    assert "You are the reviewer." in request.system


async def test_a_session_may_be_an_agent_of_the_project() -> None:
    async with ScriptedModel(["fine"]) as model:
        options = model.options(agent="auditor")
        file = Path(str(options.cwd)) / ".claude/agents/auditor.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: auditor\ndescription: Audits\n---\nYou are the auditor.\n")
        async with Client(options) as client:
            await client.query("hi")
    assert "You are the auditor." in model.requests[-1].system


async def test_an_answer_that_is_no_object_is_the_value_of_one() -> None:
    script = [tool_use("StructuredOutput", {"value": [1, 2]})]
    async with ScriptedModel(script) as model, Client(model.options(output_type=list[int])) as client:
        assert (await client.query("Count")).output == [1, 2]


async def test_what_was_not_answered_stands_before_the_newest_prompt() -> None:
    gate = Gate()
    async with ScriptedModel([Reply("late", after=gate), "fine"]) as model, Client(model.options()) as client:
        run = client.query("first")
        await gate.wait_reached()
        await run.interrupt()
        gate.open()
        with pytest.raises(InterruptedRunError):
            await run
        await client.query("second")
    said = model.requests[-1].last_user_text
    assert said.startswith("first")
    assert said.endswith("second")
