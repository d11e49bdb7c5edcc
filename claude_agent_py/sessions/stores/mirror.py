"""`Mirror`: appends the entries of the CLI's transcripts to a store.

The CLI reports the entries that it writes. Those of one transcript wait in an `Outbox` until the store has accepted
them; the only worker sends them, in order. A transcript whose entries cannot be delivered is *behind*: the worker tries
again at growing intervals and when it stops. Entries that do not fit into memory wait in private files.
"""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol, cast

import anyio

from claude_agent_py._base.errors import StaleLeaseError, StoreError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py.sessions.stores.access import StoreAccess
from claude_agent_py.sessions.stores.base import BATCH_BYTES, BATCH_ENTRIES
from claude_agent_py.sessions.stores.cli_folder import CLIFolder, encode_line
from claude_agent_py.sessions.stores.comparison import parse_place
from claude_agent_py.sessions.stores.leases import HeldLease
from claude_agent_py.sessions.stores.private_folder import PrivateFolder, make_folder, mark_of
from claude_agent_py.sessions.stores.protocol import Lease, Place, SessionStoreEntry
from claude_agent_py.wire.base import JSONObject

PROJECT: Final = "undelivered"
Flush = Literal["batched", "eager"]

BATCH_SECONDS: Final = 1.0
"""How long entries wait to be batched, in seconds. The end of a turn sends them immediately."""
QUEUE_BYTES: Final = 16 * 1024 * 1024
"""The maximum size of the entries in memory, in bytes."""
PAUSES: Final = (0.2, 0.8)
"""Seconds between attempts to deliver a batch."""
BEHIND_SECONDS: Final = (5.0, 60.0)
"""Seconds until the worker tries again to deliver what is behind: the first and the longest interval."""


class Outbox:
    """The entries of a transcript that the store has not accepted yet, oldest first: in memory, or all in a file."""

    def __init__(self) -> None:
        self.cli_file = ""
        """The transcript that the CLI writes; empty before its first report."""
        self.entries: list[SessionStoreEntry] = []
        """The entries in memory."""
        self.size: int = 0
        """Their size in bytes."""
        self._path: str | None = None
        """The file, if the entries wait there."""
        self._start = self._end = 0
        """The part of the file that the store has not accepted."""
        self._taken = 0
        """The end of the batch that was read last: a number of entries in memory, or a position in the file."""

    def __bool__(self) -> bool:
        return bool(self.entries) or self.is_in_file

    @property
    def is_in_file(self) -> bool:
        """Whether entries wait in a file. Newer ones have to wait there, too."""
        return self._path is not None

    def add(self, entries: list[SessionStoreEntry], size: int) -> None:
        """Add newer entries; `size` in bytes."""
        self.entries += entries
        self.size += size

    def move_to(self, path: str) -> None:
        """Append the entries in memory to a file, which then holds all of them."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lines = [encode_line(entry) for entry in self.entries]
        data = b"".join(lines)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", 0) as file:
            start = file.seek(0, os.SEEK_END)
            _check_size(path, start, self._end)
            if file.write(data) != len(data):
                file.truncate(start)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if self._path is None:
            self._taken = sum(map(len, lines[: self._taken]))
        self._path, self._end = path, start + len(data)
        self.entries, self.size = [], 0

    async def read_batch(self) -> list[SessionStoreEntry]:
        """Return the oldest entries. Raises OSError if the file does not have them any more."""
        if self._path is None:
            self._taken = min(len(self.entries), BATCH_ENTRIES)
            return self.entries[: self._taken]
        batch, self._taken = await run_file_work(_read_batch, self._path, self._start, self._end)
        return batch

    def drop_batch(self) -> None:
        """Remove the batch that was read last, which the store has accepted. It may be in the file meanwhile.

        Neither waits nor reads the file: a cancellation would leave accepted entries here.
        """
        if self._path is None:
            self.size -= self.size * self._taken // len(self.entries)  # an estimate: the entries differ in size
            del self.entries[: self._taken]
            return
        self._start = self._taken
        if self._start == self._end:
            os.unlink(self._path)
            self._path, self._start, self._end = None, 0, 0


def _read_batch(path: str, start: int, end: int) -> tuple[list[SessionStoreEntry], int]:
    """Return the first entries of a part of a file, and the position after them."""
    with open(path, "rb") as file:
        _check_size(path, file.seek(0, os.SEEK_END), end)
        file.seek(start)
        lines = file.readlines(min(BATCH_BYTES, end - start))[:BATCH_ENTRIES]
    return [json.loads(line) for line in lines], start + sum(map(len, lines))


def _check_size(path: str, size: int, expected: int) -> None:
    if size < expected:
        raise OSError(errno.EIO, f"{expected - size} bytes of entries for the session store were lost", path)


class Report(Protocol):
    """Reports that entries cannot be delivered."""

    async def __call__(self, error: StoreError, *, is_final: bool) -> None:
        """Report an error. With `is_final`, the worker does not try again."""


class Mirror:
    """Sends the entries of one CLI process to a store.

    Args:
        access: The store.
        project: The project in the store.
        report: Called when entries cannot be delivered.
        flush: `batched` collects the entries of a turn; `eager` sends them immediately.
    """

    def __init__(self, access: StoreAccess, project: str, *, report: Report, flush: Flush = "batched") -> None:
        self.project: str = project
        """The project in the store."""
        self.folder: PrivateFolder | None = None
        """The private folder with the files of the outboxes; None before it is needed."""
        self._access = access
        self._report = report
        self._is_eager = flush == "eager"
        self._leases: dict[str, HeldLease] = {}
        """The leases by session."""
        self._lost_sessions: set[str] = set()
        """The sessions that another process has taken over."""
        self._outboxes: dict[Place, Outbox] = {}
        self._entries = self._bytes = 0
        """The number and the size of the entries in memory."""
        self._behind: dict[Place, StoreError] = {}
        self._retry_after = BEHIND_SECONDS[0]
        self._has_work = anyio.Event()
        self._is_flush_due = anyio.Event()
        self._is_draining = False
        self._drained = anyio.Event()
        self._tried = RepeatingEvent()
        """Set after each attempt to send everything."""

    @property
    def undelivered(self) -> list[Place]:
        """The transcripts with entries that the store lacks."""
        return [place for place, outbox in self._outboxes.items() if outbox]

    # Called by the pump; never waits -----------------------------------------------------------------------------

    def take(self, file_path: str, entries: list[JSONObject], size: int) -> bool:
        """Queue entries that the CLI wrote to a file; `size` in bytes. Return whether it is a session's transcript."""
        place = parse_place(file_path, self.project)
        if place is None:
            logger.warning("%s is not the transcript of a session and is not sent to the session store", file_path)
            return False
        self.add(place, cast("list[SessionStoreEntry]", entries), size)
        self._outboxes[place].cli_file = file_path
        return True

    def add(self, place: Place, entries: list[SessionStoreEntry], size: int) -> None:
        """Queue entries of a transcript; `size` in bytes."""
        outbox = self._outboxes.setdefault(place, Outbox())
        with self._counting(outbox):
            outbox.add(entries, size)
        try:
            if self._bytes > QUEUE_BYTES:
                for each in self._outboxes:
                    self.keep(each)
            elif outbox.is_in_file:
                self.keep(place)
        except (OSError, StoreError) as error:
            logger.warning("the entries for the session store stay in memory: %s", error)
        self._has_work.set()
        if self._is_eager or self._entries >= BATCH_ENTRIES or self._bytes >= BATCH_BYTES:
            self._is_flush_due.set()

    @contextlib.contextmanager
    def _counting(self, outbox: Outbox) -> Iterator[None]:
        """Keep count of the entries in memory while an outbox changes."""
        entries, size = len(outbox.entries), outbox.size
        yield
        self._entries += len(outbox.entries) - entries
        self._bytes += outbox.size - size

    def flush(self) -> None:
        """Have the worker send the queue now, without waiting for a full batch. Does not wait."""
        self._is_flush_due.set()

    def keep(self, place: Place) -> Path:
        """Move the undelivered entries of a transcript to a file. Return the configuration folder that has it."""
        if self.folder is None:
            self.folder = make_folder(None, mark=mark_of(self._access.store))
        outbox = self._outboxes[place]
        if outbox.entries:
            with self._counting(outbox):
                outbox.move_to(CLIFolder(self.folder.projects).find_path(place._replace(project=PROJECT)))
        return self.folder.path

    def find_cli_file(self, place: Place) -> str | None:
        """Return the transcript that the CLI writes if it is on this machine, or None."""
        outbox = self._outboxes.get(place)
        return outbox.cli_file if outbox is not None and os.path.isfile(outbox.cli_file) else None

    # Workers -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send entries until the mirror is drained.

        Waits for entries (or, while a transcript is behind, for its next attempt), then for a batch to fill up or the
        turn to end, and sends them. When `drain` is called, it tries once more to send everything.
        """
        while not self._is_draining:
            with anyio.move_on_after(self._retry_after if self._behind else None):
                await self._has_work.wait()
            if not self._is_eager:
                with anyio.move_on_after(BATCH_SECONDS):
                    await self._is_flush_due.wait()
            # Before sending, because what comes meanwhile needs another round.
            self._has_work = anyio.Event()
            self._is_flush_due = anyio.Event()
            await self._send_all()
            self._tried.set()
            self._retry_after = min(self._retry_after * 2, BEHIND_SECONDS[1]) if self._behind else BEHIND_SECONDS[0]
        await self._send_all()
        self._drained.set()
        self._tried.set()

    async def sync(self) -> None:
        """Wait until the store has, or has refused, everything that is queued. Needs `run`."""
        while not self._drained.is_set() and any(
            place not in self._behind and place.session not in self._lost_sessions for place in self.undelivered
        ):
            self._has_work.set()
            self._is_flush_due.set()
            await self._tried.wait()

    async def drain(self, deadline: float) -> None:
        """Send all queued entries and end `run`. Reports entries not delivered by the deadline, in event loop time."""
        self._is_draining = True
        self._has_work.set()
        self._is_flush_due.set()
        with anyio.CancelScope(deadline=deadline):
            await self._drained.wait()
        for place in self.undelivered:
            late = StoreError("the store did not accept the entries in time")
            error = self._behind.get(place, late)
            message = f"the store lacks entries of {place}: {error}"
            last = StoreError(message, key=place.key, session_id=place.session)
            last.__cause__ = error.__cause__ or error
            await self._report(last, is_final=True)

    async def _send_all(self) -> None:
        for place, outbox in [*self._outboxes.items()]:
            if place.session not in self._lost_sessions:
                await self._send(place, outbox)

    async def _send(self, place: Place, outbox: Outbox) -> None:
        """Send the entries of a transcript. After a failure, the transcript is behind."""
        try:
            while batch := await outbox.read_batch():
                await self._append(place, batch)
                with self._counting(outbox):
                    outbox.drop_batch()
        except Exception as error:
            await self._fall_behind(place, error)
        else:
            if self._behind.pop(place, None) is not None:
                logger.info("the session store has caught up with %s", place)

    async def _append(self, place: Place, batch: list[SessionStoreEntry]) -> None:
        pauses = iter(PAUSES if place not in self._behind else ())
        while True:
            # Copies, because the store may change them, and they may be sent again.
            copies = [cast("SessionStoreEntry", {**entry}) for entry in batch]
            try:
                return await self._access.append(place, copies, await self.acquire_lease(place))
            except Exception as error:
                # A call that timed out may still succeed, so repeating it could store entries without a uuid twice.
                is_final = isinstance(error, StaleLeaseError) or isinstance(error.__cause__, TimeoutError)
                pause = next(pauses, None)
                if pause is None or is_final:
                    raise
            # The end of the session has a deadline.
            if not self._is_draining:
                await anyio.sleep(pause)

    async def _fall_behind(self, place: Place, cause: Exception) -> None:
        error = cause
        if not isinstance(error, StoreError):
            error = StoreError(f"the entries of {place} cannot be read: {cause}")
            error.__cause__ = cause
        error.key, error.session_id = place.key, place.session
        is_new = place not in self._behind
        self._behind[place] = error
        if isinstance(error, StaleLeaseError):
            self._lost_sessions.add(place.session)
        if is_new:
            await self._report(error, is_final=False)

    # Leases ------------------------------------------------------------------------------------------------------

    async def acquire_lease(self, place: Place) -> Lease | None:
        """Return the lease of a session, held by this mirror; None for a store without leases."""
        held = self._leases.get(place.session)
        if held is None:
            held = self._leases[place.session] = self._access.hold_lease(place, partial(self._lose, place.session))
        if held.lease is None:  # an attempt that failed may have taken it, for this holder
            await held.take()
        return held.lease

    async def _lose(self, session: str, error: StaleLeaseError) -> None:
        if session not in self._lost_sessions:
            await self._fall_behind(Place(self.project, session), error)

    async def end(self) -> None:
        """Release the leases, and those who wait for what is not sent any more. Never raises."""
        self._drained.set()
        self._tried.set()
        leases, self._leases = self._leases, {}
        for held in leases.values():
            await held.release()
