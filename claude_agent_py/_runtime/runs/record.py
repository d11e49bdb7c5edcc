"""`Record`: the messages of a run, kept for its result in memory and, beyond a limit, in a temporary file.

Messages are kept as wire lines and decoded on access: most are never read again, and a line takes a tenth of the memory
of its message. A decoded message is equal to the received one, but not the same object.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, overload

from claude_agent_py._errors import BacklogError
from claude_agent_py._runtime.runs.spill import Spill
from claude_agent_py.wire.codec import decode

PACKED: Final = 64
"""How many lines are joined."""


class Record(Sequence[Any]):
    """An append-only sequence of messages.

    Args:
        max_bytes: How many bytes of messages (as on the wire) to hold in memory; as many again if the temporary file
            cannot be written. Further messages are dropped, and iterating raises BacklogError after the last one kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = self._room = max_bytes
        self._packed = bytearray()
        """The lines of the first messages."""
        self._number_packed = 0
        self._held: list[Any] = []
        """The next messages, or their lines."""
        self._spill: Spill | None = None
        self._failure: BacklogError | None = None

    def __repr__(self) -> str:
        return f"<Record of {len(self)} messages>"

    @property
    def unpacked(self) -> int:
        """How many messages are in memory by themselves."""
        return len(self._held)

    def pack(self) -> None:
        """Join the first lines once there are many. Nothing else may refer to them: one block then leaves no holes."""
        if len(self._held) < 2 * PACKED:
            return
        lines = self._held[:PACKED]
        if all(type(line) is bytes for line in lines):
            self._packed += b"\n".join(lines) + b"\n"
            self._number_packed += len(lines)
            del self._held[:PACKED]

    def _unpack(self) -> None:
        if self._packed:
            self._held[:0] = bytes(self._packed).split(b"\n")[:-1]
            self._packed.clear()
            self._number_packed = 0

    def append(self, message: Any, line: bytes) -> None:
        """Add a message and its line, which is empty if decoding it would not reproduce the message."""
        self._room -= len(line)
        if self._room >= 0:
            self._held.append(line or message)
            return
        if self._failure is not None:
            return
        if self._spill is None:
            self._spill = Spill(self._max_bytes)
        try:
            self._spill.append(message, line)
        except BacklogError as error:
            self._failure = error

    def check(self) -> None:
        """Raise BacklogError if messages were dropped."""
        if self._failure is not None:
            raise self._failure.again()

    def __len__(self) -> int:
        return self._number_packed + len(self._held) + (0 if self._spill is None else len(self._spill))

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
        position = range(len(self))[index]
        return self._get(position)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self[:],)  # a file cannot be pickled

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def _get(self, position: int) -> Any:
        self._unpack()
        if position < len(self._held):
            kept = self._held[position]
            if type(kept) is bytes:
                kept = self._held[position] = decode(kept, report=False)  # the next access returns the same object
            return kept
        assert self._spill is not None  # noqa: S101 - the position is below the length
        return self._spill[position - len(self._held)]
