"""A history of tasks across sessions, in an SQLite file.

File access runs in worker threads, and several processes may share a file. Writes are idempotent, so a session can be
replayed.
"""

import json
import logging
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields, replace
from typing import Any, Final, Self, TypeVar

import anyio
from msgspec import convert

from claude_agent_py._event_loop import run_file_work
from claude_agent_py._shared_sqlite import open_shared, transact
from claude_agent_py._untrusted import read_json, without_surrogates
from claude_agent_py.errors import OptionsError, SessionError
from claude_agent_py.history.rebuild import RecordedTree, rebuild
from claude_agent_py.history.records import FinishedTask, TaskRecord, records_of
from claude_agent_py.tasks.events import TaskEvent, TaskFinished, TaskRevised
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.wire.messages.tasks import TaskStatus

T = TypeVar("T")

logger: logging.Logger = logging.getLogger(__name__)

_SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS finished (
    session_id TEXT NOT NULL, task_id TEXT NOT NULL, status TEXT NOT NULL, run_id TEXT NOT NULL, type TEXT, agent TEXT,
    parent_task_id TEXT, description TEXT NOT NULL, prompt TEXT, summary TEXT NOT NULL, failure_reason TEXT,
    output_file TEXT, exit_code INTEGER, evidence TEXT NOT NULL, total_tokens REAL NOT NULL, tool_uses REAL NOT NULL,
    started_at REAL, ended_at REAL,
    PRIMARY KEY (session_id, task_id, run_id)
) WITHOUT ROWID
""",
    "CREATE INDEX IF NOT EXISTS finished_by_end ON finished (ended_at)",
    """
CREATE TABLE IF NOT EXISTS records (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, task_id TEXT NOT NULL,
    kind TEXT NOT NULL, at REAL NOT NULL, run_id TEXT, author TEXT NOT NULL, parent_task_id TEXT, summary TEXT NOT NULL,
    failure_reason TEXT, step INTEGER NOT NULL, details TEXT NOT NULL
)
""",
    "CREATE INDEX IF NOT EXISTS records_by_session ON records (session_id, number)",
)
_FINISHED: Final = tuple(field.name for field in fields(FinishedTask))
_RECORD: Final = tuple(field.name for field in fields(TaskRecord))


def _insert(verb: str, table: str, columns: Sequence[str]) -> str:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    return f"INSERT OR {verb} INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - names of ours, values are bound


_PUT_FINISHED: Final = _insert("REPLACE", "finished", _FINISHED)
_PUT_RECORD: Final = _insert("IGNORE", "records", ("key", *_RECORD))


class TaskHistory:
    """The tasks of many sessions. Use it as an async context manager, or call `open` and `close`.

    Every method raises SessionError if the file cannot be opened, read or written, or a value cannot be stored. A row
    that cannot be read (another program wrote it, or a newer version) is skipped, logged and counted in `skipped_rows`.
    Lone surrogates, which a file cannot hold, become U+FFFD.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make a history.

        Args:
            path: The SQLite file, created if missing; `:memory:` keeps everything in memory.
        """
        self._path = os.fspath(path)
        self._connection: sqlite3.Connection | None = None
        self.skipped_rows: int = 0
        """How many rows were skipped so far."""
        self._lock = threading.Lock()

    async def open(self) -> Self:
        """Open the file. Idempotent; other methods do it on first use."""
        await self._run(lambda cursor: None)
        return self

    async def close(self) -> None:
        """Close the file. Idempotent; further use opens it again."""
        with anyio.CancelScope(shield=True):
            await run_file_work(self._close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writing

    async def add(self, *tasks: FinishedTask) -> None:
        """Store finished runs. A run that is already stored is replaced."""
        with _typed_errors(self._path):
            rows = [_as_row(task) for task in tasks]
        await self._run(lambda cursor: cursor.executemany(_PUT_FINISHED, rows))

    async def record(self, *records: TaskRecord) -> None:
        """Store steps. A step that is already stored is kept unchanged."""
        with _typed_errors(self._path):
            rows = [_as_record_row(record) for record in records]
        await self._run(lambda cursor: cursor.executemany(_PUT_RECORD, rows))

    def attach(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> Callable[[TaskEvent], Any]:
        """Store all further task events of a session, and the start and end of each earlier run.

        Returns the listener, for `TaskManager.off`. Call it while the session is open.

        Args:
            manager: The tasks of the session, `client.tasks`.
            session_id: The session's id, or a function that returns it once it is known.
        """
        seen: Counter[str] = Counter()

        async def keep(event: TaskEvent) -> None:
            session = (session_id() if callable(session_id) else session_id) or ""
            task = manager[event.task_id]
            for record in records_of(event, task, session):
                # Counted here, so that replaying a session yields the same keys.
                await self.record(replace(record, step=seen[record.key]))
                seen[record.key] += 1
            if isinstance(event, TaskFinished | TaskRevised):
                await self.add(FinishedTask.of(task, event.outcome, session))

        manager.on(keep)
        manager.catch_up(keep)
        return keep

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
        """Return runs that are over, the latest first.

        Args:
            session_id: Only of this session.
            agent: Only of this agent definition.
            status: Only with this status, or one of these.
            task_id: Only of this task.
            since: Only those that ended at this time or later, in seconds since the epoch.
            until: Only those that ended before this time.
            limit: At most so many.
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
            _FINISHED, f"finished WHERE {where} ORDER BY ended_at DESC, task_id LIMIT ?", *values, limit
        )
        return self._understood("finished", _as_finished, rows)

    async def records(self, session_id: str, task_id: str | None = None) -> list[TaskRecord]:
        """Return the steps in the lives of a session's tasks (or of one), in the order in which they were stored."""
        where, values = _conditions([("session_id = ?", session_id), ("task_id = ?", task_id)])
        rows = await self._select(_RECORD, f"records WHERE {where} ORDER BY number", *values)
        return self._understood("records", _as_record, rows)

    async def tree(self, session_id: str) -> dict[str | None, list[str]]:
        """Return the tree of a session: the ids of the children by the id of the parent, the roots under None."""
        rebuilt = await self.rebuild(session_id)
        known = {task.id for task in rebuilt.walk()}
        children: dict[str | None, list[str]] = {}
        for task in rebuilt.walk():
            children.setdefault(task.parent_id if task.parent_id in known else None, []).append(task.id)
        return children

    async def rebuild(self, session_id: str) -> RecordedTree:
        """Return the tasks of a session as a tree, each as it was at its last step. `print()` draws it."""
        records = await self.records(session_id)
        with _typed_errors(self._path):
            return rebuild(records)

    async def sessions(self) -> list[str]:
        """Return the ids of the stored sessions."""
        both = "(SELECT session_id FROM finished UNION SELECT session_id FROM records) ORDER BY session_id"
        return self._understood("sessions", _as_session_id, await self._select(("session_id",), both))

    async def forget(self, *, before: float) -> int:
        """Delete everything that ended before a time (seconds since the epoch). Returns the number of deleted runs."""

        def drop(cursor: sqlite3.Cursor) -> int:
            dropped = cursor.execute("DELETE FROM finished WHERE ended_at < ?", (before,)).rowcount
            cursor.execute("DELETE FROM records WHERE at < ?", (before,))
            return dropped

        return await self._run(drop)

    def _understood(self, table: str, read: Callable[[Sequence[Any]], T], rows: Sequence[Sequence[Any]]) -> list[T]:
        """Parse rows, skipping invalid ones."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except ValueError as error:
                self.skipped_rows += 1
                logger.warning("skipped a row of %s in the history %s: %s", table, self._path, error)
        return found

    # The database

    async def _select(self, columns: Sequence[str], rest: str, *values: Any) -> list[tuple[Any, ...]]:
        query = f"SELECT {', '.join(columns)} FROM {rest}"  # noqa: S608 - text of ours, values are bound
        return await self._run(lambda cursor: cursor.execute(query, values).fetchall())

    async def _run(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        return await run_file_work(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        with self._lock, _typed_errors(self._path):
            if self._connection is None:
                self._connection = open_shared(self._path, _SCHEMA)
                self._connection.text_factory = _as_text
            return transact(self._connection, work)

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


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


def _as_row(task: FinishedTask) -> tuple[Any, ...]:
    values = dict(zip(_FINISHED, astuple(task), strict=True))
    return _storable((values | {"status": task.status.value, "run_id": task.run_id or ""}).values())


def _as_finished(row: Sequence[Any]) -> FinishedTask:
    values = dict(zip(_FINISHED, row, strict=True))
    return convert(values | {"run_id": values["run_id"] or None}, FinishedTask)  # SQLite does not check types


def _as_record_row(record: TaskRecord) -> tuple[Any, ...]:
    values = {name: getattr(record, name) for name in _RECORD}
    details = json.dumps(dict(record.details), ensure_ascii=False)
    return _storable((record.key, *(values | {"kind": record.kind.value, "details": details}).values()))


def _as_record(row: Sequence[Any]) -> TaskRecord:
    values = dict(zip(_RECORD, row, strict=True))
    return convert(values | {"details": read_json(values["details"])}, TaskRecord)


def _as_session_id(row: Sequence[Any]) -> str:
    return convert(row[0], str)


def _storable(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(without_surrogates(value) if isinstance(value, str) else value for value in values)
