"""An event that can be set repeatedly, and a queue to iterate.

Both can be created outside of an event loop, and are set and filled from its thread.
"""

from collections import deque
from typing import Final, Generic, Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

T = TypeVar("T")

QUEUE_LIMIT: Final = 10_000
"""How many events may wait for a slow reader before progress events are dropped."""


class RepeatingEvent:
    """Like `anyio.Event`, but `set` wakes only the current waiters: check a condition, then wait."""

    def __init__(self) -> None:
        self._waiters: set[anyio.Event] = set()

    def set(self) -> None:
        """Wake all waiters."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.set()

    async def wait(self, timeout: float | None = None) -> None:
        """Wait for the next `set`, at most `timeout` seconds."""
        waiter = anyio.Event()
        self._waiters.add(waiter)
        try:
            with anyio.move_on_after(timeout):
                await waiter.wait()
        finally:
            self._waiters.discard(waiter)


class Stream(Generic[T]):
    """An async iterator over everything from now on, for one reader. It ends with the session."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._changed = RepeatingEvent()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """The number of items that the reader has not taken yet."""
        return len(self._items)

    def put(self, item: T) -> None:
        """Add an item. Does nothing after `close`."""
        if not self._is_closed:
            self._items.append(item)
            self._changed.set()

    def take(self) -> T:
        """Return the next item. Raises IndexError if none waits."""
        return self._items.popleft()

    def close(self) -> None:
        """End the stream, after the items that wait."""
        self._is_closed = True
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        await checkpoint()
        while not self._items:
            if self._is_closed:
                raise StopAsyncIteration
            await self._changed.wait()
        return self.take()
