"""What a tool is told about the call it answers, and how it talks while it runs.

Owns `ToolContext`. A tool that has a parameter of this type gets one; no other tool pays for it. How its reports reach
the CLI is the business of `session`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from claude_agent_py.handler_context import HandlerContext
from claude_agent_py.wire.base import JSONObject

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

Notify: TypeAlias = Callable[[str, JSONObject], None]
"""Sends an MCP notification, method and params. Never blocks."""


def _to_nobody(method: str, params: JSONObject) -> None:
    """Drop a notification: nobody listens."""


@dataclass(frozen=True, kw_only=True)
class ToolContext(HandlerContext):
    """What a tool is told about the call it answers.

    `cancellation` is set when the CLI no longer wants the result (the turn was interrupted, its time is up). An `async`
    tool is cancelled then; a plain one, which runs in a thread, must look at `cancelled` itself.

    `agent_id` and `task` say which subagent calls, as far as its messages tell.
    """

    request_id: str = ""
    tool_name: str = ""
    """The tool's own name, without the server's."""
    server_name: str = ""
    """The server that was asked; empty in a `ToolChain`."""
    tool_use_id: str | None = None
    """The id of the call in the conversation; the result there has the same."""
    cwd: str | None = None
    """The directory that the session was started in, absolute; None where there is no session, as in a `ToolChain`."""
    progress_token: str | int | None = None
    """None where nobody wants to know of progress."""
    notify: Notify = field(default=_to_nobody, repr=False)

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work is. May be called from the tool's thread too; never waits; lost where nobody listens.

        `progress` must grow with every report. The CLI does not prolong the time limit of a call for it.
        """
        if self.progress_token is None:
            return
        known = {"total": total, "message": message}
        params = {"progressToken": self.progress_token, "progress": progress}
        self.notify("notifications/progress", params | {name: item for name, item in known.items() if item is not None})

    def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        """Send a log line to the CLI. May be called from the tool's thread too; never waits."""
        params = {"level": level, "logger": logger or self.tool_name, "data": data}
        self.notify("notifications/message", params)
