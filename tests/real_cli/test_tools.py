"""Tools in this process, called by the real CLI."""

import json
import sys
import threading
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import Event
from one_session import OneSession

from claude_agent_py import (
    AgentDefinition,
    Client,
    MCPStdioServer,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolServer,
    tool,
)
from claude_agent_py.errors import OptionsError
from claude_agent_py.formatting import Audio, File, Image, Media, ResourceLink
from claude_agent_py.hooks import HookContext, PostToolUseInput, PostToolUseOutput
from claude_agent_py.journal import CallEnded, CallProgressed
from claude_agent_py.testing import RecordedRequest, Reply, tool_use
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


@tool(read_only=True)
def typed() -> City:
    """An object."""
    return City("Bonn", 1)


KINDS: list[Tool[..., Any]] = [data, plain, nothing, picture, mixed, structured, typed]


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
    assert result_text(last, "toolu_typed") == '{"name":"Bonn","people":1}'
    assert '{"b":2}' in result_text(last, "toolu_structured")
    assert "dropped" not in result_text(last, "toolu_structured")
    assert "image" in block_types(last, "toolu_structured")


class Tools(OneSession):
    """A session with a server of tools in this process, to which the checks add theirs."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.server = ToolServer("helper", KINDS)

    async def offer(self, *tools: Tool[..., Any]) -> None:
        """Add tools, and wait until the CLI knows them."""
        for one in tools:
            self.server.add(one)
        with anyio.fail_after(240):
            while not {one.name for one in tools} <= await offered(self.client):
                await anyio.sleep(0.02)


async def offered(client: Client) -> set[str]:
    """Return the tools of the server `helper` that the CLI knows."""
    [status] = [server for server in await client.mcp.status() if server.name == "helper"]
    return {item.name for item in status.tools or ()}


async def every_kind_of_result_reaches_the_model_and_the_answer_is_the_models(one: Tools) -> None:
    result = await one.ask(*(calling(item.name) for item in KINDS), "All looked at.")
    assert result.text == "All looked at."
    check_kinds(one.requests_of()[-1])
    calls = {record.tool_name: record for record in result.tool_calls}
    assert list(calls) == [item.name for item in KINDS]
    assert all(record.done and not record.is_error and record.duration is not None for record in calls.values())
    assert calls["structured"].structured == {"b": 2}
    assert calls["typed"].structured == {"name": "Bonn", "people": 1}
    assert calls["data"].structured is None
    assert calls["data"].agent_id is None
    assert calls["data"].permission is not None
    assert calls["data"].permission.decision == "accept"


async def a_subagent_calls_tools_and_the_tool_knows_who(one: Tools) -> None:
    callers: list[Any] = []

    @tool(read_only=True)
    def who(context: ToolContext) -> str:
        """Who calls."""
        callers.append((context.agent_id, context.task.description if context.task else None, context.tool_use_id))
        return "noted"

    await one.offer(who)
    launch = tool_use("Agent", {"description": "the helper", "prompt": "look as helper", "subagent_type": "looker"})
    result = await one.ask(calling("who"), Reply(launch), "Main is done.", "All done.")
    check_kinds(one.requests_of("look as helper")[-1])
    [main, child] = callers
    assert main == (None, None, "toolu_who")
    assert child[0] is not None
    assert child[1:] == ("the helper", "toolu_child")
    by_agent = {record.id: record.agent_id for record in result.tool_calls}
    assert by_agent["toolu_child"] == child[0]


async def parallel_calls_run_at_once_and_come_back_in_one_user_message(one: Tools) -> None:
    all_run = threading.Barrier(3)

    @tool(read_only=True)
    def together(index: int) -> str:
        """Ends when all three run, in threads."""
        all_run.wait(60)
        return f"slept {index}"

    await one.offer(together)
    calls = [tool_use(name_of("together"), {"index": index}, id=f"toolu_{index}") for index in range(3)]
    result = await one.ask(Reply(calls), "done")
    assert max(record.started_at or 0 for record in result.tool_calls) <= min(
        record.ended_at or 0 for record in result.tool_calls
    )
    last = one.requests_of()[-1]
    messages = [
        {block["tool_use_id"]: text_of(block["content"]) for block in _blocks(item) if "tool_use_id" in block}
        for item in last.messages
        if item["role"] == "user"
    ]
    assert {f"toolu_{index}": f"slept {index}" for index in range(3)} in messages


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else []


async def failures_are_told_to_the_model_which_mends_them(one: Tools) -> None:
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

    await one.offer(divide, slow)
    result = await one.ask(
        Reply(tool_use(name_of("divide"), {"a": "many", "c": 1}, id="toolu_wrong")),
        Reply(tool_use(name_of("divide"), {"a": 4, "b": 0}, id="toolu_crash")),
        Reply(tool_use(name_of("divide"), {"a": 4, "b": 1}, id="toolu_silly")),
        Reply(tool_use(name_of("slow"), {}, id="toolu_slow")),
        Reply(tool_use(name_of("divide"), {"a": 4, "b": 2}, id="toolu_good")),
        "It is 2.",
    )
    last = one.requests_of()[-1]
    wrong = result_text(last, "toolu_wrong")
    assert wrong.startswith("invalid arguments for divide:\n- a: Input should be a valid integer")
    assert "\n- b: is required\n- c: is not a parameter\n" in wrong
    assert result_text(last, "toolu_crash").startswith("divide failed: ZeroDivisionError: division by zero")
    assert "Traceback" not in str(last.messages)
    assert result_text(last, "toolu_silly").startswith("Dividing by one is silly.")
    assert result_text(last, "toolu_slow").startswith("slow did not finish within 0.1 s and was cancelled")
    assert result_text(last, "toolu_good") == "2.0"
    assert [record.is_error for record in result.tool_calls] == [True, True, True, True, False]
    assert result.text == "It is 2."


async def a_failed_tool_stands_among_the_handler_errors(one: Tools) -> None:
    @tool
    def crash() -> None:
        """Crash."""
        raise LookupError("nothing there")

    await one.offer(crash)
    before = len(one.client.handler_errors)
    await one.ask(calling("crash"), "done")
    [error] = one.client.handler_errors[before:]
    assert (error.handler, type(error.__cause__)) == ("tool crash", LookupError)


async def a_tool_is_told_where_the_session_works_and_reports_progress(one: Tools) -> None:
    seen: list[str | None] = []

    @tool
    def work(context: ToolContext) -> str:
        """Reports from its thread."""
        seen.append(context.cwd)
        for step in range(3):
            context.report_progress(step + 1, 3, f"step {step}")
        context.log("info", "working")
        return "worked"

    await one.offer(work)
    facts = one.client.journal()
    result = await one.ask(calling("work"), "done")
    assert seen == [str(one.client.options.cwd)]
    reported = []
    async for fact in facts:
        if isinstance(fact, CallProgressed):
            reported.append((fact.id, fact.progress, fact.total, fact.text))
        if isinstance(fact, CallEnded):
            break
    facts.close()
    assert reported == [(result.tool_calls[0].id, step + 1, 3, f"step {step}") for step in range(3)]
    assert result.tool_calls[0].text == "worked"
    assert result.text == "done"


async def an_interrupt_cancels_the_call_and_the_session_goes_on(one: Tools) -> None:
    started, stopped = Event(), Event()
    contexts: list[ToolContext] = []

    @tool
    async def endless(context: ToolContext) -> None:
        """Takes long."""
        contexts.append(context)
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    await one.offer(endless)
    one.answers(calling("endless"))
    with anyio.fail_after(240):
        first = one.client.query("go")
        async with anyio.create_task_group() as workers:
            workers.start_soon(first.result)
            await started.wait()
            await first.interrupt()
            await stopped.wait()
    assert contexts[0].cancelled
    assert (await one.ask("again", prompt="and now?")).text == "again"


async def ten_megabytes_are_cut_where_the_cli_would_hide_them(one: Tools) -> None:
    folder = one.model.sandbox.root / "spilled"
    folder.mkdir()

    @tool(overflow="truncate")
    def cut() -> str:
        """Too much."""
        return "ä😀" * 3_000_000

    @tool(overflow="file", overflow_directory=folder)
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
    await one.offer(*tools)
    await one.ask(*(calling(item.name) for item in tools), "done")
    last = one.requests_of()[-1]
    assert result_text(last, "toolu_cut").endswith("of 9,000,000 characters]")
    [path] = folder.iterdir()
    assert path.stat().st_size == 10_000_000
    assert f"full result in {path}]" in result_text(last, "toolu_spilled")
    assert "10,000,000 characters, over the limit of 50,000" in result_text(last, "toolu_refused")
    assert result_text(last, "toolu_roomy") == "x" * 150_000
    assert len(result_text(last, "toolu_several")) > 45_000
    assert "of 30,000 characters]" in result_text(last, "toolu_several")


async def what_a_hook_replaces_stays_hidden_from_the_model_and_from_programs(one: Tools) -> None:
    @tool
    def secret() -> City:
        """An object."""
        return City("hidden", 1)

    await one.offer(secret)
    facts = one.client.journal()
    result = await one.ask(calling("secret"), "done")
    assert result_text(one.requests_of()[-1], "toolu_secret") == "withheld"
    async for fact in facts:
        if isinstance(fact, CallEnded):
            assert fact.structured == "withheld"
            break
    facts.close()
    [call] = result.tool_calls
    assert (call.text, call.structured) == ("withheld", None)


def withhold(given: PostToolUseInput, context: HookContext) -> PostToolUseOutput | None:
    return PostToolUseOutput(updated_tool_output="withheld") if "hidden" in str(given.tool_response) else None


async def test_inputs_and_results_of_tools_in_one_session(caplog: pytest.LogCaptureFixture) -> None:
    looked = [
        Reply(tool_use(name_of("who"), id="toolu_child")),
        *(calling(item.name) for item in KINDS),
        "Helper is done.",
    ]
    one = Tools(agents={"look as helper": looked})
    agents = {"looker": AgentDefinition(description="Looks", prompt="You look.")}
    async with one.open(mcp_servers={"helper": one.server}, agents=agents, hooks={"PostToolUse": [withhold]}):
        for check in (
            every_kind_of_result_reaches_the_model_and_the_answer_is_the_models,
            a_subagent_calls_tools_and_the_tool_knows_who,
            parallel_calls_run_at_once_and_come_back_in_one_user_message,
            failures_are_told_to_the_model_which_mends_them,
            a_failed_tool_stands_among_the_handler_errors,
            a_tool_is_told_where_the_session_works_and_reports_progress,
            an_interrupt_cancels_the_call_and_the_session_goes_on,
            ten_megabytes_are_cut_where_the_cli_would_hide_them,
            what_a_hook_replaces_stays_hidden_from_the_model_and_from_programs,
        ):
            await check(one)
    assert sum("tool divide" in entry.getMessage() for entry in caplog.records) == 1


async def test_tools_come_and_go_and_are_loaded_or_deferred() -> None:
    @tool(always_load=True)
    def loaded() -> None:
        """Always there."""

    @tool(always_load=False)
    def deferred() -> None:
        """Found by a search."""

    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    one = Tools()
    one.server = ToolServer("helper", [plain], always_load=True)
    large = ToolServer("large", [tool(name=f"t{n}", description="x" * 1_000)(lambda: None) for n in range(13)])
    async with one.open(
        mcp_servers=[one.server, ToolServer("other", [loaded, deferred]), large], custom_tools=[add]
    ) as client:
        await one.ask("one")
        (first,) = one.requests_of()
        one.server.remove("plain")
        await one.offer(data)
        assert "plain" not in await offered(client)
        result = await one.ask(calling("data", "plain"), "two")
        second, _ = one.requests_of()

    assert name_of("plain") in first.tool_names
    assert name_of("data") not in first.tool_names
    assert mcp_tool_name("other", "loaded") in first.tool_names
    assert mcp_tool_name("other", "deferred") not in first.tool_names
    assert not [name for name in first.tool_names if name.startswith("mcp__large__")]
    [shown] = [item for item in first.tools if item["name"] == mcp_tool_name("tools", "add")]
    assert shown["input_schema"] == tool(add).input_schema
    assert name_of("data") in second.tool_names
    there, gone = result.tool_calls
    assert "Köln" in there.text
    assert "does not offer this tool here" in gone.text


ANY_SCHEMAS: list[dict[str, Any]] = [
    {"properties": {"a": True}, "required": ["a"], "$defs": {"X": False}},
    {"properties": {"enum": {"type": ["string", "null"], "enum": []}, "$ref": {}}, "additionalProperties": False},
    {"properties": {"a": 3}},
    {"properties": {"a": None}},
    {"properties": {"a b": {}}},
    {"properties": {"a": {"properties": {"a b": {"$ref": "#/$defs/none"}}}}},
    {"properties": {"a": {"type": "strin"}}},
    {"properties": {"a": {"type": []}}},
    {"properties": {"a": {"type": ["string", "string"]}}},
    {"properties": {"a": {"items": [{}]}}},
    {"properties": {"a": {"prefixItems": [{}, 3]}}},
    {"properties": {"a": {"anyOf": []}}},
    {"properties": {"a": {"not": {"if": 3}}}},
    {"properties": {"a": {"required": True}}},
    {"properties": {"a": {"minLength": 1.0, "pattern": "(", "const": None, "x-own": 3}}},
    {"properties": {"a": {"minLength": 1.5}}},
    {"properties": {"a": {"multipleOf": 0}}},
    {"properties": {"a": {"minimum": None}}},
    {"properties": {"a": {"uniqueItems": 1}}},
    {"properties": {"a": {"$anchor": "1"}}},
    {"patternProperties": {"(": {}}, "dependencies": {"a": ["b"]}},
    {"patternProperties": {"a": 3}},
    {"$defs": {"X": {"description": 3}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{}], "type": "strin"}}},
    {"$schema": "https://json-schema.org/draft/2020-12/schema#", "properties": {"a": {"items": [{}]}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"$a": {}}},
]
"""Schemas of tools, besides their type."""
NOT_MCP: list[dict[str, Any]] = [{"type": ["object"]}, {"required": [3]}, {"properties": None}]
"""For each of these, the CLI drops all tools of the server."""


async def test_the_cli_has_no_tool_whose_schema_is_refused() -> None:
    def serve(schemas: list[dict[str, Any]]) -> MCPStdioServer:
        script = str(Path(__file__).with_name("stdio_mcp_server.py"))
        return MCPStdioServer(command=sys.executable, args=[script, "--schemas", json.dumps(schemas)], always_load=True)

    def is_refused(schema: dict[str, Any]) -> bool:
        try:
            Tool.from_schema("t", "", schema, print)
        except OptionsError:
            return True
        return False

    schemas = [{"type": "object", **schema} for schema in ANY_SCHEMAS]
    not_mcp = [{"type": "object", **schema} for schema in NOT_MCP]
    servers = {f"bad{n}": serve([{"type": "object"}, schema]) for n, schema in enumerate(not_mcp)}
    one = Tools()
    async with one.open(mcp_servers={"any": serve(schemas), **servers}) as client:
        await client.mcp.ready(timeout=60)
        await one.ask()
        (request,) = one.requests_of()

    shown = [mcp_tool_name("any", f"t{n}") in request.tool_names for n in range(len(schemas))]
    assert shown == [not is_refused(schema) for schema in schemas]
    assert all(map(is_refused, not_mcp))
    assert not [name for name in request.tool_names if name.startswith("mcp__bad")]


async def test_functions_resources_policies_and_a_server_of_the_mcp_package() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    resources = [Resource("notes://today", lambda: "buy milk", "today")]
    helper = ToolServer("helper", [plain, data], resources=resources, policies={"data": "always_deny"})
    own, package = mcp_tool_name("tools", "add"), mcp_tool_name("package", "add")
    one = OneSession()
    async with one.open(
        custom_tools=[add],
        mcp_servers={"helper": helper, "package": _package_server()},
        env={"ENABLE_TOOL_SEARCH": "false"},
    ) as client:
        at_once = await client.mcp.ready(timeout=60)
        assert {item.name: item.status for item in at_once}["package"] == "connected"

        result = await one.ask(Reply(tool_use(own, {"a": 1, "b": 2}, id="toolu_add")), "3")
        assert result.tool_calls[0].text == "3"
        [definition] = [item for item in one.requests_of()[0].tools if item["name"] == own]
        assert definition["description"] == "Add two numbers."
        assert set(definition["input_schema"]["properties"]) == {"a", "b"}

        await one.ask(
            Reply(tool_use("ListMcpResourcesTool", {}, id="toolu_list")),
            Reply(tool_use("ReadMcpResourceTool", {"server": "helper", "uri": "notes://today"}, id="toolu_read")),
            "read",
        )
        last = one.requests_of()[-1]
        assert "notes://today" in result_text(last, "toolu_list")
        assert "buy milk" in result_text(last, "toolu_read")

        denied, allowed = (await one.ask(calling("data"), calling("plain"), "ok")).tool_calls
        assert "No such tool available" in denied.text
        assert allowed.text == "just text"

        result = await one.ask(Reply(tool_use(package, {"a": 1, "b": 2}, id="toolu_package")), "3, it says")
        assert result.text == "3, it says"
        [call] = result.tool_calls
        assert (call.structured, call.text) == ({"result": 3}, '{"result":3}')
        names = [mcp_tool_name("package", name) for name in ("where", "bare")]
        result = await one.ask(Reply([tool_use(name, {}) for name in names]), "there")
        assert [(call.structured, call.text) for call in result.tool_calls] == [
            ({"name": "Bonn", "people": 1}, '{"name":"Bonn","people":1}'),
            (None, "3"),
        ]


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

    @server.tool()  # type: ignore[untyped-decorator,unused-ignore]
    def where() -> City:
        """Return an object."""
        return City("Bonn", 1)

    @server.tool(structured_output=False)  # type: ignore[untyped-decorator,unused-ignore]
    def bare() -> int:
        """Return a number as text."""
        return 3

    return server
