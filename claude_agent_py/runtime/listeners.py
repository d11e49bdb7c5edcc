"""Telling user code: a queue between the pump and a listener, and one place where failures of user code are reported.

The pump puts and never waits. A listener that is slow only falls behind; one that raises is reported, and is told the
next thing all the same.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof
from time import monotonic
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py.callbacks import Callback, Report, log_failure
from claude_agent_py.errors import HandlerError

logger: logging.Logger = logging.getLogger("claude_agent_py")

WAITING_BYTES: Final = 64 * 1024 * 1024
"""How much memory the lines may take that wait for a listener that does not keep up; then the oldest are dropped."""

PIECE: Final = 1000
"""How many lines a plain listener may be told in one go."""

THREAD_TURN: Final = 0.05
"""How long that may take, in seconds: failures are reported, and the end is noticed, after it."""

TURN: Final = 0.005
"""How long an async listener that awaits nothing may be told lines before others have their turn, in seconds."""


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
        log_failure(error)
        self.take(error)

    def take(self, error: HandlerError) -> None:
        """Take a failure that was logged already. Never raises."""
        self.errors.append(error)
        if self.sink is not None:
            self.sink(error)
        if self._above is not None:
            self._above(error)


class ListenerQueue:
    """Tells one listener one line after the other, in order.

    Many lines may wait: what exceeds `WAITING_BYTES` is dropped, the oldest first, and counted.
    """

    def __init__(self, listener: Callable[[Any], Any], report: Report) -> None:
        callback = Callback(listener)
        self._listener = listener
        self._tell = self._tell_some if callback.is_plain else self._tell_next
        self._callback = Callback(self._next_for_a_while, name=callback.name) if callback.is_plain else callback
        self._report = report
        self._waiting: deque[Any] = deque()
        self._waiting_bytes = 0
        self._piece: deque[Any] = deque()
        """What a plain listener is being told, in its thread."""
        self._wakeup = anyio.Event()
        self._ended = self._is_over = False
        self.dropped: int = 0
        """How many the listener was not told."""
        self._warned_of = 0

    def put(self, line: Any) -> None:
        """Add something to tell; returns at once."""
        if self._is_over:
            self.dropped += 1
            return
        self._waiting.append(line)
        self._waiting_bytes += getsizeof(line)
        while self._waiting_bytes > WAITING_BYTES:
            self._take()
            self.dropped += 1
        self._wakeup.set()

    def end(self) -> None:
        """Say that nothing more comes; `deliver` returns once everything is told."""
        self._ended = True
        self._wakeup.set()

    async def deliver(self) -> None:
        """Tell the listener whatever comes, until the end."""
        try:
            while self._waiting or not self._ended:
                turn_ends = monotonic() + TURN
                while self._waiting:
                    await self._tell()
                    if monotonic() > turn_ends:
                        await checkpoint()
                        turn_ends = monotonic() + TURN
                self._warn()
                if not self._ended:
                    self._wakeup = anyio.Event()
                    await self._wakeup.wait()
        finally:
            self._is_over = True
            while self._piece:  # a thread that was abandoned finds nothing more
                self._piece.pop()
                self.dropped += 1
            self.dropped += len(self._waiting)
            self._waiting.clear()
            self._warn()

    def _take(self) -> Any:
        line = self._waiting.popleft()
        self._waiting_bytes -= getsizeof(line)
        return line

    async def _tell_next(self) -> None:
        await self._callback.tell(self._report, self._take())

    async def _tell_some(self) -> None:
        """Tell a plain listener many in one go: going to a thread and back takes longer than most listeners do."""
        self._piece.extend(self._take() for _ in range(min(len(self._waiting), PIECE)))
        while self._piece:
            await self._callback.tell(self._report)

    def _next_for_a_while(self) -> Any:
        ends = monotonic() + THREAD_TURN
        while monotonic() < ends:
            try:
                line = self._piece.popleft()
            except IndexError:
                return None
            value = self._listener(line)
            if value is not None:
                return value  # which may have to be awaited
        return None

    def _warn(self) -> None:
        if self.dropped > self._warned_of:
            logger.warning(
                "%s was not told %d lines: it fell too far behind", self._callback.name, self.dropped - self._warned_of
            )
            self._warned_of = self.dropped
