"""What does not quite fit: reported fields are left out, essential ones are not, and a hostile line costs little."""

import json
import logging
from typing import Any

import msgspec
import pytest

from claude_agent_py import AssistantMessage, MalformedFrame, ResultMessage, UnknownBlock
from claude_agent_py.wire import decode, encode

WRONG_REPORTS: list[dict[str, Any]] = [
    {"usage": {"input_tokens": "12"}},
    {"permission_denials": "none"},
    {"permission_denials": [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {}}, {"tool_name": 5}, 7]},
    {"modelUsage": {"m": {"costUSD": "1"}}},
    {"duration_ms": "fast", "num_turns": None, "total_cost_usd": "free"},
]


@pytest.mark.parametrize("wrong", WRONG_REPORTS)
def test_a_wrong_reported_field_leaves_the_result_a_result(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    raw = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "new": [1], **wrong}
    frame = decode(json.dumps(raw))
    assert isinstance(frame, ResultMessage)
    assert (frame.result, frame.is_success) == ("done", True)
    assert frame.raw == json.loads(encode(frame)) == raw
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(field in line for field in wrong for line in warnings)
    assert "fast" not in str(warnings)


def test_wrong_usage_leaves_the_answer_an_answer() -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": "12"}}
    raw = {"type": "assistant", "message": message}
    frame = decode(json.dumps(raw))
    assert isinstance(frame, AssistantMessage)
    assert frame.text == "hi"
    assert frame.raw == raw


@pytest.mark.parametrize(
    ("field", "wrong"), [("is_error", "no"), ("result", 5), ("errors", ["a", 5]), ("user_message_uuids", "u")]
)
def test_a_wrong_essential_field_is_malformed(field: str, wrong: Any) -> None:
    raw = {"type": "result", "subtype": "success", "is_error": False, field: wrong}
    frame = decode(json.dumps(raw))
    assert isinstance(frame, MalformedFrame)
    assert frame.location[0] == field
    assert frame.raw == raw


def test_a_denied_call_that_is_nested_deeply_decodes() -> None:
    deep: Any = "x"
    for _ in range(190):
        deep = {"a": deep}
    denial = {"tool_name": "mcp__a__b", "tool_use_id": "t", "tool_input": deep}
    raw = {"type": "result", "subtype": "success", "is_error": False, "permission_denials": [denial]}
    for line in (json.dumps(raw), json.dumps({**raw, "usage": {"input_tokens": "12"}})):
        frame = decode(line)
        assert isinstance(frame, ResultMessage)
        assert frame.permission_denials[0].tool_input == deep
        assert json.loads(encode(frame)) == json.loads(line)


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows with each conversion of a value to a model."""
    calls: list[Any] = []
    convert = msgspec.convert

    def counting(value: Any, kind: Any, **how: Any) -> Any:
        calls.append(kind)
        return convert(value, kind, **how)

    monkeypatch.setattr(msgspec, "convert", counting)
    return calls


def test_thousands_of_wrong_items_cost_few_conversions(conversions: list[Any]) -> None:
    raw = {"type": "result", "subtype": "success", "is_error": False, "permission_denials": [{}, 5] * 12_000}
    line = json.dumps(raw)
    assert len(line) > 80_000
    frame = decode(line)
    assert isinstance(frame, ResultMessage)
    assert frame.raw == raw
    assert 1 < len(conversions) <= 100


def test_thousands_of_unknown_blocks_of_one_type_cost_few_conversions(conversions: list[Any]) -> None:
    blocks = [{"type": "hologram", "n": n} for n in range(3000)]
    raw = {"type": "assistant", "message": {"role": "assistant", "content": blocks}}
    frame = decode(json.dumps(raw))
    assert isinstance(frame, AssistantMessage)
    assert [block.raw for block in frame.content] == blocks
    assert all(isinstance(block, UnknownBlock) for block in frame.content)
    assert len(conversions) == 2


def test_thousands_of_distinct_unknown_blocks_cost_few_conversions(conversions: list[Any]) -> None:
    blocks = [{"type": f"hologram {n}"} for n in range(4000)]
    raw = {"type": "assistant", "message": {"role": "assistant", "content": blocks}}
    line = json.dumps(raw)
    assert len(line) > 80_000
    frame = decode(line)
    assert isinstance(frame, MalformedFrame)
    assert frame.raw == raw
    assert encode(frame) == line.encode() + b"\n"
    assert 1 < len(conversions) <= 100


def test_a_line_break_between_fields_stays_one_line() -> None:
    frame = decode('{"type":\r\n"keep_alive",\n"new": "a\\nb"}\n')
    line = encode(frame)
    assert line.count(b"\n") == 1
    assert json.loads(line) == frame.raw == {"type": "keep_alive", "new": "a\nb"}
