"""`Reported`: how far the CLI has reported a transcript, so that nothing is sent from its file and again as reported.

The CLI writes entries before it reports them, in the same order. A comparison of the file with the store may thus send
entries that are reported later. Those with a uuid do no harm: the store knows them. Those without are recognized here.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from claude_agent_py.sessions.stores.protocol import SessionStoreEntry

Mark: TypeAlias = str | int
"""Identifies an entry: its uuid, or a hash of its content."""


def uuid_of(entry: SessionStoreEntry) -> str | None:
    """Return the uuid of an entry, or None if it has none."""
    uuid: object = entry.get("uuid")
    return uuid if isinstance(uuid, str) else None


def mark_of(entry: SessionStoreEntry) -> Mark:
    """Return the identity of an entry."""
    return uuid_of(entry) or hash(canonical(entry))


def canonical(entry: SessionStoreEntry) -> str:
    """Return the content of an entry as text."""
    return json.dumps(entry, sort_keys=True)


def missing_from(stored: Iterable[SessionStoreEntry]) -> Callable[[SessionStoreEntry], bool]:
    """Return a function that tells of each entry in turn whether a store with these entries lacks it.

    Each stored entry without a uuid stands for one with the same content.
    """
    uuids = {uuid_of(entry) for entry in stored} - {None}
    notes = Counter(canonical(entry) for entry in stored if uuid_of(entry) is None)

    def is_missing(entry: SessionStoreEntry) -> bool:
        uuid = uuid_of(entry)
        if uuid is not None:
            return uuid not in uuids
        is_known = notes[text := canonical(entry)] > 0
        if is_known:
            notes[text] -= 1
        return not is_known

    return is_missing


class Reported:
    """How far the CLI has reported one transcript."""

    def __init__(self, last: str | None = None, notes: Iterable[Mark] = (), ahead: Iterable[Mark] = ()) -> None:
        self.last = last
        """The last uuid; None at the beginning of the transcript."""
        self.notes: list[Mark] = list(notes)
        """The entries without a uuid since."""
        self._ahead: list[Mark] = list(ahead)
        """Entries that were sent before they were reported, in order."""

    def copy(self) -> "Reported":
        """Return a copy."""
        return Reported(self.last, self.notes, self._ahead)

    def after_sending(self, tail: Sequence[Mark]) -> "Reported":
        """Return what is reported once all of the file was sent, whose entries after `last` are the tail."""
        known = Counter(self.notes)
        ahead: list[Mark] = []
        for mark in tail:
            if known[mark] > 0:
                known[mark] -= 1
            else:
                ahead.append(mark)
        return Reported(self.last, self.notes, ahead)

    def take(self, mark: Mark) -> bool:
        """Record an entry as reported, and return whether it has yet to be sent."""
        if isinstance(mark, str):
            self.last = mark
            self.notes.clear()
        else:
            self.notes.append(mark)
        return not self._was_sent(mark)

    def _was_sent(self, mark: Mark) -> bool:
        if mark not in self._ahead:
            if isinstance(mark, str):  # written after all entries that were sent
                self._ahead.clear()
            return False
        place = self._ahead.index(mark)
        del self._ahead[0 if isinstance(mark, str) else place : place + 1]
        return True
