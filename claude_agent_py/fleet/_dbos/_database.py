"""`Database`: transactions on the tables of a fleet, in PostgreSQL.

It retries transactions that a lost connection or a lock interrupted, so that an outage of the database only delays the
fleet.
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Final, TypeVar
from uuid import uuid4

import anyio
import psycopg
import sqlalchemy.orm  # noqa: F401 - DBOS imports it, and `inspect` fails in other threads meanwhile
from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError as NoConnectionError,
)

from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.fleet._dbos import _tables as tables
from claude_agent_py.sessions.stores.postgres import TCP, break_off

T = TypeVar("T")

AWAY_SECONDS: Final = 120.0
"""For how many seconds a call retries while the database is unavailable."""
PAUSES: Final = (0.05, 1.0)
"""Seconds between attempts: the first pause and the longest."""
WARNS_AT: Final = 3
"""Which failed attempt of a call is logged as a warning; the others are logged for debugging."""
ANSWER_SECONDS: Final = 30.0
"""Seconds that a PostgreSQL server may take to answer a call. After that, the connections are broken off."""
FROZEN_SECONDS: Final = 15
"""Seconds after which the server rolls back the transaction of a suspended process or a lost connection."""
LOCK_SECONDS: Final = 10
"""Seconds that the server waits for a lock. A call that was broken off would hold the lock that it gets later."""
WRONG_URL: Final = (" does not exist", "authentication failed")
"""Error texts of PostgreSQL for a wrong database, user or password. Retrying does not help."""
LINES: Final = 5
"""The first version of the tables whose workers take sessions from lines, as today."""
LOCK: Final = 7_236_110
"""The advisory lock of PostgreSQL for creating tables and counting limits."""

_DRIVER: Final = "postgresql+psycopg"


def normal_url(url: str) -> str:
    """Return the URL with the driver that the fleet uses.

    Raises:
        OptionsError: The URL is not for PostgreSQL.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, AttributeError):
        parsed = None
    if parsed is None or parsed.drivername not in ("postgresql", "postgres", _DRIVER):
        # The URL may contain a password, so the error does not show it.
        raise OptionsError("must begin with sqlite:/// or postgresql://", option="url")
    parsed = parsed.set(drivername=_DRIVER, query={**TCP, **parsed.query})
    return parsed.render_as_string(hide_password=False)


class Database:
    """The tables of a fleet.

    Args:
        url: The URL of the database.
        create: Whether the first call creates missing tables. If not, it fails if the database has no fleet.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.url: Final = normal_url(url)
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        """Open connections to PostgreSQL, for `_break_connections`."""
        self._connections_lock = threading.Lock()
        self._create = create
        self.connect: Final = partial(_connect, self.url, self._connections, self._connections_lock)
        """Opens a connection to PostgreSQL, also for DBOS. A call that gets no answer breaks it off."""
        self.engine: Final = _create_engine(self.url, self.connect)
        self._is_ready = False
        self.identity: str = ""
        """The identity of the fleet; empty before the first call."""
        weakref.finalize(self, self.engine.dispose)

    def close(self) -> None:
        """Close the connections. The next call opens new ones."""
        self.engine.dispose()
        self._break_connections()

    def _break_connections(self) -> None:
        """Break off calls that wait for the server: an error is raised in their threads."""
        with self._connections_lock:
            connections = list(self._connections)
        for connection in connections:
            break_off(connection)

    def run(self, work: Callable[..., T], *args: object, is_given_up: Callable[[], bool] | None = None) -> T:
        """Run a transaction: `work(connection, *args)`. Blocks. Does nothing if it is given up before it starts.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database failed.
            FleetError: A newer version made the tables, or the database has no fleet and `create` is false.
        """
        if not self._is_ready:
            self._make_tables()
        engine = self.engine.execution_options(fleet_database=self)
        with engine.begin() as connection:
            if is_given_up is not None and is_given_up():
                connection.invalidate()
                raise NoConnectionError("given up")
            return work(connection, *args)

    async def read(
        self, work: Callable[..., T], *args: object, patience: float | None = None, answer_seconds: float | None = None
    ) -> T:
        """Run a transaction that only reads, like `write`. Cancelling returns immediately."""
        return await self._call(partial(self.run, work, *args), False, patience, answer_seconds)

    async def write(
        self, work: Callable[..., T], *args: object, patience: float | None = None, answer_seconds: float | None = None
    ) -> T:
        """Run a transaction in a thread, and retry it while the database is unavailable.

        An earlier attempt may have committed although its connection broke, so `work` must be repeatable. Cancelling
        takes effect after the attempt that runs.

        Args:
            work: Called as `work(connection, *args)`.
            args: The arguments of `work`.
            patience: Seconds during which failed attempts are retried; None means `AWAY_SECONDS`.
            answer_seconds: Seconds that PostgreSQL may take to answer; None means `ANSWER_SECONDS`.

        Raises:
            FleetError: The database was unavailable for longer, or the file is not a database.
        """
        return await self._call(partial(self.run, work, *args), True, patience, answer_seconds)

    async def _call(
        self, run: Callable[..., T], write: bool, patience: float | None, answer_seconds: float | None
    ) -> T:
        deadline = time.monotonic() + (AWAY_SECONDS if patience is None else patience)
        pause = PAUSES[0]
        tries = 0
        while True:
            try:
                return await self._attempt(run, write, answer_seconds)
            except (DBAPIError, NoConnectionError) as error:
                if not self._is_ready and any(words in str(_driver_error(error)) for words in WRONG_URL):
                    raise FleetError(f"the database of the fleet cannot be read: {_driver_error(error)}") from error
                # Another process has inserted the same row just now: now it is found.
                if not _is_transient(error) and not (isinstance(error, IntegrityError) and tries == 0):
                    raise
                if time.monotonic() > deadline:
                    raise build_away_error(error) from error
                tries += 1
                level = logging.WARNING if tries == WARNS_AT else logging.DEBUG
                logger.log(level, "the database of the fleet does not answer, trying again: %s", _driver_error(error))
            await anyio.sleep(pause)
            pause = min(pause * 2, PAUSES[1])

    async def _attempt(self, run: Callable[..., T], write: bool, answer_seconds: float | None) -> T:
        """Run in a thread. Raises NoConnectionError if the server does not answer in time."""
        # The first call may have to create the tables, too.
        limit = ANSWER_SECONDS if answer_seconds is None or not self._is_ready else answer_seconds
        given_up = threading.Event()
        try:
            with anyio.move_on_after(limit, shield=write):
                return await run_file_work(partial(run, is_given_up=given_up.is_set), abandon_on_cancel=True)
        finally:
            given_up.set()
        self._break_connections()
        raise NoConnectionError(f"no answer within {limit:g} s")

    @cached_property
    def client(self) -> Any:
        """The client of the engine."""
        # Importing DBOS takes half a second.
        from claude_agent_py.fleet._dbos._client import open_client

        return open_client(self.engine)

    def _make_tables(self) -> None:
        found = self._load_version()
        if found is None and not self._create:
            raise FleetError(f"there is no fleet in the database {self.engine.url.database}")
        if found is None or found < tables.VERSION:
            from claude_agent_py.fleet._dbos._client import make_tables

            make_tables(self.engine, self.client)
            with self.engine.begin() as connection:
                self._update_tables(connection)
        elif found > tables.VERSION:
            raise FleetError(
                f"the fleet's tables must have version {tables.VERSION} or older, not {found}; upgrade claude-agent-py"
            )
        with self.engine.begin() as connection:
            self.identity = connection.execute(select(tables.meta.c.identity)).scalar_one()
        self._is_ready = True

    def _load_version(self) -> int | None:
        """Return the version of the tables; None if there are none."""
        if not inspect(self.engine).has_table(tables.meta.name):
            return None
        with self.engine.begin() as connection:
            return connection.execute(select(tables.meta.c.version)).scalar()

    def _update_tables(self, connection: Connection) -> None:
        """Create the tables, or update those of an older version."""
        lock(connection)
        tables.metadata.create_all(connection)
        found = connection.execute(select(tables.meta.c.version)).scalar()
        if found is None:
            connection.execute(insert(tables.meta).values(version=tables.VERSION, identity=uuid4().hex))
        elif found < tables.VERSION:
            for _, table, column in tables.ADDED:
                # Not all tables of version 4 have its columns.
                if column.split()[0] not in {each["name"] for each in inspect(connection).get_columns(table)}:
                    connection.execute(text(f"ALTER TABLE {table} ADD COLUMN {column}"))
            connection.execute(text("DROP INDEX IF EXISTS fleet_sessions_queued"))
            for index in (*tables.sessions.indexes, *tables.interactions.indexes):
                index.create(connection, checkfirst=True)
            if found < LINES:
                # A worker of an older version has lost its sessions, and finds no queued ones.
                freed = {"state": "queued", "worker": None, "is_orphan": 1, "epoch": tables.sessions.c.epoch + 1}
                connection.execute(update(tables.sessions).where(tables.sessions.c.state == "running").values(freed))
                connection.execute(delete(tables.workers))
            identity = func.coalesce(tables.meta.c.identity, uuid4().hex)
            connection.execute(update(tables.meta).values(version=tables.VERSION, identity=identity))


def server_time(connection: Connection) -> float:
    """Return the time by the clock that all workers share."""
    return float(connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8")) or 0.0)


def lock(connection: Connection) -> None:
    """Hold the fleet's lock until the end of the transaction."""
    connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))


def _is_transient(error: DBAPIError | NoConnectionError) -> bool:
    is_away = isinstance(error, OperationalError | InterfaceError | NoConnectionError)
    return is_away or (isinstance(error, DBAPIError) and error.connection_invalidated)


def _driver_error(error: SQLAlchemyError) -> object:
    return getattr(error, "orig", None) or error


def build_away_error(error: SQLAlchemyError) -> FleetError:
    """Return the error for an unavailable database."""
    failure = FleetError(f"the database of the fleet does not answer, try again later: {_driver_error(error)}")
    failure.is_retryable = True
    return failure


def _connect(url: str, opened: weakref.WeakSet[Any], lock: threading.Lock) -> "psycopg.Connection[Any]":
    parsed = make_url(url)
    arguments, settings = parsed.get_dialect()().create_connect_args(parsed)
    # Behind a pooler in transaction mode, a prepared statement may be on another connection to the server.
    connection = psycopg.connect(*arguments, **settings, prepare_threshold=None)
    with lock:
        opened.add(connection)
    return connection


def _create_engine(url: str, connect: Callable[[], Any]) -> Engine:
    engine = create_engine(url, creator=connect, pool_recycle=300, pool_timeout=10)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        connection.execute(f"SET idle_in_transaction_session_timeout = {FROZEN_SECONDS * 1000}")
        connection.execute(f"SET lock_timeout = {LOCK_SECONDS * 1000}")
        # Without a commit, the first rollback would undo the setting.
        connection.commit()

    return engine
