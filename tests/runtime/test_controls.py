"""Every control method: what it sends, to the letter, and what it makes of the real CLI's reply."""

import math
from collections import deque
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, get_args

import anyio
import pytest
from asking_cli import asking
from peers import start_in_memory
from recordings_loader import frames
from timers import seconds_to_next_timer

from claude_agent_py import Client, MCPHTTPServer, MCPStdioServer, Timeouts, control
from claude_agent_py.errors import ControlRejectedError, OptionsError
from claude_agent_py.testing import FakeCLI, frames as frames_of_cli, steps
from claude_agent_py.tools import ToolServer, tool

pytestmark = [pytest.mark.anyio, pytest.mark.one_backend]

Body: TypeAlias = dict[str, Any]
Call: TypeAlias = Callable[[Client], Coroutine[Any, Any, Any]]
FILE = "/home/user/project/a.txt"
PROMPT = "6e2043f6-a51e-41ec-a056-61162184fe21"
QUEUED = "d4d2a37a-0369-4dcd-b80b-ab57f578e432"


def _recorded() -> list[tuple[Body, Body]]:
    """Yield every request of the recording with the payload of its successful reply."""
    name = "control/03_control_requests"
    asked = {f["request_id"]: f["request"] for f in frames(name, "in") if {"request_id", "request"} <= f.keys()}
    replies = [
        f["response"] for f in frames(name) if f["type"] == "control_response" and f["response"]["subtype"] == "success"
    ]
    return [(asked[r["request_id"]], r.get("response") or {}) for r in replies if r["request_id"] in asked]


RECORDED = _recorded()


def payload_of(body: Body) -> Body:
    """Return what the real CLI answered to exactly this body."""
    return next(payload for asked, payload in RECORDED if asked == body)


# Asked of the real CLI with the same body -----------------------------------------------------------------------------

ASKED: list[tuple[Call, Body, Callable[[Any], Any], Any]] = [
    (lambda s: s.interrupt(), {"subtype": "interrupt"}, lambda r: r.still_queued, ()),
    (
        lambda s: s.conversation.cancel_prompt(QUEUED),
        {"subtype": "cancel_async_message", "message_uuid": QUEUED},
        lambda r: r.cancelled,
        False,
    ),
    (
        lambda s: s.files.rewind(PROMPT, dry_run=True),
        {"subtype": "rewind_files", "user_message_id": PROMPT, "dry_run": True},
        lambda r: (r.can_rewind, len(r.files_changed), r.insertions, r.deletions),
        (True, 2, 1, 2),
    ),
    (
        lambda s: s.files.rewind(PROMPT),
        {"subtype": "rewind_files", "user_message_id": PROMPT},
        lambda r: (r.can_rewind, r.skipped_links, r.files_changed),
        (True, 0, None),
    ),
    (
        lambda s: s.side_question("what?"),
        {"subtype": "side_question", "question": "what?"},
        lambda r: (r.response, r.synthetic),
        ("done", False),
    ),
    (
        lambda s: s.conversation.generate_title("hello world", persist=True),
        {"subtype": "generate_session_title", "description": "hello world", "persist": True},
        lambda r: r.title,
        None,
    ),
    (lambda s: s.conversation.rename("T1"), {"subtype": "rename_session", "title": "T1"}, lambda r: r, None),
    (
        lambda s: s.set_model("claude-haiku-4-5"),
        {"subtype": "set_model", "model": "claude-haiku-4-5"},
        lambda r: r.model,
        "claude-haiku-4-5",
    ),
    (lambda s: s.set_model(), {"subtype": "set_model", "model": None}, lambda r: r.model, "claude-opus-5-5"),
    (
        lambda s: s.list_models(),
        {"subtype": "list_models"},
        lambda r: (r.models[0].value, r.models[0].resolved_model),
        ("default", "claude-opus-5-5"),
    ),
    (
        lambda s: s.set_permission_mode("manual"),
        {"subtype": "set_permission_mode", "mode": "manual"},
        lambda r: r.mode,
        "default",
    ),
    (
        lambda s: s.set_max_thinking_tokens(1024),
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 1024},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.set_max_thinking_tokens(None),
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": None},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.settings.get(),
        {"subtype": "get_settings"},
        lambda r: (r.sources, r.applied.model, r.applied.effort),
        ([], "claude-opus-5-5", "medium"),
    ),
    (
        lambda s: s.settings.apply({"model": "claude-haiku-4-5", "permissions": {"deny": ["WebFetch"]}}),
        {
            "subtype": "apply_flag_settings",
            "settings": {"model": "claude-haiku-4-5", "permissions": {"deny": ["WebFetch"]}},
        },
        lambda r: r,
        None,
    ),
    (
        lambda s: s.settings.update("localSettings", {"outputStyle": "default"}),
        {"subtype": "update_settings", "source": "localSettings", "settings": {"outputStyle": "default"}},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.settings.permission_rules(),
        {"subtype": "list_permission_rules"},
        lambda r: [(rule.behavior, rule.rule) for rule in r.state.rules],
        [("deny", "WebFetch")],
    ),
    (
        lambda s: s.settings.hooks(),
        {"subtype": "get_hooks_listing"},
        lambda r: (r.hooks, r.event_catalog[0].name, r.event_catalog[0].supports_matcher),
        ([], "PreToolUse", True),
    ),
    (
        lambda s: s.settings.reload_plugins(),
        {"subtype": "reload_plugins"},
        lambda r: (r.error_count, r.held, r.agents[0].name),
        (0, None, "claude"),
    ),
    (lambda s: s.settings.reload_skills(), {"subtype": "reload_skills"}, lambda r: r.skills[0].name, "dataviz"),
    (
        lambda s: s.settings.reload_output_styles(),
        {"subtype": "reload_output_styles"},
        lambda r: r.available_output_styles[0],
        "default",
    ),
    (
        lambda s: s.usage.context(),
        {"subtype": "get_context_usage"},
        lambda r: (r.total_tokens, r.max_tokens, r.categories[0].id),
        (2607, 1000000, "system_prompt"),
    ),
    (
        lambda s: s.usage.session(skip_behaviors=True),
        {"subtype": "get_usage", "skip_behaviors": True},
        lambda r: (r.session.total_cost_usd, r.rate_limits_available, r.behaviors),
        (0.0032, False, None),
    ),
    (
        lambda s: s.usage.cost(),
        {"subtype": "get_session_cost"},
        lambda r: r.text.split()[:3],
        ["Estimated", "cost:", "$0.0032"],
    ),
    (lambda s: s.version(), {"subtype": "get_binary_version"}, lambda r: r.version, "2.1.328"),
    (
        lambda s: s.files.read(Path(FILE)),
        {"subtype": "read_file", "path": FILE},
        lambda r: (r.contents, r.abs_path, r.lossy),
        ("orig\n", FILE, False),
    ),
    (
        lambda s: s.files.suggest("a"),
        {"subtype": "file_suggestions", "query": "a"},
        lambda r: (r.suggestions, r.cwd),
        ([], "/home/user/project"),
    ),
    (
        lambda s: s.files.seed_read_state(FILE, 1795146673.881),
        {"subtype": "seed_read_state", "path": FILE, "mtime": 1795146673881},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.mcp.status(),
        {"subtype": "mcp_status"},
        lambda r: [(server.name, server.status, len(server.tools)) for server in r],
        [("calc", "connected", 2)],
    ),
    (
        lambda s: s.mcp.toggle("calc", False),
        {"subtype": "mcp_toggle", "serverName": "calc", "enabled": False},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.mcp.set_servers({}),
        {"subtype": "mcp_set_servers", "servers": {}},
        lambda r: (r.added, r.removed, r.errors),
        ([], ["dyn", "bad"], {}),
    ),
]


@pytest.mark.parametrize(
    ("call", "body", "read", "value"), ASKED, ids=lambda v: v.get("subtype", "") if isinstance(v, dict) else ""
)
async def test_a_method_sends_what_the_real_cli_was_sent_and_reads_its_reply(
    call: Call, body: Body, read: Callable[[Any], Any], value: Any
) -> None:
    payload = payload_of(body)
    async with asking(otherwise=payload) as cli:
        reply = await call(cli.client)
    assert cli.asked[:1] == [body]
    assert read(reply) == value
    if hasattr(reply, "raw"):
        assert reply.raw == payload


# Further arguments, and replies measured one by one -------------------------------------------------------------------

SERVER = MCPStdioServer(command="/bin/srv")
EXT = {"command": "/bin/srv", "args": ["-v"], "timeout": 2000}
MORE: list[tuple[Call, Body, Body, Callable[[Any], Any], Any]] = [
    (
        lambda s: s.interrupt(cancel_queued=True),
        {"subtype": "interrupt", "cancel_queued": True},
        {"still_queued": [], "cancelled": ["u1"]},
        lambda r: r.cancelled,
        ("u1",),
    ),
    (
        lambda s: s.side_question("q2?", history=[("q1?", "a1")]),
        {"subtype": "side_question", "question": "q2?", "history": [{"question": "q1?", "response": "a1"}]},
        {"response": "a2", "synthetic": False},
        lambda r: r.response,
        "a2",
    ),
    (
        lambda s: s.conversation.export(),
        {"subtype": "export_conversation"},
        {"text": "\n> hi\n\n● Hello.", "default_filename": "2026-11-20-045012-hi.txt"},
        lambda r: (r.text[-6:], r.default_filename[-6:]),
        ("Hello.", "hi.txt"),
    ),
    (lambda s: s.request_exit(), {"subtype": "end_session"}, {}, lambda r: r, None),
    (
        lambda s: s.set_max_thinking_tokens(None, None),
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": None, "thinking_display": None},
        {},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.set_max_thinking_tokens(0, "omitted"),
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0, "thinking_display": "omitted"},
        {},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.settings.apply({"model": None}),
        {"subtype": "apply_flag_settings", "settings": {"model": None}},
        {},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.settings.reload_plugins(
            add_plugins=[{"type": "local", "path": "/p"}], hold_on_cache_impact=True, refuse_if_busy=True
        ),
        {
            "subtype": "reload_plugins",
            "add_plugins": [{"type": "local", "path": "/p"}],
            "hold_on_cache_impact": True,
            "refuse_if_busy": True,
        },
        {"commands": [], "held": True, "cache_impact": {"mcp_servers_added": ["x"], "lsp_tool_change": "adds"}},
        lambda r: (r.held, r.cache_impact.mcp_servers_added, r.cache_impact.lsp_tool_change),
        (True, ["x"], "adds"),
    ),
    (
        lambda s: s.usage.context("summary"),
        {"subtype": "get_context_usage", "detail": "summary"},
        {"totalTokens": 5},
        lambda r: r.total_tokens,
        5,
    ),
    (
        lambda s: s.status(),
        {"subtype": "get_status"},
        {"sections": [{"title": "Session", "rows": [{"label": "Version", "value": "2.1.328"}]}]},
        lambda r: [(row.label, row.value) for section in r.sections for row in section.rows],
        [("Version", "2.1.328")],
    ),
    (
        lambda s: s.conversation.plan(),
        {"subtype": "get_plan"},
        {"exists": False},
        lambda r: (r.exists, r.content),
        (False, None),
    ),
    (
        lambda s: s.files.diff(),
        {"subtype": "get_workspace_diff"},
        {"diff": None, "noDiffReason": "no-repository"},
        lambda r: r["noDiffReason"],
        "no-repository",
    ),
    (
        lambda s: s.files.read("a.txt", max_bytes=2, encoding="base64"),
        {"subtype": "read_file", "path": "a.txt", "max_bytes": 2, "encoding": "base64"},
        {"contents": "b3I=", "absPath": "/w/a.txt", "truncated": True, "encoding": "base64"},
        lambda r: (r.contents, r.truncated, r.encoding),
        ("b3I=", True, "base64"),
    ),
    (
        lambda s: s.files.add_root(Path("/w/sub"), reload_claude_md=True, reload_plugins=True, reload_skills=True),
        {
            "subtype": "register_repo_root",
            "directory": "/w/sub",
            "reload_claude_md": True,
            "reload_plugins": True,
            "reload_skills": True,
        },
        {"directory": "/w/sub"},
        lambda r: r.directory,
        "/w/sub",
    ),
    (
        lambda s: s.files.set_cwd("/w/sub"),
        {"subtype": "set_cwd", "path": "/w/sub"},
        {"status": "needs_trust", "directory": "/w/sub"},
        lambda r: (r.status, r.directory),
        ("needs_trust", "/w/sub"),
    ),
    (
        lambda s: s.files.set_cwd("/w/sub", trusted_directory="/w/sub"),
        {"subtype": "set_cwd", "path": "/w/sub", "trust_accepted": True, "trusted_directory": "/w/sub"},
        {"status": "ok", "cwd": "/w/sub", "changed": True, "transcript_relocated": True},
        lambda r: (r.status, r.cwd, r.changed),
        ("ok", "/w/sub", True),
    ),
    (
        lambda s: s.mcp.reconnect("ext"),
        {"subtype": "mcp_reconnect", "serverName": "ext"},
        {},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.mcp.set_servers(
            {
                "bare": SERVER,
                "file": EXT,
                "web": MCPHTTPServer(url="https://x.example/mcp", headers={"A": "b"}),
            }
        ),
        {
            "subtype": "mcp_set_servers",
            "servers": {
                "bare": {"type": "stdio", "command": "/bin/srv", "args": []},
                "file": {"type": "stdio", **EXT},
                "web": {"type": "http", "url": "https://x.example/mcp", "headers": {"A": "b"}},
            },
        },
        {"added": ["bare", "file"], "removed": [], "errors": {"web": "ECONNREFUSED"}},
        lambda r: r.errors,
        {"web": "ECONNREFUSED"},
    ),
    (
        lambda s: s.mcp.call("mcp__ext__add", {"a": 1}),
        {"subtype": "mcp_call", "tool": "mcp__ext__add", "arguments": {"a": 1}},
        {"content": '{"sum":1}', "structuredContent": {"sum": 1}, "_meta": {"k": 1}},
        lambda r: (r.content, r.structured_content, r.meta),
        ('{"sum":1}', {"sum": 1}, {"k": 1}),
    ),
    (
        lambda s: s.mcp.call("mcp__ext__now", timeout=1.5, check_permissions=True),
        {"subtype": "mcp_call", "tool": "mcp__ext__now", "timeout_ms": 1500, "check_permissions": True},
        {"content": "12:00"},
        lambda r: r.content,
        "12:00",
    ),
    (
        lambda s: s.mcp.call(
            "mcp__ext__write",
            result_not_for_model=True,
            expires_at=datetime(2026, 11, 22, 12, tzinfo=UTC),
            input_files=[{"name": "a", "lane_path": "/a"}],
            output_files=[{"name": "b", "lane_path": "/b"}],
        ),
        {
            "subtype": "mcp_call",
            "tool": "mcp__ext__write",
            "result_not_for_model": True,
            "expires_at": "2026-11-22T12:00:00+00:00",
            "input_files": [{"name": "a", "lane_path": "/a"}],
            "output_files": [{"name": "b", "lane_path": "/b"}],
        },
        {"content": [], "staging": {"inputs_used": []}},
        lambda r: r.staging,
        {"inputs_used": []},
    ),
    (
        lambda s: s.mcp.status(),
        {"subtype": "mcp_status"},
        {"mcpServers": []},
        lambda r: r,
        [],
    ),
    (
        lambda s: s.mcp.authenticate("ext", redirect_uri="app://back", redirect_uri_only=True),
        {"subtype": "mcp_authenticate", "serverName": "ext", "redirectUri": "app://back", "redirectUriOnly": True},
        {"authUrl": "https://x", "requiresUserAction": True, "callbackExpected": True, "redirectScheme": "custom"},
        lambda r: (r.auth_url, r.requires_user_action, r.callback_expected, r.redirect_scheme),
        ("https://x", True, True, "custom"),
    ),
    (
        lambda s: s.mcp.submit_oauth_callback("ext", "app://back?code=1"),
        {"subtype": "mcp_oauth_callback_url", "serverName": "ext", "callbackUrl": "app://back?code=1"},
        {},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.mcp.clear_auth("ext"),
        {"subtype": "mcp_clear_auth", "serverName": "ext"},
        {},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.conversation.rename("T", source="host", session_id="s1"),
        {"subtype": "rename_session", "title": "T", "source": "host", "session_id": "s1"},
        {},
        lambda r: r,
        None,
    ),
    (
        lambda s: s.settings.hooks(),
        {"subtype": "get_hooks_listing"},
        {
            "hooks": [
                {
                    "event": "Stop",
                    "contentLabel": "Command",
                    "statusMessage": "Checking",
                    "runsOnce": True,
                    "runsInBackground": True,
                    "editable": {"matcher": "", "config": {}},
                }
            ],
            "policy": {"policyUnreadable": True},
            "safeMode": {"exitHint": "a"},
            "bareMode": {"exitHint": "b"},
        },
        lambda r: (
            [(h.content_label, h.status_message, h.runs_once, h.runs_in_background, h.editable) for h in r.hooks],
            r.policy.policy_unreadable,
            r.safe_mode,
            r.bare_mode,
        ),
        (
            [("Command", "Checking", True, True, {"matcher": "", "config": {}})],
            True,
            {"exitHint": "a"},
            {"exitHint": "b"},
        ),
    ),
    (
        lambda s: s.mcp.read_resource("ext", "ui://x"),
        {"subtype": "mcp_read_resource", "serverName": "ext", "uri": "ui://x"},
        {"contents": [{"uri": "ui://x", "mimeType": "text/html", "text": "<p>hi</p>"}]},
        lambda r: (r.contents[0].mime_type, r.contents[0].text),
        ("text/html", "<p>hi</p>"),
    ),
    (
        lambda s: s.mcp.set_permission_mode("ext", "default"),
        {"subtype": "set_mcp_permission_mode_override", "serverName": "ext", "mode": "default"},
        {"warning": "MCP server 'ext' is not yet known"},
        lambda r: r,
        "MCP server 'ext' is not yet known",
    ),
    (
        lambda s: s.mcp.set_permission_mode("ext", None, ask_for_tools=[{"name": "add"}]),
        {
            "subtype": "set_mcp_permission_mode_override",
            "serverName": "ext",
            "mode": None,
            "askForTools": [{"name": "add"}],
        },
        {},
        lambda r: r,
        None,
    ),
]


@pytest.mark.parametrize(
    ("call", "body", "payload", "read", "value"),
    MORE,
    ids=lambda v: v.get("subtype", "") if isinstance(v, dict) else "",
)
async def test_a_method_sends_its_further_arguments_and_reads_the_reply(
    call: Call, body: Body, payload: Body, read: Callable[[Any], Any], value: Any
) -> None:
    async with asking(otherwise=payload) as cli:
        reply = await call(cli.client)
    assert cli.asked == [body]
    assert read(reply) == value


async def test_a_time_without_a_zone_is_refused() -> None:
    async with asking() as cli:
        with pytest.raises(OptionsError, match="expires_at: needs a time zone"):
            await cli.client.mcp.call("mcp__ext__write", expires_at=datetime(2026, 11, 22))
    assert cli.asked == []


def test_every_request_with_a_model_has_a_method() -> None:
    covered = {row[1]["subtype"] for row in ASKED} | {row[1]["subtype"] for row in MORE}
    models = {getattr(control, name) for name in dir(control) if name.endswith("Request")}
    others = {*get_args(control.RequestFromCLI | control.ControlFrame), control.UnknownControlRequest}
    assert {model.subtype for model in models - others} == covered


# What goes wrong ------------------------------------------------------------------------------------------------------


async def test_a_refusal_reaches_the_caller_as_it_is() -> None:
    async with asking(otherwise=PermissionError("not allowed")) as cli:
        with pytest.raises(ControlRejectedError) as caught:
            await cli.client.files.read("nope")
    assert (caught.value.subtype, caught.value.error) == ("read_file", "not allowed")


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda s: s.set_model(5), "model"),
        (lambda s: s.set_permission_mode(None), "mode"),
        (lambda s: s.conversation.rename(7), "title"),
        (lambda s: s.files.read("a", max_bytes="many"), "max_bytes"),
        (lambda s: s.files.seed_read_state("a", math.nan), "mtime"),
        (lambda s: s.files.seed_read_state("a", "now"), "mtime"),
        (lambda s: s.side_question("q", history=["ab", "c"]), "history"),
        (lambda s: s.mcp.call("t", 5), "arguments"),
        (lambda s: s.mcp.call("t", input_files=[3]), "input_files"),
        (lambda s: s.mcp.call("t", timeout=math.nan), "timeout"),
        (lambda s: s.mcp.call("t", timeout=math.inf), "timeout"),
        (lambda s: s.mcp.ready("soon"), "timeout"),
        (lambda s: s.settings.apply(["a"]), "settings"),
    ],
)
async def test_a_wrong_argument_is_reported_by_name_and_never_sent(call: Any, option: str) -> None:
    async with asking() as cli:
        with pytest.raises(OptionsError) as caught:
            await call(cli.client)
    assert str(caught.value.option).startswith(option)
    assert cli.asked == []


async def test_text_that_is_not_unicode_is_refused_and_any_mapping_or_sequence_accepted() -> None:
    async with asking() as cli:
        with pytest.raises(OptionsError, match="not valid Unicode"):
            await cli.client.files.rewind("m", dry_run="\ud800")  # type: ignore[arg-type]
        assert cli.asked == []
        await cli.client.settings.apply(MappingProxyType({"env": MappingProxyType({"A": "1"})}))
        assert cli.asked == [{"subtype": "apply_flag_settings", "settings": {"env": {"A": "1"}}}]
        await cli.client.settings.apply({"list": deque(["a"])})
        assert cli.asked[1:] == [{"subtype": "apply_flag_settings", "settings": {"list": ["a"]}}]


async def test_a_rule_that_the_cli_ignores_is_an_error_of_the_one_who_applied_it() -> None:
    kept = {"sources": [{"source": "flagSettings", "settings": {"permissions": {"deny": ["Bash"]}}}]}
    async with asking(answers={"get_settings": kept}) as cli:
        await cli.client.settings.apply({"permissions": {"deny": deque(["Bash"]), "allow": ["read"]}})
        with pytest.raises(OptionsError, match="settings: the CLI ignores the deny rule 'bash'"):
            await cli.client.settings.apply({"permissions": {"deny": ["Bash", "bash"]}})


async def test_arguments_that_are_no_json_are_refused_and_not_shown() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    async with asking() as cli:
        with pytest.raises(OptionsError, match="not JSON") as caught:
            await cli.client.settings.apply({"env": {"TOKEN": Secret()}})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None
    assert cli.asked == []


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "limit"),
    [
        (lambda s: s.settings.get(), 77),
        (lambda s: s.side_question("q", timeout=90), 90),
        (lambda s: s.mcp.call("mcp__a__b"), 125.0),
        (lambda s: s.mcp.call("mcp__a__b", timeout=10), 15.0),
        (lambda s: s.mcp.call("mcp__a__b", timeout=10, check_permissions=True), math.inf),
        (lambda s: s.mcp.reconnect("a", timeout=40), 40),
    ],
)
async def test_the_reply_is_waited_for_as_long_as_the_request_may_take(call: Call, limit: float) -> None:
    never = dict.fromkeys(("get_settings", "side_question", "mcp_call", "mcp_reconnect"))
    async with start_in_memory(FakeCLI(answers=never), timeouts=Timeouts(control=77.0)) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(call, client)
            await anyio.wait_all_tasks_blocked()
            assert seconds_to_next_timer() == pytest.approx(limit, abs=4)
            group.cancel_scope.cancel()


# Servers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "servers",
    [{"calc": object()}, {"calc": {"type": "carrier-pigeon"}}, {"calc": {"type": "stdio"}}],
    ids=["no server", "unknown type", "no command"],
)
async def test_a_wrong_server_is_named_and_nothing_is_sent(servers: dict[str, Any]) -> None:
    async with asking() as cli:
        with pytest.raises(OptionsError, match="'calc'"):
            await cli.client.mcp.set_servers(servers)
    assert cli.asked == []


NAMES = ("kept", "new", "old", "one", "tools", "two")
"""The servers that the CLI of these tests asks for."""


def server_with(name: str, tool_name: str) -> ToolServer:
    """Return a server with one tool."""

    @tool(name=tool_name)
    def nothing() -> str:
        """Do nothing."""
        return ""

    return ToolServer(name, tools=[nothing])


def look(number: int) -> list[Any]:
    """Have the CLI ask all servers of this process for their tools."""
    return [frames_of_cli.mcp_message(f"{number}-{name}", name, "tools/list") for name in NAMES]


def hosted(fake: FakeCLI, number: int) -> dict[str, str]:
    """Return the servers that were there when the CLI asked, each with its tool."""
    found = {}
    for name in NAMES:
        [reply] = fake.received_like({"type": "control_response", "response": {"request_id": f"{number}-{name}"}})
        if reply["response"]["subtype"] == "success":
            for listed in reply["response"]["response"]["mcp_response"].get("result", {}).get("tools", ()):
                found[name] = listed["name"]
    return found


class Setting(NamedTuple):
    """What a CLI was told of servers, and which were there."""

    reply: Any
    """What `set_servers` returned or raised."""
    sent: list[Body]
    """The servers in each request."""
    hosted: list[dict[str, str]]
    """The servers of this process when each request came, and in the end."""


async def set_servers(before: dict[str, Any], servers: dict[str, Any], *answers: Body | str) -> Setting:
    """Set servers with a CLI that looks at those of this process before it answers each request; a text refuses."""
    script = list[Any]()
    for number, answer in enumerate(answers):
        told = steps.answer(error=answer) if isinstance(answer, str) else steps.answer(answer)
        script += [steps.wait_for_request("mcp_set_servers"), look(number), told]
    script += [steps.wait_for_prompt(), look(len(answers))]
    script += [steps.wait_for_reply(f"{number}-{name}") for number in range(len(answers) + 1) for name in NAMES]
    fake = FakeCLI(*script, frames_of_cli.result(), answers={"mcp_set_servers": None})
    reply: Any
    with anyio.fail_after(60):
        async with start_in_memory(fake, mcp_servers=before) as client:
            try:
                reply = await client.mcp.set_servers(servers)
            except ControlRejectedError as error:
                reply = error
            await client.query("look")
    sent = [frame["request"]["servers"] for frame in fake.received_like({"request": {"subtype": "mcp_set_servers"}})]
    return Setting(reply, sent, [hosted(fake, number) for number in range(len(answers) + 1)])


async def test_a_server_in_this_process_is_hosted_before_the_cli_gets_it() -> None:
    old, kept = server_with("old", "a"), server_with("kept", "b")
    new = ToolServer("new", policies={}, tools=server_with("new", "c").tools)
    given = {"new": new, "kept": kept, "out": SERVER}
    done = await set_servers({"old": old, "kept": kept}, given, {"added": ["new"], "removed": ["old"]})
    [sent] = done.sent
    assert sent == {
        "new": {"type": "sdk", "name": "new", **new.config()},
        "kept": {"type": "sdk", "name": "kept", **kept.config()},
        "out": {"type": "stdio", "command": "/bin/srv", "args": []},
    }
    assert done.hosted == [{"kept": "b", "new": "c", "old": "a"}, {"kept": "b", "new": "c"}]


async def test_a_server_that_stays_goes_on_with_its_calls() -> None:
    is_called, goes_on = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        is_called.set()
        await goes_on.wait()
        return "waited"

    kept = ToolServer("kept", tools=[wait])
    async with asking(mcp_servers={"kept": kept}) as cli:
        params = {"name": "wait", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        call = cli.start_asking({"subtype": "mcp_message", "server_name": "kept", "message": message})
        await is_called.wait()
        await cli.client.mcp.set_servers({"kept": kept})
        goes_on.set()
        assert "waited" in str(await cli.reply_to(call))


@pytest.mark.parametrize("names", [["a b", "a.b"], ["a", "a__b"], [""], ["out__b"]])
async def test_servers_whose_tools_a_rule_would_mix_up_are_not_sent(names: list[str]) -> None:
    async with asking(mcp_servers={"out": SERVER}) as cli:
        with pytest.raises(OptionsError, match="mcp_servers: "):
            await cli.client.mcp.set_servers({name: server_with("x", "a") for name in names})
        assert cli.requests("mcp_set_servers") == []


async def test_a_server_may_have_a_name_like_that_of_one_that_goes() -> None:
    async with asking(mcp_servers={"a": server_with("a", "b"), "out": SERVER}) as cli:
        await cli.client.mcp.set_servers({"a__b": server_with("c", "d"), "out": SERVER})
        assert [sorted(request["servers"]) for request in cli.requests("mcp_set_servers")] == [["a__b", "out"]]


async def test_another_server_under_the_same_name_is_told_as_one_gone_and_one_come() -> None:
    before = {"one": server_with("one", "a"), "tools": server_with("tools", "b")}
    given = {"one": server_with("one", "c"), "new": server_with("new", "d")}
    done = await set_servers(before, given, {"removed": ["one", "tools"]}, {"added": ["one"]})
    both = {name: {"type": "sdk", "name": name, **server.config()} for name, server in given.items()}
    assert done.sent == [{}, both]
    assert (done.reply.added, done.reply.removed) == (["one"], ["one", "tools"])
    assert done.hosted[-1] == {"one": "c", "new": "d"}


async def test_after_a_refusal_the_same_servers_are_hosted_as_before() -> None:
    given = {"one": server_with("one", "b"), "two": server_with("two", "c")}
    done = await set_servers({"one": server_with("one", "a")}, given, {}, "no")
    assert isinstance(done.reply, ControlRejectedError)
    assert done.hosted == [{"one": "a"}, {"one": "b", "two": "c"}, {"one": "a"}]
