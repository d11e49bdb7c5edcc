"""The values of a history: finished runs of tasks, the steps that led to them, and the tasks as the steps tell them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.tree import Forest, build_label, walk
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage


class RecordKind(StrEnum):
    """A step in the life of a task."""

    CREATED = "created"
    """It became known. Details: `type`, `agent`, `description`, `prompt`, and for a child agent its `brief`."""
    STARTED = "started"
    AWAITING_USER = "awaiting_user"
    """It asks a person. Details: `question`, `asks` (the kind of question), `interaction` (the id in the inbox)."""
    ANSWERED = "answered"
    """A person or a handler answered. Details: `answer`, `by`, `origin`, `interaction`. A question that times out or is
    withdrawn has no answer."""
    PROGRESSED = "progressed"
    """It called a tool. Details: `activity`, `tool`, `usage`."""
    PAUSED = "paused"
    RESUMED = "resumed"
    """It runs again: after a pause or a wait, or as a new run. Details of a new run: `run_id`, `prompt`."""
    BACKGROUNDED = "backgrounded"
    CHANGED = "changed"
    """More became known about it; see the details and the status."""
    COMPLETED = "completed"
    """A run ended. Details of all ends: `evidence`, `usage`, `exit_code`, `output_file`."""
    FAILED = "failed"
    """A run failed. Details: as above, and `by` (a value of `EndedBy`) if something else ended it."""
    CANCELLED = "cancelled"
    """A run was stopped. Details: as above; `by` is left out if it is unknown."""


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
    """The name of the agent that acted; empty for the main agent and the program around it. A subagent is the author of
    what it does itself; its launcher is the author of its creation, resumption, move or cancellation, and of everything
    that a shell does."""
    parent_task_id: str | None = None
    summary: str = ""
    failure_reason: str | None = None
    step: int = 0
    """The number of the step among those of its kind in one run, for example when it waits for the user several
    times."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further values, as JSON. See `RecordKind`; each record also has the facts that changed since the last one."""
    status: TaskStatus | None = None
    """The status of the task after the step; None in records of older versions."""
    number: int = field(default=0, compare=False)
    """Its number in the session: 1, 2, 3, ... without gaps. 0 until it is stored."""

    @property
    def key(self) -> str:
        """The identity of the step: session, task, run, kind, number.

        A task is created once, regardless of its number of runs.
        """
        run = "" if self.kind is RecordKind.CREATED else self.run_id or ""
        return "\x1f".join((self.session_id, self.task_id, run, self.kind, str(self.step)))


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """A task as described by its records, with the tasks that it launched. The fields are those of `Task`."""

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
    """Seconds since the epoch; None while it runs."""
    run_id: str | None = None
    prompt: str | None = None
    activity: str = ""
    output_file: str | None = None
    is_backgrounded: bool = False
    author: str = ""
    """The name of the agent that launched it; empty for the main agent and the program around it."""
    brief: Mapping[str, Any] = field(default_factory=dict)
    children: tuple["RecordedTask", ...] = ()

    @property
    def label(self) -> str:
        """Its line in a drawing."""
        return build_label(self.description or self.id, self.subagent_type or self.type, self.status, self.usage)

    def walk(self) -> "Iterator[RecordedTask]":
        """Yield this task and all below it, parents before their children."""
        return walk([self])


@dataclass(frozen=True, slots=True)
class RecordedTree(Forest[RecordedTask]):
    """All tasks of a session, as a forest. `str()` draws it like the live tree."""


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
    def of(cls, task: Task | RecordedTask, outcome: TaskOutcome, session_id: str) -> "FinishedTask":
        """Create it from a task and the outcome of one of its runs."""
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
