"""Messages about tasks: subagents, shells, workflows, monitors.

- `run_id` identifies a run of a task. A resumed task keeps its `task_id` and gets a new run id; the run ids of a task
  sort as strings in the order of its runs. It is None for a task that this process did not register.
- `parent_task_id` is the subagent that launched the task. The parent may have ended already: treat an unknown id as
  None.
- `ambient` marks housekeeping, which should not be displayed as activity.
- When an agent is resumed, its task sends another notification later, which replaces the earlier one.
"""

from enum import StrEnum
from typing import ClassVar, Final, Literal, TypeAlias

from claude_agent_py.wire.base import CamelModel, JSONObject, Number, Open, SystemModel, WireModel

TaskType: TypeAlias = Open[
    Literal[
        "local_bash",
        "local_agent",
        "remote_agent",
        "in_process_teammate",
        "local_workflow",
        "monitor_mcp",
        "monitor_ws",
        "mcp_task",
        "dream",
        "auto_mode_scan",
        "local_memory_import",
        "post_turn_memory",
    ]
]
"""The kind of a task. Subagents are `local_agent`, shells and most monitors `local_bash`."""

CHILD_AGENT: Final = "child_agent"
"""The task type of child agents, which run in processes of their own and are unknown to the CLI."""
AGENT_TYPES: Final = frozenset({"local_agent", "remote_agent", "in_process_teammate", CHILD_AGENT})
"""The types of the tasks that are agents."""


class TaskStatus(StrEnum):
    """The state of a task. The wire's `killed` becomes `STOPPED`."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    AWAITING_USER = "awaiting_user"
    """Waiting for the user, for example at a permission prompt."""
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"

    __hash__ = str.__hash__  # faster: `Enum.__hash__` is a Python function

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended. An agent that has ended can still be resumed as a new run."""
        return self in _TERMINAL

    @classmethod
    def _missing_(cls, value: object) -> "TaskStatus | None":
        return _BY_WORD.get(value) if isinstance(value, str) else None

    @classmethod
    def read(cls, word: str | None) -> "TaskStatus | None":
        """Return the status for a value of the wire, or None if it is missing or unknown."""
        return None if word is None else _BY_WORD.get(word)


_TERMINAL: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.STOPPED})
_BY_WORD: Final = {**{status.value: status for status in TaskStatus}, "killed": TaskStatus.STOPPED}


class TaskUsage(WireModel):
    """Tokens, tool calls, time and money that a task has used so far."""

    total_tokens: Number = 0
    tool_uses: Number = 0
    duration_ms: Number = 0
    """Milliseconds."""
    cost_usd: Number | None = None
    """US dollars. A child agent's CLI estimates its cost; a subagent's cost is computed from its tokens. None if the
    price is unknown."""
    cost_is_derived: bool = False
    """Whether `cost_usd` or a part of it was computed by this library from tokens and prices."""
    uncounted_tokens: Number = 0
    """Those of `total_tokens` of which only the sum is known, not the model and the kind: the CLI has reported the
    answer, and has not written it to the transcript, or not yet. A derived cost and `TaskOutcome.models` lack them."""


class ResourceLink(CamelModel):
    """A file that an MCP tool returned by reference, in a message. Your tools return a `formatting.ResourceLink`."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: Number | None = None
    """Bytes."""
    annotations: JSONObject | None = None


class HandbackReport(WireModel):
    """A report that a subagent submitted with the hand-back tool."""

    text: str
    warning: str | None = None
    """A warning to show above the text."""


class _TaskRunMessage(SystemModel):
    """A message about a run of a task."""

    task_id: str
    run_id: str | None = None


class TaskStartedMessage(_TaskRunMessage):
    """A task started, or an ended task started a new run."""

    subtype: ClassVar[Literal["task_started"]] = "task_started"
    tool_use_id: str | None = None
    """The tool call that launched this run; for a resumed agent, the call that resumed it."""
    description: str = ""
    task_type: TaskType | None = None
    subagent_type: str | None = None
    prompt: str | None = None
    """The prompt of this run. None if the CLI itself resumed an agent: the earlier prompt still applies."""
    is_backgrounded: bool | None = None
    """False if the launching tool call waits for the task. A later move to the background is sent as an update."""
    spawn_depth: Number | None = None
    """Nesting depth of a subagent, starting at 1; None for other tasks."""
    parent_task_id: str | None = None
    workflow_name: str | None = None
    """Name of the workflow, for `local_workflow`."""
    owned_by_subagent: bool | None = None
    """True for a shell or monitor that a subagent launched."""
    awaited: bool | None = None
    """True for a resumed run whose report becomes the result of the tool call that resumed it."""
    skip_transcript: bool | None = None
    ambient: bool | None = None


class TaskProgressMessage(_TaskRunMessage):
    """The progress of a running task. It may arrive before or after the message that it describes."""

    subtype: ClassVar[Literal["task_progress"]] = "task_progress"
    tool_use_id: str | None = None
    description: str = ""
    """The current activity, for example `Running make test`."""
    subagent_type: str | None = None
    usage: TaskUsage | None = None
    last_tool_name: str | None = None
    summary: str | None = None
    """A one-line status, written by a model (`agent_progress_summaries`) or by the MCP server of an `mcp_task`."""
    workflow_progress: list[JSONObject] | None = None
    """Phases and agents of a workflow. Its agents do not send task messages."""


class TaskPatch(WireModel):
    """Changed fields of a task."""

    status: Open[Literal["pending", "running", "completed", "failed", "killed", "paused"]] | None = None
    """The status as sent by the CLI; `task_status` converts it."""
    description: str | None = None
    end_time: Number | None = None
    """Milliseconds since the epoch."""
    total_paused_ms: Number | None = None
    error: str | None = None
    is_backgrounded: bool | None = None

    @property
    def task_status(self) -> TaskStatus | None:
        """The new status; None if it did not change or is unknown to this version."""
        return TaskStatus.read(self.status)


class TaskUpdatedMessage(_TaskRunMessage):
    """Some fields of a task changed: merge `patch` into the task's earlier state."""

    subtype: ClassVar[Literal["task_updated"]] = "task_updated"
    patch: TaskPatch


class TaskNotificationMessage(_TaskRunMessage):
    """A run of a task has ended."""

    subtype: ClassVar[Literal["task_notification"]] = "task_notification"
    tool_use_id: str | None = None
    status: Open[Literal["completed", "failed", "stopped"]]
    """The status as sent by the CLI; `task_status` converts it."""
    reason: Open[Literal["worker_restart"]] | None = None
    """Set if the run ended for a reason other than completion, failure or a stop."""
    output_file: str = ""
    """Path of the output file; empty if there is none."""
    summary: str = ""
    """A subagent's report, or a one-line summary for other tasks."""
    usage: TaskUsage | None = None
    resource_links: list[ResourceLink] | None = None
    """Files that a completed `mcp_task` returned by reference."""
    summary_is_report: bool | None = None
    """Whether `summary` is the subagent's own report."""
    handback: Open[Literal["send", "flagged", "withheld"]] | None = None
    """How a report submitted with the hand-back tool was delivered to the parent."""
    handback_report: HandbackReport | None = None
    """The report to show instead of `summary`."""
    skip_transcript: bool | None = None
    ambient: bool | None = None
    owned_by_subagent: bool | None = None
    mcp_task: JSONObject | None = None
    """Set if the task is of the type `mcp_task`."""

    @property
    def task_status(self) -> TaskStatus | None:
        """The task's final status; None if it is unknown to this version."""
        return TaskStatus.read(self.status)

    @property
    def is_success(self) -> bool:
        """Whether the task completed successfully."""
        return self.status == "completed"


class BackgroundTask(WireModel):
    """A running background task."""

    task_id: str
    run_id: str | None = None
    task_type: TaskType | None = None
    subagent_type: str | None = None
    """The type of the agent; `main-session` for a main session that was moved to the background."""
    description: str = ""
    parent_task_id: str | None = None
    ambient: bool | None = None
    awaited: bool | None = None
    off_host: bool | None = None
    """True if the task runs outside this process."""


class BackgroundTasksChangedMessage(SystemModel):
    """The list of running background tasks changed.

    The list is complete and replaces earlier ones. It may arrive before or after the messages about the start and end
    of the same tasks. None is sent at startup, so start with an empty list.
    """

    subtype: ClassVar[Literal["background_tasks_changed"]] = "background_tasks_changed"
    tasks: list[BackgroundTask]


TaskMessage: TypeAlias = (
    TaskStartedMessage
    | TaskProgressMessage
    | TaskUpdatedMessage
    | TaskNotificationMessage
    | BackgroundTasksChangedMessage
)
"""A message about background tasks."""
