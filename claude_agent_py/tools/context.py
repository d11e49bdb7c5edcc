"""`ToolContext`: information about a tool's call, and methods to report progress and to log."""

from contextvars import ContextVar
from typing import Final, Literal, TypeAlias

from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.wire.base import JSONObject

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class ToolContext(HandlerContext, frozen=True, kw_only=True):
    """The context of a tool call. A tool with a parameter of this type receives it.

    `cancellation` is set when the CLI no longer needs the result (an interrupt or a timeout). An `async` tool is then
    cancelled; a plain one, which runs in a thread, should check `cancelled`.

    `agent_id` and `task` identify the calling subagent, if its messages name it.
    """

    request_id: str = ""
    tool_name: str = ""
    """The tool's name without the server prefix."""
    server_name: str = ""
    """The tool's server; empty in a `ToolChain`."""
    tool_use_id: str | None = None
    """The id of the call and its result in the conversation."""
    cwd: str | None = None
    """The session's absolute start directory; None without a session, as in a `ToolChain`."""
    progress_token: str | int | None = None
    """The token for progress reports; None if the caller did not ask for progress."""

    def notify(self, method: str, params: JSONObject) -> None:
        """Send an MCP notification without blocking. Without a session, as in a `ToolChain`, it is dropped."""

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress without blocking.

        Safe to call from the tool's thread. Ignored if the caller did not ask for progress.

        `progress` must increase with every report. It restarts the CLI's limit for calls without progress
        (`CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT`), but does not extend the call's timeout.
        """
        if self.progress_token is None:
            return
        known = {"total": total, "message": message}
        params = {"progressToken": self.progress_token, "progress": progress}
        self.notify("notifications/progress", params | {name: item for name, item in known.items() if item is not None})

    def log(self, level: LogLevel, data: object, logger: str | None = None) -> None:
        """Send a log message to the CLI without blocking. Safe to call from the tool's thread."""
        params = {"level": level, "logger": logger or self.tool_name, "data": data}
        self.notify("notifications/message", params)


CURRENT: Final[ContextVar[ToolContext | None]] = ContextVar("claude_agent_py_tool", default=None)
"""The context of the running call, inherited by the tasks and threads that it starts."""


def current_tool() -> ToolContext | None:
    """Return the context of the running tool call, or None outside of a call."""
    return CURRENT.get()
