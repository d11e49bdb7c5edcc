"""The processes that record in a history, and the end of the tasks of those that die.

Each keeps a locked file beside the database, with its name in the table `writers`. If a lock was released but the name
is still there, the next user of the history ends the tasks that the process left running.
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

from claude_agent_py.history.liveness import end_sign, give_sign, is_alive, remove
from claude_agent_py.history.rebuild import fold
from claude_agent_py.history.records import FinishedTask, RecordedTask, RecordKind, TaskRecord
from claude_agent_py.history.storage import ADD_FINISHED, RECORD, finished_row, put_records, read_record, record_row
from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.tasks.outcome import EndedBy, TaskOutcome
from claude_agent_py.wire.messages.tasks import TaskStatus

PROCESS_ENDED: Final = "the process that recorded it has ended"
"""The reason of a task that was running when its recording process ended."""

_NAME: Final = re.compile("[0-9a-f]{16}")
_OF_SESSION: Final = f"SELECT {', '.join(RECORD)}, writer FROM records WHERE session_id = ? ORDER BY number"  # noqa: S608


class Writers:
    """The processes that record in one file. The methods run in a transaction of the caller.

    Args:
        path: The file, or None for a history in memory, which has one process.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._sign: int | None = None
        """The locked file of this process."""
        self.own: str | None = None
        """The name of this process; None if it does not record or cannot show a sign of life."""

    def join(self, cursor: sqlite3.Cursor) -> None:
        """Add this process. Idempotent."""
        if self.own is None and self._path is not None:
            name = secrets.token_hex(8)
            self._sign = give_sign(self._sign_of(name))
            if self._sign is not None:
                self.own = name
                cursor.execute("INSERT INTO writers VALUES (?)", (name,))

    def leave(self, cursor: sqlite3.Cursor) -> None:
        """Remove this process, after its tasks have ended."""
        own, self.own = self.own, None
        if own is None or self._sign is None:
            return
        try:
            cursor.execute("DELETE FROM writers WHERE writer = ?", (own,))
        finally:
            end_sign(self._sign_of(own), self._sign)

    def end_dead(self, cursor: sqlite3.Cursor) -> None:
        """End the tasks of processes that died. If the file cannot be written, another reader will do it."""
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
            _end_tasks_of(cursor, writer)
            remove(self._sign_of(writer))

    def _is_dead(self, writer: object) -> bool:
        """Return whether a writer's process has ended. False for invalid names, which might be any path."""
        return isinstance(writer, str) and _NAME.fullmatch(writer) is not None and not is_alive(self._sign_of(writer))

    def _sign_of(self, writer: str) -> Path:
        return Path(f"{os.path.realpath(self._path or '')}-writers", writer)


def _end_tasks_of(cursor: sqlite3.Cursor, writer: str) -> None:
    sessions = cursor.execute("SELECT DISTINCT session_id FROM records WHERE writer = ?", (writer,)).fetchall()
    for (session_id,) in sessions:
        for record, finished in _ends(cursor.execute(_OF_SESSION, (session_id,)).fetchall(), writer):
            put_records(cursor, [record_row(record)], None)
            cursor.execute(ADD_FINISHED, finished_row(finished))
    cursor.execute("DELETE FROM writers WHERE writer = ?", (writer,))


def _ends(rows: list[tuple[object, ...]], writer: str) -> Iterator[tuple[TaskRecord, FinishedTask]]:
    """Yield ends for a session's tasks that a process left running."""
    tasks: dict[str, RecordedTask] = {}
    writers: dict[str, object] = {}
    cancelled: Counter[tuple[str, str | None]] = Counter()
    session_id = ""
    for *row, its_writer in rows:
        with suppress(ValueError):  # an unreadable row is reported when it is requested
            record = read_record(row)
            tasks[record.task_id] = fold(tasks.get(record.task_id), record)
            writers[record.task_id], session_id = its_writer, record.session_id
            cancelled[record.task_id, record.run_id] += record.kind is RecordKind.CANCELLED
    for task in tasks.values():
        if writers[task.id] == writer and not task.status.is_terminal:
            yield _end_of(task, session_id, step=cancelled[task.id, task.run_id])


def _end_of(task: RecordedTask, session_id: str, step: int) -> tuple[TaskRecord, FinishedTask]:
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
