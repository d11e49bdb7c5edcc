"""Task events, received by listeners and `TaskManager.events()`.

The events of one run, in this order: `TaskStarted` (or `TaskReopened`, for a later run); any number of
`TaskProgressed`, `TaskStatusChanged`, `TaskAsked`, `TaskAnswered`, `TaskChanged`, `TaskBackgrounded` and
`TaskOutputAvailable`; **exactly one** `TaskFinished`. `TaskRevised` follows if the outcome is corrected later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStatus, TaskUsage


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a task to a person."""

    question: str = ""
    """The question, in one line."""
    kind: str = ""
    """`permission`, `question`, `plan`, `elicitation` or `dialog`."""
    interaction_id: str | None = None
    """The id in the inbox; None if a handler asks."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a question of a task."""

    answer: Mapping[str, Any]
    """The main fields of the reply to the CLI: a decision with its message, answers by question, or a form."""
    by: str = ""
    """The person or handler that answered: a name passed to `Interaction.resolve`, the user of the answering process,
    or the handler."""
    origin: str = ""
    """The source of the answer: the answering process and its machine, or the option of the handler."""
    interaction_id: str | None = None
    """The id in the inbox; None if a handler asked."""


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """The base of all events. `kind` is the word that `TaskManager.on` takes."""

    kind: ClassVar[str] = "event"

    task_id: str
    at: float
    """The time when this process noticed the event, in seconds since the epoch."""
    run_id: str | None = None
    author: str = field(default="", kw_only=True, compare=False)
    """The name of the agent that acted; empty for the main agent and the program. A subagent is the author of its
    actions; its launcher is the author of its start, move or stop, and of all events of a shell."""


@dataclass(frozen=True, slots=True)
class TaskStarted(TaskEvent):
    """A task began."""

    kind: ClassVar[str] = "started"

    description: str = ""
    type: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class TaskReopened(TaskEvent):
    """A finished task runs again: it was resumed, or was wrongly considered finished."""

    kind: ClassVar[str] = "reopened"

    prompt: str | None = None
    """The prompt of the new run; None if the CLI itself resumed it."""


@dataclass(frozen=True, slots=True)
class TaskProgressed(TaskEvent):
    """A running task made progress."""

    kind: ClassVar[str] = "progressed"

    activity: str = ""
    """Its current activity, for example `Running make test`."""
    last_tool_name: str | None = None
    summary: str | None = None
    usage: TaskUsage | None = None


@dataclass(frozen=True, slots=True)
class TaskBackgrounded(TaskEvent):
    """A foreground task was moved to the background."""

    kind: ClassVar[str] = "backgrounded"


@dataclass(frozen=True, slots=True)
class TaskStatusChanged(TaskEvent):
    """The status changed. A final status is followed by `TaskFinished` once the report has arrived."""

    kind: ClassVar[str] = "status_changed"

    old: TaskStatus = TaskStatus.PENDING
    new: TaskStatus = TaskStatus.PENDING


@dataclass(frozen=True, slots=True)
class TaskAsked(TaskEvent):
    """The task asks a person a question. Its status is `awaiting_user` until all its questions are resolved."""

    kind: ClassVar[str] = "asked"

    asked: Asked = field(default_factory=Asked)


@dataclass(frozen=True, slots=True)
class TaskAnswered(TaskEvent):
    """A question of the task was answered. There is no event if a question times out or is withdrawn."""

    kind: ClassVar[str] = "answered"

    answered: Answered = field(default_factory=lambda: Answered({}))


@dataclass(frozen=True, slots=True)
class TaskChanged(TaskEvent):
    """The description, type, agent or parent of a task became known or changed."""

    kind: ClassVar[str] = "changed"

    description: str = ""
    type: str | None = None
    subagent_type: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class TaskOutputAvailable(TaskEvent):
    """The path of the task's output became known."""

    kind: ClassVar[str] = "output_available"

    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(TaskEvent):
    """A run ended. Emitted exactly once per run, even if the CLI reports the end twice or never."""

    kind: ClassVar[str] = "finished"

    outcome: TaskOutcome
    message: TaskNotificationMessage | None = field(default=None, repr=False)
    """The CLI's notification; None if it sent none."""

    def notification(self) -> TaskNotificationMessage:
        """Return the CLI's notification or, if it sent none, one with the same content and an empty `uuid`."""
        outcome = self.outcome
        return self.message or TaskNotificationMessage(
            task_id=outcome.task_id,
            run_id=outcome.run_id,
            status=outcome.status.value,
            output_file=outcome.output_file or "",
            summary=outcome.summary or outcome.failure_reason or "",
            usage=outcome.usage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRevised(TaskEvent):
    """An outcome reported earlier was corrected, for example by a late notification."""

    kind: ClassVar[str] = "revised"

    old: TaskOutcome
    outcome: TaskOutcome


EVENT_TYPES: tuple[type[TaskEvent], ...] = (
    TaskStarted,
    TaskReopened,
    TaskProgressed,
    TaskBackgrounded,
    TaskStatusChanged,
    TaskAsked,
    TaskAnswered,
    TaskChanged,
    TaskOutputAvailable,
    TaskFinished,
    TaskRevised,
)
