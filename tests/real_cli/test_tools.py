"""Tools in this process, called by the real CLI."""

import threading
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import Event

from claude_agent_py import (
    AgentDefinition,
    Client,
    RunResult,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolServer,
    run,
    tool,
)
from claude_agent_py.formatting import Audio, File, Image, Media, ResourceLink
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel, text, tool_use
from claude_agent_py.tools import Resource, mcp_tool_name

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@dataclass
class City:
    name: str
    people: int


@tool(read_only=True)
def data() -> list[City]:
    """A dataclass."""
    return [City("Köln", 1_000_000)]


@tool(read_only=True)
def plain() -> str:
    """Text."""
    return "just text"


@tool(read_only=True)
def nothing() -> None:
    """Nothing."""


@tool(read_only=True)
def picture() -> bytes:
    """A picture."""
    return PNG


@tool(read_only=True)
def mixed() -> ToolResult:
    """Everything at once."""
    media: list[Media] = [
        Image(PNG),
        Audio(b"abc", "audio/wav"),
        File("file text", "a.txt"),
        File(b"\x00\x01", "a.bin"),
        ResourceLink("https://example.com", "example"),
    ]
    return ToolResult(text={"a": 1}, media=media)


@tool(read_only=True)
def structured() -> ToolResult:
    """Structured content."""
    return ToolResult(text="dropped", media=[Image(PNG)], structured={"b": 2})


KINDS: list[Tool[..., Any]] = [data, plain, nothing, picture, mixed, structured]


def name_of(tool_name: str) -> str:
    return mcp_tool_name("helper", tool_name)


def calling(*names: str, **data: Any) -> Reply:
    """A reply that calls tools of the server `helper`, each by the id `toolu_<name>`."""
    return Reply([tool_use(name_of(name), data, id=f"toolu_{name}") for name in names])


def text_of(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def result_text(request: RecordedRequest, call_id: str) -> str:
    found = request.tool_result(call_id)
    assert found is not None
    return text_of(found["content"])


def block_types(request: RecordedRequest, call_id: str) -> list[str]:
    found = request.tool_result(call_id)
    assert found is not None
    return [block["type"] for block in found["content"]]


def check_kinds(last: RecordedRequest) -> None:
    assert result_text(last, "toolu_data") == '[{"name": "Köln", "people": 1000000}]'
    assert result_text(last, "toolu_plain") == "just text"
    assert result_text(last, "toolu_nothing") == "(mcp__helper__nothing completed with no output)"
    assert block_types(last, "toolu_picture")[0] == "image"
    told = result_text(last, "toolu_mixed")
    assert '{"a": 1}' in told
    assert "[Audio from helper] Binary content (audio/wav, 3 bytes) saved to" in told
    assert "[Resource from helper at file:///a.txt] file text" in told
    assert "[Resource from helper at file:///a.bin] Binary content" in told
    assert "[Resource link: example] https://example.com" in told
    assert "image" in block_types(last, "toolu_mixed")
    assert '{"b":2}' in result_text(last, "toolu_structured")
    assert "dropped" not in result_text(last, "toolu_structured")
    assert "image" in block_types(last, "toolu_structured")


async def test_every_kind_of_result_reaches_the_model_and_the_answer_is_the_models() -> None:
    script: list[Any] = [*(calling(item.name) for item in KINDS), text("All looked at.")]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        result = await run("look", model.options(mcp_servers={"helper": ToolServer("helper", KINDS)}))

    assert result.text == "All looked at."
    check_kinds(model.requests_of("main")[-1])
    calls = {record.tool_name: record for record in result.tool_calls}
    assert list(calls) == [item.name for item in KINDS]
    assert all(record.done and not record.is_error and record.duration is not None for record in calls.values())
    assert calls["structured"].structured == {"b": 2}
    assert calls["data"].agent_id is None
    assert calls["data"].permission is not None
    assert calls["data"].permission.decision == "accept"


async def test_a_subagent_calls_tools_and_the_tool_knows_who() -> None:
    callers: list[Any] = []

    @tool(read_only=True)
    def who(context: ToolContext) -> str:
        """Who calls."""
        callers.append((context.agent_id, context.task.description if context.task else None, context.tool_use_id))
        return "noted"

    launch = tool_use("Agent", {"description": "the helper", "prompt": "look as helper", "subagent_type": "looker"})
    with (
        ScriptedModel(
            [calling("who"), Reply(launch), text("Main is done.")],
            agents={
                "look as helper": [
                    Reply(tool_use(name_of("who"), id="toolu_child")),
                    *(calling(item.name) for item in KINDS),
                    text("Helper is done."),
                ]
            },
            on_exhausted="All done.",
        ) as model,
        anyio.fail_after(60),
    ):
        options = model.options(
            mcp_servers={"helper": ToolServer("helper", [*KINDS, who])},
            agents={"looker": AgentDefinition(description="Looks", prompt="You look.")},
        )
        result = await run("start", options)

    check_kinds(model.requests_of("look as helper")[-1])
    [main, child] = callers
    assert main == (None, None, "toolu_who")
    assert child[0] is not None
    assert child[1:] == ("the helper", "toolu_child")
    by_agent = {record.id: record.agent_id for record in result.tool_calls}
    assert by_agent["toolu_child"] == child[0]


async def test_parallel_calls_run_at_once_and_come_back_in_one_user_message() -> None:
    all_run = threading.Barrier(3)

    @tool(read_only=True)
    def slow(index: int) -> str:
        """Ends when all three run, in threads."""
        all_run.wait(60)
        return f"slept {index}"

    calls = [tool_use(name_of("slow"), {"index": index}, id=f"toolu_{index}") for index in range(3)]
    with ScriptedModel([Reply(calls), text("done")]) as model, anyio.fail_after(60):
        result = await run("go", model.options(mcp_servers={"helper": ToolServer("helper", [slow])}))

    assert max(record.started_at or 0 for record in result.tool_calls) <= min(
        record.ended_at or 0 for record in result.tool_calls
    )
    last = model.requests_of("main")[-1]
    [message] = [
        item
        for item in last.messages
        if item["role"] == "user" and any(block.get("type") == "tool_result" for block in _blocks(item))
    ]
    results = {block["tool_use_id"]: text_of(block["content"]) for block in _blocks(message) if "tool_use_id" in block}
    assert results == {f"toolu_{index}": f"slept {index}" for index in range(3)}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else []


async def test_failures_are_told_to_the_model_which_mends_them(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def divide(a: int, b: int) -> float:
        """Divide."""
        if b == 1:
            raise ToolError("Dividing by one is silly.")
        return a / b

    @tool(timeout=0.1)
    async def slow() -> None:
        """Takes long."""
        await anyio.sleep_forever()

    script: list[Any] = [
        Reply(tool_use(name_of("divide"), {"a": "many", "c": 1}, id="toolu_wrong")),
        Reply(tool_use(name_of("divide"), {"a": 4, "b": 0}, id="toolu_crash")),
        Reply(tool_use(name_of("divide"), {"a": 4, "b": 1}, id="toolu_refused")),
        Reply(tool_use(name_of("slow"), {}, id="toolu_slow")),
        Reply(tool_use(name_of("divide"), {"a": 4, "b": 2}, id="toolu_good")),
        text("It is 2."),
    ]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        result = await run("go", model.options(mcp_servers={"helper": ToolServer("helper", [divide, slow])}))

    last = model.requests_of("main")[-1]
    wrong = result_text(last, "toolu_wrong")
    assert wrong.startswith("invalid arguments for divide:\n- a: Input should be a valid integer")
    assert "\n- b: is required\n- c: is not a parameter\n" in wrong
    assert result_text(last, "toolu_crash").startswith("divide failed: ZeroDivisionError: division by zero")
    assert "Traceback" not in str(last.messages)
    assert result_text(last, "toolu_refused").startswith("Dividing by one is silly.")
    assert result_text(last, "toolu_slow").startswith("slow did not finish within 0.1 s and was cancelled")
    assert result_text(last, "toolu_good") == "2.0"
    assert [record.is_error for record in result.tool_calls] == [True, True, True, True, False]
    assert result.text == "It is 2."
    assert sum("tool divide" in entry.getMessage() for entry in caplog.records) == 1


async def test_a_failed_tool_stands_among_the_handler_errors() -> None:
    @tool
    def crash() -> None:
        """Crash."""
        raise LookupError("nothing there")

    with ScriptedModel([calling("crash"), text("done")]) as model, anyio.fail_after(60):
        async with Client(model.options(mcp_servers=[ToolServer("helper", [crash])])) as client:
            await client.query("go")
            [error] = client.handler_errors

    assert (error.handler, type(error.__cause__)) == ("tool crash", LookupError)


async def test_a_tool_is_told_where_the_session_works(tmp_path: Path) -> None:
    seen: list[str | None] = []

    @tool
    def where(context: ToolContext) -> str:
        """Say where."""
        seen.append(context.cwd)
        return "here"

    with ScriptedModel([calling("where"), text("done")]) as model, anyio.fail_after(60):
        async with Client(model.options(cwd=tmp_path, mcp_servers=[ToolServer("helper", [where])])) as client:
            await client.query("go")
    assert seen == [str(tmp_path)]


async def test_ten_megabytes_are_cut_where_the_cli_would_hide_them(tmp_path: Path) -> None:
    @tool(overflow="truncate")
    def cut() -> str:
        """Too much."""
        return "ä😀" * 3_000_000

    @tool(overflow="file", overflow_directory=tmp_path)
    def spilled() -> str:
        """Too much, too."""
        return "x" * 10_000_000

    @tool(overflow="error")
    def refused() -> str:
        """Also too much."""
        return "x" * 10_000_000

    @tool(max_result_chars=200_000)
    def roomy() -> str:
        """Much, but wanted."""
        return "x" * 150_000

    @tool
    def several() -> list[Any]:
        """Text and media, each short enough by itself."""
        link = ResourceLink("https://example.com", "example", "described " * 50)
        return ["x" * 30_000, File("y" * 30_000, "a.txt"), File(b"\x00", "a.bin"), Audio(b"abc"), link]

    tools: list[Any] = [cut, spilled, refused, roomy, several]
    script: list[Any] = [*(calling(item.name) for item in tools), text("done")]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        await run("go", model.options(mcp_servers={"helper": ToolServer("helper", tools)}))

    last = model.requests_of("main")[-1]
    assert result_text(last, "toolu_cut").endswith("of 9,000,000 characters]")
    [path] = tmp_path.iterdir()
    assert path.stat().st_size == 10_000_000
    assert f"full result in {path}]" in result_text(last, "toolu_spilled")
    assert "10,000,000 characters, over the limit of 50,000" in result_text(last, "toolu_refused")
    assert result_text(last, "toolu_roomy") == "x" * 150_000
    assert len(result_text(last, "toolu_several")) > 45_000
    assert "of 30,000 characters]" in result_text(last, "toolu_several")


async def test_an_interrupt_cancels_the_call_and_the_session_goes_on() -> None:
    started, stopped = Event(), Event()
    contexts: list[ToolContext] = []

    @tool
    async def slow(context: ToolContext) -> None:
        """Takes long."""
        contexts.append(context)
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    with ScriptedModel([calling("slow"), text("again")]) as model, anyio.fail_after(60):
        async with Client(model.options(mcp_servers={"helper": ToolServer("helper", [slow])})) as client:
            first = client.query("go")
            async with anyio.create_task_group() as workers:
                workers.start_soon(first.result)
                await started.wait()
                await first.interrupt()
                await stopped.wait()
            assert contexts[0].cancelled
            assert (await client.query("and now?")).text == "again"


async def test_progress_reports_do_no_harm() -> None:
    @tool
    def work(context: ToolContext) -> str:
        """Reports from its thread."""
        for step in range(3):
            context.report_progress(step + 1, 3, f"step {step}")
        context.log("info", "working")
        return "worked"

    with ScriptedModel([calling("work"), text("done")]) as model, anyio.fail_after(60):
        result = await run("go", model.options(mcp_servers=[ToolServer("helper", [work])]))

    assert result.tool_calls[0].text == "worked"
    assert result.text == "done"


async def test_functions_are_tools_by_themselves() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    full = mcp_tool_name("tools", "add")
    with ScriptedModel([Reply(tool_use(full, {"a": 1, "b": 2}, id="toolu_add")), text("3")]) as model:
        with anyio.fail_after(60):
            result = await run("go", model.options(custom_tools=[add], env={"ENABLE_TOOL_SEARCH": "false"}))

    assert result.tool_calls[0].text == "3"
    [definition] = [item for item in model.requests[0].tools if item["name"] == full]
    assert definition["description"] == "Add two numbers."
    assert set(definition["input_schema"]["properties"]) == {"a", "b"}


async def test_tools_that_are_always_loaded_and_tools_that_are_deferred() -> None:
    @tool(always_load=True)
    def loaded() -> None:
        """Always there."""

    with ScriptedModel([text("ok")]) as model, anyio.fail_after(60):
        await run("go", model.options(mcp_servers=[ToolServer("helper", [loaded, plain])]))

    names = model.requests[0].tool_names
    assert name_of("loaded") in names
    assert name_of("plain") not in names


async def test_tools_come_and_go_while_the_session_runs() -> None:
    server = ToolServer("helper", [plain], always_load=True)
    script: list[Any] = [text("one"), calling("data", "plain"), text("two")]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with Client(model.options(mcp_servers=[server])) as client:
            await client.query("first")
            server.add(data)
            server.remove("plain")
            while not await _has_tool(client, "data"):
                await anyio.lowlevel.checkpoint()
            assert not await _has_tool(client, "plain")
            result = await client.query("second")

    first, second, *_ = model.requests_of("main")
    assert name_of("plain") in first.tool_names
    assert name_of("data") not in first.tool_names
    assert name_of("data") in second.tool_names
    there, gone = result.tool_calls
    assert "Köln" in there.text
    assert "does not offer this tool here" in gone.text


async def _has_tool(client: Client, name: str) -> bool:
    [status] = [server for server in await client.mcp.status() if server.name == "helper"]
    return any(item.name == name for item in status.tools or ())


async def test_the_model_reads_resources() -> None:
    server = ToolServer("helper", resources=[Resource("notes://today", lambda: "buy milk", "today")])
    script: list[Any] = [
        Reply(tool_use("ListMcpResourcesTool", {}, id="toolu_list")),
        Reply(tool_use("ReadMcpResourceTool", {"server": "helper", "uri": "notes://today"}, id="toolu_read")),
        text("read"),
    ]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        await run("what is there?", model.options(mcp_servers=[server]))

    last = model.requests_of("main")[-1]
    assert "notes://today" in result_text(last, "toolu_list")
    assert "buy milk" in result_text(last, "toolu_read")


async def test_a_policy_takes_a_tool_away() -> None:
    server = ToolServer("helper", [plain, data], policies={"data": "always_deny"})
    with ScriptedModel([calling("data"), calling("plain"), text("ok")]) as model, anyio.fail_after(60):
        result = await run("go", model.options(mcp_servers=[server]))

    denied, allowed = result.tool_calls
    assert "No such tool available" in denied.text
    assert allowed.text == "just text"


async def test_a_server_of_the_mcp_package() -> None:
    server = _package_server()
    script: list[Any] = [Reply(tool_use(name_of("add"), {"a": 1, "b": 2}, id="toolu_add")), text("3, it says")]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with Client(model.options(mcp_servers={"helper": server})) as client:
            at_once = await client.mcp.ready(timeout=60)
            result: RunResult = await client.query("go")
            [status] = [item for item in await client.mcp.status() if item.name == "helper"]

    assert [(item.name, item.status) for item in at_once] == [("helper", "connected")]
    assert status.status == "connected"
    assert result.tool_calls[0].text == "3" or result.tool_calls[0].structured is not None
    assert result.text == "3, it says"


def _package_server() -> Any:
    pytest.importorskip("mcp")
    if find_spec("mcp.server.mcpserver"):  # version 2
        server: Any = import_module("mcp.server.mcpserver").MCPServer("helper")
    else:
        server = import_module("mcp.server.fastmcp").FastMCP("helper")

    @server.tool()  # type: ignore[untyped-decorator,unused-ignore]
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server
