"""The spares that a pool keeps, its statistics and waiting callers, and checks of its arguments."""

import math
import random
from dataclasses import dataclass
from typing import Any, Final

import anyio

from claude_agent_py._base.checks import read_size
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.streams import nth_pause
from claude_agent_py.options import ClientOptions
from claude_agent_py.pool.compatibility import SessionRequest
from claude_agent_py.pool.pooled_process import PooledProcess
from claude_agent_py.transport import can_measure


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
    free: int
    """How many further callers would get a process without waiting for a session to end. Negative: how many in the
    queue wait for that."""
    memory_bytes: int | None
    """The last measured resident memory of all processes and their descendants; None without a `memory` limit."""
    warm: int
    """How many sessions got a ready process."""
    cold: int
    """How many sessions had to wait for a process to start or to become free."""
    timeouts: int
    """How many callers gave up after their timeout."""
    failed: int
    """How many starts have failed."""
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


class ProcessWaiter:
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

    def note_failure(self) -> None:
        """Wait before the next start, longer after each failure."""
        pause = nth_pause(FIRST_PAUSE, LONGEST_PAUSE, self.failures)
        self.failures += 1
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
