"""Servers that were built with the `mcp` package."""

import importlib.metadata
import importlib.util
import itertools
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio import Event
from anyio.abc import TaskGroup
from pydantic import TypeAdapter

from claude_agent_py.control import MCPMessageRequest
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tools.host import MCPHost, is_hosted

if importlib.util.find_spec("mcp") is None:
    pytest.skip("the extra mcp is not installed", allow_module_level=True)

IS_VERSION_2 = not importlib.metadata.version("mcp").startswith("1.")

pytestmark = [pytest.mark.anyio]

CONTEXT = HandlerContext(request_id="r1")
FORM = {"type": "object", "properties": {"size": {"type": "string"}}}


def to_helper(message: dict[str, Any]) -> MCPMessageRequest:
    return MCPMessageRequest(server_name="helper", message=message)


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


class Connected:
    """A host with one such server, and the CLI's side of the conversation."""

    def __init__(self, workers: TaskGroup, server: Any) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        send = lambda name, message: self.sent.append((name, message))  # noqa: E731
        self.host = MCPHost({"helper": server}, send, start=workers.start_soon)
        self._ids = itertools.count()

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}}
        reply: dict[str, Any] = (await self.host.answer(to_helper(message), CONTEXT))["mcp_response"]
        assert reply["id"] == message["id"]
        return reply

    async def tell(self, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
        await self.host.answer(to_helper(message), CONTEXT)

    async def shake_hands(self) -> dict[str, Any]:
        info = {"name": "claude-code", "version": "2"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        reply = await self.ask("initialize", params)
        await self.tell("notifications/initialized")
        result: dict[str, Any] = reply["result"]
        return result


async def with_server(use: Callable[[Connected], Any], server: Any) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            connected = Connected(workers, server)
            await use(connected)
            connected.host.close()


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
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    bad = ({"type": "object", "properties": {"a b": {}}}, {"type": "object", "properties": {"a": {"type": "text"}}})

    async def use(server: Connected) -> None:
        await server.shake_hands()
        tools = (await server.ask("tools/list"))["result"]["tools"]
        assert [item["name"] for item in tools] == ["tool_0", "tool_3"]

    await with_server(use, with_schemas(good, *bad, good))
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == ["tool 'tool_1'", "tool 'tool_2'"]


async def test_a_conversation() -> None:
    async def use(server: Connected) -> None:
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

    await with_server(use, comfortable(Event()))


async def test_cancelling_a_call() -> None:
    started = Event()

    async def use(server: Connected) -> None:
        await server.shake_hands()
        replies: list[dict[str, Any]] = []

        async def call() -> None:
            replies.append(await server.ask("tools/call", {"name": "slow", "arguments": {}}))

        async with anyio.create_task_group() as workers:
            workers.start_soon(call)
            await started.wait()
            same_id = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            refused = (await server.host.answer(to_helper(same_id), CONTEXT))["mcp_response"]
            assert refused["error"]["message"] == "the id is that of a request that is not answered yet"
            for unknown in ("1", 99, None):
                await server.tell("notifications/cancelled", {"requestId": unknown, "reason": "AbortError"})
            assert replies == []
            await server.tell("notifications/cancelled", {"requestId": 1, "reason": "AbortError"})
        assert "error" in replies[0]
        result = (await server.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))["result"]
        assert result["content"][0]["text"] == "3"

    await with_server(use, comfortable(started))


async def test_closing_ends_a_call() -> None:
    started = Event()

    async def use(server: Connected) -> None:
        await server.shake_hands()
        async with anyio.create_task_group() as workers:
            workers.start_soon(server.ask, "tools/call", {"name": "slow", "arguments": {}})
            await started.wait()
            server.host.close()

    await with_server(use, comfortable(started))


async def test_a_bad_message_is_answered() -> None:
    async def use(server: Connected) -> None:
        message = {"jsonrpc": "2.0", "id": {"no": "id"}, "method": "ping"}
        reply = (await server.host.answer(to_helper(message), CONTEXT))["mcp_response"]
        assert reply["error"]["code"] == -32600
        for params in ("text", [1]):
            reply = await server.ask("ping", params)
            assert reply["error"]["code"] == -32600
            assert "reading the message" in reply["error"]["message"]

    await with_server(use, comfortable(Event()))


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
    params: dict[str, Any], more: dict[str, Any], is_shown: bool
) -> None:
    tool = {"name": "work", "inputSchema": {"type": "object"}}

    async def use(server: Connected) -> None:
        result = (await server.ask("tools/list", params))["result"]
        assert result["tools"] == [{**tool, "_meta": {"anthropic/alwaysLoad": True}} if is_shown else tool]

    await with_server(use, Scripted({"tools": [tool], **more}))


@pytest.mark.parametrize("how", ["closed", "withdrawn"])
async def test_a_question_of_a_server_ends_with_it(how: str) -> None:
    asked, ended = Event(), Event()
    question = {"id": 7, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}}
    withdrawal = {"method": "notifications/cancelled", "params": {"requestId": 7}}
    unknown = {"method": "notifications/cancelled", "params": {"requestId": 8}}

    async def ask(request: Any, context: Any) -> Any:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    server = Scripted({}, question, unknown)
    sent: list[Any] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            host = MCPHost(
                {"helper": server}, lambda name, message: sent.append(message), ask=ask, start=workers.start_soon
            )
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await host.answer(to_helper(ping), CONTEXT))["mcp_response"]["result"] == {}
            await asked.wait()
            assert not ended.is_set()
            if how == "withdrawn":
                server.messages = (withdrawal,)
                await host.answer(to_helper({**ping, "id": 2}), CONTEXT)
            else:
                host.close()
            await ended.wait()
            host.close()
    assert {(message["method"], message["params"]["requestId"]) for message in sent} == {
        ("notifications/cancelled", 8),
        *([("notifications/cancelled", 7)] if how == "withdrawn" else []),
    }


async def test_messages_of_the_server_go_out() -> None:
    """A low-level server whose tool reports progress."""
    server = _low_level_v2() if IS_VERSION_2 else _low_level_v1()

    async def use(connected: Connected) -> None:
        await connected.shake_hands()
        meta = {"progressToken": 5}
        await connected.ask("tools/call", {"name": "work", "arguments": {}, "_meta": meta})
        [(name, message)] = [item for item in connected.sent if item[1].get("method") == "notifications/progress"]
        assert name == "helper"
        assert message["params"]["progressToken"] == 5
        assert message["params"]["progress"] == 1

    await with_server(use, server)


async def test_a_server_that_fails_is_answered_for(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        name = "broken"

        def create_initialization_options(self) -> None: ...

        async def run(self, *streams: Any) -> None:
            raise ValueError("cannot start")

    async def use(server: Connected) -> None:
        reply = await server.ask("initialize", {"protocolVersion": "2025-11-25"})
        assert reply["error"]["message"] == "the server has ended"

    await with_server(use, Broken())

    assert "MCP server broken failed" in caplog.text


async def test_without_a_running_session_it_says_so() -> None:
    host = MCPHost({"helper": comfortable(Event())}, print)

    reply = await host.answer(to_helper({"jsonrpc": "2.0", "id": 1, "method": "ping"}), CONTEXT)

    assert "requires a running session" in reply["mcp_response"]["error"]["message"]


async def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    server = comfortable(Event())
    monkeypatch.delitem(sys.modules, "claude_agent_py.tools.package_session", raising=False)
    for name in ("mcp", "mcp.shared.memory"):
        monkeypatch.setitem(sys.modules, name, None)

    async def use(connected: Connected) -> None:
        reply = await connected.ask("ping")
        assert "pip install mcp" in reply["error"]["message"]

    await with_server(use, server)


async def test_such_servers_are_recognised_and_declared_without_a_manifest() -> None:
    server = comfortable(Event())

    assert is_hosted(server)
    assert MCPHost({"helper": server}, print).initialize_fields() == {"sdkMcpServers": ["helper"]}


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
