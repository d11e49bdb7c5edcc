"""How a run of a task ended: the value that waiting for a task returns."""

import re
from dataclasses import dataclass
from enum import StrEnum

from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage

_EXIT_CODE = re.compile(r"\bexit(?:ed with)? code (-?\d{1,10})\b")


class EndedBy(StrEnum):
    """Who or what ended a run of a task that did not end by itself."""

    PROGRAM = "program"
    """This program: `Task.stop`, `stop_all`, or closing the client, which stops what runs."""
    MODEL = "model"
    """The model, with its tool `TaskStop`."""
    PARENT = "parent"
    """The end of its owner: the turn or agent that waited for it, or the agent that launched it."""
    TIMEOUT = "timeout"
    """Its time limit."""
    PROCESS = "process"
    """The end of the process that ran it: the CLI's, or (in a history) that of the program."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The end of one run of a task. A task that failed has an outcome, too; waiting for it does not raise."""

    task_id: str
    status: TaskStatus
    """`completed`, `failed` or `stopped`."""
    evidence: Evidence
    """How the end is known; `evidence.is_certain` says whether the CLI itself reported it."""
    summary: str = ""
    """A subagent's report (its last text if it was stopped), or the CLI's line about another task. May be empty."""
    failure_reason: str | None = None
    """Why it failed, or by whom it was stopped; None if it completed or the reason is unknown."""
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
    """Who or what ended it; None if it ended by itself, or this is unknown. `PARENT` may be inferred."""

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


@dataclass(frozen=True, slots=True)
class Finding:
    """What the files of a task say. `status` is None unless they show its end."""

    evidence: Evidence
    status: TaskStatus | None = None
    summary: str = ""
    failure_reason: str | None = None
    exit_code: int | None = None


def differ(old: TaskOutcome, new: TaskOutcome) -> bool:
    """Return whether two outcomes differ in more than times and counts."""

    def essence(outcome: TaskOutcome) -> tuple[object, ...]:
        return outcome.status, outcome.summary, outcome.failure_reason, outcome.exit_code

    return essence(old) != essence(new)


def exit_code_in(summary: str) -> int | None:
    """Return the exit status in the CLI's line about the end of a shell, or None."""
    found = _EXIT_CODE.search(summary)
    return int(found[1]) if found else None
