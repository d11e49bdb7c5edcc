"""`client.mcp`: waiting until servers are up, and the limits of its requests."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from asking_cli import asking
from bounds import set_bound
from peers import start_in_memory
from timers import seconds_to_next_timer

from claude_agent_py import Client, Timeouts
from claude_agent_py.errors import ControlRejectedError, MCPNotReadyError
from claude_agent_py.testing import FakeCLI
from claude_agent_py.tools import ToolServer

pytestmark = pytest.mark.anyio

Body = dict[str, Any]


def servers(**states: str) -> Body:
    return {"mcpServers": [{"name": name, "status": status} for name, status in states.items()]}


def in_turn(*payloads: Body) -> Callable[[Body], Body]:
    """Answer with one after the other, and with the last from then on."""
    rest = list(payloads)
    return lambda _: rest.pop(0) if len(rest) > 1 else rest[0]


async def test_ready_waits_until_no_server_is_pending() -> None:
    answer = in_turn(
        servers(a="pending", b="pending"),
        servers(a="connected", b="pending"),
        servers(a="connected", b="failed", c="needs-auth", d="disabled"),
    )
    async with asking(answers={"mcp_status": answer}) as cli:
        settled = await cli.client.mcp.ready()
    assert {server.name: server.status for server in settled} == {
        "a": "connected",
        "b": "failed",
        "c": "needs-auth",
        "d": "disabled",
    }
    assert cli.asked == [{"subtype": "mcp_status"}] * 3


async def test_ready_looks_once_where_nothing_is_pending() -> None:
    async with asking(answers={"mcp_status": servers()}) as cli:
        assert await cli.client.mcp.ready(timeout=5) == []
    assert len(cli.asked) == 1


async def test_ready_names_the_servers_that_were_not_up_in_time() -> None:
    states = servers(slow="pending", quick="connected", slower="pending")
    async with asking(answers={"mcp_status": states}) as cli:
        with pytest.raises(MCPNotReadyError, match=r"0\.2 s: 'slow', 'slower'") as caught:
            await cli.client.mcp.ready(timeout=0.2)
    assert caught.value.servers == ["slow", "slower"]
    assert caught.value.timeout == 0.2
    assert isinstance(caught.value, TimeoutError)
    assert len(cli.asked) <= 5  # it does not look all the time


async def test_ready_is_bounded_when_the_cli_does_not_answer() -> None:
    with anyio.fail_after(30):
        async with start_in_memory(FakeCLI(answers={"mcp_status": None})) as client:
            with pytest.raises(MCPNotReadyError) as caught:
                await client.mcp.ready(timeout=0.05)
    assert caught.value.servers == []


async def test_ready_waits_for_a_server_of_this_process_only_until_it_counts_as_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asking(answers={"mcp_status": servers()}, mcp_servers={"calc": ToolServer("calc")}) as cli:
        with pytest.raises(MCPNotReadyError, match="'calc'"):
            await cli.client.mcp.ready(timeout=0.01)
        set_bound(monkeypatch, "LISTED_WITHIN", 0.0)
        assert await cli.client.mcp.ready() == []


async def test_ready_raises_what_the_session_raises() -> None:
    async with asking(answers={"mcp_status": RuntimeError("no")}) as cli:
        with pytest.raises(ControlRejectedError):
            await cli.client.mcp.ready()


@pytest.mark.parametrize(
    ("call", "body", "limit"),
    [
        (lambda client: client.mcp.reconnect("a", timeout=9), {"subtype": "mcp_reconnect", "serverName": "a"}, 9),
        (
            lambda client: client.mcp.toggle("a", True),
            {"subtype": "mcp_toggle", "serverName": "a", "enabled": True},
            77,
        ),
        (lambda client: client.mcp.set_servers({}, timeout=8), {"subtype": "mcp_set_servers", "servers": {}}, 8),
        (
            lambda client: client.mcp.call("mcp__a__b", {"x": 1}, timeout=2),
            {"subtype": "mcp_call", "tool": "mcp__a__b", "arguments": {"x": 1}, "timeout_ms": 2000},
            7.0,
        ),
        (
            lambda client: client.mcp.read_resource("a", "ui://x"),
            {"subtype": "mcp_read_resource", "serverName": "a", "uri": "ui://x"},
            77,
        ),
    ],
)
async def test_a_request_of_mcp_has_its_own_limit(
    call: Callable[[Client], Coroutine[Any, Any, Any]], body: Body, limit: float
) -> None:
    fake = FakeCLI(answers={body["subtype"]: None})
    async with start_in_memory(fake, timeouts=Timeouts(control=77.0)) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(call, client)
            await anyio.wait_all_tasks_blocked()
            assert limit - 1 < seconds_to_next_timer() <= limit
            group.cancel_scope.cancel()
    assert [frame["request"] for frame in fake.received_like({"request": {"subtype": body["subtype"]}})] == [body]


async def test_status_gives_the_servers() -> None:
    async with asking(answers={"mcp_status": servers(a="connected")}) as cli:
        assert [server.name for server in await cli.client.mcp.status()] == ["a"]
