"""`EventLog`: the numbered events of one served session, for readers that come, go and come back.

A delta is dropped once the fact that contains it is there, so that a long conversation takes as much memory as its
messages; beyond a limit the oldest turns are dropped, which the stored conversation has. Numbers have gaps then, and
never repeat.
"""

from collections import deque
from collections.abc import Sequence
from itertools import chain
from math import inf
from typing import NamedTuple


class ServedEvent(NamedTuple):
    """One event of a served session."""

    number: int
    """1, 2, ... in its log; 0 for what comes from the stored conversation."""
    data: bytes
    """A JSON object with a `type`: see "The events" in the docs."""


class EventLog:
    """The latest events of a session.

    Args:
        max_bytes: Beyond this, the oldest turns are dropped, but never the running one.
        began_at: Where what is stored ends for the log; infinity for a log that begins with its first fact.
    """

    def __init__(self, max_bytes: int, began_at: float = inf) -> None:
        self.last: int = 0
        """The number of the latest event."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._events: list[bytes | None] = []
        """The event number `_first + index`; None if it was merged into a later one."""
        self._first = 1
        self._parts: dict[str, list[int]] = {}
        """The numbers of the deltas of each message, or call, that has not come whole."""
        self._merged: deque[int] = deque()
        """The numbers of deltas that a later event contains, which some reader may still need."""
        self._began_at = began_at
        self._open: dict[str, tuple[int, bytes]] = {}
        """What is open, by name: the number of its latest event, and the event."""
        self._cuts: deque[tuple[int, float]] = deque()
        """The numbers and times of the events before which the log may be cut: no turn was running."""

    def add(
        self, data: bytes, *, part_of: str | None = None, opens: str | None = None, cut_at: float | None = None
    ) -> None:
        """Add an event.

        Args:
            data: The event.
            part_of: What it is a delta of.
            opens: The name of what it opens. It is kept until that is settled, whatever the log drops.
            cut_at: Its time, if no turn was running before it.
        """
        self.last += 1
        if cut_at is not None:
            self._cuts.append((self.last, cut_at))
        self._events.append(data)
        self._bytes += len(data)
        if part_of is not None:
            self._parts.setdefault(part_of, []).append(self.last)
        if opens is not None:
            self._open[opens] = self.last, data
        if self._bytes > self._max_bytes:
            self._forget()

    def settle(self, name: str | None = None) -> None:
        """Note that something is no longer open; without a name, that nothing is."""
        if name is None:
            self._open.clear()
        else:
            self._open.pop(name, None)

    def list_earlier(self) -> Sequence[bytes]:
        """Return the events of what is open that were dropped."""
        return [data for number, data in self._open.values() if number < self._first]

    def begin(self, at: float) -> None:
        """Note that the log has what happens from this time on. Until then, it may all be stored."""
        if self._began_at == inf:
            self._began_at = at

    def merge(self, whole: str | None = None) -> None:
        """Mark the deltas of something that the next event contains, or of all that no event will contain.

        Only those who have read some need the others.
        """
        self._merged += sorted(chain(*self._parts.values())) if whole is None else self._parts.pop(whole, ())
        if whole is None:
            self._parts.clear()

    def drop_merged(self, until: int) -> None:
        """Drop the merged deltas up to a number, which all readers have passed."""
        while self._merged and self._merged[0] <= until:
            index = self._merged.popleft() - self._first
            if index >= 0:
                self._bytes -= len(self._events[index] or b"")
                self._events[index] = None

    def _forget(self) -> None:
        """Drop all merged deltas, then the oldest turns, until half of the limit is left."""
        self.drop_merged(self.last)
        while self._bytes > self._max_bytes // 2 and self._cuts:
            first, self._began_at = self._cuts.popleft()
            dropped = self._events[: first - self._first]
            self._bytes -= sum(len(data or b"") for data in dropped)
            del self._events[: len(dropped)]
            self._first = first
            self._parts = {whole: parts for whole, parts in self._parts.items() if parts[-1] >= first}

    def has_all_after(self, number: int) -> bool:
        """Return whether no event after this number has been dropped, other than merged ones."""
        return self._first - 1 <= number <= self.last

    @property
    def start(self) -> tuple[int, float]:
        """The number before the oldest event, and the time from which on the log has everything; infinity for none."""
        return self._first - 1, self._began_at

    def read(self, after: int, joined: int = 0, count: int = 1000) -> Sequence[ServedEvent]:
        """Return the next events after a number, at most about `count`; empty if there are none yet.

        Of the deltas up to `joined`, the last event when the reader came, those that were merged are left out.
        """
        merged = set(self._merged) if after < joined else set()
        begin = max(0, after + 1 - self._first)
        while begin < len(self._events):
            found = [
                ServedEvent(number, data)
                for number, data in enumerate(self._events[begin : begin + count], self._first + begin)
                if data is not None and (number > joined or number not in merged)
            ]
            if found:
                return found
            begin += count
        return ()
