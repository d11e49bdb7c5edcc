"""Fold what the CLI asks this side: hooks, permission prompts, elicitations, dialogs; and hooks that it runs."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from claude_agent_py.hooks.dispatcher import HookRun
from claude_agent_py.observe.drafts import Draft, Texts
from claude_agent_py.observe.folding.state import State
from claude_agent_py.observe.spans import MAIN, SpanStatus
from claude_agent_py.wire.control.asks import (
    CanUseToolRequest,
    ElicitationRequest,
    HookCallbackRequest,
    UserDialogRequest,
)
from claude_agent_py.wire.messages.occasional import HookResponseMessage, HookStartedMessage

_REFUSALS = frozenset({"deny", "block", "decline", "cancel", "cancelled"})


def ask(state: State, request_id: str, request: Any, at: float | None = None, *, agent: str = MAIN) -> None:
    """Note a question of the CLI to this side: a hook, a permission prompt, an elicitation, a dialog."""
    draft = _draft_of(request_id, request, state.time(at), state.texts)
    if draft is not None and request_id not in state.known:
        draft.agent = draft.agent or agent
        draft.parent = draft.parent or state.owner(draft.agent)
        state.asked[request_id] = draft


def answer(state: State, request_id: str, reply: Any = None, at: float | None = None, *, failed: bool = False) -> None:
    """Note the answer to a question. `reply` is its payload; None if it was withdrawn, or failed."""
    draft = state.asked.pop(request_id, None)
    if draft is not None:
        draft.end = state.time(at)
        draft.status = "error" if failed else status_of_reply(draft.kind, reply)
        if isinstance(reply, dict):
            draft.attributes["output"] = state.texts.json(reply)
        state.finish(draft)


def _hook(state: State, run: HookRun, at: float | None) -> None:
    """Take a hook that ran here, unless its question was seen."""
    if run.request_id in state.known or run.request_id in state.asked:
        return
    end = state.time(at)
    agent = run.agent_id or MAIN
    draft = Draft(run.request_id, "hook", run.event, end - run.duration, state.owner(agent), agent, end)
    draft.status = "error" if run.error is not None else status_of_reply("hook", run.output)
    draft.attributes["handler"] = run.handler
    state.finish(draft)


def _hook_started(state: State, message: HookStartedMessage, at: float | None) -> None:
    draft = Draft(message.hook_id, "hook", message.hook_event, state.time(at), state.owner(MAIN))
    draft.attributes["handler"] = state.texts.line(message.hook_name)
    state.asked[message.hook_id] = draft


def _hook_ended(state: State, message: HookResponseMessage, at: float | None) -> None:
    draft = state.asked.pop(message.hook_id, None)
    if draft is not None:
        draft.end = state.time(at)
        ends: dict[str, SpanStatus] = {"success": "ok", "cancelled": "cancelled"}
        draft.status = ends.get(message.outcome, "error")
        draft.attributes["output"] = state.texts.of(message.output)
        state.finish(draft)


def _draft_of(request_id: str, request: Any, at: float, texts: Texts) -> Draft | None:
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


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    HookRun: _hook,
    HookStartedMessage: _hook_started,
    HookResponseMessage: _hook_ended,
}
