"""Bytes to lines: cuts what the CLI writes, however it arrives in pieces.

Owns the bound on a line's length: a longer one is counted and dropped as it comes, and reported once. Knows nothing
of what a line says.
"""

from dataclasses import dataclass
from typing import Final

EVIDENCE_BYTES: Final = 4096
"""How much of a dropped line is kept to show what it was."""


@dataclass(frozen=True, slots=True)
class OversizeLine:
    """A line that was longer than the limit, and was dropped."""

    length: int
    """Its whole length, in bytes."""
    head: bytes
    """How it began."""


class LineBuffer:
    """Cuts a stream of bytes at newlines. Any chunking of the same bytes gives the same lines."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[bytes | OversizeLine]:
        """Take the next bytes and give the lines that they complete, without their newlines."""
        pieces = data.split(b"\n")
        rest = pieces.pop()
        lines: list[bytes | OversizeLine] = []
        if pieces and self._parts:
            self._hold(pieces.pop(0))
            lines.append(self._take())
        limit = self._limit
        if len(data) <= limit:  # then none of them is longer
            lines += pieces
        else:
            lines += [p if len(p) <= limit else OversizeLine(len(p), p[:EVIDENCE_BYTES]) for p in pieces]
        if rest:
            self._hold(rest)
        return lines

    def end(self) -> bytes | OversizeLine | None:
        """Return what stood after the last newline when the stream ended; None if nothing did."""
        return self._take() if self._parts else None

    def _hold(self, data: bytes) -> None:
        self._held += len(data)
        self._parts.append(data)
        if self._held > self._limit:  # it will be dropped: keep only what shows what it was
            self._parts = [b"".join(self._parts)[:EVIDENCE_BYTES]]

    def _take(self) -> bytes | OversizeLine:
        whole = b"".join(self._parts)
        length, self._held, self._parts = self._held, 0, []
        return OversizeLine(length, whole[:EVIDENCE_BYTES]) if length > self._limit else whole
