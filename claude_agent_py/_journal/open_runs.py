"""Open runs: their prompts and time limits, and the verdicts on them.

`router.py` keeps them and decides when one ends.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from claude_agent_py._journal.turns import Turns
from claude_agent_py.wire.unknown import MalformedFrame

Until: TypeAlias = Literal["result", "idle"]
EndReason: TypeAlias = Literal["result", "idle", "cancelled", "unreadable", "timeout", "closed"]
TimeoutKind: TypeAlias = Literal["run", "first_message", "silence", "idle"]

FIRST_NOTICE: Final = 60.0
"""After how many seconds of waiting only for tasks a `RunWaits` is reported."""

NEXT_NOTICE: Final = 600.0
"""After how many more seconds it is reported again."""

DEFAULT_IDLE: Final = 600.0
"""The default of `RunLimits.idle` if the process ends with the run."""


class RunLimits(Struct, frozen=True):
    """Time limits of a run, in seconds; None means no limit."""

    run: float | None = None
    first_message: float | None = None
    silence: float | None = None
    idle: float | None = None
    """After its last answer: from the last progress of its turns and tasks to the end of the tasks. On expiry the run
    ends without an error, after the current turn."""


NO_LIMITS: Final = RunLimits()


class RunEnded(Struct, frozen=True):
    """A run has ended."""

    run: Any
    """The session's `OpenRun`."""
    reason: EndReason
    kind: TimeoutKind | None = None
    """The limit that expired, if that is the reason."""
    limit: float | None = None
    was_in_turn: bool = False
    """Whether the CLI was working on one of its prompts when the limit expired, or when the process ended."""
    late_tasks: frozenset[str] = frozenset()
    """The tasks that were running when `RunLimits.idle` expired."""


class RunWaits(Struct, frozen=True):
    """A run that has its answer has been waiting for tasks for a long time."""

    run: Any
    seconds: float


class TurnResumed(Struct, frozen=True):
    """The CLI resumed the turn that an earlier process left unfinished, or reported that there is none."""

    run: Any
    """The run that was opened for it. It is dropped if it has no prompts."""
    prompts: tuple[str, ...]
    """The prompts of the turn; empty if there is no such turn."""
    adopted: tuple[str, ...]
    """Those of them that belong to no other run, and now to this one."""


Verdict: TypeAlias = RunEnded | TurnResumed | RunWaits
"""What the router decides about runs."""


class Deadline(NamedTuple):
    """When a time limit of a run expires."""

    at: float
    kind: TimeoutKind
    limit: float
    """The length of the limit, in seconds."""


class OpenRun:
    """A run, as the router knows it. The session derives from it what else it needs to know of a run."""

    opened_at: float
    last_progress: float
    waiting: dict[str, None]
    """The unanswered prompts, oldest first."""
    has_begun: bool
    """The CLI has started on one of its prompts."""
    was_answered: bool
    """A result came for one of its prompts."""
    bad_result: MalformedFrame | None
    """The result for one of its prompts, if it cannot be read. It ends the run."""
    waiting_since: float | None
    """When it had its last answer and began to wait for the session to become idle."""
    next_notice: float
    """After how many seconds of waiting `RunWaits` is reported next."""

    def __init__(self, until: Until = "result", limits: RunLimits = NO_LIMITS) -> None:
        self.until: Until = until
        self.limits = limits
        self.is_sealed = False
        """No more prompts will come."""
        self.was_interrupted = False
        """It was interrupted, or its turn was: it ends with its last answer, without waiting for tasks."""
        self.turns: dict[str, str] = {}
        """The ids of the turns that it received, and the `run` of each."""
        self.tasks: set[str] = set()
        """The ids of the tasks started in the run, or by their subagents."""
        self.restart(0.0)

    def restart(self, now: float) -> None:
        """Begin, or begin again in another process."""
        self.opened_at = self.last_progress = now
        self.waiting = {}
        self.has_begun = self.was_answered = False
        self.bad_result = self.waiting_since = None
        self.next_notice = FIRST_NOTICE

    @property
    def has_all_answers(self) -> bool:
        """Whether all of its prompts were sent and answered."""
        return self.is_sealed and not self.waiting

    def deadline(self, silent_since: float, *, is_between_turns: bool) -> Deadline | None:
        """Return the first of its limits to expire, or None.

        Args:
            silent_since: When the CLI last made progress that counts for this run.
            is_between_turns: Whether the CLI works on no turn, so that only tasks are waited for.
        """
        limits = self.limits
        deadlines: list[Deadline] = []
        if limits.run is not None:
            deadlines.append(Deadline(self.opened_at + limits.run, "run", limits.run))
        if self.waiting or self.is_sealed:  # otherwise the caller is silent, not the CLI
            if limits.first_message is not None and not self.has_begun:
                deadlines.append(Deadline(silent_since + limits.first_message, "first_message", limits.first_message))
            if limits.silence is not None:
                deadlines.append(Deadline(silent_since + limits.silence, "silence", limits.silence))
        if limits.idle is not None and self.waiting_since is not None and is_between_turns:
            idle_since = max(self.waiting_since, silent_since)
            deadlines.append(Deadline(idle_since + limits.idle, "idle", limits.idle))
        return min(deadlines, default=None)

    def notice(self, now: float) -> RunWaits | None:
        """Return a periodic notice if the run has waited a long time for tasks, or None."""
        waited = 0.0 if self.waiting_since is None else now - self.waiting_since
        if waited < self.next_notice:
            return None
        self.next_notice = waited + NEXT_NOTICE
        return RunWaits(self, waited)


def note_turns(runs: Iterable[OpenRun], turns: Turns) -> None:
    """Note that runs received the turns that began to count or ended with the latest message."""
    for turn, _ in turns.news:
        for run in runs:
            run.turns[turn.id] = turn.run
