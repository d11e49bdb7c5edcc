"""Messages about background work: subagents, shells, workflows, monitors.

Owns the five `system` messages that a task's life consists of, and the words for its state. Knows nothing of how
they fit together: folding them into the picture of one task is the business of `claude_agent_py.tasks`.

Rules of the wire that readers of these messages need:

- `run_id` names one run of a task. A resumed task keeps its `task_id` and gets a new run id; the run ids of one task
  sort, as plain strings, in the order of the runs. It is absent for a task that this process did not register.
- `parent_task_id` names the subagent that launched the task. The parent may be over already: treat an id that you do
  not know as no parent.
- `ambient` marks housekeeping that is no activity: leave it out of "something is running" displays.
- A notification may be followed by a later one of the same task, when its agent is resumed; the later one replaces
  the earlier.
"""

from enum import StrEnum
from typing import ClassVar, Final, Literal, TypeAlias

from claude_agent_py.wire.base import CamelModel, JSONObject, MessageModel, Number, Open, WireModel

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
"""What kind of work a task is. Subagents are `local_agent`, shells (and most monitors) `local_bash`."""

CHILD_AGENT: Final = "child_agent"
"""The type of the tasks that are child agents: processes of their own, of which no CLI knows."""


class TaskStatus(StrEnum):
    """Where a task is in its life. The wire's `killed` reads as `STOPPED`."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    AWAITING_USER = "awaiting_user"
    """Waiting for an answer of yours, for example to a permission prompt."""
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"

    __hash__ = str.__hash__  # the one of enums is a function in Python

    @property
    def is_terminal(self) -> bool:
        """Whether the task is over. An agent that is over can still be resumed, as a new run."""
        return self in _TERMINAL

    @classmethod
    def _missing_(cls, value: object) -> "TaskStatus | None":
        return _BY_WORD.get(value) if isinstance(value, str) else None

    @classmethod
    def read(cls, word: str | None) -> "TaskStatus | None":
        """Return the status for a word of the wire; None for a missing word, or one of a newer CLI."""
        return None if word is None else _BY_WORD.get(word)


_TERMINAL: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.STOPPED})
_BY_WORD: Final = {**{status.value: status for status in TaskStatus}, "killed": TaskStatus.STOPPED}


class TaskUsage(WireModel):
    """What a task consumed so far."""

    total_tokens: Number = 0
    tool_uses: Number = 0
    duration_ms: Number = 0
    """Milliseconds."""
    cost_usd: Number | None = None
    """US dollars: of a child agent as its CLI estimates it, of a subagent derived from its tokens (the CLI does not say
    it). None where a price is not known."""
    cost_is_derived: bool = False
    """Whether `cost_usd` (or a part of it) was reckoned here, from tokens and prices."""


class ResourceLink(CamelModel):
    """A file that an MCP tool returned by reference."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: Number | None = None
    """Bytes."""
    annotations: JSONObject | None = None


class HandbackReport(WireModel):
    """The report of a subagent that handed back through a tool of its own."""

    text: str
    warning: str | None = None
    """To be shown above the text."""


class TaskStartedMessage(MessageModel):
    """A task began, or a task that was over began a new run."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["task_started"]] = "task_started"
    task_id: str
    run_id: str | None = None
    tool_use_id: str | None = None
    """The tool call that launched this run (for a resumed agent the call that resumed it)."""
    description: str = ""
    task_type: TaskType | None = None
    subagent_type: str | None = None
    prompt: str | None = None
    """What this run was asked. Absent when the CLI itself resumed an agent: keep the earlier one."""
    is_backgrounded: bool | None = None
    """False when the launching tool call waits for the task. A later move to the background comes as an update."""
    spawn_depth: Number | None = None
    """Nesting of a subagent; 1 for one that the main agent launched. Only subagents have it."""
    parent_task_id: str | None = None
    workflow_name: str | None = None
    """Only for `local_workflow`."""
    owned_by_subagent: bool | None = None
    """A shell or monitor that a subagent launched."""
    awaited: bool | None = None
    """A resumed run that the resuming tool call waits for; the report goes into that call's result."""
    skip_transcript: bool | None = None
    ambient: bool | None = None


class TaskProgressMessage(MessageModel):
    """A running task did something. It may come before or after the message that it describes."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["task_progress"]] = "task_progress"
    task_id: str
    run_id: str | None = None
    tool_use_id: str | None = None
    description: str = ""
    """What it does now, for example `Running make test`."""
    subagent_type: str | None = None
    usage: TaskUsage | None = None
    last_tool_name: str | None = None
    summary: str | None = None
    """One line of status: written by a model (`agent_progress_summaries`), or by the MCP server of an `mcp_task`."""
    workflow_progress: list[JSONObject] | None = None
    """Phases and agents of a workflow; its agents send no task messages of their own."""


class TaskPatch(WireModel):
    """The fields of a task that changed."""

    status: Open[Literal["pending", "running", "completed", "failed", "killed", "paused"]] | None = None
    """The wire's own word; `task_status` translates it."""
    description: str | None = None
    end_time: Number | None = None
    """Milliseconds since the epoch."""
    total_paused_ms: Number | None = None
    error: str | None = None
    is_backgrounded: bool | None = None

    @property
    def task_status(self) -> TaskStatus | None:
        """The new status; None when it did not change, or is one that this version does not know."""
        return TaskStatus.read(self.status)


class TaskUpdatedMessage(MessageModel):
    """Some fields of a task changed: merge the patch into what you know of the task."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["task_updated"]] = "task_updated"
    task_id: str
    run_id: str | None = None
    patch: TaskPatch


class TaskNotificationMessage(MessageModel):
    """A run of a task is over."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["task_notification"]] = "task_notification"
    task_id: str
    run_id: str | None = None
    """Absent for a task that an earlier process of the session left behind."""
    tool_use_id: str | None = None
    status: Open[Literal["completed", "failed", "stopped"]]
    """The wire's own word; `task_status` translates it."""
    reason: Open[Literal["worker_restart"]] | None = None
    """Only when the end was neither ordinary completion nor failure nor a stop."""
    output_file: str = ""
    """Path of the output; empty when there is none."""
    summary: str = ""
    """The report of a subagent, or one line about the end of another task."""
    usage: TaskUsage | None = None
    resource_links: list[ResourceLink] | None = None
    """Files that a completed `mcp_task` returned by reference."""
    summary_is_report: bool | None = None
    """Whether `summary` is the subagent's own report."""
    handback: Open[Literal["send", "flagged", "withheld"]] | None = None
    """How the report of a subagent with the hand-back tool reached the one that launched it."""
    handback_report: HandbackReport | None = None
    """To be shown instead of `summary`."""
    skip_transcript: bool | None = None
    ambient: bool | None = None

    @property
    def task_status(self) -> TaskStatus | None:
        """The status that the task ended with; None for a word that this version does not know."""
        return TaskStatus.read(self.status)

    @property
    def is_success(self) -> bool:
        """Whether the task completed."""
        return self.status == "completed"


class BackgroundTask(WireModel):
    """One entry of the list of live background tasks."""

    task_id: str
    run_id: str | None = None
    task_type: TaskType | None = None
    subagent_type: str | None = None
    """The agent's type; `main-session` for a main session that was moved to the background."""
    description: str = ""
    parent_task_id: str | None = None
    ambient: bool | None = None
    awaited: bool | None = None
    off_host: bool | None = None
    """The work runs outside this process."""


class BackgroundTasksChangedMessage(MessageModel):
    """All live background tasks: replace what you have by it.

    A level, not an edge: it may come before or after the start and end messages of the same task. Nothing is sent at
    start-up, so begin with none.
    """

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["background_tasks_changed"]] = "background_tasks_changed"
    tasks: list[BackgroundTask]


TaskMessage: TypeAlias = (
    TaskStartedMessage
    | TaskProgressMessage
    | TaskUpdatedMessage
    | TaskNotificationMessage
    | BackgroundTasksChangedMessage
)
