"""`SessionInfo`: what the beginning and the end of a transcript say about a session.

Titles, tags and costs are notes among the entries, of which the last counts. The CLI repeats them at the end of the
file when it compacts or exits. All calls block.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from claude_agent_py._untrusted import open_regular
from claude_agent_py.wire.timestamps import seconds

HEAD_BYTES: Final = 64 * 1024
FIRST_BYTES: Final = 16 * 1024
"""How much is read at first; it almost always contains the first prompt."""
TAIL_BYTES: Final = 64 * 1024
FAR_TAIL_BYTES: Final = 256 * 1024
"""How far back to look for a title if the tail has none."""
DEEP_BYTES: Final = 64 * 1024 * 1024
"""How far back to look for it when a single session is requested."""
_BLOCK: Final = 1024 * 1024
_MOST_NOTE: Final = 64 * 1024
PROMPT_CHARS: Final = 200

_NOT_A_PROMPT: Final = re.compile(
    r"<local-command-(?:stdout|caveat)>|<session-start-hook>|<tick>|<goal>|<task-notification>"
    r"|\[Request interrupted by user[^\]]*\]"
    r"|\s*<ide_opened_file>.*</ide_opened_file>\s*$|\s*<ide_selection>.*</ide_selection>\s*$",
    re.DOTALL,
)
_NOTE: Final = b'{"type":"'
_KINDS: Final = frozenset({b"custom-title", b"ai-title", b"tag", b"last-prompt", b"summary", b"cost-state"})
_LINKED: Final = b'{"parentUuid":'
_MESSAGE: Final = b',"message":{'
_BRANCH: Final = b'"gitBranch":"'
_SIDECHAIN: Final = b'"isSidechain":true'
_BEFORE_MESSAGE: Final = 512
"""The maximum number of bytes before the message in an entry."""
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session, as described by both ends of its transcript. Times are in milliseconds since the epoch."""

    session_id: str
    summary: str
    """A name for it: its title, otherwise the latest or the first prompt."""
    last_modified: int
    file_size: int
    """Bytes."""
    custom_title: str | None = None
    """The title that was set, otherwise the one that the CLI generated."""
    first_prompt: str | None = None
    """At most 200 characters."""
    last_prompt: str | None = None
    git_branch: str | None = None
    cwd: str | None = None
    tag: str | None = None
    created_at: int | None = None
    archived: bool = False
    cost_usd: float | None = None
    """The cost of the session, estimated by the CLI when it last exited; None if it has not exited yet."""
    message_count: int | None = None
    """The number of entries of the user, the model and tools in the transcript, including abandoned branches; None if
    it was too large to read in full."""
    path: str = ""
    """The transcript."""

    @property
    def project_key(self) -> str:
        """The name of the project's folder, as `project_key_for_directory` returns it."""
        return os.path.basename(os.path.dirname(self.path))


class _Text(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None


class _Content(msgspec.Struct, gc=False):
    content: str | list[_Text] = ""


class _Line(msgspec.Struct, rename="camel", gc=False):
    """The relevant fields of entries and notes."""

    type: str = ""
    uuid: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    timestamp: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    message: _Content | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    tag: str | None = None
    last_prompt: str | None = None
    summary: str | None = None
    total_cost_usd: float | None = msgspec.field(name="totalCostUSD", default=None)


_decode: Final = msgspec.json.Decoder(_Line).decode


def _line(data: bytes) -> _Line:
    """Return the fields of a line, none of a damaged one."""
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        return _Line()


def read_info(
    path: str, session_id: str, known: SessionInfo | None = None, *, is_deep: bool = False
) -> SessionInfo | None:
    """Read a transcript's description of its session, or return None if the session did not begin with a prompt.

    Args:
        path: The transcript.
        session_id: Its id.
        known: The result for an earlier, shorter state of the same file.
        is_deep: Look far back for the title and the tag.

    Raises:
        OSError: The file cannot be read.
    """
    descriptor = open_regular(path)
    try:
        status = os.fstat(descriptor)
        ends = _Ends(descriptor, status.st_size)
        first = _first(ends)
        if first is None:
            return None
        last = _Last(ends, is_deep=is_deep)
        title, tag = last.title(), last.tag()
        if known is not None:
            title, tag = title or known.custom_title, known.tag if tag is None else tag
        last_prompt = last.of(b"last-prompt").last_prompt
        summary = title or last_prompt or last.of(b"summary").summary or first.prompt
        if not summary:
            return None
        return SessionInfo(
            session_id=session_id,
            summary=summary,
            last_modified=status.st_mtime_ns // 1_000_000,
            file_size=status.st_size,
            custom_title=title or None,
            first_prompt=first.prompt or (known.first_prompt if known else None),
            last_prompt=last_prompt,
            git_branch=last.branch() or first.branch,
            cwd=first.cwd,
            tag=tag or None,
            created_at=first.created_at,
            cost_usd=last.of(b"cost-state").total_cost_usd,
            message_count=_count(ends.head) if ends.is_whole else None,
            path=path,
        )
    finally:
        os.close(descriptor)


class _Ends:
    """The beginning and the end of a file."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._place = 0
        self.size = size
        self.is_whole = size <= TAIL_BYTES
        self.head = self._read(0, size if self.is_whole else FIRST_BYTES)
        self.tail = self.head if self.is_whole else self._read(size - TAIL_BYTES, TAIL_BYTES)

    def _read(self, start: int, size: int) -> bytes:
        if start != self._place:
            os.lseek(self._descriptor, start, os.SEEK_SET)
        self._place = start + size
        return os.read(self._descriptor, size)

    def read_more_head(self) -> bool:
        """Read more of the beginning; return whether there was more."""
        if self.is_whole or len(self.head) > FIRST_BYTES:
            return False
        self.head = self._read(0, HEAD_BYTES)
        return len(self.head) > FIRST_BYTES

    def far_tail(self) -> bytes:
        """Return the part before the tail; empty if that is the beginning."""
        start = max(0, self.size - FAR_TAIL_BYTES)
        return b"" if self.is_whole else self._read(start, self.size - TAIL_BYTES - start)

    def find_deep(self, kind: bytes) -> bytes | None:
        """Return the last note of a kind before the far tail, or None."""
        mark = b'\n{"type":"' + kind + b'"'
        end = max(0, self.size - FAR_TAIL_BYTES) + len(mark)
        lowest = max(0, self.size - DEEP_BYTES)
        while end > lowest + len(mark):
            start = max(lowest, end - _BLOCK)
            place = self._read(start, end - start).rfind(mark)
            if place >= 0:
                return self._read(start + place + 1, _MOST_NOTE).partition(b"\n")[0]
            end = start + len(mark)
        return None


@dataclass(slots=True)
class _First:
    prompt: str = ""
    created_at: int | None = None
    cwd: str | None = None
    branch: str | None = None


def _first(ends: _Ends) -> _First | None:
    """Return the fields of the beginning, or None for a subagent's transcript."""
    while True:
        found, command = _First(), ""
        for data in _complete_lines(ends):
            line = _line(data)
            if found.created_at is None and line.timestamp:
                found.created_at = _milliseconds(line.timestamp)
            if line.uuid is None:
                continue
            if line.is_sidechain and found.cwd is None:
                return None
            found.cwd = found.cwd or line.cwd
            found.branch = found.branch or line.git_branch
            if line.type == "user" and line.message and not (line.is_meta or line.is_compact_summary):
                prompt, named = _prompt(line.message.content)
                command = command or named
                if prompt:
                    found.prompt = prompt
                    return found
        if not ends.read_more_head():
            found.prompt = command
            return found


def _complete_lines(ends: _Ends) -> Iterator[bytes]:
    start, head = 0, ends.head
    while (end := head.find(b"\n", start)) >= 0:
        yield head[start:end]
        start = end + 1
    if ends.is_whole and start < len(head):
        yield head[start:]


def _prompt(content: str | list[_Text]) -> tuple[str, str]:
    """Return the prompt and the slash command in a message, if any."""
    texts = [content] if isinstance(content, str) else [block.text or "" for block in content if block.type == "text"]
    command = ""
    for text in texts:
        if named := _COMMAND.search(text):
            command = command or named[1]
            continue
        line = " ".join(text.split())
        if line and not _NOT_A_PROMPT.match(text):
            return (line if len(line) <= PROMPT_CHARS else line[:PROMPT_CHARS].rstrip() + "…"), command
    return "", command


class _Last:
    """The last notes of each kind."""

    def __init__(self, ends: _Ends, *, is_deep: bool) -> None:
        self._ends = ends
        self._notes = _notes(ends.tail)
        self._first: dict[bytes, bytes] = {}
        """Those in the beginning, which have the lowest precedence."""
        self._is_far = ends.is_whole
        self._is_deep = is_deep and ends.size > FAR_TAIL_BYTES

    def of(self, kind: bytes) -> _Line:
        """Return the last note of a kind, empty if there is none."""
        note = self._notes.get(kind) or self._first.get(kind)
        return _Line() if note is None else _line(note)

    def title(self) -> str | None:
        """Return the title that was set last, otherwise the generated one, or None."""
        return self._anywhere(b"custom-title").custom_title or self._anywhere(b"ai-title").ai_title

    def tag(self) -> str | None:
        """Return the last tag, which is empty if it was removed, or None."""
        return self._anywhere(b"tag").tag

    def branch(self) -> str | None:
        """Return the git branch of the last entry. It is at the end of an entry, after any output of tools."""
        tail = self._ends.tail
        start = tail.rfind(_BRANCH)
        end = tail.find(b'"', start + len(_BRANCH))
        try:
            return msgspec.json.decode(tail[start + len(_BRANCH) - 1 : end + 1], type=str) if start >= 0 else None
        except ValueError:
            return None

    def _anywhere(self, kind: bytes) -> _Line:
        if kind not in self._notes and not self._is_far:
            self._is_far = True
            self._notes = {**_notes(self._ends.far_tail()), **self._notes}
            self._first = _notes(self._ends.head)
        if kind not in self._notes and self._is_deep and (note := self._ends.find_deep(kind)) is not None:
            self._notes[kind] = note
        return self.of(kind)


def _notes(data: bytes) -> dict[bytes, bytes]:
    """Return the last note of each kind. Notes begin with their type."""
    found: dict[bytes, bytes] = {}
    end = len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end) + 1
        if data.startswith(_NOTE, start):
            kind = data[start + len(_NOTE) : data.find(b'"', start + len(_NOTE), end)]
            if kind in _KINDS and kind not in found:
                found[kind] = data[start:end]
        end = start - 1
    return found


def _count(data: bytes) -> int:
    """Count the entries of the user, the model and tools in a whole file."""
    count, end = 0, len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end) + 1
        if data.startswith(_LINKED, start):
            place = data[start : min(end, start + _BEFORE_MESSAGE)]
            count += _MESSAGE in place and _SIDECHAIN not in place
        end = start - 1
    return count


def _milliseconds(timestamp: str) -> int | None:
    at = seconds(timestamp)
    return None if at is None else round(at * 1000)
