"""Build spans for requests of the CLI (hooks, permission prompts, elicitations, dialogs) and for hooks that it runs."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from claude_agent_py.hooks.dispatcher import HookRun
from claude_agent_py.observe.open_spans import OpenSpan, State, Texts
from claude_agent_py.observe.spans import MAIN, SpanStatus
from claude_agent_py.wire.control.asks import (
    CanUseToolRequest,
    ElicitationRequest,
    HookCallbackRequest,
    UserDialogRequest,
)
from claude_agent_py.wire.messages.occasional import HookResponseMessage, HookStartedMessage

_REFUSALS = frozenset({"deny", "block", "decline", "cancel", "cancelled"})


def open_request(state: State, request_id: str, request: Any, at: float | None = None, *, agent: str = MAIN) -> None:
    """Record a request of the CLI to the client: a hook, a permission prompt, an elicitation or a dialog."""
    span = _build_span(request_id, request, state.advance(at), state.texts)
    if span is not None and request_id not in state.span_ids:
        span.agent = span.agent or agent
        span.parent = span.parent or state.find_owner(span.agent)
        state.requests[request_id] = span


def close_request(
    state: State, request_id: str, reply: Any = None, at: float | None = None, *, failed: bool = False
) -> None:
    """Record the reply to a request. `reply` is its payload; None if the request was withdrawn or failed."""
    span = state.requests.pop(request_id, None)
    if span is not None:
        span.end = state.advance(at)
        span.status = "error" if failed else classify_reply(span.kind, reply)
        if isinstance(reply, dict):
            span.attributes["output"] = state.texts.shorten_json(reply)
        state.finish(span)


def _on_hook_run(state: State, run: HookRun, at: float | None) -> None:
    """Record a hook that the client ran, unless its request was already recorded."""
    if run.request_id in state.span_ids or run.request_id in state.requests:
        return
    end = state.advance(at)
    agent = run.agent_id or MAIN
    span = OpenSpan(run.request_id, "hook", run.event, end - run.duration, state.find_owner(agent), agent, end)
    span.status = "error" if run.error is not None else classify_reply("hook", run.output)
    span.attributes["handler"] = run.handler
    state.finish(span)


def _on_hook_started(state: State, message: HookStartedMessage, at: float | None) -> None:
    span = OpenSpan(message.hook_id, "hook", message.hook_event, state.advance(at), state.find_owner(MAIN))
    span.attributes["handler"] = state.texts.to_line(message.hook_name)
    state.requests[message.hook_id] = span


def _on_hook_response(state: State, message: HookResponseMessage, at: float | None) -> None:
    span = state.requests.pop(message.hook_id, None)
    if span is not None:
        span.end = state.advance(at)
        ends: dict[str, SpanStatus] = {"success": "ok", "cancelled": "cancelled"}
        span.status = ends.get(message.outcome, "error")
        span.attributes["output"] = state.texts.shorten(message.output)
        state.finish(span)


def _build_span(request_id: str, request: Any, at: float, texts: Texts) -> OpenSpan | None:
    """Return the span of a request, or None if a tool call covers it, as for a message to an MCP server."""
    match request:
        case HookCallbackRequest():
            agent = _as_text(request.input.get("agent_id"))
            span = OpenSpan(
                request_id, "hook", _as_text(request.input.get("hook_event_name")) or "hook", at, agent=agent
            )
            span.parent = _as_text(request.input.get("tool_use_id")) or None
            span.attributes["tool"] = _as_text(request.input.get("tool_name"))
        case CanUseToolRequest():
            span = OpenSpan(request_id, "waiting", request.tool_name, at, request.tool_use_id, request.agent_id or MAIN)
            span.attributes["question"] = "question" if request.requires_user_interaction else "permission"
            span.attributes["input"] = texts.shorten_json(request.input)
        case ElicitationRequest():
            span = OpenSpan(request_id, "waiting", request.mcp_server_name, at)
            span.attributes |= {"question": "elicitation", "input": texts.shorten(request.message)}
        case UserDialogRequest():
            span = OpenSpan(request_id, "waiting", request.dialog_kind, at, request.tool_use_id)
            span.attributes["question"] = "dialog"
        case _:
            return None
    return span


def classify_reply(kind: str, reply: Any) -> SpanStatus:
    """Return the status of a request from its reply; None means that the request was withdrawn."""
    if not isinstance(reply, Mapping):
        return "cancelled" if kind == "waiting" else "ok"
    specific = reply.get("hookSpecificOutput")
    inner = specific if isinstance(specific, Mapping) else {}
    words = (reply.get("behavior"), reply.get("action"), reply.get("decision"), inner.get("permissionDecision"))
    is_refused = reply.get("continue") is False or any(_as_text(word) in _REFUSALS for word in words)
    return "denied" if is_refused else "ok"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    HookRun: _on_hook_run,
    HookStartedMessage: _on_hook_started,
    HookResponseMessage: _on_hook_response,
}
