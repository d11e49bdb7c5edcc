"""`PostgresStore`: sessions in PostgreSQL. Needs `psycopg` 3: `pip install "psycopg[binary]"`."""

import contextlib
import json
import os
import re
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from claude_agent_py._base.errors import OptionsError, StoreError
from claude_agent_py._base.thread_locks import ThreadLock
from claude_agent_py.sessions.stores.base import ChangeLease, Row, SummarisingStore, drop_known, update_summary
from claude_agent_py.sessions.stores.protocol import LeaseState, Place, check_epoch

if TYPE_CHECKING:
    from psycopg import Connection

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE {schema}.entries (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            project text NOT NULL, session text NOT NULL, subpath text NOT NULL,
            uuid text, entry text NOT NULL
        )""",
        "CREATE INDEX entries_by_key ON {schema}.entries (session, project, subpath, number)",
        "CREATE UNIQUE INDEX entries_by_uuid ON {schema}.entries (session, project, subpath, uuid) "
        "WHERE uuid IS NOT NULL",
        """CREATE TABLE {schema}.sessions (
            project text NOT NULL, session text NOT NULL, mtime bigint, summary text,
            epoch bigint NOT NULL DEFAULT 0, holder text NOT NULL DEFAULT '', expires_at float8 NOT NULL DEFAULT 0,
            PRIMARY KEY (project, session)
        )""",
    ),
)
"""The statements that upgrade the schema from each version to the next, starting without a schema."""

FROZEN_SECONDS: Final = 30.0
"""How many seconds a suspended process can hold a transaction before the server rolls it back."""
MOST_IDLE: Final = 8
"""The maximum number of idle connections."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_HAS_DATA: Final = "mtime IS NOT NULL"
_NOW: Final = "extract(epoch from clock_timestamp())"


class PostgresStore(SummarisingStore):
    """Keeps sessions in tables of a PostgreSQL schema, for any number of machines.

    The first call creates or upgrades the schema and its tables. Characters that PostgreSQL refuses are escaped. Leases
    use the clock of the server.

    Args:
        conninfo: The connection string, such as `postgresql://user@host/database`.
        schema: The name of the schema.

    Raises:
        OptionsError: `psycopg` is not installed, or the schema is not a lower-case identifier.
    """

    def __init__(self, conninfo: str, *, schema: str = "claude_sessions") -> None:
        try:
            import psycopg
        except ImportError as error:
            message = 'PostgresStore needs psycopg 3: pip install "psycopg[binary]"'
            raise OptionsError(message, option="session_store") from error
        if not _NAME.fullmatch(schema):
            raise OptionsError(f"must be a lower-case identifier, not {schema!r}", option="schema")
        self._connect: Any = psycopg.connect
        self._conninfo = conninfo
        self._schema = schema
        self._idle: list[Connection[Any]] = []
        self._lock = ThreadLock()
        self._is_ready = False
        self._owner = os.getpid()
        weakref.finalize(self, _close_connections, self._idle, self._owner)

    def __repr__(self) -> str:
        # The connection string may contain a password.
        return f"PostgresStore(schema={self._schema!r})"

    def close(self) -> None:
        """Close idle connections. Later calls open new ones."""
        with self._lock:
            idle = self._idle[:]
            self._idle.clear()
        _close_connections(idle, self._owner)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        connection = self._borrow()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                yield cursor
        except BaseException:
            if connection.broken:
                connection.close()
            raise
        finally:
            self._return_connection(connection)

    def _borrow(self) -> "Connection[Any]":
        with self._lock:
            # In a forked process, the connections belong to the parent.
            if self._owner != os.getpid():
                self._idle = []
                self._owner = os.getpid()
            while self._idle:
                idle = self._idle.pop()
                if not idle.closed:
                    return idle
        connection: Connection[Any] = self._connect(self._conninfo, autocommit=True)
        milliseconds = str(int(FROZEN_SECONDS * 1000))
        connection.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (milliseconds,))
        if not self._is_ready:
            try:
                self._migrate(connection)
            except BaseException:
                connection.close()
                raise
            self._is_ready = True
        return connection

    def _return_connection(self, connection: "Connection[Any]") -> None:
        with self._lock:
            if not connection.closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _migrate(self, connection: "Connection[Any]") -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"claude-agent-py {self._schema}",))
            cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (self._schema,))
            if cursor.fetchone() is None:
                self._execute(cursor, "CREATE SCHEMA {schema}")
            self._execute(cursor, "CREATE TABLE IF NOT EXISTS {schema}.version (version int NOT NULL)")
            self._execute(cursor, "SELECT max(version) FROM {schema}.version")
            (found,) = cursor.fetchone() or (None,)
            version = int(found or 0)
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"the schema {self._schema} has version {version}, but at most {len(MIGRATIONS)} is supported; "
                    "upgrade claude-agent-py"
                )
            for number, statements in enumerate(MIGRATIONS[version:], version + 1):
                for statement in statements:
                    self._execute(cursor, statement)
                self._execute(cursor, "INSERT INTO {schema}.version VALUES (%s)", number)

    def _execute(self, cursor: Any, statement: str, *values: object) -> Any:
        """Execute a statement. The constructor has checked the name of the schema."""
        return cursor.execute(statement.replace("{schema}", self._schema), values)

    def _query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._transaction() as cursor:
            found: list[tuple[Any, ...]] = self._execute(cursor, statement, *map(_escape, values)).fetchall()
            return found

    def _append(self, place: Place, rows: list[Row], epoch: int | None) -> None:
        project, session, subpath = map(_escape, place)
        with self._transaction() as cursor:
            state, summary = self._lock_session(cursor, project, session)
            check_epoch(state, place.key, epoch)
            there = self._find_known_uuids(
                cursor, (project, session, subpath), [row.uuid for row in rows if row.uuid is not None]
            )
            new = drop_known(rows, there)
            insert = "INSERT INTO {schema}.entries (project, session, subpath, uuid, entry) VALUES (%s, %s, %s, %s, %s)"
            cursor.executemany(
                insert.replace("{schema}", self._schema),
                [(project, session, subpath, row.uuid and _escape(row.uuid), row.text) for row in new],
            )
            if not subpath:
                folded = update_summary(summary, place, new)
                update = f"UPDATE {{schema}}.sessions SET mtime = ({_NOW} * 1000)::bigint, summary = %s "  # noqa: S608
                self._execute(cursor, update + "WHERE project = %s AND session = %s", folded, project, session)

    def _lock_session(self, cursor: Any, project: str, session: str) -> tuple[LeaseState, str | None]:
        """Lock a session until the end of the transaction, and return its lease and its summary."""
        insert = "INSERT INTO {schema}.sessions (project, session) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        self._execute(cursor, insert, project, session)
        select = "SELECT epoch, holder, expires_at, summary FROM {schema}.sessions WHERE project = %s AND session = %s"
        epoch, holder, expires_at, summary = self._execute(cursor, select + " FOR UPDATE", project, session).fetchone()
        return LeaseState(epoch, _unescape(holder), expires_at), summary

    def _find_known_uuids(self, cursor: Any, key: tuple[str, str, str], uuids: list[str]) -> set[str]:
        select = "SELECT uuid FROM {schema}.entries WHERE project = %s AND session = %s AND subpath = %s"
        found = self._execute(
            cursor, select + " AND uuid = ANY(%s)", *key, [_escape(uuid) for uuid in uuids]
        ).fetchall()
        return {_unescape(uuid) for (uuid,) in found}

    def _load(self, place: Place) -> list[str]:
        select = "SELECT entry FROM {schema}.entries WHERE project = %s AND session = %s AND subpath = %s"
        return [entry for (entry,) in self._query(select + " ORDER BY number", *place)]

    def _list_sessions(self, project: str) -> dict[str, int]:
        select = f"SELECT session, mtime FROM {{schema}}.sessions WHERE project = %s AND {_HAS_DATA}"  # noqa: S608
        return {_unescape(session): mtime for session, mtime in self._query(select, project)}

    def _list_summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        select = f"SELECT session, mtime, summary FROM {{schema}}.sessions WHERE project = %s AND {_HAS_DATA}"  # noqa: S608
        return [(_unescape(session), mtime, summary) for session, mtime, summary in self._query(select, project)]

    def _list_subpaths(self, place: Place) -> list[str]:
        select = "SELECT DISTINCT subpath FROM {schema}.entries WHERE project = %s AND session = %s AND subpath != ''"
        return [_unescape(subpath) for (subpath,) in self._query(select, *place[:2])]

    def _delete(self, place: Place) -> None:
        project, session, subpath = map(_escape, place)
        delete = "DELETE FROM {schema}.entries WHERE project = %s AND session = %s"
        with self._transaction() as cursor:
            self._lock_session(cursor, project, session)
            if subpath:
                self._execute(cursor, delete + " AND subpath = %s", project, session, subpath)
                return
            self._execute(cursor, delete, project, session)
            update = "UPDATE {schema}.sessions SET mtime = NULL, summary = NULL WHERE project = %s AND session = %s"
            self._execute(cursor, update, project, session)

    def _find_projects(self, session: str) -> list[str]:
        select = f"SELECT project FROM {{schema}}.sessions WHERE session = %s AND {_HAS_DATA}"  # noqa: S608
        return [_unescape(project) for (project,) in self._query(select, session)]

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        project, session = map(_escape, place[:2])
        with self._transaction() as cursor:
            before, _ = self._lock_session(cursor, project, session)
            (now,) = cursor.execute(f"SELECT {_NOW}::float8").fetchone()
            state = change(before, now)
            update = "UPDATE {schema}.sessions SET epoch = %s, holder = %s, expires_at = %s "
            values = (state.epoch, _escape(state.holder), state.expires_at, project, session)
            self._execute(cursor, update + "WHERE project = %s AND session = %s", *values)
            return state


def _escape(text: Any) -> Any:
    """Return text for a column, in ASCII: PostgreSQL cannot store NUL and lone surrogates."""
    if not isinstance(text, str) or (text.isascii() and "\\" not in text):
        return text
    return json.dumps(text)[1:-1].replace('\\"', '"')


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    value: str = json.loads(f'"{text.replace(chr(34), chr(92) + chr(34))}"')
    return value


def _close_connections(connections: "list[Connection[Any]]", owner: int) -> None:
    if owner == os.getpid():
        for connection in connections:
            with contextlib.suppress(Exception):
                connection.close()
