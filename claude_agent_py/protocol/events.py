"""What the engine reports to its driver: values, each the consequence of bytes or of time.

The ends of runs, `RunEnded` and `RunWaits`, come from the router as they are (`turns.py`).
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from claude_agent_py.protocol.requests import StrayKind
from claude_agent_py.protocol.turns import RunEnded, RunId, RunWaits


@dataclass(slots=True)
class MessageReceived:
    """A message of the conversation, and the runs that it belongs to. Not frozen, which takes long: there are many."""

    message: Any
    runs: tuple[RunId, ...]
    line: bytes
    """Its line; empty where decoding it would not give the message again (it was too long to keep)."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """The CLI asks. Answer with `Engine.answer` or `Engine.answer_error`."""

    request_id: str
    request: Any
    """The typed body (`CanUseToolRequest`, ...)."""


@dataclass(frozen=True, slots=True)
class RequestCancelled:
    """The CLI no longer wants an answer."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """A request of ours was answered."""

    request_id: str
    subtype: str
    payload: dict[str, Any]
    error: str | None = None
    """The CLI's words, where it refused."""
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class StrayReply:
    """A reply that nobody waits for. Harmless."""

    request_id: str
    kind: StrayKind


@dataclass(frozen=True, slots=True)
class RequestTimedOut:
    """A request of ours was not answered in time."""

    request_id: str
    subtype: str
    timeout: float


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The CLI will write no more."""


Event: TypeAlias = (
    MessageReceived
    | RequestReceived
    | RequestCancelled
    | ReplyReceived
    | StrayReply
    | RequestTimedOut
    | RunEnded
    | RunWaits
    | StreamEnded
)
