"""What every handler is told beside its input: who asks, and whether the question still stands.

The contexts of hooks, permissions and tools add to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from claude_agent_py.protocol.handlers import Cancellation

if TYPE_CHECKING:
    from claude_agent_py.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class HandlerContext:
    """What a handler is told about the question it answers."""

    request_id: str
    """The control request that asks."""
    agent_id: str | None = None
    """The subagent that asks; None for the main agent."""
    task: Task | None = None
    """The task of that subagent; None for the main agent, or where it is not known."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    """Set when the CLI withdraws the question (an interrupt, a timeout of its own)."""

    @property
    def cancelled(self) -> bool:
        """Whether the CLI no longer wants an answer."""
        return bool(self.cancellation)
