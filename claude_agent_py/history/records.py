"""The rows of a history: finished runs of tasks, and the steps that led to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from claude_agent_py.tasks.events import (
    TaskBackgrounded,
    TaskEvent,
    TaskFinished,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.tasks.outcome import TaskOutcome, differ
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.tasks import CHILD_AGENT, TaskStatus


class RecordKind(StrEnum):
    """A step in the life of a task."""

    CREATED = "created"
    STARTED = "started"
    AWAITING_USER = "awaiting_user"
    RESUMED = "resumed"
    BACKGROUNDED = "backgrounded"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One step in the life of a task. A step has the same `key` however often it is recorded."""

    session_id: str
    task_id: str
    kind: RecordKind
    at: float
    """Seconds since the epoch."""
    run_id: str | None = None
    author: str = ""
    """The name of the agent that acted; empty for the main agent and the program around it. A subagent is the author of
    what it does itself; its launcher is, if it is created, resumed, moved or cancelled, and of what a shell does."""
    parent_task_id: str | None = None
    summary: str = ""
    failure_reason: str | None = None
    step: int = 0
    """The number of the step among those of its kind in one run, such as several waits for the user."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further values, as JSON: `type`, `agent` and `description` of a created task, `usage` of one that ended."""

    @property
    def key(self) -> str:
        """The identity of the step: session, task, run, kind, number."""
        return "\x1f".join((self.session_id, self.task_id, self.run_id or "", self.kind, str(self.step)))


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
    """How the end is known, a value of `Evidence`."""
    total_tokens: float = 0
    tool_uses: float = 0
    started_at: float | None = None
    """Seconds since the epoch."""
    ended_at: float | None = None

    @classmethod
    def of(cls, task: Task, outcome: TaskOutcome, session_id: str) -> "FinishedTask":
        """Build it from a task and the outcome of one of its runs."""
        usage = outcome.usage
        return cls(
            session_id=session_id,
            task_id=task.id,
            status=outcome.status,
            run_id=outcome.run_id,
            type=task.type,
            agent=task.subagent_type,
            parent_task_id=task.parent.id if task.parent else None,
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


_ENDS: Final = {
    TaskStatus.COMPLETED: RecordKind.COMPLETED,
    TaskStatus.FAILED: RecordKind.FAILED,
    TaskStatus.STOPPED: RecordKind.CANCELLED,
}


_BY_ITSELF: Final = frozenset({RecordKind.STARTED, RecordKind.AWAITING_USER, RecordKind.COMPLETED, RecordKind.FAILED})
"""The steps that a subagent takes itself."""


def records_of(event: TaskEvent, task: Task, session_id: str) -> list[TaskRecord]:
    """Return the records of an event. Progress, for example, has none."""
    outcome = event.outcome if isinstance(event, TaskFinished | TaskRevised) else None
    return [
        TaskRecord(
            session_id=session_id,
            task_id=event.task_id,
            kind=kind,
            at=outcome.ended_at if outcome and outcome.ended_at is not None else event.at,
            run_id=event.run_id,
            author=_author(event, kind, task),
            parent_task_id=task.parent.id if task.parent else None,
            summary=outcome.summary if outcome else "",
            failure_reason=outcome.failure_reason if outcome else None,
            details=_details(kind, task, outcome),
        )
        for kind in _kinds_of(event, task)
    ]


def _kinds_of(event: TaskEvent, task: Task) -> list[RecordKind]:
    match event:
        case TaskStarted() if task.type == CHILD_AGENT:
            return [RecordKind.CREATED]  # its process has not started yet
        case TaskStarted():
            return [RecordKind.CREATED, RecordKind.STARTED]
        case TaskReopened():
            return [RecordKind.RESUMED]
        case TaskBackgrounded():
            return [RecordKind.BACKGROUNDED]
        case TaskRevised() if not differ(event.old, event.outcome):
            return []  # only the counts changed: the run is stored again
        case TaskFinished() | TaskRevised():
            return [_ENDS[event.outcome.status]]
        case TaskStatusChanged():
            return [kind for old, new, kind in _CHANGES if event.new is new and old in (None, event.old)]
        case _:
            return []


_CHANGES: Final = (
    (TaskStatus.PENDING, TaskStatus.RUNNING, RecordKind.STARTED),
    (None, TaskStatus.AWAITING_USER, RecordKind.AWAITING_USER),
    (TaskStatus.AWAITING_USER, TaskStatus.RUNNING, RecordKind.RESUMED),
)
"""The status changes that are steps: old (None means any), new, step."""


def _author(event: TaskEvent, kind: RecordKind, task: Task) -> str:
    goes_on = kind is RecordKind.RESUMED and isinstance(event, TaskStatusChanged)
    author = task if task.is_agent and (kind in _BY_ITSELF or goes_on) else task.parent
    return "" if author is None else author.subagent_type or author.id


def _details(kind: RecordKind, task: Task, outcome: TaskOutcome | None) -> dict[str, Any]:
    if kind is RecordKind.CREATED:
        return {"type": task.type, "agent": task.subagent_type, "description": task.description}
    usage = outcome.usage if outcome else None
    return {} if usage is None else {"usage": usage.raw}
