"""Where failures of user code are reported."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from claude_agent_py.callbacks import log_failure
from claude_agent_py.errors import HandlerError


@dataclass(frozen=True, slots=True)
class HandlerFailed:
    """An event among the session's messages: a handler or listener of yours failed. Not a frame of the wire."""

    handler: str
    reason: str


class FailureLog:
    """Where failures of handlers and listeners go: logged once, kept for `Client.handler_errors`, and told.

    Those of a child agent's session are kept in that of its parent, too (`above`).
    """

    def __init__(
        self,
        tell: Callable[[HandlerError], None],
        *,
        kept: int = 1000,
        above: Callable[[HandlerError], None] | None = None,
    ) -> None:
        self.errors: deque[HandlerError] = deque(maxlen=kept)
        self._tell = tell
        self._above = above

    def report(self, error: HandlerError) -> None:
        """Take a failure. Never raises."""
        log_failure(error)
        self.take(error)

    def take(self, error: HandlerError) -> None:
        """Take a failure that was logged already. Never raises."""
        self.errors.append(error)
        self._tell(error)
        if self._above is not None:
            self._above(error)
