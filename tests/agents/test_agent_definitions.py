"""Definitions: every mistake names the agent and the field; what is written is what the CLI takes."""

from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import AgentDefinition, ClientOptions, MCPHTTPServer, MCPStdioServer
from claude_agent_py.agents import AgentModel
from claude_agent_py.errors import OptionsError

LEAST: dict[str, Any] = {"description": "d", "prompt": "p"}


def test_only_set_fields_are_sent() -> None:
    assert AgentDefinition(**LEAST).to_wire() == LEAST
    assert AgentDefinition(**LEAST, tools=[], background=False).to_wire() == {**LEAST, "tools": [], "background": False}


def test_every_field_has_the_name_of_the_wire() -> None:
    agent = AgentDefinition(
        **LEAST,
        tools=["Read"],
        disallowed_tools=["mcp__*"],
        model=AgentModel.HAIKU,
        effort="xhigh",
        max_turns=3,
        permission_mode="dontAsk",
        mcp_servers=["far", {"near": MCPStdioServer(command="x", timeout=2), "nearer": {"url": "u", "type": "http"}}],
        skills=["pdf"],
        background=True,
        memory="project",
        isolation="worktree",
        initial_prompt="Begin.",
        auto_compact_window=100_000,
        omit_claude_md=True,
        critical_system_reminder="Mind.",
        observer="a, b",
        observer_message="Look.",
        observe_subagents=False,
        observe_tool_results=False,
        hooks={"Stop": []},
        color="red",
    )
    assert agent.to_wire() == {
        **LEAST,
        "tools": ["Read"],
        "disallowedTools": ["mcp__*"],
        "model": "haiku",
        "effort": "xhigh",
        "maxTurns": 3,
        "permissionMode": "dontAsk",
        "mcpServers": [
            "far",
            {"near": {"type": "stdio", "command": "x", "timeout": 2000}},
            {"nearer": {"type": "http", "url": "u"}},
        ],
        "skills": ["pdf"],
        "background": True,
        "memory": "project",
        "isolation": "worktree",
        "initialPrompt": "Begin.",
        "autoCompactWindow": 100_000,
        "omitClaudeMd": True,
        "criticalSystemReminder_EXPERIMENTAL": "Mind.",
        "observer": "a, b",
        "observerMessage": "Look.",
        "observeSubagents": False,
        "observeToolResults": False,
        "hooks": {"Stop": []},
    }
    assert AgentDefinition.model_validate(agent.to_wire()) == agent.replace(color=None).replace(
        mcp_servers=["far", {"near": MCPStdioServer(command="x", timeout=2)}, {"nearer": MCPHTTPServer(url="u")}]
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"description": ""}, "description must not be empty"),
        ({"description": None}, "description must be a valid string, not NoneType"),
        ({"prompt": 5}, "prompt must be a valid string, not int"),
        ({"maxTurn": 3}, "maxTurn is unknown; did you mean 'max_turns'?"),
        ({"max_turns": 0}, "max_turns must be greater than or equal to 1"),
        ({"maxTurns": 0}, "maxTurns must be greater than or equal to 1"),
        ({"model": " "}, "model must not be empty"),
        ({"model": 5}, "model must be a valid string, not int"),
        ({"effort": "huge"}, "effort must be low, medium, high, xhigh or max"),
        ({"effort": 1.5}, "effort must be low, medium, high, xhigh or max"),
        ({"effort": 3}, "if it is a number, the CLI sends no effort to the model"),
        ({"critical_system_reminder": "x" * 10_001}, "critical_system_reminder must not be longer than 10,000"),
        ({"effort": True}, "effort must be low, medium, high, xhigh or max"),
        ({"permission_mode": "ask"}, "permission_mode must be 'default'"),
        ({"memory": "cloud"}, "memory must be 'user', 'project' or 'local'"),
        ({"isolation": "vm"}, "isolation must be 'worktree' or 'remote'"),
        ({"auto_compact_window": 5000}, "auto_compact_window must be greater than or equal to 100000"),
        ({"tools": "Read"}, "tools must be a list, not str"),
        ({"tools": [""]}, "tools [0] must not be empty"),
        ({"observer": "a,b,c,d,e"}, "observer List should have at most 4 items"),
        ({"observer": ["a,b"]}, "observer must not contain a name with a comma"),
        ({"hooks": "x"}, "hooks must be a valid dictionary, not str"),
        ({"mcp_servers": {"a": {"comand": "x"}}}, "mcp_servers server 'a': command is missing"),
        ({"mcp_servers": "far"}, "mcp_servers must be a list, not str"),
        ({"mcp_servers": [5]}, "mcp_servers must contain server names or {name: server}"),
        ({"mcp_servers": [{"a": {"comand": "x"}}]}, "mcp_servers server 'a': command is missing"),
        ({"mcp_servers": [{"a": object()}]}, "an in-process server belongs in the option mcp_servers"),
    ],
)
def test_a_mistake_names_the_agent_and_the_field(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionsError) as caught:
        ClientOptions(agents={"fine": LEAST, "reviewer": LEAST | wrong})
    assert str(caught.value).startswith("agents: agent 'reviewer': ")
    assert says in str(caught.value)
    assert caught.value.option == "agents"


def test_a_mistake_in_a_definition_by_itself_names_its_class_and_description() -> None:
    with pytest.raises(OptionsError) as caught:
        AgentDefinition(description="Reviews code")
    assert str(caught.value) == "AgentDefinition.prompt: is missing"
    assert caught.value.__notes__ == ["AgentDefinition with the description 'Reviews code'"]


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        ({"": LEAST}, "must not be empty or begin or end with a space"),
        ({" a": LEAST}, "must not be empty or begin or end with a space"),
        ({"-a": LEAST}, "must not begin with '-'"),
        ({"a,b": LEAST}, "must not contain a comma or a control character"),
        ({"a\nb": LEAST}, "must not contain a comma or a control character"),
        ({5: LEAST}, "the name of an agent must be a string, not int"),
        ({"a": None}, "agent 'a' must be an AgentDefinition, not NoneType"),
        ({"a": Path("a.md")}, "agent 'a' must be an AgentDefinition, not pathlib."),
        ([LEAST], "must map names to agent definitions, not be a list"),
    ],
)
def test_an_invalid_agent_is_refused(agents: Any, says: str) -> None:
    with pytest.raises(OptionsError) as caught:
        ClientOptions(agents=agents)
    assert says in str(caught.value)


def test_dicts_with_either_names_become_definitions() -> None:
    definition = AgentDefinition(**LEAST)
    given: Any = {"a": LEAST | {"maxTurns": 3}, "b": LEAST | {"max_turns": 3}, "c": definition}
    agents = ClientOptions(agents=given).agents
    assert agents is not None
    assert agents["a"] == agents["b"]
    assert agents["c"] is definition


def test_a_repr_is_short_and_shows_no_secrets() -> None:
    agent = AgentDefinition(
        description="d" * 5000,
        prompt="SECRET",
        initial_prompt="SECRET",
        critical_system_reminder="SECRET",
        observer_message="SECRET",
        hooks={"Stop": [{"hooks": [{"type": "command", "command": "SECRET"}]}]},
        mcp_servers=[{"a": {"command": "x", "env": {"K": "SECRET"}}}],
    )
    assert "prompt='...'" in repr(agent)
    assert len(repr(agent)) < 300
    assert "SECRET" not in repr(agent)
