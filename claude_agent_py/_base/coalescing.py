"""`SharedCall`: one call in a thread for all who ask at the same time."""

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._base.event_loop import PerLoop, run_file_work
from claude_agent_py._base.streams import LazyEvent

K = TypeVar("K")
R = TypeVar("R")


class _Batch(Generic[K, R]):
    """The keys of one call."""

    def __init__(self, first: K) -> None:
        self.keys = [first]
        self.is_open = True
        """Whether keys can be added."""
        self.is_complete = LazyEvent()
        """Set when no more keys are expected."""
        self.results: Sequence[R | None] | None = None
        """One for each key; None before the end of the call, or if it failed or was cancelled."""
        self.over = LazyEvent()


class SharedCall(Generic[K, R]):
    """A blocking function, called in a thread once for all workers of an event loop that ask at the same time.

    Handing a call to a thread and back takes longer than most such calls. A call collects keys for one turn of the
    event loop, and while the previous one runs.

    Args:
        function: Returns a result for each of the keys.
        gather: Returns how many seconds a call waits for more keys; 0 if none are expected.
    """

    def __init__(
        self, function: Callable[[list[K]], Sequence[R]], *, gather: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._function = function
        self._gather = gather
        self._batches: PerLoop[list[_Batch[K, R]]] = PerLoop(list)
        """Those that are not over, oldest first."""

    async def __call__(self, key: K, within: float = math.inf) -> R | None:
        """Return the result for a key; None if the call takes longer than `within` seconds, as set by the first."""
        batches = self._batches.get()
        while True:
            batch = batches[-1] if batches else None
            if batch is None or not batch.is_open:
                return await self._call_after(batch, key, within)
            place = len(batch.keys)
            batch.keys.append(key)
            if not self._gather():
                batch.is_complete.set()
            await batch.over.wait()
            if batch.results is not None:
                return batch.results[place]

    async def _call_after(self, last: _Batch[K, R] | None, key: K, within: float) -> R | None:
        batch, batches = _Batch[K, R](key), self._batches.get()
        batches.append(batch)
        try:
            await checkpoint()  # who asks now shares this call
            await checkpoint()  # trio wakes workers in any order
            if seconds := self._gather():
                await batch.is_complete.wait(anyio.current_time() + seconds)
            if last is not None:
                await last.over.wait()
            batch.is_open = False
            results: Sequence[R | None] = [None] * len(batch.keys)
            with anyio.move_on_after(within):
                results = await run_file_work(self._function, batch.keys, abandon_on_cancel=True)
            batch.results = results
            return results[0]
        finally:
            batch.is_open = False
            batch.over.set()
            batches.remove(batch)  # its keys may refer to sessions
