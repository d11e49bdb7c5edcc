"""`Mirror`: appends the entries of the CLI's transcripts to a store.

The CLI reports entries after it has written them. They wait in a bounded queue in memory until the only worker sends
them. A transcript whose entries cannot be delivered, or do not fit into the queue, is *behind*: from then on, its file
is the queue. The worker compares the file with the store at growing intervals and when it stops, and appends the
missing entries in order. If the file is not on this machine, the entries are kept in a local file.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

import anyio

from claude_agent_py._base.errors import StaleLeaseError, StoreError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.sessions.files import write_atomically
from claude_agent_py.sessions.stores.access import StoreAccess
from claude_agent_py.sessions.stores.private_folder import PrivateFolder, make_folder
from claude_agent_py.sessions.stores.protocol import (
    LEASE_SECONDS,
    Lease,
    Place,
    SessionKey,
    SessionStoreEntry,
    format_key,
    implements,
)
from claude_agent_py.sessions.stores.transfers import (
    BATCH_CHARS,
    BATCH_ENTRIES,
    SUFFIX,
    Append,
    Mark,
    ReportCursor,
    encode_line,
    identify,
    join_subpath,
    parse_place,
    send_missing,
)
from claude_agent_py.tasks.files.transcript import notes_path

PROJECT: Final = "undelivered"


class Spool:
    """Keeps entries that the store did not accept, if the CLI's own files cannot serve as the queue.

    They cannot if the CLI runs in a container or on another machine, or if its files are removed with a private home.
    The private folder with the transcripts is created when the first one is added.
    """

    def __init__(self) -> None:
        self.folder: PrivateFolder | None = None
        """The folder; None until the first transcript is added."""

    def prepare_path(self, place: Place) -> str:
        """Return the path of a transcript. Creates its folder."""
        if self.folder is None:
            self.folder = make_folder(None)
        session = os.path.join(self.folder.projects, PROJECT, place.session)
        path = join_subpath(session, place.subpath) if place.subpath else session + SUFFIX
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return path

    def append(self, place: Place, entries: Sequence[SessionStoreEntry]) -> str:
        """Add entries to the end of a transcript. Return its path."""
        path = self.prepare_path(place)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(b"".join(map(encode_line, entries)))
        return path

    def prepend(self, place: Place, entries: Sequence[SessionStoreEntry]) -> str:
        """Add older entries to the start of a transcript. Return its path."""
        path = self.prepare_path(place)
        newer = Path(path).read_bytes() if os.path.isfile(path) else b""
        write_atomically(path, [*map(encode_line, entries), newer], replace=True)
        return path

    async def send(self, place: Place, append: Append) -> int:
        """Move the entries of a transcript to the store, in order. Return how many.

        The entries that a failing store did not accept stay, and so may entries added during the call.
        """
        path = self.prepare_path(place)
        sent = 0
        count = 0
        try:
            while batch := await run_file_work(_read_batch, path, sent):
                entries, end = batch
                await append(place.key, entries)
                sent = end
                count += len(entries)
        finally:
            # Does not use a thread, so that it also works when cancelled.
            _drop_start(path, sent)
        return count

    def has(self, place: Place) -> bool:
        """Return whether the spool has entries of a transcript."""
        return self.folder is not None and os.path.isfile(self.prepare_path(place))

    def keep(self, place: Place, transcript: str) -> None:
        """Copy a transcript of the CLI, because its folder is about to be removed."""
        path = self.prepare_path(place)
        shutil.copyfile(transcript, path)
        if os.path.isfile(notes_path(transcript)):
            shutil.copyfile(notes_path(transcript), notes_path(path))


def _drop_start(path: str, size: int) -> None:
    """Remove the first bytes of a file, and the file if nothing remains."""
    rest = Path(path).read_bytes()[size:]
    if rest:
        write_atomically(path, [rest], replace=True)
    else:
        os.unlink(path)


def _read_batch(path: str, start: int) -> tuple[list[SessionStoreEntry], int] | None:
    """Return the next entries of a transcript and their end position, or None at the end of the file."""
    with open(path, "rb") as file:
        file.seek(start)
        # The last line may not be complete yet.
        lines = [line for line in file.readlines(BATCH_CHARS)[:BATCH_ENTRIES] if line.endswith(b"\n")]
    if not lines:
        return None
    return [json.loads(line) for line in lines], start + sum(map(len, lines))


Flush = Literal["batched", "eager"]

BATCH_SECONDS: Final = 1.0
"""How long entries wait to be batched, in seconds. The end of a turn sends them immediately."""
BATCH_BYTES: Final = 1024 * 1024
QUEUE_BYTES: Final = 16 * 1024 * 1024
"""The maximum size of the queue in memory, in bytes."""
PAUSES: Final = (0.2, 0.8)
"""Seconds between attempts to deliver a batch."""
BEHIND_SECONDS: Final = (5.0, 60.0)
"""Seconds until the worker tries to catch up again: the first and the longest interval."""

LAST_ATTEMPTS: Final = 2
"""How many times to catch up at the end: while catching up, more may be reported than the queue can hold."""


class Report(Protocol):
    """Reports that entries cannot be delivered."""

    async def __call__(self, error: StoreError, *, is_final: bool) -> None:
        """Report an error. With `is_final`, the worker does not try again."""


@dataclass(slots=True)
class _Queued:
    """The queued entries of one transcript."""

    entries: list[SessionStoreEntry] = field(default_factory=list)
    size: int = 0


class Mirror:
    """Sends the entries of one CLI process to a store.

    Args:
        access: The store.
        project: The project in the store.
        holder: The name of the writer, for leases.
        report: Called when entries cannot be delivered.
        flush: `batched` collects the entries of a turn; `eager` sends them immediately.
    """

    def __init__(
        self,
        access: StoreAccess,
        project: str,
        *,
        holder: str,
        report: Report,
        flush: Flush = "batched",
    ) -> None:
        self._access = access
        self._project = project
        self._holder = holder
        self._report = report
        self._is_eager = flush == "eager"
        self._leases: dict[str, Lease] | None = {} if implements(access.store, "acquire_lease") else None
        """The leases by session; None if the store has no leases."""
        self._lost_sessions: set[str] = set()
        """The sessions that another process has taken over."""
        self._files: dict[Place, str] = {}
        """The file of each transcript: the CLI's, or the local one that keeps its entries."""
        self.spool: Spool = Spool()
        self._spooled: set[Place] = set()
        """The transcripts whose entries are kept in the spool while they are behind."""
        self._reported: dict[Place, ReportCursor] = {}
        self._queue: dict[Place, _Queued] = {}
        self._sending: tuple[Place, list[SessionStoreEntry]] | None = None
        """The entries being sent, and their transcript: they are no longer queued and not delivered yet."""
        self._catching_up: Place | None = None
        """The transcript whose file is being sent."""
        self._reported_while_sending: list[Mark] = []
        """Its entries that were reported after sending began."""
        self._behind: dict[Place, StoreError] = {}
        self._retry_after = BEHIND_SECONDS[0]
        self._has_work = anyio.Event()
        self._is_flush_due = anyio.Event()
        self._is_draining = False
        self._drained = anyio.Event()

    @property
    def undelivered(self) -> list[Place]:
        """The transcripts with entries that the store lacks."""
        places = [*self._behind]
        if self._sending is not None:
            places.append(self._sending[0])
        if self._catching_up is not None:
            places.append(self._catching_up)
        return list(dict.fromkeys([*places, *self._queue]))

    # Called by the pump; never waits -----------------------------------------------------------------------------

    def take(self, file_path: str, entries: list[dict[str, Any]], size: int) -> None:
        """Queue entries that the CLI wrote to a file; `size` in bytes."""
        place = parse_place(file_path, self._project)
        if place is None:
            logger.warning("%s is not the transcript of a session and is not sent to the session store", file_path)
            return
        reported = self._reported.setdefault(place, ReportCursor())
        given = [(identify(entry), entry) for entry in cast("list[SessionStoreEntry]", entries)]
        new = [entry for mark, entry in given if reported.take(mark)]
        if place == self._catching_up:
            self._reported_while_sending += [mark for mark, _ in given]
        if place not in self._spooled:
            self._files[place] = file_path
        if place not in self._behind:
            self._enqueue(place, new, size)
        elif place in self._spooled:
            self.spool.append(place, new)
        self._has_work.set()
        count = sum(len(each.entries) for each in self._queue.values())
        if self._is_eager or count >= BATCH_ENTRIES or self._count_queued_bytes() >= BATCH_BYTES:
            self._is_flush_due.set()

    def _enqueue(self, place: Place, entries: list[SessionStoreEntry], size: int) -> None:
        waiting = self._queue.setdefault(place, _Queued())
        waiting.entries += entries
        waiting.size += size
        if self._count_queued_bytes() > QUEUE_BYTES:
            for each, left in self._queue.items():
                self._behind.setdefault(each, StoreError("the store is too slow", key=each.key))
                self._keep(each, left.entries, self.spool.append)
            self._queue.clear()

    def _count_queued_bytes(self) -> int:
        return sum(each.size for each in self._queue.values())

    def _keep(
        self, place: Place, entries: list[SessionStoreEntry], add: Callable[[Place, list[SessionStoreEntry]], str]
    ) -> None:
        """Add entries of a transcript that is behind to the spool, unless the CLI's file is on this machine."""
        if entries and (place in self._spooled or not os.path.isfile(self._files[place])):
            self._spooled.add(place)
            self._files[place] = add(place, entries)

    def find_file(self, place: Place) -> str:
        """Return the file with the entries of a transcript; empty if unknown."""
        return self._files.get(place, "")

    def is_spooled(self, place: Place) -> bool:
        """Return whether the entries of a transcript that is behind are kept in the spool."""
        return place in self._spooled

    def flush(self) -> None:
        """Have the worker send the queue now, without waiting for a full batch. Does not wait."""
        self._is_flush_due.set()

    def begin(self, place: Place, reported: ReportCursor) -> None:
        """Record the state of a transcript when the CLI starts."""
        self._reported[place] = reported

    def expect_behind(self, place: Place, file_path: str, reported: ReportCursor) -> None:
        """Mark a transcript as behind, because the store may lack earlier entries."""
        self._files[place] = file_path
        self._reported[place] = reported
        self._behind[place] = StoreError("the transcript has not been compared with the store yet", key=place.key)
        self._has_work.set()

    # Workers -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send entries until the mirror is drained.

        Waits for entries (or, while a transcript is behind, for its next attempt), then for a batch to fill up or the
        turn to end, and sends them. When `drain` is called, it sends what is left and reports what cannot be sent.
        """
        while not self._is_draining:
            with anyio.move_on_after(self._retry_after if self._behind else None):
                await self._has_work.wait()
            if not self._is_eager:
                with anyio.move_on_after(BATCH_SECONDS):
                    await self._is_flush_due.wait()
            self._has_work = anyio.Event()
            self._is_flush_due = anyio.Event()
            await self._send_all()
        for _ in range(LAST_ATTEMPTS):
            await self._send_all()
            if not self._behind:
                break
        for place, error in self._behind.items():
            await self._give_up(place, error)
        self._drained.set()

    async def drain(self, deadline: float) -> None:
        """Send all queued entries and end `run`. Reports entries not delivered by the deadline, in event loop time."""
        self._is_draining = True
        self._has_work.set()
        self._is_flush_due.set()
        with anyio.CancelScope(deadline=deadline):
            await self._drained.wait()
            return
        for place in self.undelivered:
            if self._sending is not None and self._sending[0] == place:
                self._keep(place, self._sending[1], self.spool.prepend)
            self._keep(place, self._drop_queued(place), self.spool.append)
            late = StoreError("the store did not accept the entries in time", key=place.key)
            await self._give_up(place, self._behind.get(place, late))

    async def _give_up(self, place: Place, error: StoreError) -> None:
        message = f"the store lacks entries of {format_key(place.key)}: {error}"
        last = StoreError(message, key=place.key, session_id=place.session)
        last.__cause__ = error.__cause__ or error
        await self._report(last, is_final=True)

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
        if self._behind:
            self._retry_after = min(self._retry_after * 2, BEHIND_SECONDS[1])
        else:
            self._retry_after = BEHIND_SECONDS[0]

    async def _send(self, place: Place, entries: list[SessionStoreEntry]) -> None:
        for pause in (*PAUSES, None):
            try:
                await self._append(place.key, entries)
            except Exception as error:
                # A call that timed out may still succeed, so repeating it could store entries without a uuid twice.
                is_final = isinstance(error, StaleLeaseError) or isinstance(error.__cause__, TimeoutError)
                if pause is None or is_final:
                    self._keep(place, entries, self.spool.prepend)
                    self._keep(place, self._drop_queued(place), self.spool.append)
                    await self._fall_behind(place, error)
                    return
                if not self._is_draining:
                    await anyio.sleep(pause)
            else:
                return

    async def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        # Copy the entries: the store may change them, and they may be sent again.
        given: Any = [{**entry} for entry in entries]
        await self._access.append(key, given, await self._get_lease(key))

    async def _fall_behind(self, place: Place, cause: Exception) -> None:
        error = cause
        if not isinstance(error, StoreError):
            error = StoreError(f"the entries of {format_key(place.key)} cannot be read: {cause}")
            error.__cause__ = cause
        error.key, error.session_id = place.key, place.session
        is_new = place not in self._behind
        self._behind[place] = error
        if isinstance(error, StaleLeaseError):
            self._lost_sessions.add(place.session)
        if is_new:
            await self._report(error, is_final=False)

    async def _catch_up(self, place: Place) -> None:
        """Send the entries of a transcript that the store lacks. After a failure, the transcript is behind again."""
        if place.session in self._lost_sessions:
            return
        before = self._behind.pop(place)
        # The file also has the queued entries.
        self._drop_queued(place)
        self._catching_up = place
        self._reported_while_sending = []
        try:
            if place in self._spooled:
                sent = await self._send_spooled(place)
            else:
                sent = await self._send_file(place)
        except BaseException as error:
            self._behind[place] = before
            if place in self._spooled:
                self.spool.append(place, self._drop_queued(place))
            if not isinstance(error, Exception):
                raise
            await self._fall_behind(place, error)
        else:
            logger.info("the session store has caught up with %s: %d entries", format_key(place.key), sent)
        finally:
            self._catching_up = None
            self._reported_while_sending = []

    async def _send_spooled(self, place: Place) -> int:
        sent = await self.spool.send(place, self._append)
        # Entries added during the sending were also sent, or are still there.
        if not self.spool.has(place):
            self._spooled.discard(place)
            self._behind.pop(place, None)
        return sent

    async def _send_file(self, place: Place) -> int:
        reported = self._reported.setdefault(place, ReportCursor()).copy()
        marks: list[Mark] = []
        stored = await self._access.load(place) or []
        sent = await send_missing(
            self._files[place], place.key, stored, self._append, lambda entry: marks.append(identify(entry))
        )
        self._drop_sent(place, reported.with_sent(marks))
        return sent

    def _drop_queued(self, place: Place) -> list[SessionStoreEntry]:
        waiting = self._queue.pop(place, None)
        return [] if waiting is None else waiting.entries

    def _drop_sent(self, place: Place, reported: ReportCursor) -> None:
        """Remove entries from the queue that were already sent with the file."""
        self._reported[place] = reported
        left = Counter(mark for mark in self._reported_while_sending if reported.take(mark))
        waiting = self._queue.get(place)
        if waiting is not None:
            new: list[SessionStoreEntry] = []
            # Entries that were sent with the file come first, so keep the last ones.
            for entry in reversed(waiting.entries):
                mark = identify(entry)
                if left[mark] > 0:
                    left[mark] -= 1
                    new.append(entry)
            waiting.entries = new[::-1]

    # Leases ------------------------------------------------------------------------------------------------------

    def hold(self, lease: Lease) -> None:
        """Use a lease acquired for this mirror."""
        if self._leases is not None:
            self._leases[lease.key["session_id"]] = lease

    async def _get_lease(self, key: SessionKey) -> Lease | None:
        if self._leases is None:
            return None
        session = key["session_id"]
        if session not in self._leases:
            lease = await self._access.acquire_lease(Place(key["project_key"], session), self._holder)
            self._leases[session] = cast("Lease", lease)
        return self._leases[session]

    async def keep_leases(self) -> None:
        """Renew the leases until cancelled."""
        while self._leases is not None:
            await anyio.sleep(LEASE_SECONDS / 3)
            for session, lease in [*self._leases.items()]:
                try:
                    with anyio.fail_after(LEASE_SECONDS / 3):
                        self._leases[session] = await self._access.store.renew_lease(lease)
                except StaleLeaseError as error:
                    if session not in self._lost_sessions:
                        await self._fall_behind(Place(self._project, session), error)
                except Exception as error:
                    logger.warning("the lease of session %s cannot be renewed: %s", session, error)

    async def release_leases(self) -> None:
        """Release the leases. Never raises."""
        leases = self._leases or {}
        self._leases = {}
        for lease in leases.values():
            await self._access.release_lease(lease)
