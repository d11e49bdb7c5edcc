"""`MessageLog`: messages in the order received, in memory and, beyond a limit, in a temporary file.

Messages are kept as wire lines and decoded on access: most are never read again, and a line takes a tenth of the memory
of its message. A decoded message is equal to the received one, but not the same object.
"""

import mmap
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, overload

from claude_agent_py._errors import BacklogError
from claude_agent_py._runtime.runs.spill import Spill

BLOCK_BYTES: Final = 64 * 1024
"""How many bytes of lines share a block of memory."""

MEMORY_BYTES: Final = 4 * 1024 * 1024
"""How many bytes of a log stay in memory. Further ones go to the file: a host has many runs, and reads few twice."""


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
        self._spill: Spill | None = None
        """The blocks that follow those in memory."""
        self.clear()

    def clear(self) -> None:
        """Forget the messages. `check` still reports those that were dropped."""
        if self._spill is not None:
            self._spill.close()
            self._spill = None
        self._blocks: list[mmap.mmap] = []
        """The first lines."""
        self._block_bytes = 0
        self._last: mmap.mmap | None = None
        """The last lines."""
        self._room = 0
        """How many bytes the last block has left."""
        self._length = 0
        self._starts = array("Q", [0])
        """The position of the first line of each block, up to the last one."""
        self._read: tuple[int, list[bytes]] = (0, [])
        """The position of the first line of the block that was read last, and its lines. Replaced, never mutated:
        several threads may read the messages of a result."""
        self._without_line: dict[int, Any] = {}
        """The items whose line is empty, by position."""

    def __repr__(self) -> str:
        return f"<log of {len(self)} messages>"

    def append(self, message: Any, line: bytes) -> bool:
        """Add a message as its line, and return whether there was room. Without a line, it is kept as it is."""
        if self._failure is not None:
            return False
        if not line:
            self._without_line[self._length] = message
        size = len(line) + 1
        if size > self._room:
            try:
                self._end_block()
            except BacklogError as error:
                self._failure = error.again()  # the traceback of the other one refers to the spill
                return False
            self._room = max(BLOCK_BYTES, size)
            self._last = _new_block(self._room)
        assert self._last is not None  # noqa: S101 - it has room
        self._last.write(line + b"\n")
        self._room -= size
        self._length += 1
        return True

    def _end_block(self) -> None:
        """Keep the last block, in memory or in the file."""
        if self._last is None:
            return
        size = self._last.tell()
        if self._spill is None and self._block_bytes + size <= min(self._max_bytes, MEMORY_BYTES):
            self._blocks.append(self._last)
            self._block_bytes += size
        else:
            if self._spill is None:
                self._spill = Spill(self._max_bytes)
            self._spill.append(self._last[:size])
        self._starts.append(self._length)

    @property
    def is_full(self) -> bool:
        """Whether messages were dropped."""
        return self._failure is not None

    def check(self) -> None:
        """Raise BacklogError if messages were dropped."""
        if self._failure is not None:
            raise self._failure.again()

    def __len__(self) -> int:
        return self._length

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

    def _get(self, position: int) -> Any:
        from claude_agent_py.wire.codec import decode  # loads while the CLI starts

        start, lines = self._read
        if not 0 <= position - start < len(lines):
            start, lines = self._read = self._read_block(position)
        line = lines[position - start]
        return decode(line, report=False) if line else self._without_line[position]

    def _read_block(self, position: int) -> tuple[int, list[bytes]]:
        """Return the lines of the block that has the line at this position, after the position of the first of them."""
        number = bisect_right(self._starts, position) - 1
        if len(self._blocks) <= number < len(self._starts) - 1:
            assert self._spill is not None  # noqa: S101 - it has the blocks between
            data = self._spill.read(number - len(self._blocks))
        else:
            block = self._last if number == len(self._starts) - 1 else self._blocks[number]
            assert block is not None  # noqa: S101 - it has the position
            data = block[: block.tell()]
        return self._starts[number], data.split(b"\n")[:-1]


def _new_block(size: int) -> mmap.mmap:
    """Return memory outside of the heap: the system gets it back as soon as nobody has the log."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
