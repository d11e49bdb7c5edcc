"""Where messages wait for a reader who takes his time.

The pump puts and never waits; memory stays bounded because what exceeds the limit goes to a temporary file, as wire
lines, in order. Nothing is lost. One reader at a time.
"""

import json
import tempfile
from collections import deque
from typing import IO, Any, Final

import anyio

from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.wire.codec import decode, encode, encode_json
from claude_agent_py.wire.unknown import MalformedFrame

SPILL_BUFFER_BYTES: Final = 1024 * 1024


class _Spill:
    """The part of a mailbox that is on disk: first in, first out."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115 - closed by `close`
            prefix="claude-agent-py-", buffering=SPILL_BUFFER_BYTES
        )
        self._read_at = 0
        self._write_at = 0
        self.count = 0

    def put(self, message: Any) -> None:
        line = encode(message)
        if type(message) is MalformedFrame:  # what is wrong is not always to be seen: the line may be a part of one
            line = encode_json(message.error) + line
        self._file.seek(self._write_at)
        self._file.write(line)
        self._write_at += len(line)
        self.count += 1

    def take(self) -> Any:
        self._file.seek(self._read_at)
        line = self._next_line()
        frame = self._malformed(json.loads(line)) if line.startswith(b'"') else decode(line)
        self.count -= 1
        return frame

    def _malformed(self, error: str) -> MalformedFrame:
        line = self._next_line()
        frame = decode(line)
        return frame if isinstance(frame, MalformedFrame) and frame.error == error else MalformedFrame(line, error)

    def _next_line(self) -> bytes:
        line = self._file.readline()
        self._read_at += len(line)
        return line.removesuffix(b"\n")

    def close(self) -> None:
        self._file.close()


class Mailbox:
    """A queue of messages between the pump and one reader.

    Args:
        max_bytes: How many bytes of messages (as they were on the wire) may wait in memory.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: deque[tuple[Any, int]] = deque()
        self._held_bytes = 0
        self._spill: _Spill | None = None
        self._ended = False
        self._wakeup: anyio.Event | None = None

    def __len__(self) -> int:
        return len(self._held) + (self._spill.count if self._spill else 0)

    def put(self, message: Any, size: int) -> None:
        """Add a message whose line was `size` bytes long. Never waits. Dropped once the mailbox has ended."""
        if self._ended:
            return
        if self._spill is None and self._held_bytes + size <= self._max_bytes:
            self._held.append((message, size))
            self._held_bytes += size
        else:
            self._spill = self._spill or _Spill()
            self._spill.put(message)
        if self._wakeup is not None:
            self._wake()

    def put_local(self, thing: Any) -> None:
        """Add something that did not come over the wire; it stays in memory, and may overtake what is on disk."""
        if not self._ended:
            self._held.append((thing, 0))
            self._wake()

    def end(self) -> None:
        """Say that no more will come: the reader ends after the last message."""
        self._ended = True
        self._wake()

    def discard(self) -> None:
        """Drop what waits, and whatever comes: nobody will read."""
        self.end()
        self._held.clear()
        self._drop_spill()

    async def get(self) -> Any:
        """Give the next message. Cancelling is safe: no message is lost.

        Raises:
            StopAsyncIteration: The mailbox has ended.
            LocalProtocolError: Somebody else is reading.
        """
        while not self._held and self._spill is None:
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        return self._take()

    async def _wait(self) -> None:
        if self._wakeup is not None:
            raise LocalProtocolError("somebody is reading these messages already; one reader at a time")
        self._wakeup = anyio.Event()
        try:
            await self._wakeup.wait()
        finally:
            self._wakeup = None

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.set()

    def _take(self) -> Any:
        if self._held:
            message, size = self._held.popleft()
            self._held_bytes -= size
            return message
        assert self._spill is not None  # noqa: S101 - `get` saw that there is one
        message = self._spill.take()
        if not self._spill.count:
            self._drop_spill()
        return message

    def _drop_spill(self) -> None:
        if self._spill is not None:
            self._spill.close()
            self._spill = None
