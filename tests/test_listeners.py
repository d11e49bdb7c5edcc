"""Listeners receive every event in order, even if they raise or are slow."""

import sys
import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from bounds import set_bound

from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py.errors import HandlerError

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def delivering(queue: ListenerQueue) -> Any:
    """Deliver events while the block runs, and afterwards until the queues are empty."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(queue.deliver)
            yield
            queue.end()


def never(error: HandlerError) -> None:
    raise AssertionError(error)


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
