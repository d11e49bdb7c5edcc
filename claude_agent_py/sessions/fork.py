"""Copy a session, whole or up to a message, as a new session that the CLI can resume.

As in a fork by the CLI, entries keep their uuids, so a message has the same uuid in both sessions. Notes of the CLI
(costs, undo history, the requests that it sent) stay with the original. Subagents launched in the copied part are also
copied.
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
from claude_agent_py.sessions.chain import read_entry
from claude_agent_py.sessions.changes import change_error, encode_note
from claude_agent_py.sessions.files import write_atomically
from claude_agent_py.sessions.folders import AnyPath, find_session
from claude_agent_py.sessions.index import describe_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.transcript import StoredSubagent, find_agent_files, read_subagent, take_snapshot
from claude_agent_py.tasks.files.transcript import MOST_NOTES_BYTES, notes_path

_REPLACED: Final = b'{"type":"content-replacement"'
"""Notes on tool results that the CLI shortened; without them the copy's results would differ from the original's."""
_CALL: Final = re.compile(rb'"id":"([^"\\\\]{1,256})"')
"""The ids in a block of an answer, including the call's id."""


class _SessionIdField(msgspec.Struct, rename="camel", gc=False):
    session_id: Any = None


_decode_session_id: Final = msgspec.json.Decoder(_SessionIdField).decode


def fork_session(
    session_id: str,
    directory: AnyPath | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
    *,
    config_dir: AnyPath | None = None,
) -> SessionInfo:
    """Copy a session, even while a process has it open. The copy can be resumed.

    Subagents launched in the copied part are copied in full.

    Args:
        session_id: The id of the session to copy. The original is not changed.
        directory: The session's working directory; by default all projects are searched.
        up_to_message_id: The uuid of the last message to copy; by default everything is copied.
        title: The title of the copy; by default the original title with " (fork)" appended.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: The session does not exist.
        OptionsError: The id is not a UUID.
        SessionError: The session has no messages, lacks the last message, or the copy cannot be written.
    """
    source = find_session(session_id, directory, config_dir)
    name = (title or "").strip() or f"{describe_session(source, session_id).summary or 'Forked session'} (fork)"
    copy_id = str(uuid.uuid4())
    copy = os.path.join(os.path.dirname(source), f"{copy_id}.jsonl")
    copier = _SessionCopier(source, session_id, copy_id)
    try:
        write_atomically(copy, copier.iter_lines(up_to_message_id, name))
        return describe_session(copy, copy_id)
    except BaseException as error:
        shutil.rmtree(copy.removesuffix(".jsonl"), ignore_errors=True)
        if isinstance(error, OSError):
            raise change_error("copied", session_id, error) from error
        raise


class _SessionCopier:
    """Copies one session."""

    def __init__(self, source: str, session_id: str, copy_id: str) -> None:
        self._source = source
        self._session_id = session_id
        self._copy_id = copy_id
        self._calls: set[str] = set()
        """The ids in the copied entries, including the ids of tool calls."""

    def iter_lines(self, last: str | None, title: str) -> Iterator[bytes]:
        """Yield the lines of the copy, then write its subagents.

        The caller renames the finished file into place, so the subagents exist before the copy does.
        """
        snapshot = Snapshot(self._source, os.path.getsize(self._source))
        has_message = False
        is_complete = False
        for line in _iter_complete_lines(snapshot):
            try:
                if line.startswith(_REPLACED):
                    yield self._rewrite(line)
                    continue
                entry = read_entry(line)
            except ValueError:
                # A damaged line is useless in a copy.
                continue
            # Such a note names the current message of the conversation, which a partial copy may lack.
            if entry is not None and entry.explicit and last is None:
                yield self._rewrite(line)
            if entry is None or not entry.is_linked or entry.is_sidechain:
                continue
            has_message |= entry.is_message
            self._collect_calls(line)
            yield self._rewrite(line, entry.uuid)
            if entry.uuid == last:
                is_complete = True
                break
        if not has_message:
            raise SessionError(f"session {self._session_id} has no messages to copy", session_id=self._session_id)
        if last is not None and not is_complete:
            raise SessionError(f"session {self._session_id} has no message {last}", session_id=self._session_id)
        yield encode_note({"type": "custom-title", "customTitle": title}, self._copy_id)
        self._copy_subagents(is_whole=last is None)

    def _collect_calls(self, line: bytes) -> None:
        if b'"tool_use"' in line:
            self._calls.update(found.decode("utf-8", "replace") for found in _CALL.findall(line))

    def _copy_subagents(self, *, is_whole: bool) -> None:
        """Copy the subagents launched by copied calls, and recursively the subagents that these launched."""
        left = [read_subagent(path, self._session_id) for path in find_agent_files(self._source.removesuffix(".jsonl"))]
        while taken := [agent for agent in left if is_whole or agent.tool_use_id in self._calls]:
            left = [agent for agent in left if agent not in taken]
            for agent in taken:
                self._copy_subagent(agent)

    def _copy_subagent(self, agent: StoredSubagent) -> None:
        folder = self._source.removesuffix(".jsonl")
        path = os.path.join(os.path.dirname(folder), self._copy_id, os.path.relpath(agent.path, folder))
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # Early versions of the CLI wrote no notes.
        with contextlib.suppress(FileNotFoundError):
            write_atomically(notes_path(path), [read_bytes(notes_path(agent.path), most_bytes=MOST_NOTES_BYTES)[0]])
        write_atomically(path, self._subagent_lines(agent))

    def _subagent_lines(self, agent: StoredSubagent) -> Iterator[bytes]:
        for line in _iter_complete_lines(take_snapshot(agent.path, self._session_id)):
            self._collect_calls(line)
            try:
                yield self._rewrite(line)
            except ValueError:
                continue

    def _rewrite(self, line: bytes, origin: str | None = None) -> bytes:
        """Return a line with the copy's session id and, for an entry, its origin."""
        line = line.strip(b"\0 \t\r")
        own = f'"sessionId":"{self._copy_id}"'.encode()
        moved = line.replace(f'"sessionId":"{self._session_id}"'.encode(), own)
        added = b""
        # Another program may have written the line, or it was copied from a fork.
        if _decode_session_id(moved).session_id != self._copy_id:
            added += b"," + own
        if origin is not None and b'"forkedFrom":' not in line:
            came_from = {"sessionId": self._session_id, "messageUuid": origin}
            added += b',"forkedFrom":' + json.dumps(came_from, separators=(",", ":")).encode()
        return moved[:-1] + added + b"}\n"


def _iter_complete_lines(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the complete lines, in UTF-8."""
    for _, line in snapshot.forwards():
        if line:
            # The CLI also replaces invalid UTF-8 when it reads a line.
            yield line if line.isascii() else line.decode("utf-8", "replace").encode()
