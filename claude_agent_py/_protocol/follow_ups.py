"""`FollowUps`: the turns that finished background tasks are expected to cause.

Not every task causes one: a stopped task may not, and a task that ends during a turn may be folded into it. So each
expectation expires after a grace period.
"""

from typing import Final

FOLLOW_UP_GRACE: Final = 1.0
"""How many seconds to wait for the follow-up turn of a finished task.

Measured: 10 to 110 ms from the notification, or from the end of the current turn, to the follow-up turn (CLI 2.1.328).
It only elapses for a task without a follow-up turn, such as a shell stopped by `stop_task`, and only with a CLI that
does not report when it is idle."""


class FollowUps:
    """The expected follow-up turns. True if there are any."""

    def __init__(self) -> None:
        self._task_runs: set[str] = set()
        self.until: float = 0.0
        """When the expectations expire, except during a turn, which may delay or replace the follow-up turns."""

    def __bool__(self) -> bool:
        return bool(self._task_runs)

    def expect(self, task_run_id: str, now: float) -> None:
        """Expect a follow-up turn for this run of a task."""
        self._task_runs.add(task_run_id)
        self.until = now + FOLLOW_UP_GRACE

    def forget(self, task_run_id: str) -> None:
        """Expect no follow-up turn for this run of a task."""
        self._task_runs.discard(task_run_id)

    def turn_ended(self, task_run_id: str | None, now: float) -> None:
        """Note the end of a turn, which was the follow-up of this run of a task. Delayed follow-up turns begin now."""
        self._task_runs.discard(task_run_id or "")
        self.until = now + FOLLOW_UP_GRACE

    def give_up(self, now: float) -> None:
        """Drop expired expectations. Must not be called during a turn."""
        if now >= self.until:
            self._task_runs.clear()

    def clear(self) -> None:
        """Drop all expectations: the CLI is idle."""
        self._task_runs.clear()
