"""What a hook handler is told beside its input."""

from dataclasses import dataclass

from claude_agent_py.handler_context import HandlerContext


@dataclass(frozen=True, kw_only=True)
class HookContext(HandlerContext):
    """What a hook handler is told beside its input."""

    event: str
    """The name of the event."""
    tool_use_id: str | None = None
    """The tool call that it is about; None for events that are about none."""
