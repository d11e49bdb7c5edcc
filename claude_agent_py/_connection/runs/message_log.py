"""`MessageLog`: messages in the order received, in memory and, beyond a limit, in a temporary file.

Messages are kept as wire lines and decoded on access: most are never read again, and a line takes a tenth of the memory
of its message. A decoded message is equal to the received one, but not the same object.
"""

import contextlib
import mmap
import os
import sys
import tempfile
import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias, overload

from claude_agent_py._base.errors import BacklogError
from claude_agent_py._base.log import logger
from claude_agent_py.wire.codec import decode

BLOCK_BYTES: Final = 64 * 1024
"""How many bytes of lines become a block."""

MEMORY_BYTES: Final = 4 * 1024 * 1024
"""How many bytes of a log stay in memory. Further ones go to the file: a host has many runs, and reads few twice."""

SPARE_BYTES: Final = 256 * 1024
"""How many more bytes may at least stay in memory if the temporary file cannot be written."""

_positioning: Final = threading.Lock()

Block: TypeAlias = mmap.mmap | range
"""A block in memory, or its place in the temporary file."""


class MessageLog(Sequence[Any]):
    """An append-only sequence of messages.

    Args:
        max_bytes: How many bytes of messages (as on the wire) to hold in memory, besides the first `MEMORY_BYTES`, if
            the temporary file cannot be written. Further messages are dropped, and iterating raises BacklogError after
            the last one kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._failure: BacklogError | None = None
        """Why messages were dropped."""
        self._file: int | None = None
        """The descriptor of the temporary file. A file object would warn if the garbage collector found it first."""
        self.clear()

    def __del__(self) -> None:
        self._close_file()

    def clear(self) -> None:
        """Forget the messages. `check` still reports those that were dropped."""
        self._close_file()
        self._file_bytes = 0
        self._blocks: list[Block] = []
        """The first lines."""
        self._memory_bytes = 0
        """How many bytes of them are in memory."""
        self._starts = array("Q")
        """The position of the first line of each block."""
        self._last: tuple[int, list[bytes]] = (0, [])
        """The position of the first line after the blocks, and the lines from there on."""
        self._last_bytes = 0
        self.times: array[float] = array("d")
        """When they arrived, by the clock of the event loop."""
        self._lines: tuple[int, list[bytes]] = (0, [])
        """The position of the first line of the block that was read last, and its lines. Replaced, never mutated:
        several threads may read the messages of a result."""
        self._without_line: dict[int, Any] = {}
        """The items whose line is empty, by position."""

    def __repr__(self) -> str:
        return f"<log of {len(self)} messages>"

    def append(self, message: object, line: bytes, at: float = 0.0) -> None:
        """Add a message as its line (`line_of`), unless messages were dropped. Without a line, it is kept as it is.

        The line has no line break, because the engine splits the output at them.
        """
        if self._failure is not None:
            return
        start, lines = self._last
        self._last_bytes += len(line) + 1
        is_full = self._last_bytes >= BLOCK_BYTES
        block = self._make_block([*lines, line]) if is_full else None
        if is_full and block is None:
            return
        # The line comes last: another thread may read what the log has.
        if not line:
            self._without_line[start + len(lines)] = message
        self.times.append(at)
        lines.append(line)
        if block is not None:
            self._blocks.append(block)
            self._starts.append(start)
            self._last, self._last_bytes = (start + len(lines), []), 0

    def _make_block(self, lines: list[bytes]) -> Block | None:
        """Return a block of lines. If there is no room for it, the last line is dropped, and the others stay."""
        try:
            return self._place(b"\n".join(lines))
        except BacklogError as error:
            self._failure = error.again()  # the traceback of the other one refers to the log
        except OSError as error:  # the process has no memory left
            self._failure = BacklogError(error.strerror or type(error).__name__, max(self._max_bytes, SPARE_BYTES))
        return None

    def _place(self, data: bytes) -> Block:
        """Return where a block stays. Raises BacklogError if there is no room."""
        memory, spare = min(self._max_bytes, MEMORY_BYTES), max(self._max_bytes, SPARE_BYTES)
        if self._memory_bytes + len(data) > memory:
            try:
                return self._write(data)
            except OSError as error:
                if self._memory_bytes <= memory:  # the first of them
                    logger.warning("waiting messages stay in memory: the temporary file cannot be written (%s)", error)
                if self._memory_bytes + len(data) > memory + spare:
                    raise BacklogError(error.strerror or type(error).__name__, spare) from None
        self._memory_bytes += len(data)
        return _to_memory(data)

    def _write(self, data: bytes) -> range:
        """Write data to the end of the temporary file, and return its place there."""
        if self._file is None:
            with tempfile.TemporaryFile(prefix="claude-agent-py-", buffering=0) as file:
                self._file = os.dup(file.fileno())
        start = end = self._file_bytes
        while end < start + len(data):
            end += _write_at(self._file, memoryview(data)[end - start :], end)
        self._file_bytes = end
        return range(start, end)

    def _read(self, place: range) -> bytes:
        """Return the data at a place of the temporary file.

        Raises:
            BacklogError: It cannot be read.
        """
        assert self._file is not None  # noqa: S101 - it has the data
        data, problem = b"", "the temporary file was truncated"
        try:
            while len(data) < len(place) and (part := _read_at(self._file, place[len(data) :])):
                data += part
        except OSError as error:
            problem = error.strerror or type(error).__name__
        if len(data) < len(place):
            raise BacklogError(problem, max(self._max_bytes, SPARE_BYTES))
        return data

    def _close_file(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # the descriptor is closed all the same
                os.close(self._file)
            self._file = None

    @property
    def is_full(self) -> bool:
        """Whether messages were dropped."""
        return self._failure is not None

    def check(self) -> None:
        """Raise BacklogError if messages were dropped."""
        if self._failure is not None:
            raise self._failure.again()

    def __len__(self) -> int:
        start, lines = self._last
        return start + len(lines)

    def __iter__(self) -> Iterator[Any]:
        position = 0
        while position < len(self):  # it may grow during the iteration
            yield self._get(position)
            position += 1
        self.check()

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._get(position) for position in range(*index.indices(len(self)))]
        return self._get(range(len(self))[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageLog | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(message == another for message, another in zip(self, other, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self[:],)  # a file cannot be pickled

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def _get(self, position: int) -> object:
        start, lines = self._last
        if position < start:
            start, lines = self._lines
            if not 0 <= position - start < len(lines):
                start, lines = self._lines = self._read_block(position)
        line = lines[position - start]
        return decode(line, report=False) if line else self._without_line[position]

    def _read_block(self, position: int) -> tuple[int, list[bytes]]:
        """Return the lines of the block that has the line at this position, after the position of the first of them."""
        number = bisect_right(self._starts, position) - 1
        block = self._blocks[number]
        data = self._read(block) if isinstance(block, range) else block[:]
        return self._starts[number], data.split(b"\n")


def _to_memory(data: bytes) -> mmap.mmap:
    """Copy data out of the heap: the system gets the memory back as soon as nobody has the log."""
    if sys.platform == "win32":
        block = mmap.mmap(-1, len(data))
    else:
        block = mmap.mmap(-1, len(data), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block[:] = data
    return block


# The position of a file is shared by all threads, and by the processes that `os.fork` makes.


def _read_at(file: int, place: range) -> bytes:
    if sys.platform == "win32":
        with _positioning:
            os.lseek(file, place.start, os.SEEK_SET)
            return os.read(file, len(place))
    return os.pread(file, len(place), place.start)


def _write_at(file: int, data: memoryview, position: int) -> int:
    if sys.platform == "win32":
        with _positioning:
            os.lseek(file, position, os.SEEK_SET)
            return os.write(file, data)
    return os.pwrite(file, data, position)
