"""Following an output live: new text as it is written, until the task is over.

Owns the loop of reading and pausing and the two ways in which bytes become text: a shell's own text without its end
marker, and what a subagent says, read out of its transcript. Polls (`PAUSE` seconds, less than a thousandth of a core);
the end of the task wakes it at once. Holds one piece in memory, however large the file.
"""

import codecs
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import anyio

from claude_agent_py.event_loop import run_file_work
from claude_agent_py.tasks.output_file import held_back, split_marker
from claude_agent_py.tasks.reading import LAST_WORDS, output_error
from claude_agent_py.tasks.tail import Piece, Tail
from claude_agent_py.tasks.transcript import parse_entry
from claude_agent_py.untrusted import Lines
from claude_agent_py.wire.messages import AssistantMessage

PAUSE: Final = 0.1
"""Seconds between two looks at a file that does not grow."""
REPLACED: Final = 1.0
"""Seconds that a file may be away while its task runs, once it was there."""


class Decoder(Protocol):
    """Turns the bytes of a file into chunks of text."""

    is_complete: bool
    """Whether the file says itself that it is at its end."""

    def feed(self, piece: Piece) -> list[str]:
        """Take a piece."""
        ...

    def finish(self) -> list[str]:
        """Give what is left."""
        ...


class ShellDecoder:
    """The text of a shell. The end marker is recognised, also in two pieces, and left out."""

    def __init__(self) -> None:
        self.is_complete: bool = False
        self._held = b""
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: Piece) -> list[str]:
        """Take a piece and give the text that can be no part of an end marker."""
        if piece.restarted:
            self._held = b""
            self._utf8.reset()
        data = self._held + piece.data
        keep = held_back(data)
        if not keep and not piece.is_end and data.endswith(b"\n"):
            keep = 1  # a marker begins with a line break, and the cut may be right behind it
        self._held = data[len(data) - keep :]
        self.is_complete = split_marker(self._held)[1] is not None
        return _some(self._utf8.decode(data[: len(data) - keep]))

    def finish(self) -> list[str]:
        """Give what looked like the beginning of a marker and was none."""
        rest = b"" if self.is_complete else self._held
        self._held = b""
        return _some(self._utf8.decode(rest, True))


class AgentDecoder:
    """What a subagent says: one chunk for each of its texts."""

    is_complete = False

    def __init__(self) -> None:
        self._lines = Lines()

    def feed(self, piece: Piece) -> list[str]:
        """Take a piece of the transcript and give the texts that it completes."""
        if piece.restarted:
            self._lines.reset()
        messages = map(parse_entry, self._lines.feed(piece.data))
        return [f"{message.text}\n" for message in messages if isinstance(message, AssistantMessage) and message.text]

    def finish(self) -> list[str]:
        """A transcript has whole lines only."""
        return []


class Follow:
    """The live output of a task: iterate it with `async for`. Stopping early needs no clean-up."""

    def __init__(
        self,
        task_id: str,
        places: Callable[[], Sequence[str]],
        is_over: Callable[[], bool],
        nap: Callable[[float], Awaitable[None]],
        decoder: Decoder,
    ) -> None:
        self._task_id = task_id
        self._places = places
        self._is_over = is_over
        self._nap = nap
        self._decoder = decoder
        self._tail = Tail()
        self._path: str | None = None
        self._chunks: deque[str] = deque()
        self._is_done = False
        self._over_since: float | None = None
        self._away_since: float | None = None

    def __aiter__(self) -> "Follow":
        return self

    async def __anext__(self) -> str:
        while not self._chunks:
            if self._is_done:
                raise StopAsyncIteration
            await self._advance()
        return self._chunks.popleft()

    async def _advance(self) -> None:
        """Read on once, and pause where there was nothing new."""
        was_over = self._note_over()  # asked before reading: what came before the end is read after it
        piece = await self._read()
        if piece is None:
            await self._nap(PAUSE)
            return
        self._chunks.extend(self._decoder.feed(piece))
        if not piece.is_end:
            return
        if was_over and (self._decoder.is_complete or self._is_late()):
            self._chunks.extend(self._decoder.finish())
            self._is_done = True
        elif not self._chunks:
            await self._nap(PAUSE)

    def _note_over(self) -> bool:
        if not self._is_over():
            self._over_since = None
        elif self._over_since is None:
            self._over_since = anyio.current_time()
        return self._over_since is not None

    def _is_late(self) -> bool:
        return self._over_since is not None and anyio.current_time() >= self._over_since + LAST_WORDS

    async def _read(self) -> Piece | None:
        """Read the next piece; None while the file is not there. Raises TaskOutputError where there is no hope."""
        paths = [self._path] if self._path else list(self._places())
        failure: OSError | None = None
        for path in paths:
            try:
                piece = await run_file_work(self._tail.read, path, abandon_on_cancel=True)
            except OSError as error:
                failure = failure or error
            else:
                self._path, self._away_since = path, None
                return piece
        self._endure(paths, failure)
        return None

    def _endure(self, paths: Sequence[str], failure: OSError | None) -> None:
        """Bear with a file that is not there (yet), for as long as it may still come."""
        now = anyio.current_time()
        self._away_since = now if self._away_since is None else self._away_since
        is_missing = failure is None or isinstance(failure, FileNotFoundError)
        gone_for_good = self._path is not None and now >= self._away_since + REPLACED
        if not is_missing or gone_for_good or self._is_late():
            raise output_error(self._task_id, paths[0] if paths else "", failure)


def _some(text: str) -> list[str]:
    return [text] if text else []
