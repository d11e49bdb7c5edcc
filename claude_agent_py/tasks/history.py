"""A history of tasks over sessions, in an SQLite file.

Owns the database: its tables, what goes in, and the questions that a service asks ("what ran yesterday?", "what did
this agent fail at?"). All of it runs in worker threads, one statement at a time, so that the event loop never waits
for a disk. Several processes may share a file. Writing the same thing twice leaves one row, so that a replay of a
session does no harm. The values are in `record`.
"""

import json
import logging
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields, replace
from typing import Any, Final, Self, TypeVar, get_type_hints

import anyio

from claude_agent_py.errors import OptionsError, SessionError
from claude_agent_py.event_loop import run_file_work
from claude_agent_py.shared_sqlite import open_shared, transact
from claude_agent_py.tasks.events import TaskEvent, TaskFinished, TaskRevised
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.rebuild import RecordedTree, rebuild
from claude_agent_py.tasks.record import FinishedTask, RecordKind, TaskRecord, records_of
from claude_agent_py.untrusted import read_json, without_surrogates
from claude_agent_py.wire.tasks import TaskStatus

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

    Every method raises SessionError where the file cannot be opened, read or written, or a value cannot be kept. A row
    that cannot be understood (another program wrote it, or a newer version) is left out, logged and counted in
    `skipped_rows`. Half characters, which a file cannot hold, become U+FFFD.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make a history.

        Args:
            path: The SQLite file, made if it is missing; `:memory:` keeps everything in memory.
        """
        self._path = os.fspath(path)
        self._connection: sqlite3.Connection | None = None
        self.skipped_rows: int = 0
        """How many rows were left out so far, because they cannot be understood."""
        self._lock = threading.Lock()

    async def open(self) -> Self:
        """Open the file. Idempotent; the other methods do it on first use."""
        await self._run(lambda cursor: None)
        return self

    async def close(self) -> None:
        """Close the file. Idempotent; afterwards it is opened again on use."""
        with anyio.CancelScope(shield=True):
            await run_file_work(self._close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writing

    async def add(self, *tasks: FinishedTask) -> None:
        """Keep runs of tasks that are over. A run that is known is replaced: what came later is better."""
        with _typed_errors(self._path):
            rows = [_as_row(task) for task in tasks]
        await self._run(lambda cursor: cursor.executemany(_PUT_FINISHED, rows))

    async def record(self, *records: TaskRecord) -> None:
        """Keep steps in the lives of tasks. A step that is known is left as it is."""
        with _typed_errors(self._path):
            rows = [_as_record_row(record) for record in records]
        await self._run(lambda cursor: cursor.executemany(_PUT_RECORD, rows))

    def attach(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> Callable[[TaskEvent], Any]:
        """Keep everything that happens in a session, what was there before included. Gives the listener, for `off`.

        Of the past it keeps the start and the end of each run. To be called while the session is open.

        Args:
            manager: The tasks of the session, `client.tasks`.
            session_id: The session's id, or a function that gives it once it is known.
        """
        seen: Counter[str] = Counter()

        async def keep(event: TaskEvent) -> None:
            session = (session_id() if callable(session_id) else session_id) or ""
            task = manager[event.task_id]
            for record in records_of(event, task, session):
                # Numbered by what was seen here, so that the same session replayed gives the same keys.
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
        """Give runs that are over, the latest first.

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
        """Give the steps in the lives of the tasks of a session (of one task), in the order in which they were kept."""
        where, values = _conditions([("session_id = ?", session_id), ("task_id = ?", task_id)])
        rows = await self._select(_RECORD, f"records WHERE {where} ORDER BY number", *values)
        return self._understood("records", _as_record, rows)

    async def tree(self, session_id: str) -> dict[str | None, list[str]]:
        """Give the tree of a session: the ids of the children by the id of the parent, the roots under None."""
        rebuilt = await self.rebuild(session_id)
        known = {task.id for task in rebuilt.walk()}
        children: dict[str | None, list[str]] = {}
        for task in rebuilt.walk():
            children.setdefault(task.parent_id if task.parent_id in known else None, []).append(task.id)
        return children

    async def rebuild(self, session_id: str) -> RecordedTree:
        """Give the tasks of a session as a tree, each as it was at its last step: `print()` draws it."""
        records = await self.records(session_id)
        with _typed_errors(self._path):
            return rebuild(records)

    async def sessions(self) -> list[str]:
        """Give the ids of the sessions of which something is kept."""
        both = "(SELECT session_id FROM finished UNION SELECT session_id FROM records) ORDER BY session_id"
        return self._understood("sessions", _as_session_id, await self._select(("session_id",), both))

    async def forget(self, *, before: float) -> int:
        """Drop what ended before a time (seconds since the epoch). Gives the number of runs dropped."""

        def drop(cursor: sqlite3.Cursor) -> int:
            dropped = cursor.execute("DELETE FROM finished WHERE ended_at < ?", (before,)).rowcount
            cursor.execute("DELETE FROM records WHERE at < ?", (before,))
            return dropped

        return await self._run(drop)

    def _understood(self, table: str, read: Callable[[Sequence[Any]], T], rows: Sequence[Sequence[Any]]) -> list[T]:
        """Read rows, and leave out those that cannot be read."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except ValueError as error:
                self.skipped_rows += 1
                logger.warning("a row of %s in the history %s is left out: %s", table, self._path, error)
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
        raise SessionError(f"the history {path} cannot be used: {error}") from error


def _status(word: TaskStatus | str) -> TaskStatus:
    status = TaskStatus.read(word)
    if status is None:
        raise OptionsError(f"there is no status {word!r}; there are {', '.join(TaskStatus)}", option="status")
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
    values = _checked(FinishedTask, dict(zip(_FINISHED, row, strict=True)), {"status": TaskStatus})
    return FinishedTask(**(values | {"run_id": values["run_id"] or None}))


def _as_record_row(record: TaskRecord) -> tuple[Any, ...]:
    values = {name: getattr(record, name) for name in _RECORD}
    details = json.dumps(dict(record.details), ensure_ascii=False)
    return _storable((record.key, *(values | {"kind": record.kind.value, "details": details}).values()))


def _as_record(row: Sequence[Any]) -> TaskRecord:
    values = dict(zip(_RECORD, row, strict=True))
    return TaskRecord(**_checked(TaskRecord, values, {"kind": RecordKind, "details": _as_details}))


def _as_session_id(row: Sequence[Any]) -> str:
    return str(_checked(TaskRecord, {"session_id": row[0]}, {})["session_id"])


def _as_details(text: str) -> Mapping[str, Any]:
    details = read_json(text)
    if not isinstance(details, dict):
        raise ValueError("it is no object")
    return details


def _storable(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(without_surrogates(value) if isinstance(value, str) else value for value in values)


def _checked(kind: type, values: dict[str, Any], readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Check the types of a row, of which SQLite promises nothing. Raises ValueError."""
    hints = get_type_hints(kind)
    checked: dict[str, Any] = {}
    for name, value in values.items():
        wanted = str if name in readers else hints[name]
        if not isinstance(value, wanted) and not (isinstance(value, int) and isinstance(0.0, wanted)):
            raise ValueError(f"{name} is {type(value).__name__}")
        try:
            checked[name] = readers[name](str(value)) if name in readers else value
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return checked
