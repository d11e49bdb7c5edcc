"""`SQLiteStore`: sessions in an SQLite file, for several processes of one machine."""

import contextlib
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.shared_sqlite import open_shared, transact
from claude_agent_py._base.thread_locks import ThreadLock
from claude_agent_py.sessions.stores.base import ChangeLease, Row, SummarisingStore, update_summary
from claude_agent_py.sessions.stores.protocol import LeaseState, Place, check_epoch

T = TypeVar("T")

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE entries (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            project TEXT NOT NULL, session TEXT NOT NULL, subpath TEXT NOT NULL,
            uuid TEXT, entry TEXT NOT NULL
        )""",
        "CREATE INDEX entries_by_key ON entries (session, project, subpath, number)",
        "CREATE UNIQUE INDEX entries_by_uuid ON entries (session, project, subpath, uuid) WHERE uuid IS NOT NULL",
        """CREATE TABLE sessions (
            project TEXT NOT NULL, session TEXT NOT NULL, mtime INTEGER NOT NULL, summary TEXT NOT NULL,
            PRIMARY KEY (project, session)
        )""",
        """CREATE TABLE leases (
            project TEXT NOT NULL, session TEXT NOT NULL,
            epoch INTEGER NOT NULL, holder TEXT NOT NULL, expires_at REAL NOT NULL,
            PRIMARY KEY (project, session)
        )""",
    ),
)
"""The statements that upgrade the schema from each version to the next, starting with an empty file."""


class SQLiteStore(SummarisingStore):
    """Keeps sessions in an SQLite file, which several processes of one machine may use concurrently.

    The file must be on a local disk: SQLite's write-ahead log does not work on network file systems.

    Args:
        path: The file. A missing file is created, readable by this user only.

    Raises:
        StoreError: The file is not a database, cannot be written, or was created by a newer version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path).expanduser().absolute()
        self._lock = ThreadLock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        try:
            # Create the file and report its problems now.
            with self._borrow_connection():
                pass
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path} cannot be used as a session store: {error}") from error

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    def close(self) -> None:
        """Close the file. Later calls reopen it."""
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _borrow_connection(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one thread at a time. A forked process opens a new connection."""
        with self._lock:
            if self._connection is None or self._owner != os.getpid():
                self._connection = open_shared(self.path, [], version=len(MIGRATIONS), migrate=_migrate)
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._owner = os.getpid()
                weakref.finalize(self, _close_connection, self._connection, self._owner)
            yield self._connection

    def _write(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        def begin(cursor: sqlite3.Cursor) -> T:
            # Wait for other writers before reading the rows that the change depends on.
            cursor.execute("BEGIN IMMEDIATE")
            return work(cursor)

        with self._borrow_connection() as connection:
            return transact(connection, begin)

    def _append(self, place: Place, rows: list[Row], epoch: int | None) -> None:
        def write(cursor: sqlite3.Cursor) -> None:
            if epoch is not None:
                check_epoch(_read_lease(cursor, place), place.key, epoch)
            insert = "INSERT OR IGNORE INTO entries (project, session, subpath, uuid, entry) VALUES (?, ?, ?, ?, ?)"
            new = []
            for row in rows:
                cursor.execute(insert, (*place, row.uuid, row.text))
                if cursor.rowcount:
                    new.append(row)
            if not place.subpath:
                query = "SELECT summary FROM sessions WHERE project = ? AND session = ?"
                (before,) = cursor.execute(query, place[:2]).fetchone() or (None,)
                values = (*place[:2], int(time.time() * 1000), update_summary(before, place, new))
                replace = "INSERT OR REPLACE INTO sessions (project, session, mtime, summary) VALUES (?, ?, ?, ?)"
                cursor.execute(replace, values)

        self._write(write)

    def _load(self, place: Place) -> list[str]:
        query = "SELECT entry FROM entries WHERE project = ? AND session = ? AND subpath = ? ORDER BY number"
        return [entry for (entry,) in self._read(query, *place)]

    def _read(self, query: str, *values: str) -> list[tuple[str, ...]]:
        with self._borrow_connection() as connection, contextlib.closing(connection.cursor()) as cursor:
            return cursor.execute(query, values).fetchall()

    def _list_sessions(self, project: str) -> dict[str, int]:
        rows = self._read("SELECT session, mtime FROM sessions WHERE project = ?", project)
        return {session: int(mtime) for session, mtime in rows}

    def _list_summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        rows = self._read("SELECT session, mtime, summary FROM sessions WHERE project = ?", project)
        return [(session, int(mtime), summary) for session, mtime, summary in rows]

    def _list_subpaths(self, place: Place) -> list[str]:
        query = "SELECT DISTINCT subpath FROM entries WHERE project = ? AND session = ? AND subpath != ''"
        return [subpath for (subpath,) in self._read(query, *place[:2])]

    def _delete(self, place: Place) -> None:
        def write(cursor: sqlite3.Cursor) -> None:
            if place.subpath:
                cursor.execute("DELETE FROM entries WHERE project = ? AND session = ? AND subpath = ?", place)
                return
            for table in ("entries", "sessions"):
                cursor.execute(f"DELETE FROM {table} WHERE project = ? AND session = ?", place[:2])  # noqa: S608

        self._write(write)

    def _find_projects(self, session: str) -> list[str]:
        query = "SELECT DISTINCT project FROM entries WHERE session = ? AND subpath = ''"
        return [project for (project,) in self._read(query, session)]

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        def write(cursor: sqlite3.Cursor) -> LeaseState:
            state = change(_read_lease(cursor, place), time.time())
            sql = "INSERT OR REPLACE INTO leases (project, session, epoch, holder, expires_at) VALUES (?, ?, ?, ?, ?)"
            cursor.execute(sql, (*place[:2], *state))
            return state

        return self._write(write)


def _read_lease(cursor: sqlite3.Cursor, place: Place) -> LeaseState:
    query = "SELECT epoch, holder, expires_at FROM leases WHERE project = ? AND session = ?"
    return LeaseState(*(cursor.execute(query, place[:2]).fetchone() or ()))


def _migrate(cursor: sqlite3.Cursor, version: int) -> None:
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            cursor.execute(statement)


def _close_connection(connection: sqlite3.Connection, owner: int) -> None:
    if owner == os.getpid():
        connection.close()
