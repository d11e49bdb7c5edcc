"""The turns that finished tasks cause: how many may still come, as far as anybody can tell.

A task that ends in the background causes a turn of its own, whose result names the run of the task. But not always: one
that was stopped may cause none, and one that ends during a turn may be folded into it. So every expectation is given up
after a grace. Knows ids and times only; which messages mean what is the business of `turns.py`.
"""

from typing import Final

FOLLOW_UP_GRACE: Final = 1.0
"""How long a finished task may take to cause its follow-up turn, in seconds, where nothing says that none is due.

Measured: 10 to 110 ms from the notification to the turn it causes (CLI 2.1.328), or from the end of the turn that was
under way. It is waited out only after a task that causes none, such as a shell stopped by `stop_task`, and only with a
CLI that does not say that it is idle."""


class FollowUps:
    """The follow-up turns that are due. True while there are any."""

    def __init__(self) -> None:
        self._runs: set[str] = set()
        self.until: float = 0.0
        """When they are given up, unless a turn is under way: it may delay them, or make them superfluous."""

    def __bool__(self) -> bool:
        return bool(self._runs)

    def expect(self, run_id: str, now: float) -> None:
        """Expect the turn that the end of this run of a task causes."""
        self._runs.add(run_id)
        self.until = now + FOLLOW_UP_GRACE

    def forget(self, run_id: str) -> None:
        """Expect none for this run of a task."""
        self._runs.discard(run_id)

    def turn_ended(self, run_id: str | None, now: float) -> None:
        """Note the end of a turn, and of which run of a task it was the follow-up. Those it delayed come now."""
        self._runs.discard(run_id or "")
        self.until = now + FOLLOW_UP_GRACE

    def give_up(self, now: float) -> None:
        """Forget those that would have come by now. Not to be called during a turn."""
        if now >= self.until:
            self._runs.clear()

    def clear(self) -> None:
        """Forget them all: the CLI says that none will come."""
        self._runs.clear()
