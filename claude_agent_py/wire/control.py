"""Calls across the pipe, either way: a request, its answer, its withdrawal.

Owns the frames of the control protocol. What stands inside is elsewhere: what the CLI asks in `asks`, what we ask in
`requests` (loaded when such a request has to be read, which only those that play the CLI do), all of it together in
`bodies`, and what the CLI answers in `initialize` and `replies`. Matching answers to requests is the business of
`claude_agent_py.protocol`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, field_validator

from claude_agent_py.wire import asks
from claude_agent_py.wire.base import JSONObject, TaggedModel, WireModel, dump
from claude_agent_py.wire.later import Later
from claude_agent_py.wire.unions import refuse_known

if TYPE_CHECKING:
    from claude_agent_py.wire.bodies import KnownControlRequest

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


class UnknownControlRequest(WireModel):
    """A request of a subtype that this version does not know; also the way to send one. Fields go in by name."""

    subtype: str

    @field_validator("subtype")
    @classmethod
    def _only_unknown(cls, tag: str) -> str:
        from claude_agent_py.wire.bodies import KNOWN_CONTROL_REQUESTS

        return refuse_known(tag, KNOWN_CONTROL_REQUESTS)

    @property
    def raw(self) -> JSONObject:
        """The body as it came."""
        return dump(self)


if TYPE_CHECKING:
    ControlRequestBody: TypeAlias = KnownControlRequest | UnknownControlRequest
else:
    ControlRequestBody = Annotated[
        Annotated[RequestFromCLI, Field(discriminator="subtype")]
        | Annotated[Any, Later("claude_agent_py.wire.bodies", "KnownControlRequest")]
        | UnknownControlRequest,
        Field(union_mode="left_to_right"),
    ]


class ControlRequest(TaggedModel):
    """One side asks the other something; `request_id` comes back with the answer."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "control_request"}

    type: Literal["control_request"] = "control_request"
    request_id: str
    request: ControlRequestBody

    @property
    def subtype(self) -> str:
        """What is asked."""
        return self.request.subtype


class ControlAnswer(TaggedModel):
    """What both kinds of answers share."""

    request_id: str
    pending_permission_requests: list[ControlRequest] | None = None
    """Requests of an earlier connection that still wait for an answer; so the other two."""
    pending_user_dialog_requests: list[ControlRequest] | None = None
    pending_elicitation_requests: list[ControlRequest] | None = None


class ControlSuccess(ControlAnswer):
    """The request was carried out. Many requests have no payload."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "success"}

    subtype: Literal["success"] = "success"
    response: JSONObject | None = None


class ControlFailure(ControlAnswer):
    """The request was not carried out."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "error"}

    subtype: Literal["error"] = "error"
    error: str
    error_code: str | None = None
    """For example `unsupported_request`."""


class ControlResponse(TaggedModel):
    """The answer to a control request."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "control_response"}

    type: Literal["control_response"] = "control_response"
    response: Annotated[ControlSuccess | ControlFailure, Field(discriminator="subtype")]

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


class ControlCancelRequest(TaggedModel):
    """The one that asked does not want the answer any more. There is no answer to this."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "control_cancel_request"}

    type: Literal["control_cancel_request"] = "control_cancel_request"
    request_id: str
    tool_use_id: str | None = None


class KeepAlive(TaggedModel):
    """A sign of life."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "keep_alive"}

    type: Literal["keep_alive"] = "keep_alive"


class UpdateEnvironmentVariables(TaggedModel):
    """Changes variables in the CLI's environment. There is no answer to this."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "update_environment_variables"}

    type: Literal["update_environment_variables"] = "update_environment_variables"
    variables: dict[str, str] = Field(repr=False)
    request_id: str | None = None


ControlFrame: TypeAlias = (
    ControlRequest | ControlResponse | ControlCancelRequest | KeepAlive | UpdateEnvironmentVariables
)
"""Every frame that is no part of the conversation."""
