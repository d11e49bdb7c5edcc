"""Change sessions on disk: title, tag, archive, deletion.

A title or a tag is one appended line, which is safe while the CLI writes: the CLI adopts the values at the end of the
file. A session that a process has open cannot be deleted. All calls block.
"""

import json
import os
import re
import shutil
import unicodedata
from typing import Any, Final

from claude_agent_py._errors import OptionsError, SessionBusyError, SessionError
from claude_agent_py.sessions.archive import set_archived
from claude_agent_py.sessions.files import append_line
from claude_agent_py.sessions.folders import AnyPath, config_folder, find_session
from claude_agent_py.sessions.running import process_on

_INVISIBLE: Final = frozenset({"Cf", "Co", "Cn", "Cc", "Cs"})
_SPACE: Final = re.compile(r"\s+")


def rename_session(
    session_id: str, title: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> None:
    """Set the title of a session, even while a process has it open.

    Args:
        session_id: The session's id.
        title: The title; white space around it is removed.
        directory: The session's working directory; by default it is looked for in all projects.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        OptionsError: The id is not a uuid, or the title is empty.
        SessionError: The transcript cannot be written.
    """
    _append(session_id, directory, config_dir, {"type": "custom-title", "customTitle": checked_title(title)})


def tag_session(
    session_id: str, tag: str | None, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> None:
    """Set or remove the tag of a session, even while a process has it open.

    Args:
        session_id: The session's id.
        tag: The tag, without invisible characters and white space around it; None removes it.
        directory: The session's working directory; by default it is looked for in all projects.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        OptionsError: The id is not a uuid, or the tag is empty.
        SessionError: The transcript cannot be written.
    """
    _append(session_id, directory, config_dir, {"type": "tag", "tag": checked_tag(tag)})


def archive_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Mark a session as archived. The CLI unarchives it when it gets a prompt.

    Args:
        session_id: The session's id.
        directory: The session's working directory; by default it is looked for in all projects.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        SessionBusyError: A process has it open and would unarchive it.
        SessionError: The record cannot be written.
    """
    path = find_session(session_id, directory, config_dir)
    check_idle(session_id, config_dir)
    _archive(path, session_id, archived=True)


def unarchive_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Undo `archive_session`. Takes the same arguments and raises the same errors except `SessionBusyError`."""
    _archive(find_session(session_id, directory, config_dir), session_id, archived=False)


def delete_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Delete a session's transcript and the folder with those of its subagents. It cannot be undone.

    Args:
        session_id: The session's id.
        directory: The session's working directory; by default it is looked for in all projects.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: There is no such session.
        SessionBusyError: A process has it open.
        SessionError: A file cannot be deleted.
    """
    path = find_session(session_id, directory, config_dir)
    check_idle(session_id, config_dir)
    folder = path.removesuffix(".jsonl")
    try:
        os.unlink(path)
        if os.path.islink(folder):
            os.unlink(folder)  # its target does not belong to the session
        elif os.path.isdir(folder):
            shutil.rmtree(folder)
    except OSError as error:
        raise failed("deleted", session_id, error) from error


def checked_title(title: str) -> str:
    """Return a title in one line. Raises OptionsError if it is empty."""
    name = _SPACE.sub(" ", title).strip()
    if not name:
        raise OptionsError("must not be empty", option="title")
    return name


def checked_tag(tag: str | None) -> str:
    """Return a tag without invisible characters, empty for None. Raises OptionsError if nothing is left."""
    word = "" if tag is None else _visible(tag)
    if tag is not None and not word:
        raise OptionsError("must not be empty; None removes the tag", option="tag")
    return word


def check_idle(session_id: str, config_dir: AnyPath | None) -> None:
    """Raise SessionBusyError if a process has the session open."""
    process = process_on(config_folder(config_dir), session_id)
    if process is not None:
        raise SessionBusyError(session_id, process.pid, process.status)


def failed(what: str, session_id: str, error: OSError) -> SessionError:
    """Return the error for a session that cannot be changed."""
    reason = error.strerror or str(error)
    return SessionError(f"session {session_id} cannot be {what}: {reason}", session_id=session_id)


def _archive(path: str, session_id: str, *, archived: bool) -> None:
    try:
        set_archived(path, archived)
    except OSError as error:
        raise failed("archived" if archived else "unarchived", session_id, error) from error


def _append(session_id: str, directory: AnyPath | None, config_dir: AnyPath | None, note: dict[str, Any]) -> None:
    path = find_session(session_id, directory, config_dir)
    process = process_on(config_folder(config_dir), session_id)
    try:
        append_line(path, note_line(note, session_id), has_writer=process is not None)
    except TimeoutError:
        assert process is not None  # noqa: S101 - only a writer is waited for
        raise SessionBusyError(session_id, process.pid, process.status) from None
    except OSError as error:
        raise failed("changed", session_id, error) from error


def note_line(note: dict[str, Any], session_id: str) -> bytes:
    """Return a note as a line, as the CLI writes it."""
    text = json.dumps({**note, "sessionId": session_id}, separators=(",", ":"))
    return text.encode() + b"\n"


def _visible(text: str) -> str:
    """Normalize a text and remove invisible characters: directional marks, zero-width and private ones."""
    for _ in range(8):
        before, text = text, unicodedata.normalize("NFKC", text)
        text = "".join(char for char in text if char == " " or unicodedata.category(char) not in _INVISIBLE)
        if text == before:
            break
    return text.strip()
