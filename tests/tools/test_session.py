"""The JSON-RPC side of a server: messages in, messages out."""

import threading
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from anyio import Event, lowlevel
from mcp_client import ACK, Connect, connect as connect, text_of
from pydantic import Field

from claude_agent_py import ToolContext, ToolResult, ToolServer, tool
from claude_agent_py.errors import OptionsError, ToolError
from claude_agent_py.formatting import File, Image
from claude_agent_py.permissions import Accept, PendingInteractions
from claude_agent_py.testing import frames
from claude_agent_py.tools import Prompt, Resource

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\nrest"


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def fail() -> None:
    raise ToolError("on purpose")


# Handshake --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        *((version, version) for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
async def test_the_version_is_negotiated(wanted: str | None, given: str, connect: Connect) -> None:
    server = ToolServer("calc", [echo], version="2.1", instructions="Use it.")

    reply = await (await connect(server)).ask("initialize", {"protocolVersion": wanted, "capabilities": {}})

    assert reply["result"] == {
        "protocolVersion": given,
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "serverInfo": {"name": "calc", "version": "2.1"},
        "instructions": "Use it.",
    }


async def test_resources_and_prompts_are_announced_where_given(connect: Connect) -> None:
    server = ToolServer("calc", resources=[Resource("a://b", "x")], prompts=[Prompt(lambda: "x", "p")])

    reply = await (await connect(server)).ask("initialize", {"protocolVersion": "2025-11-25"})

    assert set(reply["result"]["capabilities"]) == {"tools", "logging", "resources", "prompts"}


async def test_ping(connect: Connect) -> None:
    assert (await (await connect(ToolServer("calc"))).ask("ping"))["result"] == {}


# Lists ------------------------------------------------------------------------------------------------------------


async def test_tools_are_listed(connect: Connect) -> None:
    reply = await (await connect(ToolServer("calc", [echo], always_load=True))).ask("tools/list")

    assert reply["result"] == {"tools": [{**echo.definition(), "_meta": {"anthropic/alwaysLoad": True}}]}


async def test_lists_have_pages(connect: Connect) -> None:
    tools = [tool(name=f"t{index}")(lambda: None) for index in range(5)]
    client = await connect(ToolServer("calc", tools, page_size=2))
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


async def test_a_change_of_tools_is_announced(connect: Connect) -> None:
    server = ToolServer("calc", [echo])
    client = await connect(server)

    server.add(fail)
    server.remove("echo")
    server.remove("unknown")

    assert [item["name"] for item in (await client.ask("tools/list"))["result"]["tools"]] == ["fail"]
    assert [message["method"] for message in client.heard] == ["notifications/tools/list_changed"] * 2


# Calls ------------------------------------------------------------------------------------------------------------


async def test_a_call(connect: Connect) -> None:
    assert await (await connect(ToolServer("calc", [echo]))).call("echo", {"text": "hi"}) == {
        "content": [{"type": "text", "text": "hi"}]
    }


async def test_every_kind_of_result(connect: Connect) -> None:
    @tool
    def everything() -> ToolResult:
        return ToolResult(text={"a": 1}, media=[Image(PNG), File("x", "a.txt")], structured={"b": 2}, meta={"c": 3})

    result = await (await connect(ToolServer("calc", [everything]))).call("everything")

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
async def test_a_failed_call_is_a_result(name: str, arguments: Any, told: str, connect: Connect) -> None:
    result = await (await connect(ToolServer("calc", [echo, fail]))).call(name, arguments)

    assert result["isError"] is True
    assert text_of(result).startswith(told)


async def test_the_time_limit_of_the_server(connect: Connect) -> None:
    @tool
    async def slow() -> None:
        await anyio.sleep_forever()

    result = await (await connect(ToolServer("calc", [slow], timeout=0.01))).call("slow")

    assert text_of(result) == "slow did not finish within 0.01 s and was cancelled"


async def test_the_context_of_a_call(connect: Connect, tmp_path: Path) -> None:
    @tool
    def who(context: ToolContext) -> Any:
        assert context.cwd == str(tmp_path)
        return [context.tool_use_id, context.agent_id, context.server_name, context.tool_name, context.request_id]

    client = await connect(ToolServer("calc", [who]), cwd=tmp_path)
    params = {"name": "who", "_meta": {"claudecode/toolUseId": "toolu_1", "progressToken": 4}}

    call = frames.tool_use_block("mcp__calc__who", {}, id="toolu_1")
    client.cli.say(frames.assistant([call], agent_id="a1"))
    reply = await client.ask("tools/call", params)

    assert text_of(reply["result"]) == '["toolu_1", "a1", "calc", "who", "r1"]'
    client.cli.say(frames.task_notification("a1"))


async def test_calls_run_at_once(connect: Connect) -> None:
    together = [Event(), Event(), Event()]

    @tool
    async def meet(index: int) -> str:
        together[index].set()
        for event in together:
            await event.wait()
        return "met"

    client = await connect(ToolServer("calc", [meet]))
    results: list[str] = []

    async def call(index: int) -> None:
        results.append(text_of(await client.call("meet", {"index": index})))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            for index in range(3):
                workers.start_soon(call, index)

    assert results == ["met"] * 3


async def test_progress_and_log_go_out_while_a_call_runs(connect: Connect) -> None:
    @tool
    def plain(context: ToolContext) -> None:
        context.report_progress(1, 2, "half")
        context.log("debug", "not this")
        context.log("warning", {"x": 1})

    client = await connect(ToolServer("calc", [plain]))
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


async def test_the_log_level_can_be_set(connect: Connect) -> None:
    @tool
    async def talk(context: ToolContext) -> None:
        context.log("debug", "this too")

    client = await connect(ToolServer("calc", [talk]))

    assert (await client.ask("logging/setLevel", {"level": "debug"}))["result"] == {}
    await client.call("talk")

    assert [message["params"]["data"] for message in client.heard] == ["this too"]
    assert (await client.ask("logging/setLevel", {"level": "loud"}))["error"]["code"] == -32602


# Cancelling -------------------------------------------------------------------------------------------------------


async def test_a_cancelled_call_ends_at_once_and_is_answered(connect: Connect) -> None:
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

    client = await connect(ToolServer("calc", [slow]))
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


async def test_cancelling_one_call_leaves_others_and_unknown_ones_alone(connect: Connect) -> None:
    started, go_on = [Event(), Event()], Event()

    @tool
    async def slow(index: int) -> str:
        started[index].set()
        await go_on.wait()
        return "done"

    client = await connect(ToolServer("calc", [slow]))
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


async def test_closing_cancels_everything(connect: Connect) -> None:
    started, stopped = Event(), Event()

    @tool
    async def slow() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    client = await connect(ToolServer("calc", [slow]))
    client.start("tools/call", {"name": "slow"})
    with anyio.fail_after(30):
        await started.wait()
        await client.cli.client.close()
    assert stopped.is_set()


# Resources and prompts --------------------------------------------------------------------------------------------


async def test_resources_are_listed_and_read(connect: Connect) -> None:
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
    client = await connect(ToolServer("calc", resources=resources))

    assert len((await client.ask("resources/list"))["result"]["resources"]) == len(contents)
    for index, (_, expected) in enumerate(contents):
        reply = await client.ask("resources/read", {"uri": f"a://{index}"})
        assert reply["result"]["contents"] == [{"uri": f"a://{index}", **expected}]
    assert (await client.ask("resources/read", {"uri": "a://nowhere"}))["error"]["code"] == -32002
    assert (await client.ask("resources/templates/list"))["result"] == {"resourceTemplates": []}


async def test_a_template_is_read_with_the_values_in_the_address(connect: Connect) -> None:
    async def note(day: str, name: str = "") -> str:
        return f"{day}: {name}"

    resources = [Resource("notes://{day}/{name}.txt", note, "note"), Resource("notes://today", "busy")]
    client = await connect(ToolServer("calc", resources=resources))
    listed = (await client.ask("resources/templates/list"))["result"]["resourceTemplates"]
    assert listed == [{"uriTemplate": "notes://{day}/{name}.txt", "name": "note"}]
    assert [each["uri"] for each in (await client.ask("resources/list"))["result"]["resources"]] == ["notes://today"]
    for uri, text in (("notes://mon%20day/a%2Eb.txt", "mon day: a.b"), ("notes://today", "busy")):
        [read] = (await client.ask("resources/read", {"uri": uri}))["result"]["contents"]
        assert (read["uri"], read["text"]) == (uri, text)
    for uri in ("notes://a/b/c.txt", "notes://a/b_txt", "notes://a/.txt"):
        assert (await client.ask("resources/read", {"uri": uri}))["error"]["code"] == -32002


@pytest.mark.parametrize("value", ["..%2Fb", "..", "%2e%2E", ".", "%2Fetc%2Fpasswd", "..%5Cb", "..\\b", "b%00"])
async def test_a_value_of_a_template_never_leads_out_of_a_folder(value: str, connect: Connect) -> None:
    asked: list[str] = []
    client = await connect(ToolServer("calc", resources=[Resource("notes://{day}/x", lambda day: asked.append(day))]))
    assert (await client.ask("resources/read", {"uri": f"notes://{value}/x"}))["error"]["code"] == -32002
    assert asked == []


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


async def test_a_resource_that_cannot_be_read_is_an_error(caplog: pytest.LogCaptureFixture, connect: Connect) -> None:
    def broken() -> str:
        raise OSError("disk")

    reply = await (await connect(ToolServer("calc", resources=[Resource("a://b", broken)]))).ask(
        "resources/read", {"uri": "a://b"}
    )

    assert reply["error"] == {"code": -32603, "message": "resources/read failed: OSError: disk"}
    assert len(caplog.records) == 1


async def test_prompts_are_listed_and_filled_in(connect: Connect) -> None:
    def greet(name: str, times: Annotated[int, Field(ge=1)] = 1) -> Any:
        """Greet somebody.

        Args:
            name: Whom.
        """
        return [f"Greet {name} {times} times", ("assistant", {"ok": True}), Image(PNG)]

    client = await connect(ToolServer("calc", prompts=[Prompt(greet)]))

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
async def test_a_bad_message_is_answered_with_an_error(message: dict[str, Any], code: int, connect: Connect) -> None:
    reply = await (await connect(ToolServer("calc", [echo]))).send(message)

    assert reply is not None
    assert reply["error"]["code"] == code


async def test_unknown_notifications_are_ignored(connect: Connect) -> None:
    client = await connect(ToolServer("calc"))

    await client.tell("notifications/initialized")
    await client.tell("notifications/nonsense", [1])


async def test_answers_to_nothing_are_harmless(connect: Connect) -> None:
    client = await connect(ToolServer("calc"))

    for request_id in (1, "x", None):
        assert await client.send({"jsonrpc": "2.0", "id": request_id, "result": {}}) == ACK


async def test_progress_from_a_thread_of_ones_own_is_sent(connect: Connect) -> None:
    @tool
    async def work(context: ToolContext) -> str:
        thread = threading.Thread(target=context.report_progress, args=(1,))
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        return "done"

    client = await connect(ToolServer("calc", [work]))
    assert text_of(await client.call("work", progressToken="p")) == "done"
    assert [message["params"]["progress"] for message in client.heard] == [1]


async def test_a_tool_in_its_thread_reports_without_waiting_for_the_event_loop(connect: Connect) -> None:
    began, may_report, reported = threading.Event(), threading.Event(), threading.Event()

    @tool
    def work(context: ToolContext) -> str:
        began.set()
        may_report.wait()
        data = [1]
        context.log("warning", data)
        data.append(2)
        reported.set()
        return "done"

    client = await connect(ToolServer("calc", [work]))
    call = client.start("tools/call", {"name": "work", "arguments": {}})
    await anyio.to_thread.run_sync(began.wait)
    may_report.set()
    assert reported.wait(5)  # blocks the event loop
    assert text_of((await client.cli.reply_to(call))["mcp_response"]["result"]) == "done"
    assert [message["params"]["data"] for message in client.heard] == [[1]]


@pytest.mark.each_backend
@pytest.mark.parametrize("is_own_thread", [True, False])
async def test_reports_of_a_thread_are_sent_while_the_event_loop_rests(is_own_thread: bool, connect: Connect) -> None:
    began, may_report = threading.Event(), threading.Event()

    @tool
    def work(context: ToolContext) -> str:
        def report() -> None:
            for number in range(3):
                context.log("warning", number)

        began.set()
        may_report.wait()
        if is_own_thread:
            thread = threading.Thread(target=report)
            thread.start()
            thread.join()
        else:
            report()
        return "done"

    client = await connect(ToolServer("calc", [work]))
    call = client.start("tools/call", {"name": "work", "arguments": {}})
    await anyio.to_thread.run_sync(began.wait)
    await anyio.wait_all_tasks_blocked()
    may_report.set()
    with anyio.fail_after(10):
        assert text_of((await client.cli.reply_to(call))["mcp_response"]["result"]) == "done"
    assert [message["params"]["data"] for message in client.heard] == [0, 1, 2]


@pytest.mark.parametrize("runs_in_thread", [True, False])
async def test_a_report_that_is_no_json_is_an_error_of_the_tool(runs_in_thread: bool, connect: Connect) -> None:
    def plain(context: ToolContext) -> None:
        context.log("warning", object())

    async def work(context: ToolContext) -> None:
        plain(context)

    client = await connect(ToolServer("calc", [tool(name="work")(plain if runs_in_thread else work)]))
    result = await client.call("work")
    assert result["isError"]
    assert "TypeError" in text_of(result)
    assert client.heard == []


@tool
async def where(context: ToolContext) -> str:
    return str(await context.elicit_url("Where?", "https://example.com"))


@tool
def ask_from_the_thread(context: ToolContext) -> str:
    return str(anyio.from_thread.run(context.elicit_url, "Where?", "https://example.com"))


@pytest.mark.parametrize("asking", [where, ask_from_the_thread])
@pytest.mark.parametrize("timeout", [None, 0.1], ids=["cancelled", "late"])
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
async def test_the_question_of_a_call_that_is_cancelled_is_withdrawn(
    asking: Any, timeout: float | None, anyio_backend: str, connect: Connect
) -> None:
    inbox = PendingInteractions()
    with anyio.fail_after(30):
        client = await connect(ToolServer("calc", [asking], timeout=timeout), interactions=inbox)
        call = client.start("tools/call", {"name": asking.name, "arguments": {}})
        question = await anext(inbox.arrivals())
        if timeout is None:
            await client.tell("notifications/cancelled", {"requestId": 0})
        await client.cli.reply_to(call)
        while not question.done:
            await lowlevel.checkpoint()
    assert list(inbox) == []
    assert not question.resolve(Accept())


@pytest.mark.parametrize("meta", [{}, {"claudecode/toolUseId": "t1"}])
async def test_a_question_names_its_call_if_that_is_known(meta: dict[str, Any], connect: Connect) -> None:
    asked: list[Any] = []

    def answer(request: Any, context: Any) -> Accept:
        asked.append(request)
        return Accept()

    client = await connect(ToolServer("calc", [where]), on_elicitation=answer)
    assert text_of(await client.call("where", **meta)) == "True"
    [request] = asked
    assert (request.server_name, request.message) == ("calc", "Where?")
    assert (request.call and (request.call.id, request.call.name)) == (("t1", "mcp__calc__where") if meta else None)
