"""Options that a session is made of, on the real CLI: what is asked for is there, or the session does not start."""

from pathlib import Path

import pytest

from claude_agent_py import (
    AgentDefinition,
    AssistantMessage,
    Client,
    CLIStartError,
    InterruptedRunError,
    OptionsError,
    tool,
)
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


async def test_a_session_is_the_agent_it_names_or_nothing() -> None:
    reviewer = AgentDefinition(description="Reviews code", prompt="You are the reviewer.")
    async with ScriptedModel(["fine"]) as model:
        for wrong in ("Reviewer", "auditor"):  # the CLI would run without its prompt and its restrictions
            with pytest.raises(OptionsError, match=rf"agent: unknown agent '{wrong}'.*reviewer") as caught:
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


async def test_every_subagent_is_told_what_is_appended() -> None:
    call = {"description": "look", "prompt": "Look around", "subagent_type": "Explore", "run_in_background": False}
    model = ScriptedModel([tool_use("Agent", call), "done"], agents={"Look around": "nothing there"})
    async with model, Client(model.options(append_subagent_system_prompt="Be brief.")) as client:
        await client.query("hi")
    assert ["Be brief." in str(request.system) for request in model.requests] == [False, True, False]


async def test_a_tool_runs_in_place_of_another() -> None:
    @tool
    def shell(command: str) -> str:
        """Run a command elsewhere."""
        return f"elsewhere: {command}"

    async with ScriptedModel([tool_use("Bash", {"command": "ls"}), "done"]) as model:
        options = model.options(custom_tools=[shell], tool_aliases={"Bash": "mcp__tools__shell"})
        async with Client(options) as client:
            await client.query("hi")
    assert "elsewhere: ls" in str(model.requests[1].tool_results)


async def test_plan_mode_has_the_instructions_that_are_given() -> None:
    async with ScriptedModel(["a plan"]) as model:
        options = model.options(permission_mode="plan", plan_mode_instructions="Plan a journey.")
        async with Client(options) as client:
            await client.query("hi")
    assert model.requests[0].contains("Plan a journey.")


async def test_previews_of_questions_have_the_form_that_is_asked_for() -> None:
    async with ScriptedModel(["hi"]) as model:
        options = model.options(on_question=lambda questions, context: None, question_preview_format="html")
        async with Client(options) as client:
            await client.query("hi")
    (asking,) = [offered for offered in model.requests[0].tools if offered["name"] == "AskUserQuestion"]
    assert "HTML" in str(asking)


async def test_resuming_refuses_to_drop_more_than_the_turn_that_is_named() -> None:
    async with ScriptedModel(["one", "two", "three"]) as model:
        async with Client(model.options()) as client:
            kept, dropped = await client.query("first"), await client.query("second")
        (answer,) = [message for message in kept.messages if isinstance(message, AssistantMessage)]
        options = model.options(resume=kept.session_id, fork_session=True, resume_session_at=answer.uuid)
        async with Client(options.replace(resume_drops_turn=dropped.prompts[0])) as client:
            assert (await client.query("third")).text == "three"
        with pytest.raises(CLIStartError, match="Resume rejected by --resume-drops-turn"):
            await Client(options.replace(resume_drops_turn=kept.prompts[0])).connect()
    assert not model.requests[-1].contains("second")


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
