"""Copy a session, whole or up to a message, as a new session that the CLI can resume.

As when the CLI forks, entries keep their uuids, so a message has the same uuid in both. Notes of the CLI (costs, undo
history, the requests that it sent) stay with the original. The subagents that the copied part launched are copied, too.
All calls block.
"""

import contextlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from claude_agent_py._errors import SessionError
from claude_agent_py._untrusted import read_bytes
from claude_agent_py.sessions.changes import failed, note_line
from claude_agent_py.sessions.entries import read_entry
from claude_agent_py.sessions.files import write_whole
from claude_agent_py.sessions.folders import AnyPath, find_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.listing import info_of
from claude_agent_py.sessions.subagent import StoredSubagent, agent_files, read_subagent, snapshot_of
from claude_agent_py.tasks.files.transcript import MOST_NOTES_BYTES, notes_path

_REPLACED: Final = b'{"type":"content-replacement"'
"""Notes on tool results that the CLI shortened; without them the copy's results would differ from the original's."""
_CALL: Final = re.compile(rb'"id":"([^"\\\\]{1,256})"')
"""The ids in a block of an answer, including that of a call."""


class _Place(msgspec.Struct, rename="camel", gc=False):
    session_id: Any = None


_place: Final = msgspec.json.Decoder(_Place).decode


def fork_session(
    session_id: str,
    directory: AnyPath | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
    *,
    config_dir: AnyPath | None = None,
) -> SessionInfo:
    """Copy a session, even while a process has it open, and return the copy, which can be resumed.

    Subagents launched in the copied part are copied whole.

    Args:
        session_id: The id of the session to copy, which is not changed.
        directory: Its working directory; by default it is looked for in all projects.
        up_to_message_id: The uuid of the last message to copy; by default everything is copied.
        title: The title of the copy; by default that of the original with " (fork)".
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        OptionsError: The id is not a uuid.
        SessionError: It has no messages, it lacks that message, or the copy cannot be written.
    """
    source = find_session(session_id, directory, config_dir)
    name = (title or "").strip() or f"{info_of(source, session_id).summary or 'Forked session'} (fork)"
    copy_id = str(uuid.uuid4())
    copy = os.path.join(os.path.dirname(source), f"{copy_id}.jsonl")
    copying = _Copying(source, session_id, copy_id)
    try:
        write_whole(copy, copying.lines(up_to_message_id, name))
        return info_of(copy, copy_id)
    except BaseException as error:
        shutil.rmtree(copy.removesuffix(".jsonl"), ignore_errors=True)
        if isinstance(error, OSError):
            raise failed("copied", session_id, error) from error
        raise


class _Copying:
    """Copies one session."""

    def __init__(self, source: str, session_id: str, copy_id: str) -> None:
        self._source = source
        self._session_id = session_id
        self._copy_id = copy_id
        self._calls: set[str] = set()
        """The ids in the copied entries, including those of tool calls."""

    def lines(self, last: str | None, title: str) -> Iterator[bytes]:
        """Yield the lines of the copy, then write its subagents, so that they exist before it does."""
        snapshot = Snapshot(self._source, os.path.getsize(self._source))
        has_message = is_complete = False
        for line in _sound_lines(snapshot):
            try:
                if line.startswith(_REPLACED):
                    yield self._moved(line)
                    continue
                entry = read_entry(line)
            except ValueError:
                continue  # a damaged line is useless in a copy
            if entry is not None and entry.explicit and last is None:  # names the current message of the conversation
                yield self._moved(line)
            if entry is None or not entry.is_linked or entry.is_sidechain:
                continue
            has_message |= entry.is_message
            self._note_calls(line)
            yield self._moved(line, entry.uuid)
            if entry.uuid == last:
                is_complete = True
                break
        if not has_message:
            raise SessionError(f"session {self._session_id} has no messages to copy", session_id=self._session_id)
        if last is not None and not is_complete:
            raise SessionError(f"session {self._session_id} has no message {last}", session_id=self._session_id)
        yield note_line({"type": "custom-title", "customTitle": title}, self._copy_id)
        self._copy_subagents(is_whole=last is None)

    def _note_calls(self, line: bytes) -> None:
        if b'"tool_use"' in line:
            self._calls.update(found.decode("utf-8", "replace") for found in _CALL.findall(line))

    def _copy_subagents(self, *, is_whole: bool) -> None:
        """Copy the subagents launched by copied calls, and recursively those that they launched."""
        left = [read_subagent(path, self._session_id) for path in agent_files(self._source.removesuffix(".jsonl"))]
        while taken := [agent for agent in left if is_whole or agent.tool_use_id in self._calls]:
            left = [agent for agent in left if agent not in taken]
            for agent in taken:
                self._copy_subagent(agent)

    def _copy_subagent(self, agent: StoredSubagent) -> None:
        folder = self._source.removesuffix(".jsonl")
        path = os.path.join(os.path.dirname(folder), self._copy_id, os.path.relpath(agent.path, folder))
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # early versions of the CLI wrote none
            write_whole(notes_path(path), [read_bytes(notes_path(agent.path), most_bytes=MOST_NOTES_BYTES)[0]])
        write_whole(path, self._subagent_lines(agent))

    def _subagent_lines(self, agent: StoredSubagent) -> Iterator[bytes]:
        for line in _sound_lines(snapshot_of(agent.path, self._session_id)):
            self._note_calls(line)
            try:
                yield self._moved(line)
            except ValueError:
                continue

    def _moved(self, line: bytes, origin: str | None = None) -> bytes:
        """Return a line rewritten for the copy, with a note of its origin."""
        line = line.strip(b"\0 \t\r")
        own = f'"sessionId":"{self._copy_id}"'.encode()
        moved = line.replace(f'"sessionId":"{self._session_id}"'.encode(), own)
        added = b""
        if _place(moved).session_id != self._copy_id:  # written by another program, or a fork of a fork
            added += b"," + own
        if origin is not None and b'"forkedFrom":' not in line:
            came_from = {"sessionId": self._session_id, "messageUuid": origin}
            added += b',"forkedFrom":' + json.dumps(came_from, separators=(",", ":")).encode()
        return moved[:-1] + added + b"}\n"


def _sound_lines(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the complete lines, in UTF-8."""
    for _, line in snapshot.forwards():
        if line:
            yield line if line.isascii() else line.decode("utf-8", "replace").encode()  # as the CLI reads it
