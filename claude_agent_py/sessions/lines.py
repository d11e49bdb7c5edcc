"""Read the lines of a transcript, forwards or backwards, in bounded memory.

A transcript is a JSON Lines file that grows while its CLI runs. A `Snapshot` is the file at one size: it ignores
later lines, so that two passes see the same lines. All calls block.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Final

from claude_agent_py._base.bounded_reading import lines_of, open_regular

CHUNK: Final = 1024 * 1024
LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest line that is read; longer ones are skipped. A request of the API has at most half."""
COPIED_BYTES: Final = 256 * 1024 * 1024
"""The longest line that is copied. Longer ones are an error: a copy must not lack a line silently."""
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
    uid: int | None = None
    """The user whose file it must be; None if that does not matter."""

    def open(self) -> IO[bytes]:
        """Open the file. Raises OSError if it is not a regular file, or is of another user."""
        return os.fdopen(open_regular(self.path, uid=self.uid), "rb", _BUFFER)

    def forwards(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield each line's offset and content, without the line break. The content of an overlong line is None."""
        with self.open() as file:
            yield from lines_of(file, 0, self.size, most_bytes=LINE_BYTES)

    def copied_lines(self) -> Iterator[bytes]:
        """Yield the lines of the file for a copy. Raises OSError if a line is longer than `COPIED_BYTES`."""
        with self.open() as file:
            for offset, line in lines_of(file, 0, self.size, most_bytes=COPIED_BYTES):
                if line is None:
                    reason = f"the line at {offset} has more than {COPIED_BYTES} bytes and cannot be copied"
                    raise OSError(errno.EFBIG, reason, self.path)
                yield line

    def backwards(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the lines like `forwards`, last line first."""
        with self.open() as file:
            end = self.size
            rest: list[bytes] = []  # the end of a line whose start has not been read yet, last piece first
            length = 0
            while end > 0:
                size = min(CHUNK, end)
                end -= size
                file.seek(end)
                block = file.read(size)
                first, *others = block.split(b"\n")
                start = end + len(block)
                for piece in reversed(others):
                    start -= len(piece)
                    length += len(piece)
                    if start < self.size:  # nothing is after the last line break
                        yield start, None if length > LINE_BYTES else b"".join((piece, *reversed(rest)))
                    start -= 1
                    rest, length = [], 0
                length += len(first)
                rest.append(first)
                if length > LINE_BYTES:
                    rest.clear()
            if self.size:
                yield 0, None if length > LINE_BYTES else b"".join(reversed(rest))
