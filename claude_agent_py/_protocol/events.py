"""The events that the engine returns to its driver. `RunEnded`, `RunWaits` and `TurnResumed` are in `open_runs.py`."""

from typing import Any, TypeAlias

from msgspec import Struct

from claude_agent_py._protocol.open_runs import RunEnded, RunId, RunWaits, TurnResumed
from claude_agent_py._protocol.requests import StrayKind


class MessageReceived(Struct, frozen=True, gc=False):
    """A message of the conversation, and the runs that it belongs to."""

    message: Any
    runs: tuple[RunId, ...]
    line: bytes
    """The line of the message; empty if decoding it would not reproduce the message (it was too long to keep)."""


class RequestReceived(Struct, frozen=True):
    """A control request of the CLI. Answer with `Engine.answer` or `Engine.answer_error`."""

    request_id: str
    request: Any
    """The typed body (`CanUseToolRequest`, ...)."""


class RequestCancelled(Struct, frozen=True):
    """The CLI cancelled a control request."""

    request_id: str


class ReplyReceived(Struct, frozen=True):
    """The reply to a request of this side."""

    request_id: str
    subtype: str
    payload: dict[str, Any]
    error: str | None = None
    """The CLI's error message, if it refused the request."""
    error_code: str | None = None


class StrayReply(Struct, frozen=True):
    """A reply without a pending request. Harmless."""

    request_id: str
    kind: StrayKind


class RequestTimedOut(Struct, frozen=True):
    """A request of this side was not answered in time."""

    request_id: str
    subtype: str
    timeout: float


class StreamEnded(Struct, frozen=True):
    """The end of the CLI's output."""


Event: TypeAlias = (
    MessageReceived
    | RequestReceived
    | RequestCancelled
    | ReplyReceived
    | StrayReply
    | RequestTimedOut
    | RunEnded
    | RunWaits
    | TurnResumed
    | StreamEnded
)
