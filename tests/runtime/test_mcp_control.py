"""`client.mcp`: waiting until servers are up, and the limits of its requests."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from bounds import set_bound
from fake_session import Body, FakeSession, MCPControls

from claude_agent_py.errors import ControlRejectedError, MCPNotReadyError
from claude_agent_py.tools import ToolServer

pytestmark = pytest.mark.anyio


def servers(**states: str) -> Body:
    return {"mcpServers": [{"name": name, "status": status} for name, status in states.items()]}


def in_turn(*payloads: Body) -> Callable[[Body], Body]:
    """Answer with one after the other, and with the last from then on."""
    rest = list(payloads)
    return lambda _: rest.pop(0) if len(rest) > 1 else rest[0]


async def test_ready_waits_until_no_server_is_pending() -> None:
    session = FakeSession(
        in_turn(
            servers(a="pending", b="pending"),
            servers(a="connected", b="pending"),
            servers(a="connected", b="failed", c="needs-auth", d="disabled"),
        )
    )
    with anyio.fail_after(30):
        settled = await session.mcp.ready()
    assert {server.name: server.status for server in settled} == {
        "a": "connected",
        "b": "failed",
        "c": "needs-auth",
        "d": "disabled",
    }
    assert session.sent == [{"subtype": "mcp_status"}] * 3


async def test_ready_looks_once_where_nothing_is_pending() -> None:
    session = FakeSession(servers())
    assert await session.mcp.ready(timeout=5) == []
    assert len(session.sent) == 1


async def test_ready_names_the_servers_that_were_not_up_in_time() -> None:
    session = FakeSession(servers(slow="pending", quick="connected", slower="pending"))
    with pytest.raises(MCPNotReadyError, match=r"0\.2 s: 'slow', 'slower'") as caught:
        await session.mcp.ready(timeout=0.2)
    assert caught.value.servers == ["slow", "slower"]
    assert caught.value.timeout == 0.2
    assert isinstance(caught.value, TimeoutError)
    assert len(session.sent) <= 5  # it does not look all the time


async def test_ready_is_bounded_when_the_cli_does_not_answer() -> None:
    class Silent(FakeSession):
        async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> Body:
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.fail_after(30), pytest.raises(MCPNotReadyError) as caught:
        await Silent().mcp.ready(timeout=0.05)
    assert caught.value.servers == []


async def test_ready_waits_for_a_server_of_this_process_only_until_it_counts_as_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = FakeSession(servers(), calc=ToolServer("calc"))
    with pytest.raises(MCPNotReadyError, match="'calc'"):
        await session.mcp.ready(timeout=0.01)
    set_bound(monkeypatch, "LISTED_WITHIN", 0.0)
    with anyio.fail_after(30):
        assert await session.mcp.ready() == []


async def test_ready_raises_what_the_session_raises() -> None:
    with pytest.raises(ControlRejectedError):
        await FakeSession(ControlRejectedError("mcp_status", "no")).mcp.ready()


@pytest.mark.parametrize(
    ("call", "body", "limit"),
    [
        (lambda mcp: mcp.reconnect("a", timeout=9), {"subtype": "mcp_reconnect", "serverName": "a"}, 9),
        (lambda mcp: mcp.toggle("a", True), {"subtype": "mcp_toggle", "serverName": "a", "enabled": True}, None),
        (lambda mcp: mcp.set_servers({}, timeout=8), {"subtype": "mcp_set_servers", "servers": {}}, 8),
        (
            lambda mcp: mcp.call("mcp__a__b", {"x": 1}, timeout=2),
            {"subtype": "mcp_call", "tool": "mcp__a__b", "arguments": {"x": 1}, "timeout_ms": 2000},
            7.0,
        ),
        (
            lambda mcp: mcp.read_resource("a", "ui://x"),
            {"subtype": "mcp_read_resource", "serverName": "a", "uri": "ui://x"},
            None,
        ),
    ],
)
async def test_a_request_of_mcp_has_its_own_limit(
    call: Callable[[MCPControls], Awaitable[Any]], body: Body, limit: float | None
) -> None:
    session = FakeSession({"contents": [], "content": "ok"})
    await call(session.mcp)
    assert session.sent == [body]
    assert session.timeouts == [limit]


async def test_status_gives_the_servers() -> None:
    assert [server.name for server in await FakeSession(servers(a="connected")).mcp.status()] == ["a"]
