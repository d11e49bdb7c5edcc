"""What a child agent brought: `ChildReport`, the value that its caller gets.

Owns the words of the report, and how much of it a model is told. Knows nothing of processes.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py.agents.reports import shorten_report
from claude_agent_py.wire.tasks import TaskStatus, TaskUsage

SubTaskStatus: TypeAlias = Literal["Success", "Error", "Cancel"]

TASK_STATUS: Final[dict[SubTaskStatus, Literal[TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.STOPPED]]] = {
    "Success": TaskStatus.COMPLETED,
    "Error": TaskStatus.FAILED,
    "Cancel": TaskStatus.STOPPED,
}
"""What a child's task ends as."""

SUMMARY_CHARS: Final = 500
"""How long the summary is at most that stands beside the report."""


@dataclass(frozen=True, kw_only=True)
class ChildReport:
    """How a child agent ended."""

    task_id: str
    """Its task in `client.tasks`; empty where it was refused and none was made."""
    agent_id: str
    status: SubTaskStatus
    failure_reason: str | None = None
    """Why it failed or was cancelled."""
    final_assistant_message: str = ""
    """The last that it said, in full; also what it said before it failed."""
    usage: TaskUsage | None = None
    """What it used; None where it was refused."""

    @property
    def summary(self) -> str:
        """How it ended, in short: the beginning of what it said last, or the reason."""
        return shorten_report(self.failure_reason or self.final_assistant_message, SUMMARY_CHARS)

    def to_json(self, max_report_chars: int | None = None) -> dict[str, Any]:
        """Give the report as the model gets it, what the child said last cut to so many characters."""
        return {
            "taskId": self.task_id,
            "agentId": self.agent_id,
            "subTaskStatus": self.status,
            "summary": self.summary,
            "failureReason": self.failure_reason,
            "finalAssistantMessage": shorten_report(self.final_assistant_message, max_report_chars),
        }
