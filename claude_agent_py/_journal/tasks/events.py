"""Task events: the facts about tasks, received by listeners and `TaskManager.events()`, and in the journal.

The events of one run, in this order: `TaskStarted` (or `TaskReopened`, for a later run); any number of
`TaskProgressed`, `TaskStatusChanged`, `TaskAsked`, `TaskAnswered`, `TaskChanged`, `TaskBackgrounded` and
`TaskOutputAvailable`; **exactly one** `TaskFinished`. `TaskRevised` follows if the outcome is corrected later.

The ledger makes them without a `number`. The journal of an observed session gives them one.
"""

from typing import ClassVar, Final, Literal, TypeAlias, get_args

from msgspec import Struct, field

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._journal.fact_base import AnyFact
from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStatus, TaskUsage


class Asked(Struct, frozen=True, omit_defaults=True):
    """A question of a task to a person."""

    question: str = ""
    """The question, in one line."""
    kind: str = ""
    """`permission`, `question`, `plan`, `elicitation` or `dialog`."""
    interaction_id: str | None = None
    """The id in the inbox; None if a handler asks."""


class Answered(Struct, frozen=True, omit_defaults=True):
    """The answer to a question of a task."""

    answer: JSONMapping
    """The main fields of the reply to the CLI: a decision with its message, answers by question, or a form."""
    by: str = ""
    """Who answered: the `by` passed to `Interaction.resolve`, otherwise the user of that process; for a handler, its
    name."""
    origin: str = ""
    """The source of the answer: the answering process and its machine, or the option of the handler."""
    interaction_id: str | None = None
    """The id in the inbox; None if a handler asked."""


class TaskEvent(AnyFact):
    """The base of all events. `agent` launched the task; `id` is the task's, with `#2`, ... for its later runs."""

    fact: ClassVar[str]
    kind: ClassVar[str] = ""
    """The word that `TaskManager.on` takes: `fact` without `task_`."""

    task_id: str
    run_id: str | None = None
    author: str = ""
    """The name of the agent that acted; empty for the main agent and the program. A subagent is the author of its
    actions; its launcher is the author of its start, move or stop, and of all events of a shell."""

    def __init_subclass__(cls) -> None:
        cls.kind = getattr(cls, "fact", "").removeprefix("task_")


class _RunBegan(TaskEvent):
    description: str = ""
    type: str | None = None
    name: str = ""
    """The type of a subagent or the name of a workflow."""
    parent_id: str | None = None
    """The subagent that launched it; None for the main agent, or if unknown."""
    call: str | None = None
    """The tool call that launched the run."""
    prompt: str | None = None
    """The prompt of the run; the earlier one if the CLI itself resumed the task."""
    is_backgrounded: bool = True
    """Whether the call that launched it does not wait for it."""
    status: TaskStatus = TaskStatus.RUNNING
    """For example `pending`, until the process of a child agent starts."""
    brief: JSONObject = field(default_factory=dict)
    """The input of a child agent, as `Task.brief` has it."""


class TaskStarted(_RunBegan):
    """A task began."""

    fact: ClassVar[Literal["task_started"]] = "task_started"


class TaskReopened(_RunBegan):
    """A finished task runs again: it was resumed, or was wrongly considered finished."""

    fact: ClassVar[Literal["task_reopened"]] = "task_reopened"


class TaskProgressed(TaskEvent):
    """A running task made progress."""

    fact: ClassVar[Literal["task_progressed"]] = "task_progressed"

    activity: str = ""
    """Its current activity, for example `Running make test`."""
    last_tool_name: str | None = None
    summary: str | None = None
    usage: TaskUsage | None = None


class TaskBackgrounded(TaskEvent):
    """The call that launched a task no longer waits for it: the task was moved to the background."""

    fact: ClassVar[Literal["task_backgrounded"]] = "task_backgrounded"


class TaskStatusChanged(TaskEvent):
    """The status changed. A final status is followed by `TaskFinished` once the report has arrived.

    `at` is the end of the task if the status is final and the CLI reported the time.
    """

    fact: ClassVar[Literal["task_status_changed"]] = "task_status_changed"

    old: TaskStatus = TaskStatus.PENDING
    new: TaskStatus = TaskStatus.PENDING
    failure_reason: str | None = None
    """Why it failed or was stopped, as far as it is known before the report."""


class TaskAsked(TaskEvent):
    """The task asks a person a question. Its status is `awaiting_user` until all its questions are resolved."""

    fact: ClassVar[Literal["task_asked"]] = "task_asked"

    asked: Asked = field(default_factory=Asked)


class TaskAnswered(TaskEvent):
    """A question of the task was answered. There is no event if a question times out or is withdrawn."""

    fact: ClassVar[Literal["task_answered"]] = "task_answered"

    answered: Answered = field(default_factory=lambda: Answered({}))


class TaskChanged(TaskEvent):
    """The description, type, agent or parent of a task became known or changed."""

    fact: ClassVar[Literal["task_changed"]] = "task_changed"

    description: str = ""
    type: str | None = None
    subagent_type: str | None = None
    parent_id: str | None = None


class TaskOutputAvailable(TaskEvent):
    """The path of the task's output became known."""

    fact: ClassVar[Literal["task_output_available"]] = "task_output_available"

    path: str = ""


class TaskFinished(TaskEvent):
    """A run ended. Emitted exactly once per run, even if the CLI reports the end twice or never."""

    fact: ClassVar[Literal["task_finished"]] = "task_finished"

    outcome: TaskOutcome
    message: TaskNotificationMessage | None = None
    """The CLI's notification; None if it sent none. Not in the JSON form: the outcome says the same."""

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
        return TaskEvent.__repr__(self if self.message is None else self.replace(message=None))


class TaskRevised(TaskEvent):
    """An outcome reported earlier was corrected: by a late report, the count of a transcript, or the first price."""

    fact: ClassVar[Literal["task_revised"]] = "task_revised"

    old: TaskOutcome
    outcome: TaskOutcome


TaskFact: TypeAlias = (
    TaskStarted
    | TaskReopened
    | TaskProgressed
    | TaskBackgrounded
    | TaskStatusChanged
    | TaskAsked
    | TaskAnswered
    | TaskChanged
    | TaskOutputAvailable
    | TaskFinished
    | TaskRevised
)
"""Any event of a task, which is a fact of the session's journal."""

EVENT_TYPES: Final[tuple[type[TaskEvent], ...]] = get_args(TaskFact)
