"""Servers that were built with the `mcp` package."""

import importlib.metadata
import importlib.util
import sys
from typing import Any

import anyio
import pytest
from anyio import Event
from mcp_client import Connect, ServerClient, connect as connect
from pydantic import TypeAdapter

if importlib.util.find_spec("mcp") is None:
    pytest.skip("the extra mcp is not installed", allow_module_level=True)

IS_VERSION_2 = not importlib.metadata.version("mcp").startswith("1.")

pytestmark = [pytest.mark.anyio]

FORM = {"type": "object", "properties": {"size": {"type": "string"}}}


def comfortable(started: Event) -> Any:
    """Make a `FastMCP` or an `MCPServer`, whichever is installed."""
    module, name = ("mcp.server.mcpserver", "MCPServer") if IS_VERSION_2 else ("mcp.server.fastmcp", "FastMCP")
    server: Any = getattr(importlib.import_module(module), name)("helper", instructions="Use it.")

    @server.tool()  # type: ignore[untyped-decorator,unused-ignore]
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    @server.tool()  # type: ignore[untyped-decorator,unused-ignore]
    async def slow() -> str:
        """Take long."""
        started.set()
        await anyio.sleep_forever()
        return ""

    @server.tool()  # type: ignore[untyped-decorator,unused-ignore]
    def fail() -> str:
        """Fail."""
        raise ValueError("on purpose")

    return server


def with_schemas(*schemas: dict[str, Any]) -> Any:
    """Make a low-level server with a tool for each input schema."""
    import mcp.types
    from mcp.server import Server

    tools = [mcp.types.Tool(name=f"tool_{number}", inputSchema=schema) for number, schema in enumerate(schemas)]
    if IS_VERSION_2:

        async def on_list_tools(context: object, params: object) -> mcp.types.ListToolsResult:
            return mcp.types.ListToolsResult(tools=tools)

        return Server("helper", on_list_tools=on_list_tools)  # type: ignore[call-arg,unused-ignore]
    server: Any = Server("helper")

    async def list_tools() -> list[mcp.types.Tool]:
        return tools

    server.list_tools()(list_tools)
    return server


async def test_a_tool_that_the_cli_does_not_accept_is_logged_and_the_others_stay(
    caplog: pytest.LogCaptureFixture, connect: Connect
) -> None:
    good = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    bad = ({"type": "object", "properties": {"a b": {}}}, {"type": "object", "properties": {"a": {"type": "text"}}})

    server = await connect(with_schemas(good, *bad, good), "helper")
    await server.shake_hands()
    tools = (await server.ask("tools/list"))["result"]["tools"]
    assert [item["name"] for item in tools] == ["tool_0", "tool_3"]
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == ["tool 'tool_1'", "tool 'tool_2'"]


async def test_a_conversation(connect: Connect) -> None:
    server = await connect(comfortable(Event()), "helper")
    hello = await server.shake_hands()
    assert hello["serverInfo"]["name"] == "helper"
    assert hello["instructions"] == "Use it."
    tools = (await server.ask("tools/list"))["result"]["tools"]
    assert [item["_meta"] for item in tools] == [{"anthropic/alwaysLoad": True}] * len(tools)
    assert [item["name"] for item in tools] == ["add", "slow", "fail"]
    result = (await server.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))["result"]
    assert result["content"][0]["text"] == "3"
    failure = (await server.ask("tools/call", {"name": "fail", "arguments": {}}))["result"]
    assert failure["isError"] is True
    assert "error" in await server.ask("nonsense/method")


async def test_cancelling_a_call(connect: Connect) -> None:
    started = Event()

    server = await connect(comfortable(started), "helper")
    await server.shake_hands()
    replies: list[dict[str, Any]] = []

    async def call() -> None:
        replies.append(await server.ask("tools/call", {"name": "slow", "arguments": {}}))

    async with anyio.create_task_group() as workers:
        workers.start_soon(call)
        await started.wait()
        same_id = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        refused = await server.send(same_id)
        assert refused["error"]["message"] == "the id is that of a request that is not answered yet"
        for unknown in ("1", 99, None):
            await server.tell("notifications/cancelled", {"requestId": unknown, "reason": "AbortError"})
        assert replies == []
        await server.tell("notifications/cancelled", {"requestId": 1, "reason": "AbortError"})
    assert "error" in replies[0]
    result = (await server.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))["result"]
    assert result["content"][0]["text"] == "3"


async def test_a_bad_message_is_answered(connect: Connect) -> None:
    server = await connect(comfortable(Event()), "helper")
    message = {"jsonrpc": "2.0", "id": {"no": "id"}, "method": "ping"}
    reply = await server.send(message)
    assert reply["error"]["code"] == -32600
    for params in ("text", [1]):
        reply = await server.ask("ping", params)
        assert reply["error"]["code"] == -32600
        assert "reading the message" in reply["error"]["message"]


class Scripted:
    """A low-level server that answers each request as it is told, and first sends some messages."""

    def __init__(self, result: dict[str, Any], *messages: dict[str, Any]) -> None:
        self.result = result
        self.messages = messages

    def create_initialization_options(self) -> None:
        return None

    async def run(self, read: Any, write: Any, options: None) -> None:
        message_type = importlib.import_module("mcp.types").JSONRPCMessage
        codec: TypeAdapter[Any] = TypeAdapter(message_type)
        wrap = importlib.import_module("mcp.shared.message").SessionMessage
        async for item in read:
            message = codec.dump_python(item.message, mode="json", exclude_none=True)
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": self.result}
            for each in (*self.messages, *([answer] if "method" in message else [])):
                await write.send(wrap(codec.validate_python({"jsonrpc": "2.0", **each})))


@pytest.mark.parametrize(
    ("params", "more", "is_shown"), [({}, {}, True), ({"cursor": "2"}, {}, False), ({}, {"nextCursor": "2"}, False)]
)
async def test_a_small_set_of_tools_on_one_page_is_shown_from_the_start(
    params: dict[str, Any], more: dict[str, Any], is_shown: bool, connect: Connect
) -> None:
    tool = {"name": "work", "inputSchema": {"type": "object"}}

    server = await connect(Scripted({"tools": [tool], **more}), "helper")
    result = (await server.ask("tools/list", params))["result"]
    assert result["tools"] == [{**tool, "_meta": {"anthropic/alwaysLoad": True}} if is_shown else tool]


async def remove(server: ServerClient) -> None:
    """Remove a server from its session."""
    server.cli.answers["mcp_set_servers"] = {"removed": [server.name]}
    await server.cli.client.mcp.set_servers({})


async def test_a_server_that_is_removed_ends_with_its_call(connect: Connect) -> None:
    ended = Event()

    class Ending(Scripted):
        async def run(self, read: Any, write: Any, options: None) -> None:
            try:
                await read.receive()
                await anyio.sleep_forever()
            finally:
                ended.set()

    server = await connect(Ending({}), "helper")
    call = server.start("tools/call", {"name": "slow", "arguments": {}})
    with anyio.fail_after(30):
        await remove(server)
        assert "error" in (await server.cli.reply_to(call))["mcp_response"]
        await ended.wait()


@pytest.mark.parametrize("how", ["closed", "removed", "withdrawn"])
async def test_a_question_of_a_server_ends_with_it(how: str, connect: Connect) -> None:
    asked, ended = Event(), Event()
    question = {"id": 7, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}}
    withdrawal = {"method": "notifications/cancelled", "params": {"requestId": 7}}
    unknown = {"method": "notifications/cancelled", "params": {"requestId": 8}}

    async def answer(request: Any, context: Any) -> Any:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    answer_to_nothing = {"id": 99, "result": {}}
    server = Scripted({}, question, unknown, answer_to_nothing)
    client = await connect(server, "helper", on_elicitation=answer)
    with anyio.fail_after(30):
        assert (await client.ask("ping"))["result"] == {}
        await asked.wait()
        assert not ended.is_set()
        if how == "withdrawn":
            server.messages = (withdrawal,)
            await client.ask("ping")
        elif how == "removed":
            await remove(client)
        else:
            await client.cli.client.close()
        await ended.wait()
    assert {(message["method"], message["params"]["requestId"]) for message in client.heard} == {
        ("notifications/cancelled", 8),
        *([("notifications/cancelled", 7)] if how == "withdrawn" else []),
    }


async def test_messages_of_the_server_go_out(connect: Connect) -> None:
    """A low-level server whose tool reports progress."""
    server = _low_level_v2() if IS_VERSION_2 else _low_level_v1()

    connected = await connect(server, "helper")
    await connected.shake_hands()
    meta = {"progressToken": 5}
    await connected.ask("tools/call", {"name": "work", "arguments": {}, "_meta": meta})
    [message] = [each for each in connected.heard if each.get("method") == "notifications/progress"]
    assert message["params"]["progressToken"] == 5
    assert message["params"]["progress"] == 1


async def test_a_server_that_fails_is_answered_for(caplog: pytest.LogCaptureFixture, connect: Connect) -> None:
    class Broken:
        name = "broken"

        def create_initialization_options(self) -> None: ...

        async def run(self, *streams: Any) -> None:
            raise ValueError("cannot start")

    server = await connect(Broken(), "helper")
    reply = await server.ask("initialize", {"protocolVersion": "2025-11-25"})
    assert reply["error"]["message"] == "the server has ended"

    assert "MCP server broken failed" in caplog.text


async def test_a_server_that_ends_is_answered_for(connect: Connect) -> None:
    class Ending(Scripted):
        async def run(self, read: Any, write: Any, options: None) -> None:
            await read.receive()
            await write.aclose()

    server = await connect(Ending({}), "helper")
    reply = await server.ask("ping")
    assert reply["error"]["message"] == "the server has ended"


async def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    server = comfortable(Event())
    monkeypatch.delitem(sys.modules, "claude_agent_py.tools.package_session", raising=False)
    for name in ("mcp", "mcp.shared.memory"):
        monkeypatch.setitem(sys.modules, name, None)

    connected = await connect(server, "helper")
    reply = await connected.ask("ping")
    assert "pip install mcp" in reply["error"]["message"]


async def test_such_a_server_is_declared_without_a_manifest(connect: Connect) -> None:
    client = await connect(comfortable(Event()), "helper")
    [sent] = client.cli.requests("initialize")
    assert {name: value for name, value in sent.items() if name.startswith("sdkMcp")} == {"sdkMcpServers": ["helper"]}


def _low_level_v2() -> Any:
    from mcp import types
    from mcp.server import Server

    async def list_tools(context: Any, params: Any) -> Any:
        tool = types.Tool(name="work", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool])

    async def call_tool(context: Any, params: Any) -> Any:
        await context.session.report_progress(1.0)
        return types.CallToolResult(content=[])

    server: Any = Server
    return server("helper", on_list_tools=list_tools, on_call_tool=call_tool)


def _low_level_v1() -> Any:
    from mcp import types
    from mcp.server.lowlevel import Server

    server: Any = Server("helper")

    @server.list_tools()  # type: ignore[untyped-decorator,unused-ignore]
    async def list_tools() -> Any:
        return [types.Tool(name="work", inputSchema={"type": "object"})]

    @server.call_tool()  # type: ignore[untyped-decorator,unused-ignore]
    async def call_tool(name: str, arguments: Any) -> Any:
        context = server.request_context
        await context.session.send_progress_notification(context.meta.progressToken, 1.0)
        return []

    return server
