"""SQLite files that several processes and threads use at once."""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, TypeVar

T = TypeVar("T")

BUSY_SECONDS: Final = 30.0
"""How many seconds to wait for other users of the file."""

BUSY_PAUSE: Final = 0.02
_PASSING: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_MISUSE})
"""Errors of opening a file that another process is creating; seen under load with SQLite 3.40."""


def open_shared(path: str | os.PathLike[str], schema: Sequence[str]) -> sqlite3.Connection:
    """Open a shared file and create its tables. Blocks while another process is creating it.

    The connection may be used from any thread, but only by one at a time.

    Args:
        path: The file, created if it does not exist.
        schema: Idempotent statements that create its tables and indexes, one each.

    Raises:
        sqlite3.Error: It is not an SQLite file, cannot be written, or was in use for longer than `BUSY_SECONDS`.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _opened(path, schema)
        except sqlite3.Error as error:
            # SQLite's busy timeout does not cover a change of the journal mode.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE)


def transact(connection: sqlite3.Connection, work: Callable[[sqlite3.Cursor], T]) -> T:
    """Call `work` in a transaction.

    The cursor is closed in this thread. If another thread collected it later, that would reset a statement that the
    connection may be using again.
    """
    with connection, closing(connection.cursor()) as cursor:
        return work(cursor)


def _opened(path: str | os.PathLike[str], schema: Sequence[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()  # readers do not wait for writers
        (made,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE sql IS NOT NULL").fetchone()
        if made < len(schema):  # otherwise the tables exist
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # only one process creates the tables
                for statement in schema:
                    connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
