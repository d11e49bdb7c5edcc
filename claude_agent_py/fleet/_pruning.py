"""Delete sessions that have been over for long, with all that the database has of them; DBOS's rows; schedules."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

from anyio import to_thread
from dbos import DBOSClient
from sqlalchemy import Connection, delete, inspect, or_, select
from sqlalchemy.exc import SQLAlchemyError

from claude_agent_py._errors import StoreError
from claude_agent_py.fleet._database import Database, away, server_time
from claude_agent_py.fleet._serializing import JSONSerializer
from claude_agent_py.fleet._store import store_key
from claude_agent_py.fleet._tables import (
    DBOS_SCHEMA,
    DBOS_WORKFLOWS,
    archives,
    events,
    interactions,
    runs,
    sessions,
    workers,
)
from claude_agent_py.sessions.stores.protocol import SessionStore, implements

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("claude_agent_py")

OVER: Final = ("idle", "failed", "cancelled")
"""The states of sessions that nobody runs, and that wait for nothing."""
BATCH: Final = 50
"""How many sessions, or workflows, one transaction deletes."""
SCHEDULE_SECONDS: Final = 60.0
"""For how long a workflow stays at least: by it DBOS knows that a schedule has fired."""


class Pruned(NamedTuple):
    """A session that was deleted."""

    id: str
    agent: str
    version: str
    machine: str | None
    cli_session: str


async def prune(
    database: Database, store: SessionStore | None, seconds: float, machine: str | None = None
) -> list[Pruned]:
    """Delete what has been over for so long, with the conversations if there is a store. Returns the sessions.

    Raises:
        FleetError: The database does not answer.
    """
    pruned: list[Pruned] = []
    while batch := await database.call(prune_sessions, seconds, machine):
        pruned += batch
        for one in batch:
            await _forget(store, one)
    await _in_thread(prune_workflows, database, seconds)
    return pruned


async def _forget(store: SessionStore | None, session: Pruned) -> None:
    """Delete a conversation from the store. One that the store does not delete stays."""
    if store is None or not implements(store, "delete"):
        return
    try:
        await store.delete(store_key(session.cli_session))  # type: ignore[attr-defined]
    except StoreError as error:
        logger.warning("the conversation %s of session %s stays: %s", session.cli_session, session.id, error)


def prune_sessions(connection: Connection, seconds: float, machine: str | None) -> list[Pruned]:
    """Delete some sessions that are over and did not change for so long, oldest first, and return them.

    With a machine, only those whose workspace is there, or on no machine with a worker.
    """
    columns = (sessions.c.id, sessions.c.agent, sessions.c.version, sessions.c.machine, sessions.c.cli_session)
    before = server_time(connection) - seconds
    query = select(*columns).where(sessions.c.state.in_(OVER), sessions.c.updated_at < before)
    if machine is not None:
        away = sessions.c.machine.not_in(select(workers.c.machine))
        query = query.where(or_(sessions.c.machine.is_(None), sessions.c.machine == machine, away))
    query = query.order_by(sessions.c.updated_at).limit(BATCH).with_for_update(skip_locked=True)
    found = [Pruned(*row) for row in connection.execute(query)]
    ids = [one.id for one in found]
    for table in (events, interactions, runs, archives):
        connection.execute(delete(table).where(table.c.session.in_(ids)))
    connection.execute(delete(sessions).where(sessions.c.id.in_(ids)))
    return found


def prune_workflows(database: Database, seconds: float) -> None:
    """Delete DBOS's rows of workflows that began before, and that no session needs. Blocks."""
    now, needed = database.run(_needed, write=False)
    before = datetime.fromtimestamp(now, UTC) - timedelta(seconds=max(seconds, SCHEDULE_SECONDS))
    with _dbos(database) as client:
        if client is not None:
            for batch in _batches(client, before, needed):
                client.delete_workflows(batch)


async def unschedule(database: Database, name: str) -> bool:
    """Delete a schedule, and return whether it was there. Raises FleetError if the database does not answer."""
    await database.call(lambda connection: None, write=False)  # makes the tables, or tells that there are none
    return await _in_thread(_unschedule, database, name)


def _unschedule(database: Database, name: str) -> bool:
    with _dbos(database) as client:
        if client is None or client.get_schedule(name) is None:
            return False
        client.delete_schedule(name)
        return True


async def _in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Call what blocks; when it is cancelled, its transactions go on. Raises FleetError if the database failed."""
    try:
        return await to_thread.run_sync(work, *arguments, abandon_on_cancel=True)
    except SQLAlchemyError as error:
        raise away(error) from error


@contextmanager
def _dbos(database: Database) -> Iterator[DBOSClient | None]:
    """Open DBOS's tables; None before the first worker makes them."""
    schema = None if database.is_sqlite else DBOS_SCHEMA
    if not inspect(database.engine).has_table("workflow_status", schema=schema):
        yield None
        return
    client = DBOSClient(
        system_database_engine=database.engine,
        dbos_system_schema=schema,
        serializer=JSONSerializer(),
        lazy=True,
        retry_connection_errors=False,
    )
    try:
        yield client
    finally:
        client.destroy()


def _needed(connection: Connection) -> tuple[float, frozenset[str]]:
    """Return the time, and the workflows of sessions that run, or whose worker died. Others are never looked at."""
    query = select(sessions.c.id, sessions.c.step).where(or_(sessions.c.state == "running", sessions.c.is_orphan == 1))
    return server_time(connection), frozenset(f"{name}:{step}" for name, step in connection.execute(query))


def _batches(client: DBOSClient, before: datetime, needed: frozenset[str]) -> Iterator[list[str]]:
    kept, is_last = 0, False
    while not is_last:
        found = client.list_workflows(
            name=list(DBOS_WORKFLOWS),
            end_time=before.isoformat(),
            limit=BATCH,
            offset=kept,
            load_input=False,
            load_output=False,
        )
        is_last = len(found) < BATCH
        old = [one.workflow_id for one in found if not _is_needed(one.workflow_id, needed)]
        kept += len(found) - len(old)
        if old:
            yield old


def _is_needed(workflow: str, needed: frozenset[str]) -> bool:
    return workflow in needed or re.sub(r":\d+$", "", workflow) in needed
