"""Messages of the CLI on their way to the servers of a session."""

from typing import Any

import anyio
import pytest
from anyio import Event
from asking_cli import AskingCLI, asking
from mcp_client import Connect, ServerClient, connect as connect, text_of

from claude_agent_py import Client, ClientOptions, ToolContext, ToolServer, tool
from claude_agent_py.control import MCPMessageRequest
from claude_agent_py.errors import OptionsError

pytestmark = pytest.mark.anyio


@tool
def who(context: ToolContext) -> Any:
    return [context.server_name, context.agent_id, context.task]


async def test_messages_reach_their_server() -> None:
    async with asking(mcp_servers={"a": ToolServer("a", [who]), "b.c": ToolServer("another name", [who])}) as cli:
        assert text_of(await ServerClient(cli, "b.c").call("who")) == '["b.c", null, null]'


@pytest.mark.parametrize("message", [{"jsonrpc": "2.0", "id": 5, "method": "initialize"}, {"method": "x"}, {}])
async def test_an_unknown_server_is_answered_too(message: dict[str, Any]) -> None:
    async with asking() as cli:
        reply = await ServerClient(cli, "nobody").send(message)
    assert reply["id"] == message.get("id")
    assert reply["error"] == {"code": -32601, "message": "unknown server 'nobody'"}


def test_a_message_names_its_call_and_the_token_for_its_progress() -> None:
    def read(message: Any) -> tuple[object, object]:
        request = MCPMessageRequest(server_name="s", message=message)
        return request.tool_use_id, request.progress_token

    assert read({"params": {"_meta": {"claudecode/toolUseId": "toolu_1"}}}) == ("toolu_1", None)
    assert read({"params": {"_meta": {"progressToken": 7}}}) == (None, 7)
    others: list[Any] = [{}, {"params": 1}, {"params": {"_meta": 1}}, {"params": {"_meta": {"progressToken": []}}}]
    for message in others:
        assert read(message) == (None, None)


async def test_messages_of_servers_carry_their_name(connect: Connect) -> None:
    server = ToolServer("a", [who])
    client = await connect(server, "wire name")
    await client.ask("ping")
    server.remove("who")
    await client.ask("ping")
    assert [message["method"] for message in client.heard] == ["notifications/tools/list_changed"]


async def test_two_clients_of_one_server_do_not_disturb_each_other(connect: Connect) -> None:
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
    clients = [await connect(server), await connect(server)]
    replies: dict[int, dict[str, Any]] = {}

    async def call(index: int) -> None:
        replies[index] = await clients[index].ask("tools/call", {"name": "slow"})

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            for index in range(2):
                workers.start_soon(call, index)
                await started[index].wait()
            await clients[0].tell("notifications/cancelled", {"requestId": 0})
            finish.set()

    assert "error" in replies[0]
    assert text_of(replies[1]["result"]) == "done"


async def test_servers_come_and_go() -> None:
    server = ToolServer("a", [who])
    async with asking() as cli:
        client = ServerClient(cli, "a")
        await cli.client.mcp.set_servers({"a": server})
        assert text_of(await client.call("who")) == '["a", null, null]'
        cli.answers["mcp_set_servers"] = {"removed": ["a"]}
        await cli.client.mcp.set_servers({})
        server.remove("who")
        assert "error" in await client.ask("ping")
    assert client.heard == []


async def test_the_cli_is_told_of_the_servers() -> None:
    plain, limited = ToolServer("plain", [who]), ToolServer("limited", [who], policies={"who": "always_ask"})
    async with asking(mcp_servers={"plain": plain, "limited": limited}) as cli:
        [sent] = cli.requests("initialize")
    assert {name: value for name, value in sent.items() if name.startswith("sdkMcp")} == {
        "sdkMcpServers": ["plain", "limited"],
        "sdkMcpServerConfigs": {"plain": plain.config(), "limited": limited.config()},
        "sdkMcpServerManifests": {"plain": plain.manifest(), "limited": limited.manifest()},
    }
    async with asking() as cli:
        [sent] = cli.requests("initialize")
    assert not [name for name in sent if name.startswith("sdkMcp")]


async def test_what_is_no_server_is_refused_at_the_start() -> None:
    with pytest.raises(OptionsError, match=r"server 'a': an in-process server must be a ToolServer.* not object"):
        await Client(ClientOptions(mcp_servers={"a": object()}), transport=AskingCLI()).connect()


async def test_changes_are_announced_though_no_message_has_come() -> None:
    early, late = ToolServer("early", [who]), ToolServer("late", [who])
    async with asking(mcp_servers={"early": early}) as cli:
        await cli.client.mcp.set_servers({"early": early, "late": late})
        early.remove("who")
        late.remove("who")
        await ServerClient(cli, "early").ask("ping")
    early.add(who)
    assert [request["server_name"] for request in cli.requests("mcp_message")] == ["early", "late"]


async def test_failures_are_reported(connect: Connect) -> None:
    @tool
    def fail() -> None:
        raise ValueError("bad")

    client = await connect(ToolServer("a", [fail]))
    await client.call("fail")

    [error] = client.cli.client.handler_errors
    assert (error.handler, error.reason) == ("tool fail", "it raised ValueError")
    assert isinstance(error.__cause__, ValueError)
