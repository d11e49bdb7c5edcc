"""The tables of a history, the processes that record in it, and cleaning up after crashed ones.

Each process locks a file next to the database and adds its name to the table `writers`. If the lock is released but the
name remains, the next user of the history ends the tasks that the process left running.
"""

import contextlib
import json
import os
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Final

from msgspec import convert

from claude_agent_py._base.bounded_reading import read_json, without_surrogates
from claude_agent_py._base.locks import lock_file
from claude_agent_py._journal.tasks.outcome import EndedBy, TaskOutcome
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.history.records import FinishedTask, RecordedTask, RecordKind, TaskRecord, apply_record
from claude_agent_py.wire.messages.tasks import TaskStatus

_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
_ATTEMPTS: Final = 100


def create_lock_file(path: Path) -> int | None:
    """Create and lock a new file. Return its descriptor, or None if the file cannot be created or locked.

    Each process holds such a lock for as long as it lives: the operating system releases it when the process ends for
    any reason. (On POSIX, forks of the process without `exec` must also have ended.)
    """
    descriptor = _create(path)
    if descriptor is not None:
        try:
            lock_file(descriptor)
        except OSError:
            release_lock_file(path, descriptor)
            return None
    return descriptor


def release_lock_file(path: Path, descriptor: int) -> None:
    """Unlock the file and delete it."""
    os.close(descriptor)
    remove_lock_file(path)


def _create(path: Path) -> int | None:
    for _ in range(_ATTEMPTS):
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            # Another process has removed the empty directory since.
            continue
        except OSError:
            return None
    return None


def is_alive(path: Path) -> bool:
    """Return whether the process that locked a file is alive. A missing file means that the process has ended."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return False
    except OSError:
        # The file is unreadable, so nothing is known about the process. Do not end the tasks of a live one.
        return True
    try:
        lock_file(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_lock_file(path: Path) -> None:
    """Delete the file of a process that has ended, and the directory if it is empty."""
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()


SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS finished (
        session_id TEXT NOT NULL, task_id TEXT NOT NULL, status TEXT NOT NULL, run_id TEXT NOT NULL, type TEXT,
        agent TEXT, parent_task_id TEXT, description TEXT NOT NULL, prompt TEXT, summary TEXT NOT NULL,
        failure_reason TEXT, output_file TEXT, exit_code INTEGER, evidence TEXT NOT NULL, total_tokens REAL NOT NULL,
        tool_uses REAL NOT NULL, started_at REAL, ended_at REAL,
        PRIMARY KEY (session_id, task_id, run_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS finished_by_end ON finished (ended_at)",
    """CREATE TABLE IF NOT EXISTS records (
        key TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, task_id TEXT NOT NULL, kind TEXT NOT NULL,
        at REAL NOT NULL, run_id TEXT, author TEXT NOT NULL, parent_task_id TEXT, summary TEXT NOT NULL,
        failure_reason TEXT, step INTEGER NOT NULL, details TEXT NOT NULL, status TEXT, number INTEGER NOT NULL,
        writer TEXT,
        PRIMARY KEY (session_id, number)
    )""",
    "CREATE TABLE IF NOT EXISTS sessions (session_id TEXT PRIMARY KEY, last INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS records_by_writer ON records (writer)",
    "CREATE TABLE IF NOT EXISTS writers (writer TEXT PRIMARY KEY)",
)
"""`sessions.last` is the number of the last record; `writers` contains the processes that are recording."""
VERSION: Final = 1
FINISHED: Final = tuple(field.name for field in fields(FinishedTask))
RECORD: Final = tuple(field.name for field in fields(TaskRecord))


def _build_insert(verb: str, table: str, columns: Sequence[str]) -> str:
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    return f"INSERT OR {verb} INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - names of ours, values are bound


PUT_FINISHED: Final = _build_insert("REPLACE", "finished", FINISHED)
ADD_FINISHED: Final = _build_insert("IGNORE", "finished", FINISHED)
LAST_STATUS: Final = (
    "SELECT status FROM records WHERE session_id = ? AND task_id = ? AND run_id IS NOT NULL"
    " ORDER BY number DESC LIMIT 1"
)
"""The last status of a task with a known run id."""
_PUT_RECORD: Final = _build_insert("IGNORE", "records", ("key", *RECORD, "writer"))


def put_records(cursor: sqlite3.Cursor, rows: Sequence[dict[str, Any]], writer: str | None) -> None:
    """Store records with the next numbers of their sessions. Records that are already stored keep their numbers."""
    if not cursor.connection.in_transaction:
        # Lock the file, so that no other process assigns the same numbers.
        cursor.execute("BEGIN IMMEDIATE")
    for row in rows:
        if not _put_record(cursor, row, writer) and row["kind"] == RecordKind.CREATED:
            _put_changes(cursor, row, writer)


def _put_record(cursor: sqlite3.Cursor, row: dict[str, Any], writer: str | None) -> bool:
    session_id = row["session_id"]
    cursor.execute("INSERT OR IGNORE INTO sessions VALUES (?, 0)", (session_id,))
    (last,) = cursor.execute("SELECT last FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    cursor.execute(_PUT_RECORD, [*(row | {"number": last + 1}).values(), writer])
    if cursor.rowcount != 1:
        return False
    cursor.execute("UPDATE sessions SET last = ? WHERE session_id = ?", (last + 1, session_id))
    return True


def _put_changes(cursor: sqlite3.Cursor, row: dict[str, Any], writer: str | None) -> None:
    """Store the changes of a task that another process created.

    Skips a task without a run id: of such a task, this process knows only the end.
    """
    if row["run_id"] is None:
        return
    stored = cursor.execute("SELECT details FROM records WHERE key = ?", (row["key"],)).fetchone()
    if stored is not None and stored[0] != row["details"]:
        key = "\x1f".join((row["key"], row["run_id"] or ""))
        _put_record(cursor, row | {"key": key, "kind": RecordKind.CHANGED.value}, writer)


def encode_finished(task: FinishedTask) -> tuple[Any, ...]:
    """Return the row of a finished run."""
    values = dict(zip(FINISHED, astuple(task), strict=True))
    return _make_storable((values | {"status": task.status.value, "run_id": task.run_id or ""}).values())


def read_finished(row: Sequence[object]) -> FinishedTask:
    """Return a finished run. Raises ValueError if the row is invalid."""
    values = dict(zip(FINISHED, row, strict=True))
    # SQLite does not check types, so convert the values.
    return convert(values | {"run_id": values["run_id"] or None}, FinishedTask)


def encode_record(record: TaskRecord) -> dict[str, Any]:
    """Return the row of a record, by column. `put_records` assigns the number."""
    values = {name: getattr(record, name) for name in RECORD}
    words = {"kind": record.kind.value, "status": None if record.status is None else record.status.value}
    values |= words | {"details": json.dumps(dict(record.details), ensure_ascii=False)}
    row = {"key": record.key} | values
    return dict(zip(row, _make_storable(row.values()), strict=True))


def read_record(row: Sequence[Any]) -> TaskRecord:
    """Return a record. Raises ValueError if the row is invalid."""
    values = dict(zip(RECORD, row, strict=True))
    return convert(values | {"details": read_json(values["details"])}, TaskRecord)


def read_session_id(row: Sequence[object]) -> str:
    """Return a session id. Raises ValueError if the id is not text."""
    return convert(row[0], str)


def _make_storable(values: Iterable[object]) -> tuple[object, ...]:
    return tuple(without_surrogates(value) if isinstance(value, str) else value for value in values)


PROCESS_ENDED: Final = "the process that recorded it has ended"
"""The failure reason of a task that was running when its recording process ended."""

_NAME: Final = re.compile("[0-9a-f]{16}")
_OF_SESSION: Final = f"SELECT {', '.join(RECORD)}, writer FROM records WHERE session_id = ? ORDER BY number"  # noqa: S608


class Writers:
    """The processes that record in one file. The methods run in a transaction of the caller.

    Args:
        path: The file, or None for a history in memory, which has one process.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._descriptor: int | None = None
        """The locked file of this process."""
        self.own: str | None = None
        """The name of this process; None if the process does not record or cannot lock a file."""

    def forget(self) -> None:
        """Forget the name and the lock, which belong to the process that this one was forked from."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self.own = self._descriptor = None

    def join(self, cursor: sqlite3.Cursor) -> None:
        """Register this process as a writer of the history. Idempotent."""
        if self.own is not None or self._path is None:
            return
        name = secrets.token_hex(8)
        descriptor = create_lock_file(self._lock_path(name))
        if descriptor is None:
            return
        try:
            cursor.execute("INSERT INTO writers VALUES (?)", (name,))
            cursor.connection.commit()
        except BaseException:
            release_lock_file(self._lock_path(name), descriptor)
            raise
        self.own = name
        self._descriptor = descriptor

    def leave(self, cursor: sqlite3.Cursor) -> None:
        """Remove this process. Call this after its tasks have ended."""
        own = self.own
        self.own = None
        if own is None or self._descriptor is None:
            return
        try:
            cursor.execute("DELETE FROM writers WHERE writer = ?", (own,))
        finally:
            release_lock_file(self._lock_path(own), self._descriptor)
            self._descriptor = None

    def end_dead_writers(self, cursor: sqlite3.Cursor) -> None:
        """End the tasks of processes that died. Leaves this to another reader if the file is read-only."""
        writers = [name for (name,) in cursor.execute("SELECT writer FROM writers")]
        dead = [name for name in writers if name != self.own and self._is_dead(name)]
        if not dead:
            return
        try:
            cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_READONLY:
                raise
            return
        for writer in dead:
            _end_tasks(cursor, writer)
            remove_lock_file(self._lock_path(writer))

    def _is_dead(self, writer: object) -> bool:
        """Return whether a writer's process has ended. False for an invalid name, which could be any path."""
        return isinstance(writer, str) and _NAME.fullmatch(writer) is not None and not is_alive(self._lock_path(writer))

    def _lock_path(self, writer: str) -> Path:
        return Path(f"{os.path.realpath(self._path or '')}-writers", writer)


def _end_tasks(cursor: sqlite3.Cursor, writer: str) -> None:
    sessions = cursor.execute("SELECT DISTINCT session_id FROM records WHERE writer = ?", (writer,)).fetchall()
    for (session_id,) in sessions:
        for record, finished in _iter_missing_ends(cursor.execute(_OF_SESSION, (session_id,)).fetchall(), writer):
            put_records(cursor, [encode_record(record)], None)
            cursor.execute(ADD_FINISHED, encode_finished(finished))
    cursor.execute("DELETE FROM writers WHERE writer = ?", (writer,))


def _iter_missing_ends(rows: list[tuple[object, ...]], writer: str) -> Iterator[tuple[TaskRecord, FinishedTask]]:
    """Yield the ends of a session's tasks that a process left running."""
    tasks: dict[str, RecordedTask] = {}
    writers: dict[str, object] = {}
    cancelled: Counter[tuple[str, str | None]] = Counter()
    session_id = ""
    for *row, its_writer in rows:
        # Reading the records reports an unreadable row.
        with suppress(ValueError):
            record = read_record(row)
            tasks[record.task_id] = apply_record(tasks.get(record.task_id), record)
            writers[record.task_id] = its_writer
            session_id = record.session_id
            cancelled[record.task_id, record.run_id] += record.kind is RecordKind.CANCELLED
    for task in tasks.values():
        if writers[task.id] == writer and not task.status.is_terminal:
            yield _build_end(task, session_id, step=cancelled[task.id, task.run_id])


def _build_end(task: RecordedTask, session_id: str, step: int) -> tuple[TaskRecord, FinishedTask]:
    now = time.time()
    record = TaskRecord(
        session_id,
        task.id,
        RecordKind.CANCELLED,
        now,
        run_id=task.run_id,
        parent_task_id=task.parent_id,
        failure_reason=PROCESS_ENDED,
        step=step,
        details={"by": EndedBy.PROCESS.value, "evidence": Evidence.PROCESS_EXIT.value},
        status=TaskStatus.STOPPED,
    )
    outcome = TaskOutcome(
        task.id,
        TaskStatus.STOPPED,
        Evidence.PROCESS_EXIT,
        failure_reason=PROCESS_ENDED,
        output_file=task.output_file,
        usage=task.usage,
        run_id=task.run_id,
        started_at=task.created_at,
        ended_at=now,
    )
    return record, FinishedTask.of(task, outcome, session_id)
