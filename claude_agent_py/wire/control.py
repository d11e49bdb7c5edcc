"""Calls across the pipe, either way: a request, its answer, its withdrawal.

The bodies are elsewhere: what the CLI asks in `asks`, what this side asks in `requests`, and what the CLI answers in
`initialize` and `replies`. Which answer belongs to which request is the business of `claude_agent_py.protocol`.
"""

from typing import ClassVar, Literal, TypeAlias

from claude_agent_py.wire import asks
from claude_agent_py.wire.base import FrameModel, JSONObject, UnknownModel, WireModel

RequestFromCLI: TypeAlias = (
    asks.CanUseToolRequest
    | asks.HookCallbackRequest
    | asks.MCPMessageRequest
    | asks.ElicitationRequest
    | asks.UserDialogRequest
    | asks.OAuthTokenRefreshRequest
    | asks.HostAuthTokenRefreshRequest
)
"""What the CLI asks us."""


class UnknownControlRequest(UnknownModel, tag_field="subtype"):
    """A request of a subtype that this version does not know."""

    @property
    def subtype(self) -> str:
        """What is asked."""
        return str(self.raw.get("subtype", ""))


class ControlRequest(FrameModel):
    """One side asks the other something; `request_id` comes back with the answer."""

    type: ClassVar[Literal["control_request"]] = "control_request"
    request_id: str
    request: RequestFromCLI | UnknownControlRequest

    @property
    def subtype(self) -> str:
        """What is asked."""
        return self.request.subtype


class ControlAnswer(WireModel):
    """What both kinds of answers share."""

    request_id: str
    pending_permission_requests: list[ControlRequest] | None = None
    """Requests of an earlier connection that still wait for an answer; so the other two."""
    pending_user_dialog_requests: list[ControlRequest] | None = None
    pending_elicitation_requests: list[ControlRequest] | None = None


class ControlSuccess(ControlAnswer):
    """The request was carried out. Many requests have no payload."""

    subtype: ClassVar[Literal["success"]] = "success"
    response: JSONObject | None = None


class ControlFailure(ControlAnswer):
    """The request was not carried out."""

    subtype: ClassVar[Literal["error"]] = "error"
    error: str
    error_code: str | None = None
    """For example `unsupported_request`."""


class ControlResponse(FrameModel):
    """The answer to a control request."""

    type: ClassVar[Literal["control_response"]] = "control_response"
    response: ControlSuccess | ControlFailure

    @property
    def request_id(self) -> str:
        """The request that is answered."""
        return self.response.request_id

    @classmethod
    def success(cls, request_id: str, payload: JSONObject | None = None) -> "ControlResponse":
        """Make the answer to a request that was carried out."""
        return cls(response=ControlSuccess(request_id=request_id, response=payload or {}))

    @classmethod
    def failure(cls, request_id: str, error: str, error_code: str | None = None) -> "ControlResponse":
        """Make the answer to a request that was not carried out."""
        if error_code is None:
            return cls(response=ControlFailure(request_id=request_id, error=error))
        return cls(response=ControlFailure(request_id=request_id, error=error, error_code=error_code))


class ControlCancelRequest(FrameModel):
    """The side that asked no longer wants the answer. Nothing answers this."""

    type: ClassVar[Literal["control_cancel_request"]] = "control_cancel_request"
    request_id: str
    tool_use_id: str | None = None


class KeepAlive(FrameModel):
    """A sign of life."""

    type: ClassVar[Literal["keep_alive"]] = "keep_alive"


class UpdateEnvironmentVariables(FrameModel):
    """Changes variables in the CLI's environment. Nothing answers this."""

    type: ClassVar[Literal["update_environment_variables"]] = "update_environment_variables"
    HIDDEN: ClassVar[tuple[str, ...]] = ("variables",)

    variables: dict[str, str]
    request_id: str | None = None


ControlFrame: TypeAlias = (
    ControlRequest | ControlResponse | ControlCancelRequest | KeepAlive | UpdateEnvironmentVariables
)
"""Every frame outside of the conversation."""
