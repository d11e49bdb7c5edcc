"""Waking those who wait: bells and event streams.

Owns how a worker sleeps until something happens to a task. Neither is tied to an event loop before somebody waits, so
that a manager can be made outside of one; both are rung from the thread of the loop. Knows no ledger.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py.tasks.events import TaskEvent, TaskProgressed

QUEUE_LIMIT: Final = 10_000
"""How many events a stream keeps for a reader that does not come, before it leaves out progress."""


class Bell:
    """Wakes everyone who waits for it. Check your condition, then wait: nothing is missed in between."""

    def __init__(self) -> None:
        self._sleepers: set[anyio.Event] = set()

    def ring(self) -> None:
        """Wake all."""
        sleepers, self._sleepers = self._sleepers, set()
        for sleeper in sleepers:
            sleeper.set()

    async def wait(self, timeout: float | None = None) -> None:
        """Sleep until the bell rings, or for `timeout` seconds."""
        sleeper = anyio.Event()
        self._sleepers.add(sleeper)
        try:
            with anyio.move_on_after(timeout):
                await sleeper.wait()
        finally:
            self._sleepers.discard(sleeper)


class EventStream:
    """The events from now on, for one reader: iterate it with `async for`. It ends when the session is over.

    It keeps what its reader has not fetched yet. When that gets much, progress is left out (`skipped` counts it);
    starts, ends and changes of a status are always kept.
    """

    def __init__(self, wants: Callable[[TaskEvent], bool] | None = None, limit: int = QUEUE_LIMIT) -> None:
        self.skipped = 0
        """How many progress events were left out."""
        self._wants = wants
        self._limit = limit
        self._events: deque[TaskEvent] = deque()
        self._bell = Bell()
        self._is_closed = False

    def put(self, event: TaskEvent) -> None:
        """Add an event, if the reader wants it."""
        if self._is_closed or (self._wants is not None and not self._wants(event)):
            return
        if len(self._events) >= self._limit and isinstance(event, TaskProgressed):
            self.skipped += 1
            return
        self._events.append(event)
        self._bell.ring()

    @property
    def waiting(self) -> int:
        """How many events are there to be fetched."""
        return len(self._events)

    def take(self) -> TaskEvent:
        """Fetch an event that is there."""
        return self._events.popleft()

    def close(self) -> None:
        """End the stream, after what it still keeps."""
        self._is_closed = True
        self._bell.ring()

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> TaskEvent:
        await checkpoint()
        while not self._events:
            if self._is_closed:
                raise StopAsyncIteration
            await self._bell.wait()
        return self.take()
