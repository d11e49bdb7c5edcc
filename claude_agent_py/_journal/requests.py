"""What a request of the CLI asks, what its reply says, and what happens in between: a hook runs, a person is asked."""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal, TypeAlias

from msgspec import Struct

from claude_agent_py._base.errors import HandlerError
from claude_agent_py._journal.tasks.events import Answered, Asked
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import (
    CanUseToolRequest,
    ElicitationRequest,
    HookCallbackRequest,
    UserDialogRequest,
)

RequestKind: TypeAlias = Literal["hook", "permission", "question", "elicitation", "dialog"]
"""What the CLI asks for: a hook, a permission, or an answer of a person."""
RequestStatus: TypeAlias = Literal["ok", "denied", "cancelled", "error"]
"""How a request of the CLI was answered."""
PROGRESS: Final = "notifications/progress"
"""The method by which an MCP server reports the progress of a call."""
HOOKS_ABOUT_CALLS: Final = frozenset(
    {
        *("PreToolUse", "PostToolUse", "PostToolUseFailure"),
        *("PermissionRequest", "PermissionDenied", "PreSkillShellCommand"),
    }
)
"""Events with a tool and a real `tool_use_id`, which for `PreSkillShellCommand` identifies the command; for the others
the CLI sends a random id."""
QUESTIONS: Final = (CanUseToolRequest, ElicitationRequest, UserDialogRequest)
"""Requests that a person may have to answer."""
_REFUSALS: Final = frozenset({"deny", "block", "decline", "cancel", "cancelled"})


class HookRun(Struct, frozen=True, kw_only=True):
    """A completed call of a hook handler."""

    type: ClassVar[Literal["hook_run"]] = "hook_run"
    event: str
    handler: str
    callback_id: str
    request_id: str
    agent_id: str | None
    duration: float
    """In seconds."""
    output: JSONObject
    """The reply sent to the CLI."""
    error: HandlerError | None = None
    """The handler's failure, or None on success."""


class PersonAsked(Struct, frozen=True):
    """While a subagent's request is open, a person is asked."""

    request_id: str
    agent_id: str
    asked: Asked


class PersonAnswered(Struct, frozen=True):
    """The person has answered. The request stays open until the reply to it."""

    request_id: str
    answered: Answered


def describe(request: object) -> JSONObject | None:
    """Return the fields of `RequestOpened`, or None if a tool call covers the request, as for a message to a server."""
    match request:
        case HookCallbackRequest():
            names = ("hook_event_name", "tool_use_id", "tool_name", "agent_id")
            event, call, tool, agent = (_as_text(request.input.get(name)) for name in names)
            return {"kind": "hook", "name": event or "hook", "call": call or None, "tool": tool, "agent": agent}
        case CanUseToolRequest():
            return {
                "kind": "question" if request.requires_user_interaction else "permission",
                "name": request.tool_name,
                "call": request.tool_use_id,
                "input": request.input,
                "agent": request.agent_id or "",
            }
        case ElicitationRequest():
            found = None if request.call is None else request.call.id
            return {"kind": "elicitation", "name": request.server_name, "call": found, "input": request.message}
        case UserDialogRequest():
            return {"kind": "dialog", "name": request.dialog_kind, "call": request.tool_use_id}
    return None


def read_reply(reply: object) -> RequestStatus:
    """Return the status of a request from the payload of its reply."""
    if not isinstance(reply, Mapping):
        return "ok"
    specific = reply.get("hookSpecificOutput")
    inner = specific if isinstance(specific, Mapping) else {}
    words = (reply.get("behavior"), reply.get("action"), reply.get("decision"), inner.get("permissionDecision"))
    is_refused = reply.get("continue") is False or any(_as_text(word) in _REFUSALS for word in words)
    return "denied" if is_refused else "ok"


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
