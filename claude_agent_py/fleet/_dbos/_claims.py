"""Database operations of workers: leases, beginning and settling sessions, events, and the sessions of dead workers.

Every write to a session names the epoch of its claim. A worker that was wrongly declared dead has an older epoch: its
write raises `LostError` and changes nothing.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, func, insert, or_, select, tuple_, update

from claude_agent_py.fleet._dbos import _rows, _totals
from claude_agent_py.fleet._dbos._database import server_time
from claude_agent_py.fleet._dbos._line import (
    ANYWHERE,
    DELAYED,
    IN_LINE,
    RELEASED,
    WAITS,
    add_events,
    admit_waiting,
    change_session,
    count_running,
    leave_line,
    leave_worker,
    load_share,
    move_anywhere,
    queue_session,
    set_state,
)
from claude_agent_py.fleet._dbos._tables import abilities, agents, events, interactions, meta, runs, sessions, workers
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.wire.base import JSONObject

AFFINITY_SECONDS: Final = 5.0
"""Seconds that a session waits for the machine with its workspace before another machine may run it."""
OVERDUE: Final = "the prompt was not answered in time"
RESULT_EVENTS: Final = 50
"""Among how many of a run's last messages its result is looked for."""


class LostError(Exception):
    """Another worker has the session."""


class Claim(NamedTuple):
    """A session that this worker runs, and its current prompt."""

    session: Mapping[str, Any]
    run: Mapping[str, Any]
    epoch: int

    @property
    def id(self) -> str:
        return str(self.session["id"])


class Work(NamedTuple):
    """A queue of the engine that has sessions for a worker."""

    agent: str
    version: str
    place: str
    """The machine that they wait for, or `*`."""


# Workers --------------------------------------------------------------------------------------------------------------


def register(
    connection: Connection,
    row: Mapping[str, object],
    lease: float,
    known: Sequence[FleetAgent],
    tenant_limit: int | None,
) -> None:
    """Insert a worker and its agents."""
    now = server_time(connection)
    times = {"started_at": now, "expires_at": now + lease}
    # The rows exist if an earlier call committed but its connection broke.
    _delete_workers(connection, [str(row["id"])])
    connection.execute(insert(workers).values(**row, **times))
    for agent in known:
        connection.execute(insert(abilities).values(worker=row["id"], agent=agent.name, version=agent.version))
    register_agents(connection, now, known)
    connection.execute(update(meta).values(tenant_limit=tenant_limit))
    admit_waiting(connection, sessions.c.agent.in_([agent.name for agent in known]))


def register_agents(connection: Connection, now: float, known: Sequence[FleetAgent]) -> None:
    """Store agents by name and version. Processes that do not register them read their settings from the table.

    Raises IntegrityError if another process has stored one just now.
    """
    stored = {(row["name"], row["version"]): row for row in connection.execute(select(agents)).mappings()}
    for agent in known:
        row = stored.get((agent.name, agent.version))
        settings = {"timeout": agent.timeout, "after_failure": agent.after_failure}
        if row is None:
            new = {"name": agent.name, "version": agent.version, "registered_at": now, **settings}
            connection.execute(insert(agents).values(new))
        elif any(row[name] != value for name, value in settings.items()):
            change = update(agents).where(agents.c.name == agent.name, agents.c.version == agent.version)
            connection.execute(change.values(settings))


def extend_lease(connection: Connection, worker: str, lease: float, memory_used: int) -> bool | None:
    """Extend a worker's lease. Returns whether it has to drain, or None if it was declared dead."""
    change = update(workers).where(workers.c.id == worker)
    values = {"expires_at": server_time(connection) + lease, "memory_used": memory_used}
    found = connection.execute(change.values(values).returning(workers.c.is_draining)).scalar_one_or_none()
    return None if found is None else bool(found)


def unregister(connection: Connection, worker: str) -> None:
    _delete_workers(connection, [worker])


def _delete_workers(connection: Connection, ids: Sequence[str]) -> None:
    connection.execute(delete(workers).where(workers.c.id.in_(ids)))
    connection.execute(delete(abilities).where(abilities.c.worker.in_(ids)))


def load_wanted(connection: Connection, worker: str) -> dict[str, tuple[int, str | None]]:
    """Return the epoch and the requested action of each session that a worker has claimed."""
    query = select(sessions.c.id, sessions.c.epoch, sessions.c.wanted).where(sessions.c.worker == worker)
    return {session: (epoch, wanted) for session, epoch, wanted in connection.execute(query)}


def list_cancelled(connection: Connection, machine: str) -> Sequence[RowMapping]:
    """Return the cancelled sessions that have a workspace on a machine."""
    query = select(sessions).where(sessions.c.state == "cancelled", sessions.c.machine == machine)
    return connection.execute(query).mappings().all()


def forget_machine(connection: Connection, session: str) -> None:
    """Record that the workspace of a cancelled session was removed."""
    change = update(sessions).where(sessions.c.id == session, sessions.c.state == "cancelled")
    connection.execute(change.values(machine=None, workspace=None))


# Dead workers ---------------------------------------------------------------------------------------------------------


def free_dead(connection: Connection, max_crashes: int) -> list[str]:
    """Queue the sessions of dead workers, fail overdue runs, and return the ids of the dead workers."""
    now = server_time(connection)
    dead = list(connection.execute(select(workers.c.id).where(workers.c.expires_at < now)).scalars())
    is_lost = (
        sessions.c.state == "running",
        or_(sessions.c.worker.in_(dead), sessions.c.worker.not_in(select(workers.c.id))),
    )
    lost = select(sessions).where(*is_lost).order_by(sessions.c.id).with_for_update(skip_locked=True)
    rows = connection.execute(lost).mappings().all()
    crashed = [row["tenant"] for row in rows if _free_session(connection, row, now, max_crashes)]
    _fail_overdue(connection, now)
    _totals.add_crashes(connection, crashed)
    return dead


def delete_dead(connection: Connection, dead: Sequence[str]) -> None:
    """Delete dead workers once their workflows are back in the queues."""
    expired = select(workers.c.id).where(workers.c.id.in_(dead), workers.c.expires_at < server_time(connection))
    _delete_workers(connection, connection.execute(expired).scalars().all())


def _free_session(connection: Connection, row: RowMapping, now: float, max_crashes: int) -> bool:
    """Free a session of a dead worker. Return whether a run had a crash."""
    session = row["id"]
    run = _rows.find_current_run(connection, session)
    if row["wanted"] == "cancel":
        _rows.cancel_session(connection, row, now, row["reason"] or "cancelled")
    elif run is None:
        _rows.queue_next_run(connection, row, 0, now)
    else:
        _rows.change_run(connection, session, run["number"], crashes=run["crashes"] + 1)
        if run["crashes"] + 1 >= max_crashes:
            reason = f"{run['crashes'] + 1} workers died while running it"
            _fail_run(connection, row, run["number"], now, {"error": "WorkerDied", "reason": reason})
        else:
            _rows.withdraw_questions(connection, session, now)
            queue_session(connection, row, run["number"], now, is_orphan=1)
    leave_worker(connection, row["tenant"])
    return run is not None and row["wanted"] != "cancel"


def _fail_overdue(connection: Connection, now: float) -> None:
    # A worker that runs a prompt watches its deadline itself.
    nobody_watches = or_(sessions.c.state.in_(("queued", "waiting")), runs.c.state == "queued")
    late = select(runs.c.session, runs.c.number).join(sessions, sessions.c.id == runs.c.session)
    late = late.where(runs.c.state.in_(_rows.OPEN), runs.c.deadline < now, nobody_watches)
    for session, number in connection.execute(late.order_by(runs.c.session, runs.c.number)).all():
        row = _rows.lock_session(connection, session)
        # It was cancelled in between, or failed with an earlier prompt.
        if _rows.is_open(connection, session, number):
            _fail_run(connection, row, number, now, {"error": "RunTimeoutError", "reason": OVERDUE})


def _fail_run(connection: Connection, session: RowMapping, number: int, now: float, result: Mapping[str, Any]) -> None:
    """Fail a run. The prompts behind it run, or fail too. The session becomes a dead letter if none is left."""
    name = session["id"]
    current = _rows.find_current_run(connection, name)
    _rows.end_run(connection, name, number, now, "failed", result)
    reason = ": ".join(part for part in (result.get("error"), result.get("reason")) if part)
    query = select(agents.c.after_failure).where(agents.c.name == session["agent"])
    if connection.scalar(query.where(agents.c.version == session["version"])) == "fail":
        is_behind = (runs.c.session == name, runs.c.number > number, runs.c.state.in_(_rows.OPEN))
        behind = select(runs.c.number).where(*is_behind).order_by(runs.c.number)
        failure = {"error": _rows.EARLIER_FAILED, "reason": f"prompt {number} failed: {reason}"}
        for later in connection.execute(behind).scalars().all():
            _rows.end_run(connection, name, later, now, "failed", failure)
    # A prompt behind the current one failed, because its time was over.
    if current is not None and current["number"] != number:
        return
    _rows.withdraw_questions(connection, name, now)
    if _rows.find_current_run(connection, name) is not None:
        queue_session(connection, session, number, now)
    else:
        _rows.end_session(connection, session, number, now, "failed", reason)


# Taking sessions ------------------------------------------------------------------------------------------------------


def find_work(connection: Connection, machine: str, known: Collection[tuple[str, str]]) -> list[Work]:
    """Return the queues of these agents that have sessions for a machine, those with urgent and old sessions first."""
    now = server_time(connection)
    is_ready = and_(sessions.c.state == "queued", sessions.c.line.in_((IN_LINE, DELAYED)), sessions.c.not_before <= now)
    is_mine = or_(sessions.c.place.in_((ANYWHERE, machine)), _may_leave(now))
    names = (sessions.c.agent, sessions.c.version, sessions.c.place)
    query = select(*names).where(is_ready, is_mine, tuple_(*names[:2]).in_(list(known))).group_by(*names)
    query = query.order_by(func.max(sessions.c.priority).desc(), func.min(sessions.c.queued_at))
    return [Work(agent, version, place) for agent, version, place in connection.execute(query)]


def move_here(connection: Connection, work: Work) -> None:
    """Let all machines run the sessions in line that wait for one for long, or for one without a worker."""
    now = server_time(connection)
    alike = (sessions.c.agent == work.agent, sessions.c.version == work.version, sessions.c.place == work.place)
    query = select(sessions).where(sessions.c.state == "queued", sessions.c.line.in_((IN_LINE, DELAYED)), *alike)
    query = query.where(sessions.c.not_before <= now, _may_leave(now)).order_by(sessions.c.id)
    for row in connection.execute(query.with_for_update(skip_locked=True)).mappings().all():
        move_anywhere(connection, row)


def _may_leave(now: float) -> ColumnElement[bool]:
    has_waited = sessions.c.queued_at < now - AFFINITY_SECONDS
    return or_(has_waited, sessions.c.place.not_in(select(workers.c.machine)))


def begin(
    connection: Connection,
    session: str,
    step: int,
    worker: str,
    machine: str,
    known: Mapping[tuple[str, str], FleetAgent],
) -> Claim | None:
    """Begin a queued session, and return it with its prompt; None if the workflow has nothing to do any more."""
    row = (
        connection.execute(select(sessions).where(sessions.c.id == session).with_for_update()).mappings().one_or_none()
    )
    # The session may have been deleted, and its id used again.
    if row is None or row["step"] != step:
        return None
    run = _rows.find_current_run(connection, session)
    if run is not None and (row["state"], row["worker"]) == ("running", worker):
        # An earlier attempt committed, but its connection broke.
        return Claim(dict(row), dict(run), row["epoch"])
    if run is None or row["state"] != "queued":
        return None
    share = load_share(connection, row["tenant"])
    room = inf if share.limit is None else share.limit - count_running(connection, row["tenant"])
    leave_line(connection, row, is_full=room <= 1)
    if room < 1:
        reason = f"the tenant {row['tenant']!r} has reached its limit of {share.limit} running sessions"
        change_session(connection, session, line=WAITS, reason=reason)
        return None
    now = server_time(connection)
    workspace = known[row["agent"], row["version"]].workspace
    home = None if workspace is None or workspace.is_shared else machine
    changes = {"worker": worker, "machine": home, "epoch": row["epoch"] + 1, "line": WAITS, "reason": None}
    started = [("run", now, {"run": run["number"], "state": "running", "worker": worker})]
    first = [] if run["claims"] else started
    set_state(connection, session, run["number"], now, "running", first=first, **changes)
    started_at = now if run["started_at"] is None else run["started_at"]
    claims = run["claims"] + 1
    _rows.change_run(connection, session, run["number"], state="running", claims=claims, started_at=started_at)
    return Claim({**row, **changes}, dict(run), row["epoch"] + 1)


# Running sessions -----------------------------------------------------------------------------------------------------


def check_claim(connection: Connection, claim: Claim) -> RowMapping:
    """Lock a claimed session and return its row. Raises LostError."""
    row = _rows.lock_session(connection, claim.id)
    if row["epoch"] != claim.epoch or row["state"] != "running":
        raise LostError(claim.id)
    return row


def note_workspace(connection: Connection, claim: Claim, path: str) -> None:
    """Store the path of the workspace. Raises LostError."""
    check_claim(connection, claim)
    change_session(connection, claim.id, workspace=path)


def write_events(
    connection: Connection, claim: Claim, batch: str, new: Sequence[tuple[str, float, Mapping[str, object]]]
) -> None:
    """Append a batch of events. A repeated batch is ignored. Raises LostError."""
    row = check_claim(connection, claim)
    # An earlier attempt committed the batch, but its connection broke.
    if row["last_batch"] == batch:
        return
    add_events(connection, claim.id, claim.run["number"], new, last_batch=batch)


def open_question(connection: Connection, claim: Claim, row: Mapping[str, Any]) -> str | None:
    """Store a question, or return the reply if the same question was answered earlier in this run.

    Returns None if the question was stored. Raises LostError.
    """
    check_claim(connection, claim)
    run = claim.run["number"]
    is_same = (interactions.c.session == claim.id, interactions.c.run == run, interactions.c.digest == row["digest"])
    query = select(interactions).where(*is_same, interactions.c.state == "answered").order_by(interactions.c.created_at)
    found = connection.execute(query.limit(1)).mappings().one_or_none()
    if found is not None:
        change = update(interactions).where(interactions.c.id == found["id"])
        connection.execute(change.values(state="used"))
        return str(found["reply"])
    now = server_time(connection)
    new = {**row, "session": claim.id, "run": run, "state": "pending", "created_at": now}
    connection.execute(insert(interactions).values(new))
    data = {"id": row["id"], "state": "pending", "kind": row["kind"], "request": json.loads(row["request"])}
    add_events(connection, claim.id, run, [("interaction", now, data)])
    return None


def load_answered_requests(connection: Connection, claim: Claim) -> list[JSONObject]:
    """Return the requests at which the process ended and that were answered since, oldest first."""
    is_same = (interactions.c.session == claim.id, interactions.c.run == claim.run["number"])
    query = select(interactions.c.request).where(*is_same, interactions.c.state == "answered")
    found = connection.execute(query.order_by(interactions.c.created_at)).scalars()
    return [json.loads(request) for request in found]


def find_result(connection: Connection, claim: Claim) -> JSONObject | None:
    """Return the last success that an earlier process reported for the prompt; None if it is not among the events."""
    mine = (events.c.session == claim.id, events.c.run == claim.run["number"], events.c.kind == "message")
    query = select(events.c.data).where(*mine).order_by(events.c.number.desc()).limit(RESULT_EVENTS)
    messages: Iterator[JSONObject] = map(json.loads, connection.execute(query).scalars())
    return next((each for each in messages if each.get("type") == "result" and not each.get("is_error")), None)


def find_settled_question(connection: Connection, interaction: str) -> RowMapping | None:
    """Return a question if it was answered or withdrawn, or None."""
    query = select(interactions).where(interactions.c.id == interaction, interactions.c.state != "pending")
    return connection.execute(query).mappings().one_or_none()


def close_question(connection: Connection, interaction: str, state: str) -> None:
    """Record that an answer was used, or that the CLI withdrew its question."""
    previous = "answered" if state == "used" else "pending"
    change = update(interactions).where(interactions.c.id == interaction, interactions.c.state == previous)
    connection.execute(change.values(state=state))


def renew_uuid(connection: Connection, claim: Claim) -> str:
    """Store and return the next uuid of the prompt, before the prompt is sent again. Raises LostError."""
    check_claim(connection, claim)
    # A repeated call finds the uuid of the claim again, not the one that an earlier call has stored.
    uuid = _rows.next_uuid(claim.run["uuid"])
    _rows.change_run(connection, claim.id, claim.run["number"], uuid=uuid)
    return uuid


# Outcomes -------------------------------------------------------------------------------------------------------------


def settle(connection: Connection, claim: Claim, outcome: Mapping[str, Any]) -> None:
    """Store the outcome of a claim, and queue the session if it goes on. Raises LostError."""
    row = check_claim(connection, claim)
    now = server_time(connection)
    kind = outcome["kind"]
    number = claim.run["number"]
    result = outcome.get("result") or {}
    if row["wanted"] == "cancel" or kind == "cancelled":
        _rows.cancel_session(connection, row, now, row["reason"] or "cancelled")
    elif kind in ("done", "interrupted"):
        state = "done" if kind == "done" else "cancelled"
        _rows.end_run(connection, claim.id, number, now, state, result)
        _rows.queue_next_run(connection, row, number, now)
    elif kind == "failed":
        _fail_run(connection, row, number, now, result)
    elif kind == "later":
        changes: dict[str, object] = {"attempts": claim.run["attempts"] + int(outcome["is_attempt"])}
        # Otherwise the next attempt finds by its uuid what was done for the prompt, and continues.
        if outcome["has_turn_ended"]:
            changes["uuid"] = _rows.next_uuid(_rows.find_uuid(connection, claim.id, number))
        _rows.change_run(connection, claim.id, number, **changes)
        queue_session(connection, row, number, now, delay=outcome["pause"], reason=outcome["reason"])
    elif kind == "waiting" and _rows.count_pending_questions(connection, claim.id) > 0:
        set_state(connection, claim.id, number, now, "waiting", **RELEASED)
    else:
        # Its worker ends, or an answer arrived before the session could wait for it.
        queue_session(connection, row, number, now)
    # The worker did not hear of it before its process ended.
    if row["wanted"] == "interrupt" and kind in ("later", "waiting", "released"):
        _rows.interrupt(connection, claim.id)
    leave_worker(connection, row["tenant"])
    _totals.add_outcome(connection, row["tenant"], outcome)
