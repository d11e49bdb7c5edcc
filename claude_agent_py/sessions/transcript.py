"""`Transcript`: the messages of a conversation or a subagent on disk, read on demand."""

import os
import re
from array import array
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, SupportsIndex, overload

import msgspec

from claude_agent_py._base.bounded_reading import read_json
from claude_agent_py._base.errors import SessionError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py.sessions.chain import Chain, find_chain
from claude_agent_py.sessions.folders import regular_file
from claude_agent_py.sessions.lines import LINE_BYTES, DamagedLine, Snapshot
from claude_agent_py.tasks.files.task_file import TaskFile
from claude_agent_py.tasks.files.transcript import Notes, TranscriptMessage, read_message, read_notes
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
        self.snapshot: Snapshot = snapshot
        """The transcript's lines. Internal to this package."""
        self._session_id = session_id
        self._whole = whole
        self._agent_id = agent_id
        self._call = parent_tool_use_id
        self._problems: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"<Transcript of {self._agent_id or self._session_id}, {self.snapshot.size} bytes>"

    @cached_property
    def _chain(self) -> Chain:
        try:
            return find_chain(self.snapshot, whole=self._whole, is_subagent=self._agent_id is not None)
        except OSError as error:
            raise self._build_read_error(error) from error

    @property
    def offsets(self) -> Sequence[int]:
        """The positions of the messages in the file, in bytes. Internal to this package."""
        return self._chain.offsets

    def read_line(self, offset: int) -> bytes:
        """Return the line at an offset, without the line break. Internal to this package."""
        return next(self._read_lines([offset]))[1]

    @property
    def damage(self) -> Sequence[DamagedLine]:
        """The lines read so far that were skipped or do not match their model; at most 1000 skipped lines."""
        known = {line.offset: line for line in self._chain.damage}
        known |= {offset: DamagedLine(offset, reason) for offset, reason in self._problems.items()}
        return [known[offset] for offset in sorted(known)]

    def __len__(self) -> int:
        return len(self._chain.offsets)

    def __iter__(self) -> Iterator[TranscriptMessage]:
        return self.read_at(self._chain.offsets)

    def __reversed__(self) -> Iterator[TranscriptMessage]:
        offsets = self._chain.offsets
        return self.read_at(offsets[i] for i in range(len(offsets) - 1, -1, -1))

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
            return list(self.read_at(offsets[index]))
        return next(self.read_at(array("Q", [offsets[index]])))

    def read_at(self, offsets: Iterable[int]) -> Iterator[TranscriptMessage]:
        """Yield the messages at these offsets. Internal to this package."""
        return (self._parse(offset, line) for offset, line in self._read_lines(offsets))

    def _read_lines(self, offsets: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        try:
            with self.snapshot.open() as file:
                for offset in offsets:
                    file.seek(offset)
                    line = file.readline(min(LINE_BYTES, self.snapshot.size - offset))
                    yield offset, line.removesuffix(b"\n")
        except OSError as error:
            raise self._build_read_error(error) from error

    def _parse(self, offset: int, line: bytes) -> TranscriptMessage:
        try:
            message, problem = read_message(line, self._call)
        except ValueError:
            raise SessionError(
                f"the transcript {self.snapshot.path} was replaced while it was read; get the session again",
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
            f"the transcript {self.snapshot.path} cannot be read: {reason}", session_id=self._session_id
        )


_AGENT: Final = re.compile(r"agent-(?P<id>[\w.-]+)\.jsonl", re.ASCII)


@dataclass(frozen=True)
class StoredSubagent:
    """A subagent of a session on disk."""

    agent_id: str
    """The id, which is also the id of its task."""
    path: str
    """Its transcript."""
    agent_type: str | None = None
    description: str = ""
    tool_use_id: str | None = None
    """The call that launched it."""
    parent_agent_id: str | None = None
    """The subagent that made this call; None for the main agent."""
    model: str | None = None
    spawn_depth: int | None = None
    """1 for a subagent of the main agent."""
    request_shape: str | None = None
    """`foreground` if its call waited for it, otherwise `background`; None if early versions of the CLI wrote it."""
    is_finished: bool = False
    was_stopped: bool = False
    session_id: str = ""
    owner: object = field(default=None, repr=False, compare=False)
    """Keeps temporary files in existence. Internal to this package."""

    @cached_property
    def messages(self) -> Transcript:
        """Its messages."""
        return Transcript(
            take_snapshot(self.path, self.session_id, self.owner),
            self.session_id,
            agent_id=self.agent_id,
            parent_tool_use_id=self.tool_use_id,
        )


def take_snapshot(path: str, session_id: str, owner: object = None) -> Snapshot:
    """Return a snapshot of a transcript. Raises SessionError if the file does not exist."""
    status = regular_file(path)
    if status is None:
        raise SessionError(f"the transcript {path} cannot be read: no such file", session_id=session_id)
    return Snapshot(path, status.st_size, owner)


def find_subagents(folder: str, session_id: str, owner: object = None) -> list[StoredSubagent]:
    """Return the subagents with a transcript in a session's folder. Links are not followed."""
    root = os.path.join(folder, "subagents")
    if os.path.islink(folder) or os.path.islink(root):
        return []
    found = []
    for where, _, names in os.walk(root):
        for named in filter(None, map(_AGENT.fullmatch, names)):
            path = os.path.join(where, named.string)
            if regular_file(path) is not None:
                notes = msgspec.structs.asdict(read_notes(TaskFile(path)) or Notes())
                found.append(StoredSubagent(named["id"], path, session_id=session_id, owner=owner, **notes))
    return found


def read_start_time(agent: StoredSubagent) -> str:
    """Return the time of a subagent's first entry; empty if there is no entry or it cannot be read."""
    try:
        _, line = next(take_snapshot(agent.path, agent.session_id).forwards(), (0, None))
        return str(read_json(line or b"{}").get("timestamp") or "")
    except (OSError, SessionError, ValueError, AttributeError):
        return ""
