"""Open runs: their prompts and time limits, and the verdicts on them.

`turns.py` keeps them and decides when one ends.
"""

from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field
from typing_extensions import TypeVar

from claude_agent_py.wire.unknown import MalformedFrame

Until: TypeAlias = Literal["result", "idle"]
RunKey: TypeAlias = Any
"""The driver's object for a run: anything hashable."""
RunT = TypeVar("RunT", default=Any)
"""Its type, in the driver's handlers of verdicts."""
EndReason: TypeAlias = Literal["result", "idle", "cancelled", "unreadable", "timeout", "closed"]
TimeoutKind: TypeAlias = Literal["run", "first_message", "silence", "idle"]

FIRST_NOTICE: Final = 60.0
"""After how many seconds of waiting only for tasks a `RunWaits` is reported."""

NEXT_NOTICE: Final = 600.0
"""After how many more seconds it is reported again."""


class RunLimits(Struct, frozen=True):
    """Time limits of a run, in seconds; None means no limit."""

    run: float | None = None
    first_message: float | None = None
    silence: float | None = None
    idle: float | None = None
    """From its own result to the end of its tasks. On expiry the run ends without an error, after the current turn."""


class RunEnded(Struct, Generic[RunT], frozen=True):
    """A run has ended."""

    run: RunT
    reason: EndReason
    kind: TimeoutKind | None = None
    """The limit that expired, if that is the reason."""
    limit: float | None = None
    tasks: frozenset[str] = frozenset()
    """The ids of the tasks started in the run, or by their subagents."""
    was_in_turn: bool = False
    """Whether the CLI was working on one of its prompts."""
    frame: MalformedFrame | None = None
    """The malformed result, if that is the reason."""
    late_tasks: frozenset[str] = frozenset()
    """The tasks that were running when `RunLimits.idle` expired."""


class RunWaits(Struct, Generic[RunT], frozen=True):
    """A run that has its answer has been waiting for tasks for a long time."""

    run: RunT
    seconds: float


class TurnResumed(Struct, Generic[RunT], frozen=True):
    """The CLI resumed the turn that an earlier process left unfinished, or reported that there is none."""

    run: RunT
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


class OpenRun(Struct, eq=False):
    """An open run."""

    key: RunKey
    until: Until
    limits: RunLimits
    is_limited: bool
    """Whether the run has any time limit to check."""
    opened_at: float
    last_progress: float
    waiting: dict[str, None] = field(default_factory=dict)
    """The unanswered prompts, oldest first."""
    tasks: set[str] = field(default_factory=set)
    is_sealed: bool = False
    """No more prompts will come."""
    has_begun: bool = False
    """The CLI has started on one of its prompts."""
    was_answered: bool = False
    """A result came for one of its prompts."""
    waits_since: float | None = None
    """When it got its last answer and began to wait for the session to be idle."""
    next_notice: float = FIRST_NOTICE
    """After how many seconds of waiting `RunWaits` is reported next."""

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
        if limits.idle is not None and self.waits_since is not None and is_between_turns:
            deadlines.append(Deadline(self.waits_since + limits.idle, "idle", limits.idle))
        return min(deadlines, default=None)

    def notice(self, now: float) -> RunWaits | None:
        """Return a periodic notice if the run has waited a long time for tasks, or None."""
        waited = 0.0 if self.waits_since is None else now - self.waits_since
        if waited < self.next_notice:
            return None
        self.next_notice = waited + NEXT_NOTICE
        return RunWaits(self.key, waited)
