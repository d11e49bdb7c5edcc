"""Open SQLite files that several processes and threads share, and run transactions on them."""

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from claude_agent_py._base.thread_locks import ThreadLock

T = TypeVar("T")

IN_MEMORY: Final = ":memory:"
MAGIC: Final = b"SQLite format 3\0"
"""How a file begins that is not empty."""
BUSY_SECONDS: Final = 30.0
"""How long to wait for a lock, in seconds."""

BUSY_PAUSE: Final = 0.02
_PASSING: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_MISUSE})
"""Errors of opening a file that another process is creating; seen under load with SQLite 3.40."""


def open_shared(path: str | os.PathLike[str], schema: Sequence[str], *, version: int = 1) -> sqlite3.Connection:
    """Open a shared file and create its tables. Blocks while another process creates it.

    The connection may be used from any thread, but only by one at a time.

    Args:
        path: The file. A missing file is created, readable by this user only; SQLite's other files get its mode.
        schema: The statements that make the tables and indexes of a file that has no version.
        version: The version of the schema, kept in the file.

    Raises:
        sqlite3.Error: The file is not a database, is of another version, cannot be written, or was locked for longer
            than `BUSY_SECONDS`.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _opened(path, schema, version)
        except sqlite3.Error as error:
            # SQLite's own timeout does not cover changing the journal mode.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE)  # pragma: no cover - another process changes the mode at this moment


def lacks_tables(path: str | os.PathLike[str], *names: str) -> bool:
    """Return whether a file is an SQLite database without one of these tables. Opening it would create them.

    A file that cannot be read lacks none: opening it reports the problem.
    """
    uri = f"{Path(path).resolve().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        return not found.issuperset(names)
    return False


def transact(connection: sqlite3.Connection, work: Callable[[sqlite3.Cursor], T]) -> T:
    """Run `work` in a transaction and return its result.

    The cursor is closed here: collected later in another thread, it would reset a statement that is in use again.
    """
    with connection, closing(connection.cursor()) as cursor:
        return work(cursor)


class SharedConnection:
    """A connection for all threads, one at a time, opened on first use and closed with its last reference.

    A forked process opens one of its own: it may neither use nor close that of the original.
    """

    def __init__(self, open_file: Callable[[], sqlite3.Connection]) -> None:
        self._open = open_file
        self._lock = ThreadLock()
        self._connection: sqlite3.Connection | None = None
        self._finalizer: weakref.finalize[..., SharedConnection]
        self._owner = 0

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one thread at a time."""
        with self._lock:
            if self._connection is None or self._owner != os.getpid():
                self._connection = self._open()
                self._owner = os.getpid()
                self._finalizer = weakref.finalize(self, _close, self._connection, self._owner)
            yield self._connection

    def close(self, last: Callable[[sqlite3.Cursor], object] = lambda cursor: None) -> None:
        """Run a last transaction and close the connection, if it is open. Borrowing reopens it."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._owner == os.getpid():
                self._finalizer.detach()
                try:
                    transact(connection, last)
                finally:
                    connection.close()


def _close(connection: sqlite3.Connection, owner: int) -> None:
    if owner == os.getpid():
        connection.close()


def _opened(path: str | os.PathLike[str], schema: Sequence[str], version: int) -> sqlite3.Connection:
    if os.fspath(path) != IN_MEMORY:
        with suppress(OSError):  # it exists, or SQLite reports the problem
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()  # readers do not wait for writers
        if _read_version(connection) != version:  # otherwise do not wait for a writer
            with connection, closing(connection.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")  # one process at a time creates the tables
                found = _read_version(connection)
                if found > version:
                    raise sqlite3.DatabaseError("it was written by a newer version of the library")
                if 0 < found < version:
                    raise sqlite3.DatabaseError("it was written by an older version of the library; start a new file")
                for statement in () if found else schema:
                    cursor.execute(statement)
                cursor.execute(f"PRAGMA user_version = {version:d}")
    except BaseException:
        connection.close()
        raise
    return connection


def _read_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
