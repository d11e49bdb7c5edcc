"""Build spans for model calls, and for the tool calls in their answers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from claude_agent_py.observe.open_spans import CALL_STATUSES, INTERRUPTED, OpenSpan, State, pick_larger, read_tokens
from claude_agent_py.observe.reducers.turns import begin_turn
from claude_agent_py.observe.spans import MAIN
from claude_agent_py.wire.messages.content import TextBlock, ThinkingBlock, ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.stream import MessageDeltaEvent, StreamEventMessage
from claude_agent_py.wire.messages.system import PermissionDeniedMessage
from claude_agent_py.wire.timestamps import seconds

LAUNCHES: Final = ("Agent", "Task")
"""The tools that launch subagents. Their description identifies a call better than the whole input."""


def _on_assistant(state: State, message: AssistantMessage, at: float | None) -> None:
    when = state.advance(seconds(message.timestamp) or at)
    agent = _find_agent(state, message)
    if agent == MAIN:
        if state.turn is None:
            begin_turn(state, state.started or message.prompt_uuids, when)
        if state.turn is not None:
            state.turn.attributes["is_used"] = True
    conversation = state.conversation(agent)
    message_id = message.message.id or message.uuid
    model = conversation.model
    if model is None or model.attributes["message_id"] != message_id:
        state.end_model(agent)
        start = when if conversation.asked_at is None else min(when, conversation.asked_at)
        name = message.message.model or "model"
        model = OpenSpan(message_id, "model", name, start, state.find_owner(agent), agent, status="ok")
        model.attributes = {"message_id": message_id, "calls": [], "output": ""}
        conversation.model = model
    model.end = when
    _add_content(state, model, message)
    _open_calls(state, message, agent, when)


def _find_agent(state: State, message: AssistantMessage | UserMessage) -> str:
    """Return the agent of a message. Early versions of the CLI name only the call that launched it."""
    if message.agent_id is not None:
        return message.agent_id
    call = message.parent_tool_use_id
    if call is None:
        return MAIN
    launched = (key for key, task in state.tasks.items() if task.attributes.get("tool_use_id") == call)
    return next(launched, call)


def _add_content(state: State, model: OpenSpan, message: AssistantMessage) -> None:
    model.tokens = pick_larger(model.tokens, read_tokens(message.message.usage))
    model.attributes["stop_reason"] = message.message.stop_reason or model.attributes.get("stop_reason")
    if message.error is not None or message.is_api_error_message:
        model.status = "error"
        model.attributes["error"] = message.error or "unknown"
        state.problem = state.problem or ("error" if model.agent == MAIN else None)
    for block in message.message.content:
        if type(block) is TextBlock and state.texts.limit:
            model.attributes["output"] += block.text[: state.texts.limit + 64]
        elif type(block) is ThinkingBlock:
            model.attributes["is_thinking"] = True
        elif type(block) is ToolUseBlock:
            model.attributes["calls"].append(block.name)


def _open_calls(state: State, message: AssistantMessage, agent: str, at: float) -> None:
    owner = state.find_owner(agent)
    for block in message.tool_uses:
        call = OpenSpan(block.id, "tool", block.name, at, owner, agent)
        call.attributes["input"] = state.texts.shorten_json(block.input)
        if block.name in LAUNCHES:
            call.attributes["description"] = state.texts.to_line(str(block.input.get("description") or ""))
        state.calls.setdefault(block.id, call)
    state.traffic.fold(message)


def _on_user(state: State, message: UserMessage, at: float | None) -> None:
    if message.is_replay:
        return
    when = state.advance(seconds(message.timestamp) or at)
    agent = _find_agent(state, message)
    state.conversation(agent).asked_at = when
    for record in state.traffic.fold(message):
        state.traffic.forget(record.id)
        call = state.calls.pop(record.id, None)
        if call is not None:
            call.end = when
            call.status = CALL_STATUSES.get(record.status, "running")
            if call.status == "error" and _was_rejected(message):
                call.status = "denied"
            call.attributes["output"] = state.texts.shorten(record.text)
            state.finish(call)
    if agent == MAIN and INTERRUPTED in message.text[: len(INTERRUPTED)]:
        state.problem = "cancelled"


def _on_stream_event(state: State, message: StreamEventMessage, at: float | None) -> None:
    """Update the output tokens, which an assistant message does not contain yet."""
    event = message.event
    if type(event) is MessageDeltaEvent and event.usage is not None and message.parent_tool_use_id is None:
        model = state.conversation(MAIN).model
        output = int(event.usage.output_tokens or 0)
        if model is not None and model.tokens is not None and output >= model.tokens.output:
            model.attributes["is_counted"] = True
            model.tokens = msgspec.structs.replace(model.tokens, output=output)


def _on_permission_denied(state: State, message: PermissionDeniedMessage, at: float | None) -> None:
    state.advance(at)
    state.traffic.fold(message)


def _was_rejected(message: UserMessage) -> bool:
    """Return whether a call was refused, according to its transcript entry."""
    decision = message.raw.get("permissionDecision")
    return isinstance(decision, dict) and decision.get("decision") == "reject"


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    AssistantMessage: _on_assistant,
    UserMessage: _on_user,
    StreamEventMessage: _on_stream_event,
    PermissionDeniedMessage: _on_permission_denied,
}
