"""`SQLStore`: the tables and statements of the stores in a database, which differ in their connections and dialects."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from claude_agent_py.sessions.stores.base import ChangeLease, EntryRow, SummarisingStore, update_summary
from claude_agent_py.sessions.stores.protocol import LeaseState, Place, check_epoch

SQLRow: TypeAlias = tuple[Any, ...]
"""The values of a row, in the order of the statement's columns."""


class Cursor(Protocol):
    """The outcome of a statement, before the next one."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def __iter__(self) -> Iterator[SQLRow]:
        """Yield the rows that it selected."""
        ...


PAGE: Final = 100
"""The number of entries that are read at once."""
TABLES: Final = (
    """CREATE TABLE {schema}.entries (
        number {number},
        project text NOT NULL, session text NOT NULL, subpath text NOT NULL,
        uuid text, entry text NOT NULL
    )""",
    "CREATE INDEX entries_by_key ON {schema}.entries (session, project, subpath, number)",
    "CREATE UNIQUE INDEX entries_by_uuid ON {schema}.entries (session, project, subpath, uuid) WHERE uuid IS NOT NULL",
    """CREATE TABLE {schema}.sessions (
        project text NOT NULL, session text NOT NULL, mtime bigint NOT NULL, summary text NOT NULL,
        PRIMARY KEY (project, session)
    )""",
    """CREATE TABLE {schema}.leases (
        project text NOT NULL, session text NOT NULL,
        epoch bigint NOT NULL, holder text NOT NULL, expires_at float8 NOT NULL,
        PRIMARY KEY (project, session)
    )""",
)
Execute: TypeAlias = Callable[..., Cursor]
"""Runs a statement with the values of its `?` in a transaction."""


class SQLStore(SummarisingStore):
    """A store in a database.

    Statements name tables as `{schema}.name`, the time of the database, in seconds, as `{now}`, and the type of a
    primary key that counts up as `{number}`.
    """

    LOCK: ClassVar[str] = ""
    """The end of a SELECT that locks its rows, in a database whose transactions do not exclude each other."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Execute]:
        """Begin a transaction, which ends with the context: committed, or rolled back after an exception."""

    @abstractmethod
    def _query(self, statement: str, *values: object) -> list[SQLRow]:
        """Run a statement that only reads, and return the rows."""

    def _escape(self, text: str) -> str:
        """Return a text in the form of its column."""
        return text

    def _unescape(self, text: str) -> str:
        """Return the text of a column."""
        return text

    def _append(self, place: Place, rows: list[EntryRow], epoch: int | None) -> None:
        key = tuple(map(self._escape, place))
        with self._transaction() as execute:
            check_epoch(self._lock_session(execute, *key[:2]), place, epoch)
            new = self._insert(execute, key, rows)
            if not place.subpath:
                select = "SELECT summary FROM {schema}.sessions WHERE project = ? AND session = ?"
                [(before,)] = [*execute(select, *key[:2])] or [(None,)]
                execute(
                    "INSERT INTO {schema}.sessions (project, session, mtime, summary) "
                    "VALUES (?, ?, CAST({now} * 1000 AS bigint), ?) "
                    "ON CONFLICT (project, session) DO UPDATE SET mtime = excluded.mtime, summary = excluded.summary",
                    *key[:2],
                    update_summary(before, new),
                )

    def _insert(self, execute: Execute, key: tuple[str, ...], rows: list[EntryRow]) -> list[EntryRow]:
        """Insert the rows that are not stored yet. Return them."""
        insert = "INSERT INTO {schema}.entries (project, session, subpath, uuid, entry) VALUES (?, ?, ?, ?, ?) "
        insert += "ON CONFLICT DO NOTHING"
        return [row for row in rows if execute(insert, *key, row.uuid, row.text).rowcount]

    def _lock_session(self, execute: Execute, project: str, session: str) -> LeaseState:
        """Lock a session until the end of the transaction, and return its lease."""
        select = "SELECT epoch, holder, expires_at FROM {schema}.leases WHERE project = ? AND session = ?"
        found = [*execute(select + self.LOCK, project, session)]
        if not found:
            insert = "INSERT INTO {schema}.leases (project, session, epoch, holder, expires_at) "
            execute(insert + "VALUES (?, ?, 0, '', 0) ON CONFLICT DO NOTHING", project, session)
            found = [*execute(select + self.LOCK, project, session)]
        [(epoch, holder, expires_at)] = found
        return LeaseState(epoch, self._unescape(holder), expires_at)

    def _load(self, place: Place) -> Iterator[str]:
        select = "SELECT number, entry FROM {schema}.entries WHERE project = ? AND session = ? AND subpath = ? "
        select += f"AND number > ? ORDER BY number LIMIT {PAGE}"
        key, last = tuple(map(self._escape, place)), -1
        while rows := self._query(select, *key, last):
            yield from (entry for _, entry in rows)
            if len(rows) < PAGE:
                return
            last = rows[-1][0]

    def _list_sessions(self, project: str) -> dict[str, int]:
        select = "SELECT session, mtime FROM {schema}.sessions WHERE project = ?"
        return {self._unescape(session): mtime for session, mtime in self._query(select, self._escape(project))}

    def _list_summaries(self, project: str) -> list[tuple[str, int, str | bytes]]:
        select = "SELECT session, mtime, summary FROM {schema}.sessions WHERE project = ?"
        found = self._query(select, self._escape(project))
        return [(self._unescape(session), mtime, summary) for session, mtime, summary in found]

    def _list_subpaths(self, place: Place) -> list[str]:
        select = "SELECT DISTINCT subpath FROM {schema}.entries WHERE project = ? AND session = ? AND subpath != ''"
        return [self._unescape(subpath) for (subpath,) in self._query(select, *map(self._escape, place[:2]))]

    def _delete(self, place: Place) -> None:
        project, session, subpath = map(self._escape, place)
        delete = "DELETE FROM {schema}.entries WHERE project = ? AND session = ?"
        with self._transaction() as execute:
            self._lock_session(execute, project, session)
            if subpath:
                execute(delete + " AND subpath = ?", project, session, subpath)
            else:
                execute(delete, project, session)
                execute("DELETE FROM {schema}.sessions WHERE project = ? AND session = ?", project, session)

    def _find_projects(self, session: str) -> list[str]:
        select = "SELECT project FROM {schema}.sessions WHERE session = ?"
        return [self._unescape(project) for (project,) in self._query(select, self._escape(session))]

    def _read_lease(self, place: Place) -> tuple[LeaseState, float]:
        project, session = map(self._escape, place[:2])
        select = "SELECT epoch, holder, expires_at, {now} FROM {schema}.leases WHERE project = ? AND session = ?"
        [(epoch, holder, expires_at, now)] = self._query(select, project, session) or [(0, "", 0.0, 0.0)]
        return LeaseState(epoch, self._unescape(holder), expires_at), now

    def _change_lease(self, place: Place, change: ChangeLease) -> LeaseState:
        project, session = map(self._escape, place[:2])
        with self._transaction() as execute:
            before = self._lock_session(execute, project, session)
            [(now,)] = execute("SELECT {now}")
            state = change(before, now)
            update = "UPDATE {schema}.leases SET epoch = ?, holder = ?, expires_at = ? "
            values = (state.epoch, self._escape(state.holder), state.expires_at)
            execute(update + "WHERE project = ? AND session = ?", *values, project, session)
            return state
