"""`Database`: transactions on the tables of a fleet, in SQLite or PostgreSQL.

It retries what a lost connection or a lock cut off, so that a database that is away for a while only delays a fleet.
"""

import contextlib
import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, make_url, select, text
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError as NoConnectionError,
)

from claude_agent_py._errors import FleetError, OptionsError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py.fleet import _tables as tables

logger: logging.Logger = logging.getLogger("claude_agent_py")

T = TypeVar("T")

AWAY_SECONDS: Final = 120.0
"""For how many seconds a call waits for a database that is away."""
PAUSES: Final = (0.05, 1.0)
"""Seconds between attempts: at first, and at most."""
WARNS_AT: Final = 3
"""The failed attempt of a call that is logged as a warning."""
ANSWER_SECONDS: Final = 30.0
"""Within how many seconds a PostgreSQL server answers a call. It is cut off from one that does not."""
BUSY_SECONDS: Final = 5
"""For how many seconds one attempt waits for a lock of SQLite."""
FROZEN_SECONDS: Final = 30
"""After which the server rolls back the transaction of a process that was stopped within it."""
TCP: Final = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "4", "tcp_user_timeout": "30000"}
"""Parameters of libpq: a connection to a machine that is gone breaks after half a minute, not after hours."""
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
    query = dict(parsed.query) if drivername == "sqlite" else {**TCP, **parsed.query}
    return parsed.set(drivername=drivername, query=query).render_as_string(hide_password=False)


class Database:
    """The tables of a fleet.

    Args:
        url: Where they are.
        create: Whether the first call makes those that are missing. Without, it fails where no fleet is.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.url: Final = normal_url(url)
        self.is_sqlite: Final = self.url.startswith("sqlite")
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those of PostgreSQL, to cut them."""
        self._create = create
        self.engine: Final = _engine(self.url, create, self._connections.add)
        self._is_ready = False
        weakref.finalize(self, self.engine.dispose)

    def close(self) -> None:
        """Close the connections. They are opened again when they are needed."""
        self.engine.dispose()
        self._cut()

    def _cut(self) -> None:
        """Break off calls that wait for the server: their threads get an error."""
        for connection in list(self._connections):
            with contextlib.suppress(Exception):  # it is closed
                end = socket.socket(fileno=connection.fileno())
                try:
                    end.shutdown(socket.SHUT_RDWR)
                finally:
                    end.detach()

    def run(
        self, work: Callable[..., T], *args: Any, write: bool = True, is_given_up: Callable[[], bool] | None = None
    ) -> T:
        """Run a transaction: `work(connection, *args)`. Blocks. Does nothing if it is given up before it has begun.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database failed.
            FleetError: The tables were made by a newer version, the file's folder does not exist, or there is no fleet
                and none is to be created.
        """
        if not (self._is_ready and self._create):
            self._check_file()
        if not self._is_ready:
            self._make_tables()
        engine = self.engine.execution_options(fleet_write=write)
        with engine.begin() as connection:
            if is_given_up is not None and is_given_up():
                connection.invalidate()
                raise NoConnectionError("given up")
            return work(connection, *args)

    def run_once(self, work: Callable[..., T], *args: Any, write: bool = True) -> T:
        """Run a transaction, as `run`. Raises FleetError if the database fails."""
        try:
            return self.run(work, *args, write=write)
        except SQLAlchemyError as error:
            raise away(error) from error

    async def call(
        self,
        work: Callable[..., T],
        *args: Any,
        write: bool = True,
        patience: float | None = None,
        answer: float | None = None,
    ) -> T:
        """Run a transaction in a thread, again and again while the database is away.

        It may have been carried out before, with the news lost on the way: `work` has to bear that. Cancelling a call
        that reads returns at once; one that writes is finished.

        Args:
            work: Called as `work(connection, *args)`.
            args: For `work`.
            write: Whether it writes.
            patience: For how many seconds it is tried again; None means `AWAY_SECONDS`.
            answer: Within how many seconds PostgreSQL has to answer; None means `ANSWER_SECONDS`.

        Raises:
            FleetError: The database was away for longer, or is none.
        """
        deadline = time.monotonic() + (AWAY_SECONDS if patience is None else patience)
        pause, tries = PAUSES[0], 0
        while True:
            try:
                return await self._attempt(partial(self.run, work, *args, write=write), write, answer)
            except (DBAPIError, NoConnectionError) as error:
                is_wrong = not self._is_ready and any(told in str(_told(error)) for told in WRONG_URL)
                if is_wrong or type(error) is DatabaseError:  # the file is something else, or damaged
                    raise FleetError(f"the database of the fleet cannot be read: {_told(error)}") from error
                if not _is_passing(error):
                    raise
                if time.monotonic() > deadline:
                    raise away(error) from error
                tries += 1
                level = logging.WARNING if tries == WARNS_AT else logging.DEBUG
                logger.log(level, "the database of the fleet does not answer, trying again: %s", _told(error))
            await anyio.sleep(pause)
            pause = min(pause * 2, PAUSES[1])

    async def _attempt(self, run: Callable[..., T], write: bool, answer: float | None) -> T:
        """Run in a thread. Raises NoConnectionError if the server does not answer in time."""
        if self.is_sqlite:  # which waits for locks, and not for long
            return await run_file_work(run, abandon_on_cancel=not write)
        limit = ANSWER_SECONDS if answer is None else answer
        given_up = threading.Event()
        try:
            with anyio.move_on_after(limit, shield=write):
                return await run_file_work(partial(run, is_given_up=given_up.is_set), abandon_on_cancel=True)
        finally:
            given_up.set()
        self._cut()
        raise NoConnectionError(f"no answer within {limit:g} s")

    def _check_file(self) -> None:
        """Raise FleetError where SQLite cannot make its file, or would make one that is not to be made."""
        file = Path(str(self.engine.url.database)).absolute()
        if self.is_sqlite and not file.parent.is_dir():
            raise FleetError(f"the folder of the fleet's database does not exist: {file}")
        if self.is_sqlite and not self._create and not file.exists():
            raise FleetError(f"there is no database {file}")

    def _make_tables(self) -> None:
        reader = self.engine.execution_options(fleet_write=False)
        if not self._create and not inspect(reader).has_table(tables.meta.name):
            raise FleetError(f"there is no fleet in the database {self.engine.url.database}")
        with self.engine.execution_options(fleet_write=True).begin() as connection:
            lock(connection)
            tables.metadata.create_all(connection)
            found = connection.scalar(select(tables.meta.c.version))
            if found is None:
                connection.execute(insert(tables.meta).values(version=tables.VERSION))
            elif found > tables.VERSION:
                raise FleetError(f"the fleet's tables are of a newer version ({found}, known is {tables.VERSION})")
        self._is_ready = True


def server_time(connection: Connection) -> float:
    """Return the time by the clock that all workers share."""
    if connection.dialect.name == "sqlite":  # one machine
        return time.time()
    return float(connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8")) or 0.0)


def lock(connection: Connection) -> None:
    """Let one transaction at a time pass here. In SQLite, only one writes anyway."""
    if connection.dialect.name != "sqlite":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))


def _is_passing(error: DBAPIError | NoConnectionError) -> bool:
    is_away = isinstance(error, OperationalError | InterfaceError | NoConnectionError)
    return is_away or (isinstance(error, DBAPIError) and error.connection_invalidated)


def _told(error: SQLAlchemyError) -> object:
    return getattr(error, "orig", None) or error


def away(error: SQLAlchemyError) -> FleetError:
    """Return the error for a database that does not answer."""
    failure = FleetError(f"the database of the fleet does not answer, try again later: {_told(error)}")
    failure.is_retryable = True
    return failure


def _engine(url: str, create: bool, on_connection: Callable[[Any], object]) -> Engine:
    if not url.startswith("sqlite"):
        engine = create_engine(
            url, pool_pre_ping=True, pool_recycle=300, pool_timeout=10, connect_args={"connect_timeout": 10}
        )

        @event.listens_for(engine, "connect")
        def prepare_postgres(connection: Any, record: Any) -> None:
            on_connection(connection)
            connection.execute(f"SET idle_in_transaction_session_timeout = {FROZEN_SECONDS * 1000}")
            connection.commit()  # or it would be rolled back with the first transaction that is

        return engine
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
