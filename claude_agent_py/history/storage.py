"""The tables of a history, and the conversion between rows and values."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from typing import Any, Final

from msgspec import convert

from claude_agent_py._untrusted import read_json, without_surrogates
from claude_agent_py.history.records import FinishedTask, RecordKind, TaskRecord

_FINISHED_TABLE: Final = """
CREATE TABLE IF NOT EXISTS finished (
    session_id TEXT NOT NULL, task_id TEXT NOT NULL, status TEXT NOT NULL, run_id TEXT NOT NULL, type TEXT, agent TEXT,
    parent_task_id TEXT, description TEXT NOT NULL, prompt TEXT, summary TEXT NOT NULL, failure_reason TEXT,
    output_file TEXT, exit_code INTEGER, evidence TEXT NOT NULL, total_tokens REAL NOT NULL, tool_uses REAL NOT NULL,
    started_at REAL, ended_at REAL,
    PRIMARY KEY (session_id, task_id, run_id)
) WITHOUT ROWID
"""
_RECORDS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS records (
    key TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, task_id TEXT NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
    run_id TEXT, author TEXT NOT NULL, parent_task_id TEXT, summary TEXT NOT NULL, failure_reason TEXT,
    step INTEGER NOT NULL, details TEXT NOT NULL, status TEXT, number INTEGER NOT NULL, writer TEXT,
    PRIMARY KEY (session_id, number)
)
"""
_SESSIONS_TABLE: Final = "CREATE TABLE IF NOT EXISTS sessions (session_id TEXT PRIMARY KEY, last INTEGER NOT NULL)"
_WRITERS_TABLE: Final = "CREATE TABLE IF NOT EXISTS writers (writer TEXT PRIMARY KEY)"
SCHEMA: Final = (
    _FINISHED_TABLE,
    "CREATE INDEX IF NOT EXISTS finished_by_end ON finished (ended_at)",
    _RECORDS_TABLE,
    _SESSIONS_TABLE,
    "CREATE INDEX IF NOT EXISTS records_by_writer ON records (writer)",
    _WRITERS_TABLE,
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


UNKNOWN_WRITER: Final = "0" * 16
"""The name for processes that recorded before version 1; they are assumed to have ended."""


def migrate(cursor: sqlite3.Cursor, version: int) -> None:
    """Number the records of a version 0 file by session. Version 0 had one sequence for all sessions."""
    columns = [row[1] for row in cursor.execute("PRAGMA table_info(records)")]
    if not columns:
        return
    kept = ", ".join(name for name in columns if name in (*RECORD, "key") and name != "number")
    added = f"ROW_NUMBER() OVER (PARTITION BY session_id ORDER BY number), '{UNKNOWN_WRITER}'"
    for statement in (
        "ALTER TABLE records RENAME TO records_0",
        _RECORDS_TABLE,
        f"INSERT INTO records ({kept}, number, writer) SELECT {kept}, {added} FROM records_0",  # noqa: S608 - ours
        _SESSIONS_TABLE,
        "INSERT INTO sessions SELECT session_id, max(number) FROM records GROUP BY session_id",
        "DROP TABLE records_0",
        _WRITERS_TABLE,
        f"INSERT INTO writers VALUES ('{UNKNOWN_WRITER}')",  # noqa: S608 - ours
    ):
        cursor.execute(statement)


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


def read_finished(row: Sequence[Any]) -> FinishedTask:
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


def read_session_id(row: Sequence[Any]) -> str:
    """Return a session id. Raises ValueError if the id is not text."""
    return convert(row[0], str)


def _make_storable(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(without_surrogates(value) if isinstance(value, str) else value for value in values)
