"""What a newer CLI sends is kept as a value; what is known never passes as unknown."""

import json
import pickle
from typing import Any

import pytest

from claude_agent_py import (
    AssistantMessage,
    ResultMessage,
    StreamEventMessage,
    TaskStartedMessage,
    TextBlock,
    ToolResultBlock,
    UnknownMessage,
    UserMessage,
)
from claude_agent_py.control import ControlRequest, UnknownControlRequest
from claude_agent_py.messages import ContentBlockDeltaEvent, UnknownBlock, UnknownDelta, UnknownStreamEvent
from claude_agent_py.wire import decode, encode

NEW_BLOCK = {"type": "hologram", "voxels": [1, 2.5, None], "nested": {"type": "text"}}


def round_trip(frame: dict[str, Any]) -> Any:
    decoded = decode(json.dumps(frame))
    assert json.loads(encode(decoded)) == frame
    return decoded


def test_an_unknown_type_is_a_message() -> None:
    frame = round_trip({"type": "weather", "subtype": "rain", "uuid": "u", "session_id": "s", "mm": 3})
    assert isinstance(frame, UnknownMessage)
    assert (frame.type, frame.subtype, frame.uuid, frame.session_id) == ("weather", "rain", "u", "s")
    assert frame.raw["mm"] == 3
    assert pickle.loads(pickle.dumps(frame)) == frame


def test_an_unknown_type_needs_nothing_else() -> None:
    frame = round_trip({"type": "weather", "uuid": 5})
    assert (frame.subtype, frame.uuid, frame.session_id) == (None, "", "")


def test_an_unknown_subtype_of_system_is_a_message() -> None:
    frame = round_trip({"type": "system", "subtype": "eclipse", "uuid": "u"})
    assert isinstance(frame, UnknownMessage)
    assert (frame.type, frame.subtype) == ("system", "eclipse")


def test_a_new_subtype_of_a_result_is_a_result() -> None:
    frame = round_trip({"type": "result", "subtype": "error_of_a_new_kind", "is_error": True, "errors": ["x"]})
    assert isinstance(frame, ResultMessage)
    assert frame.error_text == "x"


def test_an_unknown_block_stands_among_known_ones() -> None:
    blocks = [{"type": "text", "text": "a"}, NEW_BLOCK]
    frame = round_trip({"type": "assistant", "message": {"role": "assistant", "content": blocks}})
    assert isinstance(frame, AssistantMessage)
    text, new = frame.content
    assert isinstance(text, TextBlock)
    assert isinstance(new, UnknownBlock)
    assert new.raw == NEW_BLOCK
    assert frame.text == "a"


def test_an_unknown_block_stands_in_the_result_of_a_tool() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [NEW_BLOCK]}
    frame = round_trip({"type": "user", "message": {"role": "user", "content": [result]}})
    assert isinstance(frame, UserMessage)
    (block,) = frame.tool_results
    assert isinstance(block, ToolResultBlock)
    assert isinstance(block.content, list)
    assert isinstance(block.content[0], UnknownBlock)


def test_an_unknown_stream_event_is_an_event() -> None:
    frame = round_trip({"type": "stream_event", "event": {"type": "message_sigh", "depth": 3}})
    assert isinstance(frame, StreamEventMessage)
    assert isinstance(frame.event, UnknownStreamEvent)
    assert frame.event.raw == {"type": "message_sigh", "depth": 3}
    assert frame.text_delta == ""


def test_an_unknown_delta_is_a_delta() -> None:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "hum_delta", "hz": 440}}
    frame = round_trip({"type": "stream_event", "event": event})
    assert isinstance(frame, StreamEventMessage)
    assert isinstance(frame.event, ContentBlockDeltaEvent)
    assert isinstance(frame.event.delta, UnknownDelta)
    assert frame.event.delta.raw == {"type": "hum_delta", "hz": 440}
    assert frame.text_delta == ""


def test_an_unknown_control_request_is_a_request() -> None:
    frame = round_trip({"type": "control_request", "request_id": "r", "request": {"subtype": "levitate", "m": 2}})
    assert isinstance(frame, ControlRequest)
    assert isinstance(frame.request, UnknownControlRequest)
    assert frame.subtype == "levitate"
    assert frame.request.raw == {"subtype": "levitate", "m": 2}


def test_an_unknown_control_request_can_be_sent() -> None:
    frame = ControlRequest(request_id="r", request=UnknownControlRequest(raw={"subtype": "levitate", "m": 2}))
    assert json.loads(encode(frame)) == {
        "type": "control_request",
        "request_id": "r",
        "request": {"subtype": "levitate", "m": 2},
    }


def test_unknown_fields_stay_at_every_level() -> None:
    usage = {"input_tokens": 1, "new": {"a": 1}}
    message = {"role": "assistant", "content": [{"type": "text", "text": "a", "mood": 7}], "usage": usage, "new": 1.0}
    raw = {"type": "assistant", "message": message, "new": [None]}
    frame = round_trip(raw)
    assert frame.raw == raw
    changed = frame.replace(uuid="u")
    assert json.loads(encode(changed)) == changed.raw == {**raw, "uuid": "u"}


def test_an_unknown_field_may_hold_invalid_text() -> None:
    frame = decode(b'{"type":"user","message":{"role":"user","content":"a"},"new":"\xff"}')
    assert isinstance(frame, UserMessage)
    assert frame.raw["new"] == "\ufffd"


def test_a_word_of_ours_for_an_unknown_tag_does_no_harm() -> None:
    for block in ({"type": "(unknown)"}, {"type": "(unknown)", "raw": {}}, {"type": "(unknown)", "raw": 5}):
        frame = decode(json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [block]}}))
        assert frame.raw["message"]["content"] == [block]
        if isinstance(frame, AssistantMessage):
            assert repr(frame)
            assert isinstance(frame.content[0].type, str)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "assistant", "message": {"role": "assistant", "content": [], "stop_reason": "new"}, "error": "new"},
        {"type": "user", "message": {"role": "user", "content": "a"}, "priority": "new", "origin": {"kind": "new"}},
        {"type": "result", "subtype": "success", "stop_reason": "new", "terminal_reason": "new"},
        {"type": "command_lifecycle", "command_uuid": "u", "state": "new"},
        {"type": "system", "subtype": "session_state_changed", "state": "new"},
        {"type": "system", "subtype": "status", "status": "new", "permissionMode": "new"},
        {"type": "system", "subtype": "init", "permissionMode": "new", "apiKeySource": "new", "effort": "new"},
        {"type": "system", "subtype": "task_started", "task_id": "a", "task_type": "new"},
        {"type": "system", "subtype": "task_updated", "task_id": "a", "patch": {"status": "new"}},
        {"type": "system", "subtype": "task_notification", "task_id": "a", "status": "new", "reason": "new"},
        {"type": "system", "subtype": "hook_response", "hook_id": "h", "outcome": "new"},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "new", "rateLimitType": "new"}},
    ],
)
def test_a_new_word_in_a_known_field_is_no_error(frame: dict[str, Any]) -> None:
    assert not isinstance(round_trip(frame), UnknownMessage)


def test_numbers_stay_what_they_were() -> None:
    numbers = {"duration_ms": 3, "total_cost_usd": 3.0, "num_turns": 12345678901234567890}
    frame = decode(json.dumps({"type": "result", "subtype": "success", **numbers}))
    assert isinstance(frame, ResultMessage)
    assert (type(frame.duration_ms), type(frame.total_cost_usd)) == (int, float)
    sent = json.loads(encode(frame))
    for raw in (sent, frame.raw):
        assert [(type(raw[name]), raw[name]) for name in numbers] == [(type(n), n) for n in numbers.values()]


def test_null_and_absent_are_distinguished() -> None:
    frame = round_trip({"type": "system", "subtype": "task_started", "task_id": "a", "run_id": None})
    assert isinstance(frame, TaskStartedMessage)
    assert frame.run_id is frame.prompt is None
    assert frame.raw.keys() == {"type", "subtype", "task_id", "run_id"}
