"""Find messages by their text. All calls block."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from claude_agent_py._base.blocking_calls import blocking
from claude_agent_py._base.errors import OptionsError, SessionError
from claude_agent_py.sessions.folders import AnyPath
from claude_agent_py.sessions.index import list_sessions
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import CHUNK, Snapshot
from claude_agent_py.sessions.stored_session import StoredSession
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.wire.messages.content import TextBlock, ToolResultBlock, ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage

_AROUND: Final = 60
"""The number of characters in an excerpt on each side of the match."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.,:;!?=() -]+")
"""Characters that JSON does not escape."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that contains the text."""

    session: SessionInfo
    message: TranscriptMessage
    excerpt: str
    """The first match, with the text around it."""

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.session.id


@blocking
def search_sessions(
    text: str,
    directory: AnyPath | None = None,
    limit: int | None = None,
    *,
    include_worktrees: bool = True,
    config_dir: AnyPath | None = None,
) -> Iterator[SearchHit]:
    """Yield the messages that contain a text, newest sessions first, each session from its beginning.

    The search ignores case and covers prompts, answers, and the arguments and results of tool calls, including
    compacted parts. It does not cover abandoned branches and subagents, and skips unreadable sessions.

    Args:
        text: The text to find.
        directory: The working directory of the sessions; by default all directories.
        limit: The maximum number of messages to find.
        include_worktrees: Include the sessions of the other working trees of the directory's git repository.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        OptionsError: The text is empty.
    """
    if not text.strip():
        raise OptionsError("must not be empty", option="text")
    hits = _search(text, list_sessions(directory, None, 0, include_worktrees, config_dir=config_dir))
    return hits if limit is None else islice(hits, max(0, limit))


def _search(text: str, sessions: list[SessionInfo]) -> Iterator[SearchHit]:
    in_file, wanted = _build_pattern(text), re.compile(re.escape(text), re.IGNORECASE)
    for info in sessions:
        try:
            if in_file is not None and not _may_contain(Snapshot(info.path, info.file_size), in_file):
                continue
            for message in StoredSession(info).history:
                excerpt = _find_excerpt(message, wanted)
                if excerpt is not None:
                    yield SearchHit(info, message, excerpt)
        except (OSError, SessionError):
            continue


def _find_excerpt(message: TranscriptMessage, wanted: "re.Pattern[str]") -> str | None:
    """Return an excerpt of a message around a text, or None if the message does not contain it."""
    for part in _iter_texts(message):
        found = wanted.search(part)
        if found is not None:
            start = max(0, found.start() - _AROUND)
            end = found.end() + _AROUND
            before = "…" if start else ""
            after = "…" if end < len(part) else ""
            return f"{before}{part[start:end]}{after}"
    return None


def _iter_texts(message: TranscriptMessage) -> Iterator[str]:
    if isinstance(message.content, str):
        yield message.content
        return
    for block in message.content:
        if isinstance(block, TextBlock | ToolResultBlock):
            yield block.text
        elif isinstance(block, ToolUseBlock) and isinstance(message, AssistantMessage):
            yield from _iter_strings(block.input)


def _iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _iter_strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _iter_strings(part)
    elif value is not None:
        yield json.dumps(value)


def _build_pattern(text: str) -> "re.Pattern[bytes] | None":
    """Return a pattern that matches every file containing the text, however it is escaped; None if no pattern can."""
    plain = max(_PLAIN.findall(text), key=len, default="")
    if len(plain) <= 2:
        return None
    return re.compile(re.escape(plain.encode()), re.IGNORECASE)


def _may_contain(snapshot: Snapshot, pattern: "re.Pattern[bytes]") -> bool:
    overlap = b""
    with snapshot.open() as file:
        while data := file.read(CHUNK):
            if pattern.search(overlap + data):
                return True
            overlap = data[-len(pattern.pattern) :]
    return False
