"""`Mirror`: appends to a store what the CLI writes to its transcripts.

The CLI reports entries after it has written them. They wait in memory, in a bounded queue, for the one worker that
sends them. A transcript whose entries cannot be delivered, or do not fit into the queue, is *behind*: from then on its
file is the queue. The worker compares it with the store at growing intervals, and at the end, and appends what is
missing, in order. If its file is not on this machine, the entries are kept in one that is.
"""

import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import anyio

from claude_agent_py._errors import SessionError, StaleLeaseError, StoreError
from claude_agent_py.sessions.stores.leases import LEASE_SECONDS, Lease, LeasingStore, append
from claude_agent_py.sessions.stores.local import Tail, place_of, send_missing
from claude_agent_py.sessions.stores.protocol import (
    Place,
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    described,
    implements,
)
from claude_agent_py.sessions.stores.reported import Mark, Reported, mark_of
from claude_agent_py.sessions.stores.spool import Spool

logger: logging.Logger = logging.getLogger("claude_agent_py")

Flush = Literal["batched", "eager"]

BATCH_SECONDS: Final = 1.0
"""How long entries wait to be batched, in seconds; the end of a turn sends them at once."""
BATCH_BYTES: Final = 1024 * 1024
BATCH_ENTRIES: Final = 500
QUEUE_BYTES: Final = 16 * 1024 * 1024
"""How many bytes may wait in memory."""
PAUSES: Final = (0.2, 0.8)
"""Seconds between attempts to deliver a batch."""
BEHIND_SECONDS: Final = (5.0, 60.0)
"""Seconds until the worker tries again to catch up: initially, and at most."""

LAST_ATTEMPTS: Final = 2
"""How many times to catch up at the end: meanwhile, more may be reported than fits the queue."""

Report = Callable[[StoreError, bool], Awaitable[None]]
"""Called with an error and whether it is final."""


@dataclass(slots=True)
class _Waiting:
    """The entries of one transcript that wait."""

    entries: list[SessionStoreEntry] = field(default_factory=list)
    size: int = 0


class Mirror:
    """Sends the entries of one CLI process to a store.

    Args:
        store: The store.
        project: The project in the store.
        holder: The name of the writer, for leases.
        report: Called with entries that cannot be delivered.
        flush: `batched` collects the entries of a turn, `eager` sends them at once.
        timeout: Seconds that each call of the store may take.
    """

    def __init__(
        self,
        store: SessionStore,
        project: str,
        *,
        holder: str,
        report: Report,
        flush: Flush = "batched",
        timeout: float = 60.0,
    ) -> None:
        self._store = store
        self._project = project
        self._holder = holder
        self._report = report
        self._is_eager = flush == "eager"
        self._timeout = timeout
        self._leases: dict[str, Lease] | None = {} if implements(store, "acquire_lease") else None
        """By session; None if the store has no leases."""
        self._lost: set[str] = set()
        """The sessions that another process has taken over."""
        self._files: dict[Place, str] = {}
        """The file of each transcript: the CLI's, or the one in which its entries are kept."""
        self.spool: Spool = Spool()
        self._spooled: set[Place] = set()
        """The transcripts whose entries are kept on this machine while they are behind."""
        self._reported: dict[Place, Reported] = {}
        self._queue: dict[Place, _Waiting] = {}
        self._sending: tuple[Place, list[SessionStoreEntry]] | None = None
        """Transcripts with entries that are neither queued nor delivered."""
        self._catching_up: Place | None = None
        """The transcript whose file is being sent."""
        self._meanwhile: list[Mark] = []
        """Its entries reported meanwhile."""
        self._behind: dict[Place, StoreError] = {}
        self._pause = BEHIND_SECONDS[0]
        self._something = anyio.Event()
        self._now = anyio.Event()
        self._is_draining = False
        self._drained = anyio.Event()

    @property
    def undelivered(self) -> list[Place]:
        """The transcripts of which the store lacks entries."""
        busy = [self._sending[0] if self._sending is not None else None, self._catching_up]
        return list(dict.fromkeys([*self._behind, *(place for place in busy if place is not None), *self._queue]))

    # From the pump: no waiting -----------------------------------------------------------------------------------

    def take(self, file_path: str, entries: list[dict[str, Any]], size: int) -> None:
        """Queue entries that the CLI wrote to a file; `size` in bytes."""
        place = place_of(file_path, self._project)
        if place is None:
            logger.warning("the session store does not get %s: it is not the transcript of a session", file_path)
            return
        reported = self._reported.setdefault(place, Reported())
        given = [(mark_of(entry), entry) for entry in cast("list[SessionStoreEntry]", entries)]
        new = [entry for mark, entry in given if reported.take(mark)]
        if place == self._catching_up:
            self._meanwhile += [mark for mark, _ in given]
        if place not in self._spooled:
            self._files[place] = file_path
        if place not in self._behind:
            self._enqueue(place, new, size)
        elif place in self._spooled:
            self._spool(place, new)
        self._something.set()
        count = sum(len(each.entries) for each in self._queue.values())
        if self._is_eager or count >= BATCH_ENTRIES or self._queued_bytes() >= BATCH_BYTES:
            self._now.set()

    def _enqueue(self, place: Place, entries: list[SessionStoreEntry], size: int) -> None:
        waiting = self._queue.setdefault(place, _Waiting())
        waiting.entries += entries
        waiting.size += size
        if self._queued_bytes() > QUEUE_BYTES:
            for each, left in self._queue.items():
                self._behind.setdefault(each, StoreError("the store is too slow", key=each.key))
                self._keep(each, left.entries)
            self._queue.clear()

    def _queued_bytes(self) -> int:
        return sum(each.size for each in self._queue.values())

    def _keep(self, place: Place, entries: list[SessionStoreEntry], *, is_older: bool = False) -> None:
        """Keep the entries of a transcript that is behind, unless the CLI's file is here and does."""
        if entries and (place in self._spooled or not os.path.isfile(self._files[place])):
            self._spool(place, entries, is_older=is_older)

    def _spool(self, place: Place, entries: list[SessionStoreEntry], *, is_older: bool = False) -> None:
        self._spooled.add(place)
        self._files[place] = self.spool.add(place, entries, is_older=is_older)

    def file_of(self, place: Place) -> str:
        """Return the file that has the entries of a transcript; empty if none is known."""
        return self._files.get(place, "")

    def is_spooled(self, place: Place) -> bool:
        """Return whether the entries of a transcript that is behind are kept in the spool."""
        return place in self._spooled

    def flush(self) -> None:
        """Send the waiting entries soon, because a turn is over."""
        self._now.set()

    def begin(self, place: Place, reported: Reported) -> None:
        """Record the state of a transcript when the CLI starts."""
        self._reported[place] = reported

    def expect_behind(self, place: Place, file_path: str, reported: Reported) -> None:
        """Record that the store may lack earlier entries of a transcript."""
        self._files[place] = file_path
        self._reported[place] = reported
        self._behind[place] = StoreError("it was not compared yet", key=place.key)
        self._something.set()

    # The workers -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send entries until the mirror is drained."""
        while not self._is_draining:
            with anyio.move_on_after(self._pause if self._behind else None):
                await self._something.wait()
            if not self._is_eager:
                with anyio.move_on_after(BATCH_SECONDS):
                    await self._now.wait()
            self._something, self._now = anyio.Event(), anyio.Event()
            await self._send_all()
        for _ in range(LAST_ATTEMPTS):
            await self._send_all()
            if not self._behind:
                break
        for place, error in self._behind.items():
            await self._give_up(place, error)
        self._drained.set()

    async def drain(self, deadline: float) -> None:
        """Send all waiting entries, and end `run`. Reports those not delivered by the deadline, in event loop time."""
        self._is_draining = True
        self._something.set()
        self._now.set()
        with anyio.CancelScope(deadline=deadline):
            await self._drained.wait()
            return
        for place in self.undelivered:
            sending = self._sending[1] if self._sending is not None and self._sending[0] == place else []
            self._keep(place, sending, is_older=True)
            self._keep(place, self._drop_queued(place))
            late = StoreError("the store did not take it in time", key=place.key)
            await self._give_up(place, self._behind.get(place, late))

    async def _give_up(self, place: Place, error: StoreError) -> None:
        told = f"the store lacks entries of {described(place.key)}: {error}"
        last = StoreError(told, key=place.key, session_id=place.session)
        last.__cause__ = error.__cause__ or error
        await self._report(last, True)

    async def _send_all(self) -> None:
        while self._queue:
            place = next(iter(self._queue))
            entries = self._drop_queued(place)
            if place not in self._behind:
                self._sending = place, entries
                await self._send(place, entries)
                self._sending = None
        for place in [*self._behind]:
            await self._catch_up(place)
        self._pause = min(self._pause * 2, BEHIND_SECONDS[1]) if self._behind else BEHIND_SECONDS[0]

    async def _send(self, place: Place, entries: list[SessionStoreEntry]) -> None:
        for pause in (*PAUSES, None):
            try:
                await self._append(place.key, entries)
            except Exception as error:
                is_final = isinstance(error, StaleLeaseError | TimeoutError)  # a call that timed out may still succeed
                if pause is None or is_final:
                    self._keep(place, entries, is_older=True)
                    self._keep(place, self._drop_queued(place))
                    await self._fall_behind(place, error)
                    return
                if not self._is_draining:
                    await anyio.sleep(pause)
            else:
                return

    async def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        given: Any = [{**entry} for entry in entries]  # the store may change them, and they may be sent again
        with anyio.fail_after(self._timeout):
            await append(self._store, key, given, await self._lease(key))

    async def _fall_behind(self, place: Place, cause: Exception) -> None:
        error = _failure(place, cause)
        is_new = place not in self._behind
        self._behind[place] = error
        if isinstance(cause, StaleLeaseError):
            self._lost.add(place.session)
        if is_new:
            await self._report(error, False)

    async def _catch_up(self, place: Place) -> None:
        """Send the entries of a transcript that the store lacks. After a failure, the transcript is behind again."""
        if place.session in self._lost:
            return
        before = self._behind.pop(place)
        self._drop_queued(place)  # the file has them
        self._catching_up, self._meanwhile = place, []
        try:
            sent = await (self._send_spooled(place) if place in self._spooled else self._send_file(place))
        except BaseException as error:
            self._behind[place] = before
            if place in self._spooled:
                self._spool(place, self._drop_queued(place))
            if not isinstance(error, Exception):
                raise
            await self._fall_behind(place, error)
        else:
            logger.info("the session store has caught up with %s: %d entries", described(place.key), sent)
        finally:
            self._catching_up, self._meanwhile = None, []

    async def _send_spooled(self, place: Place) -> int:
        sent = await self.spool.send(place, self._append)
        if not self.spool.has(place):  # otherwise entries were added meanwhile
            self._spooled.discard(place)
        return sent

    async def _send_file(self, place: Place) -> int:
        reported = self._reported.setdefault(place, Reported()).copy()
        tail = Tail(reported.last)
        with anyio.fail_after(self._timeout):
            stored = await self._store.load(place.key)
        sent = await send_missing(self._files[place], place.key, stored or [], self._append, tail.add)
        self._note_sent(place, reported.after_sending(tail.marks))
        return sent

    def _drop_queued(self, place: Place) -> list[SessionStoreEntry]:
        waiting = self._queue.pop(place, None)
        return [] if waiting is None else waiting.entries

    def _note_sent(self, place: Place, reported: Reported) -> None:
        """Remove entries from the queue that were sent with the file."""
        self._reported[place] = reported
        left = Counter(mark for mark in self._meanwhile if reported.take(mark))
        waiting = self._queue.get(place)
        if waiting is not None:
            new: list[SessionStoreEntry] = []
            for entry in reversed(waiting.entries):  # entries sent earlier come first
                mark = mark_of(entry)
                if left[mark] > 0:
                    left[mark] -= 1
                    new.append(entry)
            waiting.entries = new[::-1]

    # Leases ------------------------------------------------------------------------------------------------------

    def hold(self, lease: Lease) -> None:
        """Use a lease acquired for this mirror."""
        if self._leases is not None:
            self._leases[lease.key["session_id"]] = lease

    async def _lease(self, key: SessionKey) -> Lease | None:
        if self._leases is None:
            return None
        session = key["session_id"]
        if session not in self._leases:
            own: SessionKey = {"project_key": key["project_key"], "session_id": session}
            self._leases[session] = await cast("LeasingStore", self._store).acquire_lease(own, self._holder)
        return self._leases[session]

    async def keep_leases(self) -> None:
        """Renew the leases until it is cancelled."""
        while self._leases is not None:
            await anyio.sleep(LEASE_SECONDS / 3)
            for session, lease in [*self._leases.items()]:
                try:
                    with anyio.fail_after(LEASE_SECONDS / 3):
                        self._leases[session] = await cast("LeasingStore", self._store).renew_lease(lease)
                except StaleLeaseError as error:
                    if session not in self._lost:
                        await self._fall_behind(Place(self._project, session), error)
                except Exception as error:
                    logger.warning("the lease of session %s cannot be renewed: %s", session, error)

    async def release_leases(self) -> None:
        """Release the leases. Never raises."""
        leases, self._leases = self._leases or {}, {}
        for lease in leases.values():
            try:
                await cast("LeasingStore", self._store).release_lease(lease)
            except Exception as error:
                logger.warning("the lease of session %s cannot be released: %s", lease.key["session_id"], error)


def _failure(place: Place, cause: Exception) -> StoreError:
    if isinstance(cause, StoreError):
        told = str(cause)
    elif isinstance(cause, TimeoutError) and not str(cause):
        told = f"the store did not answer in time about {described(place.key)}"
    else:
        told = f"the store failed with {described(place.key)}: {type(cause).__name__}: {cause}"
    kind = type(cause) if isinstance(cause, SessionError) and isinstance(cause, StaleLeaseError) else StoreError
    error = kind(told, session_id=place.session)
    error.key = place.key
    error.__cause__ = cause
    return error
