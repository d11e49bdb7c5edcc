"""What a child agent brought: `ChildReport`, the value that its caller gets.

Owns the words of the report. Knows nothing of processes.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py.wire.tasks import TaskStatus

SubTaskStatus: TypeAlias = Literal["Success", "Error", "Cancel"]

TASK_STATUS: Final[dict[SubTaskStatus, Literal[TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.STOPPED]]] = {
    "Success": TaskStatus.COMPLETED,
    "Error": TaskStatus.FAILED,
    "Cancel": TaskStatus.STOPPED,
}
"""What a child's task ends as."""


@dataclass(frozen=True, kw_only=True)
class ChildReport:
    """How a child agent ended."""

    task_id: str
    """Its task in `client.tasks`; empty where it was refused and none was made."""
    agent_id: str
    status: SubTaskStatus
    summary: str = ""
    """What it answered, cut where that is long; or in a few words how it ended."""
    failure_reason: str | None = None
    """Why it failed or was cancelled."""
    final_assistant_message: str = ""
    """All of the last that it said."""

    def to_json(self) -> dict[str, Any]:
        """Give the report as the model gets it."""
        return {
            "taskId": self.task_id,
            "agentId": self.agent_id,
            "subTaskStatus": self.status,
            "summary": self.summary,
            "failureReason": self.failure_reason,
            "finalAssistantMessage": self.final_assistant_message,
        }
