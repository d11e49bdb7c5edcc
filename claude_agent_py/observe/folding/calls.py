"""Fold calls of the model, and the calls of tools in its answers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from claude_agent_py.observe.drafts import INTERRUPTED, STATUS_OF_CALL, Draft, most, tokens_of
from claude_agent_py.observe.folding.state import State
from claude_agent_py.observe.folding.turns import begin_turn
from claude_agent_py.observe.spans import MAIN
from claude_agent_py.wire.messages.content import TextBlock, ThinkingBlock, ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.stream import MessageDeltaEvent, StreamEventMessage
from claude_agent_py.wire.messages.system import PermissionDeniedMessage
from claude_agent_py.wire.timestamps import seconds

LAUNCHES: Final = ("Agent", "Task")
"""The tools that launch subagents. Their description says more than their whole input."""


def _assistant(state: State, message: AssistantMessage, at: float | None) -> None:
    when = state.time(seconds(message.timestamp) or at)
    agent = _agent_of(state, message)
    if agent == MAIN:
        if state.turn is None:
            begin_turn(state, state.started or message.prompt_uuids, when)
        if state.turn is not None:
            state.turn.attributes["is_used"] = True
    talk, message_id = state.talk(agent), message.message.id or message.uuid
    model = talk.model
    if model is None or model.attributes["message_id"] != message_id:
        state.end_model(agent)
        start = when if talk.asked_at is None else min(when, talk.asked_at)
        name = message.message.model or "model"
        model = talk.model = Draft(message_id, "model", name, start, state.owner(agent), agent, status="ok")
        model.attributes = {"message_id": message_id, "calls": [], "output": ""}
    model.end = when
    _note_answer(state, model, message)
    _fold_calls(state, message, agent, when)


def _agent_of(state: State, message: AssistantMessage | UserMessage) -> str:
    """Return the agent of a message; early versions of the CLI only name the call that launched it."""
    if message.agent_id is not None:
        return message.agent_id
    call = message.parent_tool_use_id
    if call is None:
        return MAIN
    launched = (key for key, task in state.tasks.items() if task.attributes.get("tool_use_id") == call)
    return next(launched, call)


def _note_answer(state: State, model: Draft, message: AssistantMessage) -> None:
    model.tokens = most(model.tokens, tokens_of(message.message.usage))
    model.attributes["stop_reason"] = message.message.stop_reason or model.attributes.get("stop_reason")
    if message.error is not None or message.is_api_error_message:
        model.status = "error"
        model.attributes["error"] = message.error or "unknown"
        state.flaw = state.flaw or ("error" if model.agent == MAIN else None)
    for block in message.message.content:
        if type(block) is TextBlock and state.texts.limit:
            model.attributes["output"] += block.text[: state.texts.limit + 64]
        elif type(block) is ThinkingBlock:
            model.attributes["is_thinking"] = True
        elif type(block) is ToolUseBlock:
            model.attributes["calls"].append(block.name)


def _fold_calls(state: State, message: AssistantMessage, agent: str, at: float) -> None:
    owner = state.owner(agent)
    for block in message.tool_uses:
        call = Draft(block.id, "tool", block.name, at, owner, agent)
        call.attributes["input"] = state.texts.json(block.input)
        if block.name in LAUNCHES:
            call.attributes["description"] = state.texts.line(str(block.input.get("description") or ""))
        state.calls.setdefault(block.id, call)
    state.traffic.fold(message)


def _user(state: State, message: UserMessage, at: float | None) -> None:
    if message.is_replay:
        return
    when = state.time(seconds(message.timestamp) or at)
    agent = _agent_of(state, message)
    state.talk(agent).asked_at = when
    for record in state.traffic.fold(message):
        state.traffic.forget(record.id)
        call = state.calls.pop(record.id, None)
        if call is not None:
            call.end, call.status = when, STATUS_OF_CALL.get(record.status, "running")
            if call.status == "error" and _was_rejected(message):
                call.status = "denied"
            call.attributes["output"] = state.texts.of(record.text)
            state.finish(call)
    if agent == MAIN and INTERRUPTED in message.text[: len(INTERRUPTED)]:
        state.flaw = "cancelled"


def _stream(state: State, message: StreamEventMessage, at: float | None) -> None:
    """Take the count of output tokens, which an assistant message does not have yet."""
    event = message.event
    if type(event) is MessageDeltaEvent and event.usage is not None and message.parent_tool_use_id is None:
        model = state.talk(MAIN).model
        output = int(event.usage.output_tokens or 0)
        if model is not None and model.tokens is not None and output >= model.tokens.output:
            model.attributes["is_counted"] = True
            model.tokens = msgspec.structs.replace(model.tokens, output=output)


def _denied(state: State, message: PermissionDeniedMessage, at: float | None) -> None:
    state.time(at)
    state.traffic.fold(message)


def _was_rejected(message: UserMessage) -> bool:
    """Return whether a call was refused, by what an entry on disk says of it."""
    decision = message.raw.get("permissionDecision")
    return isinstance(decision, dict) and decision.get("decision") == "reject"


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    AssistantMessage: _assistant,
    UserMessage: _user,
    StreamEventMessage: _stream,
    PermissionDeniedMessage: _denied,
}
