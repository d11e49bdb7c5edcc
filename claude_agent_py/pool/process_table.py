"""`ProcessTable`: the processes of a pool, and the number of spares to keep for each target.

`PoolCore` starts and ends the processes.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import anyio

from claude_agent_py._errors import OptionsError
from claude_agent_py._memory import can_measure, read_size, tree_memory
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.pool.compatibility import Change, SessionRequest, find_change
from claude_agent_py.pool.pooled_process import Phase, PooledProcess


@dataclass(frozen=True, kw_only=True)
class PoolStats:
    """The current processes of a pool, and its counters."""

    spares: int
    """Processes that are ready."""
    starting: int
    """Processes that are starting."""
    used: int
    """Processes that serve a session."""
    closing: int
    """Processes that are closing."""
    waiting: int
    """Callers in the queue."""
    memory_bytes: int | None
    """The last measured resident memory of all processes and their descendants; None without a `memory` limit."""
    warm: int
    """How many sessions got a ready process."""
    cold: int
    """How many sessions had to wait for a process to start or to become free."""
    timeouts: int
    """How many callers gave up after their timeout."""
    failed: int
    """How many starts failed."""
    lost: int
    """How many spares died or stopped answering."""
    expired: int
    """How many spares were closed because of `idle` or `memory`, or to make room for a caller."""
    last_error: Exception | None
    """The error of the last failed start or lost spare; None before the first."""

    @property
    def processes(self) -> int:
        """All processes of the pool."""
        return self.spares + self.starting + self.used + self.closing


FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before spares are started again after a failure; doubled with each further one."""


class Waiter:
    """A caller that waits for a process."""

    def __init__(self, request: SessionRequest) -> None:
        self.request = request
        self.served: anyio.Event = anyio.Event()
        self.process: PooledProcess | None = None
        """The process that is reserved for it."""
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Raise an error to the caller."""
        self.error = error
        self.served.set()


class SpareTarget:
    """How many spares to keep for some options."""

    def __init__(self, options: ClientOptions, size: int, *, is_parked: bool = False) -> None:
        self.options = options
        self.size = size
        self.is_parked = is_parked
        """Whether the spares wait for their directory."""
        self.failures: int = 0
        """How many starts have failed in a row."""
        self.not_before: float = -math.inf
        """When to start the next spare, on the clock of the event loop."""

    def build_request(self) -> SessionRequest:
        """Return the request to start a spare for."""
        return SessionRequest.for_options(self.options, is_parked=self.is_parked)

    def note_failure(self) -> None:
        """Wait before the next start, longer after each failure."""
        self.failures += 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 60))
        self.not_before = anyio.current_time() + pause * (0.75 + 0.5 * random.random())  # noqa: S311 - no secret

    def note_success(self) -> None:
        """Start the next spare without a pause."""
        self.failures = 0
        self.not_before = -math.inf


def read_memory_limit(memory: Any) -> int | None:
    """Return a memory limit in bytes.

    Raises:
        OptionsError: The limit is invalid, or the system does not report the memory of processes.
    """
    if memory is None:
        return None
    if not can_measure():
        raise OptionsError("needs a system that reports the memory of processes", option="memory")
    return read_size(memory, option="memory")


def check_count(value: Any, option: str, least: int) -> None:
    """Raise OptionsError unless the value is an integer of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionsError(f"must be a number of at least {least}, not {value!r}", option=option)


def check_seconds(value: Any, option: str) -> float | None:
    """Return seconds, or None for no limit. Raises OptionsError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise OptionsError(f"must be a positive number of seconds, or None, not {value!r}", option=option)
    return float(value)


USUAL_BYTES: Final = 200 * 1024 * 1024
"""The assumed memory of a process before the first measurement. (A ready CLI 2.1.328 takes 165 to 200 MB.)"""


class ProcessTable:
    """The processes of a pool.

    Args:
        targets: The numbers of spares to keep, the most important first.
        max_size: How many processes there may be.
        memory: How many bytes the processes may use; None means any number.
    """

    def __init__(self, targets: list[SpareTarget], max_size: int, memory: int | None) -> None:
        self.targets = targets
        self.processes: list[PooledProcess] = []
        """In the order of their start."""
        self.has_memory_limit: bool = memory is not None
        """Whether a memory limit is set."""
        self._max_size = max_size
        self._memory = math.inf if memory is None else memory
        self._usual_bytes = USUAL_BYTES

    @property
    def memory_bytes(self) -> int | None:
        """The measured memory of all processes; None without a limit."""
        if not self.has_memory_limit:
            return None
        return sum(process.memory_bytes or 0 for process in self.processes)

    @property
    def has_room(self) -> bool:
        """Whether another process may start. The first one always may."""
        fits_in_memory = not self.processes or self._excess() + self._usual_bytes <= 0
        return len(self.processes) < self._max_size and fits_in_memory

    def _excess(self) -> float:
        """Return by how many bytes the processes exceed the limit; negative below it.

        Each process counts as at least what a new one uses once it has started.
        """
        return sum(max(process.memory_bytes or 0, self._usual_bytes) for process in self.processes) - self._memory

    def count(self, phase: Phase) -> int:
        """Return how many processes are in a phase."""
        return sum(process.phase is phase for process in self.processes)

    def spares(self) -> Iterator[PooledProcess]:
        """Yield the spares that are not reserved, oldest first."""
        return (process for process in self.processes if process.is_free)

    def find_spare(self, request: SessionRequest) -> PooledProcess | None:
        """Return the oldest spare that can serve the request, preferably without a claim or a change."""
        candidates = [process for process in self.spares() if process.client.is_open and can_serve(process, request)]
        return min(
            candidates,
            key=lambda process: (process.made_for.is_parked, not _is_same(process.made_for, request)),
            default=None,
        )

    def starting(self) -> list[PooledProcess]:
        """Return the starting processes that are not parked."""
        starting = [process for process in self.processes if process.phase is Phase.STARTING]
        return [process for process in starting if not process.made_for.is_parked]

    def count_missing(self, target: SpareTarget, request: SessionRequest) -> int:
        """Return how many spares a target lacks; negative if it has too many."""
        available = [
            process
            for process in self.processes
            if process.phase in (Phase.STARTING, Phase.SPARE) and not process.is_reserved
        ]
        return target.size - sum(_is_same(process.made_for, request) for process in available)

    def spares_over_limit(self) -> Iterator[PooledProcess]:
        """Yield the spares to close because the memory limit is exceeded. One process may always stay."""
        excess = self._excess()
        for process in list(self.spares()):
            if excess <= 0 or len(self.processes) == 1:
                return
            excess -= max(process.memory_bytes or 0, self._usual_bytes)
            yield process

    def find_target(self, request: SessionRequest) -> SpareTarget | None:
        """Return the target whose spares are started for such a request."""
        return next((target for target in self.targets if _is_same(request, target.build_request())), None)

    async def measure(self) -> None:
        """Measure the memory of the processes."""
        pids: dict[PooledProcess, int] = {}
        for process in self.processes:
            pid = process.pid
            if pid is not None:
                pids[process] = pid
        measured = await tree_memory(pids.values())
        for process, pid in pids.items():
            process.memory_bytes = measured[pid]
        spares = [measured[pid] for process, pid in pids.items() if process.phase is Phase.SPARE]
        self._usual_bytes = max(spares, default=0) or self._usual_bytes


def can_serve(process: PooledProcess, request: SessionRequest) -> bool:
    """Return whether a process can become the requested session."""
    return find_change(process.made_for, request) is not None


def _is_same(one: SessionRequest, other: SessionRequest) -> bool:
    return find_change(one, other) == Change()
