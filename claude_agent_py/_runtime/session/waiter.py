"""`Waiter`: a future for the reply to a request."""

from typing import Any

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._streams import LazyEvent


class Waiter:
    """The payload of a pending reply, or its error."""

    def __init__(self) -> None:
        self._done = LazyEvent()
        self._payload: dict[str, Any] = {}
        self._error: ClaudeAgentError | None = None

    def resolve(self, payload: dict[str, Any]) -> None:
        """Set the payload."""
        self._payload = payload
        self._done.set()

    def fail(self, error: ClaudeAgentError) -> None:
        """Set the error."""
        self._error = error
        self._done.set()

    async def wait(self) -> dict[str, Any]:
        """Wait for the payload and return it, or raise the error."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._payload
