"""Open SQLite files that several processes and threads share, and run transactions on them."""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, TypeVar

T = TypeVar("T")

BUSY_SECONDS: Final = 30.0
"""How long to wait for a lock, in seconds."""

BUSY_PAUSE: Final = 0.02
_PASSING: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_MISUSE})
"""Errors of opening a file that another process is creating; seen under load with SQLite 3.40."""


def open_shared(path: str | os.PathLike[str], schema: Sequence[str]) -> sqlite3.Connection:
    """Open a shared file and create its tables. Blocks while another process creates it.

    The connection may be used from any thread, but only by one at a time.

    Args:
        path: The file, created if missing.
        schema: Idempotent statements, one for each table or index.

    Raises:
        sqlite3.Error: The file is not a database, cannot be written, or was locked for longer than `BUSY_SECONDS`.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _opened(path, schema)
        except sqlite3.Error as error:
            # SQLite's own timeout does not cover changing the journal mode.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE)


def transact(connection: sqlite3.Connection, work: Callable[[sqlite3.Cursor], T]) -> T:
    """Run `work` in a transaction and return its result.

    The cursor is closed here: collected later in another thread, it would reset a statement that is in use again.
    """
    with connection, closing(connection.cursor()) as cursor:
        return work(cursor)


def _opened(path: str | os.PathLike[str], schema: Sequence[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()  # readers do not wait for writers
        (made,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE sql IS NOT NULL").fetchone()
        if made < len(schema):  # otherwise do not wait for a writer
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # one process at a time creates the tables
                for statement in schema:
                    connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
