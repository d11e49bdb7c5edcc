"""Waiting for the reply to one request."""

from collections.abc import Callable
from typing import Any

import anyio

from claude_agent_py.errors import ClaudeAgentError


class Waiter:
    """A reply that is still to come: its payload, or the error in its place."""

    def __init__(self) -> None:
        self._done = anyio.Event()
        self._payload: dict[str, Any] = {}
        self._error: Callable[[], ClaudeAgentError] | None = None

    def resolve(self, payload: dict[str, Any]) -> None:
        """Set the payload."""
        self._payload = payload
        self._done.set()

    def fail(self, error: Callable[[], ClaudeAgentError]) -> None:
        """Set the error; `error` makes it when somebody waits for it."""
        self._error = error
        self._done.set()

    async def wait(self) -> dict[str, Any]:
        """Return the payload once it is there, or raise the error."""
        await self._done.wait()
        if self._error is not None:
            raise self._error()
        return self._payload
