"""Waking those who wait: bells and event streams.

Owns how a worker sleeps until something happens to a task. Neither is tied to an event loop before somebody waits, so
that a manager can be made outside of one; both are rung from the thread of the loop. Knows no ledger.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py.tasks.events import TaskEvent, TaskProgressed

T = TypeVar("T")

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


class Stream(Generic[T]):
    """What happens from now on, for one reader: iterate it with `async for`. It ends when the session is over.

    It keeps what its reader has not fetched yet. When that gets much, what `may_skip` allows is left out.
    """

    def __init__(
        self,
        wants: Callable[[T], bool] | None = None,
        may_skip: Callable[[T], bool] | None = None,
        limit: int = QUEUE_LIMIT,
    ) -> None:
        self.skipped: int = 0
        """How much was left out."""
        self._wants = wants
        self._may_skip = may_skip
        self._limit = limit
        self._items: deque[T] = deque()
        self._bell = Bell()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How much is there to be fetched."""
        return len(self._items)

    def put(self, item: T) -> None:
        """Add something, if the reader wants it."""
        if self._is_closed or (self._wants is not None and not self._wants(item)):
            return
        if len(self._items) >= self._limit and self._may_skip is not None and self._may_skip(item):
            self.skipped += 1
            return
        self._items.append(item)
        self._bell.ring()

    def take(self) -> T:
        """Fetch what is there."""
        return self._items.popleft()

    def close(self) -> None:
        """End the stream, after what it still keeps."""
        self._is_closed = True
        self._bell.ring()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        await checkpoint()
        while not self._items:
            if self._is_closed:
                raise StopAsyncIteration
            await self._bell.wait()
        return self.take()


EventT = TypeVar("EventT", bound=TaskEvent)


class EventStream(Stream[EventT]):
    """The events of tasks. Where nobody reads for long, progress is left out; starts and ends never are."""

    def __init__(self, wants: Callable[[EventT], bool] | None = None, limit: int = QUEUE_LIMIT) -> None:
        super().__init__(wants, lambda event: isinstance(event, TaskProgressed), limit)
