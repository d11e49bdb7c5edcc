"""Follow an output live: yield text as it is written, until the task is over.

The file is polled every `PAUSE` seconds; the end of the task wakes the reader at once. One piece of the file is in
memory at a time.
"""

import codecs
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from claude_agent_py._event_loop import run_file_work
from claude_agent_py._untrusted import Lines, open_regular
from claude_agent_py.tasks.files.ending import LAST_WORDS, Ending
from claude_agent_py.tasks.files.output_file import held_back, split_marker
from claude_agent_py.tasks.files.reading import output_error
from claude_agent_py.tasks.files.transcript import parse_entry
from claude_agent_py.tasks.ledger.record import Record
from claude_agent_py.wire.messages.conversation import AssistantMessage

CHUNK_BYTES: Final = 64 * 1024
PAUSE: Final = 0.1
"""Seconds between two reads of a file that does not grow."""
REPLACED: Final = 1.0
"""Seconds that a file may be missing while its task runs, once it existed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The result of one read."""

    data: bytes
    is_end: bool
    """Whether the end of the file was reached."""
    restarted: bool = False
    """Whether the file was truncated or replaced, so that this is its beginning again."""


class Tail:
    """Reads a file from where the last read stopped."""

    def __init__(self) -> None:
        self._offset = 0
        self._identity: tuple[int, int] | None = None

    def read(self, path: str) -> Piece:
        """Read at most `CHUNK_BYTES` more. Blocks; raises OSError if the path is not a regular file."""
        with os.fdopen(open_regular(path), "rb") as file:
            facts = os.fstat(file.fileno())
            identity = (facts.st_dev, facts.st_ino)
            restarted = facts.st_size < self._offset or self._identity not in (None, identity)
            self._identity = identity
            self._offset = 0 if restarted else self._offset
            file.seek(self._offset)
            data = file.read(CHUNK_BYTES)
        self._offset += len(data)
        return Piece(data, len(data) < CHUNK_BYTES, restarted)


class ShellDecoder:
    """The text of a shell, without its end marker, which may come in two pieces."""

    def __init__(self) -> None:
        self.is_complete: bool = False
        """Whether the output ends with its end marker."""
        self._held = b""
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: Piece) -> list[str]:
        """Return the text that cannot be part of an end marker."""
        if piece.restarted:
            self._held = b""
            self._utf8.reset()
        data = self._held + piece.data
        keep = held_back(data)
        if not keep and not piece.is_end and data.endswith(b"\n"):
            keep = 1  # a marker begins with a line break, and the piece may end right after it
        self._held = data[len(data) - keep :]
        self.is_complete = split_marker(self._held)[1] is not None
        return _some(self._utf8.decode(data[: len(data) - keep]))

    def finish(self) -> list[str]:
        """Return what looked like the start of a marker."""
        rest = b"" if self.is_complete else self._held
        self._held = b""
        return _some(self._utf8.decode(rest, True))

    def patience(self) -> float:
        """Return how long to wait for more after the end of the task, in seconds."""
        return 0.0 if self.is_complete else LAST_WORDS


class AgentDecoder:
    """The texts of a subagent: one chunk for each text block in its transcript."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._ending = Ending()
        self._lines = Lines()

    def feed(self, piece: Piece) -> list[str]:
        """Return the texts that a piece of the transcript completes."""
        if piece.restarted:
            self._lines.reset()
        texts: list[str] = []
        for message in map(parse_entry, self._lines.feed(piece.data)):
            if message is not None:
                self._ending.note(message)
            if isinstance(message, AssistantMessage) and message.text:
                texts.append(f"{message.text}\n")
        return texts

    def finish(self) -> list[str]:
        """Return nothing: a transcript has whole lines only."""
        return []

    def patience(self) -> float:
        """Return how long to wait for more after the end of the task, in seconds."""
        return self._ending.patience(self._record)


class Follow(AsyncIterator[str]):
    """The live output of a task: iterate it with `async for`. It holds no resources, so iteration may stop early."""

    def __init__(
        self,
        task_id: str,
        paths: Callable[[], Sequence[str]],
        is_over: Callable[[], bool],
        wait: Callable[[float], Awaitable[None]],
        decoder: ShellDecoder | AgentDecoder,
    ) -> None:
        self._task_id = task_id
        self._paths = paths
        self._is_over = is_over
        self._wait = wait
        self._decoder = decoder
        self._tail = Tail()
        self._path: str | None = None
        self._chunks: deque[str] = deque()
        self._is_done = False
        self._over_since: float | None = None
        self._away_since: float | None = None

    async def __anext__(self) -> str:
        while not self._chunks:
            if self._is_done:
                raise StopAsyncIteration
            await self._advance()
        return self._chunks.popleft()

    async def _advance(self) -> None:
        """Read once, and pause if there was nothing new."""
        over_for = self._seconds_over()  # before reading, so that everything written until then is read
        piece = await self._read(over_for)
        if piece is None:
            await self._wait(PAUSE)
            return
        self._chunks.extend(self._decoder.feed(piece))
        if not piece.is_end:
            return
        if over_for is not None and over_for >= self._decoder.patience():
            self._chunks.extend(self._decoder.finish())
            self._is_done = True
        elif not self._chunks:
            await self._wait(PAUSE)

    def _seconds_over(self) -> float | None:
        """Return how many seconds ago the task ended; None while it runs."""
        if not self._is_over():
            self._over_since = None
            return None
        if self._over_since is None:
            self._over_since = anyio.current_time()
        return anyio.current_time() - self._over_since

    async def _read(self, over_for: float | None) -> Piece | None:
        """Read the next piece, or return None while the file is missing but may still appear."""
        paths = [self._path] if self._path else list(self._paths())
        failure: OSError | None = None
        for path in paths:
            try:
                piece = await run_file_work(self._tail.read, path, abandon_on_cancel=True)
            except OSError as error:
                failure = failure or error
            else:
                self._path, self._away_since = path, None
                return piece
        now = anyio.current_time()
        self._away_since = now if self._away_since is None else self._away_since
        is_missing = failure is None or isinstance(failure, FileNotFoundError)
        gone_for_good = self._path is not None and now >= self._away_since + REPLACED
        if not is_missing or gone_for_good or (over_for is not None and over_for >= LAST_WORDS):
            raise output_error(self._task_id, paths[0] if paths else "", failure)
        return None


def _some(text: str) -> list[str]:
    return [text] if text else []
