"""What workers do with the tables: live, claim sessions, write what happens in them, settle them, adopt the dead's.

Every write about a session names the epoch of its claim. A worker that was taken for dead has an earlier one, and gets
`LostError`: it writes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, delete, insert, or_, select, update

from claude_agent_py.fleet import _rows
from claude_agent_py.fleet._choosing import Place, choose, forget_turns
from claude_agent_py.fleet._database import lock, server_time
from claude_agent_py.fleet._tables import agents, interactions, runs, sessions, workers
from claude_agent_py.fleet.agents import FleetAgent


class LostError(Exception):
    """Another worker has the session."""


class Claim(NamedTuple):
    """A session that this worker runs, and the prompt at hand."""

    session: Mapping[str, Any]
    run: Mapping[str, Any]
    epoch: int

    @property
    def id(self) -> str:
        """The session."""
        return str(self.session["id"])

    @property
    def workflow_id(self) -> str:
        """The id of its workflow."""
        return f"{self.id}:{self.session['step']}"


# Living ---------------------------------------------------------------------------------------------------------------


def register(connection: Connection, row: Mapping[str, Any], lease: float, known: Sequence[FleetAgent]) -> None:
    """Enter a worker and its agents."""
    lock(connection)
    now = server_time(connection)
    times = {"started_at": now, "expires_at": now + lease}
    connection.execute(delete(workers).where(workers.c.id == row["id"]))  # it is there if the news of it was lost
    connection.execute(insert(workers).values(**row, **times, memory_used=0, is_draining=0))
    register_agents(connection, now, known)


def register_agents(connection: Connection, now: float, known: Sequence[FleetAgent]) -> None:
    """Enter agents by name and version, with their time limits, which processes that do not know them need."""
    query = select(agents.c.name, agents.c.version, agents.c.timeout)
    there = {(name, version): timeout for name, version, timeout in connection.execute(query)}
    for one in known:
        if (one.name, one.version) not in there:
            row = {"name": one.name, "version": one.version, "timeout": one.timeout}
            connection.execute(insert(agents).values(**row, registered_at=now))
        elif there[one.name, one.version] != one.timeout:
            entered = update(agents).where(agents.c.name == one.name, agents.c.version == one.version)
            connection.execute(entered.values(timeout=one.timeout))


def beat(connection: Connection, worker: str, lease: float, memory_used: int) -> bool | None:
    """Extend a worker's life. Returns whether it has to drain; None if it counts as dead."""
    change = update(workers).where(workers.c.id == worker)
    values = {"expires_at": server_time(connection) + lease, "memory_used": memory_used}
    found = connection.execute(change.values(values).returning(workers.c.is_draining)).scalar_one_or_none()
    return None if found is None else bool(found)


def leave(connection: Connection, worker: str) -> None:
    """Strike a worker off."""
    connection.execute(delete(workers).where(workers.c.id == worker))


def wishes(connection: Connection, worker: str) -> dict[str, tuple[int, str | None]]:
    """Return the epoch of each session that a worker has, and what is wanted of it."""
    query = select(sessions.c.id, sessions.c.epoch, sessions.c.wanted).where(sessions.c.worker == worker)
    return {session: (epoch, wanted) for session, epoch, wanted in connection.execute(query)}


def cancelled(connection: Connection, machine: str) -> Sequence[tuple[str, str, str]]:
    """Return the cancelled sessions that have a workspace on a machine, with their agents."""
    columns = (sessions.c.id, sessions.c.agent, sessions.c.version)
    query = select(*columns).where(sessions.c.state == "cancelled", sessions.c.machine == machine)
    return [(session, agent, version) for session, agent, version in connection.execute(query)]


def forget_machine(connection: Connection, session: str) -> None:
    """Note that the workspace of a cancelled session is removed."""
    change = update(sessions).where(sessions.c.id == session, sessions.c.state == "cancelled")
    connection.execute(change.values(machine=None))


# The dead -------------------------------------------------------------------------------------------------------------


def reap(connection: Connection, max_crashes: int) -> list[str]:
    """Free the sessions of dead workers, settle what is too late, and return the workers that were found dead."""
    lock(connection)
    now = server_time(connection)
    dead = list(connection.execute(select(workers.c.id).where(workers.c.expires_at < now)).scalars())
    lost = select(sessions.c.id).where(
        sessions.c.state == "running",
        or_(sessions.c.worker.in_(dead), sessions.c.worker.not_in(select(workers.c.id))),
    )
    for session in list(connection.execute(lost).scalars()):
        _free(connection, session, now, max_crashes)
    if dead:
        connection.execute(delete(workers).where(workers.c.id.in_(dead)))
    _settle_late(connection, now)
    forget_turns(connection)
    return dead


def _free(connection: Connection, session: str, now: float, max_crashes: int) -> None:
    row = _rows.locked(connection, session)
    run = _rows.current_run(connection, session)
    if row["wanted"] == "cancel":
        _rows.cancel_now(connection, session, now, row["reason"] or "cancelled")
        return
    if run is None:
        _rows.follow_up(connection, session, 0, now)
        return
    _rows.change_run(connection, session, run["number"], crashes=run["crashes"] + 1)
    if run["crashes"] >= max_crashes:
        reason = f"{run['crashes'] + 1} workers died at it"
        _fail(connection, session, run["number"], now, {"error": "WorkerDied", "reason": reason})
        return
    _rows.withdraw(connection, session, now)
    _rows.set_state(connection, session, run["number"], now, "queued", worker=None, is_orphan=1, not_before=0.0)


def _settle_late(connection: Connection, now: float) -> None:
    late = select(runs.c.session, runs.c.number).join(sessions, sessions.c.id == runs.c.session)
    late = late.where(runs.c.state.in_(_rows.OPEN), runs.c.deadline < now, sessions.c.state.in_(("queued", "waiting")))
    for session, number in connection.execute(late).all():
        _rows.withdraw(connection, session, now)
        told = {"error": "RunTimeoutError", "reason": "it was not over in time"}
        _fail(connection, session, number, now, told)


def _fail(connection: Connection, session: str, number: int, now: float, result: Mapping[str, Any]) -> None:
    """Make a session a dead letter."""
    _rows.end_run(connection, session, number, now, "failed", result)
    reason = ": ".join(part for part in (result.get("error"), result.get("reason")) if part)
    _rows.set_state(connection, session, number, now, "failed", reason=reason, **_rows.RELEASED)


# Claiming -------------------------------------------------------------------------------------------------------------


def claim(connection: Connection, place: Place, known: Sequence[FleetAgent], count: int) -> list[Claim]:
    """Take up to `count` queued sessions, one worker at a time, so that limits and shares hold exactly."""
    lock(connection)
    now = server_time(connection)
    return [_take(connection, session, place, now) for session in choose(connection, place, known, count, now)]


def _take(connection: Connection, row: RowMapping, place: Place, now: float) -> Claim:
    run = _rows.current_run(connection, row["id"])
    assert run is not None  # noqa: S101 - a queued session has one
    epoch = row["epoch"] + 1
    taken = {"worker": place.worker, "machine": place.machine, "epoch": epoch, "is_orphan": 0, "reason": None}
    _rows.set_state(connection, row["id"], run["number"], now, "running", **taken)
    started_at = now if run["started_at"] is None else run["started_at"]
    counted = {"claims": run["claims"] + 1, "started_at": started_at}
    _rows.change_run(connection, row["id"], run["number"], state="running", **counted)
    if not run["claims"]:
        begun = {"run": run["number"], "state": "running", "worker": place.worker}
        _rows.add_events(connection, row["id"], run["number"], [("run", now, begun)])
    return Claim({**row, "worker": place.worker}, dict(run), epoch)


# While it runs --------------------------------------------------------------------------------------------------------


def check(connection: Connection, claim: Claim) -> RowMapping:
    """Lock a claimed session and return its row. Raises LostError."""
    row = _rows.locked(connection, claim.id)
    if row["epoch"] != claim.epoch or row["state"] != "running":
        raise LostError(claim.id)
    return row


def write_events(
    connection: Connection, claim: Claim, batch: str, new: Sequence[tuple[str, float, Mapping[str, Any]]]
) -> None:
    """Append events, once for each batch. Raises LostError."""
    row = check(connection, claim)
    if row["last_batch"] == batch:
        return  # it arrived, but not the news of it
    _rows.add_events(connection, claim.id, claim.run["number"], new, last_batch=batch)


def ask(connection: Connection, claim: Claim, row: Mapping[str, Any]) -> str | None:
    """Enter a question, and return None; or the reply, if the same was asked and answered in this run.

    Raises LostError.
    """
    check(connection, claim)
    run = claim.run["number"]
    same = (interactions.c.session == claim.id, interactions.c.run == run, interactions.c.digest == row["digest"])
    query = select(interactions).where(*same, interactions.c.state == "answered").order_by(interactions.c.created_at)
    found = connection.execute(query.limit(1)).mappings().one_or_none()
    if found is not None:
        change = update(interactions).where(interactions.c.id == found["id"])
        connection.execute(change.values(state="used"))
        return str(found["reply"])
    now = server_time(connection)
    fixed = {"session": claim.id, "run": run, "state": "pending", "created_at": now}
    connection.execute(insert(interactions).values(**row, **fixed))
    told = {"id": row["id"], "state": "pending", "kind": row["kind"], "request": json.loads(row["request"])}
    _rows.add_events(connection, claim.id, run, [("interaction", now, told)])
    return None


def answered(connection: Connection, claim: Claim) -> list[dict[str, Any]]:
    """Return the requests that the run ended at and that were answered since, oldest first."""
    same = (interactions.c.session == claim.id, interactions.c.run == claim.run["number"])
    query = select(interactions.c.request).where(*same, interactions.c.state == "answered")
    found = connection.execute(query.order_by(interactions.c.created_at)).scalars()
    return [json.loads(request) for request in found]


def answer_of(connection: Connection, interaction: str) -> RowMapping | None:
    """Return a question once it is settled, or None."""
    query = select(interactions).where(interactions.c.id == interaction, interactions.c.state != "pending")
    return connection.execute(query).mappings().one_or_none()


def close_question(connection: Connection, interaction: str, state: str) -> None:
    """Note that an answer was used, or that the CLI withdrew its question."""
    was = "answered" if state == "used" else "pending"
    change = update(interactions).where(interactions.c.id == interaction, interactions.c.state == was)
    connection.execute(change.values(state=state))


def renew_uuid(connection: Connection, claim: Claim) -> str:
    """Put another uuid of the prompt on record, before the prompt is sent again. Raises LostError."""
    check(connection, claim)
    uuid = str(uuid4())
    _rows.change_run(connection, claim.id, claim.run["number"], uuid=uuid)
    return uuid


def abandon(connection: Connection, claimed: Mapping[str, int], worker: str) -> None:
    """Queue sessions again that a worker has by the table, but not in fact."""
    now = server_time(connection)
    for session, epoch in claimed.items():
        row = _rows.locked(connection, session)
        if (row["worker"], row["epoch"], row["state"]) == (worker, epoch, "running"):
            _rows.set_state(connection, session, 0, now, "queued", worker=None, step=row["step"] + 1)


# Settling -------------------------------------------------------------------------------------------------------------


def settle(connection: Connection, claim: Claim, outcome: Mapping[str, Any]) -> None:
    """Write what became of a claim. Raises LostError."""
    row, now = check(connection, claim), server_time(connection)
    kind, number, result = outcome["kind"], claim.run["number"], outcome.get("result") or {}
    if row["wanted"] == "cancel" or kind == "cancelled":
        _rows.cancel_now(connection, claim.id, now, row["reason"] or "cancelled")
    elif kind in ("done", "interrupted"):
        _rows.end_run(connection, claim.id, number, now, "done" if kind == "done" else "cancelled", result)
        _rows.follow_up(connection, claim.id, number, now)
    elif kind == "failed":
        _fail(connection, claim.id, number, now, result)
    elif kind == "later":
        _rows.change_run(connection, claim.id, number, attempts=claim.run["attempts"] + 1, uuid=str(uuid4()))
        later = {"queued_at": now, "not_before": now + outcome["pause"], "reason": outcome["reason"]}
        _rows.set_state(connection, claim.id, number, now, "queued", **later, **_rows.RELEASED)
    else:  # it waits for a person, or its worker ends
        waits = kind == "waiting" and _rows.waiting(connection, claim.id)
        state = "waiting" if waits else "queued"
        _rows.set_state(connection, claim.id, number, now, state, queued_at=now, **_rows.RELEASED)
