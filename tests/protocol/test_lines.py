"""Lines, and the outlines of those that are not decoded: the same in any chunks, and bounded whatever comes."""

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, strategies as st

from claude_agent_py._base.lines import EVIDENCE_BYTES, LineBuffer, OversizeLine
from claude_agent_py._journal.skimming import MAX_VALUE, LineOutline, Skimmer

PIECES = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"x")), max_size=8)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut at these places (which may repeat: then a piece is empty)."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def read(chunks: list[bytes], limit: int) -> tuple[list[bytes | OversizeLine], list[bytes | OversizeLine]]:
    buffer = LineBuffer(limit)
    return [line for chunk in chunks for line in buffer.feed(chunk)], buffer.end()


@given(PIECES, st.binary(max_size=12).filter(lambda rest: b"\n" not in rest), st.lists(st.integers(0, 200)))
def test_any_chunking_gives_the_same_lines(lines: list[bytes], rest: bytes, places: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines) + rest
    found, half = read(cut(data, places), limit=6)
    assert found == [line if len(line) <= 6 else OversizeLine(len(line), line) for line in lines]
    whole = rest if len(rest) <= 6 else OversizeLine(len(rest), rest)
    assert half == ([whole] if rest else [])


def test_a_line_as_long_as_the_limit_is_a_line() -> None:
    assert read([b"abc\nabcd\n"], limit=3) == ([b"abc", OversizeLine(4, b"abcd")], [])


def test_half_a_line_comes_at_the_end_and_only_once() -> None:
    buffer = LineBuffer(10)
    assert buffer.feed(b"whole\nha") == [b"whole"]
    assert buffer.feed(b"lf") == []
    assert buffer.end() == [b"half"]
    assert buffer.end() == []


def test_half_a_line_that_is_too_long_is_reported_as_such() -> None:
    assert read([b"too ", b"long"], limit=3) == ([], [OversizeLine(8, b"too long")])


def test_empty_lines_are_lines() -> None:
    assert read([b"\n", b"\na\n\n"], limit=10) == ([b"", b"", b"a", b""], [])


def test_lines_after_an_oversize_line_are_read() -> None:
    found, _ = read([b"x" * 20, b"x" * 20 + b"\nnext", b"\n"], limit=8)
    assert found == [OversizeLine(40, b"x" * 40), b"next"]


def test_of_a_line_that_is_too_long_only_the_head_is_kept() -> None:
    buffer = LineBuffer(1000)
    chunk = b"x" * 10_000
    tracemalloc.start()
    try:
        for _ in range(1000):
            buffer.feed(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * EVIDENCE_BYTES
    assert buffer.feed(b"\n") == [OversizeLine(10_000_000, b"x" * EVIDENCE_BYTES)]


def test_carriage_returns_and_other_line_breaks_are_content() -> None:
    text = "a\r b\u2028c\x85d".encode()
    assert read([text + b"\r\n"], limit=100) == ([text + b"\r"], [])


# Outlines


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


def test_an_outline_takes_little_memory_whatever_comes() -> None:
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
