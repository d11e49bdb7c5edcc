"""`FleetFile`: transactions on the SQLite file of a fleet. It retries while another process holds the file."""

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import anyio

from claude_agent_py._base.errors import FleetError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py._base.shared_sqlite import SharedConnection, lacks_tables, open_shared
from claude_agent_py.fleet._local._tables import SCHEMA, VERSION

T = TypeVar("T")
Row: TypeAlias = dict[str, Any]

AWAY_SECONDS: Final = 120.0
"""For how many seconds a call is retried."""
BUSY_SECONDS: Final = 2
"""Seconds that one attempt waits for another process."""
PAUSES: Final = (0.05, 1.0)
"""Seconds between attempts: the first pause and the longest."""
MAX_NUMBER: Final = 2**63 - 1
WARNS_AT: Final = 3
"""Which failed attempt of a call is logged as a warning; the others are logged for debugging."""


class Transaction:
    """A transaction. It takes the file's clock once, so that everything in it happens at the same time."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        cursor.row_factory = sqlite3.Row
        self._cursor = cursor
        self.now: float = self.value("SELECT (julianday('now') - 2440587.5) * 86400.0")
        """In seconds since the epoch."""

    def all(self, statement: str, *values: object) -> list[Row]:
        """Return all rows of a query."""
        return [dict(row) for row in self._execute(statement, values)]

    def one(self, statement: str, *values: object) -> Row | None:
        """Return the first row of a query, or None."""
        found = self.all(statement, *values)
        return found[0] if found else None

    def value(self, statement: str, *values: object) -> Any:
        """Return the first column of the first row, or None."""
        found = self._execute(statement, values).fetchone()
        return None if found is None else found[0]

    def run(self, statement: str, *values: object) -> int:
        """Run a statement, and return how many rows it changed."""
        return self._execute(statement, values).rowcount

    def _execute(self, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        return self._cursor.execute(statement, [*map(_clean, values)])

    def insert(self, table: str, *rows: Mapping[str, object], instead: str = "INSERT") -> None:
        """Insert rows of the same columns."""
        names = list(rows[0])
        statement = f"{instead} INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        self._cursor.executemany(statement, [[_clean(row[name]) for name in names] for row in rows])

    def update(self, table: str, where: Mapping[str, object], **changes: object) -> None:
        """Change rows with these values."""
        setting = ", ".join(f"{name} = ?" for name in changes)
        condition = " AND ".join(f"{name} = ?" for name in where)
        self.run(
            f"UPDATE {table} SET {setting} WHERE {condition}",  # noqa: S608 - our names
            *changes.values(),
            *where.values(),
        )


class FleetFile:
    """The file of a fleet.

    Args:
        path: The file.
        create: Whether the first call creates it. If not, that fails if it has no fleet.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path: Final = path
        self._create = create
        self._connection = SharedConnection(self._open)
        self.identity: str = ""
        """The random name of the fleet; empty before the first call."""

    def close(self) -> None:
        """Close the connection. The next call opens a new one."""
        self._connection.close()

    async def read(self, work: Callable[..., T], *args: object, patience: float = AWAY_SECONDS) -> T:
        """Run a transaction that only reads, like `write`. Cancelling returns immediately."""
        return await self._call(partial(self._run, "BEGIN", work, *args), True, patience)

    async def write(self, work: Callable[..., T], *args: object, patience: float = AWAY_SECONDS) -> T:
        """Run `work(transaction, *args)` in a thread. Cancelling takes effect after the attempt that runs.

        Args:
            work: Called again if the file was locked.
            args: The arguments of `work`.
            patience: Seconds during which failed attempts are retried.

        Raises:
            FleetError: The file was locked for longer (`is_retryable`), cannot be read, or has no fleet.
        """
        return await self._call(partial(self._run, "BEGIN IMMEDIATE", work, *args), False, patience)

    def _run(self, begin: str, work: Callable[..., T], *args: object) -> T:
        if not self._create or not self.identity:
            self._check_file()
        with self._connection.borrow() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(begin)
            with connection:
                return work(Transaction(cursor), *args)

    async def _call(self, run: Callable[[], T], is_reading: bool, patience: float) -> T:
        deadline = time.monotonic() + patience
        pause, tries = PAUSES[0], 0
        while True:
            try:
                return await run_file_work(run, abandon_on_cancel=is_reading)
            except sqlite3.OperationalError as error:
                code = error.sqlite_errorcode & 0xFF
                # Such as a missing table. A file that was open may only be away for a moment.
                is_lasting = code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY)
                if is_lasting or (code == sqlite3.SQLITE_CANTOPEN and not self.identity):
                    raise FleetError(f"the database of the fleet, {self.path}, cannot be used: {error}") from error
                if time.monotonic() > deadline:
                    failure = FleetError(
                        f"the database of the fleet, {self.path}, does not answer: {error}; try again later"
                    )
                    failure.is_retryable = True
                    raise failure from error
                tries += 1
                level = logging.WARNING if tries == WARNS_AT else logging.DEBUG
                logger.log(level, "the database of the fleet does not answer, trying again: %s", error)
            except sqlite3.DatabaseError as error:
                # A plain one says that the file is damaged, or no database.
                if type(error) is not sqlite3.DatabaseError:
                    raise
                raise FleetError(f"the database of the fleet, {self.path}, cannot be read: {error}") from error
            await anyio.sleep(pause)
            pause = min(pause * 2, PAUSES[1])

    def _check_file(self) -> None:
        """Raise FleetError if the file cannot be created, or would be although `create` is false."""
        if not self.path.parent.is_dir():
            raise FleetError(f"the folder of the fleet's database does not exist: {self.path}")
        if not self._create and not self.path.exists():
            raise FleetError(f"there is no database {self.path}")
        if not self._create and not self.identity and lacks_tables(self.path, "fleet_meta"):
            raise FleetError(f"there is no fleet in the database {self.path}")

    def _open(self) -> sqlite3.Connection:
        connection = open_shared(self.path, SCHEMA, version=VERSION)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
            connection.execute("PRAGMA synchronous = NORMAL")
            find = "SELECT identity FROM fleet_meta"
            if (found := connection.execute(find).fetchone()) is None:  # otherwise do not wait for a writer
                with connection:
                    connection.execute(
                        "INSERT INTO fleet_meta (identity) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM fleet_meta)",
                        (uuid4().hex,),
                    )
                found = connection.execute(find).fetchone()
            self.identity = found[0]
            # `Transaction` begins transactions itself.
            connection.isolation_level = None
        except BaseException:
            connection.close()
            raise
        return connection


def decode(text: str | None) -> Any:
    """Return a column with JSON; an empty object if there is none."""
    return json.loads(text) if text else {}


def as_list(values: Sequence[object]) -> str:
    """Return values as JSON, for `IN (SELECT value FROM json_each(?))`."""
    return json.dumps(list(values))


def _clean(value: object) -> object:
    """Replace what SQLite refuses or cuts off: in text that somebody wrote, such as an error, and numbers."""
    if isinstance(value, int):
        return max(-MAX_NUMBER, min(value, MAX_NUMBER))
    if not isinstance(value, str):
        return value
    return value.replace("\0", "\ufffd").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
