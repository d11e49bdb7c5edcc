"""`Transcript`: the messages of a conversation on disk, read on demand."""

from array import array
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, SupportsIndex, overload

from claude_agent_py._errors import SessionError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py._untrusted import LINE_BYTES
from claude_agent_py.sessions.chain import Chain, find_chain
from claude_agent_py.sessions.lines import DamagedLine, Snapshot
from claude_agent_py.tasks.files.transcript import TranscriptMessage, read_message
from claude_agent_py.wire.base import keep_source

_PAGE: Final = 200
"""The number of messages that `async for` reads at a time."""


class Transcript(Sequence[TranscriptMessage]):
    """The messages of a conversation, in order, as a sequence that reads them from the file on demand.

    It shows the file at the moment when the `Transcript` was created, without later messages. Iterating reads one
    message at a time, a slice reads only its messages, and `async for` reads in a thread. The first use reads the file
    once to find the messages of the conversation, and keeps 8 bytes for each.

    Reading raises `SessionError` if the file is missing, unreadable or was replaced since.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        session_id: str,
        *,
        whole: bool = False,
        agent_id: str | None = None,
        parent_tool_use_id: str | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._session_id = session_id
        self._whole = whole
        self._agent_id = agent_id
        self._call = parent_tool_use_id
        self._problems: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"<Transcript of {self._agent_id or self._session_id}, {self._snapshot.size} bytes>"

    @cached_property
    def _chain(self) -> Chain:
        try:
            return find_chain(self._snapshot, whole=self._whole, is_subagent=self._agent_id is not None)
        except OSError as error:
            raise self._build_read_error(error) from error

    @property
    def damage(self) -> Sequence[DamagedLine]:
        """The lines read so far that were skipped or do not match their model; at most 1000 skipped lines."""
        known = {line.offset: line for line in self._chain.damage}
        known |= {offset: DamagedLine(offset, reason) for offset, reason in self._problems.items()}
        return [known[offset] for offset in sorted(known)]

    def __len__(self) -> int:
        return len(self._chain.offsets)

    def __iter__(self) -> Iterator[TranscriptMessage]:
        return self._read(self._chain.offsets)

    def __reversed__(self) -> Iterator[TranscriptMessage]:
        offsets = self._chain.offsets
        return self._read(offsets[i] for i in range(len(offsets) - 1, -1, -1))

    async def __aiter__(self) -> AsyncIterator[TranscriptMessage]:
        """Yield the messages. Reads the file in a thread."""
        size = await run_file_work(len, self, abandon_on_cancel=True)
        for start in range(0, size, _PAGE):
            for message in await run_file_work(self.__getitem__, slice(start, start + _PAGE), abandon_on_cancel=True):
                yield message

    @overload
    def __getitem__(self, index: SupportsIndex) -> TranscriptMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[TranscriptMessage]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> TranscriptMessage | list[TranscriptMessage]:
        offsets = self._chain.offsets
        if isinstance(index, slice):
            return list(self._read(offsets[index]))
        return next(self._read(array("Q", [offsets[index]])))

    def _read(self, offsets: Iterable[int]) -> Iterator[TranscriptMessage]:
        try:
            with self._snapshot.open() as file:
                for offset in offsets:
                    file.seek(offset)
                    line = file.readline(min(LINE_BYTES, self._snapshot.size - offset))
                    yield self._parse(offset, line.removesuffix(b"\n"))
        except OSError as error:
            raise self._build_read_error(error) from error

    def _parse(self, offset: int, line: bytes) -> TranscriptMessage:
        try:
            message, problem = read_message(line, self._call)
        except ValueError:
            raise SessionError(
                f"the transcript {self._snapshot.path} was replaced while it was read; get the session again",
                session_id=self._session_id,
            ) from None
        if problem is not None:
            self._problems[offset] = problem
        # `raw` returns the entry as the CLI wrote it.
        keep_source(message, "_source", line.lstrip(b"\0"))
        return message

    def _build_read_error(self, error: OSError) -> SessionError:
        reason = error.strerror or type(error).__name__
        return SessionError(
            f"the transcript {self._snapshot.path} cannot be read: {reason}", session_id=self._session_id
        )
