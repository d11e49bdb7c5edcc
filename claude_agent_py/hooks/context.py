"""The context passed to hook handlers."""

from claude_agent_py.tasks.handler_context import HandlerContext


class HookContext(HandlerContext, frozen=True, kw_only=True):
    """The context of a hook call."""

    event: str
    """The name of the event."""
    tool_use_id: str | None = None
    """The tool call the event belongs to (for PreSkillShellCommand: its command), or None if the event has none."""
