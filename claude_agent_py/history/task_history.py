"""A history of tasks across sessions, in an SQLite file.

File access runs in worker threads, and several processes may share a file. Writes are idempotent, so a session can be
replayed.

`recorder` turns events of tasks into records, `storage` has the tables, and `writers` ends the tasks of processes that
died.
"""

import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._errors import OptionsError, SessionError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py._shared_sqlite import open_shared, transact
from claude_agent_py.history.rebuild import rebuild
from claude_agent_py.history.recorder import Recorder
from claude_agent_py.history.records import FinishedTask, RecordedTree, TaskRecord
from claude_agent_py.history.storage import (
    FINISHED,
    LAST_NAMED,
    PUT_FINISHED,
    RECORD,
    SCHEMA,
    VERSION,
    finished_row,
    migrate,
    put_records,
    read_finished,
    read_record,
    read_session_id,
    record_row,
)
from claude_agent_py.history.writers import Writers
from claude_agent_py.tasks.events import TaskEvent
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.wire.messages.tasks import TaskStatus

IN_MEMORY: Final = ":memory:"

T = TypeVar("T")

logger: logging.Logger = logging.getLogger(__name__)

POLL: Final = 0.2
"""Seconds between two checks of `follow` for new records."""


class TaskHistory:
    """The tasks of many sessions. Use it as an async context manager, or call `open` and `close`.

    Every method raises SessionError if the file cannot be opened, read or written, or a value cannot be stored. An
    unreadable row (written by another program or a newer version) is skipped, logged and counted in `skipped_rows`.
    Lone surrogates, which a file cannot hold, become U+FFFD.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Create a history.

        Args:
            path: The SQLite file, created if missing; `:memory:` keeps everything in memory.
        """
        self._path = os.fspath(path)
        self._connection: sqlite3.Connection | None = None
        self.skipped_rows: int = 0
        """How many rows were skipped so far. Each row is counted once."""
        self._skipped: set[int] = set()
        self._lock = threading.Lock()
        self._writers = Writers(None if self._path == IN_MEMORY else self._path)
        self._attached: list[_Attached] = []

    async def open(self) -> Self:
        """Open the file. Idempotent. Other methods call it on first use."""
        await self._run(lambda cursor: None)
        return self

    async def close(self) -> None:
        """Store all records so far and close the file. Idempotent. Further use reopens it.

        Raises:
            SessionError: The records could not be stored; the file is closed.
        """
        with anyio.CancelScope(shield=True):
            try:
                self._settle()
                await self._flush(is_last=True)
            finally:
                self._attached = [each for each in self._attached if each.is_in_use]
                await run_file_work(self._close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writing

    async def add(self, *tasks: FinishedTask) -> None:
        """Store finished runs. A run that is already stored is replaced."""
        with _typed_errors(self._path):
            rows = [finished_row(task) for task in tasks]
        await self._run(lambda cursor: cursor.executemany(PUT_FINISHED, rows))

    async def record(self, *records: TaskRecord) -> None:
        """Store steps, with the next numbers of their sessions. A step that is already stored is kept unchanged."""
        with _typed_errors(self._path):
            rows = [record_row(record) for record in records]
        await self._run(lambda cursor: put_records(cursor, rows, None))

    def attach(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> Callable[[TaskEvent], Any]:
        """Record everything that happens to a session's tasks from now on, and the start and end of each earlier run.
        Records are stored soon after they are made; `flush` stores them now. Returns the listener, for
        `TaskManager.off`. Call it while the session is open.

        Args:
            manager: The tasks of the session, `client.tasks`.
            session_id: The session's id, or a function that returns it once it is known. A task keeps the id that it
                was first recorded with.
        """
        for attached in self._attached:
            if attached.is_of(manager, session_id):
                break
        else:
            self._attached = [each for each in self._attached if each.is_in_use]
            attached = _Attached(Recorder(manager), session_id, self._flush)
            self._attached.append(attached)
        attached.listen(manager)
        return attached.keep

    async def flush(self) -> None:
        """Store all records so far, except those of a session whose id is not known yet.

        Includes usage and other frequently changing details, which are otherwise stored with the next step of any task.
        """
        self._settle()
        await self._flush()

    def _settle(self) -> None:
        for attached in self._attached:
            if attached.is_at_home:
                attached.recorder.settle()

    async def _flush(self, *, is_last: bool = False) -> None:
        """Store the waiting records; with `is_last`, including those of sessions whose id is unknown."""
        waiting = [(each, each.session_id) for each in self._attached if each.recorder.has_waiting]
        ready = [(each, session_id or "") for each, session_id in waiting if session_id is not None or is_last]
        if ready:
            await run_file_work(self._store_all, ready)

    def _store_all(self, ready: "list[tuple[_Attached, str]]") -> None:
        self._locked(self._writers.end_dead)
        self._locked(self._writers.join)
        for attached, session_id in ready:
            self._locked(lambda cursor: self._store(cursor, attached, session_id))  # noqa: B023 - it is called now

    def _store(self, cursor: sqlite3.Cursor, attached: "_Attached", session_id: str) -> None:
        rows = attached.recorder.take()  # here, to keep the order
        try:
            placed = [
                attached.placed(row, session_id) for row in rows if not _is_stored(cursor, attached, row, session_id)
            ]
            records = [record_row(row) for row in placed if isinstance(row, TaskRecord)]
            put_records(cursor, records, self._writers.own)
            cursor.executemany(PUT_FINISHED, [finished_row(row) for row in placed if isinstance(row, FinishedTask)])
        except BaseException:
            attached.recorder.give_back(rows)
            raise

    # Reading

    async def finished(
        self,
        *,
        session_id: str | None = None,
        agent: str | None = None,
        status: TaskStatus | str | Sequence[TaskStatus | str] | None = None,
        task_id: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 1000,
    ) -> list[FinishedTask]:
        """Return finished runs, latest first.

        Args:
            session_id: Only runs of this session.
            agent: Only runs of this agent definition.
            status: Only runs with this status, or one of these.
            task_id: Only of this task.
            since: Only runs that ended at this time or later, in seconds since the epoch.
            until: Only runs that ended before this time.
            limit: The maximum number to return.
        """
        statuses = None if status is None else [status] if isinstance(status, str) else list(status)
        where, values = _conditions(
            [
                ("session_id = ?", session_id),
                ("agent = ?", agent),
                ("task_id = ?", task_id),
                ("ended_at >= ?", since),
                ("ended_at < ?", until),
            ]
        )
        if statuses is not None:
            where += f" AND status IN ({', '.join('?' * len(statuses))})"
            values += [_status(one).value for one in statuses]
        rows = await self._select(
            FINISHED, f"finished WHERE {where} ORDER BY ended_at DESC, task_id LIMIT ?", *values, limit
        )
        return self._understood("finished", read_finished, rows)

    async def records(self, session_id: str, task_id: str | None = None, *, after: int = 0) -> list[TaskRecord]:
        """Return the steps in the lives of a session's tasks (or of one), in the order of their numbers.

        Args:
            session_id: The session.
            task_id: Only of this task.
            after: Only those with a greater number.
        """
        where, values = _conditions([("session_id = ?", session_id), ("task_id = ?", task_id), ("number > ?", after)])
        rows = await self._select(RECORD, f"records WHERE {where} ORDER BY number", *values)
        return self._understood("records", read_record, rows)

    def follow(
        self, session_id: str, task_id: str | None = None, *, after: int = 0, poll: float = POLL
    ) -> AsyncIterator[TaskRecord]:
        """Iterate over the records of a session (or of one task): those so far and those to come, without end.

        Another process may be recording. To continue after a cancellation, pass the number of the last record as
        `after`. Iterating raises SessionError if the file cannot be read.

        Args:
            session_id: The session, which need not have begun.
            task_id: Only of this task.
            after: Only those with a greater number.
            poll: Seconds between two checks of the file.

        Raises:
            OptionsError: `poll` is not positive.
        """
        if not poll > 0:
            raise OptionsError(f"must be positive, not {poll}", option="poll")
        return _Follow(self, session_id, task_id, after, poll)

    async def tree(self, session_id: str) -> dict[str | None, list[str]]:
        """Return the tree of a session: the ids of the children by the id of the parent, the roots under None."""
        tree = await self.rebuild(session_id)
        found: dict[str | None, list[str]] = {None: [task.id for task in tree.roots]} if tree.roots else {}
        return found | {task.id: [child.id for child in task.children] for task in tree.walk() if task.children}

    async def rebuild(self, session_id: str, *, at: int | None = None) -> RecordedTree:
        """Return the tasks of a session as a tree. `print()` draws it.

        Args:
            session_id: The session.
            at: The number of a record, to return the tree at that moment. None means the current state
                or, for a session recorded by another process, that of the last record.
        """
        if at is None:
            self._settle()
        records = await self.records(session_id)
        if at is not None:
            records = [record for record in records if record.number <= at]
        with _typed_errors(self._path):
            return rebuild(records)

    async def sessions(self) -> list[str]:
        """Return the ids of the stored sessions."""
        both = "(SELECT session_id FROM finished UNION SELECT session_id FROM records) ORDER BY session_id"
        return self._understood("sessions", read_session_id, await self._select(("session_id",), both))

    async def forget(self, *, before: float) -> int:
        """Delete the runs that ended before a time (in seconds since the epoch), and return how many.

        Records of a session are deleted up to the first one at or after that time, so that the rest has no gaps.
        """

        def drop(cursor: sqlite3.Cursor) -> int:
            dropped = cursor.execute("DELETE FROM finished WHERE ended_at < ?", (before,)).rowcount
            cursor.execute(
                "DELETE FROM records WHERE NOT EXISTS (SELECT 1 FROM records kept WHERE kept.at >= ?"
                " AND kept.session_id = records.session_id AND kept.number <= records.number)",
                (before,),
            )
            return dropped

        return await self._run(drop)

    def _understood(self, table: str, read: Callable[[Sequence[Any]], T], rows: Sequence[Sequence[Any]]) -> list[T]:
        """Parse rows, skipping invalid ones."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except ValueError as error:
                known, identity = len(self._skipped), hash((table, *row))
                self._skipped.add(identity)
                if len(self._skipped) == known:  # `follow` reads a row at the end again and again
                    continue
                self.skipped_rows += 1
                logger.warning("skipped a row of %s in the history %s: %s", table, self._path, error)
        return found

    # The database

    async def _select(self, columns: Sequence[str], rest: str, *values: Any) -> list[tuple[Any, ...]]:
        query = f"SELECT {', '.join(columns)} FROM {rest}"  # noqa: S608 - text of ours, values are bound

        def read(cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
            self._writers.end_dead(cursor)
            return cursor.execute(query, values).fetchall()

        await self._flush()
        return await self._run(read)

    async def _run(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        return await run_file_work(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        with self._lock, _typed_errors(self._path):
            if self._connection is None:
                self._connection = open_shared(self._path, SCHEMA, version=VERSION, migrate=migrate)
                self._connection.text_factory = _as_text
            return transact(self._connection, work)

    def _close(self) -> None:
        """Close the file. The sign of life remains while recorded tasks are running."""
        with self._lock:
            connection, self._connection = self._connection, None
            try:
                if connection is None or self._attached:
                    return
                transact(connection, self._writers.leave)
            except sqlite3.Error:
                logger.warning("the history %s was not closed cleanly", self._path, exc_info=True)
            finally:
                if connection is not None:
                    connection.close()


class _Attached:
    """A session that is recorded."""

    def __init__(
        self,
        recorder: Recorder,
        session_id: Callable[[], str | None] | str,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self.recorder = recorder
        self._session_id = session_id
        self._flush = flush
        self._sessions: dict[str, str] = {}
        """The session of each task."""
        self.earlier: set[str] = set()
        """Tasks whose end was stored by an earlier process."""
        self._stop: Callable[[], None] | None = None
        self._home = threading.get_ident()

    @property
    def is_at_home(self) -> bool:
        """Whether this is the session's thread, the only one that may access its tasks."""
        return threading.get_ident() == self._home

    @property
    def is_in_use(self) -> bool:
        """Whether some of its tasks are running or have records to store."""
        return self.recorder.has_live or self.recorder.has_waiting

    def is_of(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> bool:
        """Return whether it records this manager for this session."""
        return self.recorder.manager is manager and self._session_id == session_id

    @property
    def session_id(self) -> str | None:
        """The id of the session; None while it is unknown."""
        return self._session_id() if callable(self._session_id) else self._session_id

    def listen(self, manager: TaskManager) -> None:
        """Start recording, beginning with the past events."""
        if self._stop is None or not manager.listens(self.keep):
            self._unwatch()
            self._stop = manager.watch(self._hear)
            manager.on(self.keep)
            self.recorder.catch_up(manager)
            manager.catch_up(self.keep)  # so that it is called

    async def keep(self, event: TaskEvent) -> None:
        """Store the waiting records of many events together, so that most calls have nothing to do."""
        if self.recorder.has_waiting:
            await self._flush()

    def has(self, task_id: str) -> bool:
        """Return whether any record of a task was stored."""
        return task_id in self._sessions

    def placed(self, row: TaskRecord | FinishedTask, session_id: str) -> TaskRecord | FinishedTask:
        """Return a row with the id of its session."""
        return replace(row, session_id=self._sessions.setdefault(row.task_id, session_id))

    def _hear(self, touched: set[str], events: list[TaskEvent]) -> None:
        manager = self.recorder.manager
        if manager is None or not manager.listens(self.keep):  # `off` was called
            self._unwatch()
        else:
            self.recorder.hear(manager, touched, events)

    def _unwatch(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


def _is_stored(cursor: sqlite3.Cursor, attached: _Attached, row: TaskRecord | FinishedTask, session_id: str) -> bool:
    """Return whether an earlier process has stored the run. A resumed session reports its end without a run id."""
    if row.run_id is not None:
        return False
    if not attached.has(row.task_id):
        last = cursor.execute(LAST_NAMED, (session_id, row.task_id)).fetchone()
        if last is not None and (status := TaskStatus.read(last[0])) is not None and status.is_terminal:
            attached.earlier.add(row.task_id)
    return row.task_id in attached.earlier


class _Follow(AsyncIterator[TaskRecord]):
    """The records of a session as they are made. Not a generator, so it needs no closing."""

    def __init__(self, history: TaskHistory, session_id: str, task_id: str | None, after: int, poll: float) -> None:
        self._history = history
        self._session_id = session_id
        self._task_id = task_id
        self._after = after
        self._poll = poll
        self._read: deque[TaskRecord] = deque()

    async def __anext__(self) -> TaskRecord:
        await checkpoint()
        while not self._read:
            self._read.extend(await self._history.records(self._session_id, self._task_id, after=self._after))
            if not self._read:
                await anyio.sleep(self._poll)
        record = self._read.popleft()
        self._after = record.number
        return record


@contextmanager
def _typed_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise SessionError(f"cannot use the history {path}: {error}") from error


def _status(word: TaskStatus | str) -> TaskStatus:
    status = TaskStatus.read(word)
    if status is None:
        raise OptionsError(f"unknown status {word!r}; expected one of {', '.join(TaskStatus)}", option="status")
    return status


def _conditions(parts: Sequence[tuple[str, Any]]) -> tuple[str, list[Any]]:
    chosen = [(condition, value) for condition, value in parts if value is not None]
    return " AND ".join(["1", *(condition for condition, _ in chosen)]), [value for _, value in chosen]


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
