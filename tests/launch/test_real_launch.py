"""What options become in the real CLI: every flag is taken, and the ones that guard something do."""

import json
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from launched_cli import FLAGS, LONG_LIST_CHARS, launched
from pydantic import BaseModel

from claude_agent_py import AgentDefinition, ClientOptions, MCPHTTPServer, MCPStdioServer
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.options import (
    PluginConfig,
    SystemPromptFile,
    SystemPromptPreset,
    ThinkingDisabled,
    ThinkingEnabled,
)
from claude_agent_py.testing import ScriptedModel, tool_use

pytestmark = pytest.mark.real_cli

REVIEWER = AgentDefinition(description="Reviews code", prompt="You review code.")
NOBODY = MCPHTTPServer(url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer SECRET-HEADER"})


def handler(*_: object) -> None:
    """Stand where a handler has to."""


def flags_of(argv: Sequence[str]) -> set[str]:
    return {argument.partition("=")[0] for argument in argv}


def test_every_flag_is_one_that_the_cli_takes(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("You test.")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    (tmp_path / "plugin").mkdir()
    first = {
        "model": "sonnet",
        "fallback_model": ["haiku", "opus"],
        "thinking": ThinkingEnabled(budget_tokens=2000, display="summarized"),
        "effort": "low",
        "max_turns": 3,
        "max_budget_usd": 0.5,
        "task_budget": 20_000,
        "betas": ["context-1m-2025-08-07"],
        "system_prompt": SystemPromptFile(path=tmp_path / "prompt.txt"),
        "tools": ["Bash", "Read"],
        "allowed_tools": ["Bash(git log *)"],
        "skills": ["pdf"],
        "disallowed_tools": ["WebFetch"],
        "mcp_servers": tmp_path / "mcp.json",
        "strict_mcp_config": True,
        "plugins": [tmp_path / "plugin", PluginConfig(path=tmp_path / "plugin", skip_mcp_discovery=True)],
        "permission_mode": "default",
        "can_use_tool": handler,
        "allow_dangerously_skip_permissions": True,
        "additional_directories": [tmp_path, tmp_path / "plugin"],
        "sandbox": {"enabled": False},
        "agents": {"reviewer": REVIEWER},
        "agent": "reviewer",
        "include_partial_messages": True,
        "include_hook_events": True,
        "setting_sources": ["user", "project"],
        "settings": {"includeGitInstructions": False},
        "managed_settings": {"permissions": {"deny": ["WebSearch"]}},
        "project_config_root": tmp_path,
        "session_id": uuid.uuid4(),
        "session_mirror": True,
        "debug": "api,hooks",
        "debug_file": tmp_path / "debug.log",
        "extra_args": {"replay-user-messages": None},
    }
    second = {
        "thinking": ThinkingDisabled(),
        "permission_prompts": "none",
        "persist_session": False,
        "continue_conversation": True,
        "fork_session": True,
        "tools": [],
        "setting_sources": [],
    }
    used: set[str] = set()
    with ScriptedModel(["hello"]) as model:
        for given in (first, second):
            with launched(model.options(**given)) as cli:
                assert cli.reply["claude_code_version"]
            used |= flags_of(cli.plan.argv)
            assert cli.process.returncode == 0
    needs_a_session = {"--resume", "--resume-session-at", "--resume-drops-turn"}
    assert FLAGS - used == needs_a_session


def test_a_session_is_resumed_forked_and_cut() -> None:
    with ScriptedModel(["first", "second", "third"]) as model:
        options = model.options()
        with launched(options) as cli:
            cli.prompt("one")
            kept = next(frame for frame in cli.frames if frame["type"] == "assistant")["uuid"]
            result = cli.prompt("two")
        session = result["session_id"]
        with launched(options.replace(resume=session, fork_session=True, resume_session_at=kept)) as cli:
            assert cli.prompt("three")["session_id"] != session
        last = json.dumps(model.requests[-1].messages)
        assert "one" in last
        assert "two" not in last


def test_servers_reach_the_cli_but_not_its_command_line() -> None:
    quiet = MCPStdioServer(command=sys.executable, args=["-c", "import sys; sys.stdin.read()"], env={"K": "SECRET-ENV"})
    options = {"mcp_servers": {"far": NOBODY, "near": quiet}, "settings": {"env": {"TOKEN": "SECRET-SETTING"}}}
    with ScriptedModel() as model, launched(model.options(**options)) as cli:
        servers = {server["name"]: server["source"] for server in cli.control("mcp_status")["mcpServers"]}
        command = Path(f"/proc/{cli.process.pid}/cmdline")
        seen = command.read_bytes().decode() if command.exists() else " ".join(cli.plan.argv)
        written = [path.read_text() for path in cli.plan.files]
    assert servers == {"far": "dynamic", "near": "dynamic"}
    assert "SECRET" not in seen
    assert ["SECRET-SETTING" in text for text in written] == [True]
    assert not any(path.exists() for path in cli.plan.files)


def test_long_guards_are_in_force() -> None:
    """And variables do what their options say."""
    prompt = "Obey. " * 40_000
    denied = [*(f"mcp__server__tool_{number}" for number in range(LONG_LIST_CHARS // 10)), "WebFetch", "Bash(rm *)"]
    allowed = [f"Bash(git log --max-count={number} *)" for number in range(LONG_LIST_CHARS // 10)]
    options = {
        "system_prompt": prompt,
        "disallowed_tools": denied,
        "allowed_tools": allowed,
        "settings": {"permissions": {"allow": ["Edit"]}},
        "managed_settings": {"permissions": {"deny": ["WebSearch"]}},
        "task_list_tools": True,
        "client_app": "tests/1",
    }
    with ScriptedModel(["ok"]) as model, launched(model.options(**options)) as cli:
        cli.prompt()
        while cli.frames[-1].get("state") != "idle":
            cli.read()
        rules = cli.rules()
    [asked] = model.requests
    assert max(len(argument) for argument in cli.plan.argv) < 200
    assert prompt.strip() in asked.system
    assert {("deny", rule) for rule in denied} | {("allow", rule) for rule in [*allowed, "Edit"]} <= set(rules)
    assert {"TaskCreate", "WebFetch", "WebSearch"} & set(cli.tools) == {"TaskCreate"}
    assert "client-app/tests/1" in asked.headers["user-agent"]
    assert [f["state"] for f in cli.frames if f.get("subtype") == "session_state_changed"] == ["running", "idle"]


class Point(BaseModel):
    x: int
    label: str


class Told(NamedTuple):
    """Options, and what the model is told and offered with them."""

    options: dict[str, Any]
    has: Sequence[str]
    offered: set[str]
    is_the_clis: bool = False
    """Whether the system prompt is the CLI's own."""


DIGGER = AgentDefinition(description="Digs", prompt="You dig.")
TOLD = [
    Told(
        {
            "system_prompt": "You lead.",
            "agents": {"reviewer": REVIEWER, "digger": DIGGER},
            "delegation_guide": DelegationGuide(max_report_chars=1500),
            "max_subagent_depth": 1,
            "max_concurrent_subagents": 2,
        },
        ["You lead.", "| reviewer | default | all | Reviews code |", "1,500 characters"],
        set(),
    ),
    Told(
        {
            "system_prompt": ["Only", "this."],
            "agents": {"digger": DIGGER},
            "max_subagent_depth": 2,
            "can_use_tool": handler,
        },
        ["Only\n\nthis."],
        {"EnterPlanMode", "ExitPlanMode"},
    ),
    Told({"system_prompt": "", "on_question": handler, "output_type": Point}, [], {"AskUserQuestion"}),
    Told(
        {"system_prompt": SystemPromptPreset(append="And this."), "interactions": True, "output_type": list[Point]},
        ["And this."],
        {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"},
        is_the_clis=True,
    ),
]
VALUES: list[tuple[dict[str, object], object]] = [
    ({"x": 1, "label": "a"}, Point(x=1, label="a")),
    ({"value": [{"x": 1, "label": "a"}]}, [Point(x=1, label="a")]),
]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(TOLD[0], id="guide", marks=pytest.mark.long),
        pytest.param(TOLD[1], id="blocks", marks=pytest.mark.long),
        pytest.param(TOLD[2], id="empty", marks=pytest.mark.long),
        pytest.param(TOLD[3], id="preset"),
    ],
)
def test_the_prompt_and_the_tools_of_the_model(told: Told) -> None:
    """The tools that somebody answers are offered, and subagents start subagents as deep as they may."""
    [answer, value] = VALUES[told.is_the_clis]
    dig = {"description": "d", "prompt": "dig", "subagent_type": "digger", "run_in_background": False}
    is_typed = "output_type" in told.options
    call = tool_use("StructuredOutput", answer) if is_typed else tool_use("Agent", dig)
    with (
        ScriptedModel([call, "done"], agents={"dig": "dug"}) as model,
        launched(options := model.options(permission_mode="default", **told.options)) as cli,
    ):
        result = cli.prompt()
    system = model.requests[0].system
    assert (len(system) > 5000) == told.is_the_clis
    assert [text for text in told.has if text not in system] == []
    assert {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"} & set(cli.tools) == told.offered
    if is_typed:
        assert options.output_shape is not None
        assert options.output_shape.adapter.validate_json(json.dumps(result["structured_output"])) == value
    else:
        [request] = model.requests_of("dig")
        may_delegate = "Agent" in {tool["name"] for tool in request.body["tools"]}
        assert may_delegate == (told.options["max_subagent_depth"] > 1)


def test_every_definition_of_an_agent_that_is_accepted_here_is_accepted_there() -> None:
    """However large it is, in the options or in a file; and the presets take the places of the CLI's own agents."""
    full = AgentDefinition(
        description="Everything",
        prompt="You do everything.",
        tools=["Read"],
        disallowed_tools=["mcp__*"],
        model="sonnet",
        effort="low",
        max_turns=1,
        permission_mode="manual",
        mcp_servers=["far", {"near": NOBODY, "nearer": NOBODY}],
        skills=["pdf"],
        background=True,
        memory="local",
        isolation="worktree",
        initial_prompt="Begin.",
        auto_compact_window=100_000,
        omit_claude_md=True,
        critical_system_reminder="Mind.",
        observer=["watcher"],
        observer_message="Look.",
        observe_subagents=False,
        observe_tool_results=False,
        hooks={"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
        color="red",
    )
    assert full.model_fields_set == set(AgentDefinition.model_fields)
    least = AgentDefinition(description="Nothing", prompt="")
    big = AgentDefinition(description="Knows a lot", prompt="x" * 20_000_000)
    in_a_file = AgentDefinition(
        description='Use it when: "code" changes\n\n- or: tests # fail',
        prompt="You review.",
        tools=["Read", "Bash(git log *)"],
        model="haiku",
        max_turns=7,
        color="red",
    )
    given = {"Explore": REVIEWER, "full": full, "least": least, "big": big, "reviewer": REVIEWER}
    with ScriptedModel() as model:
        folder = model.sandbox.cwd / ".claude" / "agents"
        folder.mkdir(parents=True)
        (folder / "checker.md").write_text(in_a_file.to_markdown("checker"))
        with launched(model.options(agents=given)) as cli:
            found = {one["name"]: one for one in cli.reply["agents"]}
    definitions = {**given, "checker": in_a_file}
    assert {name: found[name]["description"] for name in definitions} == {
        name: definition.description for name, definition in definitions.items()
    }
    assert found["checker"]["model"] == "haiku"


@pytest.mark.long
def test_options_as_they_come_start_a_session() -> None:
    with ScriptedModel(["ok"]) as model:
        environment = model.environment()
        with launched(ClientOptions(env=environment, inherit_env=False, cwd=str(model.sandbox.cwd))) as cli:
            assert cli.prompt()["result"] == "ok"
        assert len(model.requests[0].system) > 2000  # the CLI's own
