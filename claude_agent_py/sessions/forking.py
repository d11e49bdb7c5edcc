"""Copy a session, whole or up to a message, as a new session that the CLI can resume.

As when the CLI forks, entries keep their uuids, so a message has the same uuid in both. Notes of the CLI (costs, undo
history, the requests that it sent) stay with the original, and so do the transcripts of its subagents. All calls block.
"""

import json
import os
import uuid
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from claude_agent_py._errors import SessionError
from claude_agent_py.sessions.changes import failed, note_line
from claude_agent_py.sessions.entries import read_entry
from claude_agent_py.sessions.files import write_whole
from claude_agent_py.sessions.folders import AnyPath, find_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.listing import info_of

_REPLACED: Final = b'{"type":"content-replacement"'
"""Notes on tool results that the CLI cut; without them the copy would have other results than the original."""


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
    """Copy a session, also while a process is at work on it, and return the copy, which can be resumed.

    Args:
        session_id: The id of the session to copy, which is not changed.
        directory: Its working directory; by default it is looked for in all projects.
        up_to_message_id: The uuid of the last message to copy; by default everything is copied.
        title: The title of the copy; by default that of the original with " (fork)".
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        OptionsError: The id is not a uuid.
        SessionError: It has no messages, or not that one, or the copy cannot be written.
    """
    source = find_session(session_id, directory, config_dir)
    name = (title or "").strip() or f"{info_of(source, session_id).summary or 'Forked session'} (fork)"
    copy_id = str(uuid.uuid4())
    copy = os.path.join(os.path.dirname(source), f"{copy_id}.jsonl")
    try:
        lines = _copied(Snapshot(source, os.path.getsize(source)), session_id, copy_id, up_to_message_id, name)
        write_whole(copy, lines)
        return info_of(copy, copy_id)
    except OSError as error:
        raise failed("copied", session_id, error) from error


def _copied(source: Snapshot, session_id: str, copy_id: str, last: str | None, title: str) -> Iterator[bytes]:
    has_message = is_complete = False
    for _, line in source.forwards():
        if not line:
            continue
        if not line.isascii():
            line = line.decode("utf-8", "replace").encode()  # as the CLI reads it
        try:
            if line.startswith(_REPLACED):
                yield _moved(line, session_id, copy_id) + b"\n"
                continue
            entry = read_entry(line)
        except ValueError:
            continue  # a damaged line helps nobody in a copy
        if entry is None or not entry.is_linked or entry.is_sidechain:
            continue
        has_message |= entry.is_message
        yield _moved(line, session_id, copy_id, entry.uuid) + b"\n"
        if entry.uuid == last:
            is_complete = True
            break
    if not has_message:
        raise SessionError(f"session {session_id} has no messages to copy", session_id=session_id)
    if last is not None and not is_complete:
        raise SessionError(f"session {session_id} has no message {last}", session_id=session_id)
    yield note_line({"type": "custom-title", "customTitle": title}, copy_id)


def _moved(line: bytes, session_id: str, copy_id: str, origin: str | None = None) -> bytes:
    """Return a line of a session as one of its copy, with a note on where it comes from."""
    line = line.strip(b"\0 \t\r")
    moved = line.replace(f'"sessionId":"{session_id}"'.encode(), f'"sessionId":"{copy_id}"'.encode())
    added = b""
    if _place(moved).session_id != copy_id:  # written by another program, or a fork of a fork
        added += f',"sessionId":"{copy_id}"'.encode()
    if origin is not None and b'"forkedFrom":' not in line:
        came_from = {"sessionId": session_id, "messageUuid": origin}
        added += b',"forkedFrom":' + json.dumps(came_from, separators=(",", ":")).encode()
    return moved[:-1] + added + b"}"
