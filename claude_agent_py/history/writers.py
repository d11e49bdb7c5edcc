"""The processes that record in a history, and cleaning up after crashed ones.

Each process locks a file next to the database and adds its name to the table `writers`. If the lock is released but the
name remains, the next user of the history ends the tasks that the process left running.
"""

import os
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from claude_agent_py.history.liveness import create_lock_file, is_alive, release_lock_file, remove_lock_file
from claude_agent_py.history.rebuild import apply_record
from claude_agent_py.history.records import FinishedTask, RecordedTask, RecordKind, TaskRecord
from claude_agent_py.history.storage import (
    ADD_FINISHED,
    RECORD,
    encode_finished,
    encode_record,
    put_records,
    read_record,
)
from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.tasks.outcome import EndedBy, TaskOutcome
from claude_agent_py.wire.messages.tasks import TaskStatus

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

    def join(self, cursor: sqlite3.Cursor) -> None:
        """Add this process. Idempotent."""
        if self.own is None and self._path is not None:
            name = secrets.token_hex(8)
            self._descriptor = create_lock_file(self._lock_path(name))
            if self._descriptor is not None:
                self.own = name
                cursor.execute("INSERT INTO writers VALUES (?)", (name,))

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
