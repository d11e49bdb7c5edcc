"""`Spill`: messages in a temporary file, for mailboxes and records that exceed their memory.

A message is written as its line, with a note before it if the line alone does not reproduce the message.
"""

import contextlib
import io
import json
import logging
import tempfile
import weakref
from array import array
from typing import Any, Final

from claude_agent_py._errors import BacklogError
from claude_agent_py.wire.codec import decode, encode, encode_json
from claude_agent_py.wire.unknown import MalformedFrame

logger: logging.Logger = logging.getLogger("claude_agent_py")

BUFFER_BYTES: Final = 1024 * 1024
"""How many bytes one write takes."""


class Spill:
    """Messages in a temporary file, which is deleted when this is closed or collected.

    Args:
        memory_bytes: How much may stay in memory if the file cannot be written, at least `BUFFER_BYTES`.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = max(memory_bytes, BUFFER_BYTES)
        self._file, self._problem = _temporary_file()
        self._starts = array("Q")
        self._size = 0
        self._written = 0
        """How many bytes are in the file; the rest is pending."""
        self._pending = bytearray()
        self._write_at = BUFFER_BYTES
        """Write when this many bytes are pending."""
        self.close: Any = weakref.finalize(self, _close, self._file)

    def __len__(self) -> int:
        return len(self._starts)

    def append(self, message: Any, line: bytes = b"") -> None:
        """Append a message. `line`, if decoding it reproduces the message, saves encoding it.

        Raises:
            BacklogError: It can neither be written nor kept in memory. Earlier messages can still be read.
        """
        line = line + b"\n" if line else encode(message)
        if type(message) is MalformedFrame:  # the line may be truncated, and the error would be lost
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
        """Read the message with that index.

        Raises:
            BacklogError: The file cannot be read.
        """
        last = number == len(self._starts) - 1
        line = self._read(self._starts[number], self._size if last else self._starts[number + 1])
        if not line.startswith(b'"'):
            return decode(line.removesuffix(b"\n"), report=False)
        error, _, line = line.partition(b"\n")
        return _make_malformed(line.removesuffix(b"\n"), json.loads(error))

    def _write(self) -> None:
        """Write the pending data until the disk is full."""
        done = 0
        try:
            if self._file is not None:
                self._file.seek(self._written)
                with memoryview(self._pending) as pending:
                    while done < len(pending):
                        done += self._file.write(pending[done:])
        except OSError as error:
            self._problem = error.strerror or type(error).__name__
            logger.warning("waiting messages stay in memory: the temporary file cannot be written (%s)", error)
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
            raise BacklogError("the temporary file was truncated", self._memory_bytes)
        first = max(start - self._written, 0)
        return bytes(data + self._pending[first : end - self._written]) if end > self._written else bytes(data)


def _make_malformed(line: bytes, error: str) -> MalformedFrame:
    frame = decode(line, report=False)
    return frame if isinstance(frame, MalformedFrame) and frame.error == error else MalformedFrame(line, error)


def _temporary_file() -> tuple[io.FileIO | None, str]:
    """Return a new file, or None and the reason why it cannot be created."""
    try:
        file: Any = tempfile.TemporaryFile(prefix="claude-agent-py-", buffering=0)  # noqa: SIM115 - `Spill` closes it
    except OSError as error:
        logger.warning("waiting messages stay in memory: cannot create a temporary file (%s)", error)
        return None, error.strerror or type(error).__name__
    return file, ""


def _close(file: io.FileIO | None) -> None:
    if file is not None:
        with contextlib.suppress(OSError):  # the descriptor is closed all the same
            file.close()
