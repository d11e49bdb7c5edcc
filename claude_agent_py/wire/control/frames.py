"""Control frames: requests in both directions, responses and cancellations.

The bodies of requests from the CLI are in `asks`, the CLI's replies in `initialize` and `replies`. `requests` has the
bodies that `Client` sends; they are not decoded.
"""

from typing import ClassVar, Literal, TypeAlias

from claude_agent_py.wire.base import FrameModel, JSONObject, UnknownModel, WireModel
from claude_agent_py.wire.control import asks

RequestFromCLI: TypeAlias = (
    asks.CanUseToolRequest
    | asks.HookCallbackRequest
    | asks.MCPMessageRequest
    | asks.ElicitationRequest
    | asks.UserDialogRequest
)
"""The body of a control request from the CLI."""


class UnknownControlRequest(UnknownModel, tag_field="subtype"):
    """A request of a subtype that the CLI is not known to send, or one that this library sends."""

    @property
    def subtype(self) -> str:
        """The request's subtype."""
        return str(self.raw.get("subtype", ""))

    def __repr__(self) -> str:  # the fields may hold secrets
        return f"UnknownControlRequest(subtype={self.subtype!r})"


class ControlRequest(FrameModel):
    """A request from one side to the other. The response carries the same `request_id`."""

    type: ClassVar[Literal["control_request"]] = "control_request"
    request_id: str
    request: RequestFromCLI | UnknownControlRequest

    @property
    def subtype(self) -> str:
        """The request's subtype."""
        return self.request.subtype


class _ControlAnswer(WireModel):
    """Base of `ControlSuccess` and `ControlFailure`."""

    request_id: str
    pending_permission_requests: list[ControlRequest] | None = None
    """Requests from an earlier connection that are still unanswered, as are those in the next two fields."""
    pending_user_dialog_requests: list[ControlRequest] | None = None
    pending_elicitation_requests: list[ControlRequest] | None = None


class ControlSuccess(_ControlAnswer):
    """The response to a request that succeeded. `response` is the payload, if there is one."""

    subtype: ClassVar[Literal["success"]] = "success"
    response: JSONObject | None = None


class ControlFailure(_ControlAnswer):
    """The response to a request that failed."""

    subtype: ClassVar[Literal["error"]] = "error"
    error: str
    error_code: str | None = None
    """For example `unsupported_request`."""


class ControlResponse(FrameModel):
    """The response to a control request."""

    type: ClassVar[Literal["control_response"]] = "control_response"
    response: ControlSuccess | ControlFailure

    @property
    def request_id(self) -> str:
        """Id of the request."""
        return self.response.request_id


class ControlCancelRequest(FrameModel):
    """Cancels a pending control request. It has no response."""

    type: ClassVar[Literal["control_cancel_request"]] = "control_cancel_request"
    request_id: str
    tool_use_id: str | None = None


class KeepAlive(FrameModel):
    """Shows that the peer is alive."""

    type: ClassVar[Literal["keep_alive"]] = "keep_alive"


ControlFrame: TypeAlias = ControlRequest | ControlResponse | ControlCancelRequest | KeepAlive
"""Every frame that is not a message."""
