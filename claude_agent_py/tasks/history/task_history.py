"""A history of tasks across sessions, in an SQLite file.

It is a table of facts about tasks: the events of `TaskManager` in their JSON form. File access runs in worker threads,
and several processes may share a file. Writes are idempotent, so replaying a session is safe.

`recorder` collects the facts, `table` stores them, `recorded` rebuilds tasks from them, and `writers` ends the tasks of
processes that died.
"""

import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Self, TypeVar

from claude_agent_py._base.errors import OptionsError, SessionError
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py._base.log import get_logger
from claude_agent_py._base.shared_sqlite import IN_MEMORY, SharedConnection, open_shared, transact
from claude_agent_py._base.streams import Polling
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py.tasks.history.recorded import RecordedTask, RecordedTree, apply, rebuild
from claude_agent_py.tasks.history.recorder import Recorder
from claude_agent_py.tasks.history.table import HAS_ENDED, LATEST, SCHEMA, VERSION, FactRow, put_rows, read_fact, select
from claude_agent_py.tasks.history.writers import Writers
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.wire.messages.tasks import TaskStatus

T = TypeVar("T")

logger: logging.Logger = get_logger(__name__)

POLL: Final = 0.2
"""Seconds between two checks of `follow` for new facts."""


class TaskHistory:
    """The tasks of many sessions. Use it as an async context manager, or call `open` and `close`.

    Every method raises SessionError if the file cannot be opened, read or written. An unreadable row (written by
    another program or a newer version) is skipped, logged and counted in `skipped_rows`. Lone surrogates, which UTF-8
    cannot encode, become U+FFFD.
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
        """Store all facts so far and close the file. Idempotent. Further use reopens it.

        Raises:
            SessionError: The facts could not be stored; the file is closed.
        """
        await run_to_its_end(self._end, name="claude_agent_py history")

    async def _end(self) -> None:
        try:
            await self._flush(is_last=True)
        finally:
            self._recorders = [each for each in self._recorders if each.is_in_use]
            await run_file_work(self._close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writing

    def attach(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> Callable[[TaskEvent], Any]:
        """Record all further events of a session's tasks, and the start and end of each earlier run.

        They are stored soon after they happen; `flush` stores them immediately. Call this while the session is open.
        Returns the listener, for `TaskManager.off`.

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
        """Store all facts so far, except those of a session whose id is not known yet."""
        await self._flush()

    async def _flush(self, *, is_last: bool = False) -> None:
        """Store the waiting facts. `is_last` includes those of sessions whose id is unknown."""
        self._leave_to_original()
        waiting = [(each, each.session_id) for each in self._recorders if each.waiting]
        ready = [(each, session_id or "") for each, session_id in waiting if session_id is not None or is_last]
        if ready:
            await run_file_work(self._store_all, ready)

    def _leave_to_original(self) -> None:
        """In a forked process, leave the facts of the sessions and the lock to the original."""
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
            for row in rows:
                if not _check_stored(cursor, recorder, row, session_id):
                    # A task keeps the session of its first row.
                    its_session = recorder.sessions.setdefault(row.task_id, session_id)
                    put_rows(cursor, its_session, [row], self._writers.own)
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
    ) -> list[RecordedTask]:
        """Return finished runs, latest first: each task as it was when the run ended, with its `outcome`.

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
        ends = f"SELECT session_id, task_id, run_id, number FROM facts WHERE {LATEST} AND {where}"  # noqa: S608 - see above

        def read(cursor: sqlite3.Cursor) -> list[RecordedTask]:
            rows = cursor.execute(f"{ends} ORDER BY ended_at DESC, task_id LIMIT ?", (*values, limit)).fetchall()
            return [task for row in rows if (task := self._rebuild_one(cursor, *row)) is not None]

        return await self._read(read)

    def _rebuild_one(
        self, cursor: sqlite3.Cursor, session_id: str, task_id: str, run_id: str, number: int
    ) -> RecordedTask | None:
        """Return a task at the end of a run, or None if the end cannot be read."""
        where = "session_id = ? AND task_id = ? AND (run_id IN (?, '') OR ? = '') AND number <= ?"
        task: RecordedTask | None = None
        last = 0
        for fact in self._parse_rows(select(cursor, where, (session_id, task_id, run_id, run_id, number))):
            task, last = apply(task, fact, session_id), fact.number
        return task if last == number else None

    async def records(self, session_id: str, task_id: str | None = None, *, after: int = 0) -> list[TaskEvent]:
        """Return the facts about a session's tasks, or one task, sorted by their number in the history.

        Args:
            session_id: The session.
            task_id: Only facts about this task.
            after: Only facts with a greater number.
        """
        where, values = _build_where([("session_id = ?", session_id), ("task_id = ?", task_id), ("number > ?", after)])
        return await self._read(lambda cursor: self._parse_rows(select(cursor, where, values)))

    def follow(
        self, session_id: str, task_id: str | None = None, *, after: int = 0, poll: float = POLL
    ) -> AsyncIterator[TaskEvent]:
        """Iterate over the facts about a session's tasks, or one task: the stored ones, then new ones. Never ends.

        Another process may be recording. To continue after a cancellation, pass the number of the last fact as
        `after`. Iterating raises SessionError if the file cannot be read.

        Args:
            session_id: The session, which may begin later.
            task_id: Only facts about this task.
            after: Only facts with a greater number.
            poll: Seconds between two checks of the file.

        Raises:
            OptionsError: `poll` is not positive.
        """
        if not poll > 0:
            raise OptionsError(f"must be positive, not {poll}", option="poll")

        async def read() -> Sequence[TaskEvent]:
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
            at: The number of a fact, to return the tree at that moment. None means the last fact.
        """
        facts = await self.records(session_id)
        with _convert_errors(self._path):
            return rebuild(session_id, (fact for fact in facts if at is None or fact.number <= at))

    async def sessions(self) -> list[str]:
        """Return the ids of the stored sessions."""
        names = "SELECT DISTINCT session_id FROM facts ORDER BY session_id"
        return await self._read(lambda cursor: [str(name) for (name,) in cursor.execute(names)])

    async def forget(self, *, before: float) -> int:
        """Delete the facts of each session before a time (in seconds since the epoch), and return how many runs ended.

        The facts of a session are deleted up to the first one at or after that time, so that the rest has no gaps. A
        run that ended later stays in `finished`, without the prompt of its start.
        """
        old = (
            "FROM facts WHERE NOT EXISTS (SELECT 1 FROM facts kept WHERE kept.at >= ?"
            " AND kept.session_id = facts.session_id AND kept.number <= facts.number)"
        )

        def drop(cursor: sqlite3.Cursor) -> int:
            (dropped,) = cursor.execute(f"SELECT count(*) {old} AND kind = 'task_finished'", (before,)).fetchone()
            cursor.execute(f"DELETE {old}", (before,))
            return int(dropped)

        return await self._run(drop)

    def _parse_rows(self, rows: Iterable[tuple[object, ...]]) -> list[TaskEvent]:
        """Return the facts in rows, skipping invalid ones."""
        found = []
        for row in rows:
            try:
                found.append(read_fact(*row))
            except ValueError as error:
                # `follow` reads an invalid row at the end repeatedly. Count it once.
                if hash(row) not in self._skipped:
                    self._skipped.add(hash(row))
                    self.skipped_rows += 1
                    logger.warning("skipped a fact of the history %s: %s", self._path, error)
        return found

    # The database

    async def _read(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        def read(cursor: sqlite3.Cursor) -> T:
            self._writers.end_dead_writers(cursor)
            return work(cursor)

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


def _check_stored(cursor: sqlite3.Cursor, recorder: Recorder, row: FactRow, session_id: str) -> bool:
    """Return whether an earlier process has stored the run. A resumed session reports its end without a run id."""
    if row.run_id:
        return False
    if row.task_id not in recorder.sessions:
        last = cursor.execute(HAS_ENDED, (session_id, row.task_id)).fetchone()
        if last is not None and last[0] is not None:
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
