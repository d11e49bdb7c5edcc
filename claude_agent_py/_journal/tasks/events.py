"""Task events, received by listeners and `TaskManager.events()`.

The events of one run, in this order: `TaskStarted` (or `TaskReopened`, for a later run); any number of
`TaskProgressed`, `TaskStatusChanged`, `TaskAsked`, `TaskAnswered`, `TaskChanged`, `TaskBackgrounded` and
`TaskOutputAvailable`; **exactly one** `TaskFinished`. `TaskRevised` follows if the outcome is corrected later.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct, field

from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStatus, TaskUsage


class Asked(Struct, frozen=True):
    """A question of a task to a person."""

    question: str = ""
    """The question, in one line."""
    kind: str = ""
    """`permission`, `question`, `plan`, `elicitation` or `dialog`."""
    interaction_id: str | None = None
    """The id in the inbox; None if a handler asks."""


class Answered(Struct, frozen=True):
    """The answer to a question of a task."""

    answer: Mapping[str, Any]
    """The main fields of the reply to the CLI: a decision with its message, answers by question, or a form."""
    by: str = ""
    """Who answered: the `by` passed to `Interaction.resolve`, otherwise the user of that process; for a handler, its
    name."""
    origin: str = ""
    """The source of the answer: the answering process and its machine, or the option of the handler."""
    interaction_id: str | None = None
    """The id in the inbox; None if a handler asked."""


class _Authored(Struct, frozen=True, kw_only=True):
    author: str = ""
    """The name of the agent that acted; empty for the main agent and the program. A subagent is the author of its
    actions; its launcher is the author of its start, move or stop, and of all events of a shell."""


class TaskEvent(_Authored, frozen=True):
    """The base of all events. `kind` is the word that `TaskManager.on` takes."""

    kind: ClassVar[str] = "event"

    task_id: str
    at: float
    """The time when this process noticed the event, in seconds since the epoch."""
    run_id: str | None = None


class TaskStarted(TaskEvent, frozen=True):
    """A task began."""

    kind: ClassVar[str] = "started"

    description: str = ""
    type: str | None = None
    parent_id: str | None = None


class TaskReopened(TaskEvent, frozen=True):
    """A finished task runs again: it was resumed, or was wrongly considered finished."""

    kind: ClassVar[str] = "reopened"

    prompt: str | None = None
    """The prompt of the new run; None if the CLI itself resumed it."""


class TaskProgressed(TaskEvent, frozen=True):
    """A running task made progress."""

    kind: ClassVar[str] = "progressed"

    activity: str = ""
    """Its current activity, for example `Running make test`."""
    last_tool_name: str | None = None
    summary: str | None = None
    usage: TaskUsage | None = None


class TaskBackgrounded(TaskEvent, frozen=True):
    """A foreground task was moved to the background."""

    kind: ClassVar[str] = "backgrounded"


class TaskStatusChanged(TaskEvent, frozen=True):
    """The status changed. A final status is followed by `TaskFinished` once the report has arrived."""

    kind: ClassVar[str] = "status_changed"

    old: TaskStatus = TaskStatus.PENDING
    new: TaskStatus = TaskStatus.PENDING


class TaskAsked(TaskEvent, frozen=True):
    """The task asks a person a question. Its status is `awaiting_user` until all its questions are resolved."""

    kind: ClassVar[str] = "asked"

    asked: Asked = field(default_factory=Asked)


class TaskAnswered(TaskEvent, frozen=True):
    """A question of the task was answered. There is no event if a question times out or is withdrawn."""

    kind: ClassVar[str] = "answered"

    answered: Answered = field(default_factory=lambda: Answered({}))


class TaskChanged(TaskEvent, frozen=True):
    """The description, type, agent or parent of a task became known or changed."""

    kind: ClassVar[str] = "changed"

    description: str = ""
    type: str | None = None
    subagent_type: str | None = None
    parent_id: str | None = None


class TaskOutputAvailable(TaskEvent, frozen=True):
    """The path of the task's output became known."""

    kind: ClassVar[str] = "output_available"

    path: str = ""


class TaskFinished(TaskEvent, frozen=True, kw_only=True):
    """A run ended. Emitted exactly once per run, even if the CLI reports the end twice or never."""

    kind: ClassVar[str] = "finished"

    outcome: TaskOutcome
    message: TaskNotificationMessage | None = None
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

    def __repr__(self) -> str:
        shown = [name for name in self.__struct_fields__ if name != "message"]  # the outcome says the same
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


class TaskRevised(TaskEvent, frozen=True, kw_only=True):
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
