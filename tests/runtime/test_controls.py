"""Every control method: what it sends, to the letter, and what it makes of the real CLI's reply."""

import json
import math
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, get_args

import pytest
from fake_session import Answer, Body, FakeSession
from recordings_loader import frames

from claude_agent_py import MCPHTTPServer, MCPStdioServer, control
from claude_agent_py.errors import ControlRejectedError, OptionsError
from claude_agent_py.tools import ToolServer

pytestmark = [pytest.mark.anyio, pytest.mark.one_backend]

Call: TypeAlias = Callable[[FakeSession], Awaitable[Any]]
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
    session = FakeSession(payload)
    reply = await call(session)
    assert session.sent == [body]
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
    session = FakeSession(payload)
    reply = await call(session)
    assert session.sent == [body]
    assert json.loads(json.dumps(session.sent)) == session.sent
    assert read(reply) == value


async def test_a_time_without_a_zone_is_refused() -> None:
    session = FakeSession()
    with pytest.raises(OptionsError, match="expires_at: needs a time zone"):
        await session.mcp.call("mcp__ext__write", expires_at=datetime(2026, 11, 22))
    assert session.sent == []


def test_every_request_with_a_model_has_a_method() -> None:
    covered = {row[1]["subtype"] for row in ASKED} | {row[1]["subtype"] for row in MORE}
    models = {getattr(control, name) for name in dir(control) if name.endswith("Request")}
    others = {*get_args(control.RequestFromCLI | control.ControlFrame), control.UnknownControlRequest}
    assert {model.subtype for model in models - others} == covered


# What goes wrong ------------------------------------------------------------------------------------------------------


async def test_a_refusal_reaches_the_caller_as_it_is() -> None:
    refusal = ControlRejectedError("read_file", "not allowed", None, "req_1")
    with pytest.raises(ControlRejectedError) as caught:
        await FakeSession(refusal).files.read("nope")
    assert caught.value is refusal


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
    session = FakeSession()
    with pytest.raises(OptionsError) as caught:
        await call(session)
    assert str(caught.value.option).startswith(option)
    assert session.sent == []


async def test_text_that_is_not_unicode_is_refused_and_any_mapping_or_sequence_accepted() -> None:
    session = FakeSession()
    with pytest.raises(OptionsError, match="not valid Unicode"):
        await session.files.rewind("m", dry_run="\ud800")  # type: ignore[arg-type]
    assert session.sent == []
    await session.settings.apply(MappingProxyType({"env": MappingProxyType({"A": "1"})}))
    assert session.sent == [{"subtype": "apply_flag_settings", "settings": {"env": {"A": "1"}}}]
    await session.settings.apply({"list": deque(["a"])})
    assert session.sent[1:] == [{"subtype": "apply_flag_settings", "settings": {"list": ["a"]}}]


async def test_arguments_that_are_no_json_are_refused_and_not_shown() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    session = FakeSession()
    with pytest.raises(OptionsError, match="not JSON") as caught:
        await session.settings.apply({"env": {"TOKEN": Secret()}})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None
    assert session.sent == []


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "limit"),
    [
        (lambda s: s.settings.get(), None),
        (lambda s: s.side_question("q", timeout=90), 90),
        (lambda s: s.mcp.call("mcp__a__b"), 125.0),
        (lambda s: s.mcp.call("mcp__a__b", timeout=10), 15.0),
        (lambda s: s.mcp.call("mcp__a__b", timeout=10, check_permissions=True), math.inf),
        (lambda s: s.mcp.reconnect("a", timeout=40), 40),
    ],
)
async def test_the_reply_is_waited_for_as_long_as_the_request_may_take(call: Call, limit: float | None) -> None:
    session = FakeSession(lambda body: {"content": ""} if body["subtype"] == "mcp_call" else {})
    await call(session)
    assert session.timeouts == [limit]


# Servers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "servers",
    [{"calc": object()}, {"calc": {"type": "carrier-pigeon"}}, {"calc": {"type": "stdio"}}],
    ids=["no server", "unknown type", "no command"],
)
async def test_a_wrong_server_is_named_and_nothing_is_sent(servers: dict[str, Any]) -> None:
    session = FakeSession()
    with pytest.raises(OptionsError, match="'calc'"):
        await session.mcp.set_servers(servers)
    assert session.sent == []


class Hosting(FakeSession):
    """A session that can host servers; it records which were hosted when the request came."""

    def __init__(self, answer: Answer, **servers: ToolServer) -> None:
        super().__init__(answer, **servers)
        self.hosted_when_asked: list[str] = []

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> Body:
        self.hosted_when_asked = sorted(self.host.servers)
        return await super().control(subtype, timeout=timeout, **fields)


async def test_a_server_in_this_process_is_hosted_before_the_cli_gets_it() -> None:
    old, kept = ToolServer("old"), ToolServer("kept")
    new = ToolServer("new", policies={}, tools=[])
    session = Hosting({"added": ["new"], "removed": ["old"]}, old=old, kept=kept)
    await session.mcp.set_servers({"new": new, "kept": kept, "out": SERVER})
    assert session.sent[0]["servers"] == {
        "new": {"type": "sdk", "name": "new", **new.config()},
        "kept": {"type": "sdk", "name": "kept", **kept.config()},
        "out": {"type": "stdio", "command": "/bin/srv", "args": []},
    }
    assert session.hosted_when_asked == ["kept", "new", "old"]
    assert session.host.servers == {"new": new, "kept": kept}


async def test_a_server_that_stays_keeps_its_conversation() -> None:
    kept = ToolServer("kept")
    session = Hosting({}, kept=kept)
    before = session.host._get_session("kept")
    await session.mcp.set_servers({"kept": kept})
    assert session.host._get_session("kept") is before


async def test_another_server_under_the_same_name_is_told_as_one_gone_and_one_come() -> None:
    def answer(body: Body) -> Body:
        return {"removed": ["one", "tools"]} if not body["servers"] else {"added": ["one"]}

    one, other, new = ToolServer("one"), ToolServer("one"), ToolServer("new")
    session = Hosting(answer, one=one, tools=ToolServer("tools"))
    reply = await session.mcp.set_servers({"one": other, "new": new})
    both = {name: {"type": "sdk", "name": name, **new.config()} for name in ("one", "new")}
    assert [body["servers"] for body in session.sent] == [{}, both]
    assert (reply.added, reply.removed) == (["one"], ["one", "tools"])
    assert session.host.servers == {"one": other, "new": new}


async def test_after_a_refusal_the_same_servers_are_hosted_as_before() -> None:
    def answer(body: Body) -> Body:
        if "two" in body["servers"]:
            raise ControlRejectedError("mcp_set_servers", "no")
        return {}

    one, other = ToolServer("one"), ToolServer("one")
    session = Hosting(answer, one=one)
    with pytest.raises(ControlRejectedError):
        await session.mcp.set_servers({"one": other, "two": ToolServer("two")})
    assert session.hosted_when_asked == ["one", "two"]
    assert session.host.servers == {"one": one}
