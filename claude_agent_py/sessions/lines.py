"""Read the lines of a transcript, forwards or backwards, in bounded memory.

A transcript is a JSON Lines file that grows while its CLI runs. A `Snapshot` is the file at one size: it ignores
later lines, so that two passes see the same lines. All calls block.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Final

from claude_agent_py._base.bounded_reading import LINE_BYTES, lines_of, open_regular

CHUNK: Final = 1024 * 1024
_BUFFER: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line of a transcript that was skipped, wholly or in part."""

    offset: int
    """The position of the line in the file, in bytes."""
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A transcript file at one moment."""

    path: str
    size: int
    owner: object = field(default=None, repr=False, compare=False)
    """Keeps a temporary file in existence; None for a file of the CLI."""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file. Raises OSError if it is not a regular file."""
        with os.fdopen(open_regular(self.path), "rb", _BUFFER) as file:
            yield file

    def forwards(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield each line's offset and content, without the line break. The content of an overlong line is None."""
        with self.open() as file:
            yield from lines_of(file, 0, self.size)

    def backwards(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the lines like `forwards`, last line first."""
        with self.open() as file:
            end = self.size
            rest = _PartialLine()
            while end > 0:
                size = min(CHUNK, end)
                end -= size
                file.seek(end)
                block = file.read(size)
                first, *others = block.split(b"\n")
                start = end + len(block)
                for piece in reversed(others):
                    start -= len(piece)
                    yield start, rest.complete(piece)
                    start -= 1
                rest.add(first)
            if rest:
                yield 0, rest.complete(b"")


class _PartialLine:
    """The pieces of a line whose start has not been read yet, last piece first."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._size)

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > LINE_BYTES:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def complete(self, piece: bytes) -> bytes | None:
        """Return the complete line, which starts with `piece`, and clear the pieces. None if the line is too long."""
        if not self._size:
            return piece
        self.add(piece)
        line = None if self._size > LINE_BYTES else b"".join(reversed(self._pieces))
        self._pieces.clear()
        self._size = 0
        return line
