"""Follow an output live: yield text as it is written, until the task ends.

The file is polled every `POLL_SECONDS` seconds; the end of the task wakes the reader immediately. Only one piece of the
file is in memory at a time.
"""

import codecs
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import anyio

from claude_agent_py._base.bounded_reading import Lines
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.growing_files import Piece, Tail
from claude_agent_py._journal.tasks.record import Record
from claude_agent_py.tasks.files.completion import ENTRY_DELAY, TranscriptEnd
from claude_agent_py.tasks.files.output_file import partial_marker_length, split_marker
from claude_agent_py.tasks.files.output_reader import output_error
from claude_agent_py.tasks.files.task_file import TaskFile
from claude_agent_py.tasks.files.transcript import parse_entry
from claude_agent_py.wire.messages.conversation import AssistantMessage

POLL_SECONDS: Final = 0.1
"""Seconds between two reads of a file that does not grow."""
REPLACE_SECONDS: Final = 1.0
"""Seconds that a file may be missing while its task runs, once it existed."""


class ShellDecoder:
    """Decodes the text of a shell, without its end marker, which may be split between two pieces."""

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
        keep = partial_marker_length(data)
        if not keep and not piece.is_end and data.endswith(b"\n"):
            # A marker begins with a line break, and the piece may end right after it.
            keep = 1
        self._held = data[len(data) - keep :]
        self.is_complete = split_marker(self._held)[1] is not None
        return _some(self._utf8.decode(data[: len(data) - keep]))

    def finish(self) -> list[str]:
        """Return the text that was held back because it looked like the start of a marker."""
        rest = b"" if self.is_complete else self._held
        self._held = b""
        return _some(self._utf8.decode(rest, True))

    def grace_period(self) -> float:
        """Return how long to wait for more after the end of the task, in seconds."""
        return 0.0 if self.is_complete else ENTRY_DELAY


class AgentDecoder:
    """Decodes the transcript of a subagent: one chunk for each text block."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._transcript_end = TranscriptEnd()
        self._lines = Lines()

    def feed(self, piece: Piece) -> list[str]:
        """Return the texts that this piece completes."""
        if piece.restarted:
            self._lines = Lines()
        texts: list[str] = []
        for message in map(parse_entry, self._lines.feed(piece.data)):
            if message is not None:
                self._transcript_end.add(message)
            if isinstance(message, AssistantMessage) and message.text:
                texts.append(f"{message.text}\n")
        return texts

    def finish(self) -> list[str]:
        """Return nothing: a transcript has whole lines only."""
        return []

    def grace_period(self) -> float:
        """Return how long to wait for more after the end of the task, in seconds."""
        return self._transcript_end.grace_period(self._record)


class Follow(AsyncIterator[str]):
    """The live output of a task: iterate it with `async for`. It holds no resources, so iteration may stop early."""

    def __init__(
        self,
        task_id: str,
        files: Callable[[], Sequence[TaskFile]],
        has_ended: Callable[[], bool],
        wait: Callable[[float], Awaitable[None]],
        decoder: ShellDecoder | AgentDecoder,
    ) -> None:
        self._task_id = task_id
        self._files = files
        self._has_ended = has_ended
        self._wait = wait
        self._decoder = decoder
        self._tail = Tail()
        self._file: TaskFile | None = None
        self._chunks: deque[str] = deque()
        self._is_done = False
        self._ended_at: float | None = None
        self._missing_since: float | None = None

    async def __anext__(self) -> str:
        while not self._chunks:
            if self._is_done:
                raise StopAsyncIteration
            await self._advance()
        return self._chunks.popleft()

    async def _advance(self) -> None:
        """Read once, and pause if there was nothing new."""
        # Check before reading: everything written before the end is then part of this read.
        ended_for = self._seconds_since_end()
        piece = await self._read(ended_for)
        if piece is None:
            await self._wait(POLL_SECONDS)
            return
        self._chunks.extend(self._decoder.feed(piece))
        if not piece.is_end:
            return
        if ended_for is not None and ended_for >= self._decoder.grace_period():
            self._chunks.extend(self._decoder.finish())
            self._is_done = True
        elif not self._chunks:
            await self._wait(POLL_SECONDS)

    def _seconds_since_end(self) -> float | None:
        """Return how many seconds ago the task ended; None while it runs."""
        if not self._has_ended():
            self._ended_at = None
            return None
        if self._ended_at is None:
            self._ended_at = anyio.current_time()
        return anyio.current_time() - self._ended_at

    async def _read(self, ended_for: float | None) -> Piece | None:
        """Read the next piece, or return None while the file is missing but may still appear."""
        files = [self._file] if self._file else list(self._files())
        failure: OSError | None = None
        for file in files:
            try:
                piece = await run_file_work(self._read_piece, file, abandon_on_cancel=True)
            except OSError as error:
                failure = failure or error
            else:
                self._file = file
                self._missing_since = None
                return piece
        now = anyio.current_time()
        if self._missing_since is None:
            self._missing_since = now
        is_missing = failure is None or isinstance(failure, FileNotFoundError)
        gone_for_good = self._file is not None and now >= self._missing_since + REPLACE_SECONDS
        if not is_missing or gone_for_good or (ended_for is not None and ended_for >= ENTRY_DELAY):
            raise output_error(self._task_id, files, failure)
        return None

    def _read_piece(self, file: TaskFile) -> Piece:
        return self._tail.read(file.resolve(), file.uid)


def _some(text: str) -> list[str]:
    return [text] if text else []
