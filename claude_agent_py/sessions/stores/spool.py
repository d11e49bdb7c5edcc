"""`Spool`: keeps entries that the store did not take, where the CLI's own files cannot serve as the queue.

That is so if the CLI runs in a container or on another machine, and if its files are removed with a private home.
"""

import json
import os
import shutil
from collections.abc import Sequence

from claude_agent_py.sessions.stores.blocking import Place
from claude_agent_py.sessions.stores.local import SUFFIX, metadata_path, path_below
from claude_agent_py.sessions.stores.materialise import PrivateFolder, make_folder
from claude_agent_py.sessions.stores.protocol import SessionStoreEntry

PROJECT = "undelivered"


class Spool:
    """A private folder with transcripts, made when the first is kept. All calls block."""

    def __init__(self) -> None:
        self.folder: PrivateFolder | None = None
        """The folder; None if nothing is kept."""

    def path_of(self, place: Place) -> str:
        """Return where a transcript is kept. Makes the folder."""
        if self.folder is None:
            self.folder = make_folder(None)
        own = os.path.join(self.folder.projects, PROJECT, place.session)
        path = path_below(own, place.subpath) if place.subpath else own + SUFFIX
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return path

    def add(self, place: Place, entries: Sequence[SessionStoreEntry]) -> str:
        """Append entries to a transcript, and return its path."""
        path = self.path_of(place)
        lines = b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(lines)
        return path

    def keep(self, place: Place, transcript: str) -> None:
        """Copy a transcript of the CLI, whose folder is about to be removed."""
        path = self.path_of(place)
        shutil.copyfile(transcript, path)
        if os.path.isfile(metadata_path(transcript)):
            shutil.copyfile(metadata_path(transcript), metadata_path(path))

    def remove(self) -> None:
        """Remove what was kept: the store has it."""
        if self.folder is not None:
            self.folder.remove()
