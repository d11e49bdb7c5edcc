"""Delete old sessions with all their rows, old workflows of DBOS, and schedules."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from anyio import to_thread
from dbos import DBOSClient
from sqlalchemy import Connection, and_, delete, insert, or_, select
from sqlalchemy.exc import SQLAlchemyError

from claude_agent_py._base.log import logger
from claude_agent_py.fleet._dbos import _rows
from claude_agent_py.fleet._dbos._audit import Command
from claude_agent_py.fleet._dbos._database import Database, build_away_error, server_time
from claude_agent_py.fleet._dbos._line import WAITS, workflow_id
from claude_agent_py.fleet._dbos._store import store_key
from claude_agent_py.fleet._dbos._tables import (
    DBOS_WORKFLOWS,
    archives,
    audit,
    events,
    interactions,
    leftovers,
    runs,
    sessions,
    workers,
)
from claude_agent_py.sessions import SessionStore
from claude_agent_py.sessions.stores.protocol import implements

T = TypeVar("T")

PRUNABLE: Final = ("idle", "failed", "cancelled")
"""The states of sessions that do not run and wait for nothing."""
BATCH: Final = 50
"""How many sessions or workflows one transaction deletes."""
SCHEDULE_SECONDS: Final = 60.0
"""Seconds that a workflow is kept at least: DBOS uses it to see that a schedule has fired."""


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
    """Delete sessions that ended long ago, and their conversations if a store is given. Return the deleted sessions.

    Raises:
        FleetError: The database does not answer.
    """
    pruned: list[Pruned] = []
    while batch := await database.write(prune_sessions, seconds, machine):
        pruned += batch
        await _delete_conversations(database, store)
    await _delete_conversations(database, store)
    await _run_in_thread(prune_workflows, database, seconds)
    return pruned


async def _delete_conversations(database: Database, store: SessionStore | None) -> None:
    """Delete the conversations of deleted sessions from the store, if one is given and it supports that.

    A conversation that cannot be deleted is logged, and left for the next time.
    """
    if store is None:
        return
    can_delete = implements(store, "delete")
    after = ""
    while found := await database.read(_load_leftovers, after):
        after = found[-1]
        done = []
        for conversation in found:
            try:
                if can_delete:
                    await store.delete(store_key(conversation))  # type: ignore[attr-defined]
                done.append(conversation)
            except Exception as error:  # a store of any make
                logger.warning("the conversation %s could not be deleted yet: %s", conversation, error)
        await database.write(_forget_leftovers, done)


def _load_leftovers(connection: Connection, after: str) -> Sequence[str]:
    query = select(leftovers.c.conversation).where(leftovers.c.conversation > after)
    return connection.execute(query.order_by(leftovers.c.conversation).limit(BATCH)).scalars().all()


def _forget_leftovers(connection: Connection, conversations: Sequence[str]) -> None:
    connection.execute(delete(leftovers).where(leftovers.c.conversation.in_(conversations)))


def prune_sessions(connection: Connection, seconds: float, machine: str | None) -> list[Pruned]:
    """Delete and return a batch of sessions that have not changed for `seconds`, oldest first.

    With a machine, only delete sessions whose workspace is on it, or on no machine with a worker.
    """
    before = server_time(connection) - seconds
    old = select(*(sessions.c[name] for name in Pruned._fields))
    old = old.where(sessions.c.state.in_(PRUNABLE), sessions.c.updated_at < before)
    if machine is not None:
        has_no_worker = sessions.c.machine.not_in(select(workers.c.machine))
        old = old.where(or_(sessions.c.machine.is_(None), sessions.c.machine == machine, has_no_worker))
    oldest = old.order_by(sessions.c.updated_at).limit(BATCH)
    found = [Pruned(*row) for row in connection.execute(oldest.with_for_update(skip_locked=True))]
    if found:
        connection.execute(insert(leftovers), [{"conversation": session.cli_session} for session in found])
    ids = [session.id for session in found]
    for table in (events, interactions, runs, archives, audit):
        connection.execute(delete(table).where(table.c.session.in_(ids)))
    connection.execute(delete(sessions).where(sessions.c.id.in_(ids)))
    return found


async def prune_events(
    database: Database, seconds: float, session: str | None = None, command: Command | None = None
) -> int:
    """Delete old events of one session or of all, and return how many. Raises FleetError as `prune` does."""
    deleted = 0
    after: str | None = ""
    while after is not None:
        after, number = await database.write(_prune_events, seconds, after, session, command)
        deleted += number
    return deleted


def _prune_events(
    connection: Connection, seconds: float, after: str, session: str | None, command: Command | None
) -> tuple[str | None, int]:
    """Delete the old events of some sessions. Return the id of the last one, or None at the end, and how many."""
    before = server_time(connection) - seconds
    first = select(events.c.at).where(events.c.session == sessions.c.id, events.c.kind != "pruned")
    oldest = first.order_by(events.c.number).limit(1).scalar_subquery()
    old = select(sessions.c.id).where(sessions.c.id > after, sessions.c.created_at < before, oldest < before)
    if session is not None:
        old = old.where(sessions.c.id == session)
    found = connection.execute(old.order_by(sessions.c.id).limit(BATCH)).scalars().all()
    deleted = [_prune_session_events(connection, each, before) for each in found]
    for each, number in zip(found, deleted, strict=True):
        if number and command is not None:
            replace(command, session=each, key=f"{command.key}:{each}").record(connection, events=number)
    return found[-1] if len(found) == BATCH else None, sum(deleted)


def _prune_session_events(connection: Connection, session: str, before: float) -> int:
    """Replace the old events of a session by one that says so. Those of the current prompt are kept."""
    row = _rows.lock_session(connection, session)
    run = _rows.find_current_run(connection, session)
    is_needed = events.c.at >= before
    if run is not None:
        is_needed = or_(is_needed, events.c.run >= run["number"])
    query = select(events.c.number).where(events.c.session == session, events.c.kind != "pruned", is_needed)
    kept = connection.scalar(query.order_by(events.c.number).limit(1))
    last = int(row["events"]) if kept is None else int(kept) - 1
    is_old = (events.c.session == session, events.c.number <= last)
    deleted = int(connection.execute(delete(events).where(*is_old, events.c.kind != "pruned")).rowcount)
    if deleted:
        connection.execute(delete(events).where(*is_old))
        told = {"session": session, "number": last, "run": 0, "kind": "pruned", "at": server_time(connection)}
        connection.execute(insert(events).values(**told, data=json.dumps({"first": 1, "last": last})))
    return deleted


def prune_workflows(database: Database, seconds: float) -> None:
    """Delete old workflows of DBOS that no session needs. Blocks."""
    now, needed = database.run(_load_needed_workflows)
    before = datetime.fromtimestamp(now, UTC) - timedelta(seconds=max(seconds, SCHEDULE_SECONDS))
    for batch in _iter_old_workflows(database.client, before, needed):
        database.client.delete_workflows(batch)


async def unschedule(database: Database, name: str) -> bool:
    """Delete a schedule, and return whether it existed. Raises FleetError if the database does not answer."""
    # Creates the tables, or raises if the database has no fleet.
    await database.read(lambda connection: None)
    return await _run_in_thread(_unschedule, database, name)


def _unschedule(database: Database, name: str) -> bool:
    if database.client.get_schedule(name) is None:
        return False
    database.client.delete_schedule(name)
    return True


async def _run_in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Call a blocking function; cancelling does not stop it. Raises FleetError if the database fails."""
    try:
        return await to_thread.run_sync(work, *arguments, abandon_on_cancel=True)
    except SQLAlchemyError as error:
        raise build_away_error(error) from error


def _load_needed_workflows(connection: Connection) -> tuple[float, frozenset[str]]:
    """Return the time, and the workflows of queued and running sessions. No other workflow is ever read again."""
    is_in_line = and_(sessions.c.state == "queued", sessions.c.line != WAITS)
    query = select(sessions.c.cli_session, sessions.c.step).where(or_(sessions.c.state == "running", is_in_line))
    return server_time(connection), frozenset(workflow_id(name, step) for name, step in connection.execute(query))


def _iter_old_workflows(client: DBOSClient, before: datetime, needed: frozenset[str]) -> Iterator[list[str]]:
    kept = 0
    while True:
        found = client.list_workflows(
            name=list(DBOS_WORKFLOWS),
            end_time=before.isoformat(),
            limit=BATCH,
            offset=kept,
            load_input=False,
            load_output=False,
        )
        old = [workflow.workflow_id for workflow in found if workflow.workflow_id not in needed]
        kept += len(found) - len(old)
        if old:
            yield old
        if len(found) < BATCH:
            return
