"""What the features may ask of a running session: two small interfaces.

The runtime implements them. The features know nothing else of it, which keeps them testable without a process.
"""

from typing import Any, Protocol


class ControlPort(Protocol):
    """Sends control requests to the CLI."""

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
        """Send a control request and give the payload of its reply (`{}` where the CLI sends none).

        `timeout` is in seconds; None means the session's own (`Timeouts.control`). Cancelling forgets the request; a
        late reply is harmless. May be called from any number of workers at once.

        Raises:
            ControlRejectedError: The CLI answered with an error.
            ControlTimeoutError: It did not answer in time.
            ConnectionClosedError: The session is not open, or closed before the reply.
        """
        ...


class LiveTasks(Protocol):
    """Knows which background tasks are under way."""

    def live_ids(self) -> frozenset[str]:
        """Return the ids of the tasks that are not over; ambient ones (which are no activity) left out."""
        ...


class TaskSink(LiveTasks, Protocol):
    """Is told every message of the session, so that it knows the tasks."""

    def track(self, message: Any, line: bytes = b"", /) -> object:
        """Fold one message; `line` is its line, where decoding that gives it again. Quick, and raises nothing."""
        ...
