"""`Mailbox`: a queue of messages for one reader, with bounded memory.

Messages beyond the limit go to a temporary file, as wire lines. If the disk is full, as much again waits in memory;
beyond that, messages are dropped and the reader gets an error.
"""

from collections import deque
from time import monotonic
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._errors import BacklogError, LocalProtocolError
from claude_agent_py._runtime.runs.spill import Spill
from claude_agent_py.wire.codec import decode

DECODED_BYTES: Final = 1024 * 1024
"""How many bytes wait as messages, by the length of their lines; the rest waits as lines. A line takes a tenth of the
memory of its message, and none of the garbage collector's time."""

SLICE: Final = 0.005
"""After how many seconds of taking waiting messages a reader yields to other workers."""


class Mailbox:
    """A queue of messages between the pump and one reader.

    Args:
        max_bytes: How many bytes of messages (as on the wire) may wait in memory; as many again if the temporary file
            cannot be written.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: deque[Any] = deque()
        self._sizes: deque[int] = deque()
        """The sizes of the held items. Tuples of both would be tracked by the garbage collector and trigger it."""
        self._held_bytes = 0
        self._spill: Spill | None = None
        self._local: deque[tuple[int, Any]] = deque()
        """Items that are not messages, while messages wait on disk: each with the number of messages before it."""
        self._taken = 0
        """How many messages on disk have been read."""
        self._is_closed = False
        self._is_discarded = False
        """Whether the messages are discarded."""
        self._failure: BacklogError | None = None
        """Why messages were dropped; raised after the messages before them."""
        self._wakeup: anyio.Event | None = None
        self._is_waiting = False
        self._has_reader = False
        self._slice_ends = 0.0

    def __len__(self) -> int:
        return len(self._held) + len(self._local) + (len(self._spill) - self._taken if self._spill else 0)

    def put(self, message: Any, line: bytes) -> None:
        """Add a message and its line. Never waits. Does nothing once the mailbox is closed.

        The line is stored instead of the message if many are waiting or no reader has begun. It is empty if decoding it
        would not reproduce the message.
        """
        if self._is_closed or self._failure is not None:
            return
        size = len(line)
        if self._spill is None and self._held_bytes + size <= self._max_bytes:
            waits_long = not self._has_reader or self._held_bytes > DECODED_BYTES
            self._held.append(line if line and waits_long else message)
            self._sizes.append(size)
            self._held_bytes += size
        else:
            self._put_on_disk(message, line)
        if self._wakeup is not None:
            self._wake()

    def _put_on_disk(self, message: Any, line: bytes) -> None:
        if self._spill is None:
            self._spill, self._taken = Spill(self._max_bytes), 0
        try:
            self._spill.append(message, line)
        except BacklogError as error:
            self._failure = error
            if not len(self._spill):
                self._drop_spill()

    def announce(self, thing: Any) -> None:
        """Add an item that is not a message; it stays in memory."""
        if self._is_closed:
            return
        if self._spill is None:
            self._held.append(thing)
            self._sizes.append(0)
        else:
            self._local.append((len(self._spill), thing))
        self._wake()

    def close(self) -> None:
        """End the mailbox: the reader stops after the last message."""
        self._is_closed = True
        self._wake()

    def discard(self) -> None:
        """Drop all waiting and later messages."""
        self.close()
        self._is_discarded = True
        self._held.clear()
        self._sizes.clear()
        self._local.clear()
        self._drop_spill()

    def reopen(self) -> None:
        """Take in messages again after `close`, unless they were discarded."""
        self._is_closed = self._is_discarded

    def ready(self) -> Any | None:
        """Return the next message, or None if the reader has to await `get`."""
        if not self._held or monotonic() >= self._slice_ends:
            return None
        message = self._held.popleft()  # `_take` inlined, for speed
        self._held_bytes -= self._sizes.popleft()
        return decode(message, report=False) if type(message) is bytes else message

    async def get(self) -> Any:
        """Return the next message. Cancelling is safe: no message is lost.

        Raises:
            StopAsyncIteration: The mailbox has ended.
            BacklogError: The next messages were dropped for lack of space.
            LocalProtocolError: Another worker is reading.
        """
        self._has_reader = True
        if monotonic() > self._slice_ends:
            await checkpoint()
            self._slice_ends = monotonic() + SLICE
        while not self._held and self._spill is None:
            if self._failure is not None:
                raise self._failure.again()
            if self._is_closed:
                raise StopAsyncIteration
            await self._wait()
        return self._take()

    async def _wait(self) -> None:
        if self._is_waiting:
            raise LocalProtocolError("another coroutine is already reading these messages")
        self._is_waiting, self._wakeup = True, anyio.Event()
        try:
            await self._wakeup.wait()
        finally:
            self._is_waiting, self._wakeup = False, None
            self._slice_ends = monotonic() + SLICE

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.set()
            self._wakeup = None  # once is enough

    def _take(self) -> Any:
        if self._held:
            message = self._held.popleft()
            self._held_bytes -= self._sizes.popleft()
            return decode(message, report=False) if type(message) is bytes else message
        assert self._spill is not None  # noqa: S101 - `get` saw that there is one
        if self._local and self._local[0][0] <= self._taken:
            message = self._local.popleft()[1]
        else:
            try:
                message = self._spill[self._taken]
            except BacklogError as error:
                self._failure = error
                self._drop_spill()
                raise
            self._taken += 1
        if self._taken == len(self._spill) and not self._local:
            self._drop_spill()
        return message

    def _drop_spill(self) -> None:
        if self._spill is not None:
            self._spill.close()
            self._spill = None
