"""`PostgresStore`: sessions in PostgreSQL. Needs `psycopg` 3: `pip install "psycopg[binary]"`."""

import contextlib
import json
import os
import re
import socket
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, TypeVarTuple

import anyio

from claude_agent_py._base.checks import UNESCAPED
from claude_agent_py._base.errors import OptionsError, StoreError
from claude_agent_py._base.thread_locks import ThreadLock
from claude_agent_py.sessions.stores.base import EntryRow
from claude_agent_py.sessions.stores.protocol import Place
from claude_agent_py.sessions.stores.sql import TABLES, Execute, SQLRow, SQLStore

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

VERSION: Final = 2
"""The version of the tables."""

TCP: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
"""Parameters of libpq: a connection to a dead machine breaks after half a minute instead of hours."""
ANSWER_SECONDS: Final = 40.0
"""How many seconds the server may take to answer a call. After that, its connection is broken off."""
FROZEN_SECONDS: Final = 30.0
"""How many seconds a suspended process can hold a transaction before the server rolls it back."""
MOST_IDLE: Final = 8
"""The maximum number of idle connections."""
_used: ContextVar["_Used | None"] = ContextVar("_used", default=None)
"""The connections that the current call has used."""
_PORTS: Final = re.compile(r"[\d,]*")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_END_CUT: Final = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE usename = current_user AND datname = current_database() AND pid != pg_backend_pid() AND state = 'active'
    AND wait_event = 'ClientRead' AND strpos(query, %s) > 0
    AND state_change < clock_timestamp() - make_interval(secs => %s)"""
"""Ends connections of stores that have long been waiting for the rest of a statement: the network lost it. No limit of
PostgreSQL 15 applies to such a transaction, which holds the row of its session."""
_NUMBER: Final = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
_NOW: Final = "extract(epoch from clock_timestamp())::float8"


class PostgresStore(SQLStore):
    """Keeps sessions in tables of a PostgreSQL schema, for any number of machines.

    The first call creates the schema and its tables. Characters that PostgreSQL refuses are escaped. Leases
    use the clock of the server.

    Args:
        conninfo: The connection string, such as `postgresql://user@host/database`.
        schema: The name of the schema.

    Raises:
        OptionsError: `psycopg` is not installed, the connection string cannot be parsed, or the schema is not a
            lower-case identifier.
    """

    LOCK: ClassVar[str] = " FOR UPDATE"

    def __init__(self, conninfo: str, *, schema: str = "claude_sessions") -> None:
        try:
            import psycopg.conninfo
        except ImportError as error:
            message = 'PostgresStore needs psycopg 3: pip install "psycopg[binary]"'
            raise OptionsError(message, option="session_store") from error
        if not _NAME.fullmatch(schema):
            raise OptionsError(f"must be a lower-case identifier, not {schema!r}", option="schema")
        self._connect: Any = psycopg.connect
        self._conninfo = conninfo
        try:
            self._given: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:
            raise OptionsError(UNESCAPED, option="conninfo") from None
        # A slash in a password starts the name of the database: what precedes it is the port, and there is no user.
        is_cut = "://" in conninfo and "@" in str(self._given.get("dbname")) and "user" not in self._given
        if is_cut or not _PORTS.fullmatch(str(self._given.get("port", ""))):
            raise OptionsError(UNESCAPED, option="conninfo")
        self._schema = schema
        self._idle: list[Connection] = []
        self._lock = ThreadLock()
        self._is_ready = False
        self._owner = os.getpid()
        weakref.finalize(self, _close_connections, self._idle, self._owner)

    def __repr__(self) -> str:
        # The connection string may contain a password.
        shown = ("service", "host", "port", "dbname")
        where = " ".join(f"{name}={self._given[name]}" for name in shown if name in self._given)
        return f"PostgresStore({where!r}, schema={self._schema!r})"

    def close(self) -> None:
        """Close idle connections. Later calls open new ones."""
        with self._lock:
            idle = self._idle[:]
            self._idle.clear()
        _close_connections(idle, self._owner)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Execute]:
        connection = self._borrow()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                yield partial(self._execute, cursor)
        except BaseException:
            if connection.broken:
                connection.close()
            raise
        finally:
            self._return_connection(connection)

    async def _run_in_thread(
        self, action: str, place: Place, function: Callable[[*Arguments], T], *args: *Arguments
    ) -> T:
        used = _Used()
        token = _used.set(used)
        try:
            with anyio.move_on_after(ANSWER_SECONDS):
                return await super()._run_in_thread(action, place, function, *args)
        finally:
            _used.reset(token)
        # The network or a pooler may have lost the idle ones, too.
        self.close()
        used.give_up()
        message = f"{self!r} cannot {action} {place}: no answer within {ANSWER_SECONDS:g} s"
        raise StoreError(message, key=place.key, session_id=place.session or None)

    def _borrow(self) -> "Connection":
        with self._lock:
            # In a forked process, the connections belong to the parent.
            if self._owner != os.getpid():
                self._idle = []
                self._owner = os.getpid()
            connection = self._take_idle()
        if connection is None:
            return self._open()
        _note_used(connection)
        return connection

    def _take_idle(self) -> "Connection | None":
        """Return an idle connection; None if the server has closed all of them, as it does when it restarts."""
        while self._idle:
            connection = self._idle.pop()
            if not _has_ended(connection):
                return connection
            connection.close()
        return None

    def _open(self) -> "Connection":
        settings = {**TCP, **self._given}
        # Behind a pooler in transaction mode, a prepared statement may be on another connection to the server.
        connection: Connection = self._connect(**settings, autocommit=True, prepare_threshold=None)
        _note_used(connection)  # the first statements may also stay without an answer
        try:
            milliseconds = str(int(FROZEN_SECONDS * 1000))
            connection.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (milliseconds,))
            connection.execute(_END_CUT.encode(), (f"{self._schema}.", FROZEN_SECONDS))
            if not self._is_ready:
                self._make_tables(connection)
        except BaseException:
            connection.close()
            raise
        self._is_ready = True
        return connection

    def _return_connection(self, connection: "Connection") -> None:
        with self._lock:
            if not connection.closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _make_tables(self, connection: "Connection") -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"claude-agent-py {self._schema}",))
            cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (self._schema,))
            if cursor.fetchone() is None:
                self._execute(cursor, "CREATE SCHEMA {schema}")
            self._execute(cursor, "CREATE TABLE IF NOT EXISTS {schema}.version (version int NOT NULL)")
            [(found,)] = self._execute(cursor, "SELECT max(version) FROM {schema}.version")
            if found is None:
                for statement in TABLES:
                    self._execute(cursor, statement)
                self._execute(cursor, "INSERT INTO {schema}.version VALUES (?)", VERSION)
            elif found != VERSION:
                raise StoreError(f"the schema {self._schema} has version {found}, and this release uses {VERSION}")

    def _execute(self, cursor: "Cursor[Any]", statement: str, *values: object) -> "Cursor[Any]":
        # The constructor has checked the name of the schema.
        for name, meaning in (("{schema}", self._schema), ("{now}", _NOW), ("{number}", _NUMBER), ("?", "%s")):
            statement = statement.replace(name, meaning)
        cursor.execute(statement.encode(), values)
        return cursor

    def _query(self, statement: str, *values: object) -> list[SQLRow]:
        with self._transaction() as execute:
            return [*execute(statement, *values)]

    def _insert(self, execute: Execute, key: tuple[str, ...], rows: list[EntryRow]) -> list[EntryRow]:
        # In one statement, because each one waits for the server.
        insert = "INSERT INTO {schema}.entries (project, session, subpath, uuid, entry) SELECT ?, ?, ?, uuid, entry "
        # Binary: psycopg takes 0.2 s per megabyte to quote the text of an array, and stops the event loop for so long.
        insert += "FROM unnest(%b::text[], %b::text[]) WITH ORDINALITY AS given (uuid, entry, place) ORDER BY place "
        uuids = [row.uuid and self._escape(row.uuid) for row in rows]
        texts = [row.text for row in rows]
        added = {uuid for (uuid,) in execute(insert + "ON CONFLICT DO NOTHING RETURNING uuid", *key, uuids, texts)}
        return [row for row, uuid in zip(rows, uuids, strict=True) if uuid in added]

    def _escape(self, text: str) -> str:
        # In ASCII, because PostgreSQL cannot store NUL and lone surrogates.
        if text.isascii() and "\0" not in text and "\\" not in text:
            return text
        return json.dumps(text)[1:-1].replace('\\"', '"')

    def _unescape(self, text: str) -> str:
        if "\\" not in text:
            return text
        value: str = json.loads(f'"{text.replace(chr(34), chr(92) + chr(34))}"')
        return value


class _Used:
    """The connections that a call has used. The thread of a call that was given up may still add one."""

    def __init__(self) -> None:
        self._connections: list[Connection] = []
        self._is_given_up = False

    def add(self, connection: "Connection") -> None:
        self._connections.append(connection)
        if self._is_given_up:
            break_off(connection)

    def give_up(self) -> None:
        self._is_given_up = True  # first, so that a connection that comes now is broken off here or there
        for connection in self._connections:
            break_off(connection)


def _note_used(connection: "Connection") -> None:
    """Note that the current call uses a connection."""
    used = _used.get()
    if used is not None:
        used.add(connection)


def break_off(connection: "Connection") -> None:
    """Break a connection, so that a call in another thread that waits for the server fails."""
    with contextlib.suppress(Exception), _socket_of(connection) as end:
        end.shutdown(socket.SHUT_RDWR)


def _has_ended(connection: "Connection") -> bool:
    """Return whether the server has ended an idle connection: then there is something to read."""
    try:
        with _socket_of(connection) as end:
            end.setblocking(False)  # as libpq does
            end.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except Exception:
        return True
    return True


@contextlib.contextmanager
def _socket_of(connection: "Connection") -> Iterator[socket.socket]:
    """Yield the socket of a connection. A closed one has no file descriptor, which is an error of psycopg."""
    end = socket.socket(fileno=connection.fileno())
    try:
        yield end
    finally:
        end.detach()


def _close_connections(connections: "list[Connection]", owner: int) -> None:
    if owner == os.getpid():
        for connection in connections:
            with contextlib.suppress(Exception):
                connection.close()
