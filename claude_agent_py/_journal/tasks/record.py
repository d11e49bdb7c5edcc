"""The state of a task: a `Record`, with a `TaskRun` for each time it ran.

`signals` and `ledger` change them; users see them through `Task`. Times are seconds since the epoch.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._journal.fact_base import MAIN
from claude_agent_py._journal.tasks.events import TaskEvent, TaskReopened, TaskStarted
from claude_agent_py._journal.tasks.outcome import EndedBy, TaskOutcome
from claude_agent_py._journal.tasks.spending import Counts, Prices, Spending
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.wire.messages.tasks import AGENT_TYPES, CHILD_AGENT, TaskNotificationMessage, TaskStatus, TaskUsage

SHELL_TYPES: Final = frozenset({"local_bash", "monitor_mcp", "monitor_ws"})
_AGENT_ID: Final = r"a[0-9a-f]{16}"
_match_run_id: Final = re.compile(r"(0[0-9a-z]{8})-[0-9a-f]{8}\Z").match
_SHELL_ID: Final = r"b[0-9a-z]{8}"

EventT = TypeVar("EventT", bound=TaskEvent)


class TaskRun(Struct, eq=False, gc=False):
    """One run of a task: from its start, or its resumption, to its end."""

    started_at: float
    id: str = ""
    """Its id in the journal: the task's, with `#2`, ... for later runs in the process."""
    run_id: str | None = None
    """None if the CLI has not sent one."""
    is_nameless: bool = False
    """Whether a task message mentioned it without a run id."""
    is_earlier: bool = False
    """Whether another process ran it, so that run ids of this process never refer to it."""
    start_uuid: str = ""
    """The uuid of the start message, to recognise a repetition."""
    tool_use_id: str | None = None
    prompt: str | None = None
    status: TaskStatus = TaskStatus.PENDING
    evidence: Evidence | None = None
    """How the end is known; None before the end."""
    ended_at: float | None = None
    summary: str = ""
    failure_reason: str | None = None
    stop_reason: str | None = None
    """The reason of a stop request; used only if the run ends as stopped."""
    ended_by: EndedBy | None = None
    """The cause of its end, recorded before the end."""
    inferred_by: Evidence | None = None
    """How the session of a child agent inferred its end; None if the CLI reported it, and for other tasks."""
    output_file: str | None = None
    spent: Spending = field(default_factory=Spending)
    exit_code: int | None = None
    is_report: bool = False
    notification: TaskNotificationMessage | None = None
    is_announced: bool = False
    """Whether `TaskStarted` or `TaskReopened` was emitted."""
    is_live: bool = True
    """Whether it has not been finalised yet, which wakes waiters."""
    outcome: TaskOutcome | None = None
    """Its outcome, once somebody wanted it; see `Ledger.find_outcome`."""
    suspicion: Evidence | None = None
    """The evidence that the run may have ended without a report."""

    @property
    def end_reason(self) -> str | None:
        """Why it failed or was stopped; None if it completed or the reason is unknown."""
        if self.status is TaskStatus.COMPLETED:
            return None
        return self.failure_reason or (self.stop_reason if self.status is TaskStatus.STOPPED else None)

    @property
    def begin_time(self) -> float | None:
        """Its start by the CLI's clock; None if its id does not contain the time.

        Run ids begin with the time in milliseconds, in base 36 (measured; only their order is guaranteed).
        """
        named = _match_run_id(self.run_id or "")
        return int(named[1], 36) / 1000 if named else None

    def correct_start(self) -> None:
        """Correct a start that is later than the end: in a replay, starts use our clock and ends the CLI's."""
        if not self.ended_at or self.ended_at >= self.started_at:
            return
        begun = self.begin_time or 0.0
        used = self.spent.reported.duration_ms / 1000 if self.spent.reported else 0.0
        self.started_at = begun if 0 < begun <= self.ended_at else self.ended_at - used


class ReportedFields(Struct, gc=False):
    """The fields of a task that `TaskChanged` reports."""

    description: str
    type: str | None
    subagent_type: str | None
    parent_id: str | None


class Record(Struct, eq=False, gc=False):  # gc=False: a session may have thousands, and they hold no cycles
    """The state of one task."""

    id: str
    type: str | None = None
    description: str = ""
    subagent_type: str | None = None
    workflow_name: str | None = None
    parent_id: str | None = None
    spawn_depth: int | None = None
    is_backgrounded: bool | None = None
    """None while unknown."""
    is_ambient: bool = False
    is_external: bool = False
    """Whether it runs outside the CLI, and therefore outlives the CLI's process."""
    is_confirmed: bool = False
    """Whether anything besides a hook mentioned it."""
    runs: list[TaskRun] = field(default_factory=list)
    """In the order of their run ids; the last is the current one."""
    activity: str = ""
    last_tool_name: str | None = None
    progress_summary: str | None = None
    output_file: str | None = None
    transcript_path: str | None = None
    last_text: str = ""
    """The latest text of a subagent in the current run."""
    last_activity: float = 0.0
    prompts: frozenset[str] = frozenset()
    """Its open permission prompts and questions."""
    children: tuple[str, ...] = ()
    brief: JSONMapping | None = None
    """A child agent's input other than its prompt."""
    launched_by: str | None = None
    """The agent that launched it, if not its parent."""
    last_reported: ReportedFields | None = None
    """The `reported_fields` of the last event; None before the first."""

    @property
    def reported_fields(self) -> ReportedFields:
        """The fields that `TaskChanged` reports."""
        return ReportedFields(self.description, self.type, self.subagent_type, self.parent_id)

    @property
    def run(self) -> TaskRun:
        """The current run."""
        return self.runs[-1]

    @property
    def dated_runs(self) -> list[TaskRun]:
        """The latest runs, back to the last one whose id does not contain its start time."""
        first = next((place for place, run in enumerate(reversed(self.runs)) if run.begin_time is None), len(self.runs))
        return self.runs[len(self.runs) - first :]

    @property
    def is_live(self) -> bool:
        """Whether the current run has no final outcome yet."""
        return self.run.is_live

    @property
    def is_done(self) -> bool:
        """Whether the status of the current run is final."""
        return self.run.status.is_terminal

    @property
    def is_agent(self) -> bool:
        """Whether it is a subagent, whose output is a conversation."""
        if self.type is None:
            return self.subagent_type is not None or re.fullmatch(_AGENT_ID, self.id) is not None
        return self.type in AGENT_TYPES

    @property
    def is_child_agent(self) -> bool:
        """Whether it is a separate CLI process, which reports its usage itself, including its subagents."""
        return self.type == CHILD_AGENT

    @property
    def is_shell(self) -> bool:
        """Whether it is a shell or a monitor, whose output is text."""
        return re.fullmatch(_SHELL_ID, self.id) is not None if self.type is None else self.type in SHELL_TYPES

    def find_run(self, tool_use_id: str | None) -> TaskRun | None:
        """Return the latest run that this tool call launched."""
        runs = () if tool_use_id is None else reversed(self.runs)
        return next((run for run in runs if run.tool_use_id == tool_use_id), None)

    def author(self, launcher: "Record | None", *, acts: bool) -> str:
        """Return the author of an event: the task's own agent if it `acts` itself, otherwise its launcher."""
        if acts and self.is_agent:
            return self.subagent_type or self.id
        if self.launched_by is not None:
            return self.launched_by
        return launcher.subagent_type or launcher.id if launcher else ""

    def build_event(
        self,
        kind: Callable[..., EventT],
        run: TaskRun,
        at: float,
        launcher: "Record | None",
        *,
        acts: bool,
        **fields: object,
    ) -> EventT:
        """Return an event of a run. Its author is the task if it `acts`, otherwise its launcher."""
        return kind(
            at=at or None,
            agent=self.parent_id or MAIN,
            id=run.id,
            task_id=self.id,
            run_id=run.run_id,
            author=self.author(launcher, acts=acts),
            **fields,
        )

    def build_start(self, run: TaskRun, at: float, launcher: "Record | None") -> TaskStarted | TaskReopened:
        """Return the event for the start of a run."""
        kind: Callable[..., TaskStarted | TaskReopened] = TaskStarted if run is self.runs[0] else TaskReopened
        return self.build_event(kind, run, at, launcher, acts=False, **self.describe_start(run))

    def describe_start(self, run: TaskRun) -> dict[str, Any]:
        """Return the fields of the event for the start of a run."""
        return {
            "description": self.description,
            "type": self.type,
            "name": self.subagent_type or self.workflow_name or "",
            "parent_id": self.parent_id,
            "call": run.tool_use_id,
            "prompt": run.prompt,
            "is_backgrounded": self.is_backgrounded is not False,
            "status": TaskStatus.RUNNING if run.status.is_terminal else run.status,
            "brief": dict(self.brief or {}),
        }

    @property
    def is_part_of_its_call(self) -> bool:
        """Whether it is a shell that has not moved to the background."""
        return self.is_backgrounded is False and not self.is_agent

    def compute_usage(
        self, run: TaskRun, prices: Prices, by_model: Mapping[str, Counts] | None = None
    ) -> TaskUsage | None:
        """Return the usage of a run. A subagent of a child agent has no cost, because the child's cost includes it."""
        return run.spent.usage(None if self.is_external else prices, by_model)

    def find_cause_of_end(self, run: TaskRun, parent: "Record | None") -> EndedBy | None:
        """Return why a run ended that did not end on its own; None if it did, or if unknown."""
        if run.status is TaskStatus.COMPLETED:
            return None
        if run.ended_by is not None:
            return run.ended_by
        if run.evidence is Evidence.PROCESS_EXIT:
            return EndedBy.PROCESS
        # The CLI gives no reason when it stops a task without a request. It stops a foreground task with the turn that
        # waits for it, and other tasks with the subagent that launched them: those of a foreground subagent just before
        # its end is reported.
        ends_first = parent is not None and parent.is_backgrounded is False
        belongs = self.is_backgrounded is False or ends_first or (parent is not None and parent.is_done)
        return EndedBy.PARENT if run.status is TaskStatus.STOPPED and belongs else None
