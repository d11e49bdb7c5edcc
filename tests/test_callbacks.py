"""Functions of users: handlers that answer, and listeners that are told."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from bounds import set_bound

from claude_agent_py._base import callbacks
from claude_agent_py._base.callbacks import Callback
from claude_agent_py._base.cancellation import Cancellation
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py.errors import HandlerError

pytestmark = pytest.mark.anyio


def same(value: Any) -> Any:
    return value


async def test_the_reader_converts_the_returned_value() -> None:
    async def handler(a: int, b: int) -> int:
        return a + b

    assert await Callback(handler).call_and_read(1, 2, read=str) == "3"


async def test_a_plain_function_runs_in_another_thread() -> None:
    assert await Callback(threading.get_ident).call_and_read(read=same) != threading.get_ident()


async def test_an_exception_is_a_failure_with_its_cause_and_without_its_text() -> None:
    def handler() -> None:
        raise RuntimeError("sk-secret")

    with pytest.raises(HandlerError, match="raised RuntimeError") as caught:
        await Callback(handler).call_and_read(read=same)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "sk-secret" not in str(caught.value)
    assert "handler" in caught.value.handler


async def test_rubbish_is_a_failure_that_says_why() -> None:
    with pytest.raises(HandlerError, match="invalid answer: invalid literal"):
        await Callback(lambda: "x").call_and_read(read=int)


async def test_a_slow_async_handler_is_cancelled() -> None:
    cancelled = anyio.Event()

    async def handler() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(60), pytest.raises(HandlerError, match=r"within 0\.01 s"):
        await Callback(handler).call_and_read(read=same, timeout=0.01)
    assert cancelled.is_set()


async def test_a_slow_plain_handler_is_abandoned_and_can_notice() -> None:
    cancellation, noticed = Cancellation(), threading.Event()

    def handler() -> str:
        if cancellation.wait(60):
            noticed.set()
        return "too late"

    with anyio.fail_after(60), pytest.raises(HandlerError, match="did not answer"):
        await Callback(handler).call_and_read(read=same, timeout=0.3, cancellation=cancellation)
    assert noticed.wait(60)


async def test_a_cancellation_of_the_caller_is_no_failure() -> None:
    started, failures = anyio.Event(), []

    async def handler() -> None:
        started.set()
        await anyio.sleep_forever()

    async def ask() -> None:
        try:
            await Callback(handler).call_and_read(read=same, timeout=60)
        except HandlerError as error:
            failures.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await started.wait()
            group.cancel_scope.cancel()
    assert failures == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_the_handler_met_elsewhere_is_a_failure() -> None:
    import asyncio

    async def handler() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    with pytest.raises(HandlerError, match="raised CancelledError"):
        await Callback(handler).call_and_read(read=same)


async def test_a_timeout_error_of_the_handler_is_not_taken_for_the_time_limit() -> None:
    async def handler() -> None:
        raise TimeoutError

    with pytest.raises(HandlerError, match="raised TimeoutError"):
        await Callback(handler).call_and_read(read=same, timeout=60)


# Deadlines


async def swallows(answer: Any = None) -> Any:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        return answer


async def swallows_and_raises() -> Any:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        raise LookupError("late") from None


async def blocks_the_loop() -> None:
    time.sleep(0.05)


@pytest.mark.parametrize("handler", [swallows, swallows_and_raises, blocks_the_loop])
async def test_an_expired_deadline_is_a_failure_whatever_comes_back(handler: Any) -> None:
    cancellation = Cancellation()
    with anyio.fail_after(60), pytest.raises(HandlerError, match=r"within 0\.01 s") as caught:
        await Callback(handler).call_and_read(read=same, timeout=0.01, cancellation=cancellation)
    assert cancellation
    assert isinstance(caught.value.__cause__, LookupError) is (handler is swallows_and_raises)


async def test_an_answer_in_time_stands() -> None:
    async def handler() -> str:
        return "yes"

    assert await Callback(handler).call_and_read(read=same, timeout=60) == "yes"


# Exceptions that propagate


class TheEnd(BaseException):
    """A BaseException that is neither an Exception nor SystemExit or KeyboardInterrupt."""


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), TheEnd(), BaseExceptionGroup("", [SystemExit(1)])])
@pytest.mark.parametrize("timeout", [None, 5])
async def test_an_exception_of_user_code_keeps_its_cause(error: BaseException, timeout: float | None) -> None:
    async def handler() -> None:
        raise error

    with pytest.raises(HandlerError) as caught:
        await Callback(handler).call_and_read(read=same, timeout=timeout)
    assert caught.value.__cause__ is error
    with pytest.raises(HandlerError):
        await Callback(lambda: handler()).call_and_read(read=same, timeout=timeout)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()])])
async def test_an_interrupt_of_the_program_passes(error: BaseException) -> None:
    async def handler() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await Callback(handler).call_and_read(read=same, timeout=60)
    assert caught.value is error


async def test_an_interrupt_while_an_answer_or_an_error_is_read_passes() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    async def fail() -> None:
        raise Odd

    def interrupt(value: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await Callback(lambda: 1).call_and_read(read=interrupt)
    with pytest.raises(KeyboardInterrupt):
        await Callback(fail).tell(never)


def test_an_exception_after_the_end_of_the_loop_is_not_the_functions() -> None:
    with pytest.raises(GeneratorExit):
        callbacks.make_handler_error("f", GeneratorExit())
    assert isinstance(callbacks.make_handler_error("f", ValueError()), HandlerError)


def test_a_function_whose_signature_is_unknown_is_taken_as_it_is() -> None:
    class Unknown:
        __signature__ = "unknown"

        def __call__(self, *args: object) -> None: ...

    assert callbacks.takes_arguments(Unknown(), 7)
    callbacks.check_two_arguments(Unknown(), "a request and a context", port="")


async def test_a_cancellation_that_is_kept_and_raised_later_is_a_failure() -> None:
    kept: list[BaseException] = []

    async def handler() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class() as error:
                kept.append(error)
        raise kept[0]

    with pytest.raises(HandlerError):
        await Callback(handler).call_and_read(read=same)


# Threads


def never(error: HandlerError) -> None:
    raise AssertionError(error)


async def test_a_function_that_blocks_holds_up_no_other_and_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_bound(monkeypatch, "PATIENCE", 0.05)
    release, begun = threading.Event(), threading.Semaphore(0)

    def blocks() -> None:
        begun.release()
        release.wait(120)

    blocking = Callback(blocks)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(callbacks.THREADS + 1):
                group.start_soon(partial(blocking.call_and_read, read=same))
            try:
                for _ in range(callbacks.THREADS):
                    while not begun.acquire(blocking=False):
                        await anyio.sleep(0.002)
                assert await Callback(lambda: "a guard").call_and_read(read=same) == "a guard"
                assert await run_file_work(lambda: "a file") == "a file"
                assert await anyio.to_thread.run_sync(lambda: "the program's own") == "the program's own"
                while not caplog.records:
                    await anyio.sleep(0.002)
                assert not begun.acquire(blocking=False)
            finally:
                release.set()
    [record] = caplog.records
    assert "blocks blocks: 40 calls of it are running, the longest for 0." in record.getMessage()
    assert begun.acquire(blocking=False)  # the one that waited


async def test_files_are_read_when_the_program_holds_all_of_its_threads() -> None:
    release = threading.Event()
    limiter = anyio.to_thread.current_default_thread_limiter()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(int(limiter.total_tokens)):
                group.start_soon(anyio.to_thread.run_sync, release.wait, 8)
            while limiter.available_tokens:
                await anyio.sleep(0.002)
            try:
                assert await run_file_work(lambda: "a file") == "a file"
            finally:
                release.set()


@asynccontextmanager
async def delivering(queue: ListenerQueue) -> Any:
    """Deliver events while the block runs, and afterwards until the queues are empty."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(queue.deliver)
            yield
            queue.end()


async def test_a_listener_is_told_everything_in_order() -> None:
    told: list[int] = []

    async def listener(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        told.append(number)

    queue = ListenerQueue(listener, never)
    queue.put(0)
    async with delivering(queue):
        for number in range(1, 50):
            queue.put(number)
            if number % 10 == 0:
                await anyio.wait_all_tasks_blocked()
    assert told == list(range(50))


async def test_a_plain_function_is_called_in_the_event_loop() -> None:
    threads: set[int] = set()
    told, arrived = anyio.create_memory_object_stream[int](10)
    is_told = anyio.Event()
    plain: list[Callable[[int], object]] = [
        lambda number: threads.add(threading.get_ident()),
        told.send_nowait,
        lambda number: is_told.set(),
    ]
    with told, arrived:
        for listener in plain:
            queue = ListenerQueue(listener, never)
            async with delivering(queue):
                queue.put(1)
        assert arrived.receive_nowait() == 1
    assert threads == {threading.get_ident()}
    assert is_told.is_set()


async def test_a_plain_function_that_blocks_is_warned_about_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_bound(monkeypatch, "SLOW", -1.0)

    def blocks(number: int) -> None:
        pass

    queue = ListenerQueue(blocks, never)
    async with delivering(queue):
        queue.put(1)
        queue.put(2)
    [warning] = caplog.messages
    assert "blocks took" in warning
    assert "make it async" in warning


async def test_putting_never_waits_for_a_listener_who_takes_his_time() -> None:
    let_go = anyio.Event()
    told: list[int] = []

    async def slow(number: int) -> None:
        await let_go.wait()
        told.append(number)

    queue = ListenerQueue(slow, never)
    async with delivering(queue):
        for number in range(1000):
            queue.put(number)
        await anyio.wait_all_tasks_blocked()
        assert told == []
        let_go.set()
    assert told == list(range(1000))


async def test_events_for_a_slow_listener_are_dropped_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "WAITING_BYTES", 3 * sys.getsizeof(1))
    told: list[int] = []

    async def listener(number: int) -> None:
        told.append(number)

    queue = ListenerQueue(listener, never)
    for number in range(1, 11):
        queue.put(number)
    async with delivering(queue):
        pass
    assert told == [8, 9, 10]
    assert queue.dropped == 7


async def test_a_listener_that_fails_is_reported_and_told_the_next_thing() -> None:
    errors: list[HandlerError] = []
    told: list[int] = []

    async def fails_at_two(number: int) -> None:
        told.append(number)
        if number == 2:
            raise ValueError("my mistake")

    queue = ListenerQueue(fails_at_two, errors.append)
    async with delivering(queue):
        for number in range(5):
            queue.put(number)
    assert told == [0, 1, 2, 3, 4]
    (error,) = errors
    assert error.handler.endswith("fails_at_two")
    assert error.reason == "it raised ValueError: my mistake"
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("kind", ["plain", "partial", "object"])
async def test_whatever_fails_is_named(kind: str) -> None:
    def plain(thing: Any, extra: Any = None) -> None:
        raise KeyError("x")

    class Broken:
        def __call__(self, thing: Any) -> None:
            raise KeyError("x")

    kinds: dict[str, Callable[[Any], Any]] = {"plain": plain, "partial": partial(plain, extra=1), "object": Broken()}
    errors: list[HandlerError] = []
    queue = ListenerQueue(kinds[kind], errors.append)
    async with delivering(queue):
        queue.put(1)
    assert errors[0].handler.rpartition(".")[2] == ("Broken" if kind == "object" else "plain")


async def test_cancelling_the_delivery_stops_a_listener() -> None:
    reached: list[str] = []

    async def hangs(thing: Any) -> None:
        reached.append("begun")
        try:
            await anyio.sleep_forever()
        finally:
            reached.append("stopped")

    queue = ListenerQueue(hangs, never)
    queue.put(1)
    queue.put(2)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(queue.deliver)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert reached == ["begun", "stopped"]


async def test_an_ended_queue_with_nothing_to_tell_returns_at_once() -> None:
    queue = ListenerQueue(never, never)
    queue.end()
    with anyio.fail_after(60):
        await queue.deliver()
    queue.put("too late")
    assert (len(queue), queue.dropped) == (0, 1)


def test_a_plain_function_may_wait_for_its_cancellation_again_and_again() -> None:
    cancellation = Cancellation()
    assert [cancellation.wait(0), cancellation.wait(0)] == [False, False]
    cancellation.set()
    assert cancellation.wait(60)
