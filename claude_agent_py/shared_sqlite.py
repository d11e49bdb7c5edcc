"""SQLite files that several processes and threads use at once.

Owns how such a file is opened while somebody else may be making it, and how one piece of work is done with it. What
stands in the tables belongs to the callers.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, TypeVar

T = TypeVar("T")

BUSY_SECONDS: Final = 30.0
"""How long to wait for somebody else who uses the file."""

BUSY_PAUSE: Final = 0.02
_PASSING: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_MISUSE})
"""How opening fails while somebody else is making the file; seen under load with SQLite 3.40."""


def open_shared(path: str | os.PathLike[str], schema: Sequence[str]) -> sqlite3.Connection:
    """Open a file that others use as well, and make its tables. Blocks while somebody else is making it.

    The connection may be used from any thread, by one at a time.

    Args:
        path: The file, made if it is missing.
        schema: The statements that make its tables and indexes, one each, harmless when repeated.

    Raises:
        sqlite3.Error: It is no such file, cannot be written, or was in use for longer than `BUSY_SECONDS`.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _opened(path, schema)
        except sqlite3.Error as error:
            # For a change of the journal's mode SQLite itself does not wait.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE)


def transact(connection: sqlite3.Connection, work: Callable[[sqlite3.Cursor], T]) -> T:
    """Do one piece of work as one transaction.

    The cursor is closed in this thread, whatever the work gives back: one that is collected later, by another thread,
    would reset a statement that the connection uses again by then.
    """
    with connection, closing(connection.cursor()) as cursor:
        return work(cursor)


def _opened(path: str | os.PathLike[str], schema: Sequence[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()  # readers do not wait for a writer elsewhere
        (made,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE sql IS NOT NULL").fetchone()
        if made < len(schema):  # else there is nothing to make, and no writer to wait for
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # one maker at a time
                for statement in schema:
                    connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection
