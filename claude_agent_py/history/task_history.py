"""A history of tasks across sessions, in an SQLite file.

File access runs in worker threads, and several processes may share a file. Writes are idempotent, so replaying a
session is safe.

`recorder` turns task events into records; `writers` contains the tables and ends the tasks of processes that died.
"""

import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, TypeVar

import anyio

from claude_agent_py._base.errors import OptionsError, SessionError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import get_logger
from claude_agent_py._base.shared_sqlite import IN_MEMORY, SharedConnection, open_shared, transact
from claude_agent_py._base.streams import Polling
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py.history.recorder import Recorder
from claude_agent_py.history.records import FinishedTask, RecordedTree, TaskRecord, rebuild
from claude_agent_py.history.writers import (
    FINISHED,
    LAST_STATUS,
    PUT_FINISHED,
    RECORD,
    SCHEMA,
    VERSION,
    Writers,
    encode_finished,
    encode_record,
    put_records,
    read_finished,
    read_record,
    read_session_id,
)
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.wire.messages.tasks import TaskStatus

T = TypeVar("T")

logger: logging.Logger = get_logger(__name__)

POLL: Final = 0.2
"""Seconds between two checks of `follow` for new records."""


class TaskHistory:
    """The tasks of many sessions. Use it as an async context manager, or call `open` and `close`.

    Every method raises SessionError if the file cannot be opened, read or written, or a value cannot be stored. An
    unreadable row (written by another program or a newer version) is skipped, logged and counted in `skipped_rows`.
    Lone surrogates, which UTF-8 cannot encode, become U+FFFD.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Create a history.

        Args:
            path: The SQLite file. A missing file is created; `:memory:` keeps everything in the memory of this process.
        """
        self._path = os.fspath(path)
        self.skipped_rows: int = 0
        """The number of rows skipped so far. Each row is counted once."""
        self._skipped: set[int] = set()
        self._writers = Writers(None if self._path == IN_MEMORY else self._path)
        self._file = SharedConnection(partial(_open, self._path))
        self._recorders: list[Recorder] = []
        self._process = os.getpid()

    async def open(self) -> Self:
        """Open the file. Idempotent. Other methods open it on first use."""
        await self._run(lambda cursor: None)
        return self

    async def close(self) -> None:
        """Store all records so far and close the file. Idempotent. Further use reopens it.

        Raises:
            SessionError: The records could not be stored; the file is closed.
        """
        with anyio.CancelScope(shield=True):
            try:
                self._record_pending_changes()
                await self._flush(is_last=True)
            finally:
                self._recorders = [each for each in self._recorders if each.is_in_use]
                await run_file_work(self._close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writing

    async def add(self, *tasks: FinishedTask) -> None:
        """Store finished runs. A run that is already stored is replaced."""
        with _convert_errors(self._path):
            rows = [encode_finished(task) for task in tasks]
        await self._run(lambda cursor: cursor.executemany(PUT_FINISHED, rows))

    async def record(self, *records: TaskRecord) -> None:
        """Store steps, with the next numbers of their sessions. A step that is already stored stays unchanged."""
        with _convert_errors(self._path):
            rows = [encode_record(record) for record in records]
        await self._run(lambda cursor: put_records(cursor, rows, None))

    def attach(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> Callable[[TaskEvent], Any]:
        """Record all future steps of a session's tasks, and the start and end of each earlier run.

        Records are stored soon after they are created; `flush` stores them immediately. Call this while the session is
        open. Returns the listener, for `TaskManager.off`.

        Args:
            manager: The tasks of the session, `client.tasks`.
            session_id: The session's id, or a function that returns it once it is known. A task keeps the id that it
                was first recorded with.
        """
        self._leave_to_original()
        for recorder in self._recorders:
            if recorder.is_for(manager, session_id):
                break
        else:
            self._recorders = [each for each in self._recorders if each.is_in_use]
            recorder = Recorder(manager, session_id, self._flush)
            self._recorders.append(recorder)
        recorder.listen(manager)
        return recorder.keep

    async def flush(self) -> None:
        """Store all records so far, except records of a session whose id is not known yet.

        Includes usage and other frequently changing details, which are otherwise stored with the next step of any task.
        """
        self._record_pending_changes()
        await self._flush()

    def _record_pending_changes(self) -> None:
        for recorder in self._recorders:
            recorder.record_pending_changes()

    async def _flush(self, *, is_last: bool = False) -> None:
        """Store the waiting records. `is_last` includes the records of sessions whose id is unknown."""
        self._leave_to_original()
        waiting = [(each, each.session_id) for each in self._recorders if each.waiting]
        ready = [(each, session_id or "") for each, session_id in waiting if session_id is not None or is_last]
        if ready:
            await run_file_work(self._store_all, ready)

    def _leave_to_original(self) -> None:
        """In a forked process, leave the records of the sessions and the lock to the original."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._recorders = []
            self._writers.forget()

    def _store_all(self, ready: list[tuple[Recorder, str]]) -> None:
        self._run_locked(self._writers.end_dead_writers)
        self._run_locked(self._writers.join)
        for recorder, session_id in ready:
            self._run_locked(lambda cursor: self._store(cursor, recorder, session_id))  # noqa: B023 - it is called now

    def _store(self, cursor: sqlite3.Cursor, recorder: Recorder, session_id: str) -> None:
        # Take the rows under the lock: concurrent flushes then store them in order.
        rows = [recorder.waiting.popleft() for _ in range(len(recorder.waiting))]
        try:
            placed = [
                # A task keeps the session of its first row.
                replace(row, session_id=recorder.sessions.setdefault(row.task_id, session_id))
                for row in rows
                if not _check_stored(cursor, recorder, row, session_id)
            ]
            records = [encode_record(row) for row in placed if isinstance(row, TaskRecord)]
            put_records(cursor, records, self._writers.own)
            cursor.executemany(PUT_FINISHED, [encode_finished(row) for row in placed if isinstance(row, FinishedTask)])
            # On a full disk, only the commit fails.
            cursor.connection.commit()
        except BaseException:
            recorder.waiting.extendleft(reversed(rows))
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
            task_id: Only runs of this task.
            since: Only runs that ended at this time or later, in seconds since the epoch.
            until: Only runs that ended before this time.
            limit: The maximum number to return.
        """
        where, values = _build_where(
            [
                ("session_id = ?", session_id),
                ("agent = ?", agent),
                ("task_id = ?", task_id),
                ("ended_at >= ?", since),
                ("ended_at < ?", until),
            ]
        )
        if status is not None:
            statuses = [status] if isinstance(status, str) else list(status)
            where += f" AND status IN ({', '.join('?' * len(statuses))})"
            values += [_parse_status(name).value for name in statuses]
        rows = await self._select(
            FINISHED, f"finished WHERE {where} ORDER BY ended_at DESC, task_id LIMIT ?", *values, limit
        )
        return self._parse_rows("finished", read_finished, rows)

    async def records(self, session_id: str, task_id: str | None = None, *, after: int = 0) -> list[TaskRecord]:
        """Return the steps of a session's tasks, or of one task, sorted by number.

        Args:
            session_id: The session.
            task_id: Only steps of this task.
            after: Only steps with a greater number.
        """
        where, values = _build_where([("session_id = ?", session_id), ("task_id = ?", task_id), ("number > ?", after)])
        rows = await self._select(RECORD, f"records WHERE {where} ORDER BY number", *values)
        return self._parse_rows("records", read_record, rows)

    def follow(
        self, session_id: str, task_id: str | None = None, *, after: int = 0, poll: float = POLL
    ) -> AsyncIterator[TaskRecord]:
        """Iterate over the records of a session, or of one task: first the stored ones, then new ones. Never ends.

        Another process may be recording. To continue after a cancellation, pass the number of the last record as
        `after`. Iterating raises SessionError if the file cannot be read.

        Args:
            session_id: The session, which may begin later.
            task_id: Only records of this task.
            after: Only records with a greater number.
            poll: Seconds between two checks of the file.

        Raises:
            OptionsError: `poll` is not positive.
        """
        if not poll > 0:
            raise OptionsError(f"must be positive, not {poll}", option="poll")

        async def read() -> Sequence[TaskRecord]:
            nonlocal after
            found = await self.records(session_id, task_id, after=after)
            if found:
                after = found[-1].number
            return found

        return Polling(read, (poll, poll))

    async def tree(self, session_id: str) -> dict[str | None, list[str]]:
        """Return the tree of a session: the ids of the children by the id of the parent, the roots under None."""
        tree = await self.rebuild(session_id)
        found: dict[str | None, list[str]] = {None: [task.id for task in tree.roots]} if tree.roots else {}
        return found | {task.id: [child.id for child in task.children] for task in tree.walk() if task.children}

    async def rebuild(self, session_id: str, *, at: int | None = None) -> RecordedTree:
        """Return the tasks of a session as a tree. `print()` draws it.

        Args:
            session_id: The session.
            at: The number of a record, to return the tree at that moment. None returns the current state or, for a
                session recorded by another process, the state at the last record.
        """
        if at is None:
            self._record_pending_changes()
        records = await self.records(session_id)
        if at is not None:
            records = [record for record in records if record.number <= at]
        with _convert_errors(self._path):
            return rebuild(records)

    async def sessions(self) -> list[str]:
        """Return the ids of the stored sessions."""
        both = "(SELECT session_id FROM finished UNION SELECT session_id FROM records) ORDER BY session_id"
        return self._parse_rows("sessions", read_session_id, await self._select(("session_id",), both))

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

    def _parse_rows(self, table: str, read: Callable[[Sequence[Any]], T], rows: Sequence[Sequence[object]]) -> list[T]:
        """Parse rows, skipping invalid ones."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except ValueError as error:
                # `follow` reads an invalid row at the end repeatedly. Count it once.
                identity = hash((table, *row))
                if identity in self._skipped:
                    continue
                self._skipped.add(identity)
                self.skipped_rows += 1
                logger.warning("skipped a row of %s in the history %s: %s", table, self._path, error)
        return found

    # The database

    async def _select(self, columns: Sequence[str], rest: str, *values: object) -> list[tuple[object, ...]]:
        query = f"SELECT {', '.join(columns)} FROM {rest}"  # noqa: S608 - text of ours, values are bound

        def read(cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
            self._writers.end_dead_writers(cursor)
            return cursor.execute(query, values).fetchall()

        await self._flush()
        return await self._run(read)

    async def _run(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        return await run_file_work(self._run_locked, work)

    def _run_locked(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        with _convert_errors(self._path), self._file.borrow() as connection:
            return transact(connection, work)

    def _close(self) -> None:
        """Close the file. The lock of this process remains while recorded tasks are running."""
        try:
            self._file.close(self._writers.leave if not self._recorders else lambda cursor: None)
        except sqlite3.Error:
            logger.warning("the history %s was not closed cleanly", self._path, exc_info=True)


def _open(path: str) -> sqlite3.Connection:
    connection = open_shared(path, SCHEMA, version=VERSION)
    connection.text_factory = _decode_text
    return connection


def _check_stored(cursor: sqlite3.Cursor, recorder: Recorder, row: TaskRecord | FinishedTask, session_id: str) -> bool:
    """Return whether an earlier process has stored the run. A resumed session reports its end without a run id."""
    if row.run_id is not None:
        return False
    if row.task_id not in recorder.sessions:
        last = cursor.execute(LAST_STATUS, (session_id, row.task_id)).fetchone()
        if last is not None and (status := TaskStatus.read(last[0])) is not None and status.is_terminal:
            recorder.ended_before.add(row.task_id)
    return row.task_id in recorder.ended_before


@contextmanager
def _convert_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise SessionError(f"the history {path} cannot be used: {error}") from error


def _parse_status(word: TaskStatus | str) -> TaskStatus:
    status = TaskStatus.read(word)
    if status is None:
        raise OptionsError(f"must be one of {', '.join(TaskStatus)}, not {word!r}", option="status")
    return status


def _build_where(parts: Sequence[tuple[str, object]]) -> tuple[str, list[object]]:
    given = [(condition, value) for condition, value in parts if value is not None]
    # "1" keeps the clause valid without conditions.
    where = " AND ".join(["1", *(condition for condition, _ in given)])
    return where, [value for _, value in given]


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
