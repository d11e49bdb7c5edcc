"""`Spool`: keeps entries that the store did not accept, for when the CLI's own files cannot serve as the queue.

They cannot if the CLI runs in a container or on another machine, or if its files are removed with a private home.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from claude_agent_py._event_loop import run_file_work
from claude_agent_py.sessions.files import write_whole
from claude_agent_py.sessions.stores.local import (
    BATCH_CHARS,
    BATCH_ENTRIES,
    SUFFIX,
    Append,
    path_below,
)
from claude_agent_py.sessions.stores.private_folder import PrivateFolder, make_folder
from claude_agent_py.sessions.stores.protocol import Place, SessionStoreEntry
from claude_agent_py.tasks.files.transcript import notes_path

PROJECT: Final = "undelivered"
SENDING: Final = "sending"
"""Where a transcript is while it is sent."""


class Spool:
    """A private folder with transcripts, created for the first one."""

    def __init__(self) -> None:
        self.folder: PrivateFolder | None = None
        """The folder; None if nothing is kept."""

    def path_of(self, place: Place, project: str = PROJECT) -> str:
        """Return where a transcript is kept. Creates the folder."""
        if self.folder is None:
            self.folder = make_folder(None)
        own = os.path.join(self.folder.projects, project, place.session)
        path = path_below(own, place.subpath) if place.subpath else own + SUFFIX
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return path

    def add(self, place: Place, entries: Sequence[SessionStoreEntry], *, is_older: bool = False) -> str:
        """Add entries to a transcript, at its end or (older ones) at its start, and return its path."""
        path = self.path_of(place)
        lines = b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries)
        if is_older:
            self._put_first(place, lines)
            return path
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(lines)
        return path

    async def send(self, place: Place, append: Append) -> int:
        """Append the kept entries of a transcript to the store, in order, remove them, and return how many.

        Entries added meanwhile stay, as do those that a failing store did not accept.
        """
        sending, sent, count = self.path_of(place, SENDING), 0, 0
        os.replace(self.path_of(place), sending)
        try:
            while batch := await run_file_work(_batch, sending, sent):
                entries, end = batch
                await append(place.key, entries)
                sent, count = end, count + len(entries)
        finally:
            self._take_back(place, sending, sent)
        return count

    def _take_back(self, place: Place, sending: str, sent: int) -> None:
        """Put the unsent entries before those added meanwhile.

        Does not use a thread, so that it also works when cancelled.
        """
        with open(sending, "rb") as file:
            file.seek(sent)
            self._put_first(place, file.read())
        os.unlink(sending)

    def _put_first(self, place: Place, lines: bytes) -> None:
        if lines:
            path = self.path_of(place)
            rest = Path(path).read_bytes() if os.path.isfile(path) else b""
            write_whole(path, [lines, rest], replace=True)

    def has(self, place: Place) -> bool:
        """Return whether entries of a transcript are kept."""
        return self.folder is not None and os.path.isfile(self.path_of(place))

    def keep(self, place: Place, transcript: str) -> None:
        """Copy a transcript of the CLI, because its folder is about to be removed."""
        path = self.path_of(place)
        shutil.copyfile(transcript, path)
        if os.path.isfile(notes_path(transcript)):
            shutil.copyfile(notes_path(transcript), notes_path(path))


def _batch(path: str, start: int) -> tuple[list[SessionStoreEntry], int] | None:
    """Return the next entries of a transcript and where they end, or None at its end."""
    with open(path, "rb") as file:
        file.seek(start)
        lines = file.readlines(BATCH_CHARS)[:BATCH_ENTRIES]
    return ([json.loads(line) for line in lines], start + sum(map(len, lines))) if lines else None
