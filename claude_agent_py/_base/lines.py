"""Split byte streams into lines: `LineBuffer` drops lines beyond a maximum length, `StderrTail` keeps the end."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

EVIDENCE_BYTES: Final = 4096
"""How many bytes of a dropped line are kept, to identify it."""


class OversizeLine(NamedTuple):
    """A line that was dropped because it exceeds the limit."""

    length: int
    """The length of the whole line, in bytes."""
    head: bytes
    """The beginning of the line."""
    outline: Any = None
    """The result of the `Reader` of the line; None without one."""


class Reader(Protocol):
    """Reads a line that is too long to keep, while it arrives."""

    def feed(self, data: bytes, /) -> None:
        """Read the next chunk."""

    def end(self) -> Any:
        """Return the result at the end of the line."""


class LineBuffer:
    """Splits a stream of bytes at newlines, however it is chunked.

    Args:
        max_line_bytes: The limit.
        make_reader: Makes a reader for each line beyond the limit.
    """

    def __init__(self, max_line_bytes: int, make_reader: Callable[[], Reader] | None = None) -> None:
        self._limit = max_line_bytes
        self._make_reader = make_reader
        self._reader: Reader | None = None
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[bytes | OversizeLine]:
        """Add bytes and return the lines that they complete, without newlines."""
        pieces = data.split(b"\n")
        rest = pieces.pop()
        lines: list[bytes | OversizeLine] = []
        if pieces and self._parts:
            self._hold(pieces.pop(0))
            lines.append(self._take())
        limit = self._limit
        if len(data) <= limit:  # no line can be longer
            lines += pieces
        else:
            lines += [piece if len(piece) <= limit else self._drop(piece) for piece in pieces]
        if rest:
            self._hold(rest)
        return lines

    def end(self) -> list[bytes | OversizeLine]:
        """Return the last line at the end of the stream, if it is unterminated."""
        return [self._take()] if self._parts else []

    def _hold(self, data: bytes) -> None:
        was_too_long = self._held > self._limit
        self._held += len(data)
        self._parts.append(data)
        if self._held > self._limit:  # it will be dropped: keep only its beginning
            whole = b"".join(self._parts)
            if self._make_reader is not None:
                self._reader = self._reader or self._make_reader()
                self._reader.feed(data if was_too_long else whole)
            self._parts = [whole[:EVIDENCE_BYTES]]

    def _take(self) -> bytes | OversizeLine:
        whole, length, reader = b"".join(self._parts), self._held, self._reader
        self._held, self._parts, self._reader = 0, [], None
        if length <= self._limit:
            return whole
        return OversizeLine(length, whole[:EVIDENCE_BYTES], None if reader is None else reader.end())

    def _drop(self, line: bytes) -> OversizeLine:
        self._hold(line)
        dropped = self._take()
        assert isinstance(dropped, OversizeLine)  # noqa: S101 - it exceeds the limit
        return dropped


class StderrTail:
    """The last bytes of stderr, and its whole lines as they come."""

    def __init__(self, max_bytes: int, on_line: Callable[[str], None]) -> None:
        self._max_bytes = max_bytes
        self._on_line = on_line
        self._tail = bytearray()
        self._is_cut = False
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Process data of stderr, `b""` at its end. A line that is longer than the tail is split."""
        if not data:
            if self._rest:
                self._on_line(self._rest.decode(errors="replace"))
                self._rest = b""
            return
        self._tail += data
        excess = max(0, len(self._tail) - self._max_bytes)
        self._is_cut = self._is_cut or excess > 0
        del self._tail[:excess]
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._max_bytes:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._on_line(line.decode(errors="replace").rstrip("\r"))

    def text(self) -> str:
        """Return the tail as text, without a line whose beginning was dropped: it may be the rest of a secret."""
        line_end = self._tail.find(b"\n") + 1 if self._is_cut else 0
        return self._tail[line_end:].decode(errors="replace")
