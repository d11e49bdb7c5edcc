"""Tools that watch and stop background tasks: Monitor, TaskStop, TaskOutput.

`TaskOutput` is gone from CLI 2.1.328 (ask the host for the output instead); older ones have it.
"""

from typing import Any, Literal

from claude_agent_py.wire.base import FrameModel, Number, Open, WireModel


class WebSocketSource(WireModel):
    """A WebSocket that a monitor listens to."""

    url: str
    protocols: list[str] | None = None


class MonitorInput(FrameModel):
    """Watch a command (each line that it prints is an event) or a WebSocket: one of the two."""

    description: str
    timeout_ms: Number = 300_000
    """In milliseconds; at most 1 800 000."""
    command: str | None = None
    ws: WebSocketSource | None = None


class MonitorOutput(FrameModel, rename="camel"):
    """The monitor runs, as a task."""

    task_id: str
    timeout_ms: Number = 0
    """0 when it is persistent."""
    persistent: bool | None = None
    kept_in_sandbox_by_check: bool | None = None


class TaskStopInput(FrameModel):
    """Stop a task."""

    task_id: str | None = None
    """The id of a task, or the id or name of a background agent."""
    shell_id: str | None = None
    """Deprecated: `task_id`."""


class TaskStopOutput(FrameModel):
    """The task was stopped."""

    message: str
    task_id: str
    task_type: str = ""
    command: str | None = None


class TaskOutputInput(FrameModel):
    """Read the output of a task, and by default wait for its end."""

    task_id: str
    block: bool = True
    """Whether to wait until the task is over."""
    timeout: Number = 30_000
    """How long to wait, in milliseconds."""


class TaskOutputOutput(FrameModel):
    """What the task has printed."""

    retrieval_status: Open[Literal["success", "timeout", "not_ready"]]
    task: dict[str, Any] | None = None
