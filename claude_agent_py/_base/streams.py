"""Events that cost nothing until something waits for them, a queue to iterate, pauses, and polling.

All can be created outside of an event loop, and are set and filled from its thread.
"""

import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._base.event_loop import Waiters, clock, wait_in, wake

T = TypeVar("T")


class LazyEvent:
    """Like `anyio.Event`, which takes a kilobyte; most events of a session are set without anybody waiting."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: Waiters | None = None

    def set(self) -> None:
        """Wake all current and later waiters."""
        self._is_set = True
        if self._waiters:
            wake(self._waiters)

    def is_set(self) -> bool:
        """Whether it has been set."""
        return self._is_set

    async def wait(self, deadline: float = math.inf) -> None:
        """Wait until it is set, or until the deadline on the clock of the event loop."""
        if self._is_set:
            await checkpoint()
            return
        if self._waiters is None:
            self._waiters = []
        await wait_in(self._waiters, deadline)


class RepeatingEvent:
    """Like `anyio.Event`, but `set` wakes only the current waiters: check a condition, then wait."""

    __slots__ = ("__weakref__", "_waiters")

    def __init__(self) -> None:
        self._waiters: Waiters = []

    def set(self) -> None:
        """Wake all waiters."""
        if self._waiters:
            wake(self._waiters)

    async def wait(self, timeout: float | None = None) -> None:
        """Wait for the next `set`, at most `timeout` seconds."""
        await wait_in(self._waiters, math.inf if timeout is None else clock()() + timeout)


class Stream(AsyncIterator[T]):
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

    async def __anext__(self) -> T:
        await checkpoint()
        while not self._items:
            if self._is_closed:
                raise StopAsyncIteration
            await self._changed.wait()
        return self.take()


def nth_pause(first: float, longest: float, number: int) -> float:
    """Return pause `number`, counted from 0: each is twice as long as the one before, up to the longest."""
    return min(longest, first * 2.0 ** min(number, 60))  # a float has room for more, but not for any number


def pauses(first: float, longest: float) -> Iterator[float]:
    """Yield these pauses, in seconds and without end, for looking or trying again."""
    return (nth_pause(first, longest, number) for number in itertools.count())


def wait_until(is_true: Callable[[], bool], seconds: float, pause: float) -> bool:
    """Block this thread until a condition holds; return False if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


class Polling(AsyncIterator[T]):
    """An async iterator over the items that repeated calls return. Not a generator, so it needs no closing.

    Args:
        read: Returns the items since the last call. Raises StopAsyncIteration at the end.
        pauses: Seconds between two calls if there are no items: the first pause and the longest.
    """

    def __init__(self, read: Callable[[], Awaitable[Iterable[T]]], pauses: tuple[float, float]) -> None:
        self._read = read
        self._pauses = pauses
        self._items: deque[T] = deque()

    async def __anext__(self) -> T:
        await checkpoint()
        for pause in pauses(*self._pauses):
            if not self._items:
                self._items.extend(await self._read())
            if self._items:
                break
            await anyio.sleep(pause)
        return self._items.popleft()
