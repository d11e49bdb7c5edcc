"""Find the session that a process resumes, and what is left in it. All calls block."""

import os
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py.sessions.folders import AnyPath, check_id, find_project_folders, find_session, regular_file
from claude_agent_py.sessions.index import list_sessions
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.stored_session import StoredSession, Totals, get_session
from claude_agent_py.sessions.transcript import take_snapshot
from claude_agent_py.wire.messages.conversation import UserMessage


def read_earlier(session_id: str, config_dir: AnyPath) -> tuple[StoredSession, Totals]:
    """Return a session as its last process left it, with its tasks, none of which runs, and the count of its turns."""
    session = get_session(session_id, config_dir=config_dir)
    session.is_left = True
    return session, session.totals


def find_title(title: str, directory: AnyPath | None, config_dir: AnyPath) -> str | None:
    """Return the id of the session with a title, or None if there is none or several.

    As the CLI does it (2.1.328): in the project of the working directory, upper and lower case being the same.
    """
    listed = list_sessions(directory or os.curdir, config_dir=config_dir)
    found = [info.id for info in listed if (info.custom_title or "").casefold() == title.strip().casefold()]
    return found[0] if len(found) == 1 else None


def find_session_with(
    prompts: Sequence[str], copy: str | None, directory: AnyPath | None, config_dir: AnyPath
) -> str | None:
    """Return the id of the newest session of a directory that holds one of these prompts, or None.

    Args:
        prompts: The uuids of the prompts.
        copy: The id of a session to leave out, because it is a copy.
        directory: The working directory of the session.
        config_dir: The CLI's configuration folder.
    """
    for info in list_sessions(directory or os.curdir, include_worktrees=False, config_dir=config_dir):
        if info.id != copy and find_uuids(Snapshot(info.path, info.file_size), prompts):
            return info.id
    return None


def find_prompts(session_id: str, prompts: Sequence[str], config_dir: AnyPath) -> dict[str, str] | None:
    """Return which of these prompts are in the transcript of a session, as `find_uuids` does.

    None if it has no message: the CLI (2.1.332) does not resume such a session.

    Raises:
        ClaudeAgentError: There is no transcript.
    """
    transcript = take_snapshot(find_session(session_id, None, config_dir), session_id)
    return find_uuids(transcript, prompts) if _has_message(transcript) else None


def remove_begun(session_id: str, config_dir: AnyPath) -> None:
    """Remove the transcript of a session whose CLI was killed before it wrote a message, if there is one.

    The next CLI would not begin the session.
    """
    for folder in find_project_folders(config_dir, None):
        path = os.path.join(folder, f"{check_id(session_id)}.jsonl")
        if regular_file(path) is not None and not _has_message(take_snapshot(path, session_id)):
            os.unlink(path)


class _Kind(msgspec.Struct, rename="camel", gc=False):
    """What kind an entry is of."""

    type: object = None
    is_meta: object = None


_decode_kind: Final = msgspec.json.Decoder(_Kind).decode


def _has_message(transcript: Snapshot) -> bool:
    """Return whether a transcript has a message, also one that is no longer in the conversation after a rewind."""
    return any(line is None or _is_message(line) for _, line in transcript.forwards())


def _is_message(line: bytes) -> bool:
    try:
        kind = _decode_kind(line)
    except msgspec.DecodeError:
        return False
    return kind.type in ("user", "assistant") and kind.is_meta is not True


def find_uuids(transcript: Snapshot, uuids: Sequence[str]) -> dict[str, str]:
    """Return which of these uuids of prompts are in a transcript, each with the prompt that its turn began with.

    That is mostly itself. Of prompts that the CLI sent to the model as one, it is the last one, whose uuid their entry
    has. A prompt that it took into a running turn is the `source_uuid` of an attachment. Empty if nothing can be read.
    """
    marks = [(uuid, f'"uuid":"{uuid}"'.encode(), f'"source_uuid":"{uuid}"'.encode()) for uuid in uuids]
    found: dict[str, str] = {}
    begun = b""
    """The line of the prompt that the turn began with."""
    try:
        for _, line in transcript.forwards():
            if line is None:
                continue
            if b'"promptSource":' in line:
                begun = line
            if b'"mergedSendUuids":[' in line:
                entry = _read_prompt(line)
                found.update((uuid, entry.uuid) for uuid in entry.merged_send_uuids if uuid in uuids)
            for uuid, is_entry, is_source in marks:
                if is_entry in line:
                    found[uuid] = uuid
                elif is_source in line:
                    found[uuid] = _read_prompt(begun).uuid or uuid
    except OSError:
        return {}
    return found


class _Prompt(msgspec.Struct, rename="camel", gc=False):
    """The uuids of the entry of a prompt."""

    uuid: str = ""
    merged_send_uuids: list[str] = []
    """Those of the prompts before it that are in the same entry (CLI 2.1.332)."""


_decode_prompt: Final = msgspec.json.Decoder(_Prompt).decode


def _read_prompt(line: bytes) -> _Prompt:
    try:
        return _decode_prompt(line)
    except msgspec.DecodeError:
        return _Prompt()


def read_prompts(session: StoredSession, uuids: Collection[str]) -> dict[str, UserMessage]:
    """Return the prompts with these uuids in the conversation, by uuid; none if it cannot be read."""
    found: dict[str, UserMessage] = {}
    try:
        for message in reversed(session.messages):
            if len(found) == len(uuids):
                break
            if isinstance(message, UserMessage) and message.uuid in uuids:
                found[message.uuid] = message
    except ClaudeAgentError:
        return {}
    return found
