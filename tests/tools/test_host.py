"""Routing the CLI's messages to servers."""

from typing import Any

import anyio
import pytest
from anyio import Event

from claude_agent_py import ToolContext, ToolServer, tool
from claude_agent_py.control import MCPMessageRequest
from claude_agent_py.errors import HandlerError, OptionsError
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tools.host import MCPHost, is_hosted

pytestmark = pytest.mark.anyio

CONTEXT = HandlerContext(request_id="r1")


@tool
def who(context: ToolContext) -> Any:
    return [context.server_name, context.agent_id, context.task]


def sends_nothing(name: str, message: dict[str, Any]) -> None:
    raise AssertionError(f"{name} sent {message}")


def hosting(*servers: ToolServer, **how: Any) -> MCPHost:
    return MCPHost({server.name: server for server in servers}, sends_nothing, **how)


def calling(name: str, tool_use_id: Any = "toolu_1", request_id: int = 1) -> dict[str, Any]:
    params = {"name": name, "arguments": {}, "_meta": {"claudecode/toolUseId": tool_use_id}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def to(server_name: str, message: dict[str, Any]) -> MCPMessageRequest:
    return MCPMessageRequest(server_name=server_name, message=message)


def text_of(reply: dict[str, Any]) -> str:
    text: str = reply["mcp_response"]["result"]["content"][0]["text"]
    return text


async def test_messages_reach_their_server() -> None:
    host = hosting(ToolServer("a", [who]), ToolServer("b.c", [who]))

    assert text_of(await host.answer(to("b.c", calling("who")), CONTEXT)) == '["b.c", null, null]'


async def test_notifications_are_acknowledged() -> None:
    host = hosting(ToolServer("a"))

    reply = await host.answer(to("a", {"jsonrpc": "2.0", "method": "notifications/initialized"}), CONTEXT)

    assert reply == {"mcp_response": {"jsonrpc": "2.0", "result": {}}}


@pytest.mark.parametrize("message", [{"jsonrpc": "2.0", "id": 5, "method": "initialize"}, {"method": "x"}, {}])
async def test_an_unknown_server_is_answered_too(message: dict[str, Any]) -> None:
    reply = (await hosting().answer(to("nobody", message), CONTEXT))["mcp_response"]

    assert reply["id"] == message.get("id")
    assert reply["error"] == {"code": -32601, "message": "unknown server 'nobody'"}


def test_a_message_names_its_call_and_the_token_for_its_progress() -> None:
    def read(message: Any) -> tuple[object, object]:
        request = to("s", message)
        return request.tool_use_id, request.progress_token

    assert read(calling("who")) == ("toolu_1", None)
    assert read({"params": {"_meta": {"progressToken": 7}}}) == (None, 7)
    others: list[Any] = [{}, {"params": 1}, {"params": {"_meta": 1}}, {"params": {"_meta": {"progressToken": []}}}]
    for message in others:
        assert read(message) == (None, None)


async def test_messages_of_servers_carry_their_name() -> None:
    server = ToolServer("a", [who])
    sent: list[Any] = []
    host = MCPHost({"wire name": server}, lambda name, message: sent.append((name, message["method"])))
    await host.answer(to("wire name", {"jsonrpc": "2.0", "id": 1, "method": "ping"}), CONTEXT)

    server.remove("who")

    assert sent == [("wire name", "notifications/tools/list_changed")]


async def test_two_clients_of_one_server_do_not_disturb_each_other() -> None:
    started = [Event(), Event()]
    finish = Event()
    count = 0

    @tool
    async def slow() -> str:
        nonlocal count
        started[count].set()
        count += 1
        await finish.wait()
        return "done"

    server = ToolServer("a", [slow])
    hosts = [hosting(server), hosting(server)]
    replies: dict[int, dict[str, Any]] = {}

    async def call(index: int) -> None:
        replies[index] = await hosts[index].answer(to("a", calling("slow")), CONTEXT)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            for index in range(2):
                workers.start_soon(call, index)
                await started[index].wait()
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            await hosts[0].answer(to("a", cancel), CONTEXT)
            finish.set()

    assert "error" in replies[0]["mcp_response"]
    assert text_of(replies[1]) == "done"


async def test_closing_ends_calls_and_leaves_the_host_usable() -> None:
    started = Event()

    @tool
    async def slow() -> None:
        started.set()
        await anyio.sleep_forever()

    host = hosting(ToolServer("a", [slow, who]))
    replies: list[dict[str, Any]] = []

    async def call() -> None:
        replies.append(await host.answer(to("a", calling("slow")), HandlerContext(request_id="r1")))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(call)
            await started.wait()
            host.close()

    assert replies[0]["mcp_response"]["error"]["code"] == -32800
    assert text_of(await host.answer(to("a", calling("who")), CONTEXT)) == '["a", null, null]'


async def test_servers_come_and_go() -> None:
    host = hosting()
    assert not host

    host.add("a", ToolServer("a", [who]))
    assert text_of(await host.answer(to("a", calling("who")), CONTEXT)) == '["a", null, null]'
    host.remove("a")
    host.remove("a")

    assert "error" in (await host.answer(to("a", calling("who")), CONTEXT))["mcp_response"]
    assert host.servers == {}


async def test_the_reply_to_initialize() -> None:
    plain, limited = ToolServer("plain", [who]), ToolServer("limited", [who], policies={"who": "always_ask"})

    assert hosting().initialize_fields() == {}
    assert hosting(plain, limited).initialize_fields() == {
        "sdkMcpServers": ["plain", "limited"],
        "sdkMcpServerConfigs": {"plain": plain.config(), "limited": limited.config()},
        "sdkMcpServerManifests": {"plain": plain.manifest(), "limited": limited.manifest()},
    }


async def test_an_invalid_server_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"an in-process server must be a ToolServer.* not dict"):
        MCPHost({"a": {"command": "x"}}, sends_nothing)
    assert is_hosted(ToolServer("a"))
    assert not is_hosted({"command": "x"})


async def test_changes_are_announced_though_no_message_has_come() -> None:
    early, late = ToolServer("early", [who]), ToolServer("late", [who])
    sent: list[str] = []
    host = MCPHost({"early": early}, lambda name, message: sent.append(name))
    host.add("late", late)

    early.remove("who")
    late.remove("who")
    host.close()
    early.add(who)

    assert sent == ["early", "late"]


async def test_failures_are_reported() -> None:
    @tool
    def fail() -> None:
        raise ValueError("bad")

    reported: list[HandlerError] = []
    host = hosting(ToolServer("a", [fail]), report=reported.append)

    await host.answer(to("a", calling("fail")), CONTEXT)

    [error] = reported
    assert (error.handler, error.reason) == ("tool fail", "it raised ValueError")
    assert isinstance(error.__cause__, ValueError)
