"""Tools for background tasks: Monitor, TaskStop, TaskOutput. CLI 2.1.328 no longer has TaskOutput."""

from typing import Any, Literal

from claude_agent_py.wire.base import FrameModel, Number, Open, WireModel


class WebSocketSource(WireModel):
    """A WebSocket to monitor."""

    url: str
    protocols: list[str] | None = None


class MonitorInput(FrameModel):
    """Monitor either a command, whose output lines are the events, or a WebSocket."""

    description: str
    timeout_ms: Number = 300_000
    """Milliseconds, at most 1 800 000."""
    command: str | None = None
    ws: WebSocketSource | None = None


class MonitorOutput(FrameModel, rename="camel"):
    """The task of the monitor."""

    task_id: str
    timeout_ms: Number = 0
    """Milliseconds; 0 if the monitor is persistent."""
    persistent: bool | None = None
    kept_in_sandbox_by_check: bool | None = None


class TaskStopInput(FrameModel):
    """Stop a task."""

    task_id: str | None = None
    """A task id, or the id or name of a background agent."""
    shell_id: str | None = None
    """Deprecated; use `task_id`."""


class TaskStopOutput(FrameModel):
    """The task was stopped."""

    message: str
    task_id: str
    task_type: str = ""
    command: str | None = None


class TaskOutputInput(FrameModel):
    """Read the output of a task."""

    task_id: str
    block: bool = True
    """Whether to wait for the end of the task."""
    timeout: Number = 30_000
    """The longest time to wait, in milliseconds."""


class TaskOutputOutput(FrameModel):
    """The output of a task."""

    retrieval_status: Open[Literal["success", "timeout", "not_ready"]]
    task: dict[str, Any] | None = None
