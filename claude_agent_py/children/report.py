"""`ChildReport`: the outcome and the last message of a child agent."""

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py.agents.reports import shorten_report
from claude_agent_py.formatting.truncation import text_length
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage

SubTaskStatus: TypeAlias = Literal["Success", "Error", "Cancel"]

TASK_STATUS: Final[dict[SubTaskStatus, Literal[TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.STOPPED]]] = {
    "Success": TaskStatus.COMPLETED,
    "Error": TaskStatus.FAILED,
    "Cancel": TaskStatus.STOPPED,
}


SUMMARY_CHARS: Final = 500


@dataclass(frozen=True, kw_only=True)
class ChildReport:
    """The outcome of a child agent."""

    task_id: str
    """The id of its task in `client.tasks`; empty if the child could not start."""
    agent_id: str
    status: SubTaskStatus
    failure_reason: str | None = None
    """Why it failed or was cancelled."""
    final_assistant_message: str = ""
    """Its last message in full, even if it failed afterwards."""
    usage: TaskUsage | None = None
    """Its token usage; None if the child could not start."""

    @property
    def summary(self) -> str:
        """A short summary: the failure reason, or the beginning of the last message on success."""
        return shorten_report(self.failure_reason or self.final_assistant_message, SUMMARY_CHARS)

    def to_json(self, max_report_chars: int | None = None) -> dict[str, Any]:
        """Return the report for the model, with the last message cut to `max_report_chars`.

        `summary` is None if it would only repeat the failure reason or the last message, or if both texts together
        would exceed the limit.
        """
        said = shorten_report(self.final_assistant_message, max_report_chars)
        both = text_length(said) + text_length(self.summary)
        is_given = self.failure_reason is None and text_length(said) > SUMMARY_CHARS
        return {
            "taskId": self.task_id,
            "agentId": self.agent_id,
            "subTaskStatus": self.status,
            "summary": self.summary if is_given and (max_report_chars is None or both <= max_report_chars) else None,
            "failureReason": self.failure_reason,
            "finalAssistantMessage": said,
        }
