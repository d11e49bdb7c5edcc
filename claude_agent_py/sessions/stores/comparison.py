"""Compare transcripts: which entries does one lack, and does the other continue its conversation."""

from collections import Counter
from pathlib import PurePath
from typing import Any, Final, cast

from claude_agent_py.sessions.folders import parse_session_id
from claude_agent_py.sessions.stores.base import encode_entry, read_uuid
from claude_agent_py.sessions.stores.cli_folder import METADATA, SUFFIX
from claude_agent_py.sessions.stores.protocol import Place, SessionStoreEntry

TIP: Final = "last-prompt"
"""The type of the entry that can name the current message of the conversation."""


def parse_place(path: str, project: str) -> Place | None:
    """Return the place of a transcript file in a project of the store, or None for other files.

    A transcript is `<config>/projects/<any>/<session>.jsonl` or `.../<session>/<subpath>.jsonl`.
    """
    parts = PurePath(path).parts
    for start in range(len(parts) - 3, -1, -1):
        if parts[start] != "projects" or not path.endswith(SUFFIX):
            continue
        below = parts[start + 2 :]
        session = parse_session_id(below[0] if len(below) == 1 else below[0] + SUFFIX)
        if session is not None:
            return Place(project, session, "/".join(below[1:]).removesuffix(SUFFIX))
    return None


def find_missing(entries: list[SessionStoreEntry], stored: list[SessionStoreEntry]) -> list[SessionStoreEntry]:
    """Return the entries that a transcript lacks.

    Each stored entry without a uuid matches one entry with the same content. Of the descriptions of a subagent, the
    last one counts.

    Raises:
        StoreError: An entry is not JSON.
    """
    uuids = {read_uuid(entry) for entry in stored} - {None}
    notes = Counter(encode_entry(entry, sort_keys=True) for entry in stored if read_uuid(entry) is None)
    current, described = (_find_last(METADATA, each) for each in (entries, stored))
    missing = []
    for entry in entries:
        uuid = read_uuid(entry)
        if uuid is not None:
            is_known = uuid in uuids
        elif entry is current:
            is_known = entry == described
        else:
            text = encode_entry(entry, sort_keys=True)
            is_known = notes[text] > 0
            notes[text] -= is_known
        if not is_known:
            missing.append(entry)
    return missing


def _find_last(kind: str, entries: list[SessionStoreEntry]) -> SessionStoreEntry | None:
    return next((entry for entry in reversed(entries) if entry["type"] == kind), None)


def find_other_tip(
    entries: list[SessionStoreEntry], stored: list[SessionStoreEntry], session: str
) -> SessionStoreEntry | None:
    """Return a note that names the current message of a stored conversation, or None if the entries continue it."""
    uuid, newest = _find_tip(stored)
    if uuid is None or any(_continues(entry, uuid, newest) for entry in cast("list[dict[str, Any]]", entries)):
        return None
    last = _find_last(TIP, stored)
    note = {
        "type": TIP,
        "lastPrompt": None if last is None else last.get("lastPrompt"),
        "leafUuid": uuid,
        "explicit": True,
        "sessionId": session,
    }
    return cast("SessionStoreEntry", {name: value for name, value in note.items() if value})


def _continues(entry: dict[str, Any], uuid: str, newest: list[str]) -> bool:
    return entry.get("uuid") == uuid or entry.get("parentUuid") in newest or entry.get("logicalParentUuid") in newest


def _find_tip(stored: list[SessionStoreEntry]) -> tuple[str | None, list[str]]:
    """Return the uuid of a conversation's current message, or None if there are no messages; and the newest uuids.

    The newest uuids are that message's and those of the entries after it, for example attachments.
    """
    newest: list[str] = []
    for entry in reversed(cast("list[dict[str, Any]]", stored)):
        if entry["type"] == TIP and entry.get("explicit") is True and isinstance(entry.get("leafUuid"), str):
            return entry["leafUuid"], [*newest, entry["leafUuid"]]
        uuid = read_uuid(cast("SessionStoreEntry", entry))
        if uuid is not None:
            newest.append(uuid)
            if entry["type"] in ("user", "assistant"):
                return None if entry.get("isSidechain") is True else uuid, newest
    return None, newest
