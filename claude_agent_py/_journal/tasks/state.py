"""The states of a task and the transitions between them, as a table.

`TRANSITIONS` contains every change of a status; the diagram in the documentation is generated from it. `Evidence` is
the source of the end of a run, with its reliability. The states are words of the wire (`wire.tasks.TaskStatus`).

Two rules make the order of arrival irrelevant: better evidence replaces worse, never the other way round; and an ended
run stays ended, unless the task begins a *new run*, or shows activity after an end that was only inferred.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from claude_agent_py.wire.messages.tasks import TaskStatus


class Evidence(StrEnum):
    """How the end of a run is known. From `NOTIFICATION` to `TOOL_RESULT` the CLI said so; the rest is inferred."""

    NOTIFICATION = "notification"
    """The task's own notification."""
    UPDATE = "update"
    """An update with a final status, without a notification after it."""
    TOOL_RESULT = "tool_result"
    """The result of the tool call that waited for the task, or that stopped it."""
    END_MARKER = "end_marker"
    """The end marker in a shell's output file."""
    TRANSCRIPT = "transcript"
    """The transcript of the subagent, or the CLI's notes next to it."""
    HOOK = "hook"
    """A `SubagentStop` hook, followed by nothing."""
    LEVEL = "level"
    """The list of live background tasks no longer contains it."""
    RESULT = "result"
    """The turn that waited for it has ended."""
    STOP_REQUEST = "stop_request"
    """The CLI confirmed a request to stop the task."""
    NEXT_RUN = "next_run"
    """The task started another run."""
    PROCESS_EXIT = "process_exit"
    """The CLI's process ended while it ran."""

    # The hash of `Enum` is slower, because it is written in Python.
    __hash__ = str.__hash__

    @property
    def rank(self) -> int:
        """Its reliability; higher is better."""
        return _RANKS[self]

    @property
    def may_be_wrong(self) -> bool:
        """Whether later activity may contradict it."""
        return not self.is_certain and self is not Evidence.PROCESS_EXIT

    @property
    def is_certain(self) -> bool:
        """Whether the CLI itself reported the end and its kind."""
        return self.rank >= _RANKS[Evidence.TOOL_RESULT]


_RANKS: Final[Mapping[Evidence, int]] = {
    Evidence.NOTIFICATION: 5,
    Evidence.UPDATE: 4,
    Evidence.TOOL_RESULT: 3,
    Evidence.END_MARKER: 2,
    Evidence.TRANSCRIPT: 2,
    Evidence.HOOK: 1,
    Evidence.LEVEL: 1,
    Evidence.RESULT: 1,
    Evidence.STOP_REQUEST: 1,
    Evidence.NEXT_RUN: 1,
    Evidence.PROCESS_EXIT: 0,
}


class Signal(StrEnum):
    """Input of the task state machine."""

    STARTED = "started"
    ACTIVITY = "activity"
    """Progress, a message of the subagent, or an entry in the list of live tasks."""
    QUEUED = "queued"
    PAUSED = "paused"
    RESUMED = "resumed"
    ASKED = "asks the user"
    ANSWERED = "answered"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    NEW_RUN = "new run"

    # The hash of `Enum` is slower, because it is written in Python.
    __hash__ = str.__hash__


class Guard(StrEnum):
    """An additional condition of a transition."""

    NONE = ""
    BETTER_EVIDENCE = "better evidence"
    INFERRED_END = "the end was inferred"


class Transition(Struct, frozen=True):
    """One row of the table."""

    source: TaskStatus
    signal: Signal
    target: TaskStatus
    guard: Guard = Guard.NONE


_END_STATUSES: Final[Mapping[Signal, TaskStatus]] = {
    Signal.COMPLETED: TaskStatus.COMPLETED,
    Signal.FAILED: TaskStatus.FAILED,
    Signal.STOPPED: TaskStatus.STOPPED,
}
_OPEN: Final = tuple(status for status in TaskStatus if not status.is_terminal)

TRANSITIONS: Final[tuple[Transition, ...]] = (
    Transition(TaskStatus.PENDING, Signal.STARTED, TaskStatus.RUNNING),
    Transition(TaskStatus.PENDING, Signal.ACTIVITY, TaskStatus.RUNNING),
    Transition(TaskStatus.PENDING, Signal.RESUMED, TaskStatus.RUNNING),
    Transition(TaskStatus.PENDING, Signal.PAUSED, TaskStatus.PAUSED),
    Transition(TaskStatus.PENDING, Signal.ASKED, TaskStatus.AWAITING_USER),
    Transition(TaskStatus.RUNNING, Signal.QUEUED, TaskStatus.PENDING),
    Transition(TaskStatus.RUNNING, Signal.PAUSED, TaskStatus.PAUSED),
    Transition(TaskStatus.RUNNING, Signal.ASKED, TaskStatus.AWAITING_USER),
    Transition(TaskStatus.PAUSED, Signal.RESUMED, TaskStatus.RUNNING),
    Transition(TaskStatus.PAUSED, Signal.ASKED, TaskStatus.AWAITING_USER),
    Transition(TaskStatus.AWAITING_USER, Signal.ANSWERED, TaskStatus.RUNNING),
    Transition(TaskStatus.AWAITING_USER, Signal.PAUSED, TaskStatus.PAUSED),
    *(Transition(source, signal, target) for source in _OPEN for signal, target in _END_STATUSES.items()),
    *(
        Transition(source, signal, target, Guard.BETTER_EVIDENCE)
        for source in _END_STATUSES.values()
        for signal, target in _END_STATUSES.items()
        if source is not target
    ),
    *(Transition(source, Signal.NEW_RUN, TaskStatus.RUNNING) for source in _END_STATUSES.values()),
    *(Transition(source, Signal.ACTIVITY, TaskStatus.RUNNING, Guard.INFERRED_END) for source in _END_STATUSES.values()),
)
"""Every transition. A signal without a row does not change the state."""

_BY_SOURCE: Final = {(row.source, row.signal): row for row in TRANSITIONS}
_SIGNALS_BY_STATUS: Final[Mapping[TaskStatus, Signal]] = {
    TaskStatus.PENDING: Signal.QUEUED,
    TaskStatus.RUNNING: Signal.RESUMED,
    TaskStatus.PAUSED: Signal.PAUSED,
    TaskStatus.AWAITING_USER: Signal.ASKED,
    **{status: signal for signal, status in _END_STATUSES.items()},
}


def signal_for(status: TaskStatus) -> Signal:
    """Return the signal for an update to this status."""
    return _SIGNALS_BY_STATUS[status]


def move(
    status: TaskStatus, signal: Signal, *, known_by: Evidence | None = None, now_by: Evidence | None = None
) -> TaskStatus:
    """Return the state after a signal.

    `known_by` is the evidence for the current end (None before the end); `now_by` is the evidence for the signal.
    """
    row = _BY_SOURCE.get((status, signal))
    return row.target if row is not None and _allows(row.guard, known_by, now_by) else status


def _allows(guard: Guard, known_by: Evidence | None, now_by: Evidence | None) -> bool:
    if guard is Guard.BETTER_EVIDENCE:
        return known_by is None or (now_by is not None and _replaces(now_by, known_by))
    if guard is Guard.INFERRED_END:
        return known_by is not None and known_by.may_be_wrong
    return True


def _replaces(new: Evidence, old: Evidence) -> bool:
    """Return whether new evidence replaces old: it is better, or both are notifications."""
    return new.rank > old.rank or new is old is Evidence.NOTIFICATION
