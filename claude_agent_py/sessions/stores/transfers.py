"""Transfers between stores and the CLI's files: find the entries that a store lacks, and write transcripts to disk."""

import json
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Final, cast

from claude_agent_py._base.bounded_reading import read_bytes
from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py.sessions.files import write_atomically
from claude_agent_py.sessions.folders import parse_session_id, regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.stores.base import drop_duplicates, order_fields, parse_entry, read_uuid
from claude_agent_py.sessions.stores.protocol import Place, SessionKey, SessionStoreEntry
from claude_agent_py.tasks.files.transcript import MOST_NOTES_BYTES, notes_path


def serialise(entry: SessionStoreEntry) -> str:
    """Return the content of an entry as text."""
    return json.dumps(entry, sort_keys=True)


def build_missing_check(stored: Iterable[SessionStoreEntry]) -> Callable[[SessionStoreEntry], bool]:
    """Return a function that returns whether a store with these entries lacks the next entry.

    Each stored entry without a uuid matches one entry with the same content.
    """
    uuids = {read_uuid(entry) for entry in stored} - {None}
    notes = Counter(serialise(entry) for entry in stored if read_uuid(entry) is None)

    def is_missing(entry: SessionStoreEntry) -> bool:
        uuid = read_uuid(entry)
        if uuid is not None:
            return uuid not in uuids
        text = serialise(entry)
        is_known = notes[text] > 0
        if is_known:
            notes[text] -= 1
        return not is_known

    return is_missing


SUFFIX: Final = ".jsonl"
NOT_MIRRORED: Final = "api-request"
"""The type prefix of entries that the CLI does not mirror: copies of its requests."""
TIP: Final = "last-prompt"
"""The type of the entry that can name the current message of the conversation."""
METADATA: Final = "agent_metadata"
"""The type of the entry that holds the file `.meta.json` of a subagent's transcript."""
BATCH_ENTRIES: Final = 500
BATCH_CHARS: Final = 1024 * 1024

Append = Callable[[SessionKey, list[SessionStoreEntry]], Awaitable[None]]


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


async def send_missing(path: str, key: SessionKey, stored: list[SessionStoreEntry], append: Append) -> int:
    """Append the missing entries of a transcript on disk, in batches. Return how many.

    The CLI continues from the last message of a file. If the file lacks the store's current message, the session has
    continued elsewhere. A note then names the current message, and the appended entries become a branch.

    Raises:
        StoreError: The file does not exist.
    """
    tip = _TipWatcher(stored)
    batches = _iter_batches(_iter_missing(path, stored, tip))
    count = 0
    while batch := await run_file_work(next, batches, None):
        await append(key, batch)
        count += len(batch)
    if count and not tip.is_known:
        last_prompt = next((entry.get("lastPrompt") for entry in reversed(stored) if entry["type"] == TIP), None)
        note = {
            "type": TIP,
            "lastPrompt": last_prompt,
            "leafUuid": tip.uuid,
            "explicit": True,
            "sessionId": key["session_id"],
        }
        await append(key, [cast("SessionStoreEntry", {name: value for name, value in note.items() if value})])
    return count


def read_continuation(path: str, stored: list[SessionStoreEntry]) -> tuple[list[SessionStoreEntry], int]:
    """Return the missing entries of a transcript on disk and their size. Blocks.

    Returns no entries if the transcript lacks the store's current message.
    """
    tip = _TipWatcher(stored)
    missing = [*_iter_missing(path, stored, tip)]
    return ([entry for entry, _ in missing], sum(size for _, size in missing)) if tip.is_known else ([], 0)


class _TipWatcher:
    """Checks whether a transcript has the current message of the store's conversation, or continues it."""

    def __init__(self, stored: list[SessionStoreEntry]) -> None:
        self.uuid, self._newest = _find_tip(stored)
        self.is_known: bool = self.uuid is None

    def watch(self, entry: Mapping[str, Any]) -> None:
        """Process an entry of the transcript."""
        parents = (entry.get("parentUuid"), entry.get("logicalParentUuid"))
        self.is_known |= entry.get("uuid") == self.uuid or any(parent in self._newest for parent in parents)


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


def _iter_batches(entries: Iterator[tuple[SessionStoreEntry, int]]) -> Iterator[list[SessionStoreEntry]]:
    batch: list[SessionStoreEntry] = []
    size = 0
    for entry, chars in entries:
        batch.append(entry)
        size += chars
        if len(batch) >= BATCH_ENTRIES or size >= BATCH_CHARS:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _iter_missing(
    path: str, stored: list[SessionStoreEntry], tip: _TipWatcher
) -> Iterator[tuple[SessionStoreEntry, int]]:
    is_missing = build_missing_check(stored)
    described = [entry for entry in stored if entry.get("type") == METADATA]
    metadata = _read_metadata(path)
    if metadata is not None and (not described or described[-1] != metadata):
        yield metadata, len(str(metadata))
    for line in _iter_lines(path):
        entry = _parse_entry(line)
        if entry is None or entry["type"].startswith(NOT_MIRRORED):
            continue
        tip.watch(entry)
        if is_missing(entry):
            yield entry, len(line)


def _iter_lines(path: str) -> Iterator[bytes]:
    status = regular_file(path)
    if status is None:
        raise StoreError(f"{path} does not exist and cannot be compared with the store")
    for _, line in Snapshot(path, status.st_size).forwards():
        if line:
            yield line


def _parse_entry(line: bytes) -> SessionStoreEntry | None:
    entry = parse_entry(line)
    return entry if entry is not None and isinstance(entry.get("type"), str) else None


def _read_metadata(path: str) -> SessionStoreEntry | None:
    try:
        value = parse_entry(read_bytes(notes_path(path), most_bytes=MOST_NOTES_BYTES)[0])
    except OSError:
        return None
    return None if value is None else cast("SessionStoreEntry", {"type": METADATA, **value})


def list_transcripts(path: str) -> list[tuple[str, str]]:
    """Return the paths and subpaths of the transcripts of a session on disk, the session's own first."""
    found = [(path, "")]
    folder = Path(path.removesuffix(SUFFIX))
    if folder.is_symlink():
        # The link's target does not belong to the session.
        return found
    below = (each for each in sorted(folder.rglob(f"*{SUFFIX}")) if regular_file(str(each)) is not None)
    return found + [(str(each), each.relative_to(folder).as_posix().removesuffix(SUFFIX)) for each in below]


def write_transcript(path: str, entries: list[SessionStoreEntry]) -> None:
    """Write a transcript for the CLI and, for a subagent, its description file. Blocks.

    Raises:
        FileExistsError: The transcript already exists.
        OSError: A file cannot be written.
    """
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    entries = drop_duplicates(entries)
    write_atomically(path, (encode_line(entry) for entry in entries if entry.get("type") != METADATA))
    described = [entry for entry in entries if entry.get("type") == METADATA]
    if described:
        fields = {name: value for name, value in described[-1].items() if name != "type"}
        write_atomically(notes_path(path), [json.dumps(fields).encode()])


def encode_line(entry: SessionStoreEntry) -> bytes:
    """Return an entry as a line of a transcript."""
    return json.dumps(order_fields(entry), separators=(",", ":")).encode("ascii") + b"\n"


_SAFE_NAME: Final = re.compile(r'(?!\.{1,2}\Z)[^/\\:\0<>|"*?]+')
"""A name that stays in its folder, on every system."""


def join_subpath(folder: str, subpath: str) -> str:
    """Return the path of a subagent's transcript in the folder of its session.

    Raises:
        StoreError: The subpath leads out of the folder.
    """
    parts = subpath.split("/")
    if not all(map(_SAFE_NAME.fullmatch, parts)):
        raise StoreError(f"the store has a transcript with the unsafe subpath {subpath!r}")
    return os.path.join(folder, *parts) + SUFFIX
