"""Options that a session is made of, on the real CLI: what is asked for is there, or the session does not start."""

from pathlib import Path

import pytest
from one_session import OneSession

from claude_agent_py import AgentDefinition, Client, InterruptedRunError, OptionsError, tool
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


async def test_a_session_is_the_agent_it_names_also_one_of_the_project_or_nothing() -> None:
    """That it is an agent of the options is tested in `test_agent_fields.py`."""
    reviewer = AgentDefinition(description="Reviews code", prompt="You are the reviewer.")
    async with ScriptedModel(["fine"]) as model:
        with pytest.raises(OptionsError, match=r"agent: unknown agent 'Reviewer'.*reviewer") as caught:
            await Client(model.options(agents={"reviewer": reviewer}, agent="Reviewer")).connect()
        assert caught.value.option == "agent"  # the CLI would run without its prompt and its restrictions

        options = model.options(agent="auditor")
        file = Path(str(options.cwd)) / ".claude/agents/auditor.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: auditor\ndescription: Audits\n---\nYou are the auditor.\n")
        async with Client(options) as client:
            await client.query("hi")
    assert "You are the auditor." in model.requests[-1].system


async def test_options_reach_the_model_and_its_subagents() -> None:
    @tool
    def shell(command: str) -> str:
        """Run a command elsewhere."""
        return f"elsewhere: {command}"

    one = OneSession(agents={"Look around": "nothing there"})
    async with one.open(
        append_subagent_system_prompt="Be brief.",
        custom_tools=[shell],
        tool_aliases={"Bash": "mcp__tools__shell", "Monitor": "mcp__tools__shell"},
        plan_mode_instructions="Plan a journey.",
        on_question=lambda questions, context: None,
        question_preview_format="html",
    ) as client:
        call = {"description": "look", "prompt": "Look around", "subagent_type": "Explore", "run_in_background": False}
        await one.ask(tool_use("Agent", call), "done")
        assert ["Be brief." in str(request.system) for request in one.model.requests] == [False, True, False]
        (asking,) = [offered for offered in one.requests_of()[0].tools if offered["name"] == "AskUserQuestion"]
        assert "HTML" in str(asking)

        await one.ask(tool_use("Bash", {"command": "ls"}), "done")
        assert "elsewhere: ls" in one.result_of()

        gate = Gate()
        one.answers(Reply("late", after=gate), "fine")
        run = client.query("first")
        await gate.wait_reached()
        await run.interrupt()
        gate.open()
        with pytest.raises(InterruptedRunError):
            await run
        await client.query("second")
        said = one.requests_of()[-1].last_user_text  # what was not answered stands before the newest prompt
        assert said.startswith("first")
        assert said.endswith("second")

        await client.set_permission_mode("plan")
        await one.ask("a plan")
        assert one.requests_of()[0].contains("Plan a journey.")
