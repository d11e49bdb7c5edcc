"""The events that the engine returns to its driver. `RunEnded`, `RunWaits` and `TurnResumed` are in `turns.py`."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from claude_agent_py._protocol.requests import StrayKind
from claude_agent_py._protocol.turns import RunEnded, RunId, RunWaits, TurnResumed


@dataclass(slots=True)
class MessageReceived:
    """A message of the conversation, and the runs that it belongs to. Not frozen, for speed: there are many."""

    message: Any
    runs: tuple[RunId, ...]
    line: bytes
    """The line of the message; empty if decoding it would not reproduce the message (it was too long to keep)."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A control request of the CLI. Answer with `Engine.answer` or `Engine.answer_error`."""

    request_id: str
    request: Any
    """The typed body (`CanUseToolRequest`, ...)."""


@dataclass(frozen=True, slots=True)
class RequestCancelled:
    """The CLI cancelled a control request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """The reply to a request of this side."""

    request_id: str
    subtype: str
    payload: dict[str, Any]
    error: str | None = None
    """The CLI's error message, if it refused the request."""
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class StrayReply:
    """A reply without a pending request. Harmless."""

    request_id: str
    kind: StrayKind


@dataclass(frozen=True, slots=True)
class RequestTimedOut:
    """A request of this side was not answered in time."""

    request_id: str
    subtype: str
    timeout: float


@dataclass(frozen=True, slots=True)
class StreamEnded:
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
