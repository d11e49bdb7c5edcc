"""`PoolStats`: a snapshot of a pool."""

from dataclasses import dataclass


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
