"""Telling user code: a queue between the pump and a listener, and one place where failures of user code are reported.

The pump puts and never waits. A listener that is slow only falls behind; one that raises is reported, and is told the
next thing all the same.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio

from claude_agent_py.callbacks import call, callback_name
from claude_agent_py.errors import HandlerError

logger = logging.getLogger("claude_agent_py")

WAITING: Final = 100_000
"""How many things may wait for a listener that does not keep up; then the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class HandlerFailed:
    """An event among the session's messages: a handler or listener of yours failed. Not a frame of the wire."""

    handler: str
    reason: str


class FailureLog:
    """Where failures of handlers and listeners go: logged once, kept for `Client.handler_errors`, told to a sink.

    Those of a child agent's session are kept in that of its parent, too (`above`).
    """

    def __init__(self, kept: int = 1000, *, above: Callable[[HandlerError], None] | None = None) -> None:
        self.errors: deque[HandlerError] = deque(maxlen=kept)
        self.sink: Callable[[HandlerError], None] | None = None
        self._above = above

    def report(self, error: HandlerError) -> None:
        """Take a failure. Never raises."""
        cause = error.__cause__
        logger.error("%s", error, exc_info=cause if cause is not None else None)
        self.take(error)

    def take(self, error: HandlerError) -> None:
        """Take a failure that was logged already. Never raises."""
        self.errors.append(error)
        if self.sink is not None:
            self.sink(error)
        if self._above is not None:
            self._above(error)


class ListenerQueue:
    """Tells one listener one thing after the other, in order."""

    def __init__(self, listener: Callable[[Any], Any], report: Callable[[HandlerError], None]) -> None:
        self._listener = listener
        self._report = report
        self._waiting: deque[Any] = deque(maxlen=WAITING)
        self._wakeup = anyio.Event()
        self._ended = False

    def put(self, thing: Any) -> None:
        """Add something to tell; returns at once."""
        self._waiting.append(thing)
        self._wakeup.set()

    def end(self) -> None:
        """Say that nothing more comes; `deliver` returns once everything is told."""
        self._ended = True
        self._wakeup.set()

    async def deliver(self) -> None:
        """Tell the listener whatever comes, until the end."""
        while self._waiting or not self._ended:
            while self._waiting:
                await self._tell(self._waiting.popleft())
            if not self._ended:
                self._wakeup = anyio.Event()
                await self._wakeup.wait()

    async def _tell(self, thing: Any) -> None:
        try:
            await call(self._listener, thing)
        except (Exception, SystemExit) as exception:
            error = HandlerError(callback_name(self._listener), f"{type(exception).__name__}: {exception}")
            error.__cause__ = exception
            self._report(error)
