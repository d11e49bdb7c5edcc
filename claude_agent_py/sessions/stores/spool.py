"""`Spool`: keeps entries that the store did not accept, if the CLI's own files cannot serve as the queue.

They cannot if the CLI runs in a container or on another machine, or if its files are removed with a private home.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from claude_agent_py._event_loop import run_file_work
from claude_agent_py.sessions.files import write_atomically
from claude_agent_py.sessions.stores.private_folder import PrivateFolder, make_folder
from claude_agent_py.sessions.stores.protocol import Place, SessionStoreEntry
from claude_agent_py.sessions.stores.transfers import (
    BATCH_CHARS,
    BATCH_ENTRIES,
    SUFFIX,
    Append,
    join_subpath,
)
from claude_agent_py.tasks.files.transcript import notes_path

PROJECT: Final = "undelivered"
SENDING: Final = "sending"
"""The folder of a transcript that is being sent."""


class Spool:
    """A private folder with transcripts, created when the first one is added."""

    def __init__(self) -> None:
        self.folder: PrivateFolder | None = None
        """The folder; None until the first transcript is added."""

    def prepare_path(self, place: Place, project: str = PROJECT) -> str:
        """Return the path of a transcript. Creates its folder."""
        if self.folder is None:
            self.folder = make_folder(None)
        session = os.path.join(self.folder.projects, project, place.session)
        path = join_subpath(session, place.subpath) if place.subpath else session + SUFFIX
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return path

    def add(self, place: Place, entries: Sequence[SessionStoreEntry], *, is_older: bool = False) -> str:
        """Add entries to the end of a transcript, or older entries to its start. Return its path."""
        path = self.prepare_path(place)
        lines = b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries)
        if is_older:
            self._prepend(place, lines)
            return path
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(lines)
        return path

    async def send(self, place: Place, append: Append) -> int:
        """Move the entries of a transcript to the store, in order. Return how many.

        Entries added during the call stay, as do the entries that a failing store did not accept.
        """
        sending = self.prepare_path(place, SENDING)
        sent = 0
        count = 0
        os.replace(self.prepare_path(place), sending)
        try:
            while batch := await run_file_work(_read_batch, sending, sent):
                entries, end = batch
                await append(place.key, entries)
                sent = end
                count += len(entries)
        finally:
            self._restore_unsent(place, sending, sent)
        return count

    def _restore_unsent(self, place: Place, sending: str, sent: int) -> None:
        """Put the unsent entries before the entries added since.

        Does not use a thread, so that it also works when cancelled.
        """
        with open(sending, "rb") as file:
            file.seek(sent)
            self._prepend(place, file.read())
        os.unlink(sending)

    def _prepend(self, place: Place, lines: bytes) -> None:
        if lines:
            path = self.prepare_path(place)
            rest = Path(path).read_bytes() if os.path.isfile(path) else b""
            write_atomically(path, [lines, rest], replace=True)

    def has(self, place: Place) -> bool:
        """Return whether the spool has entries of a transcript."""
        return self.folder is not None and os.path.isfile(self.prepare_path(place))

    def keep(self, place: Place, transcript: str) -> None:
        """Copy a transcript of the CLI, because its folder is about to be removed."""
        path = self.prepare_path(place)
        shutil.copyfile(transcript, path)
        if os.path.isfile(notes_path(transcript)):
            shutil.copyfile(notes_path(transcript), notes_path(path))


def _read_batch(path: str, start: int) -> tuple[list[SessionStoreEntry], int] | None:
    """Return the next entries of a transcript and their end position, or None at the end of the file."""
    with open(path, "rb") as file:
        file.seek(start)
        lines = file.readlines(BATCH_CHARS)[:BATCH_ENTRIES]
    if not lines:
        return None
    return [json.loads(line) for line in lines], start + sum(map(len, lines))
