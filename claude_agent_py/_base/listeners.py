"""`ListenerQueue`: calls a listener that may be slow or fail, without making the pump wait.

Async and plain listeners run in the event loop, after the pump has handed over, so that they may use its objects.
Exceptions of the listener are reported, and it is called for the next item all the same.
"""

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

SLICE: Final = 0.005
"""After how many seconds a listener that never awaits yields to other workers."""

SLOW: Final = 0.5
"""A plain listener that takes more seconds is warned about, once: the event loop waits for it."""


class ListenerQueue:
    """Calls one listener with each item, in order.

    Items beyond `WAITING_BYTES` are dropped, the oldest first, and counted.
    """

    def __init__(self, listener: Callable[[Any], object], report: Report) -> None:
        self._callback = Callback(listener)
        self._report = report
        self._waiting: deque[object] = deque()
        self._waiting_bytes = 0
        self._changed = RepeatingEvent()
        self._has_ended = False
        self.over: LazyEvent = LazyEvent()
        """Set when `deliver` has ended."""
        self.dropped: int = 0
        """How many items were dropped."""
        self._warned_of = 0
        self._is_slow = False

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
            self.dropped += len(self._waiting)
            self._waiting.clear()
            self._warn()

    def _take(self) -> object:
        item = self._waiting.popleft()
        self._waiting_bytes -= getsizeof(item)
        return item

    async def _tell(self) -> None:
        began = monotonic()
        await self._callback.tell(self._report, self._take())
        if self._callback.is_plain and not self._is_slow and monotonic() - began > SLOW:
            self._is_slow = True
            logger.warning(
                "the listener %s took %.1f s, and the event loop waited: make it async, and let it do slow work with "
                "anyio.to_thread.run_sync",
                self._callback.name,
                monotonic() - began,
            )

    def _warn(self) -> None:
        if self.dropped > self._warned_of:
            logger.warning(
                "%s missed %d items: it fell too far behind", self._callback.name, self.dropped - self._warned_of
            )
            self._warned_of = self.dropped
