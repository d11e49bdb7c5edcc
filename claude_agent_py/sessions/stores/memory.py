"""`MemoryStore`: sessions in the memory of this process, for tests."""

import time
from secrets import token_hex

from claude_agent_py._base.thread_locks import ThreadLock
from claude_agent_py.sessions.stores.base import ChangeLease, EntryRow, SummarisingStore, drop_known, update_summary
from claude_agent_py.sessions.stores.protocol import (
    LeaseState,
    Place,
    SessionKey,
    SessionStoreEntry,
    check_epoch,
    parse_key,
)


class MemoryStore(SummarisingStore):
    """Keeps sessions in the memory of this process until it ends.

    May be shared by clients in several threads and event loops.
    """

    def __init__(self) -> None:
        self._lock = ThreadLock()
        self._rows: dict[Place, list[str]] = {}
        self._uuids: dict[Place, set[str]] = {}
        self._times: dict[Place, int] = {}
        self._data: dict[Place, str] = {}
        self._leases: dict[Place, LeaseState] = {}
        self._last = 0
        self._id = token_hex(4)

    def __repr__(self) -> str:
        return f"MemoryStore({self._id})"

    def __len__(self) -> int:
        return sum(not place.subpath for place in self._rows)

    def __bool__(self) -> bool:
        # An empty store is still a store, although it has a length.
        return True

    def entries(self, key: SessionKey) -> list[SessionStoreEntry]:
        """Return the entries of a transcript; an empty list for an unknown one. For tests."""
        return self._load_all(parse_key(key))

    @property
    def keys(self) -> list[SessionKey]:
        """The keys of all transcripts. For tests."""
        return [place.key for place in list(self._rows)]

    def _append(self, place: Place, rows: list[EntryRow], epoch: int | None) -> None:
        session = place._replace(subpath="")
        with self._lock:
            check_epoch(self._leases.get(session, LeaseState()), place, epoch)
            known = self._uuids.setdefault(place, set())
            new = drop_known(rows, known)
            known.update(row.uuid for row in new if row.uuid is not None)
            self._rows.setdefault(place, []).extend(row.text for row in new)
            self._last = max(self._last + 1, int(time.time() * 1000))
            self._times[place] = self._last
            if not place.subpath:
                self._data[place] = update_summary(self._data.get(place), new)

    def _load(self, place: Place) -> list[str]:
        with self._lock:
            return list(self._rows.get(place, ()))

    def _list_sessions(self, project: str) -> dict[str, int]:
        with self._lock:
            return {p.session: at for p, at in self._times.items() if p.project == project and not p.subpath}

    def _list_summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        with self._lock:
            return [(p.session, self._times[p], text) for p, text in self._data.items() if p.project == project]

    def _list_subpaths(self, place: Place) -> list[str]:
        with self._lock:
            return [p.subpath for p in self._rows if p[:2] == place[:2] and p.subpath]

    def _delete(self, place: Place) -> None:
        with self._lock:
            gone = [p for p in self._rows if p == place or (not place.subpath and p[:2] == place[:2])]
            for each in gone:
                for table in (self._rows, self._uuids, self._times, self._data):
                    table.pop(each, None)

    def _find_projects(self, session: str) -> list[str]:
        with self._lock:
            return [p.project for p in self._rows if p.session == session and not p.subpath]

    def _read_lease(self, place: Place) -> tuple[LeaseState, float]:
        with self._lock:
            return self._leases.get(place, LeaseState()), time.time()

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        with self._lock:
            state = change(self._leases.get(place, LeaseState()), time.time())
            self._leases[place] = state
            return state
