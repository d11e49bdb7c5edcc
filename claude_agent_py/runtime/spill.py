"""Messages on disk: where a mailbox and the record of a run put what exceeds their memory.

Owns the temporary file and how a message is written to it: as its line, and where the line does not tell all, with a
note before it. Gives every message by its number, and forgets none before it is closed. While the file cannot be
written, messages stay in memory, as many as the limit allows.
"""

import contextlib
import io
import json
import logging
import tempfile
import weakref
from array import array
from typing import Any, Final

from claude_agent_py.errors import BacklogError
from claude_agent_py.wire.codec import decode, encode, encode_json
from claude_agent_py.wire.unknown import MalformedFrame

logger: logging.Logger = logging.getLogger("claude_agent_py")

BUFFER_BYTES: Final = 1024 * 1024
"""How much is written at once."""


class Spill:
    """Messages in a temporary file, which is gone when it is closed or forgotten.

    Args:
        memory_bytes: How much may stay in memory while the file cannot be written, at least `BUFFER_BYTES`.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = max(memory_bytes, BUFFER_BYTES)
        self._file, self._problem = _temporary_file()
        self._starts = array("Q")
        self._size = 0
        self._written = 0
        """How many bytes are in the file; those after them are pending."""
        self._pending = bytearray()
        self._write_at = BUFFER_BYTES
        """How much is pending when it is time to write."""
        self.close: Any = weakref.finalize(self, _close, self._file)

    def __len__(self) -> int:
        return len(self._starts)

    def append(self, message: Any, line: bytes = b"") -> None:
        """Write a message at the end; `line` saves encoding it, where decoding it gives the message again.

        Raises:
            BacklogError: It can neither be written nor kept in memory. What is there can still be read.
        """
        line = line + b"\n" if line else encode(message)
        if type(message) is MalformedFrame:  # what is wrong is not always to be seen: the line may be a part of one
            line = encode_json(message.error) + line
        self._pending += line
        if len(self._pending) >= self._write_at:
            self._write()
        if len(self._pending) > self._memory_bytes:
            self._written = min(self._written, self._size)
            del self._pending[self._size - self._written :]
            raise BacklogError(self._problem, self._memory_bytes)
        self._starts.append(self._size)
        self._size += len(line)

    def __getitem__(self, number: int) -> Any:
        """Read the message with that number, counted from 0.

        Raises:
            BacklogError: The file cannot be read.
        """
        last = number == len(self._starts) - 1
        line = self._read(self._starts[number], self._size if last else self._starts[number + 1])
        if not line.startswith(b'"'):
            return decode(line.removesuffix(b"\n"))
        error, _, line = line.partition(b"\n")
        return _malformed(line.removesuffix(b"\n"), json.loads(error))

    def _write(self) -> None:
        """Write what is pending, as far as there is room for it."""
        done = 0
        try:
            if self._file is not None:
                self._file.seek(self._written)
                with memoryview(self._pending) as pending:
                    while done < len(pending):
                        done += self._file.write(pending[done:])
        except OSError as error:
            self._problem = error.strerror or type(error).__name__
            logger.warning("messages that wait stay in memory: the temporary file cannot be written (%s)", error)
        del self._pending[:done]
        self._written += done
        self._write_at = len(self._pending) + BUFFER_BYTES

    def _read(self, start: int, end: int) -> bytes:
        on_disk = max(0, min(end, self._written) - start)
        data = bytearray()
        try:
            if on_disk and self._file is not None:
                self._file.seek(start)
                while len(data) < on_disk and (part := self._file.read(on_disk - len(data))):
                    data += part
        except OSError as error:
            raise BacklogError(error.strerror or type(error).__name__, self._memory_bytes) from error
        if len(data) < on_disk:
            raise BacklogError("the temporary file was cut", self._memory_bytes)
        first = max(start - self._written, 0)
        return bytes(data + self._pending[first : end - self._written]) if end > self._written else bytes(data)


def _malformed(line: bytes, error: str) -> MalformedFrame:
    frame = decode(line)
    return frame if isinstance(frame, MalformedFrame) and frame.error == error else MalformedFrame(line, error)


def _temporary_file() -> tuple[io.FileIO | None, str]:
    """Make the file; None where none can be made, and why."""
    try:
        file: Any = tempfile.TemporaryFile(prefix="claude-agent-py-", buffering=0)  # noqa: SIM115 - `Spill` closes it
    except OSError as error:
        logger.warning("messages that wait stay in memory: no temporary file can be made (%s)", error)
        return None, error.strerror or type(error).__name__
    return file, ""


def _close(file: io.FileIO | None) -> None:
    if file is not None:
        with contextlib.suppress(OSError):  # its descriptor is gone all the same
            file.close()
