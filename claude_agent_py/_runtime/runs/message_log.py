"""`MessageLog`: messages in the order received, in memory and, beyond a limit, in a temporary file.

Messages are kept as wire lines and decoded on access: most are never read again, and a line takes a tenth of the memory
of its message. A decoded message is equal to the received one, but not the same object.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, overload

from claude_agent_py._errors import BacklogError
from claude_agent_py._runtime.runs.spill import Spill

BLOCK: Final = 64
"""How many lines share a block of memory: single lines take more, and leave holes when they are freed."""


class MessageLog(Sequence[Any]):
    """An append-only sequence of messages.

    Args:
        max_bytes: How many bytes of messages (as on the wire) to hold in memory; as many again if the temporary file
            cannot be written. Further messages are dropped, and iterating raises BacklogError after the last one kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._offsets = array("Q", [0])
        """Where the line of each message begins, and where the next one will."""
        self._blocks: list[bytearray] = []
        """The lines in memory."""
        self._spill: Spill | None = None
        """The lines after those."""
        self._spill_offset = 0
        self._without_line: dict[int, Any] = {}
        """The items without a line, by position."""
        self._failure: BacklogError | None = None
        """Why messages were dropped."""

    def __repr__(self) -> str:
        return f"<log of {len(self)} messages>"

    def append(self, message: Any, line: bytes) -> None:
        """Add a message as its line. An item whose line is empty stays in memory as it is."""
        if self._failure is not None:
            return
        position, offset = len(self._offsets) - 1, self._offsets[-1]
        if not line:
            self._without_line[position] = message
        elif self._spill is None and offset + len(line) <= self._max_bytes:
            while len(self._blocks) <= position // BLOCK:
                self._blocks.append(bytearray())
            self._blocks[-1] += line
        else:
            if self._spill is None:
                self._spill = Spill(self._max_bytes)
                self._spill_offset = offset
            try:
                self._spill.append(line)
            except BacklogError as error:
                self._failure = error.again()  # its traceback refers to the spill
                return
        self._offsets.append(offset + len(line))

    def clear(self) -> None:
        """Forget the messages. `check` still reports those that were dropped."""
        if self._spill is not None:
            self._spill.close()
            self._spill = None
        del self._offsets[1:]
        self._blocks.clear()
        self._without_line.clear()

    def check(self) -> None:
        """Raise BacklogError if messages were dropped."""
        if self._failure is not None:
            raise self._failure.again()

    def __len__(self) -> int:
        return len(self._offsets) - 1

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
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self[:],)  # a file cannot be pickled

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def _get(self, position: int) -> Any:
        from claude_agent_py.wire.codec import decode  # loads while the CLI starts

        start, end = self._offsets[position : position + 2]
        if start == end:
            return self._without_line[position]
        if self._spill is not None and start >= self._spill_offset:
            line = self._spill.read(start - self._spill_offset, end - self._spill_offset)
        else:
            offset = self._offsets[position - position % BLOCK]  # of its block
            line = bytes(self._blocks[position // BLOCK][start - offset : end - offset])
        return decode(line, report=False)
