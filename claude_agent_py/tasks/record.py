"""What a history keeps: finished runs of tasks, and the steps of their lives.

Owns the values and how they are made from what a manager says. Knows no database; `history` stores them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from claude_agent_py.tasks.events import (
    TaskBackgrounded,
    TaskEvent,
    TaskFinished,
    TaskReopened,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.tasks import TaskStatus


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
    """One step in the life of a task. The same step has the same `key`, however often it is recorded."""

    session_id: str
    task_id: str
    kind: RecordKind
    at: float
    """Seconds since the epoch."""
    run_id: str | None = None
    author: str = ""
    """Who acted: an agent's name; empty for the main agent."""
    parent_task_id: str | None = None
    summary: str = ""
    failure_reason: str | None = None
    step: int = 0
    """Tells steps of the same kind in one run apart, such as several waits for the user."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else is worth keeping: plain JSON."""

    @property
    def key(self) -> str:
        """What makes it the same step: task, run, kind, number."""
        return "\x1f".join((self.session_id, self.task_id, self.run_id or "", self.kind, str(self.step)))


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A run of a task that is over, as the history keeps it."""

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
    """How the end was known."""
    total_tokens: float = 0
    tool_uses: float = 0
    started_at: float | None = None
    """Seconds since the epoch."""
    ended_at: float | None = None

    @classmethod
    def of(cls, task: Task, outcome: TaskOutcome, session_id: str) -> "FinishedTask":
        """Make it from a task and the outcome of one of its runs."""
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


def record_of(event: TaskEvent, task: Task, session_id: str) -> TaskRecord | None:
    """Make the record of an event; None for an event that is no step (progress, for instance)."""
    kind = _kind_of(event)
    if kind is None:
        return None
    outcome = event.outcome if isinstance(event, TaskFinished) else None
    return TaskRecord(
        session_id=session_id,
        task_id=event.task_id,
        kind=kind,
        at=outcome.ended_at if outcome and outcome.ended_at is not None else event.at,
        run_id=event.run_id,
        author=task.parent.subagent_type or task.parent.id if task.parent else "",
        parent_task_id=task.parent.id if task.parent else None,
        summary=outcome.summary if outcome else "",
        failure_reason=outcome.failure_reason if outcome else None,
        details=_details(event, task),
    )


def _kind_of(event: TaskEvent) -> RecordKind | None:
    match event:
        case TaskStarted():
            return RecordKind.STARTED
        case TaskReopened():
            return RecordKind.RESUMED
        case TaskBackgrounded():
            return RecordKind.BACKGROUNDED
        case TaskFinished():
            return _ENDS[event.outcome.status]
        case TaskStatusChanged(new=TaskStatus.AWAITING_USER):
            return RecordKind.AWAITING_USER
        case TaskStatusChanged(old=TaskStatus.AWAITING_USER, new=TaskStatus.RUNNING):
            return RecordKind.RESUMED
        case _:
            return None


def _details(event: TaskEvent, task: Task) -> dict[str, Any]:
    if not isinstance(event, TaskStarted):
        return {}
    return {"type": task.type, "agent": task.subagent_type, "description": task.description}
