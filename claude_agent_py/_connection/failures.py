"""The log of failed handlers and listeners."""

from collections.abc import Callable
from typing import ClassVar, Literal

from msgspec import Struct

from claude_agent_py._base.callbacks import log_failure
from claude_agent_py._base.errors import HandlerError


class HandlerFailed(Struct, frozen=True):
    """A handler or listener failed: an event among the session's messages that the CLI did not send."""

    type: ClassVar[Literal["handler_failed"]] = "handler_failed"
    handler: str
    reason: str


class FailureLog:
    """Logs the errors of handlers and listeners, keeps them for `Client.handler_errors`, and announces them.

    Errors of a child agent's session are also kept by its parent (`parent`).
    """

    def __init__(
        self,
        announce: Callable[[HandlerFailed], None],
        *,
        kept: int = 1000,
        parent: Callable[[HandlerError], None] | None = None,
    ) -> None:
        self.errors: list[HandlerError] = []
        self._kept = kept
        self._announce = announce
        self._parent = parent

    def report(self, error: HandlerError) -> None:
        """Log and record an error. Never raises."""
        log_failure(error)
        self.take(error)

    def take(self, error: HandlerError) -> None:
        """Record an error that has been logged. Never raises."""
        self.errors.append(error)
        del self.errors[: -self._kept]
        self._announce(HandlerFailed(error.handler, error.reason))
        if self._parent is not None:
            self._parent(error)
