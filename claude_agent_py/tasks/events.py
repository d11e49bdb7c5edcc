"""What happens to tasks, as values.

Owns the event classes. The ledger makes them, listeners and `TaskManager.events()` receive them. Each names its task by
id and the time at which this side noticed, in seconds since the epoch.

Of one run a listener sees, in this order: `TaskStarted` (or `TaskReopened`, for a later run), any number of
`TaskProgressed`, `TaskStatusChanged`, `TaskBackgrounded` and `TaskOutputAvailable`, and **exactly one** `TaskFinished`.
`TaskRevised` comes after it, when something better became known of the same end.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.wire.tasks import TaskNotificationMessage, TaskStatus, TaskUsage


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """The base of all events. `kind` is the word that `TaskManager.on` takes."""

    kind: ClassVar[str] = "event"

    task_id: str
    at: float
    """When it was noticed, in seconds since the epoch."""
    run_id: str | None = None
    author: str = field(default="", kw_only=True, compare=False)
    """Who acted, an agent's name; empty for the main agent and the program around it. What a task does, its own agent
    does; whoever launched it is the author where it begins, is moved or stopped, and of all that a shell does."""


@dataclass(frozen=True, slots=True)
class TaskStarted(TaskEvent):
    """A task began."""

    kind: ClassVar[str] = "started"

    description: str = ""
    type: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class TaskReopened(TaskEvent):
    """A task that was over runs again: it was resumed, or it turned out not to be over."""

    kind: ClassVar[str] = "reopened"

    prompt: str | None = None
    """What the new run was asked; None where the CLI itself resumed it."""


@dataclass(frozen=True, slots=True)
class TaskProgressed(TaskEvent):
    """A running task did something."""

    kind: ClassVar[str] = "progressed"

    activity: str = ""
    """What it does now, for example `Running make test`."""
    last_tool_name: str | None = None
    summary: str | None = None
    usage: TaskUsage | None = None


@dataclass(frozen=True, slots=True)
class TaskBackgrounded(TaskEvent):
    """A foreground task was moved to the background."""

    kind: ClassVar[str] = "backgrounded"


@dataclass(frozen=True, slots=True)
class TaskStatusChanged(TaskEvent):
    """The status changed. A change to a final status is followed by `TaskFinished`, once the report is there."""

    kind: ClassVar[str] = "status_changed"

    old: TaskStatus = TaskStatus.PENDING
    new: TaskStatus = TaskStatus.PENDING


@dataclass(frozen=True, slots=True)
class TaskOutputAvailable(TaskEvent):
    """The file that the task writes its output to is known."""

    kind: ClassVar[str] = "output_available"

    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(TaskEvent):
    """A run is over. Comes once a run, whatever the CLI sent, twice or never."""

    kind: ClassVar[str] = "finished"

    outcome: TaskOutcome
    message: TaskNotificationMessage | None = field(default=None, repr=False)
    """The CLI's notification; None where none came."""

    def notification(self) -> TaskNotificationMessage:
        """Give the CLI's notification, or one that says the same where none came (`uuid` is empty then)."""
        return self.message or _notification_of(self.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRevised(TaskEvent):
    """More became known of an end that was reported already, for example by a notification that came late."""

    kind: ClassVar[str] = "revised"

    old: TaskOutcome
    outcome: TaskOutcome


EVENT_TYPES: tuple[type[TaskEvent], ...] = (
    TaskStarted,
    TaskReopened,
    TaskProgressed,
    TaskBackgrounded,
    TaskStatusChanged,
    TaskOutputAvailable,
    TaskFinished,
    TaskRevised,
)


def _notification_of(outcome: TaskOutcome) -> TaskNotificationMessage:
    return TaskNotificationMessage(
        task_id=outcome.task_id,
        run_id=outcome.run_id,
        status=outcome.status.value,
        output_file=outcome.output_file or "",
        summary=outcome.summary or outcome.failure_reason or "",
        usage=outcome.usage,
    )
