"""The processes that record in a history, and cleaning up after crashed ones.

Each process locks a file next to the database and adds its name to the table `writers`. If the lock is released but the
name remains, the next user of the history ends the tasks that the process left running.
"""

import contextlib
import os
import re
import secrets
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from claude_agent_py._base.locks import lock_file
from claude_agent_py._journal.fact_base import MAIN
from claude_agent_py._journal.tasks.events import TaskFinished
from claude_agent_py._journal.tasks.outcome import EndedBy, TaskOutcome
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.tasks.history.recorded import RecordedTask, apply
from claude_agent_py.tasks.history.table import build_row, put_rows, read_fact, select

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
    with suppress(OSError):
        for _ in range(_ATTEMPTS):  # pragma: no branch - that many others would have to come in between
            with suppress(FileNotFoundError):  # another process has removed the empty directory since
                path.parent.mkdir(mode=0o700, exist_ok=True)
                return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
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


PROCESS_ENDED: Final = "the process that recorded it has ended"
"""The failure reason of a task that was running when its recording process ended."""

_NAME: Final = re.compile("[0-9a-f]{16}")


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
    sessions = cursor.execute("SELECT DISTINCT session_id FROM facts WHERE writer = ?", (writer,)).fetchall()
    for (session_id,) in sessions:
        tasks: dict[str, RecordedTask] = {}
        writers: dict[str, str | None] = {}
        for number, line, its_writer in select(cursor, "session_id = ?", (session_id,), ", writer"):
            with suppress(ValueError):  # reading the facts reports an unreadable row
                fact = read_fact(number, line)
                tasks[fact.task_id], writers[fact.task_id] = (
                    apply(tasks.get(fact.task_id), fact, session_id),
                    its_writer,
                )
        left = [task for task in tasks.values() if writers[task.id] == writer and not task.status.is_terminal]
        rows = [build_row(_build_end(task), writer, task.subagent_type) for task in left]
        put_rows(cursor, session_id, rows, None)
    cursor.execute("DELETE FROM writers WHERE writer = ?", (writer,))


def _build_end(task: RecordedTask) -> TaskFinished:
    now = time.time()
    outcome = TaskOutcome(
        task.id,
        EndedBy.PROCESS.status,
        Evidence.PROCESS_EXIT,
        failure_reason=PROCESS_ENDED,
        output_file=task.output_file,
        usage=task.usage,
        run_id=task.run_id,
        started_at=task.created_at,
        ended_at=now,
        description=task.description,
        ended_by=EndedBy.PROCESS,
    )
    return TaskFinished(
        at=now, agent=task.parent_id or MAIN, id=task.run, task_id=task.id, run_id=task.run_id, outcome=outcome
    )
