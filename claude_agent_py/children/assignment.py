"""The assignment of a child agent: its brief, and the ids under which the parent tracks it."""

import secrets
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

Priority: TypeAlias = Literal["low", "normal", "high"] | str | int
"""Any word or number; passed to the child unchanged."""


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

    def to_json(self) -> dict[str, Any]:
        """Return the brief as JSON, for `Task.brief` and for records."""
        return asdict(self) | {"artifacts": list(self.artifacts)}


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The parameters of one run of a child."""

    agent_id: str
    brief: Brief
    prompt: str
    is_awaited: bool
    """Whether a tool call blocks until the run ends."""
    asks_parent: bool = True
    """Whether the parent's handlers answer the child's questions."""
    parent_task_id: str | None = None
    author: str | None = None
    """The agent that starts the child; None means the agent of the parent task."""
    tool_use_id: str | None = None
    timeout: float | None = None
    """In seconds; None means no limit."""
    task_id: str = field(default_factory=lambda: f"c{secrets.token_hex(8)}")
    run_id: str = field(default_factory=lambda: f"{int(time.time() * 1000):x}-{secrets.token_hex(4)}")

    def attribute(self, message: Any) -> Any:
        """Return a message of the child's session attributed to the child."""
        return message.replace(
            agent_id=self.task_id,
            parent_tool_use_id=self.tool_use_id or self.task_id,
            subagent_type=self.agent_id,
            task_description=self.brief.title,
        )
