"""`Database`: transactions on the tables of a fleet, in SQLite or PostgreSQL.

It retries what a lost connection or a lock cut off, so that a database that is away for a while only delays a fleet.
"""

import logging
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError

from claude_agent_py._errors import FleetError, OptionsError
from claude_agent_py.fleet import _tables as tables

logger: logging.Logger = logging.getLogger("claude_agent_py")

T = TypeVar("T")

AWAY_SECONDS: Final = 120.0
"""For how many seconds a call waits for a database that is away."""
PAUSES: Final = (0.05, 1.0)
"""Seconds between attempts: at first, and at most."""
WARNS_AT: Final = 3
"""The failed attempt of a call that is logged as a warning."""
BUSY_SECONDS: Final = 30
WRONG_URL: Final = (" does not exist", "authentication failed")
"""What PostgreSQL says of a database, a user or a password that is wrong; waiting does not help."""
LOCK: Final = 7_236_110
"""The advisory lock of PostgreSQL under which tables are made and limits are counted."""

_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}


def normal_url(url: str) -> str:
    """Return the URL with the driver that the fleet uses.

    Raises:
        OptionsError: It is neither of SQLite nor of PostgreSQL.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, AttributeError):
        parsed = None
    if parsed is None or parsed.drivername not in (*_DRIVERS, *_DRIVERS.values()):
        raise OptionsError("must begin with sqlite:/// or postgresql://", option="url")  # it may have a password
    if parsed.drivername.startswith("sqlite") and parsed.database in (None, "", ":memory:"):
        raise OptionsError("must name a file: workers and other processes share it", option="url")
    drivername = _DRIVERS.get(parsed.drivername, parsed.drivername)
    return parsed.set(drivername=drivername).render_as_string(hide_password=False)


class Database:
    """The tables of a fleet.

    Args:
        url: Where they are.
        create: Whether the first call makes those that are missing. Without, it fails where no fleet is.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.url: Final = normal_url(url)
        self.is_sqlite: Final = self.url.startswith("sqlite")
        self._create = create
        self.engine: Final = _engine(self.url, create)
        self._is_ready = False
        weakref.finalize(self, self.engine.dispose)

    def close(self) -> None:
        """Close the connections. They are opened again when they are needed."""
        self.engine.dispose()

    def now(self, connection: Connection) -> float:
        """Return the time by the clock that all workers share."""
        if self.is_sqlite:  # one machine
            return time.time()
        return float(connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8")) or 0.0)

    def lock(self, connection: Connection) -> None:
        """Let one transaction at a time pass here. In SQLite, only one writes anyway."""
        if not self.is_sqlite:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))

    def run(self, work: Callable[..., T], *args: Any, write: bool = True) -> T:
        """Run a transaction: `work(connection, *args)`. Blocks.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database failed.
            FleetError: The tables were made by a newer version, the file's folder does not exist, or there is no fleet
                and none is to be created.
        """
        if not self._is_ready:
            self._make_tables()
        engine = self.engine.execution_options(fleet_write=write)
        with engine.begin() as connection:
            return work(connection, *args)

    async def call(self, work: Callable[..., T], *args: Any, write: bool = True, patience: float = AWAY_SECONDS) -> T:
        """Run a transaction in a thread, again and again while the database is away.

        Raises:
            FleetError: The database was away for longer than `patience` seconds, or is none.
        """
        deadline = time.monotonic() + patience
        pause, tries = PAUSES[0], 0
        while True:
            try:
                return await to_thread.run_sync(lambda: self.run(work, *args, write=write))
            except (OperationalError, InterfaceError, DBAPIError) as error:
                is_wrong = not self._is_ready and any(told in str(error.orig) for told in WRONG_URL)
                if is_wrong or type(error) is DatabaseError:  # the file is something else, or damaged
                    raise FleetError(f"the database of the fleet cannot be read: {error.orig}") from error
                if not _is_passing(error):
                    raise
                if time.monotonic() > deadline:
                    raise FleetError(f"the database of the fleet does not answer: {error.orig}") from error
                tries += 1
                level = logging.WARNING if tries == WARNS_AT else logging.DEBUG
                logger.log(level, "the database of the fleet does not answer, trying again: %s", error.orig)
            await anyio.sleep(pause)
            pause = min(pause * 2, PAUSES[1])

    def _make_tables(self) -> None:
        file = self.engine.url.database
        if self.is_sqlite and file is not None and not Path(file).absolute().parent.is_dir():
            raise FleetError(f"the folder of the fleet's database does not exist: {file}")
        if not self._create:
            self._find_tables()
        with self.engine.execution_options(fleet_write=True).begin() as connection:
            self.lock(connection)
            tables.metadata.create_all(connection)
            found = connection.scalar(select(tables.meta.c.version))
            if found is None:
                connection.execute(insert(tables.meta).values(version=tables.VERSION))
            elif found > tables.VERSION:
                raise FleetError(f"the fleet's tables are of a newer version ({found}, known is {tables.VERSION})")
        self._is_ready = True

    def _find_tables(self) -> None:
        """Raise FleetError, and write nothing, where no fleet is."""
        file = self.engine.url.database
        if self.is_sqlite and not Path(str(file)).exists():
            raise FleetError(f"there is no database {Path(str(file)).absolute()}")
        if not inspect(self.engine.execution_options(fleet_write=False)).has_table(tables.meta.name):
            raise FleetError(f"there is no fleet in the database {file}")


def _is_passing(error: DBAPIError) -> bool:
    return isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated


def _engine(url: str, create: bool) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True, pool_recycle=300, connect_args={"connect_timeout": 10})
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy begins transactions, below
        if create:  # the mode stays with the file
            connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait for writers; DBOS profits, too
        connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("fleet_write", True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
