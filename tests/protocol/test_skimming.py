"""The outline of a line that is not decoded: the same in any chunks, by place, and bounded."""

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, strategies as st

from claude_agent_py._journal.skimming import MAX_VALUE, LineOutline, Skimmer

TEXTS = st.text(max_size=80)
"""Texts that are kept: a character may be escaped in twelve bytes."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def skim(line: bytes, *places: int) -> LineOutline:
    """Return the outline of a line that arrives in pieces, cut at these places."""
    skimmer = Skimmer()
    bounds = [0, *sorted(place % (len(line) + 1) for place in places), len(line)]
    for start, end in itertools.pairwise(bounds):
        skimmer.feed(line[start:end])
    return skimmer.end()


def prune(value: Any, levels: int = 3) -> Any:
    """Return a value as an outline has it."""
    if isinstance(value, dict | list) and levels == 0:
        return None
    if isinstance(value, dict):
        return {key: prune(item, levels - 1) for key, item in value.items()}
    return [prune(item, levels - 1) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.booleans(), st.lists(st.integers(0, 2000), max_size=8))
def test_any_chunking_gives_the_same_outline(value: Any, ascii_only: bool, places: list[int]) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert skim(line, *places).value == prune(json.loads(line.decode(errors="replace")))


@pytest.mark.parametrize("size", [MAX_VALUE - 2, MAX_VALUE, 70_000])
@pytest.mark.parametrize("chunk", [1, 7, 65536])
def test_only_large_values_are_dropped_wherever_they_are(size: int, chunk: int) -> None:
    text = ('\\"' * size)[:size] + "x"
    value = {
        "a": text,
        "b": {text: 1, "id": "r"},
        "n": 5,
        "c": [text, "kept"],
        "d": {"e": {"f": {"g": text}}},
        "z": "end",
    }
    line = json.dumps(value).encode()
    outline = skim(line, *range(0, len(line), chunk))
    assert outline.value == {
        "a": None,
        "b": {"": 1, "id": "r"},
        "n": 5,
        "c": [None, "kept"],
        "d": {"e": {"f": None}},
        "z": "end",
    }
    assert outline.incomplete == {"a", "c", "d"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": "right", "x": {"y": {"z": {"id": "wrong"}, "id": "wrong"}}, "text": "\\",\\"id\\":\\"wrong"}',
        b'{"id": "right", "x": [{"id": "wrong"}, "id", "wrong"]}',
        b'{"x": "}", "id": "right", "y": "{\\"id\\": \\"wrong\\"}"}',
        b'{"id": "wrong", "id": "right"}',  # as JSON parsers have it
        b'{"a\xff": "\xff", "id": "right", "n": 1e999, "m": NaN}',
        b'{"id": "right", "x": "unfinished, \\"id\\": \\"wrong\\"',
        b'{"i\\u0064": "right", "x": [[[[[[',
    ],
)
def test_a_field_is_found_by_its_place(line: bytes) -> None:
    assert skim(line).value["id"] == "right"


def test_memory_is_bounded_whatever_comes() -> None:
    skimmer = Skimmer()
    tracemalloc.start()
    try:
        skimmer.feed(b'{"type": "control_request", "many": [')
        deep, texts = b"{" * 65536, b'"abc", ' * 9000  # these take long
        for piece, times in ((b"1" * 65536, 20), (texts, 3), (deep, 3), (b'"' + b"\\" * 65536, 20), (b"x" * 65536, 20)):
            for _ in range(times):
                skimmer.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert skimmer.end().value["type"] == "control_request"
