"""The JSON-RPC side of a server: messages in, messages out."""

import itertools
import threading
from typing import Annotated, Any

import anyio
import pytest
from anyio import Event
from pydantic import Field

from claude_agent_py import ToolContext, ToolResult, ToolServer, tool
from claude_agent_py.control import MCPMessageRequest
from claude_agent_py.errors import OptionsError, ToolError
from claude_agent_py.formatting import File, Image
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tools import Prompt, Resource
from claude_agent_py.tools.host import ACK, MCPHost
from claude_agent_py.tools.jsonrpc import PROTOCOL_VERSIONS

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\nrest"


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def fail() -> None:
    raise ToolError("on purpose")


class Client:
    """Talks to one session, as the CLI would."""

    def __init__(self, server: ToolServer, ask: Any = None) -> None:
        self.heard: list[dict[str, Any]] = []
        self.host = MCPHost({"calc": server}, lambda name, message: self.heard.append(message), ask=ask)
        self._ids = itertools.count()

    async def send(self, message: dict[str, Any], context: HandlerContext | None = None) -> dict[str, Any]:
        """Send any message and give the reply."""
        payload = await self.host.answer(
            MCPMessageRequest(server_name="calc", message=message), context or HandlerContext(request_id="")
        )
        reply: dict[str, Any] = payload["mcp_response"]
        return reply

    async def ask(self, method: str, params: Any = None, context: HandlerContext | None = None) -> dict[str, Any]:
        """Send a request and give its whole answer."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        reply = await self.send(message if params is None else {**message, "params": params}, context)
        assert (reply["jsonrpc"], reply["id"]) == ("2.0", message["id"])
        return reply

    async def call(self, name: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        """Call a tool and give the result."""
        reply = await self.ask("tools/call", {"name": name, "arguments": arguments or {}, "_meta": meta})
        result: dict[str, Any] = reply["result"]
        return result

    async def tell(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        assert await self.send({"jsonrpc": "2.0", "method": method, "params": params or {}}) == ACK


def text_of(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


# Handshake --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "given"),
    [*((version, version) for version in PROTOCOL_VERSIONS), ("1999-01-01", "2025-11-25"), (None, "2025-11-25")],
)
async def test_the_version_is_negotiated(wanted: str | None, given: str) -> None:
    server = ToolServer("calc", [echo], version="2.1", instructions="Use it.")

    reply = await Client(server).ask("initialize", {"protocolVersion": wanted, "capabilities": {}})

    assert reply["result"] == {
        "protocolVersion": given,
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "serverInfo": {"name": "calc", "version": "2.1"},
        "instructions": "Use it.",
    }


async def test_resources_and_prompts_are_announced_where_given() -> None:
    server = ToolServer("calc", resources=[Resource("a://b", "x")], prompts=[Prompt(lambda: "x", "p")])

    reply = await Client(server).ask("initialize", {"protocolVersion": "2025-11-25"})

    assert set(reply["result"]["capabilities"]) == {"tools", "logging", "resources", "prompts"}


async def test_ping() -> None:
    assert (await Client(ToolServer("calc")).ask("ping"))["result"] == {}


# Lists ------------------------------------------------------------------------------------------------------------


async def test_tools_are_listed() -> None:
    reply = await Client(ToolServer("calc", [echo], always_load=True)).ask("tools/list")

    assert reply["result"] == {"tools": [{**echo.definition(), "_meta": {"anthropic/alwaysLoad": True}}]}


async def test_lists_have_pages() -> None:
    tools = [tool(name=f"t{index}")(lambda: None) for index in range(5)]
    client = Client(ToolServer("calc", tools, page_size=2))
    names: list[str] = []
    params: dict[str, Any] = {}
    while True:
        page = (await client.ask("tools/list", params))["result"]
        names += [item["name"] for item in page["tools"]]
        if "nextCursor" not in page:
            break
        assert len(page["tools"]) == 2
        params = {"cursor": page["nextCursor"]}

    assert names == ["t0", "t1", "t2", "t3", "t4"]
    for cursor in ("nonsense", "-1", "99", 3):
        assert (await client.ask("tools/list", {"cursor": cursor}))["error"]["code"] == -32602


async def test_a_change_of_tools_is_announced() -> None:
    server = ToolServer("calc", [echo])
    client = Client(server)

    server.add(fail)
    server.remove("echo")
    server.remove("unknown")

    assert [message["method"] for message in client.heard] == ["notifications/tools/list_changed"] * 2
    assert [item["name"] for item in (await client.ask("tools/list"))["result"]["tools"]] == ["fail"]


# Calls ------------------------------------------------------------------------------------------------------------


async def test_a_call() -> None:
    assert await Client(ToolServer("calc", [echo])).call("echo", {"text": "hi"}) == {
        "content": [{"type": "text", "text": "hi"}]
    }


async def test_every_kind_of_result() -> None:
    @tool
    def everything() -> ToolResult:
        return ToolResult(text={"a": 1}, media=[Image(PNG), File("x", "a.txt")], structured={"b": 2}, meta={"c": 3})

    result = await Client(ToolServer("calc", [everything])).call("everything")

    assert [block["type"] for block in result["content"]] == ["text", "image", "resource"]
    assert (result["structuredContent"], result["_meta"]) == ({"b": 2}, {"c": 3})


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("fail", {}, "on purpose"),
        ("echo", {"text": 1}, "invalid arguments for echo:\n- text: Input should be a valid string; got: 1"),
        ("echo", [1], "invalid arguments for echo:\n- the arguments must be an object"),
    ],
)
async def test_a_failed_call_is_a_result(name: str, arguments: Any, told: str) -> None:
    result = await Client(ToolServer("calc", [echo, fail])).call(name, arguments)

    assert result["isError"] is True
    assert text_of(result).startswith(told)


async def test_the_time_limit_of_the_server() -> None:
    @tool
    async def slow() -> None:
        await anyio.sleep_forever()

    result = await Client(ToolServer("calc", [slow], timeout=0.01)).call("slow")

    assert text_of(result) == "slow did not finish within 0.01 s and was cancelled"


async def test_the_context_of_a_call() -> None:
    @tool
    def who(context: ToolContext) -> Any:
        return [context.tool_use_id, context.agent_id, context.server_name, context.tool_name, context.request_id]

    client = Client(ToolServer("calc", [who]))
    params = {"name": "who", "_meta": {"claudecode/toolUseId": "toolu_1", "progressToken": 4}}

    reply = await client.ask("tools/call", params, HandlerContext(request_id="r1", agent_id="a1"))

    assert text_of(reply["result"]) == '["toolu_1", "a1", "calc", "who", "r1"]'


async def test_calls_run_at_once() -> None:
    together = [Event(), Event(), Event()]

    @tool
    async def meet(index: int) -> str:
        together[index].set()
        for event in together:
            await event.wait()
        return "met"

    client = Client(ToolServer("calc", [meet]))
    results: list[str] = []

    async def call(index: int) -> None:
        results.append(text_of(await client.call("meet", {"index": index})))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            for index in range(3):
                workers.start_soon(call, index)

    assert results == ["met"] * 3


async def test_progress_and_log_go_out_while_a_call_runs() -> None:
    @tool
    def plain(context: ToolContext) -> None:
        context.report_progress(1, 2, "half")
        context.log("debug", "not this")
        context.log("warning", {"x": 1})

    client = Client(ToolServer("calc", [plain]))
    await client.call("plain", progressToken=9)

    assert client.heard == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": 9, "progress": 1, "total": 2, "message": "half"},
        },
        {
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "warning", "logger": "plain", "data": {"x": 1}},
        },
    ]


async def test_the_log_level_can_be_set() -> None:
    @tool
    async def talk(context: ToolContext) -> None:
        context.log("debug", "this too")

    client = Client(ToolServer("calc", [talk]))

    assert (await client.ask("logging/setLevel", {"level": "debug"}))["result"] == {}
    await client.call("talk")

    assert [message["params"]["data"] for message in client.heard] == ["this too"]
    assert (await client.ask("logging/setLevel", {"level": "loud"}))["error"]["code"] == -32602


# Cancelling -------------------------------------------------------------------------------------------------------


async def test_a_cancelled_call_ends_at_once_and_is_answered() -> None:
    started, stopped = Event(), Event()
    seen: list[ToolContext] = []

    @tool
    async def slow(context: ToolContext) -> None:
        seen.append(context)
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    client = Client(ToolServer("calc", [slow]))
    replies: list[dict[str, Any]] = []

    async def call() -> None:
        replies.append(await client.ask("tools/call", {"name": "slow"}))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(call)
            await started.wait()
            await client.tell("notifications/cancelled", {"requestId": 0, "reason": "AbortError"})
            await stopped.wait()

    assert replies[0]["error"] == {"code": -32800, "message": "the request was cancelled"}
    assert seen[0].cancelled


async def test_cancelling_one_call_leaves_others_and_unknown_ones_alone() -> None:
    started, go_on = [Event(), Event()], Event()

    @tool
    async def slow(index: int) -> str:
        started[index].set()
        await go_on.wait()
        return "done"

    client = Client(ToolServer("calc", [slow]))
    replies: dict[int, dict[str, Any]] = {}

    async def call(index: int) -> None:
        replies[index] = await client.ask("tools/call", {"name": "slow", "arguments": {"index": index}})

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            for index in range(2):
                workers.start_soon(call, index)
                await started[index].wait()
            unknown: list[Any] = [77, None, [], {"a": 1}]
            for request_id in [0, *unknown]:
                await client.tell("notifications/cancelled", {"requestId": request_id})
            go_on.set()

    assert "error" in replies[0]
    assert text_of(replies[1]["result"]) == "done"


async def test_closing_cancels_everything() -> None:
    started = Event()

    @tool
    async def slow() -> None:
        started.set()
        await anyio.sleep_forever()

    client = Client(ToolServer("calc", [slow]))
    replies: list[dict[str, Any]] = []

    async def call() -> None:
        replies.append(await client.ask("tools/call", {"name": "slow"}))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(call)
            await started.wait()
            client.host.close()

    assert replies[0]["error"]["code"] == -32800


# Resources and prompts --------------------------------------------------------------------------------------------


async def test_resources_are_listed_and_read() -> None:
    async def later() -> dict[str, int]:
        return {"x": 1}

    contents: list[tuple[Any, dict[str, Any]]] = [
        ("text", {"mimeType": "text/plain", "text": "text"}),
        (b"\x00", {"mimeType": "application/octet-stream", "blob": "AA=="}),
        (File("# hi", "a.md"), {"mimeType": "text/markdown", "text": "# hi"}),
        (later, {"mimeType": "application/json", "text": '{"x": 1}'}),
        (lambda: "called", {"mimeType": "text/plain", "text": "called"}),
    ]
    resources = [Resource(f"a://{index}", content) for index, (content, _) in enumerate(contents)]
    client = Client(ToolServer("calc", resources=resources))

    assert len((await client.ask("resources/list"))["result"]["resources"]) == len(contents)
    for index, (_, expected) in enumerate(contents):
        reply = await client.ask("resources/read", {"uri": f"a://{index}"})
        assert reply["result"]["contents"] == [{"uri": f"a://{index}", **expected}]
    assert (await client.ask("resources/read", {"uri": "a://nowhere"}))["error"]["code"] == -32002
    assert (await client.ask("resources/templates/list"))["result"] == {"resourceTemplates": []}


async def test_a_template_is_read_with_the_values_in_the_address() -> None:
    async def note(day: str, name: str = "") -> str:
        return f"{day}: {name}"

    resources = [Resource("notes://{day}/{name}.txt", note, "note"), Resource("notes://today", "busy")]
    client = Client(ToolServer("calc", resources=resources))
    listed = (await client.ask("resources/templates/list"))["result"]["resourceTemplates"]
    assert listed == [{"uriTemplate": "notes://{day}/{name}.txt", "name": "note"}]
    assert [each["uri"] for each in (await client.ask("resources/list"))["result"]["resources"]] == ["notes://today"]
    for uri, text in (("notes://mon%20day/a%2Fb.txt", "mon day: a/b"), ("notes://today", "busy")):
        [read] = (await client.ask("resources/read", {"uri": uri}))["result"]["contents"]
        assert (read["uri"], read["text"]) == (uri, text)
    for uri in ("notes://a/b/c.txt", "notes://a/b_txt", "notes://a/.txt"):
        assert (await client.ask("resources/read", {"uri": uri}))["error"]["code"] == -32002


@pytest.mark.parametrize(
    "content", ["text", lambda: "", lambda day, month: ""], ids=["no function", "no parameter", "one too many"]
)
def test_a_template_needs_a_function_of_its_variables(content: Any) -> None:
    with pytest.raises(OptionsError, match="parameters day"):
        Resource("notes://{day}", content)


async def test_a_resource_definition() -> None:
    assert Resource("a://b", "x").definition() == {"uri": "a://b", "name": "a://b"}
    assert Resource("a://b", "x", "b", "The b.", "text/plain").definition() == {
        "uri": "a://b",
        "name": "b",
        "description": "The b.",
        "mimeType": "text/plain",
    }


async def test_a_resource_that_cannot_be_read_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise OSError("disk")

    reply = await Client(ToolServer("calc", resources=[Resource("a://b", broken)])).ask(
        "resources/read", {"uri": "a://b"}
    )

    assert reply["error"] == {"code": -32603, "message": "resources/read failed: OSError: disk"}
    assert len(caplog.records) == 1


async def test_prompts_are_listed_and_filled_in() -> None:
    def greet(name: str, times: Annotated[int, Field(ge=1)] = 1) -> Any:
        """Greet somebody.

        Args:
            name: Whom.
        """
        return [f"Greet {name} {times} times", ("assistant", {"ok": True}), Image(PNG)]

    client = Client(ToolServer("calc", prompts=[Prompt(greet)]))

    assert (await client.ask("prompts/list"))["result"]["prompts"] == [
        {
            "name": "greet",
            "description": "Greet somebody.",
            "arguments": [
                {"name": "name", "description": "Whom.", "required": True},
                {"name": "times", "description": "", "required": False},
            ],
        }
    ]
    reply = await client.ask("prompts/get", {"name": "greet", "arguments": {"name": "you", "times": "3"}})
    assert [(item["role"], item["content"]["type"]) for item in reply["result"]["messages"]] == [
        ("user", "text"),
        ("assistant", "text"),
        ("user", "image"),
    ]
    assert reply["result"]["messages"][0]["content"]["text"] == "Greet you 3 times"
    assert (await client.ask("prompts/get", {"name": "greet"}))["error"]["code"] == -32602
    assert (await client.ask("prompts/get", {"name": "other"}))["error"]["code"] == -32602


# Bad messages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "nonsense/x"}, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "unknown"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600),
        ({}, -32600),
    ],
)
async def test_a_bad_message_is_answered_with_an_error(message: dict[str, Any], code: int) -> None:
    reply = await Client(ToolServer("calc", [echo])).send(message)

    assert reply is not None
    assert reply["error"]["code"] == code


async def test_unknown_notifications_are_ignored() -> None:
    client = Client(ToolServer("calc"))

    await client.tell("notifications/initialized")
    await client.tell("notifications/nonsense", [1])


async def test_answers_to_nothing_are_harmless() -> None:
    client = Client(ToolServer("calc"))

    for request_id in (1, "x", None):
        assert await client.send({"jsonrpc": "2.0", "id": request_id, "result": {}}) == ACK


async def test_progress_from_a_thread_of_ones_own_is_dropped() -> None:
    @tool
    async def work(context: ToolContext) -> str:
        thread = threading.Thread(target=context.report_progress, args=(1,))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        return "done"

    client = Client(ToolServer("calc", [work]))
    assert text_of(await client.call("work", progressToken="p")) == "done"
    assert client.heard == []


@tool
async def where(context: ToolContext) -> str:
    return str(await context.elicit_url("Where?", "https://example.com"))


async def test_without_somebody_to_ask_a_question_of_a_tool_is_not_answered() -> None:
    @tool
    async def short(context: ToolContext) -> str:
        return await context.sample("Shorten this")

    client = Client(ToolServer("calc", [where, short]))
    assert text_of(await client.call("where")) == "False"
    assert "no session answers it" in text_of(await client.call("short"))


@pytest.mark.parametrize("meta", [{}, {"claudecode/toolUseId": "t1"}])
async def test_a_question_names_its_call_if_that_is_known(meta: dict[str, Any]) -> None:
    asked: list[Any] = []

    async def ask(request: Any, context: Any) -> dict[str, Any]:
        asked.append(request)
        return {"action": "accept"}

    client = Client(ToolServer("calc", [where]), ask)
    assert text_of(await client.call("where", **meta)) == "True"
    [request] = asked
    assert (request.server_name, request.message) == ("calc", "Where?")
    assert (request.call and (request.call.id, request.call.name)) == (("t1", "mcp__calc__where") if meta else None)
