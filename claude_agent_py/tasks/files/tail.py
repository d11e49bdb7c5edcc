"""Read a growing file in pieces, and detect that it was truncated or replaced.

All calls block. The file is closed between reads.
"""

import os
from dataclasses import dataclass
from typing import Final

from claude_agent_py._untrusted import open_regular

CHUNK_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """The result of one read."""

    data: bytes
    is_end: bool
    """Whether the end of the file was reached."""
    restarted: bool = False
    """Whether the file was truncated or replaced, so that this is its beginning again."""


class Tail:
    """Reads a file from where the last read stopped."""

    def __init__(self, *, offset: int = 0) -> None:
        self._offset = offset
        self._identity: tuple[int, int] | None = None

    def read(self, path: str, limit: int = CHUNK_BYTES) -> Piece:
        """Read at most `limit` further bytes. Raises OSError if the path is not a regular file."""
        descriptor = open_regular(path)
        try:
            facts = os.fstat(descriptor)
            identity = (facts.st_dev, facts.st_ino)
            known = self._identity or identity
            restarted = facts.st_size < self._offset or identity != known
            self._identity = identity
            self._offset = 0 if restarted else self._offset
            data = _read_at(descriptor, self._offset, limit)
        finally:
            os.close(descriptor)
        self._offset += len(data)
        return Piece(data, len(data) < limit, restarted)


def _read_at(descriptor: int, offset: int, limit: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    parts: list[bytes] = []
    while limit > 0:
        part = os.read(descriptor, limit)
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)
