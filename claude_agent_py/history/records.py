"""The values of a history: finished runs of tasks, the steps that led to them, and the tasks rebuilt from the steps."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field as struct_field
from msgspec.structs import fields

from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.tree import Forest, build_label, walk
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage


class RecordKind(StrEnum):
    """A step in the life of a task."""

    CREATED = "created"
    """The task became known. Details: `type`, `agent`, `description`, `prompt`, and for a child agent its `brief`."""
    STARTED = "started"
    AWAITING_USER = "awaiting_user"
    """The task asks a person. Details: `question`, `asks` (its kind), `interaction` (its id in the inbox)."""
    ANSWERED = "answered"
    """A person or a handler answered. Details: `answer`, `by`, `origin`, `interaction`. A question that times out or is
    withdrawn has no such record."""
    PROGRESSED = "progressed"
    """The task called a tool. Details: `activity`, `tool`, `usage`."""
    PAUSED = "paused"
    RESUMED = "resumed"
    """The task runs again: after a pause or a wait, or as a new run. Details of a new run: `run_id`, `prompt`."""
    BACKGROUNDED = "backgrounded"
    CHANGED = "changed"
    """Details or the status changed without a step. See the details and the status."""
    COMPLETED = "completed"
    """A run ended. Details of all ends: `evidence`, `usage`, `exit_code`, `output_file`."""
    FAILED = "failed"
    """A run failed. Details: as above, and `by` (a value of `EndedBy`) if something outside the task ended it."""
    CANCELLED = "cancelled"
    """A run was stopped. Details: as above; `by` is omitted if unknown."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One step in the life of a task. A step has the same `key` each time it is recorded."""

    session_id: str
    task_id: str
    kind: RecordKind
    at: float
    """Seconds since the epoch."""
    run_id: str | None = None
    author: str = ""
    """The name of the agent that acted; empty for the main agent and its program. A subagent is the author of its
    actions. Its launcher is the author of its start, resumption, move to the background and cancellation, and of all
    steps of a shell."""
    parent_task_id: str | None = None
    summary: str = ""
    failure_reason: str | None = None
    step: int = 0
    """The number of earlier steps of the same kind in the run, for example of earlier questions to the user."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further values, as JSON. See `RecordKind`; each record also has the fields that changed since the last record."""
    status: TaskStatus | None = None
    """The status of the task after the step; None if the program that added the record did not set it."""
    number: int = field(default=0, compare=False)
    """The number of the record in the session: 1, 2, 3, ... without gaps. 0 until the record is stored."""

    @property
    def key(self) -> str:
        """The identity of the step: session, task, run, kind, number.

        A task is created once, regardless of its number of runs.
        """
        run = "" if self.kind is RecordKind.CREATED else self.run_id or ""
        return "\x1f".join((self.session_id, self.task_id, run, self.kind, str(self.step)))


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """A task, rebuilt from its records, with the tasks that it launched. The fields have the names of `Task`."""

    id: str
    parent_id: str | None = None
    type: str | None = None
    subagent_type: str | None = None
    description: str = ""
    status: TaskStatus = TaskStatus.PENDING
    summary: str = ""
    failure_reason: str | None = None
    usage: TaskUsage | None = None
    created_at: float | None = None
    """Seconds since the epoch."""
    ended_at: float | None = None
    """Seconds since the epoch; None while the task runs."""
    run_id: str | None = None
    prompt: str | None = None
    activity: str = ""
    output_file: str | None = None
    is_backgrounded: bool = False
    author: str = ""
    """The name of the agent that launched the task; empty for the main agent and its program."""
    brief: Mapping[str, Any] = field(default_factory=dict)
    children: tuple["RecordedTask", ...] = ()

    @property
    def label(self) -> str:
        """The line of the task in a drawing."""
        return build_label(self.description or self.id, self.subagent_type or self.type, self.status, self.usage)

    def walk(self) -> "Iterator[RecordedTask]":
        """Yield this task and all of its descendants, parents before their children."""
        return walk([self])


class RecordedTree(Forest[RecordedTask], frozen=True):
    """All tasks of a session, as a forest. `str()` draws the forest like the live tree."""


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A finished run of a task."""

    session_id: str
    task_id: str
    status: TaskStatus
    run_id: str | None = None
    type: str | None = None
    agent: str | None = None
    """The name of the agent definition; None for a shell."""
    parent_task_id: str | None = None
    description: str = ""
    prompt: str | None = None
    summary: str = ""
    failure_reason: str | None = None
    output_file: str | None = None
    exit_code: int | None = None
    evidence: str = ""
    """The evidence of the end, a value of `Evidence`."""
    total_tokens: float = 0
    tool_uses: float = 0
    started_at: float | None = None
    """Seconds since the epoch."""
    ended_at: float | None = None

    @classmethod
    def of(cls, task: Task | RecordedTask, outcome: TaskOutcome, session_id: str) -> "FinishedTask":
        """Return the finished run for a task and the outcome of one of its runs."""
        usage = outcome.usage
        return cls(
            session_id=session_id,
            task_id=task.id,
            status=outcome.status,
            run_id=outcome.run_id,
            type=task.type,
            agent=task.subagent_type,
            parent_task_id=task.parent_id,
            description=task.description,
            prompt=task.prompt,
            summary=outcome.summary,
            failure_reason=outcome.failure_reason,
            output_file=outcome.output_file,
            exit_code=outcome.exit_code,
            evidence=outcome.evidence.value,
            total_tokens=usage.total_tokens if usage else 0,
            tool_uses=usage.tool_uses if usage else 0,
            started_at=outcome.started_at,
            ended_at=outcome.ended_at,
        )


STATUS: Final = {
    RecordKind.STARTED: TaskStatus.RUNNING,
    RecordKind.RESUMED: TaskStatus.RUNNING,
    RecordKind.PAUSED: TaskStatus.PAUSED,
    RecordKind.AWAITING_USER: TaskStatus.AWAITING_USER,
    RecordKind.COMPLETED: TaskStatus.COMPLETED,
    RecordKind.FAILED: TaskStatus.FAILED,
    RecordKind.CANCELLED: TaskStatus.STOPPED,
}
"""The status after a record without a status."""

_ENDS: Final = frozenset(kind for kind, status in STATUS.items() if status.is_terminal)


class _Details(Struct):
    """The details of a record that describe its task: the fields of `RecordedTask` that they set."""

    type: str | None = None
    subagent_type: str | None = struct_field(default=None, name="agent")
    description: str = ""
    prompt: str | None = None
    activity: str = ""
    output_file: str | None = None
    summary: str = ""
    failure_reason: str | None = None
    run_id: str | None = None
    usage: TaskUsage | None = None
    is_backgrounded: bool = False
    brief: dict[str, Any] = {}


DETAILS: Final = fields(_Details)


def rebuild(records: Iterable[TaskRecord]) -> RecordedTree:
    """Build the tree of a session from its records, in order. A task with an unknown parent is a root."""
    tasks: dict[str, RecordedTask] = {}
    for record in records:
        tasks[record.task_id] = apply_record(tasks.get(record.task_id), record)
    children: dict[str | None, list[str]] = {}
    for task in tasks.values():
        parent_id = task.parent_id if task.parent_id in tasks else None
        children.setdefault(parent_id, []).append(task.id)

    def with_children(task_id: str) -> RecordedTask:
        return replace(tasks[task_id], children=tuple(map(with_children, children.get(task_id, ()))))

    return RecordedTree(tuple(map(with_children, children.get(None, ()))))


def apply_record(known: RecordedTask | None, record: TaskRecord) -> RecordedTask:
    """Return the task with one more record applied. `known` is None for a new task."""
    task = known
    if task is None:
        task = RecordedTask(record.task_id, created_at=record.at, run_id=record.run_id)
    is_earlier = record.kind in _ENDS and None not in (record.run_id, task.run_id) and record.run_id != task.run_id
    status = record.status
    if status is None:
        # The end of an earlier run does not end the current one.
        status = task.status if is_earlier else STATUS.get(record.kind, task.status)
    failure_reason = record.failure_reason if record.kind in _ENDS else task.failure_reason
    changes: dict[str, Any] = {
        "parent_id": task.parent_id or record.parent_task_id,
        "status": status,
        "summary": record.summary or task.summary,
        "failure_reason": failure_reason if status.is_terminal else None,
        "ended_at": _compute_end_time(task, record, status),
    }
    if record.kind in (RecordKind.STARTED, RecordKind.RESUMED):
        changes["run_id"] = record.run_id or task.run_id
    if record.kind is RecordKind.CREATED:
        changes["author"] = record.author
    for each in DETAILS:
        if each.encode_name in record.details:
            # Another version of the library may have written another value.
            with suppress(Misfit):
                changes[each.name], _ = fit(each.type, record.details[each.encode_name])
    return replace(task, **changes)


def _compute_end_time(task: RecordedTask, record: TaskRecord, status: TaskStatus) -> float | None:
    if not status.is_terminal:
        return None
    if record.kind in _ENDS or task.ended_at is None:
        return record.at
    return task.ended_at
