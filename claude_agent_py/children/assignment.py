"""The brief that a child agent gets, and its report."""

from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.agents.guide import shorten_report
from claude_agent_py.formatting.truncation import text_length
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage

Priority: TypeAlias = Literal["low", "normal", "high"] | str | int
"""Which waiting child starts first: the one with the higher number. `low` is -1, `normal` 0 and `high` 1. A model may
write another word, which counts as `normal`; programs may not."""

_URGENCY: Final = {"low": -1.0, "high": 1.0}


@dataclass(frozen=True, kw_only=True)
class Brief:
    """The parts of a child's prompt. `Task.brief` has the same fields."""

    title: str
    intent: str = ""
    artifacts: tuple[str, ...] = ()
    priority: Priority = "normal"

    def prompt(self, *, with_title: bool = True) -> str:
        """Return the prompt of a child."""
        parts = [self.title] if with_title else []
        if self.intent:
            parts.append(self.intent)
        if self.artifacts:
            parts.append("Artifacts:\n" + "\n".join(f"- {ref}" for ref in self.artifacts))
        if self.priority != "normal":
            parts.append(f"Priority: {self.priority}")
        return "\n\n".join(parts)

    @property
    def urgency(self) -> float:
        """The priority as a number."""
        if isinstance(self.priority, int):
            return self.priority
        return _URGENCY.get(self.priority.strip().lower(), 0.0)

    def to_json(self) -> JSONObject:
        """Return the brief as JSON, for `Task.brief` and for records."""
        return asdict(self) | {"artifacts": list(self.artifacts)}


def check_priority(priority: object) -> None:
    """Raise OptionsError unless a program may give this priority."""
    is_word = isinstance(priority, str) and priority.strip().lower() in ("low", "normal", "high")
    if not is_word and (not isinstance(priority, int) or isinstance(priority, bool)):
        raise OptionsError(f"must be 'low', 'normal', 'high' or an integer, not {priority!r}", option="priority")


SubTaskStatus: TypeAlias = Literal["Success", "Error", "Cancel"]
"""How a subtask ended."""

TASK_STATUS: Final[dict[SubTaskStatus, Literal[TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.STOPPED]]] = {
    "Success": TaskStatus.COMPLETED,
    "Error": TaskStatus.FAILED,
    "Cancel": TaskStatus.STOPPED,
}


SUMMARY_CHARS: Final = 500
"""Maximum length of a summary."""


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
    summary: str | None = None
    """Its own summary of the last message, if that is too long for the parent's model."""

    def to_json(self, max_report_chars: int | None = None) -> JSONObject:
        """Return the report for the model, with the last message cut to `max_report_chars`.

        The summary counts towards the limit.
        """
        if max_report_chars is not None:
            max_report_chars -= text_length(self.summary or "")
        report = shorten_report(self.final_assistant_message, max_report_chars)
        return {
            "taskId": self.task_id,
            "agentId": self.agent_id,
            "subTaskStatus": self.status,
            "summary": self.summary,
            "failureReason": self.failure_reason,
            "finalAssistantMessage": report,
        }
