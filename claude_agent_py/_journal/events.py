"""The events of the engine. Those of the router (`RunEnded`, `RunWaits`, `TurnResumed`) are in `open_runs.py`.

A message of the conversation is an event itself, and so are a control request of the CLI, which is answered with
`Engine.answer` or `Engine.answer_error`, its cancellation, and a frame that cannot be decoded.
"""

from typing import Any, TypeAlias

from msgspec import Struct

from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.frames import ControlCancelRequest, ControlRequest
from claude_agent_py.wire.frames import Message
from claude_agent_py.wire.unknown import MalformedFrame


class RequestUnreadable(Struct, frozen=True):
    """A control request of the CLI that cannot be decoded. Answer it as one that can."""

    request_id: str
    request: JSONObject
    """The fields that can be read."""
    problem: str


class PendingRequest(Struct, frozen=True):
    """A request of the client that waits for its reply."""

    request_id: str
    subtype: str
    timeout: float | None
    deadline: float
    """Infinity without a timeout."""
    waiter: Any = None
    """The session's waiter for the reply: any object."""


class ReplyReceived(Struct, frozen=True):
    """The reply to a request of the client."""

    request: PendingRequest
    payload: JSONObject
    error: str | None = None
    """The CLI's error message, if it refused the request."""
    error_code: str | None = None


class RequestTimedOut(Struct, frozen=True):
    """A request of the client was not answered in time."""

    request: PendingRequest


class StreamEnded(Struct, frozen=True):
    """The end of the CLI's output."""


Event: TypeAlias = (
    Message
    | MalformedFrame
    | ControlRequest
    | RequestUnreadable
    | ControlCancelRequest
    | ReplyReceived
    | RequestTimedOut
    | StreamEnded
)
