"""`SQLiteStore`: sessions in an SQLite file, for several processes of one machine."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.shared_sqlite import SharedConnection, open_shared
from claude_agent_py.sessions.stores.sql import TABLES, Execute, SQLRow, SQLStore

_NUMBER: Final = "INTEGER PRIMARY KEY AUTOINCREMENT"
_NOW: Final = "(julianday('now') - 2440587.5) * 86400.0"
"""The seconds since the epoch."""


class SQLiteStore(SQLStore):
    """Keeps sessions in an SQLite file, which several processes of one machine may use concurrently.

    The file must be on a local disk: SQLite's write-ahead log does not work on network file systems.

    Args:
        path: The file. A missing file is created, readable by this user only.

    Raises:
        StoreError: The file is not a database, cannot be written, or was created by a newer version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path).expanduser().absolute()
        self._file = SharedConnection(partial(_open, self.path))
        try:
            # Create the file and report its problems now.
            with self._file.borrow():
                pass
        except (sqlite3.Error, OSError, ValueError) as error:  # a path with a NUL is a ValueError
            raise StoreError(f"{self.path} cannot be used as a session store: {error}") from error

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    def close(self) -> None:
        """Close the file. Later calls reopen it."""
        self._file.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self._file.borrow() as connection, connection, contextlib.closing(connection.cursor()) as cursor:
            # Wait for other writers before reading the rows that the change depends on.
            cursor.execute("BEGIN IMMEDIATE")
            yield partial(_execute, cursor)

    def _query(self, statement: str, *values: object) -> list[SQLRow]:
        with self._file.borrow() as connection, contextlib.closing(connection.cursor()) as cursor:
            return _execute(cursor, statement, *values).fetchall()


def _execute(cursor: sqlite3.Cursor, statement: str, *values: object) -> sqlite3.Cursor:
    return cursor.execute(_translate(statement), values)


@lru_cache
def _translate(statement: str) -> str:
    return statement.replace("{schema}.", "").replace("{now}", _NOW).replace("{number}", _NUMBER)


def _open(path: Path) -> sqlite3.Connection:
    connection = open_shared(path, [*map(_translate, TABLES)])
    connection.execute("PRAGMA synchronous = FULL")
    return connection
