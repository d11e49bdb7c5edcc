"""Whatever comes, `decode` gives a value; what it gives, `encode` writes back."""

import json
from typing import Any

from hypothesis import given, strategies as st
from recordings_loader import all_frames, as_line
from wire_values import SUBTYPES, TYPES

from claude_agent_py import MalformedFrame, UnknownMessage
from claude_agent_py.wire import decode, encode

text = st.text(max_size=20)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | text
)
names = text | st.sampled_from(["type", "subtype", "message", "role", "content", "request", "event", "task_id", "uuid"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5), max_leaves=20
)
tags = st.sampled_from(["system", *TYPES]) | text
subtypes = st.sampled_from(SUBTYPES) | text
objects = st.builds(
    lambda rest, kind, subtype: {**rest, "type": kind, "subtype": subtype},
    st.dictionaries(names, values, max_size=6),
    tags,
    subtypes,
) | st.dictionaries(names, values, max_size=6)

EXAMPLES = list({(frame["type"], frame.get("subtype")): frame for _, _, frame in all_frames()}.values())


@given(st.binary(max_size=200))
def test_any_bytes_give_a_frame(line: bytes) -> None:
    frame = decode(line)
    assert isinstance(frame, MalformedFrame | UnknownMessage)
    assert encode(frame).endswith(b"\n")


@given(st.text(alphabet=st.characters(), max_size=100))
def test_any_text_gives_a_frame(line: str) -> None:
    assert encode(decode(line)).endswith(b"\n")


@given(objects)
def test_any_object_comes_back(value: dict[str, Any]) -> None:
    frame = decode(as_line(value))
    assert json.loads(encode(frame)) == frame.raw == value


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_frame_with_one_field_changed_comes_back_or_names_the_place(example: dict[str, Any], data: Any) -> None:
    field = data.draw(st.sampled_from(sorted(example)))
    changed = {**example, field: data.draw(values)}
    frame = decode(as_line(changed))
    assert json.loads(encode(frame)) == frame.raw == changed
    if isinstance(frame, MalformedFrame) and field not in {"type", "subtype"}:  # another type lacks other fields
        assert frame.location[0] == field


@given(st.sampled_from(EXAMPLES), st.data())
def test_half_a_line_is_malformed(example: dict[str, Any], data: Any) -> None:
    line = as_line(example).rstrip()
    cut = line[: data.draw(st.integers(0, len(line) - 1))]
    frame = decode(cut)
    assert isinstance(frame, MalformedFrame)
    assert frame.line == cut


odd = values | st.sampled_from(
    [{"type": "(unknown)", "raw": {}}, {"type": "new"}, {"subtype": []}, [{"type": "new", "raw": 5}]]
)


def with_one_change(value: Any, data: Any) -> Any:
    """Return a JSON value with something else in one place, at any depth."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 4)):
        key = data.draw(st.sampled_from([*value, "raw", "<source>"]))
        return {**value, key: with_one_change(value.get(key), data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 4)):
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], with_one_change(value[at], data), *value[at + 1 :]]
    return data.draw(odd)


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_frame_changed_anywhere_comes_back_and_can_be_looked_at(example: dict[str, Any], data: Any) -> None:
    changed = with_one_change(example, data)
    frame = decode(as_line(changed))
    assert json.loads(encode(frame)) == frame.raw == changed
    assert type(frame).__name__ in repr(frame)
    for name in (name for name in dir(type(frame)) if isinstance(getattr(type(frame), name), property)):
        getattr(frame, name)
