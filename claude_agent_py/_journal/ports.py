"""The interface through which other packages use a running session."""

from typing import Protocol

from claude_agent_py._base.json_object import JSONObject


class ControlPort(Protocol):
    """Sends control requests to the CLI."""

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: object) -> JSONObject:
        """Send a control request and return the payload of its reply (`{}` if the CLI sends none).

        `timeout` is in seconds; None means `Timeouts.control`. Cancelling stops the waiting; the request is not
        withdrawn. May be called concurrently.

        Raises:
            ControlRejectedError: The CLI answered with an error.
            ControlTimeoutError: The CLI did not answer in time.
            ConnectionClosedError: The session is not open, or was closed before the reply.
        """
        ...
