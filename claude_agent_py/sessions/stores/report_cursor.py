"""`ReportCursor`: the position up to which the CLI has reported a transcript. Prevents sending entries twice.

The CLI writes entries before it reports them, in the same order. A comparison of the file with the store may therefore
send entries that are reported later. The store ignores such entries if they have a uuid. The cursor recognises the
other ones.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from claude_agent_py.sessions.stores.protocol import SessionStoreEntry

Mark: TypeAlias = str | int
"""Identifies an entry: its uuid, or a hash of its content."""


def read_uuid(entry: SessionStoreEntry) -> str | None:
    """Return the uuid of an entry, or None if it has none."""
    uuid: object = entry.get("uuid")
    return uuid if isinstance(uuid, str) else None


def identify(entry: SessionStoreEntry) -> Mark:
    """Return the identity of an entry."""
    return read_uuid(entry) or hash(serialise(entry))


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


class ReportCursor:
    """The position up to which the CLI has reported one transcript."""

    def __init__(self, last: str | None = None, notes: Iterable[Mark] = (), ahead: Iterable[Mark] = ()) -> None:
        self.last = last
        """The last reported uuid; None at the beginning of the transcript."""
        self.notes: list[Mark] = list(notes)
        """The entries without a uuid since `last`."""
        self._ahead: list[Mark] = list(ahead)
        """Entries that were sent before they were reported, in order."""

    def copy(self) -> "ReportCursor":
        """Return a copy."""
        return ReportCursor(self.last, self.notes, self._ahead)

    def with_sent(self, tail: Sequence[Mark]) -> "ReportCursor":
        """Return a copy for after sending the whole file. `tail` has the file's entries after `last`."""
        known = Counter(self.notes)
        ahead: list[Mark] = []
        for mark in tail:
            if known[mark] > 0:
                known[mark] -= 1
            else:
                ahead.append(mark)
        return ReportCursor(self.last, self.notes, ahead)

    def take(self, mark: Mark) -> bool:
        """Record an entry as reported. Return whether it must still be sent."""
        if isinstance(mark, str):
            self.last = mark
            self.notes.clear()
        else:
            self.notes.append(mark)
        return not self._consume_sent(mark)

    def _consume_sent(self, mark: Mark) -> bool:
        if mark not in self._ahead:
            # Reports keep the order of the file, so this uuid comes after all entries that were sent.
            if isinstance(mark, str):
                self._ahead.clear()
            return False
        place = self._ahead.index(mark)
        del self._ahead[0 if isinstance(mark, str) else place : place + 1]
        return True
