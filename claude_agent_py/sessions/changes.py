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
from claude_agent_py.sessions.files import append_line, set_archived
from claude_agent_py.sessions.folders import AnyPath, config_folder, find_session
from claude_agent_py.sessions.processes import find_process

_INVISIBLE: Final = frozenset({"Cf", "Co", "Cn", "Cc", "Cs"})
_SPACE: Final = re.compile(r"\s+")


def rename_session(
    session_id: str, title: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> None:
    """Set the title of a session, even while a process has it open.

    Args:
        session_id: The session's id.
        title: The title. Surrounding white space is removed.
        directory: The session's working directory; by default all projects are searched.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: The session does not exist.
        OptionsError: The id is not a UUID, or the title is empty.
        SessionError: The transcript cannot be written.
    """
    _append(session_id, directory, config_dir, {"type": "custom-title", "customTitle": normalise_title(title)})


def tag_session(
    session_id: str, tag: str | None, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> None:
    """Set or remove the tag of a session, even while a process has it open.

    Args:
        session_id: The session's id.
        tag: The tag; None removes it. Invisible characters and surrounding white space are removed.
        directory: The session's working directory; by default all projects are searched.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: The session does not exist.
        OptionsError: The id is not a UUID, or the tag is empty.
        SessionError: The transcript cannot be written.
    """
    _append(session_id, directory, config_dir, {"type": "tag", "tag": normalise_tag(tag)})


def archive_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Mark a session as archived. The CLI unarchives the session on its next prompt.

    Args:
        session_id: The session's id.
        directory: The session's working directory; by default all projects are searched.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: The session does not exist.
        SessionBusyError: A process has the session open and would unarchive it.
        SessionError: The record cannot be written.
    """
    path = find_session(session_id, directory, config_dir)
    check_idle(session_id, config_dir)
    _archive(path, session_id, archived=True)


def unarchive_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Undo `archive_session`. Takes the same arguments and raises the same errors except `SessionBusyError`."""
    _archive(find_session(session_id, directory, config_dir), session_id, archived=False)


def delete_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Delete a session's transcript and the folder of its subagents. This cannot be undone.

    Args:
        session_id: The session's id.
        directory: The session's working directory; by default all projects are searched.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.

    Raises:
        SessionNotFoundError: The session does not exist.
        SessionBusyError: A process has the session open.
        SessionError: A file cannot be deleted.
    """
    path = find_session(session_id, directory, config_dir)
    check_idle(session_id, config_dir)
    folder = path.removesuffix(".jsonl")
    try:
        os.unlink(path)
        if os.path.islink(folder):
            # The link's target does not belong to the session.
            os.unlink(folder)
        elif os.path.isdir(folder):
            shutil.rmtree(folder)
    except OSError as error:
        raise change_error("deleted", session_id, error) from error


def normalise_title(title: str) -> str:
    """Return a title as one line. Raises OptionsError if the title is empty."""
    name = _SPACE.sub(" ", title).strip()
    if not name:
        raise OptionsError("must not be empty", option="title")
    return name


def normalise_tag(tag: str | None) -> str:
    """Return a tag without invisible characters; empty for None. Raises OptionsError if nothing remains."""
    if tag is None:
        return ""
    word = _strip_invisible(tag)
    if not word:
        raise OptionsError("must not be empty; None removes the tag", option="tag")
    return word


def check_idle(session_id: str, config_dir: AnyPath | None) -> None:
    """Raise SessionBusyError if a process has the session open."""
    process = find_process(config_folder(config_dir), session_id)
    if process is not None:
        raise SessionBusyError(session_id, process.pid, process.status)


def change_error(participle: str, session_id: str, error: OSError) -> SessionError:
    """Return the error for a session that cannot be changed."""
    reason = error.strerror or str(error)
    return SessionError(f"session {session_id} cannot be {participle}: {reason}", session_id=session_id)


def _archive(path: str, session_id: str, *, archived: bool) -> None:
    try:
        set_archived(path, archived)
    except OSError as error:
        raise change_error("archived" if archived else "unarchived", session_id, error) from error


def _append(session_id: str, directory: AnyPath | None, config_dir: AnyPath | None, note: dict[str, Any]) -> None:
    path = find_session(session_id, directory, config_dir)
    process = find_process(config_folder(config_dir), session_id)
    try:
        append_line(path, encode_note(note, session_id), has_writer=process is not None)
    except TimeoutError:
        # `append_line` only waits if there is a writer.
        assert process is not None  # noqa: S101
        raise SessionBusyError(session_id, process.pid, process.status) from None
    except OSError as error:
        raise change_error("changed", session_id, error) from error


def encode_note(note: dict[str, Any], session_id: str) -> bytes:
    """Return a note as a transcript line, in the CLI's format."""
    text = json.dumps({**note, "sessionId": session_id}, separators=(",", ":"))
    return text.encode() + b"\n"


def _strip_invisible(text: str) -> str:
    """Normalise a text and remove invisible characters: directional marks, zero-width and private-use characters."""
    # Removing a character can join others into a sequence that normalises further.
    for _ in range(8):
        before = text
        text = unicodedata.normalize("NFKC", text)
        text = "".join(char for char in text if char == " " or unicodedata.category(char) not in _INVISIBLE)
        if text == before:
            break
    return text.strip()
