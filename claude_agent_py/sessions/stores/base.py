"""`BlockingStore`: the base of this package's stores. Their work runs in threads, on asyncio and trio."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar, TypeVarTuple, cast

import anyio
from anyio import to_thread

from claude_agent_py._base.errors import SessionError, StoreError
from claude_agent_py._base.event_loop import PerLoop, run_to_its_end
from claude_agent_py._base.log import logger
from claude_agent_py.sessions.stores.protocol import (
    LEASE_SECONDS,
    Lease,
    LeaseState,
    Place,
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    acquire,
    parse_key,
    release,
    renew,
)
from claude_agent_py.sessions.summary import apply_entry
from claude_agent_py.wire.base import JSONObject


def fold_session_summary(
    prev: SessionSummaryEntry | None, key: SessionKey, entries: Iterable[SessionStoreEntry]
) -> SessionSummaryEntry:
    """Return the summary of a session after a batch of entries. Stores call this in `append`, except for subagents.

    The result equals the result of the official Python SDK (0.2.187), so that both can read a store.

    Args:
        prev: The summary before the batch; None for a new session.
        key: The session.
        entries: The batch.

    `mtime` is unchanged: the store sets it to the time of its write.
    """
    data: JSONObject = dict(prev["data"]) if prev is not None else {}
    for entry in entries:
        apply_entry(data, entry)
    before = prev["mtime"] if prev is not None else 0
    return {"session_id": key["session_id"], "mtime": before, "data": data}


_LINKED_FIRST: Final = ("parentUuid", "isSidechain")
_LINKED_LAST: Final = ("cwd", "sessionId", "version", "gitBranch")

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

BATCH_ENTRIES: Final = 500
"""The maximum number of entries in a batch."""
BATCH_BYTES: Final = 1024 * 1024
"""The size at which a batch is full, in bytes."""
THREADS: Final = 20
"""The maximum number of concurrent store calls in an event loop."""
_threads = PerLoop(lambda: anyio.CapacityLimiter(THREADS))

RELEASE_SECONDS: Final = 2.0
"""The time limit for releasing a lease, in seconds. A lease that is not released expires."""

ChangeLease = Callable[[LeaseState, float], LeaseState]
"""Returns the new lease state for the old state and the current time."""


class EntryRow(NamedTuple):
    """An entry to store."""

    uuid: str | None
    text: str
    """ASCII, without line breaks."""
    entry: SessionStoreEntry


def order_fields(entry: Mapping[str, object]) -> JSONObject:
    """Return an entry with its fields in the CLI's order, which a database may have changed (`jsonb` does).

    The CLI and this library recognise a line of a transcript by its first field, and read a branch from the last one.
    """
    first, last = (_LINKED_FIRST, _LINKED_LAST) if "parentUuid" in entry else (("type",), ())
    ends = {*first, *last}
    names = (*first, *(name for name in entry if name not in ends), *last)
    return {name: entry[name] for name in names if name in entry}


def encode_entry(entry: SessionStoreEntry, *, sort_keys: bool = False) -> str:
    """Return an entry as JSON in ASCII, which can express characters that databases and UTF-8 refuse.

    With `sort_keys`, equal entries have equal texts.

    Raises:
        StoreError: The entry is not JSON.
    """
    try:
        return json.dumps(order_fields(entry), separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"the {entry.get('type')} entry {read_uuid(entry) or ''} is not JSON: {error}") from error


def encode_utf8(text: str) -> bytes:
    """Return text as bytes, including lone surrogates."""
    return text.encode(errors="surrogatepass")


def drop_duplicates(entries: list[SessionStoreEntry]) -> list[SessionStoreEntry]:
    """Return entries without repeated uuids."""
    seen: set[str] = set()
    kept = []
    for entry in entries:
        uuid = read_uuid(entry)
        if uuid not in seen:
            kept.append(entry)
        if uuid is not None:
            seen.add(uuid)
    return kept


def update_summary(text: str | bytes | None, new: list[EntryRow]) -> str:
    """Return the `data` of a summary as JSON after adding new entries. `text` is the JSON before."""
    data: JSONObject = {} if text is None else json.loads(text)
    for row in new:
        apply_entry(data, row.entry)
    return json.dumps(data)


def drop_known(rows: list[EntryRow], uuids: Container[str | None]) -> list[EntryRow]:
    """Return the rows whose uuids are not stored yet."""
    return [row for row in rows if row.uuid is None or row.uuid not in uuids]


class BlockingStore(ABC):
    """A store whose calls block. A cancelled call may still take effect; it is safe to repeat it."""

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        """Append entries, except those whose `uuid` is already stored.

        Args:
            key: The transcript.
            entries: JSON objects.
            epoch: The epoch of the writer's lease; None writes without a lease.

        Raises:
            StoreError: The entries cannot be stored.
            StaleLeaseError: A later lease was acquired.
        """
        place = parse_key(key)
        if entries:
            await self._run_in_thread("append to", place, self._append_all, place, list(entries), epoch)

    def _append_all(self, place: Place, entries: list[SessionStoreEntry], epoch: int | None) -> None:
        self._append(
            place, [EntryRow(read_uuid(entry), encode_entry(entry), entry) for entry in drop_duplicates(entries)], epoch
        )

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript, or None if there are none. Damaged lines are left out, and logged.

        Raises:
            StoreError: The entries cannot be read.
        """
        place = parse_key(key)
        return await self._run_in_thread("load", place, self._load_all, place) or None

    def _load_all(self, place: Place) -> list[SessionStoreEntry]:
        return [entry for batch in self.iter_batches(place) for entry in batch]

    def iter_batches(self, place: Place) -> Iterator[list[SessionStoreEntry]]:
        """Yield what `load` returns, in batches. Blocks."""
        seen: set[str] = set()
        batch: list[SessionStoreEntry] = []
        size = damaged = 0
        for text in self._load(place):
            entry = parse_entry(text)
            if entry is None:
                damaged += 1
                continue
            uuid = read_uuid(entry)
            if uuid is not None:
                if uuid in seen:
                    continue
                seen.add(uuid)
            batch.append(entry)
            size += len(text)
            if len(batch) >= BATCH_ENTRIES or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
        if damaged:
            logger.warning("%d damaged lines of %s were left out", damaged, place)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, in any order.

        Raises:
            StoreError: The store cannot be read.
        """
        found = await self._run_in_thread("list", Place(project_key, ""), self._list_sessions, project_key)
        return [{"session_id": session, "mtime": mtime} for session, mtime in found.items()]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session.

        Raises:
            StoreError: The store cannot be read.
        """
        place = _parse_session(key)
        return sorted(await self._run_in_thread("list the subagents of", place, self._list_subpaths, place))

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents, or one transcript. Keeps the lease state, so late writers are refused.

        Raises:
            StoreError: The session cannot be deleted.
        """
        place = parse_key(key)
        await self._run_in_thread("delete", place, self._delete, place)

    async def find_session(self, session_id: str) -> list[str]:
        """Return the sorted keys of the projects that have a session.

        Raises:
            StoreError: The store cannot be read.
        """
        return sorted(await self._run_in_thread("find", Place("", session_id), self._find_projects, session_id))

    # Leases

    async def acquire_lease(
        self, key: SessionKey, holder: str, *, ttl: float = LEASE_SECONDS, steal: bool = False
    ) -> Lease:
        """Become the writer of a session. See `LeasingStore.acquire_lease`.

        Raises:
            SessionLeasedError: Another process is writing to the session.
            StoreError: The store failed.
        """
        place = _parse_session(key)
        claims: dict[Place, Lease | None] = {}
        """What came first: the lease, or a cancellation, after which the thread gives it back."""

        def take() -> Lease:
            state = self._change_lease(
                place, lambda state, now: acquire(state, place, holder, ttl=ttl, now=now, steal=steal)
            )
            lease = Lease(place.key, holder, state.epoch, state.expires_at)
            if claims.setdefault(place, lease) is None:
                self._change_lease(place, lambda state, now: release(state, lease))
            return lease

        try:
            return await self._run_in_thread("lease", place, take)
        except BaseException:
            taken = claims.setdefault(place, None)
            if taken is not None:
                give_back = partial(self.release_lease, taken)
                with suppress(StoreError):  # then it expires
                    await run_to_its_end(give_back, name="claude_agent_py lease", seconds=RELEASE_SECONDS)
            raise

    async def renew_lease(self, lease: Lease, *, ttl: float = LEASE_SECONDS) -> Lease:
        """Extend a lease.

        Raises:
            StaleLeaseError: Another process has acquired the lease, or it was released.
            StoreError: The store failed.
        """
        place = _parse_session(lease.key)
        state = await self._update_lease(place, lambda state, now: renew(state, place, lease, ttl=ttl, now=now))
        return Lease(place.key, lease.holder, state.epoch, state.expires_at)

    async def release_lease(self, lease: Lease) -> None:
        """Release a lease. Does nothing if another process has acquired the lease.

        Raises:
            StoreError: The store failed.
        """
        await self._update_lease(_parse_session(lease.key), lambda state, now: release(state, lease))

    async def find_lease(self, key: SessionKey) -> Lease | None:
        """Return the lease of the process that is writing to a session, or None.

        Raises:
            StoreError: The store failed.
        """
        place = _parse_session(key)
        state, now = await self._run_in_thread("read the lease of", place, self._read_lease, place)
        return Lease(place.key, state.holder, state.epoch, state.expires_at) if state.expires_at > now else None

    async def _update_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        return await self._run_in_thread("lease", place, self._change_lease, place, change)

    async def _run_in_thread(
        self, action: str, place: Place, function: Callable[[*Arguments], T], *args: *Arguments
    ) -> T:
        try:
            return await to_thread.run_sync(function, *args, abandon_on_cancel=True, limiter=_threads.get())
        except SessionError:
            raise
        except Exception as error:
            message = f"{type(self).__name__} cannot {action} {place}: {type(error).__name__}: {error}"
            raise StoreError(message, key=place.key, session_id=place.session or None) from error

    # Implemented by the stores. Each method blocks and may be called from several threads concurrently.

    @abstractmethod
    def _load(self, place: Place) -> Iterable[str | bytes]:
        """Return the texts of the entries in order, possibly with duplicates. Iterating may block, too."""

    @abstractmethod
    def _list_subpaths(self, place: Place) -> list[str]:
        """Return the subpaths of a session."""

    @abstractmethod
    def _delete(self, place: Place) -> None:
        """Delete a session with its subagents, or one transcript, but not the lease."""

    @abstractmethod
    def _find_projects(self, session: str) -> list[str]:
        """Return the keys of the projects that have a session."""

    # Implemented by all but the CLI's folder, which has no leases, and other ways to append and to list.

    def _append(self, place: Place, rows: list[EntryRow], epoch: int | None) -> None:
        """Append rows with different uuids, except rows that are already stored. All or nothing."""
        raise NotImplementedError

    def _list_sessions(self, project: str) -> dict[str, int]:
        """Return the sessions with the time of their last append, in milliseconds."""
        raise NotImplementedError

    def _read_lease(self, place: Place) -> tuple[LeaseState, float]:
        """Return the lease state and the current time. Writes nothing."""
        raise NotImplementedError

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        """Replace the lease state by the result of `change`, atomically, unless `change` raises."""
        raise NotImplementedError


class SummarisingStore(BlockingStore):
    """A store that keeps summaries of its sessions."""

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of the sessions of a project, in any order. Damaged ones are left out.

        Raises:
            StoreError: The summaries cannot be read.
        """
        found = await self._run_in_thread("list", Place(project_key, ""), self._list_summaries, project_key)
        parsed = ((session, mtime, parse_entry(text)) for session, mtime, text in found)
        return [
            {"session_id": session, "mtime": mtime, "data": cast("JSONObject", data)}
            for session, mtime, data in parsed
            if data is not None
        ]

    @abstractmethod
    def _list_summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        """Return the session, the time in milliseconds and the `data` as JSON of each summary."""


def parse_entry(text: str | bytes) -> SessionStoreEntry | None:
    """Return a stored entry, or None if it is damaged."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("SessionStoreEntry", entry) if isinstance(entry, dict) else None


def read_uuid(entry: SessionStoreEntry) -> str | None:
    """Return the uuid of an entry, or None if it has none."""
    uuid = entry.get("uuid")
    return None if uuid is None else str(uuid)


def _parse_session(key: SessionKey | SessionListSubkeysKey) -> Place:
    return parse_key({"project_key": key["project_key"], "session_id": key["session_id"]})
