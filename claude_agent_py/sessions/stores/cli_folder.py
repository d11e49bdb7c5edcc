"""`CLIFolder`: the transcripts in a configuration folder of the CLI, as a session store."""

import json
import os
import re
from pathlib import Path
from typing import Final, cast

from claude_agent_py._base.bounded_reading import read_bytes
from claude_agent_py._base.errors import StoreError
from claude_agent_py.sessions.files import append_line, write_atomically
from claude_agent_py.sessions.folders import AnyPath, regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.stores.base import BlockingStore, drop_duplicates, encode_entry, parse_entry
from claude_agent_py.sessions.stores.protocol import Place, SessionStoreEntry
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
    """

    def __init__(self, projects: AnyPath) -> None:
        self.projects: Path = Path(projects)

    def __repr__(self) -> str:
        return f"CLIFolder({str(self.projects)!r})"

    def find_path(self, place: Place) -> str:
        """Return the path of a transcript. Raises StoreError if it would lead out of the folder."""
        parts = [place.project, place.session, *(place.subpath.split("/") if place.subpath else ())]
        if not all(map(_SAFE_NAME.fullmatch, parts)):
            raise StoreError(f"the store has a transcript with the unsafe subpath {place.subpath!r}")
        return os.path.join(self.projects, *parts) + SUFFIX

    def _load_all(self, place: Place) -> list[SessionStoreEntry]:
        path = self.find_path(place)
        status = regular_file(path)
        if status is None:
            return []
        parsed = (parse_entry(line) for _, line in Snapshot(path, status.st_size).forwards() if line)
        entries = (entry for entry in parsed if entry is not None and isinstance(entry.get("type"), str))
        mirrored = drop_duplicates([entry for entry in entries if not entry["type"].startswith(NOT_MIRRORED)])
        try:
            notes = parse_entry(read_bytes(notes_path(path), most_bytes=MOST_NOTES_BYTES)[0])
        except OSError:
            notes = None
        return mirrored if notes is None else [cast("SessionStoreEntry", {"type": METADATA, **notes}), *mirrored]

    def _append_all(self, place: Place, entries: list[SessionStoreEntry], epoch: int | None) -> None:
        path = self.find_path(place)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lines = [encode_line(entry) for entry in drop_duplicates(entries) if entry.get("type") != METADATA]
        status = regular_file(path)
        if status is None or not status.st_size:
            write_atomically(path, lines, replace=status is not None)
        elif lines:
            append_line(path, b"".join(lines), has_writer=False)
        described = [entry for entry in entries if entry.get("type") == METADATA]
        if described:
            fields = {name: value for name, value in described[-1].items() if name != "type"}
            write_atomically(notes_path(path), [json.dumps(fields).encode()], replace=True)

    def _list_subpaths(self, place: Place) -> list[str]:
        folder = Path(self.find_path(place).removesuffix(SUFFIX))
        # The target of a link does not belong to the session.
        found = () if folder.is_symlink() else folder.rglob(f"*{SUFFIX}")
        below = (path for path in found if regular_file(str(path)) is not None)
        return [path.relative_to(folder).as_posix().removesuffix(SUFFIX) for path in below]

    def _find_projects(self, session: str) -> list[str]:
        found = self.projects.glob(f"*/{session}{SUFFIX}")
        return [path.parent.name for path in found if regular_file(str(path)) is not None]


def encode_line(entry: SessionStoreEntry) -> bytes:
    """Return an entry as a line of a transcript. Raises StoreError if it is not JSON."""
    return encode_entry(entry).encode("ascii") + b"\n"
