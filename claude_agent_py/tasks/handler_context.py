"""The base class of the contexts of hooks, permissions and tools: which agent asks, and whether it still waits."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict

import claude_agent_py.tasks
from claude_agent_py._base.cancellation import Cancellation


class HandlerContext(Struct, frozen=True, kw_only=True):
    """The context of a question that a handler answers."""

    request_id: str
    """The id of the control request; for a child agent, after the agent's id and a slash."""
    agent_id: str | None = None
    """The id of the subagent that asks; None for the main agent."""
    task: claude_agent_py.tasks.Task | None = None
    """The task of that subagent; None for the main agent, or if unknown."""
    session_id: str | None = None
    """The id of the session that asks; for a child agent, of the session that started it; None if unknown."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    """Set when the CLI cancels the request (because of an interrupt or its own timeout)."""

    def __repr__(self) -> str:
        kind = next(each.__name__ for each in type(self).__mro__ if not each.__name__.startswith("_"))
        shown = {name: value for name, value in asdict(self).items() if not (name.startswith("_") or callable(value))}
        return f"{kind}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def cancelled(self) -> bool:
        """Whether the CLI has cancelled the request."""
        return bool(self.cancellation)


AnyContext = TypeVar("AnyContext", bound=HandlerContext)


def extend(context: HandlerContext, kind: type[AnyContext], **fields: object) -> AnyContext:
    """Return a context of another class with the values of `context` and these fields."""
    return kind(**{**asdict(context), **fields})
