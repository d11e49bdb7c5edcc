"""`PoolStats`: a snapshot of a pool."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PoolStats:
    """What a pool has, and what it has done so far."""

    spares: int
    """Processes that are ready."""
    starting: int
    """Processes that are being started."""
    used: int
    """Processes that are handed out."""
    closing: int
    """Processes that are being ended."""
    waiting: int
    """Callers in the queue."""
    memory_bytes: int | None
    """The resident memory of all processes and what they started, when last measured; None without the bound
    `memory`."""
    warm: int
    """How many sessions were handed out by a process that was ready."""
    cold: int
    """How many sessions had to wait for a process to start or to become free."""
    timeouts: int
    """How many callers gave up after their timeout."""
    failed: int
    """How many starts failed."""
    lost: int
    """How many spares died or stopped answering."""
    expired: int
    """How many spares were closed because of `idle` or `memory`, or to make room for other options."""
    last_error: Exception | None
    """The error of the last start that failed, or of the last spare that was lost; None before the first."""

    @property
    def processes(self) -> int:
        """All processes of the pool."""
        return self.spares + self.starting + self.used + self.closing
