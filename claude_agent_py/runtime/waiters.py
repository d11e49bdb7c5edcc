"""Who waits for a reply of the CLI.

Owns the moment from a request's id to its payload or error. The ids, deadlines and what is late or double are the
engine's business (`protocol/requests.py`).
"""

from collections.abc import Callable
from typing import Any

import anyio

from claude_agent_py.errors import ClaudeAgentError, ControlRejectedError, ControlTimeoutError
from claude_agent_py.protocol.events import ReplyReceived, RequestTimedOut


class Waiter:
    """Somebody who waits for a reply."""

    def __init__(self) -> None:
        self._done = anyio.Event()
        self._payload: dict[str, Any] = {}
        self._error: Callable[[], ClaudeAgentError] | None = None

    def resolve(self, payload: dict[str, Any]) -> None:
        """Give the payload."""
        self._payload = payload
        self._done.set()

    def fail(self, error: Callable[[], ClaudeAgentError]) -> None:
        """Say that none will come; `error()` is raised."""
        self._error = error
        self._done.set()

    async def wait(self) -> dict[str, Any]:
        """Wait for the payload."""
        await self._done.wait()
        if self._error is not None:
            raise self._error()
        return self._payload


class Waiters:
    """Everybody who waits for a reply, by the request's id."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiter] = {}

    def add(self, request_id: str, waiter: Waiter) -> None:
        """Let somebody wait."""
        self._waiting[request_id] = waiter

    def remove(self, request_id: str) -> bool:
        """Somebody waits no more; tell whether the reply is still to come."""
        return self._waiting.pop(request_id, None) is not None

    def on_reply(self, event: ReplyReceived) -> None:
        """Give a reply to who waits for it."""
        waiter = self._waiting.pop(event.request_id, None)
        if waiter is None:
            return
        if event.error is None:
            waiter.resolve(event.payload)
        else:
            error = (event.subtype, event.error, event.error_code, event.request_id)
            waiter.fail(lambda: ControlRejectedError(*error))

    def on_timed_out(self, event: RequestTimedOut) -> None:
        """Tell who waits that the time is up."""
        waiter = self._waiting.pop(event.request_id, None)
        if waiter is not None:
            waiter.fail(lambda: ControlTimeoutError(event.subtype, event.timeout, event.request_id))

    def fail_all(self, error: Callable[[], ClaudeAgentError]) -> None:
        """Tell everybody that no reply will come."""
        for waiter in self._waiting.values():
            waiter.fail(error)
        self._waiting.clear()
