"""`Tail`: read a file that another program is writing, piece by piece. Only one piece is in memory at a time."""

import os
from typing import Final

from msgspec import Struct

from claude_agent_py._base.bounded_reading import open_regular

PIECE_BYTES: Final = 64 * 1024
_LAST: Final = 256
"""How many bytes tell a file from one that replaced it, which may have its inode."""


class Piece(Struct, frozen=True):
    """The result of one read."""

    data: bytes
    is_end: bool
    """Whether the end of the file was reached."""
    restarted: bool = False
    """Whether the file was truncated or replaced, so that this is its beginning again."""


class Tail:
    """Reads a file incrementally: each read continues after the previous one."""

    def __init__(self) -> None:
        self._offset = 0
        self._identity: tuple[int, int] | None = None
        self._last = b""
        """The last bytes before the offset."""

    def read(self, path: str, uid: int | None = None) -> Piece:
        """Read at most `PIECE_BYTES` more. Blocks.

        Raises OSError if the path is a link, not a regular file, or one of another user than `uid`.
        """
        with os.fdopen(open_regular(path, follow_links=False, uid=uid), "rb") as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            file.seek(self._offset - len(self._last))
            data = file.read(len(self._last) + PIECE_BYTES)
            restarted = self._identity not in (None, identity) or not data.startswith(self._last)
            if restarted:
                self._offset, self._last = 0, b""
                file.seek(0)
                data = file.read(PIECE_BYTES)
        self._identity = identity
        piece = data[len(self._last) :]
        self._offset += len(piece)
        self._last = data[-_LAST:]
        return Piece(piece, len(piece) < PIECE_BYTES, restarted)
