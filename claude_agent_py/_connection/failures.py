"""`HandlerFailed`: the event of a failed handler or listener."""

from typing import ClassVar, Literal

from msgspec import Struct


class HandlerFailed(Struct, frozen=True):
    """A handler or listener failed: an event among the session's messages that the CLI did not send."""

    type: ClassVar[Literal["handler_failed"]] = "handler_failed"
    handler: str
    reason: str
