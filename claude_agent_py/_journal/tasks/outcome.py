"""`TaskOutcome`: the end of a run, returned by waiting for a task."""

import re
from enum import StrEnum

from msgspec import Struct, field

from claude_agent_py._journal.fact_base import Spent
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage

_EXIT_CODE = r"\bexit(?:ed with)? code (-?\d{1,10})\b"


class EndedBy(StrEnum):
    """The cause of the end of a run that did not end on its own."""

    PROGRAM = "program"
    """This program: `Task.stop`, `stop_all`, or closing the client, which stops running tasks."""
    MODEL = "model"
    """The model, with its tool `TaskStop`."""
    PARENT = "parent"
    """Its owner ended: the turn or agent that waited for it, or the agent that launched it."""
    TIMEOUT = "timeout"
    """Its time limit."""
    PROCESS = "process"
    """Its process exited: the CLI, or (in a task history) the recording program."""

    @property
    def status(self) -> TaskStatus:
        """The status of a run that nobody has reported: it failed with its process, or was stopped."""
        return TaskStatus.FAILED if self is EndedBy.PROCESS else TaskStatus.STOPPED


class TaskOutcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """The end of one run of a task. A failed task also has an outcome; waiting for it does not raise."""

    task_id: str
    status: TaskStatus
    """`completed`, `failed` or `stopped`."""
    evidence: Evidence
    """The source of the end; `evidence.is_certain` is true if the CLI itself reported it."""
    summary: str = ""
    """A subagent's report (its last text if it was stopped), or the CLI's line about another task. May be empty."""
    failure_reason: str | None = None
    """Why it failed or was stopped; None if it completed or the reason is unknown."""
    output_file: str | None = None
    """The path of the output (a shell's text, a subagent's transcript); None if the CLI did not report it."""
    usage: TaskUsage | None = None
    exit_code: int | None = None
    """The exit status of a shell; None for other tasks, or if unknown."""
    is_report: bool = False
    """Whether `summary` is a subagent's own report."""
    run_id: str | None = None
    started_at: float | None = None
    """Seconds since the epoch."""
    ended_at: float | None = None
    """Seconds since the epoch, by the CLI's clock if it reported the time."""
    description: str = ""
    ended_by: EndedBy | None = None
    """The cause of its end; None if it ended on its own, or if unknown. `PARENT` may be inferred."""
    models: dict[str, Spent] = field(default_factory=dict)
    """The tokens of a subagent by model, and their cost: those of `usage` without `usage.uncounted_tokens`."""

    def __hash__(self) -> int:
        return hash((self.task_id, self.run_id, self.status, self.evidence))

    @property
    def is_reported(self) -> bool:
        """Whether the task's own notification reported the end, to the model as well."""
        return self.evidence is Evidence.NOTIFICATION

    @property
    def is_success(self) -> bool:
        """Whether the task completed."""
        return self.status is TaskStatus.COMPLETED

    @property
    def duration(self) -> float | None:
        """How long the run took, in seconds."""
        if self.started_at is None or self.ended_at is None:
            return None
        return max(0.0, self.ended_at - self.started_at)


class TaskFinding(Struct, frozen=True):
    """Evidence from the files of a task. `status` is None unless they show its end."""

    evidence: Evidence
    status: TaskStatus | None = None
    summary: str = ""
    failure_reason: str | None = None
    exit_code: int | None = None


def differ(old: TaskOutcome, new: TaskOutcome) -> bool:
    """Return whether two outcomes differ in more than times and counts: a report also corrects an inferred end."""

    def key(outcome: TaskOutcome) -> tuple[object, ...]:
        return outcome.status, outcome.summary, outcome.failure_reason, outcome.exit_code, outcome.is_reported

    return key(old) != key(new)


def parse_exit_code(summary: str) -> int | None:
    """Return the exit status in the CLI's line about the end of a shell, or None."""
    found = re.search(_EXIT_CODE, summary)
    return int(found[1]) if found else None
