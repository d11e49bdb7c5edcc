"""`ListenerQueue`: calls a listener that may be slow or fail, without making the pump wait.

Exceptions of the listener are reported, and it is called for the next item all the same.
"""

import inspect
from collections import deque
from collections.abc import Callable
from sys import getsizeof
from time import monotonic
from typing import Any, Final

from anyio.lowlevel import checkpoint

from claude_agent_py._base.callbacks import Callback, Report
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import LazyEvent, RepeatingEvent

WAITING_BYTES: Final = 64 * 1024 * 1024
"""How many bytes of items may wait for a listener before the oldest are dropped."""

PIECE: Final = 1000
"""How many items a plain listener gets in one visit to its thread."""

THREAD_TURN: Final = 0.05
"""How many seconds that may take; errors are reported after it."""

SLICE: Final = 0.005
"""After how many seconds a listener that never awaits yields to other workers."""


class ListenerQueue:
    """Calls one listener with each item, in order.

    Items beyond `WAITING_BYTES` are dropped, the oldest first, and counted.
    """

    def __init__(self, listener: Callable[[Any], object], report: Report) -> None:
        callback = Callback(listener)
        self._listener = listener
        self._is_plain = callback.is_plain
        self._callback = Callback(self._next_for_a_while, name=callback.name) if callback.is_plain else callback
        self._report = report
        self._waiting: deque[object] = deque()
        self._waiting_bytes = 0
        self._piece: deque[object] = deque()
        """The items that the thread of a plain listener is working on."""
        self._changed = RepeatingEvent()
        self._has_ended = False
        self.over: LazyEvent = LazyEvent()
        """Set when `deliver` has ended."""
        self.dropped: int = 0
        """How many items were dropped."""
        self._warned_of = 0

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return len(self._waiting)

    def put(self, item: object) -> None:
        """Add an item. Does not wait."""
        if self.over.is_set():
            self.dropped += 1
            return
        self._waiting.append(item)
        self._waiting_bytes += getsizeof(item)
        while self._waiting_bytes > WAITING_BYTES:
            self._take()
            self.dropped += 1
        self._changed.set()

    def end(self) -> None:
        """Make `deliver` return once the waiting items are delivered."""
        self._has_ended = True
        self._changed.set()

    async def deliver(self) -> None:
        """Call the listener with each item until `end`."""
        try:
            while self._waiting or not self._has_ended:
                slice_ends = monotonic() + SLICE
                while self._waiting:
                    await self._tell()
                    if monotonic() > slice_ends:
                        await checkpoint()
                        slice_ends = monotonic() + SLICE
                self._warn()
                if not self._has_ended:
                    await self._changed.wait()
        finally:
            self.over.set()
            while self._piece:  # so that an abandoned thread finds nothing more
                self._piece.pop()
                self.dropped += 1
            self.dropped += len(self._waiting)
            self._waiting.clear()
            self._warn()

    def _take(self) -> object:
        item = self._waiting.popleft()
        self._waiting_bytes -= getsizeof(item)
        return item

    async def _tell(self) -> None:
        """Call the listener; a plain one with many items, as a thread switch takes longer than most listeners."""
        if not self._is_plain:
            await self._callback.tell(self._report, self._take())
            return
        self._piece.extend(self._take() for _ in range(min(len(self._waiting), PIECE)))
        while self._piece:
            await self._callback.tell(self._report)

    def _next_for_a_while(self) -> object:
        ends = monotonic() + THREAD_TURN
        while monotonic() < ends:
            try:
                item = self._piece.popleft()
            except IndexError:
                return None
            value = self._listener(item)
            if inspect.isawaitable(value):
                return value
        return None

    def _warn(self) -> None:
        if self.dropped > self._warned_of:
            logger.warning(
                "%s missed %d items: it fell too far behind", self._callback.name, self.dropped - self._warned_of
            )
            self._warned_of = self.dropped
