"""The CLI gets from the options of the official SDK what it gets from the official SDK."""

import json
import sys
import typing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from later import Later
from typing_extensions import ReadOnly

import claude_agent_py.compat as compat
from claude_agent_py.compat.tools import build_schema
from claude_agent_py.testing import FakeCLI, frames, steps

if TYPE_CHECKING:
    import claude_agent_sdk as official
else:
    official = Later("claude_agent_sdk")

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="the fake is a program for POSIX")]

FIELDS = {
    "systemPrompt": "--system-prompt",
    "appendSystemPrompt": "--append-system-prompt",
    "jsonSchema": "--json-schema",
}
"""The fields of `initialize` that are flags of the official SDK."""

OWN = {"--await-initialize", "perTaskStopAffordance", "subtype"}


class Point(typing.TypedDict):
    x: int
    y: typing.NotRequired[float]


POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "number"}}, "required": ["x"]}


async def hook(data: Any, tool_use_id: str | None, context: Any) -> Any:
    return {}


def read_flags(argv: list[str]) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            follows = argv[index + 1 : index + 2]
            flags[name] = value if equals else follows[0] if follows and not follows[0].startswith("--") else None
    return flags


async def what_the_cli_gets(sdk: ModuleType, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the flags and the fields of `initialize`, in one dict."""
    reply = {**frames.initialize_response(), "mcp_servers_applied": True} if "mcp_servers" in options else None
    fake = FakeCLI(
        steps.turn("hello"),
        initialize=reply,
        record_env=["CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_CLIENT_APP", "MINE"],
    )
    chosen = sdk.ClaudeAgentOptions(cli_path=fake.install(folder), **options)
    with anyio.fail_after(60):
        [message async for message in sdk.query(prompt="hi", options=chosen)]
    [start] = fake.starts
    [initialize] = fake.requests("initialize")
    flags = read_flags(start.argv)
    body = initialize.get("request", initialize)
    for field, flag in FIELDS.items():
        if field in body:
            text = body.pop(field)
            flags[flag] = text[0] if isinstance(text, list) else json.dumps(text) if isinstance(text, dict) else text
    if "mcpServers" in body:
        flags["--mcp-config"] = json.dumps({"mcpServers": body.pop("mcpServers")})
    hooks = body.pop("hooks", None) or {}
    matchers = {
        event: [(each.get("matcher"), len(each["hookCallbackIds"])) for each in groups]
        for event, groups in hooks.items()
    }
    [prompt] = fake.received_like({"type": "user"})
    got = {**flags, **body, "hooks": matchers, "cwd": start.cwd, **start.environment, "prompt": prompt["message"]}
    return {name: value for name, value in got.items() if name not in OWN}


OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "many": {
        "tools": ["Read", "Bash"],
        "allowed_tools": ["Read", "Bash(git log *)"],
        "disallowed_tools": ["Write"],
        "system_prompt": "be brief",
        "permission_mode": "acceptEdits",
        "max_turns": 3,
        "max_budget_usd": 0.5,
        "model": "sonnet",
        "fallback_model": "haiku",
        "betas": ["context-1m-2025-08-07"],
        "env": {"MINE": "1"},
        "extra_args": {"replay-user-messages": None},
        "include_partial_messages": True,
        "include_hook_events": True,
        "strict_mcp_config": True,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "max_thinking_tokens": 5,
        "effort": "high",
        "output_format": {"type": "json_schema", "schema": {"type": "object"}},
        "task_budget": {"total": 5},
        "client_app": "mine/1",
        "setting_sources": [],
        "forward_subagent_text": True,
    },
    "session": {"resume": "11111111-1111-4111-8111-111111111111", "fork_session": True},
    "what the CLI refuses": {
        "session_id": "no uuid",
        "max_turns": 0,
        "fork_session": True,
        "resume_session_at": "x",
        "resume_drops_turn": "y",
    },
    "a new session": {"session_id": "11111111-1111-4111-8111-111111111111"},
    "skills": {"skills": ["pdf"], "system_prompt": {"type": "preset", "preset": "claude_code", "append": "more"}},
    "no skills": {"skills": []},
    "all skills": {"skills": "all", "tools": [], "system_prompt": {"type": "custom", "prompt": "p", "snapshot": False}},
    "presets": {
        "tools": {"type": "preset", "preset": "claude_code"},
        "thinking": {"type": "adaptive", "display": "omitted"},
    },
    "servers": {
        "mcp_servers": {
            "a": {"type": "stdio", "command": "x", "args": ["y"]},
            "b": {"type": "http", "url": "http://localhost"},
        }
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
async def test_the_cli_gets_what_the_official_sdk_sends(options: dict[str, Any], tmp_path: Path) -> None:
    given = {"cwd": tmp_path, **options}
    theirs = await what_the_cli_gets(official, tmp_path / "official", given)
    ours = await what_the_cli_gets(compat, tmp_path / "compat", given)
    if "client_app" not in options:  # the official SDK derives a name from the program
        ours.pop("CLAUDE_AGENT_SDK_CLIENT_APP"), theirs.pop("CLAUDE_AGENT_SDK_CLIENT_APP")
    assert ours == theirs


async def test_a_result_that_is_longer_than_the_buffer_is_an_error(tmp_path: Path) -> None:
    for sdk in (official, compat):
        cli = FakeCLI(steps.turn("x" * 5000)).install(tmp_path / sdk.__name__)
        options = sdk.ClaudeAgentOptions(cli_path=cli, max_buffer_size=4000)
        with anyio.fail_after(60), pytest.raises(sdk.CLIJSONDecodeError):
            [message async for message in sdk.query(prompt="hi", options=options)]


async def test_an_effort_that_the_cli_ignores_is_not_sent(tmp_path: Path) -> None:
    given = {"cwd": tmp_path, "agents": {"a": compat.AgentDefinition("d", "p", effort=3)}}
    assert (await what_the_cli_gets(compat, tmp_path, given))["agents"] == {"a": {"description": "d", "prompt": "p"}}


async def test_hooks_and_agents_reach_the_cli_as_from_the_official_sdk(tmp_path: Path) -> None:
    got = []
    for sdk in (official, compat):
        agent = sdk.AgentDefinition("d", "p", ["Read"], ["Bash"], "haiku", maxTurns=2, background=True, effort="low")
        hooks = {
            "PreToolUse": [sdk.HookMatcher("Bash", [hook, hook]), sdk.HookMatcher(hooks=[hook])],
            "Stop": [sdk.HookMatcher(hooks=[hook])],
        }
        given = {"cwd": tmp_path, "agents": {"a": agent}, "hooks": hooks}
        got.append(await what_the_cli_gets(sdk, tmp_path / sdk.__name__, given))
    for each in got:
        each.pop("CLAUDE_AGENT_SDK_CLIENT_APP")
    assert got[0] == got[1]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (typing.List, {"type": "array"}),  # noqa: UP006 - as in old programs
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (ReadOnly[int], {"type": "integer"}),
        (typing.Annotated[int, "How many.", 5], {"type": "integer", "description": "How many."}),
        (typing.Annotated[str, 5], {"type": "string"}),
        (int | None, {"type": "integer"}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (
            Point,
            {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "number"}}, "required": ["x"]},
        ),
    ],
)
def test_types_of_parameters_become_the_official_schemas(annotation: Any, schema: dict[str, Any]) -> None:
    assert build_schema({"x": annotation})["properties"] == {"x": schema}


def test_a_whole_schema_of_parameters_is_the_official_one() -> None:
    written = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert build_schema(written) is written
    assert build_schema(Point)["required"] == ["x"]
    assert build_schema(int) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("fields", "wire"),
    [
        (
            {
                "type": "addRules",
                "rules": [compat.PermissionRuleValue("Bash", "ls"), compat.PermissionRuleValue("Read")],
                "behavior": "allow",
            },
            {
                "type": "addRules",
                "destination": "session",
                "rules": [{"toolName": "Bash", "ruleContent": "ls"}, {"toolName": "Read"}],
                "behavior": "allow",
            },
        ),
        (
            {"type": "setMode", "mode": "plan", "destination": "userSettings"},
            {"type": "setMode", "mode": "plan", "destination": "userSettings"},
        ),
    ],
)
def test_an_update_of_permissions_is_that_of_the_wire(fields: dict[str, Any], wire: dict[str, Any]) -> None:
    update = compat.PermissionUpdate(**fields)
    assert update.to_dict() == wire
    assert compat.PermissionUpdate.from_dict(wire).to_dict() == wire


@pytest.mark.parametrize(
    ("fields", "says"), [({"type": "addWings"}, "cannot send"), ({"type": "setMode"}, "has no mode")]
)
def test_an_update_of_permissions_that_the_cli_would_drop_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        compat.PermissionUpdate(**fields).to_dict()


async def test_a_hook_matcher_that_is_a_dict_is_refused() -> None:
    matcher: Any = {"matcher": "Bash", "hooks": [hook]}
    options = compat.ClaudeAgentOptions(hooks={"PreToolUse": [matcher]})
    with pytest.raises(ValueError, match="lists of HookMatcher, not of dict"):
        await anext(aiter(compat.query(prompt="hi", options=options)))


def test_the_official_options_show_no_secrets() -> None:
    agent = compat.AgentDefinition("d", "SECRET", initialPrompt="SECRET", mcpServers=[{"a": {"command": "SECRET"}}])
    options = compat.ClaudeAgentOptions(
        system_prompt="SECRET",
        mcp_servers={"a": {"command": "x", "env": {"K": "SECRET"}}},
        settings='{"env": {"K": "SECRET"}}',
        env={"K": "SECRET"},
        extra_args={"header": "SECRET"},
        agents={"a": agent},
        model="sonnet",
    )
    assert "model='sonnet'" in repr(options)
    assert "SECRET" not in repr(options)
