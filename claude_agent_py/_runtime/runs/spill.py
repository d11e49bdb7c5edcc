"""`Spill`: blocks of bytes in a temporary file, for messages that exceed the memory of their log."""

import contextlib
import io
import logging
import os
import sys
import tempfile
import threading
import weakref
from array import array
from typing import Any, Final

from claude_agent_py._errors import BacklogError

logger: logging.Logger = logging.getLogger("claude_agent_py")

BUFFER_BYTES: Final = 256 * 1024
"""How many bytes one write takes."""

_positioning: Final = threading.Lock()


class Spill:
    """Blocks of bytes in a temporary file, which is deleted when this is closed or collected.

    Args:
        memory_bytes: How much may stay in memory if the file cannot be written, at least `BUFFER_BYTES`.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = max(memory_bytes, BUFFER_BYTES)
        self._file, self._problem = _temporary_file()
        self._ends = array("Q", [0])
        """Where each block ends, after a 0."""
        self._written = 0
        """How many bytes are in the file; the rest is pending."""
        self._pending = bytearray()
        self._write_at = BUFFER_BYTES
        """Write when this many bytes are pending."""
        self.close: Any = weakref.finalize(self, _close, self._file)

    def append(self, block: bytes) -> None:
        """Append a block.

        Raises:
            BacklogError: It can neither be written nor kept in memory. Earlier blocks can still be read.
        """
        size = self._ends[-1]
        self._pending += block
        if len(self._pending) >= self._write_at:
            self._write()
        if len(self._pending) > self._memory_bytes:
            self._written = min(self._written, size)
            del self._pending[size - self._written :]
            raise BacklogError(self._problem, self._memory_bytes)
        self._ends.append(size + len(block))

    def read(self, number: int) -> bytes:
        """Return the block with this index.

        Raises:
            BacklogError: The file cannot be read.
        """
        start, end = self._ends[number : number + 2]
        on_disk = max(0, min(end, self._written) - start)
        data = bytearray()
        try:
            if on_disk and self._file is not None:
                while len(data) < on_disk and (part := _read_at(self._file, on_disk - len(data), start + len(data))):
                    data += part
        except OSError as error:
            raise BacklogError(error.strerror or type(error).__name__, self._memory_bytes) from error
        if len(data) < on_disk:
            raise BacklogError("the temporary file was truncated", self._memory_bytes)
        if end > self._written:
            data += self._pending[max(start - self._written, 0) : end - self._written]
        return bytes(data)

    def _write(self) -> None:
        """Write the pending data until the disk is full."""
        done = 0
        try:
            if self._file is not None:
                while done < len(self._pending):
                    # A copy: the traceback of a failure, which a logger may keep, would lock what is pending.
                    done += _write_at(self._file, self._pending[done:], self._written + done)
        except OSError as error:
            self._problem = error.strerror or type(error).__name__
            logger.warning("waiting messages stay in memory: the temporary file cannot be written (%s)", error)
        del self._pending[:done]
        self._written += done
        self._write_at = len(self._pending) + BUFFER_BYTES


def _temporary_file() -> tuple[io.FileIO | None, str]:
    """Return a new file, or None and the reason why it cannot be created."""
    try:
        file: Any = tempfile.TemporaryFile(prefix="claude-agent-py-", buffering=0)  # noqa: SIM115 - `Spill` closes it
    except OSError as error:
        logger.warning("waiting messages stay in memory: cannot create a temporary file (%s)", error)
        return None, error.strerror or type(error).__name__
    return file, ""


# The position of a file is shared by all threads, and by the processes that `os.fork` makes.


def _read_at(file: io.FileIO, size: int, position: int) -> bytes:
    if sys.platform == "win32":
        with _positioning:
            file.seek(position)
            return file.read(size)
    return os.pread(file.fileno(), size, position)


def _write_at(file: io.FileIO, data: bytearray, position: int) -> int:
    if sys.platform == "win32":
        with _positioning:
            file.seek(position)
            return file.write(data)
    return os.pwrite(file.fileno(), data, position)


def _close(file: io.FileIO | None) -> None:
    if file is not None:
        with contextlib.suppress(OSError):  # the descriptor is closed all the same
            file.close()
