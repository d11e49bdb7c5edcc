"""The line for the engine: which queued sessions have a workflow in the queue of their agent and version.

Of the queued sessions of a tenant that are alike in agent, version, priority and place, as many as the tenant's weight
are in line; the others wait. A session that leaves the line lets the next one in, in the same transaction. The engine
takes those in line by priority, then by age, so that tenants take turns, however many sessions each has. The engine
limits the running sessions of an agent; those of a tenant are counted here, when a worker begins a session.

Locks: what enters the line share-locks those in line, and what leaves it has its own row locked. So either the one that
enters sees that a place is free, or the one that leaves sees who waits.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from sqlalchemy import ColumnElement, Connection, RowMapping, func, insert, select, text, update

from claude_agent_py.fleet._dbos._database import LOCK
from claude_agent_py.fleet._dbos._tables import (
    APPLICATION_VERSION,
    DBOS_WORKFLOWS,
    abilities,
    events,
    meta,
    sessions,
    tenants,
    workers,
)

WAITS: Final = 0
"""Not in line: no workflow."""
IN_LINE: Final = 1
DELAYED: Final = 2
"""The engine enqueues its workflow after a delay. It does not count as in line."""
ANYWHERE: Final = "*"
RELEASED: Final[Mapping[str, Any]] = {"worker": None, "wanted": None, "is_orphan": 0}
"""The changes to a session's row when its worker releases it."""
PRIORITIES: Final = 2**30
"""The engine's priority of a session of priority 0. A lower number runs first."""
CLASS: Final = ("agent", "version", "tenant", "priority", "place")
"""The columns in which the sessions of one line are alike."""

Event = tuple[str, float, Mapping[str, object]]


class Share(NamedTuple):
    """How many sessions of a tenant may run, and be in line."""

    limit: int | None
    weight: float


# Events ---------------------------------------------------------------------------------------------------------------


def add_events(connection: Connection, session: str, run: int, new: Sequence[Event], **changes: object) -> None:
    """Append events, each with its kind and time, and change the session's row in the same statement."""
    change = update(sessions).where(sessions.c.id == session).values(events=sessions.c.events + len(new), **changes)
    last = connection.execute(change.returning(sessions.c.events)).scalar_one()
    first = last - len(new) + 1
    rows = [
        {"session": session, "number": first + i, "run": run, "kind": kind, "at": at, "data": json.dumps(data)}
        for i, (kind, at, data) in enumerate(new)
    ]
    connection.execute(insert(events), rows)


def set_state(
    connection: Connection,
    session: str,
    run: int,
    at: float,
    state: str,
    *,
    first: Sequence[Event] = (),
    **changes: Any,
) -> None:
    """Change the state of a session, and add an event, after other ones."""
    data = {"state": state}
    if changes.get("reason"):
        data["reason"] = changes["reason"]
    add_events(connection, session, run, [*first, ("state", at, data)], state=state, updated_at=at, **changes)


def change_session(connection: Connection, session: str, **values: object) -> None:
    connection.execute(update(sessions).where(sessions.c.id == session).values(values))


# The line -------------------------------------------------------------------------------------------------------------


def queue_session(
    connection: Connection,
    row: RowMapping,
    run: int,
    now: float,
    *,
    delay: float = 0.0,
    reason: str | None = None,
    first: Sequence[Event] = (),
    **changes: Any,
) -> None:
    """Queue a locked session for its next prompt, with a workflow if it is its tenant's turn."""
    if row["state"] == "queued":
        leave_line(connection, row)
    new: dict[str, Any] = {**row, "place": _choose_place(connection, row, now), "step": row["step"] + 1}
    new["line"] = DELAYED if delay else IN_LINE if _has_turn(connection, new) else WAITS
    values = {name: new[name] for name in ("place", "step", "line")}
    times = {"queued_at": now, "not_before": now + delay if delay else 0.0}
    changes = {**RELEASED, **values, **times, "reason": reason, **changes}
    set_state(connection, row["id"], run, now, "queued", first=first, **changes)
    if new["line"] != WAITS:
        _enqueue(connection, new, delay)


def move_anywhere(connection: Connection, row: RowMapping) -> None:
    """Let any machine run a locked session that is in line for one."""
    leave_line(connection, row)
    new: dict[str, Any] = {**row, "place": ANYWHERE, "step": row["step"] + 1}
    new["line"] = IN_LINE if _has_turn(connection, new) else WAITS
    change_session(connection, row["id"], **{name: new[name] for name in ("place", "step", "line")})
    if new["line"] != WAITS:
        _enqueue(connection, new, 0.0)


def leave_line(connection: Connection, row: RowMapping, *, is_full: bool = False) -> None:
    """Let the next session enter the line that a session leaves, unless its tenant has reached its limit."""
    if row["line"] == IN_LINE and not is_full:
        _admit_next(connection, *(sessions.c[name] == row[name] for name in CLASS))


def leave_worker(connection: Connection, tenant: str) -> None:
    """Let a session of a tenant with a limit enter the line, because one has ended."""
    share = load_share(connection, tenant)
    if share.limit is not None and count_running(connection, tenant) < share.limit:
        _admit_next(connection, sessions.c.tenant == tenant)


def admit_waiting(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Let sessions enter each line that is empty: limits have changed, or a worker of an older version queued them."""
    waiting = select(*(sessions.c[name] for name in CLASS)).where(
        sessions.c.state == "queued", sessions.c.line == WAITS
    )
    for row in connection.execute(waiting.where(condition).distinct().order_by(*CLASS)).mappings().all():
        alike = [sessions.c[name] == row[name] for name in CLASS]
        while _has_turn(connection, {**row, "id": ""}) and _admit_next(connection, *alike):
            pass


def _admit_next(connection: Connection, *conditions: ColumnElement[bool]) -> bool:
    """Let the most urgent of the oldest waiting sessions enter the line, and return whether there is one."""
    waiting = select(sessions).where(sessions.c.state == "queued", sessions.c.line == WAITS, *conditions)
    query = waiting.order_by(sessions.c.priority.desc(), sessions.c.queued_at).limit(1).with_for_update()
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return False
    new = {**row, "step": row["step"] + 1}
    change_session(connection, row["id"], line=IN_LINE, step=new["step"], reason=None)
    _enqueue(connection, new, 0.0)
    return True


def _has_turn(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Return whether the line of a session has a free place."""
    most = max(1, round(load_share(connection, row["tenant"]).weight))
    alike = (sessions.c[name] == row[name] for name in CLASS)
    query = select(sessions.c.id).where(sessions.c.state == "queued", sessions.c.line == IN_LINE, *alike)
    query = query.where(sessions.c.id != row["id"]).limit(most)
    # Those that are locked are about to leave the line.
    return len(connection.execute(query.with_for_update(read=True, skip_locked=True)).all()) < most


def _choose_place(connection: Connection, row: RowMapping, now: float) -> str:
    """Return the machine with the session's workspace if a worker of it lives, or `*`."""
    if row["machine"] is None:
        return ANYWHERE
    query = (
        select(workers.c.id)
        .join(abilities, abilities.c.worker == workers.c.id)
        .where(
            workers.c.machine == row["machine"],
            workers.c.expires_at > now,
            workers.c.is_draining == 0,
            abilities.c.agent == row["agent"],
            abilities.c.version == row["version"],
        )
    )
    return ANYWHERE if connection.execute(query.limit(1)).first() is None else str(row["machine"])


def _enqueue(connection: Connection, session: Mapping[str, Any], delay: float) -> None:
    """Enqueue the workflow of a session's current step, in the transaction of the caller."""
    options = {
        "workflow_name": DBOS_WORKFLOWS[0],
        "queue_name": queue_name(session["agent"], session["version"]),
        "workflow_id": workflow_id(session["cli_session"], session["step"]),
        "app_version": APPLICATION_VERSION,
        "priority": PRIORITIES - min(max(session["priority"], 1 - PRIORITIES), PRIORITIES - 1),
        "queue_partition_key": session["place"],
    }
    if delay:
        options["delay_seconds"] = delay
    database = connection.get_execution_options()["fleet_database"]
    database.client.enqueue_in_transaction(connection, options, session["id"], session["step"])


def queue_name(agent: str, version: str) -> str:
    """Return the name of the engine's queue of an agent and version."""
    return f"fleet:{quote(agent)}@{version}"


def workflow_id(cli_session: str, step: int) -> str:
    """Return the id of the workflow of a session's step."""
    return f"{cli_session}:{step}"


# Tenants --------------------------------------------------------------------------------------------------------------


def load_share(connection: Connection, tenant: str) -> Share:
    """Return the limit and the weight of a tenant."""
    query = select(meta.c.tenant_limit, tenants.c.session_limit, tenants.c.weight)
    found = connection.execute(query.select_from(meta.outerjoin(tenants, tenants.c.name == tenant))).one()
    return Share(found.tenant_limit if found.session_limit is None else found.session_limit, found.weight or 1.0)


def count_running(connection: Connection, tenant: str) -> int:
    """Return how many sessions of a tenant run. The number stays true until the end of the transaction."""
    connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK}, hashtext(:tenant))"), {"tenant": tenant})
    query = select(func.count()).select_from(sessions)
    return int(connection.scalar(query.where(sessions.c.state == "running", sessions.c.tenant == tenant)) or 0)


def set_tenant(connection: Connection, name: str, limit: int | None, weight: float) -> None:
    """Set the limit and the weight of a tenant."""
    count_running(connection, name)
    values = {"session_limit": limit, "weight": weight}
    if connection.execute(update(tenants).where(tenants.c.name == name).values(values)).rowcount == 0:
        connection.execute(insert(tenants).values(name=name, **values))
    admit_waiting(connection, sessions.c.tenant == name)
