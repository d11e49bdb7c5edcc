"""What options say about delegation, without a CLI. What the model reads of it is in `real_cli/test_delegation.py`."""

from typing import Any

import pytest
from asking_cli import AskingCLI, asking
from pydantic import BaseModel

from claude_agent_py import AgentDefinition, ClientOptions
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.errors import OptionsError
from claude_agent_py.formatting import text_length
from claude_agent_py.options import OptionsWarning
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio

READER = AgentDefinition(description="Reads", prompt="p", tools=["Read", "Bash", "mcp__far"])


async def initialized(options: ClientOptions) -> dict[str, Any]:
    """Return what a session sends to begin with."""
    answers = {"initialize": frames.initialize_response(agents=listed(*(options.agents or {})))}
    async with asking(options, answers=answers) as cli:
        return cli.requests("initialize")[0]


async def guide_of(options: ClientOptions) -> str:
    """Return what a session adds to the system prompt."""
    return str((await initialized(options)).get("appendSystemPrompt", ""))


async def test_the_guide_shows_the_tools_that_the_session_leaves_an_agent() -> None:
    options = ClientOptions(agents={"reader": READER}, delegation_guide=True, tools=["Agent", "Bash", "Read"])
    assert "| reader | default | Read, Bash, mcp__far |" in await guide_of(options)
    options = options.replace(tools=["Agent", "Bash"])
    assert "| reader | default | Bash, mcp__far |" in await guide_of(options)
    options = options.replace(disallowed_tools=["Bash", "mcp__far"])
    assert "| reader | default | none |" in await guide_of(options)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tools": []}, "tools does not contain Agent"),
        ({"disallowed_tools": ["Agent(*)"]}, "disallowed_tools removes Agent"),
        ({"managed_settings": {"permissions": {"deny": ["Agent"]}}}, "managed_settings deny Agent"),
        ({"agent": "mute", "agents": {"mute": READER.replace(tools=None, disallowed_tools=["Agent"])}}, "'mute'"),
        ({"agent": "mute", "agents": {"mute": READER.replace(tools=None, disallowed_tools=["Agent(x)"])}}, "'mute'"),
    ],
)
async def test_a_guide_without_the_tool_agent_is_empty(given: dict[str, Any], why: str) -> None:
    with pytest.warns(OptionsWarning, match="delegation_guide is left out") as caught:
        options = ClientOptions(delegation_guide=DelegationGuide(max_report_chars=5), **given)
    assert why in str(caught[0].message)
    assert await guide_of(options) == ""
    assert "hooks" not in await initialized(options)


@pytest.mark.parametrize(
    "given",
    [
        {"disallowed_tools": ["Agent(Explore)", "Bash"]},
        {"tools": ["Task"]},
        {"agent": "lead", "agents": {"lead": READER.replace(tools=["Agent(reader)"])}},
        {"agent": "lead", "agents": {"lead": READER.replace(tools=["*"])}},
        {"settings": {"permissions": {"deny": ["Bash"]}}},
    ],
)
@pytest.mark.filterwarnings("error")
async def test_a_guide_with_the_tool_agent_is_not(given: dict[str, Any]) -> None:
    assert "`Agent`" in await guide_of(ClientOptions(delegation_guide=True, **given))


async def test_background_work_is_not_advised_where_it_is_off() -> None:
    options = ClientOptions(delegation_guide=True, env={"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"})
    assert "in the background" not in await guide_of(options)


async def test_the_guide_names_the_tools_that_start_subtasks_and_no_others() -> None:
    start = child_tool(ChildAgent(READER, id="reader"))
    options = ClientOptions(custom_tools=[mine, start], delegation_guide=True)
    guide = await guide_of(options)
    assert "| mcp__tools__create_subtask_reader | default |" in guide
    assert "mcp__tools__mine" not in guide
    denying = options.replace(disallowed_tools=["mcp__tools__create_subtask_reader"])
    assert "mcp__tools__create_subtask_reader" not in await guide_of(denying)


async def test_delegation_options_that_need_hooks() -> None:
    reminded = {"reader": READER.replace(critical_system_reminder="Mind.")}
    needing: list[dict[str, Any]] = [{"agents": reminded}, {"delegation_guide": DelegationGuide(max_report_chars=5)}]
    for given in needing:
        with pytest.raises(OptionsError, match="disables all hooks"):
            ClientOptions(extra_args={"bare": None}, **given)
    ClientOptions(extra_args={"bare": None}, agents={"reader": READER}, delegation_guide=True)


def mine() -> str:
    """Mine."""
    return "M"


@pytest.mark.parametrize("tools", [["Read"], ["Read", "mcp__tools__other"], []])
def test_custom_tools_that_the_sessions_agent_does_not_list_are_refused(tools: list[str]) -> None:
    agent = AgentDefinition(description="d", prompt="p", tools=tools)
    with pytest.raises(OptionsError, match=r"custom_tools: the agent 'a', .* without mcp__tools__mine: add"):
        ClientOptions(custom_tools=[mine], agents={"a": agent}, agent="a")


@pytest.mark.parametrize("tools", [None, ["*"], ["mcp__tools__mine"], ["mcp__tools"], ["mcp__tools__*"]])
def test_custom_tools_that_an_agent_lists_are_accepted(tools: list[str] | None) -> None:
    a, b = (AgentDefinition(description="d", prompt="p", tools=one) for one in (["Read", "Agent"], tools))
    ClientOptions(custom_tools=[mine], agents={"a": a, "b": b}, agent="a")  # a subagent may call it
    ClientOptions(custom_tools=[mine], agents={"b": b}, agent="b")


def about(event: str, **fields: Any) -> dict[str, Any]:
    """Return the input of a hook."""
    return {"hook_event_name": event, "session_id": "s", "transcript_path": "/t", "cwd": "/work", **fields}


def listed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "description": "Helps."} for name in names]


def callbacks_of(cli: AskingCLI, event: str) -> list[str]:
    return [callback for group in cli.hooks[event] for callback in group["hookCallbackIds"]]


async def test_the_main_agent_is_reminded_with_each_prompt_and_told_of_the_other_agents_again() -> None:
    main = AgentDefinition(description="d", prompt="p", critical_system_reminder="Write nothing.")
    answers = {"initialize": frames.initialize_response(agents=listed("main", "helper"))}
    async with asking(agents={"main": main}, agent="main", delegation_guide=True, answers=answers) as cli:
        prompt = about("UserPromptSubmit", prompt="hi")
        added = [await cli.call_hook(prompt, each) for each in callbacks_of(cli, "UserPromptSubmit")]
        texts = [each["hookSpecificOutput"]["additionalContext"] for each in added if each]
        assert texts[0] == "Write nothing."
        assert "helper" in texts[1]
        [again] = [
            await cli.call_hook(about("SessionStart", source="compact"), each)
            for each in callbacks_of(cli, "SessionStart")
        ]
        assert again["hookSpecificOutput"]["additionalContext"] == texts[1]


@pytest.mark.parametrize("letter", ["\U0001f600", "x"])
@pytest.mark.parametrize("count", [100, 0])
async def test_the_listing_of_the_clis_agents_is_short_enough_for_a_hook(letter: str, count: int) -> None:
    agents = [{"name": f"agent-{n}", "description": letter * 400, "model": "opus"} for n in range(count)]
    answers = {"initialize": frames.initialize_response(agents=agents)}
    async with asking(delegation_guide=True, answers=answers) as cli:
        prompt = about("UserPromptSubmit", prompt="hi")
        added = [await cli.call_hook(prompt, each) for each in callbacks_of(cli, "UserPromptSubmit")]
    texts = [each["hookSpecificOutput"]["additionalContext"] for each in added if each]
    assert bool(texts) == bool(count)
    for text in texts:
        assert "| agent-0 | opus | " in text
        assert 8000 < text_length(text) <= 9000
        assert text.count("\n| agent-") + int(text.rsplit("\n", 1)[-1].split()[0]) == count


async def test_an_output_of_the_agent_tool_that_is_no_object_stays() -> None:
    guide = DelegationGuide(max_report_chars=10)
    answers = {"initialize": frames.initialize_response(agents=listed("reader"))}
    async with asking(agents={"reader": READER}, delegation_guide=guide, answers=answers) as cli:
        call = about("PostToolUse", tool_name="Agent", tool_input={}, tool_use_id="t", tool_response="x" * 100)
        for callback in callbacks_of(cli, "PostToolUse"):
            assert await cli.call_hook(call, callback, "t") == {}


async def test_an_answer_that_does_not_fit_its_type_is_refused_four_times() -> None:
    class Answer(BaseModel):
        number: int

    def call(number: object, **fields: Any) -> dict[str, Any]:
        given = {"tool_name": "StructuredOutput", "tool_input": {"number": number}, "tool_use_id": "t"}
        return about("PreToolUse", **given, prompt_id="p1", **fields)

    async with asking(output_type=Answer) as cli:
        [check] = callbacks_of(cli, "PreToolUse")
        assert await cli.call_hook(call(5), check) == {}
        assert await cli.call_hook(call("many", agent_id="a1"), check) == {}
        for _ in range(4):
            denied = (await cli.call_hook(call("many"), check))["hookSpecificOutput"]
            assert denied["permissionDecision"] == "deny"
            assert "number: Input should be a valid integer" in denied["permissionDecisionReason"]
        assert await cli.call_hook(call("many"), check) == {}
