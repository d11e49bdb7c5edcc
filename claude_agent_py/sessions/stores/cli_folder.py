"""`CLIFolder`: the transcripts in a configuration folder of the CLI, as a session store."""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, cast

from claude_agent_py._base.bounded_reading import read_bytes
from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.event_loop import run_to_its_end
from claude_agent_py.sessions.files import append_line, delete_transcript, rename_new, write_atomically
from claude_agent_py.sessions.folders import AnyPath, regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.stores.base import BlockingStore, drop_duplicates, encode_entry, parse_entry
from claude_agent_py.sessions.stores.protocol import Place, SessionKey, SessionStoreEntry
from claude_agent_py.tasks.files.transcript import MOST_NOTES_BYTES, notes_path

SUFFIX: Final = ".jsonl"
METADATA: Final = "agent_metadata"
"""The type of the entry that holds the file `.meta.json` of a subagent's transcript."""
NOT_MIRRORED: Final = "api-request"
"""The type prefix of entries that the CLI does not mirror: copies of its requests."""
_SAFE_NAME: Final = re.compile(r'(?!\.{1,2}\Z)[^/\\:\0<>|"*?]+')
"""A name that stays in its folder, on every system."""


class CLIFolder(BlockingStore):
    """Keeps sessions where the CLI reads and writes them. Links are not followed.

    Args:
        projects: The folder of the projects.
        uid: The user whose files are read; None reads those of all users.
    """

    def __init__(self, projects: AnyPath, *, uid: int | None = None) -> None:
        self.projects: Path = Path(projects)
        self._uid = uid

    def find_path(self, place: Place) -> str:
        """Return the path of a transcript. Raises StoreError if it would lead out of the folder."""
        parts = [place.project, place.session, *(place.subpath.split("/") if place.subpath else ())]
        if not all(map(_SAFE_NAME.fullmatch, parts)):
            raise StoreError(f"the store has a transcript with the unsafe subpath {place.subpath!r}")
        return os.path.join(self.projects, *parts) + SUFFIX

    def iter_batches(self, place: Place) -> Iterator[list[SessionStoreEntry]]:
        """Yield the entries that the CLI mirrors, and at the end the description of a subagent. Blocks."""
        for batch in super().iter_batches(place):
            if mirrored := [entry for entry in batch if _is_mirrored(cast("dict[str, object]", entry).get("type"))]:
                yield mirrored
        with contextlib.suppress(OSError):
            path = notes_path(self.find_path(place))
            notes = parse_entry(read_bytes(path, most_bytes=MOST_NOTES_BYTES, uid=self._uid)[0])
            if notes is not None:
                yield [cast("SessionStoreEntry", {**notes, "type": METADATA})]

    def _load(self, place: Place) -> Iterator[bytes]:
        path = self.find_path(place)
        status = regular_file(path)
        if status is not None:
            yield from filter(None, Snapshot(path, status.st_size, uid=self._uid).copied_lines())

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        """Append entries, even if cancelled meanwhile: left to its thread, the file could return after its removal."""
        await run_to_its_end(partial(super().append, key, entries), name="claude_agent_py append")

    def _append_all(self, place: Place, entries: list[SessionStoreEntry], epoch: int | None) -> None:
        path = self.find_path(place)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lines = (encode_line(entry) for entry in drop_duplicates(entries) if entry.get("type") != METADATA)
        status = regular_file(path)
        if status is None or not status.st_size:
            write_atomically(path, lines, replace=status is not None)
        elif data := b"".join(lines):
            append_line(path, data, has_writer=False)
        write_description(path, entries)

    def rename(self, place: Place, new: Place) -> None:
        """Rename a session to a name that does not exist. Blocks; raises FileExistsError if it does, or OSError."""
        old, path = self.find_path(place), self.find_path(new)
        folders = old.removesuffix(SUFFIX), path.removesuffix(SUFFIX)
        has_subagents = os.path.isdir(folders[0])
        if has_subagents:
            os.rename(*folders)
        try:
            rename_new(old, path)
        except OSError:
            if has_subagents:
                os.rename(*reversed(folders))
            raise

    def _delete(self, place: Place) -> None:
        delete_files(self.find_path(place), place)

    def _list_subpaths(self, place: Place) -> list[str]:
        folder = Path(self.find_path(place).removesuffix(SUFFIX))
        # The target of a link does not belong to the session.
        return [] if folder.is_symlink() else list_subpaths(folder)

    def _find_projects(self, session: str) -> list[str]:
        """Return the projects with the session, or with what a store did not accept of its subagents alone."""
        places = [Place(path.name, session) for path in self.projects.glob("*")]
        return [each.project for each in places if regular_file(self.find_path(each)) or self._list_subpaths(each)]


def write_description(path: str, entries: list[SessionStoreEntry]) -> None:
    """Write the last description of a subagent, if there is one, where the CLI keeps it: beside the transcript."""
    described = [entry for entry in entries if entry.get("type") == METADATA]
    if described:
        fields = {name: value for name, value in described[-1].items() if name != "type"}
        write_atomically(notes_path(path), [json.dumps(fields).encode()], replace=True)


def delete_files(path: str, place: Place) -> None:
    """Delete a transcript and what belongs to it: the description of a subagent, or the subagents of a session."""
    if not place.subpath:
        delete_transcript(path)
        return
    for each in (path, notes_path(path)):
        Path(each).unlink(missing_ok=True)


def find_files(folder: Path, pattern: str) -> dict[Path, os.stat_result]:
    """Return the files in a folder whose paths match, with their status. Links are left out."""
    found = ((path, regular_file(str(path))) for path in folder.glob(pattern))
    return {path: status for path, status in found if status is not None}


def list_subpaths(folder: Path) -> list[str]:
    """Return the subpaths of the transcripts in the folder of a session, which another process may be deleting."""
    found = (Path(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(SUFFIX))
    files = (path for path in found if regular_file(str(path)) is not None)
    return [path.relative_to(folder).as_posix().removesuffix(SUFFIX) for path in files]


def _is_mirrored(kind: object) -> bool:
    return isinstance(kind, str) and not kind.startswith(NOT_MIRRORED)


def encode_line(entry: SessionStoreEntry) -> bytes:
    """Return an entry as a line of a transcript. Raises StoreError if it is not JSON."""
    return encode_entry(entry).encode("ascii") + b"\n"
