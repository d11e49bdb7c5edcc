"""A broken line is a value that says what is wrong and where, and keeps everything that came."""

import json
import pickle
from typing import Any

import pytest

from claude_agent_py import MalformedFrame, TextBlock, UnknownMessage, UserMessage
from claude_agent_py.messages import UserContent
from claude_agent_py.wire import decode, encode

ASSISTANT = {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}}


def malformed(line: bytes | str) -> MalformedFrame:
    frame = decode(line)
    assert isinstance(frame, MalformedFrame), frame
    return frame


def assistant_with(*blocks: Any) -> str:
    return json.dumps({"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}})


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"", "not JSON: Expecting value at character 0"),
        (b"   \n", "not JSON: Expecting value at character 4"),
        (b"Sandbox disabled\n", "not JSON: Expecting value at character 0"),
        (b'{"type":"keep_alive"', "not JSON: Expecting ',' delimiter at character 20"),
        (b'{"type":"keep_alive"}{"type":"keep_alive"}', "not JSON: Extra data at character 21"),
        (b'{"type":"keep_\xffalive"}', "not UTF-8: invalid start byte at byte 14"),
        ('{"type":"x"', "not JSON: Expecting ',' delimiter at character 11"),
        ("[" * 100_000, "nested more than 200 levels deep"),
        ('{"type":"keep_alive","x":' + '{"a":' * 200 + "1" + "}" * 201, "nested more than 200 levels deep"),
        ('{"type":' + "9" * 5000 + "}", "invalid JSON: "),
        ('{"type":"keep_alive","x":NaN}', "invalid JSON: NaN is not JSON"),
    ],
)
def test_invalid_json_is_distinguished_from_wrong_fields(line: bytes | str, error: str) -> None:
    frame = malformed(line)
    assert frame.error.startswith(error)
    assert frame.line == (line if isinstance(line, bytes) else line.encode())
    assert frame.raw is None
    assert frame.location == ()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("[]", "an array"),
        ('"text"', "a string"),
        ("1", "a number"),
        ("1.5", "a number"),
        ("true", "a boolean"),
        ("null", "null"),
    ],
)
def test_a_frame_is_an_object(line: str, kind: str) -> None:
    frame = malformed(line)
    assert frame.error == f"not a JSON object but {kind}"
    assert frame.raw == json.loads(line)


@pytest.mark.parametrize(
    ("line", "error", "location"),
    [
        ("{}", "type: missing", ("type",)),
        ('{"type":5}', "type: must be a string", ("type",)),
        ('{"type":null}', "type: must be a string", ("type",)),
        ('{"type":"system"}', "subtype: missing", ("subtype",)),
        ('{"type":"system","subtype":["init"]}', "subtype: must be a string", ("subtype",)),
        ('{"type":"assistant"}', "Object missing required field `message`", ("message",)),
        ('{"type":"assistant","message":"hi"}', "message: Expected `object`, got `str`", ("message",)),
        (
            '{"type":"user","message":{"role":"assistant","content":"hi"}}',
            "message.role: Invalid enum value 'assistant'",
            ("message", "role"),
        ),
        (
            assistant_with({"type": "text"}),
            "message.content.0: Object missing required field `text`",
            ("message", "content", 0, "text"),
        ),
        (
            assistant_with({"type": "text", "text": "a"}, {"type": "text", "text": 5}),
            "message.content.1.text: Expected `str`, got `int`",
            ("message", "content", 1, "text"),
        ),
        (
            assistant_with({"text": "a"}),
            "message.content.0: Object missing required field `type`",
            ("message", "content", 0, "type"),
        ),
        (assistant_with("a"), "message.content.0: Expected `object`, got `str`", ("message", "content", 0)),
        (
            assistant_with({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}),
            "message.content.0.content.0: Object missing required field `source`",
            ("message", "content", 0, "content", 0, "source"),
        ),
        (
            '{"type":"system","subtype":"task_started"}',
            "Object missing required field `task_id`",
            ("task_id",),
        ),
        (
            '{"type":"system","subtype":"task_updated","task_id":"a","patch":{"end_time":"now"}}',
            "patch.end_time: Expected `int | float | null`, got `str`",
            ("patch", "end_time"),
        ),
        (
            '{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"a"},{}]}',
            "tasks.1: Object missing required field `task_id`",
            ("tasks", 1, "task_id"),
        ),
        (
            '{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}}',
            "event.delta: Object missing required field `text`",
            ("event", "delta", "text"),
        ),
        (
            '{"type":"control_request","request_id":"r","request":{"subtype":{}}}',
            "request.subtype: Expected `str`, got `dict`",
            ("request", "subtype"),
        ),
        (
            '{"type":"control_response","response":{"subtype":"error","request_id":"r"}}',
            "response: Object missing required field `error`",
            ("response", "error"),
        ),
        (
            '{"type":"control_response","response":{"subtype":"maybe","request_id":"r"}}',
            "response.subtype: Invalid value 'maybe'",
            ("response", "subtype"),
        ),
        (
            '{"type":"result","subtype":"success","is_error":"no"}',
            "is_error: Expected `bool`, got `str`",
            ("is_error",),
        ),
    ],
)
def test_a_known_frame_with_wrong_fields_names_the_place(
    line: str, error: str, location: tuple[str | int, ...]
) -> None:
    frame = malformed(line.encode())
    assert frame.error.startswith(error)
    assert frame.location == location
    assert frame.raw == json.loads(line)
    assert frame.line == line.encode()


def test_the_deepest_error_is_the_one_that_is_reported() -> None:
    blocks = [{"type": "text", "text": "a", "citations": [{"type": "page_location", "title": 5}]}]
    frame = malformed(json.dumps({"type": "user", "message": {"role": "user", "content": blocks}}))
    assert frame.location == ("message", "content", 0, "citations", 0, "title")


@pytest.mark.parametrize("depth", [150, 300, 900, 990, 5000, 200_000])
def test_any_depth_of_nesting_gives_a_frame(depth: int) -> None:
    line = (
        '{"type":"user","message":{"role":"user","content":"hi"},"tool_use_result":' + "[" * depth + "]" * depth + "}"
    )
    frame = decode(line)
    assert isinstance(frame, UserMessage if depth < 200 else UserMessage | MalformedFrame)
    assert encode(frame) == line.encode() + b"\n"
    unknown = decode(line.replace("user", "no such type"))
    assert str(unknown.type) == "no such type" if isinstance(unknown, UnknownMessage) else depth > 200


def test_nothing_is_converted_on_the_way_in() -> None:
    assert malformed('{"type":"tool_progress","tool_use_id":"t","elapsed_time_seconds":"3"}').location
    assert malformed('{"type":"tool_progress","tool_use_id":7}').location
    assert malformed('{"type":"system","subtype":"task_started","task_id":"a","ambient":1}').location


@pytest.mark.parametrize("line", [b"garbage", b"garbage\n", b"garbage\r\n", "garbage", b"\xff\xfe", '{"type":5}'])
def test_encoding_gives_back_the_line(line: bytes | str) -> None:
    text = line.encode() if isinstance(line, str) else line
    assert encode(malformed(line)) == text.rstrip(b"\r\n") + b"\n"


def test_a_malformed_frame_can_be_pickled_compared_and_shown() -> None:
    frame = malformed('{"type":"assistant"}')
    assert pickle.loads(pickle.dumps(frame)) == frame
    assert "Object missing required field `message`" in repr(frame)


def test_one_can_be_made_for_a_line_that_was_too_long_to_keep() -> None:
    frame = MalformedFrame(line=b"head of it", error="longer than 10 bytes")
    assert (frame.raw, frame.location) == (None, ())


# What does no harm ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dress",
    [
        lambda line: line,
        lambda line: line + b"\n",
        lambda line: line + b"\r\n",
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: b"  " + line + b" \t\n",
        lambda line: line.decode(),
        lambda line: "\ufeff" + line.decode() + "\n",
    ],
    ids=["bare", "newline", "crlf", "bom", "spaces", "text", "text with bom"],
)
def test_white_space_around_json_is_ignored(dress: Any) -> None:
    assert json.loads(encode(decode(dress(json.dumps(ASSISTANT).encode())))) == ASSISTANT


def test_half_an_emoji_becomes_the_replacement_character() -> None:
    line = json.dumps(ASSISTANT).replace("hi", r"cut \ud83d here, whole \ud83d\ude00")
    frame = decode(line)
    assert not isinstance(frame, MalformedFrame)
    assert json.loads(encode(frame))["message"]["content"][0]["text"] == "cut \ufffd here, whole \U0001f600"


def test_half_an_emoji_in_a_broken_frame_does_not_hide_what_is_wrong() -> None:
    assert malformed(r'{"type":"assistant","message":"\ud83d"}').error == "message: Expected `object`, got `str`"


def test_half_an_emoji_in_text_that_python_made_does_not_break_encoding() -> None:
    assert encode(malformed('"\ud83d"')) == '"\ud83d"\n'.encode("utf-8", "surrogatepass")
    frame = decode('{"type":"no such type","text":"\ud83d"}')
    assert json.loads(encode(frame)) == {"type": "no such type", "text": "\ufffd"}
    message = UserMessage(message=UserContent(role="user", content="hi"), tool_use_result={"a": "\ud83d"})
    assert json.loads(encode(message))["tool_use_result"] == {"a": "\ufffd"}


def test_line_separators_are_escaped() -> None:
    message = UserMessage(message=UserContent(role="user", content=[TextBlock(text="a\u2028b\u2029c\nd\x85e")]))
    line = encode(message)
    assert line.count(b"\n") == 1
    assert len(line.decode().split("\u2028")) == len(line.decode().split("\u2029")) == 1
    assert decode(line) == message


@pytest.mark.parametrize("wrong", [{"type": "user"}, None, 5])
def test_values_that_are_no_line_or_frame_raise(wrong: Any) -> None:
    kind = type(wrong).__name__
    with pytest.raises(TypeError, match=rf"decode\(\) takes bytes or str, not {kind}"):
        decode(wrong)
    with pytest.raises(TypeError, match=rf"encode\(\) takes a frame, not {kind}; .*encode_json"):
        encode(wrong)


@pytest.mark.parametrize("line", ['{"type": "assistant", "message": 1}', '{"type": "assis', "[]"])
def test_a_malformed_frame_has_a_type_that_no_message_has(line: str) -> None:
    frame = decode(line)
    assert isinstance(frame, MalformedFrame)
    assert frame.type == "malformed"
