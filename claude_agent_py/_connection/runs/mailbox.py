"""`Mailbox`: the messages that the pump delivers to one reader, with bounded memory.

A reader that keeps up gets each message as it was decoded. Otherwise, and until the first read, messages wait as lines
in a `MessageLog`. The messages of a run except deltas are recorded in such a log in any case, for its result: a reader
that has fallen behind gets them from there, and may start again at the first one. All other messages are forgotten once
read.
"""

from array import array
from collections import deque
from time import monotonic
from typing import Any, Final

from anyio.lowlevel import checkpoint

from claude_agent_py._base.errors import LocalProtocolError
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py._connection.runs.message_log import MessageLog
from claude_agent_py.wire.codec import line_of

DECODED_BYTES: Final = 1024 * 1024
"""How many bytes wait as messages, by the length of their lines; the rest waits as lines. A line takes a tenth of the
memory of its message, and none of the garbage collector's time."""

SLICE: Final = 0.005
"""After how many seconds of taking waiting messages a reader yields to other workers."""


class Mailbox:
    """The messages for one reader.

    Args:
        max_bytes: How many bytes of messages (as on the wire) may wait in memory, and how many may be recorded there,
            if the temporary file cannot be written (see `MessageLog`).
    """

    def __init__(self, max_bytes: int) -> None:
        self.latest_fact: int = 0
        """The number of the latest fact among the messages, if they contain the facts of the session."""
        self.recorded: MessageLog = MessageLog(max_bytes)
        self._position: int | None = 0
        """The next recorded message to read. None while the reader keeps up: what it has not read is `_decoded`."""
        self._unrecorded = MessageLog(max_bytes)
        """The messages that wait, but are not recorded."""
        self._places = array("Q")
        """For each of those, and for the first one that was dropped, how many messages were recorded before it."""
        self._unrecorded_read = 0
        """How many of those have been read."""
        self._takes_unrecorded: bool | None = None
        """Whether messages that are not recorded are wanted; None until the first read."""
        self._decoded: deque[object] = deque()
        self._decoded_bytes = 0
        self._most_decoded = min(max_bytes, DECODED_BYTES)
        self._is_closed = False
        self._is_discarded = False
        self._changed = RepeatingEvent()
        self._is_waiting = False
        self._slice_ends = 0.0

    def __len__(self) -> int:
        """Return how many messages wait."""
        recorded = 0 if self._position is None else len(self.recorded) - self._position
        return len(self._decoded) + len(self._unrecorded) - self._unrecorded_read + recorded

    @property
    def is_unread(self) -> bool:
        """Whether nobody has begun to read."""
        return self._takes_unrecorded is None

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more messages."""
        return self._is_closed

    def put(self, message: object, *, is_recorded: bool = False, at: float = 0.0) -> None:
        """Add a message, which arrived at this time. Never waits. Does nothing once the mailbox is closed."""
        if self._is_closed or (self._takes_unrecorded is False and not is_recorded):
            return
        line = line_of(message)
        if self._position is None:
            if self._decoded_bytes <= self._most_decoded:
                self._decoded.append(message)
                self._decoded_bytes += len(line)
            else:
                self._position = len(self.recorded)  # the reader has fallen behind
        if is_recorded:
            self.recorded.append(message, line, at)
        elif self._position is not None and not self.recorded.is_full and not self._unrecorded.is_full:
            self._unrecorded.append(message, line)  # drops it, and is full from now on, if there is no room
            self._places.append(len(self.recorded))
        if self._is_waiting:
            self._changed.set()

    def close(self) -> None:
        """End the mailbox: the reader stops after the last message."""
        self._is_closed = True
        self._changed.set()

    def reopen(self) -> None:
        """Take in messages again after `close`, but not after `discard`."""
        self._is_closed = self._is_discarded

    def discard(self) -> None:
        """Close the mailbox and drop its messages, which nobody will read."""
        # Replaced, not cleared: a result may have the recorded ones, and the garbage collector, which calls this, may
        # run in any thread, while the pump adds a message.
        self._is_closed = self._is_discarded = True
        self.recorded, self._unrecorded = MessageLog(0), MessageLog(0)
        self._decoded = deque()

    def skip_unrecorded(self) -> None:
        """Deliver only recorded messages, unless reading has begun: who awaits a run needs no deltas."""
        if self._takes_unrecorded is None:
            self._takes_unrecorded = False
            self._forget_unrecorded()

    def rewind(self) -> None:
        """Continue with the first recorded message."""
        self._position = 0

    def get_nowait(self) -> Any | None:
        """Return the next message, or None if the reader has to await `get`."""
        return self._take() if monotonic() < self._slice_ends else None

    async def get(self) -> Any:
        """Return the next message. Cancelling is safe: no message is lost.

        Raises:
            StopAsyncIteration: The mailbox has ended.
            BacklogError: The next messages were dropped for lack of space.
            LocalProtocolError: Another worker is reading.
        """
        if self._takes_unrecorded is None:
            self._takes_unrecorded = True
        if monotonic() > self._slice_ends:
            await checkpoint()
            self._slice_ends = monotonic() + SLICE
        while (message := self._take()) is None:
            if self._is_closed:
                raise StopAsyncIteration
            if self._is_waiting:
                raise LocalProtocolError("another coroutine is already reading these messages")
            self._is_waiting = True
            try:
                await self._changed.wait()
            finally:
                self._is_waiting = False
                self._slice_ends = monotonic() + SLICE
        return message

    def _take(self) -> Any | None:
        """Return the next message, or None if the reader has read all."""
        if self._decoded:
            message = self._decoded.popleft()
            # Only then: a reader that never catches up gets lines, which need less memory.
            if not self._decoded:
                self._decoded_bytes = 0
            return message
        if self._position is None:
            return None
        if self._unrecorded_read < len(self._places) and self._places[self._unrecorded_read] <= self._position:
            if self._unrecorded_read == len(self._unrecorded):
                self._forget_unrecorded()
                self._places.append(0)  # the reader does not get past the dropped one
                self._unrecorded.check()
            message = self._unrecorded[self._unrecorded_read]
            self._unrecorded_read += 1
            return message
        if self._position < len(self.recorded):
            message = self.recorded[self._position]
            self._position += 1
            return message
        self._forget_unrecorded()
        self.recorded.check()
        self._position = None
        return None

    def _forget_unrecorded(self) -> None:
        self._unrecorded.clear()
        del self._places[:]
        self._unrecorded_read = 0
