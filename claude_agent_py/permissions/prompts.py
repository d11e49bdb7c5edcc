"""The five kinds of prompts for a person, with functions to present each, read its answer, and refuse it.

Handlers, inboxes and the command line share this table. An answer that `read` does not understand raises ValueError,
and the prompt is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py._base.display import displayable
from claude_agent_py.permissions.decisions import Allow, Decision, Deny, build_denial, build_reply, check_json, describe
from claude_agent_py.permissions.elicitation import Accept, Cancel, Decline, read_elicitation
from claude_agent_py.permissions.questions import ASK_USER_QUESTION, Question, read_answers, read_questions
from claude_agent_py.permissions.requests import PermissionRequest
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import CanUseToolRequest, ElicitationRequest, UserDialogRequest
from claude_agent_py.wire.fitting import read
from claude_agent_py.wire.tools.planning import ExitPlanModeInput


@dataclass(frozen=True)
class Completed:
    """The person finished the dialog."""

    result: Any = None
    """The result as JSON; its shape depends on the kind of dialog."""


@dataclass(frozen=True)
class Dismissed:
    """The person closed the dialog. The CLI then applies the dialog's default."""


DialogAnswer: TypeAlias = Completed | Dismissed


def read_dialog(value: object) -> JSONObject:
    """Return the reply for the result of `on_user_dialog`. None dismisses it. Raises ValueError for other values."""
    if value is None or isinstance(value, Dismissed):
        return {"behavior": "cancelled"}
    if not isinstance(value, Completed):
        raise ValueError(f"the answer must be Completed(...) or Dismissed(), not {describe(value)}")
    check_json("the result of a dialog", value.result)
    return {"behavior": "completed", "result": value.result}


EXIT_PLAN_MODE = "ExitPlanMode"


@dataclass(frozen=True)
class Plan:
    """A plan of the model. Answer with `Allow()`, or with `Deny(reason)` to ask for a new plan.

    An approved plan runs in the mode `default`; `Allow(updated_permissions=[SetMode(mode="acceptEdits",
    destination="session")])` chooses another.
    """

    text: str
    """The plan; empty if the model has not written it down."""
    file_path: str | None = None
    """The file with the plan."""
    tool_use_id: str = ""


def read_plan(request: CanUseToolRequest) -> Plan:
    """Return the plan in a call."""
    data = read(ExitPlanModeInput, request.input) or ExitPlanModeInput()
    return Plan(text=data.plan or "", file_path=data.plan_file_path, tool_use_id=request.tool_use_id)


Kind: TypeAlias = Literal["permission", "question", "plan", "elicitation", "dialog"]
Subject: TypeAlias = PermissionRequest | tuple[Question, ...] | Plan | ElicitationRequest | UserDialogRequest
"""The first argument of a handler."""
WireRequest: TypeAlias = CanUseToolRequest | ElicitationRequest | UserDialogRequest


@dataclass(frozen=True)
class PromptKind:
    """The behaviour of one kind of prompt."""

    wire: type[Any]
    """The request on the wire."""
    subject: Callable[..., Any]
    """Return the first argument of a handler."""
    summarize: Callable[[Any], str]
    """Return the subject in one line, which may contain control characters."""
    read: Callable[..., JSONObject]
    """Convert an answer to the reply; raise ValueError if it is invalid."""
    refuse: Callable[[str], JSONObject]
    """Return the reply that refuses, with a reason if the kind supports one."""
    answer: Callable[[JSONObject], Any]
    """Convert a reply back to the answer: the inverse of `read`."""


def get_kind(request: WireRequest) -> Kind:
    """Return the kind of a request."""
    return find_kind(request.subtype, getattr(request, "tool_name", None))


def find_kind(subtype: object, tool_name: object) -> Kind:
    """Return the kind of a request with these fields, which may be any values if it could not be read."""
    kind = _BY_SUBTYPE.get(subtype) if isinstance(subtype, str) else None
    if kind is not None:
        return kind
    return _BY_TOOL.get(tool_name, "permission") if isinstance(tool_name, str) else "permission"


_BY_TOOL: Final[Mapping[str, Kind]] = {ASK_USER_QUESTION: "question", EXIT_PLAN_MODE: "plan"}


def _read_decision(request: CanUseToolRequest, value: object) -> JSONObject:
    if value is None:
        return build_denial("No policy allows this.")
    return check_input(request, build_reply(value, request.permission_suggestions or ()))


def leave_plan_mode(request: WireRequest, reply: JSONObject) -> JSONObject:
    """Return a reply unchanged, but an approval of a plan with the mode `default` if it sets no mode.

    Measured on CLI 2.1.328: without it, the CLI restores the mode before `plan`, for example `bypassPermissions`.
    """
    updates = reply.get("updatedPermissions") or []
    is_approval = get_kind(request) == "plan" and reply.get("behavior") == "allow"
    if not is_approval or any(update.get("type") == "setMode" for update in updates):
        return reply
    default = {"type": "setMode", "mode": "default", "destination": "session"}
    return {**reply, "updatedPermissions": [*updates, default]}


def check_input(request: CanUseToolRequest, reply: JSONObject) -> JSONObject:
    """Raise ValueError for an empty `updated_input` if the input is not: the CLI would run the original."""
    if reply.get("updatedInput") == {} and request.input:
        raise ValueError("updated_input is empty; the CLI would run the original input")
    return reply


def _read_questions(request: CanUseToolRequest, value: object) -> JSONObject:
    if isinstance(value, Allow):
        return check_input(request, build_reply(value))
    return read_answers(request, value)


def decode_decision(reply: JSONObject) -> Decision:
    """Convert a reply back to a decision. Raises ValueError for other replies."""
    kind = reply.get("decisionClassification")
    if reply.get("behavior") == "allow":
        return Allow(reply.get("updatedInput"), reply.get("updatedPermissions") or (), kind)
    if reply.get("behavior") == "deny":
        return Deny(reply.get("message", ""), bool(reply.get("interrupt")), kind)
    raise ValueError("not a decision")


def _decode_elicitation(reply: JSONObject) -> Accept | Decline | Cancel:
    answers: dict[str, Accept | Decline | Cancel] = {
        "accept": Accept(reply.get("content")),
        "decline": Decline(),
        "cancel": Cancel(),
    }
    return answers[reply["action"]]


def _summarize_permission(request: PermissionRequest) -> str:
    shown = (request.raw_input.get(key) for key in ("command", "file_path", "notebook_path", "path", "url", "query"))
    what = next((str(value) for value in shown if value), None) or request.description or request.title or ""
    return f"{request.tool_name}: {what}" if what else request.tool_name


_PERMISSION: Final = PromptKind(
    wire=CanUseToolRequest,
    subject=PermissionRequest,
    summarize=_summarize_permission,
    read=_read_decision,
    refuse=build_denial,
    answer=decode_decision,
)

KINDS: Final[Mapping[Kind, PromptKind]] = {
    "permission": _PERMISSION,
    "question": replace(
        _PERMISSION,
        subject=lambda request, context: read_questions(request),
        summarize=lambda questions: " / ".join(question.question for question in questions) or "a question",
        read=_read_questions,
    ),
    "plan": replace(
        _PERMISSION,
        subject=lambda request, context: read_plan(request),
        summarize=lambda plan: next((line for line in plan.text.splitlines() if line.strip()), "a plan without text"),
    ),
    "elicitation": PromptKind(
        wire=ElicitationRequest,
        subject=lambda request, context: request,
        summarize=lambda request: f"{request.server_name}: {request.message or request.url or 'a question'}",
        read=read_elicitation,
        refuse=lambda reason: {"action": "cancel"},
        answer=_decode_elicitation,
    ),
    "dialog": PromptKind(
        wire=UserDialogRequest,
        subject=lambda request, context: request,
        summarize=lambda request: f"dialog {request.dialog_kind}",
        read=lambda request, value: read_dialog(value),
        refuse=lambda reason: {"behavior": "cancelled"},
        answer=lambda reply: Completed(reply.get("result")) if reply.get("behavior") == "completed" else Dismissed(),
    ),
}

_BY_SUBTYPE: Final[Mapping[str, Kind]] = {
    prompt.wire.subtype: kind for kind, prompt in KINDS.items() if prompt.wire is not CanUseToolRequest
}
"""The kinds that the subtype of a request tells. Of the others, its tool does."""


def extract_record(kind: Kind, reply: JSONObject) -> JSONObject:
    """Return a reply for records: without the tool's input, but with the answers to questions."""
    record = {name: value for name, value in reply.items() if name != "updatedInput"}
    answers = (reply.get("updatedInput") or {}).get("answers") if kind == "question" else None
    return record if answers is None else record | {"answers": answers}


def summarize(kind: Kind, subject: object) -> str:
    """Summarize a question in one line that is safe to print in a terminal."""
    return displayable(KINDS[kind].summarize(subject), 200).replace("\n", " ")
