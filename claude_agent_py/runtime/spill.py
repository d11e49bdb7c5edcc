"""Messages on disk: where a mailbox and the record of a run put what exceeds their memory.

Owns the temporary file and how a message is written to it: as its line, and where the line does not tell all, with a
note before it. Gives every message by its number, and forgets none before it is closed.
"""

import io
import json
import logging
import tempfile
import weakref
from array import array
from typing import IO, Any, Final

from claude_agent_py.wire.codec import decode, encode, encode_json
from claude_agent_py.wire.unknown import MalformedFrame

logger = logging.getLogger("claude_agent_py")

BUFFER_BYTES: Final = 1024 * 1024


class Spill:
    """Messages in a temporary file, which is gone when it is closed or forgotten."""

    def __init__(self) -> None:
        self._file = _temporary_file()
        self._starts = array("Q")
        self._size = 0
        self.close = weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return len(self._starts)

    def append(self, message: Any, line: bytes = b"") -> None:
        """Write a message at the end; `line` saves encoding it, where decoding it gives the message again."""
        line = line + b"\n" if line else encode(message)
        if type(message) is MalformedFrame:  # what is wrong is not always to be seen: the line may be a part of one
            line = encode_json(message.error) + line
        self._file.seek(self._size)
        self._file.write(line)
        self._starts.append(self._size)
        self._size += len(line)

    def __getitem__(self, number: int) -> Any:
        """Read the message with that number, counted from 0."""
        self._file.seek(self._starts[number])
        line = self._file.readline().removesuffix(b"\n")
        return self._malformed(json.loads(line)) if line.startswith(b'"') else decode(line)

    def _malformed(self, error: str) -> MalformedFrame:
        line = self._file.readline().removesuffix(b"\n")
        frame = decode(line)
        return frame if isinstance(frame, MalformedFrame) and frame.error == error else MalformedFrame(line, error)


def _temporary_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(prefix="claude-agent-py-", buffering=BUFFER_BYTES)
    except OSError as error:
        logger.warning("messages that wait are kept in memory, however many: no temporary file can be made (%s)", error)
        return io.BytesIO()
