"""Lines: any chunking gives the same ones, and memory is bounded whatever comes."""

import itertools
import tracemalloc

from hypothesis import given, strategies as st

from claude_agent_py._base.lines import EVIDENCE_BYTES, LineBuffer, OversizeLine

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
