"""Event loops and their threads, and calls in a thread that are shared by all who ask at the same time."""

import asyncio
import contextvars
import logging
import sys
import threading
import types
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import RunVar

from claude_agent_py._base import event_loop
from claude_agent_py._base.coalescing import SharedCall
from claude_agent_py._base.event_loop import (
    AsyncioReader,
    HomeLoop,
    PerLoop,
    Wakeup,
    contain_cancellation,
    in_event_loop,
    in_trio,
    run_until_wait,
    spawn_detached,
)

pytestmark = pytest.mark.anyio


Worker = Callable[[], Awaitable[None]]
BACKENDS = ("asyncio", "trio")
NAME = contextvars.ContextVar[str]("name")


def test_a_trio_that_another_thread_is_importing_is_none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    half_imported = types.ModuleType("trio")
    monkeypatch.setitem(sys.modules, "trio", half_imported)
    assert not in_trio()
    half_imported.lowlevel = types.ModuleType("trio.lowlevel")  # type: ignore[attr-defined]
    assert not in_trio()


async def test_a_worker_survives_the_scope_of_its_caller() -> None:
    go_on, done = anyio.Event(), anyio.Event()

    async def work() -> None:
        await go_on.wait()
        done.set()

    with anyio.fail_after(60):
        with anyio.CancelScope() as scope:
            spawn_detached(work, name="worker")
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
        go_on.set()
        await done.wait()


async def test_a_worker_survives_the_worker_that_started_it() -> None:
    go_on, done = anyio.Event(), anyio.Event()

    async def work() -> None:
        await go_on.wait()
        done.set()

    async def start_and_end() -> None:
        spawn_detached(work, name="worker")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(start_and_end)
        go_on.set()
        await done.wait()


async def test_a_worker_may_open_task_groups_and_cancel_them() -> None:
    done = anyio.Event()

    async def work() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.cancel_scope.cancel()
        done.set()

    with anyio.fail_after(60):
        spawn_detached(work, name="worker")
        await done.wait()


async def test_a_worker_sees_the_context_variables_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []
    done = anyio.Event()

    async def work() -> None:
        seen.append(variable.get())
        variable.set("changed by the worker")
        done.set()

    variable.set("set by the caller")
    with anyio.fail_after(60):
        spawn_detached(work, name="worker")
        await done.wait()
    assert seen == ["set by the caller"]
    assert variable.get() == "set by the caller"


async def test_a_failed_worker_is_logged_and_affects_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("my mistake")

    with caplog.at_level(logging.ERROR, logger="claude_agent_py"):
        spawn_detached(work, name="session 5")
        await anyio.wait_all_tasks_blocked()
    (record,) = caplog.records
    assert "session 5" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_worker_ends_with_the_loop_and_may_clean_up(backend: str) -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("begun")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            steps.append("cleaned up")

    async def main() -> None:
        spawn_detached(work, name="worker")
        await anyio.wait_all_tasks_blocked()

    anyio.run(main, backend=backend)
    assert steps == ["begun", "cleaned up"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_worker_ends_with_a_loop_that_failed(backend: str) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            steps.append("cleaned up")

    async def main() -> None:
        spawn_detached(work, name="worker")
        await anyio.wait_all_tasks_blocked()
        raise KeyError("x")

    with pytest.raises(KeyError):
        anyio.run(main, backend=backend)
    assert steps == ["cleaned up"]


# Waking up


async def test_a_wakeup_wakes_all_who_wait_now_and_later() -> None:
    wakeup = Wakeup()
    assert not wakeup.is_set()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wakeup.wait)
            await anyio.wait_all_tasks_blocked()
            wakeup.set()
            wakeup.set()
        await wakeup.wait()
    assert wakeup.is_set()


async def test_a_wakeup_may_be_set_from_any_thread() -> None:
    wakeup = Wakeup()
    with anyio.fail_after(60):
        thread = threading.Thread(target=wakeup.set)
        thread.start()
        await wakeup.wait()
        await anyio.to_thread.run_sync(thread.join)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wakeup_may_be_set_when_its_loop_is_gone(backend: str) -> None:
    made: list[Wakeup] = []

    async def main() -> None:
        made.append(Wakeup())

    anyio.run(main, backend=backend)
    made[0].set()
    assert not made[0].is_set()


# Where we are


async def test_in_a_loop_the_backend_is_known(anyio_backend: str) -> None:
    assert in_event_loop()
    assert in_trio() == (anyio_backend == "trio")
    outside: list[Any] = await anyio.to_thread.run_sync(lambda: [in_event_loop(), in_trio()])
    assert outside == [False, False]


def test_outside_of_a_loop_there_is_none() -> None:
    assert not in_event_loop()
    assert not in_trio()


def test_asyncio_inside_of_a_thread_is_no_trio() -> None:
    async def main() -> tuple[bool, bool]:
        return in_event_loop(), in_trio()

    assert asyncio.run(main()) == (True, False)


async def test_a_coroutine_that_never_waits_runs_in_place() -> None:
    told: list[str] = []

    async def work() -> None:
        told.append("works")

    assert not await run_until_wait(work(), lambda: told.append("waits"))
    assert told == ["works"]


async def test_a_waiting_coroutine_reports_it() -> None:
    told: list[str] = []

    async def work() -> None:
        await anyio.sleep(0)
        await anyio.sleep(0)

    assert await run_until_wait(work(), lambda: told.append("waits"))
    assert told == ["waits"]


async def test_a_waiting_coroutine_reports_it_once_and_can_be_cancelled() -> None:
    told: list[str] = []

    async def work(at_end: anyio.Event) -> None:
        for _ in range(3):
            await anyio.sleep(0)
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        with anyio.CancelScope() as inner:
            inner.cancel()
            await anyio.sleep_forever()
        try:
            at_end.set()
            await anyio.sleep_forever()
        finally:
            told.append("cancelled")

    at_end = anyio.Event()

    async def run() -> None:
        await run_until_wait(work(at_end), lambda: told.append("waits"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await at_end.wait()
            group.cancel_scope.cancel()
    assert told == ["waits", "cancelled"]


class Reading:
    """A worker of asyncio that reads again and again, and notes what happens."""

    def __init__(self) -> None:
        self.reader = AsyncioReader(asyncio.get_running_loop())
        self.notes: list[str] = []
        self.worker = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while True:
                await self.reader.wait()
                assert asyncio.current_task() is self.worker
                self.notes.append(f"read {NAME.get()}")
        finally:
            self.notes.append("ended")

    async def call(self, function: Callable[[], None]) -> None:
        """Call a function as a callback of the loop."""
        done = asyncio.Event()

        def callback() -> None:
            function()
            done.set()

        asyncio.get_running_loop().call_soon(callback)
        await done.wait()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_reader_of_a_pipe_runs_within_the_callback_of_the_loop() -> None:
    NAME.set("of the worker")
    reading = Reading()
    NAME.set("of the caller")
    await asyncio.sleep(0)  # it starts

    def read_twice() -> None:
        for _ in range(2):
            reading.notes.append("callback")
            reading.reader.run()

    await reading.call(read_twice)
    assert reading.notes == ["callback", "read of the worker"] * 2
    reading.notes.clear()

    reading.reader.wake()  # in a task, which must not run another one
    assert reading.notes == []
    await asyncio.sleep(0)
    assert reading.notes == ["read of the worker"]
    reading.worker.cancel()
    await asyncio.wait([reading.worker])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancelled_reader_of_a_pipe_is_not_run() -> None:
    reading = Reading()
    await asyncio.sleep(0)  # it starts

    def cancel_and_run() -> None:
        reading.worker.cancel()
        reading.reader.run()
        assert reading.notes == []

    await reading.call(cancel_and_run)
    await asyncio.wait([reading.worker])
    assert reading.worker.cancelled()
    reading.reader.run()
    assert reading.notes == ["ended"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_loop_that_handlers_may_run_again_runs_no_reader_within_its_callback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    NAME.set("of the worker")
    reading = Reading()
    await asyncio.sleep(0)  # it starts
    monkeypatch.setattr(asyncio.get_running_loop(), "_nest_patched", True, raising=False)  # as nest_asyncio does

    def run() -> None:
        reading.reader.run()
        reading.notes.append("callback")

    await reading.call(run)
    await asyncio.sleep(0)
    assert reading.notes == ["callback", "read of the worker"]
    reading.worker.cancel()
    await asyncio.wait([reading.worker])


async def test_callers_during_a_call_share_the_next_one() -> None:
    calls: list[list[int]] = []
    release = threading.Event()

    def double(numbers: list[int]) -> list[int]:
        assert not in_event_loop()
        calls.append(list(numbers))
        assert release.wait(60)
        return [2 * number for number in numbers]

    shared, found = SharedCall(double), dict[int, int | None]()

    async def ask(number: int) -> None:
        found[number] = await shared(number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as others, anyio.create_task_group() as second:
            others.start_soon(ask, 1)
            while not calls:
                await anyio.sleep(0.001)
            second.start_soon(ask, 2)
            await anyio.wait_all_tasks_blocked()
            for number in (3, 4, 5):
                others.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
            second.cancel_scope.cancel()
            release.set()
    assert found == {1: 2, 3: 6, 4: 8, 5: 10}
    assert calls[0] == [1]
    assert sorted(calls[-1]) == [3, 4, 5]


async def test_an_error_reaches_everybody_who_asked() -> None:
    def fail(keys: list[int]) -> list[int]:
        raise OSError(keys)

    shared, errors = SharedCall(fail), list[OSError]()

    async def ask(key: int) -> None:
        with pytest.raises(OSError, match=r"\[") as caught:
            await shared(key)
        errors.append(caught.value)

    async with anyio.create_task_group() as group:
        for key in range(3):
            group.start_soon(ask, key)
    assert len(errors) == 3


async def test_values_of_a_loop_are_separate_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """anyio 4.9 finds the value of a run variable by its name, and not by the variable."""
    monkeypatch.setattr(RunVar, "__eq__", lambda one, other: repr(one) == repr(other))
    monkeypatch.setattr(RunVar, "__hash__", lambda one: hash(repr(one)))
    first, second = PerLoop[object](list), PerLoop[object](dict)
    assert (first.get(), second.get()) == ([], {})
    found: list[object] = []
    calls = [SharedCall[int, str](lambda keys: ["one"]), SharedCall[int, str](lambda keys: ["two"])]

    async def ask(call: SharedCall[int, str]) -> None:
        found.append(await call(1))

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(ask, call)
    assert sorted(map(str, found)) == ["one", "two"]


# Cancellations of a function's own


ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def cancel_current() -> None:
    """Cancel the running task of asyncio."""
    worker = asyncio.current_task()
    assert worker is not None
    worker.cancel()


async def cancel_itself(then: Callable[[], object] = lambda: None) -> str:
    """Cancel the worker, after having asked the event loop to call a function soon."""
    asyncio.get_running_loop().call_soon(then)
    cancel_current()
    return "done"


@ON_ASYNCIO
async def test_a_cancelled_worker_cleans_up_with_a_function_that_cancels_itself() -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            steps.append(await contain_cancellation(cancel_itself()))
            await asyncio.sleep(0)
            steps.append("cleaned up")

    worker = asyncio.ensure_future(work())
    await anyio.wait_all_tasks_blocked()
    worker.cancel()
    await asyncio.wait([worker])
    assert steps == ["done", "cleaned up"]
    assert worker.cancelled()


@ON_ASYNCIO
async def test_a_cancellation_by_others_right_after_that_of_a_function_is_not_lost() -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            steps.append(await contain_cancellation(cancel_itself(then=worker.cancel)))

    worker = asyncio.ensure_future(work())
    await anyio.wait_all_tasks_blocked()
    worker.cancel()
    await asyncio.wait([worker])
    assert worker.cancelled()
    assert steps == []


# Calls from other threads


class EndingLoop(asyncio.SelectorEventLoop):
    """An event loop that takes one call of another thread. The next is too late, as when trio ends."""

    def __init__(self, before_refusal: Callable[[], object]) -> None:
        super().__init__()
        self._before_refusal = before_refusal
        self._calls = 0

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        self._calls += 1
        if self._calls > 1:
            self._before_refusal()
            raise RuntimeError("Event loop is closed")
        return super().call_soon_threadsafe(callback, *args, context=context)


@pytest.mark.parametrize("is_made_by", ["the loop", "the thread"])
def test_a_call_from_another_thread_is_made_once_although_the_loop_ends(
    is_made_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "LOOP_CHECK", 0.01)
    may_run, called, returned = threading.Event(), threading.Event(), threading.Event()
    home, made, answers = HomeLoop(), list[str](), list[str]()
    loop_name = threading.current_thread().name

    def work() -> str:
        made.append("the loop" if threading.current_thread().name == loop_name else "the thread")
        called.set()
        return "answer"

    def let_it_run() -> None:
        if is_made_by == "the loop":
            may_run.set()
            assert called.wait(60)

    def call() -> None:
        answers.append(home.call(work))
        returned.set()

    async def main() -> None:
        home.enter()
        thread = threading.Thread(target=call)
        thread.start()
        assert (may_run if is_made_by == "the loop" else returned).wait(60)  # the loop stands still meanwhile
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert returned.wait(60)
        thread.join()

    loop = EndingLoop(let_it_run)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert made == [is_made_by]
    assert answers == ["answer"]


async def test_an_error_of_a_call_from_another_thread_is_raised_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "LOOP_CHECK", 0.01)
    home, raised, is_over = HomeLoop(), list[str](), threading.Event()
    may_run = threading.Event()

    def fail() -> None:
        raise LookupError("not there")

    def call() -> None:
        try:
            home.call(fail)
        except LookupError as error:
            raised.append(str(error))
        is_over.set()

    home.enter()
    threading.Thread(target=call).start()
    may_run.wait(0.05)  # the loop is busy for longer than the thread waits at once
    with anyio.fail_after(60):
        while not is_over.is_set():
            await anyio.sleep(0.001)
    assert raised == ["not there"]
