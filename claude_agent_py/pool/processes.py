"""`Processes`: the processes of a pool, what they use, and which of them can serve a caller."""

import math
from collections.abc import Iterator
from typing import Final

from claude_agent_py.options import ClientOptions
from claude_agent_py.pool.compatibility import Change, SessionRequest, find_change
from claude_agent_py.pool.pooled_process import READY, Phase, PooledProcess
from claude_agent_py.transport import tree_memory

USUAL_BYTES: Final = 200 * 1024 * 1024
"""The assumed memory of a process before the first measurement. (A ready CLI 2.1.328 takes 165 to 200 MB.)"""


class Processes:
    """The processes of a pool in the order of their start. Iterable.

    Args:
        max_size: How many there may be.
        memory: How many bytes they may use; None means any number.
    """

    def __init__(self, max_size: int, memory: int | None) -> None:
        self._processes: list[PooledProcess] = []
        self._max_size = max_size
        self._memory = math.inf if memory is None else memory
        self._usual_bytes = USUAL_BYTES

    def __iter__(self) -> Iterator[PooledProcess]:
        return iter(tuple(self._processes))

    def __len__(self) -> int:
        return len(self._processes)

    def add(self, process: PooledProcess) -> None:
        """Add a process that is about to start."""
        self._processes.append(process)

    def remove(self, process: PooledProcess) -> None:
        """Remove a process that has ended."""
        self._processes.remove(process)

    def count(self, *phases: Phase) -> int:
        """Return how many processes are in these phases."""
        return sum(process.phase in phases for process in self._processes)

    def spares(self) -> list[PooledProcess]:
        """Return the spares that are not reserved, oldest first."""
        return [process for process in self._processes if process.phase is Phase.SPARE]

    def find_spare(self, request: SessionRequest) -> PooledProcess | None:
        """Return the oldest spare that can serve the request, preferably without a claim or a change."""
        candidates = [process for process in self.spares() if process.client.is_open and can_serve(process, request)]
        return min(
            candidates,
            key=lambda process: (process.made_for.is_parked, not is_same(process.made_for, request)),
            default=None,
        )

    def count_available(self, request: SessionRequest) -> int:
        """Return how many spares for exactly this request there are or will be."""
        available = [process for process in self._processes if process.phase in (Phase.STARTING, Phase.SPARE)]
        return sum(is_same(process.made_for, request) for process in available)

    def has_open_session(self, options: ClientOptions) -> bool:
        """Return whether the session to resume is still being closed: its last entries and its cost are not on disk."""
        return any(
            process.tasks_at_close == "stop"
            and (options.continue_conversation or options.resume == process.client.session_id)
            for process in self._processes
            if process.phase is Phase.CLOSING and process.client.session_id is not None
        )

    # Limits ------------------------------------------------------------------------------------------------------

    @property
    def is_measured(self) -> bool:
        """Whether there is memory to measure: it is limited, and some process may use it."""
        return self._memory < math.inf and bool(self._processes)

    @property
    def has_room(self) -> bool:
        """Whether another process may start. The first one always may."""
        fits_in_memory = not self._processes or self.excess() + self._usual_bytes <= 0
        return len(self._processes) < self._max_size and fits_in_memory

    def count_free(self) -> int:
        """Return how many are not in use, or may start; of the latter only one if their memory is limited."""
        most = 1 if self._memory < math.inf else self._max_size
        room = min(most, self._max_size - len(self._processes)) if self.has_room else 0
        return room + self.count(Phase.STARTING, Phase.SPARE, Phase.CLOSING)

    def memory_bytes(self) -> int | None:
        """Return the measured memory of all processes; None without a limit."""
        is_limited = self._memory < math.inf
        return sum(process.memory_bytes or 0 for process in self._processes) if is_limited else None

    def weigh(self, process: PooledProcess) -> int:
        """Return the bytes that a process counts as: at least what a new one uses once it has started."""
        return max(process.memory_bytes or 0, self._usual_bytes)

    def excess(self) -> float:
        """Return by how many bytes the processes exceed the limit; negative below it."""
        return sum(self.weigh(process) for process in self._processes) - self._memory

    async def measure(self) -> None:
        """Measure the memory of the processes."""
        pids: dict[PooledProcess, int] = {}
        for process in self._processes:
            pid = process.pid
            if pid is not None:
                pids[process] = pid
        measured = await tree_memory(pids.values())
        for process, pid in pids.items():
            process.memory_bytes = measured[pid]
        spares = [measured[pid] for process, pid in pids.items() if process.phase in READY]
        self._usual_bytes = max(spares, default=0) or self._usual_bytes


def can_serve(process: PooledProcess, request: SessionRequest) -> bool:
    """Return whether a process can become the requested session."""
    return find_change(process.made_for, request) is not None


def is_same(one: SessionRequest, other: SessionRequest) -> bool:
    """Return whether a process for one request can serve the other without a change."""
    return find_change(one, other) == Change()
