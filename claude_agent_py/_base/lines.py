"""`LineBuffer`: splits a byte stream into lines, and drops lines beyond a maximum length."""

from typing import Final, NamedTuple

EVIDENCE_BYTES: Final = 4096
"""How many bytes of a dropped line are kept, to identify it."""


class OversizeLine(NamedTuple):
    """A line that was dropped because it exceeds the limit."""

    length: int
    """The length of the whole line, in bytes."""
    head: bytes
    """The beginning of the line."""


class LineBuffer:
    """Splits a stream of bytes at newlines, however it is chunked."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
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
            lines += [p if len(p) <= limit else OversizeLine(len(p), p[:EVIDENCE_BYTES]) for p in pieces]
        if rest:
            self._hold(rest)
        return lines

    def end(self) -> list[bytes | OversizeLine]:
        """Return the last line at the end of the stream, if it is unterminated."""
        return [self._take()] if self._parts else []

    def _hold(self, data: bytes) -> None:
        self._held += len(data)
        self._parts.append(data)
        if self._held > self._limit:  # it will be dropped: keep only its beginning
            self._parts = [b"".join(self._parts)[:EVIDENCE_BYTES]]

    def _take(self) -> bytes | OversizeLine:
        whole = b"".join(self._parts)
        length, self._held, self._parts = self._held, 0, []
        return OversizeLine(length, whole[:EVIDENCE_BYTES]) if length > self._limit else whole
