"""The five kinds of questions that reach a person, as data: what is asked, what an answer means, and what a refusal is.

Handlers, the inbox and the command line all go by this table, so that each kind is read in one way only. Its `read` is
strict: what it does not understand raises ValueError, and the question is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py.handler_context import HandlerContext
from claude_agent_py.permissions.decisions import Allow, Decision, Deny, denial, reply_of
from claude_agent_py.permissions.dialogs import Completed, Dismissed, dismissed, read_dialog
from claude_agent_py.permissions.elicitation import (
    Accept,
    Cancel,
    Decline,
    ElicitationRequest,
    cancelled,
    read_elicitation,
)
from claude_agent_py.permissions.plans import EXIT_PLAN_MODE, plan_of
from claude_agent_py.permissions.questions import ASK_USER_QUESTION, questions_of, read_answers
from claude_agent_py.permissions.requests import PermissionRequest
from claude_agent_py.wire.asks import CanUseToolRequest, ElicitationRequest as WireElicitationRequest, UserDialogRequest
from claude_agent_py.wire.base import JSONObject

Kind: TypeAlias = Literal["permission", "question", "plan", "elicitation", "dialog"]


@dataclass(frozen=True)
class PromptKind:
    """What is known of one kind of question."""

    wire: type[Any]
    """The request on the wire."""
    subject: Callable[[Any, HandlerContext | None], Any]
    """Gives what a handler is shown."""
    read: Callable[[Any, Any], JSONObject]
    """Makes the wire reply of the request and an answer; raises ValueError where it is none."""
    refuse: Callable[[str], JSONObject]
    """Gives the wire reply that refuses, with a reason where there is room for one."""
    answer: Callable[[JSONObject], Any]
    """Makes the answer of a wire reply again: the inverse of `read`."""


def kind_of(request: CanUseToolRequest) -> Kind:
    """Tell what a `can_use_tool` request really asks."""
    return _BY_TOOL.get(request.tool_name, "permission")


_BY_TOOL: Final[Mapping[str, Kind]] = {ASK_USER_QUESTION: "question", EXIT_PLAN_MODE: "plan"}


def _read_decision(request: CanUseToolRequest, value: Any) -> JSONObject:
    if value is None:
        return denial("No policy allows this.")
    return check_input(request, reply_of(value, request.permission_suggestions or ()))


def check_input(request: CanUseToolRequest, reply: JSONObject) -> JSONObject:
    """Refuse an empty input in place of one that is not: the CLI would run the original.

    Raises:
        ValueError: It is one.
    """
    if reply.get("updatedInput") == {} and request.input:
        raise ValueError("updated_input is empty, and the CLI would run the call as it was")
    return reply


def _read_questions(request: CanUseToolRequest, value: Any) -> JSONObject:
    return check_input(request, reply_of(value)) if isinstance(value, Allow) else read_answers(request, value)


def decision_of(reply: JSONObject) -> Decision:
    """Make the decision of a wire reply again.

    Raises:
        ValueError: It is none.
    """
    if reply.get("behavior") == "allow":
        return Allow(reply.get("updatedInput"), reply.get("updatedPermissions") or ())
    if reply.get("behavior") == "deny":
        return Deny(reply.get("message", ""), bool(reply.get("interrupt")))
    raise ValueError("this is no decision")


def _elicited(reply: JSONObject) -> Accept | Decline | Cancel:
    answers: dict[str, Accept | Decline | Cancel] = {
        "accept": Accept(reply.get("content")),
        "decline": Decline(),
        "cancel": Cancel(),
    }
    return answers[reply["action"]]


def _dialog_of(reply: JSONObject) -> Completed | Dismissed:
    return Completed(reply.get("result")) if reply.get("behavior") == "completed" else Dismissed()


KINDS: Final[Mapping[Kind, PromptKind]] = {
    "permission": PromptKind(
        wire=CanUseToolRequest,
        subject=PermissionRequest,
        read=_read_decision,
        refuse=denial,
        answer=decision_of,
    ),
    "question": PromptKind(
        wire=CanUseToolRequest,
        subject=lambda request, context: questions_of(request),
        read=_read_questions,
        refuse=denial,
        answer=decision_of,
    ),
    "plan": PromptKind(
        wire=CanUseToolRequest,
        subject=lambda request, context: plan_of(request),
        read=_read_decision,
        refuse=denial,
        answer=decision_of,
    ),
    "elicitation": PromptKind(
        wire=WireElicitationRequest,
        subject=lambda request, context: ElicitationRequest(request),
        read=lambda request, value: read_elicitation(ElicitationRequest(request), value),
        refuse=lambda reason: cancelled(),
        answer=_elicited,
    ),
    "dialog": PromptKind(
        wire=UserDialogRequest,
        subject=lambda request, context: request,
        read=lambda request, value: read_dialog(value),
        refuse=lambda reason: dismissed(),
        answer=_dialog_of,
    ),
}
