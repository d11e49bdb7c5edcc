"""Running tools: limits, threads, cancellation, failures."""

import asyncio
import functools
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio import Event, from_thread
from mcp_client import Connect, connect as connect, text_of
from one_call import outcome_of
from trio.testing import MockClock

from claude_agent_py import Tool, ToolContext, ToolResult, ToolServer, tool
from claude_agent_py.errors import OptionsError, ToolError, ToolInputError, ToolTimeoutError

pytestmark = pytest.mark.anyio

user: ContextVar[str] = ContextVar("user")


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
async def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def test_a_tool_is_still_its_function() -> None:
    assert add(2, b=3) == 5
    assert await shout("a") == "A"
    assert (getattr(add, "__name__", ""), add.__doc__, repr(add)) == ("add", "Add two numbers.", "<Tool add>")


async def test_a_tool_that_ends_after_its_time_has_failed_whatever_it_returns() -> None:
    @tool(timeout=0.01)
    async def late() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            pass
        return "done after all"

    with anyio.fail_after(30), pytest.raises(ToolTimeoutError):
        await late.call({})


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), BaseExceptionGroup("", [SystemExit(3)])])
async def test_a_tool_that_exits_the_program_has_failed(error: BaseException, connect: Connect) -> None:
    @tool
    async def ends() -> None:
        raise error

    client = await connect(ToolServer("tools", [ends]))
    result = await client.call("ends")
    assert result["isError"]
    assert "tried to exit the program" in text_of(result)
    assert [failure.__cause__ for failure in client.cli.client.handler_errors] == [error]


async def test_calling_with_the_arguments_of_a_model() -> None:
    assert await add.call({"a": "2"}) == 3
    assert await shout.call({"text": "a"}) == "A"
    with pytest.raises(ToolInputError, match="a: is required"):
        await add.call({})


async def test_a_plain_function_runs_in_a_thread_with_the_callers_context() -> None:
    @tool
    def where() -> Any:
        return threading.get_ident(), user.get()

    user.set("me")

    thread, name = await where.call({})

    assert thread != threading.get_ident()
    assert name == "me"


async def test_a_plain_function_takes_an_argument_of_any_name() -> None:
    @tool
    def count(**words: int) -> int:
        return sum(words.values())

    assert await count.call({"self": 1, "function": 2, "args": 3}) == 6


async def test_a_plain_function_that_returns_an_awaitable() -> None:
    def later() -> Awaitable[str]:
        return shout("x")

    made = tool(later)

    assert await made.call({}) == "X"


async def test_the_context_describes_the_call() -> None:
    @tool
    def who(context: ToolContext) -> Any:
        return context.tool_use_id, context.agent_id, context.tool_name

    assert await who.call({}) == (None, None, "who")
    assert await who.call({}, ToolContext(tool_use_id="t", agent_id="a", tool_name="x")) == ("t", "a", "x")


async def test_a_tool_that_takes_too_long() -> None:
    stopped = Event()

    @tool(timeout=0.02)
    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    with anyio.fail_after(30):
        with pytest.raises(ToolTimeoutError) as caught:
            await slow.call({})

    assert (caught.value.tool, caught.value.timeout) == ("slow", 0.02)
    assert stopped.is_set()


async def test_a_plain_function_that_takes_too_long_is_abandoned() -> None:
    release = threading.Event()

    @tool(timeout=0.02)
    def slow() -> None:
        release.wait(120)

    try:
        with anyio.fail_after(30):
            with pytest.raises(ToolTimeoutError):
                await slow.call({})
    finally:
        release.set()


async def test_a_timeout_of_the_tools_own_is_not_ours() -> None:
    @tool(timeout=60)
    async def impatient() -> None:
        raise TimeoutError("the database")

    outcome = await outcome_of(impatient)

    assert outcome.text == "impatient failed: TimeoutError: the database"


async def test_no_more_calls_than_allowed_run_at_once() -> None:
    running, most = 0, 0

    @tool(max_concurrency=2)
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.005)
        running -= 1

    async with anyio.create_task_group() as workers:
        for _ in range(6):
            workers.start_soon(work.call, {})

    assert most == 2


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
async def test_waiting_for_a_turn_does_not_count_as_running() -> None:
    @tool(max_concurrency=1, timeout=3)
    async def work() -> str:
        await anyio.sleep(2)
        return "done"

    results: list[str] = []

    async def call() -> None:
        results.append(await work.call({}))

    async with anyio.create_task_group() as workers:
        for _ in range(4):
            workers.start_soon(call)

    assert results == ["done"] * 4


def test_one_tool_serves_many_event_loops() -> None:
    @tool(max_concurrency=1)
    async def work() -> str:
        return "done"

    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(work.call, {}, backend=backend) == "done"


# Outcomes ---------------------------------------------------------------------------------------------------------


async def test_an_outcome_has_the_value_and_the_result_for_the_model() -> None:
    outcome = await outcome_of(add, {"a": 1})

    assert (outcome.value, outcome.text, outcome.error) == (2, "2", None)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("city"), "fail failed: KeyError: 'city'"),
        (ValueError(), "fail failed: ValueError"),
        (ValueError("x" * 100_000), "fail failed: ValueError: x"),
    ],
)
async def test_an_exception_becomes_a_short_text_and_one_log_entry(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def fail() -> None:
        raise error

    outcome = await outcome_of(fail)

    assert outcome.text.rstrip("x").startswith(text.rstrip("x"))
    assert len(outcome.text) <= 2_000
    assert outcome.is_error
    assert outcome.error is error
    [entry] = caplog.records
    assert (entry.levelno, entry.exc_info is not None) == (logging.ERROR, True)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("There is no such city; try a larger one."), "There is no such city; try a larger one."),
        (ToolError("Use https://me:secret@host instead."), "Use https://me:secret@host instead."),
        (ToolError(), "fail failed"),
    ],
)
async def test_a_tool_error_is_unchanged_and_not_logged(
    error: ToolError, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def fail() -> None:
        raise error

    assert (await outcome_of(fail)).text == text
    assert not caplog.records


async def test_wrong_arguments_are_reported_field_by_field(caplog: pytest.LogCaptureFixture) -> None:
    outcome = await outcome_of(add, {"a": "x", "c": 1})

    assert "- a: Input should be a valid integer" in outcome.text
    assert "- c: is not a parameter" in outcome.text
    assert not caplog.records


class Leaving(BaseException):
    """What is no `Exception`, as some libraries raise."""


@pytest.mark.parametrize("error", [SystemExit(3), Leaving()])
async def test_a_tool_that_exits_fails(error: BaseException) -> None:
    @tool
    def leave() -> None:
        raise error

    outcome = await outcome_of(leave)

    assert outcome.text == "leave tried to exit the program"


async def test_a_value_without_a_json_form_is_a_failure() -> None:
    made = tool(name="strange")(lambda: object())

    outcome = await outcome_of(made)

    assert outcome.text == (
        "strange failed: EncodingError: cannot encode a value of type object as JSON: unsupported type object"
    )


async def test_a_group_of_errors_is_reported_leaf_by_leaf() -> None:
    @tool
    async def fail() -> None:
        async def one() -> None:
            raise ValueError("one")

        async with anyio.create_task_group() as workers:
            workers.start_soon(one)

    outcome = await outcome_of(fail)

    assert outcome.text == "fail failed: ValueError: one"


async def test_cancelling_the_caller_is_no_outcome() -> None:
    started = Event()

    @tool
    async def slow() -> None:
        started.set()
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(outcome_of, slow)
            await started.wait()
            workers.cancel_scope.cancel()

    assert workers.cancel_scope.cancelled_caught


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_awaits_a_cancelled_future_fails() -> None:
    @tool
    async def broken() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    outcome = await outcome_of(broken)

    assert outcome.text == "broken cancelled itself"


async def test_a_structured_tool_sends_its_data_for_programs_too() -> None:
    @tool(structured=True)
    def count() -> list[int]:
        return [1, 2]

    @tool(structured=True)
    def chosen() -> ToolResult:
        return ToolResult(text="a", structured={"own": 1})

    assert (await outcome_of(count)).structured == {"result": [1, 2]}
    assert (await outcome_of(chosen)).structured == {"own": 1}
    assert (await outcome_of(add, {"a": 1})).structured is None


async def test_a_default_timeout_is_for_tools_without_one() -> None:
    @tool
    async def slow() -> None:
        await anyio.sleep_forever()

    @tool(timeout=60)
    async def patient() -> str:
        await anyio.sleep(0.05)
        return "done"

    assert "within 0.01 s" in (await outcome_of(slow, timeout=0.01)).text
    assert (await outcome_of(patient, timeout=0.01)).text == "done"


async def test_progress_from_a_thread_and_from_the_loop() -> None:
    heard: list[Any] = []

    class Listening(ToolContext, frozen=True):
        def notify(self, method: str, params: dict[str, Any]) -> None:
            heard.append((method, params))

    context = Listening(progress_token=7)

    @tool
    def plain(context: ToolContext) -> None:
        from_thread.run_sync(context.report_progress, 1, 2, "half")

    await plain.call({}, context)
    context.report_progress(2)
    ToolContext().report_progress(1)

    assert heard == [
        ("notifications/progress", {"progressToken": 7, "progress": 1, "total": 2, "message": "half"}),
        ("notifications/progress", {"progressToken": 7, "progress": 2}),
    ]


# Definitions ------------------------------------------------------------------------------------------------------


async def test_a_definition_says_everything() -> None:
    @tool(
        name="find",
        description="Finds.",
        title="Find things",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        always_load=True,
        search_hint="look up",
        max_result_chars=100_000,
        meta={"own": 1},
    )
    def f() -> None:
        """Not this."""

    assert f.definition() == {
        "name": "find",
        "title": "Find things",
        "description": "Finds.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {
            "title": "Find things",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "_meta": {
            "anthropic/alwaysLoad": True,
            "anthropic/searchHint": "look up",
            "anthropic/maxResultSizeChars": 100_000,
            "own": 1,
        },
    }
    assert set(add.definition()) == {"name", "description", "inputSchema"}


def numbers() -> Iterator[int]:
    yield 1


async def numbers_later() -> AsyncIterator[int]:
    yield 1


class Numbers:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("function", [numbers, numbers_later, Numbers(), functools.partial(numbers)])
async def test_a_generator_function_is_refused_when_it_is_decorated(function: Any) -> None:
    with pytest.raises(OptionsError, match="tool 'f': a generator function cannot be a tool; return a list"):
        tool(name="f")(function)
    with pytest.raises(OptionsError, match="a generator function cannot be a tool"):
        Tool.from_schema("f", "Counts.", {"type": "object"}, function)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"timeout": 0}, "timeout of tool 'f': must be a positive number"),
        ({"timeout": "5"}, "timeout of tool 'f': must be a positive number"),
        ({"timeout": float("nan")}, "timeout of tool 'f': must be a positive number"),
        ({"max_concurrency": 0}, "max_concurrency of tool 'f': must be a number of at least 1"),
        ({"max_concurrency": 1.5}, "max_concurrency of tool 'f': must be a number of at least 1"),
        ({"max_result_chars": "5"}, "max_result_chars must be int, not str"),
        ({"description": 5}, "description must be str, not int"),
        ({"title": 5}, r"title must be str \| None, not int"),
        ({"search_hint": ["x"]}, r"search_hint must be str \| None, not list"),
        ({"read_only": "yes"}, r"read_only must be bool \| None, not str"),
        ({"always_load": 1}, r"always_load must be bool \| None, not int"),
        ({"meta": {"x": object()}}, "meta must hold only JSON values"),
        ({"meta": [1]}, "meta must be Mapping, not list"),
        ({"max_result_chars": 500_001}, "max_result_chars must be between 1 and 500,000"),
        ({"overflow": "drop"}, "overflow must be 'truncate', 'file' or 'error'"),
        ({"name": "no name"}, "a name must have 1 to 128"),
    ],
)
async def test_wrong_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        tool(**{"name": "f", **settings})(lambda: None)
