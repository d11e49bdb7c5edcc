"""Change sessions on disk: title, tag, archive, deletion, copies.

A title or a tag is one appended line, which is safe while the CLI writes: the CLI adopts the values at the end of the
file. A session that a process has open cannot be deleted. All calls block.
"""

import contextlib
import json
import os
import re
import shutil
import unicodedata
import uuid
from collections.abc import Iterator
from typing import Final

import msgspec

from claude_agent_py._base.blocking_calls import blocking
from claude_agent_py._base.bounded_reading import read_bytes, read_object
from claude_agent_py._base.errors import OptionsError, SessionBusyError, SessionError
from claude_agent_py.sessions.chain import read_entry
from claude_agent_py.sessions.cost_notes import find_last_cost
from claude_agent_py.sessions.files import append_line, delete_transcript, set_archived, write_atomically
from claude_agent_py.sessions.folders import AnyPath, find_session
from claude_agent_py.sessions.index import describe_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.processes import find_process
from claude_agent_py.sessions.transcript import StoredSubagent, find_subagents, take_snapshot
from claude_agent_py.tasks.files.transcript import MOST_NOTES_BYTES, notes_path
from claude_agent_py.wire.base import JSONObject

_INVISIBLE: Final = frozenset({"Cf", "Co", "Cn", "Cc", "Cs"})
_SPACE: Final = re.compile(r"\s+")


@blocking
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
    _append(session_id, directory, config_dir, build_title(title))


@blocking
def tag_session(
    session_id: str, tag: str | None, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None
) -> None:
    """Set or, with None, remove the tag of a session, even while a process has it open.

    Invisible characters and surrounding white space are removed from the tag. Takes the other arguments and raises the
    errors of `rename_session`.
    """
    _append(session_id, directory, config_dir, build_tag(tag))


@blocking
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
    with _changing("archived", session_id):
        set_archived(path, True)


@blocking
def unarchive_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Undo `archive_session`. Takes the same arguments and raises the same errors except `SessionBusyError`."""
    path = find_session(session_id, directory, config_dir)
    with _changing("unarchived", session_id):
        set_archived(path, False)


@blocking
def delete_session(session_id: str, directory: AnyPath | None = None, *, config_dir: AnyPath | None = None) -> None:
    """Delete a session's transcript and the folder of its subagents. This cannot be undone.

    Takes the arguments and raises the errors of `archive_session`.
    """
    path = find_session(session_id, directory, config_dir)
    check_idle(session_id, config_dir)
    with _changing("deleted", session_id):
        delete_transcript(path)


def build_title(title: str) -> JSONObject:
    """Return the note of a title, as one line. Raises OptionsError if the title is empty."""
    name = _SPACE.sub(" ", title).strip()
    if not name:
        raise OptionsError("must not be empty", option="title")
    return {"type": "custom-title", "customTitle": name}


def build_tag(tag: str | None) -> JSONObject:
    """Return the note of a tag, without invisible characters. Raises OptionsError if nothing remains."""
    word = "" if tag is None else _strip_invisible(tag)
    if not word and tag is not None:
        raise OptionsError("must not be empty; None removes the tag", option="tag")
    return {"type": "tag", "tag": word}


def check_idle(session_id: str, config_dir: AnyPath | None) -> None:
    """Raise SessionBusyError if a process has the session open."""
    process = find_process(config_dir, session_id)
    if process is not None:
        raise SessionBusyError(session_id, process.pid, process.status)


@contextlib.contextmanager
def _changing(participle: str, session_id: str) -> Iterator[None]:
    """Raise SessionError if the session cannot be changed."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"session {session_id} cannot be {participle}: {reason}"
        raise SessionError(message, session_id=session_id) from error


def _append(session_id: str, directory: AnyPath | None, config_dir: AnyPath | None, note: JSONObject) -> None:
    path = find_session(session_id, directory, config_dir)
    process = find_process(config_dir, session_id)
    with _changing("changed", session_id):
        try:
            append_line(path, encode_note(note, session_id), has_writer=process is not None)
        except TimeoutError:
            # `append_line` only waits if there is a writer.
            assert process is not None  # noqa: S101
            raise SessionBusyError(session_id, process.pid, process.status) from None


def encode_note(note: JSONObject, session_id: str) -> bytes:
    """Return a note as a transcript line, in the CLI's format."""
    text = json.dumps({**note, "sessionId": session_id}, separators=(",", ":"))
    return text.encode() + b"\n"


def _strip_invisible(text: str) -> str:
    """Normalise a text and remove invisible characters: directional marks, zero-width and private-use characters."""
    normal = unicodedata.normalize("NFKC", text)
    visible = "".join(char for char in normal if char == " " or unicodedata.category(char) not in _INVISIBLE)
    # Removing a character can join others into a sequence that normalises further, to visible characters.
    return unicodedata.normalize("NFKC", visible).strip()


_REPLACED: Final = b'{"type":"content-replacement"'
"""Notes on tool results that the CLI shortened; without them the copy's results would differ from the original's."""
_CALL: Final = re.compile(rb'"id":"([^"\\\\]{1,256})"')
"""The ids in a block of an answer, including the call's id."""


_NOT_COPIED: Final = ("teamName", "agentName", "slug")
"""Fields that tie an entry to a team, and to the plan file that the original session writes."""
_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


@blocking
def fork_session(
    session_id: str,
    directory: AnyPath | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
    *,
    config_dir: AnyPath | None = None,
) -> SessionInfo:
    """Copy a session, even while a process has it open. The copy can be resumed. Blocks.

    As in a fork by the CLI, entries keep their uuids, so a message has the same uuid in both sessions, and the copy
    begins with the cost of the original, which counts for `max_budget_usd`. Other notes of the CLI (undo history, the
    requests that it sent) stay with the original, as do its team and its plan.
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
        SessionError: The session has no messages, lacks the last message, has a line of more than 256 MiB, or the copy
            cannot be written.
    """
    source = find_session(session_id, directory, config_dir)
    name = (title or "").strip() or f"{describe_session(source, session_id).summary or 'Forked session'} (fork)"
    copy_id = str(uuid.uuid4())
    copy = os.path.join(os.path.dirname(source), f"{copy_id}.jsonl")
    copier = _SessionCopier(source, session_id, copy_id)
    with _changing("copied", session_id):
        try:
            write_atomically(copy, copier.iter_lines(up_to_message_id, name))
            return describe_session(copy, copy_id)
        except BaseException:
            shutil.rmtree(copy.removesuffix(".jsonl"), ignore_errors=True)
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
        cost = find_last_cost(snapshot)
        if cost is not None:
            yield self._rewrite(_readable(cost))
        yield encode_note({"type": "custom-title", "customTitle": title}, self._copy_id)
        self._copy_subagents(is_whole=last is None)

    def _collect_calls(self, line: bytes) -> None:
        if b'"tool_use"' in line:
            self._calls.update(found.decode("utf-8", "replace") for found in _CALL.findall(line))

    def _copy_subagents(self, *, is_whole: bool) -> None:
        """Copy the subagents launched by copied calls, and recursively the subagents that these launched."""
        left = find_subagents(self._source.removesuffix(".jsonl"), self._session_id)
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
        """Return a line with the copy's session id and, for an entry, its origin. Other values keep their bytes."""
        line = line.strip(b"\0 \t\r")
        try:
            fields: JSONObject = dict(_decode_fields(line))
        except msgspec.DecodeError:
            found = read_object(line)  # it may have lone surrogates
            if found is None:
                raise
            fields = found
        for name in _NOT_COPIED:
            fields.pop(name, None)
        fields["sessionId"] = self._copy_id
        if origin is not None and "forkedFrom" not in fields:
            fields["forkedFrom"] = {"sessionId": self._session_id, "messageUuid": origin}
        return _encode(fields) + b"\n"


def _iter_complete_lines(snapshot: Snapshot) -> Iterator[bytes]:
    for line in snapshot.copied_lines():
        if line:
            yield _readable(line)


def _readable(line: bytes) -> bytes:
    """Return a line as the CLI reads it, which also replaces invalid UTF-8."""
    return line if line.isascii() else line.decode("utf-8", "replace").encode()
