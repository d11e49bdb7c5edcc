"""Spans of the questions that the CLI asks this side: hooks, permission prompts, elicitations, dialogs."""

from collections.abc import Mapping
from typing import Any

from claude_agent_py.observe.drafts import Draft, Texts
from claude_agent_py.observe.spans import MAIN, SpanStatus
from claude_agent_py.wire.control.asks import (
    CanUseToolRequest,
    ElicitationRequest,
    HookCallbackRequest,
    UserDialogRequest,
)

_REFUSALS = frozenset({"deny", "block", "decline", "cancel", "cancelled"})


def draft_of_question(request_id: str, request: Any, at: float, texts: Texts) -> Draft | None:
    """Return the span of a question, or None for one that a tool call covers, such as a message to an MCP server."""
    match request:
        case HookCallbackRequest():
            agent = _text(request.input.get("agent_id"))
            draft = Draft(request_id, "hook", _text(request.input.get("hook_event_name")) or "hook", at, agent=agent)
            draft.parent = _text(request.input.get("tool_use_id")) or None
            draft.attributes["tool"] = _text(request.input.get("tool_name"))
        case CanUseToolRequest():
            draft = Draft(request_id, "waiting", request.tool_name, at, request.tool_use_id, request.agent_id or MAIN)
            draft.attributes["question"] = "question" if request.requires_user_interaction else "permission"
            draft.attributes["input"] = texts.json(request.input)
        case ElicitationRequest():
            draft = Draft(request_id, "waiting", request.mcp_server_name, at)
            draft.attributes |= {"question": "elicitation", "input": texts.of(request.message)}
        case UserDialogRequest():
            draft = Draft(request_id, "waiting", request.dialog_kind, at, request.tool_use_id)
            draft.attributes["question"] = "dialog"
        case _:
            return None
    return draft


def status_of_reply(kind: str, reply: Any) -> SpanStatus:
    """Return the status of a question by its reply; None means that it was withdrawn."""
    if not isinstance(reply, Mapping):
        return "cancelled" if kind == "waiting" else "ok"
    specific = reply.get("hookSpecificOutput")
    inner = specific if isinstance(specific, Mapping) else {}
    words = (reply.get("behavior"), reply.get("action"), reply.get("decision"), inner.get("permissionDecision"))
    is_refused = reply.get("continue") is False or any(_text(word) in _REFUSALS for word in words)
    return "denied" if is_refused else "ok"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
