"""What options say about delegation, without a CLI. What the model reads of it is in `real_cli/test_delegation.py`."""

from typing import Any

import pytest

from claude_agent_py import AgentDefinition, ClientOptions
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.errors import OptionsError
from claude_agent_py.options import OptionsWarning
from claude_agent_py.options.delegation import depends_on_hooks, guide_text, report_limit

READER = AgentDefinition(description="Reads", prompt="p", tools=["Read", "Bash(git log *)", "mcp__far"])


def test_the_guide_shows_the_tools_that_the_session_leaves_an_agent() -> None:
    options = ClientOptions(agents={"reader": READER}, delegation_guide=True, tools=["Agent", "Bash", "Read"])
    assert "| reader | default | Read, Bash(git log *), mcp__far |" in guide_text(options)
    options = options.replace(tools=["Agent", "Bash"])
    assert "| reader | default | Bash(git log *), mcp__far |" in guide_text(options)
    options = options.replace(disallowed_tools=["Bash", "mcp__far"])
    assert "| reader | default | none |" in guide_text(options)


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
def test_a_guide_without_the_tool_agent_is_empty(given: dict[str, Any], why: str) -> None:
    with pytest.warns(OptionsWarning, match="delegation_guide is left out") as caught:
        options = ClientOptions(delegation_guide=DelegationGuide(max_report_chars=5), **given)
    assert why in str(caught[0].message)
    assert guide_text(options) == ""
    assert report_limit(options) is None
    assert not depends_on_hooks(options)


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
def test_a_guide_with_the_tool_agent_is_not(given: dict[str, Any]) -> None:
    assert "`Agent`" in guide_text(ClientOptions(delegation_guide=True, **given))


def test_background_work_is_not_advised_where_it_is_off() -> None:
    options = ClientOptions(delegation_guide=True, env={"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"})
    assert "in the background" not in guide_text(options)


def test_delegation_options_that_need_hooks() -> None:
    reminded = {"reader": READER.replace(critical_system_reminder="Mind.")}
    assert depends_on_hooks(ClientOptions(agents=reminded))
    assert depends_on_hooks(ClientOptions(delegation_guide=DelegationGuide(max_report_chars=5)))
    assert not depends_on_hooks(ClientOptions(agents={"reader": READER}, delegation_guide=True))


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
