"""Database operations of processes other than workers: start, send, answer, cancel, query. Each is one transaction."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, exists, func, insert, select, update

from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py.fleet._dbos._database import server_time
from claude_agent_py.fleet._dbos._line import RELEASED, add_events, change_session, leave_line, queue_session, set_state
from claude_agent_py.fleet._dbos._tables import (
    abilities,
    agents,
    events,
    interactions,
    runs,
    sessions,
    tenants,
    workers,
)
from claude_agent_py.fleet._engine import NewSession
from claude_agent_py.fleet.records import FleetEvent, FleetOutcome, FleetSessionInfo, FleetTenantInfo, FleetWorkerInfo

OPEN: tuple[str, ...] = ("queued", "running")
"""The states of a run that has not ended."""
EARLIER_FAILED: Final = "EarlierPromptFailed"
"""The error of a prompt that failed because one before it did."""


# Changes of prompts --------------------------------------------------------------------------------------------------


def change_run(connection: Connection, session: str, number: int, **values: object) -> None:
    connection.execute(update(runs).where(runs.c.session == session, runs.c.number == number).values(values))


def next_uuid(uuid: str) -> str:
    """Return the uuid with which a prompt is sent again. It follows from the last one, so that all send the same."""
    return str(uuid5(UUID(uuid), "again"))


def end_run(
    connection: Connection, session: str, number: int, at: float, state: str, result: Mapping[str, object]
) -> None:
    """End a run, and add an event."""
    change_run(connection, session, number, state=state, result=json.dumps(result), ended_at=at)
    data = {"run": number, "state": state, "text": result.get("text", ""), "reason": result.get("reason", "")}
    add_events(connection, session, number, [("run", at, data)])


# Sessions and prompts -------------------------------------------------------------------------------------------------


def lock_session(connection: Connection, session: str) -> RowMapping:
    """Lock a session until the end of the transaction, and return its row.

    Raises:
        FleetError: The session does not exist.
    """
    return _load_session(connection, session, select(sessions).with_for_update())


def _load_session(connection: Connection, session: str, query: Select[object]) -> RowMapping:
    row = connection.execute(query.where(sessions.c.id == session)).mappings().one_or_none()
    if row is None:
        raise FleetError(f"the fleet has no session {session!r}", session_id=session)
    return row


def start(connection: Connection, new: NewSession) -> None:
    """Create a session with its first prompt, unless it exists.

    Raises:
        OptionsError: No process has registered the agent, or the session belongs to another agent.
        IntegrityError: Another process has created it just now.
    """
    agent = connection.scalar(select(sessions.c.agent).where(sessions.c.id == new.id))
    if agent is None:
        now = server_time(connection)
        version = _find_version(connection, new.agent, new.version, now)
        times = {"queued_at": now, "created_at": now, "updated_at": now}
        row = {"id": new.id, "agent": new.agent, "tenant": new.tenant, "priority": new.priority, "version": version}
        row |= {**times, "state": "idle", "cli_session": str(uuid4())}
        created = connection.execute(insert(sessions).values(row).returning(sessions))
        _add_run(connection, created.mappings().one(), now, new.prompt, new.timeout, None)
    elif agent != new.agent:
        raise OptionsError(f"the session {new.id!r} belongs to the agent {agent!r}", option="id")


def _find_version(connection: Connection, agent: str, wanted: str | None, now: float) -> str:
    """Return the requested version, or the last registered one, preferring those that a worker runs.

    Raises:
        OptionsError: No process has registered it.
    """
    is_able = (abilities.c.agent == agents.c.name, abilities.c.version == agents.c.version)
    able = select(workers.c.id).join(abilities, abilities.c.worker == workers.c.id).where(*is_able, *_is_live(now))
    query = select(agents.c.version).where(agents.c.name == agent)
    query = query.order_by(exists(able).desc(), agents.c.registered_at.desc()).limit(1)
    if wanted is not None:
        query = query.where(agents.c.version == wanted)
    version = connection.scalar(query)
    if version is None:
        message = f"no worker has registered an agent {agent!r}"
        if wanted is not None:
            message += f" of version {wanted!r}"
        raise OptionsError(message, option="agent")
    return str(version)


def send(connection: Connection, session: str, prompt: object, timeout: float | None, key: str | None) -> int:
    """Add a prompt and return its number. A repeated key returns the number of the earlier prompt.

    Raises:
        FleetError: The session does not exist, or was cancelled.
    """
    row = lock_session(connection, session)
    if key is not None:
        query = select(runs.c.number).where(runs.c.session == session, runs.c.key == key)
        number = connection.scalar(query)
        if number is not None:
            return int(number)
    if row["state"] == "cancelled":
        raise FleetError(f"the session {session!r} was cancelled: {row['reason']}", session_id=session)
    return _add_run(connection, row, server_time(connection), prompt, timeout, key)


def find_abilities(connection: Connection) -> frozenset[tuple[str, str]]:
    """Return the agents that a live worker takes sessions of, by name and version."""
    query = select(abilities.c.agent, abilities.c.version).join(workers, workers.c.id == abilities.c.worker)
    live = query.where(*_is_live(server_time(connection))).distinct()
    return frozenset((agent, version) for agent, version in connection.execute(live))


def _is_live(now: float) -> tuple[ColumnElement[bool], ...]:
    return workers.c.expires_at > now, workers.c.is_draining == 0


def _add_run(
    connection: Connection, session: RowMapping, now: float, prompt: object, timeout: float | None, key: str | None
) -> int:
    number = int(session["runs"]) + 1
    if timeout is None:
        query = select(agents.c.timeout).where(agents.c.name == session["agent"])
        timeout = connection.scalar(query.where(agents.c.version == session["version"]))
    row = {
        "session": session["id"],
        "number": number,
        "key": key,
        "prompt": json.dumps(prompt),
        "uuid": str(uuid4()),
        "state": "queued",
        "timeout": timeout,
        "deadline": None if timeout is None else now + timeout,
        "created_at": now,
    }
    connection.execute(insert(runs).values(row))
    sent = [("run", now, {"run": number, "state": "queued"})]
    if session["state"] in ("idle", "failed"):
        queue_session(connection, session, number, now, first=sent, runs=number)
    else:
        add_events(connection, session["id"], number, sent, runs=number, updated_at=now)
    return number


def find_current_run(connection: Connection, session: str) -> RowMapping | None:
    """Return the first run that has not ended, or None."""
    query = select(runs).where(runs.c.session == session, runs.c.state.in_(OPEN)).order_by(runs.c.number).limit(1)
    return connection.execute(query).mappings().one_or_none()


def find_uuid(connection: Connection, session: str, number: int) -> str:
    """Return the uuid with which the prompt of a run was sent last."""
    return str(
        connection.execute(select(runs.c.uuid).where(runs.c.session == session, runs.c.number == number)).scalar_one()
    )


def is_open(connection: Connection, session: str, number: int) -> bool:
    """Return whether a run has not ended."""
    query = select(runs.c.state).where(runs.c.session == session, runs.c.number == number)
    return connection.scalar(query) in OPEN


def interrupt(connection: Connection, session: str) -> bool:
    """Interrupt the current run, and return whether there was one. The next prompt follows."""
    row = lock_session(connection, session)
    now = server_time(connection)
    run = find_current_run(connection, session)
    if row["state"] == "running":
        # To cancel interrupts too, and for good.
        if row["wanted"] != "cancel":
            change_session(connection, session, wanted="interrupt")
        return True
    if run is None or row["state"] not in ("queued", "waiting"):
        return False
    withdraw_questions(connection, session, now)
    result = {"error": "InterruptedRunError", "reason": "interrupted while no process ran"}
    end_run(connection, session, run["number"], now, "cancelled", result)
    queue_next_run(connection, row, run["number"], now)
    return True


def queue_next_run(connection: Connection, row: RowMapping, run: int, now: float) -> None:
    """Queue a locked session for its next run, or make it idle if there is none."""
    if find_current_run(connection, row["id"]) is not None:
        queue_session(connection, row, run, now)
    else:
        end_session(connection, row, run, now, "idle", None)


def end_session(connection: Connection, row: RowMapping, run: int, now: float, state: str, reason: str | None) -> None:
    """Change the state of a locked session that has no open run."""
    if row["state"] == "queued":
        leave_line(connection, row)
    set_state(connection, row["id"], run, now, state, reason=reason, **RELEASED)


def cancel(connection: Connection, session: str, reason: str) -> bool:
    """Cancel a session permanently. Return False if it was cancelled before."""
    row = lock_session(connection, session)
    now = server_time(connection)
    if row["state"] == "cancelled" or row["wanted"] == "cancel":
        return False
    if row["state"] == "running":
        change_session(connection, session, wanted="cancel", reason=reason)
        return True
    cancel_session(connection, row, now, reason)
    return True


def cancel_session(connection: Connection, row: RowMapping, now: float, reason: str) -> None:
    """End all open runs of a locked session, and mark it cancelled."""
    withdraw_questions(connection, row["id"], now)
    while (run := find_current_run(connection, row["id"])) is not None:
        end_run(connection, row["id"], run["number"], now, "cancelled", {"error": "", "reason": reason})
    end_session(connection, row, 0, now, "cancelled", reason)


def withdraw_questions(connection: Connection, session: str, at: float) -> None:
    """Withdraw the pending questions of a session, because no process asks them any more."""
    pending = (interactions.c.session == session, interactions.c.state == "pending")
    change = update(interactions).where(*pending).values(state="withdrawn")
    for found, run in connection.execute(change.returning(interactions.c.id, interactions.c.run)).all():
        add_events(connection, session, run, [("interaction", at, {"id": found, "state": "withdrawn"})])


def retry(connection: Connection, session: str) -> int:
    """Queue the prompt that failed again, and those that failed with it, and return its number.

    Raises:
        FleetError: The session has not failed.
    """
    row = lock_session(connection, session)
    now = server_time(connection)
    if row["state"] != "failed":
        raise FleetError(f"the session {session!r} is {row['state']}, not failed", session_id=session)
    failed = select(runs).where(runs.c.session == session, runs.c.state == "failed").order_by(runs.c.number.desc())
    number = 0
    for run in connection.execute(failed).mappings().all():
        number = int(run["number"])
        deadline = None if run["timeout"] is None else now + run["timeout"]
        fresh = {
            "state": "queued",
            "uuid": next_uuid(run["uuid"]),
            "attempts": 0,
            "crashes": 0,
            "result": None,
            "ended_at": None,
        }
        change_run(connection, session, number, deadline=deadline, **fresh)
        if json.loads(run["result"])["error"] != EARLIER_FAILED:
            break
    queue_session(connection, row, number, now)
    return number


# Answers --------------------------------------------------------------------------------------------------------------


def answer(connection: Connection, interaction: str, reply: str, by: str, origin: str) -> bool:
    """Record an answer, and queue the session if no question is left. Return whether it is the first answer."""
    question = connection.execute(select(interactions).where(interactions.c.id == interaction)).mappings().one_or_none()
    if question is None:
        return False
    session = lock_session(connection, question["session"])
    now = server_time(connection)
    pending = (interactions.c.id == interaction, interactions.c.state == "pending")
    changes = {"state": "answered", "reply": reply, "answered_by": by, "answered_from": origin}
    if connection.execute(update(interactions).where(*pending).values(changes)).rowcount != 1:
        return False
    data = {"id": interaction, "state": "answered", "kind": question["kind"], "by": by}
    add_events(connection, session["id"], question["run"], [("interaction", now, data)])
    if session["state"] == "waiting" and not count_pending_questions(connection, session["id"]):
        queue_session(connection, session, question["run"], now)
    return True


def check_question(connection: Connection, session: str, interaction: str) -> None:
    """Raise FleetError unless the session has asked this question."""
    load_info(connection, session)
    query = select(interactions.c.id).where(interactions.c.id == interaction, interactions.c.session == session)
    if connection.scalar(query) is None:
        raise FleetError(f"the session {session!r} has asked no question {interaction!r}", session_id=session)


def count_pending_questions(connection: Connection, session: str) -> int:
    """Return how many questions of a session are unanswered."""
    pending = (interactions.c.session == session, interactions.c.state == "pending")
    return int(connection.scalar(select(func.count()).select_from(interactions).where(*pending)) or 0)


def list_questions(connection: Connection, session: str | None) -> list[dict[str, object]]:
    """Return the unanswered questions of one session or of all, oldest first."""
    query = select(interactions).where(interactions.c.state == "pending").order_by(interactions.c.created_at)
    if session is not None:
        query = query.where(interactions.c.session == session)
    return [dict(row) for row in connection.execute(query).mappings()]


# Queries --------------------------------------------------------------------------------------------------------------


def _build_info(row: RowMapping, **changes: Any) -> FleetSessionInfo:
    names = FleetSessionInfo.__dataclass_fields__
    known = {name: row[name] for name in names if name in row}
    return FleetSessionInfo(**{**known, "cli_session_id": row["cli_session"], **changes})


def _build_infos(connection: Connection, rows: Sequence[RowMapping]) -> list[FleetSessionInfo]:
    """Return sessions. Those that no worker can run say so."""
    run_now: frozenset[tuple[str, str]] | None = None
    infos = []
    for row in rows:
        changes = {}
        if row["state"] == "queued" and not row["reason"]:
            run_now = find_abilities(connection) if run_now is None else run_now
            if (row["agent"], row["version"]) not in run_now:
                changes["reason"] = f"no live worker has the agent {row['agent']!r} of version {row['version']!r}"
        infos.append(_build_info(row, **changes))
    return infos


def describe_session(connection: Connection, session: str) -> FleetSessionInfo:
    """Return a session, and why it cannot run. Raises FleetError if it does not exist."""
    return _build_infos(connection, [_load_session(connection, session, select(sessions))])[0]


def load_info(connection: Connection, session: str) -> FleetSessionInfo:
    """Return a session. Raises FleetError if it does not exist."""
    return _build_info(_load_session(connection, session, select(sessions)))


def list_sessions(
    connection: Connection, state: str | None, agent: str | None, tenant: str | None, limit: int
) -> list[FleetSessionInfo]:
    """Return sessions, newest first."""
    query = select(sessions).order_by(sessions.c.created_at.desc()).limit(limit)
    for column, value in ((sessions.c.state, state), (sessions.c.agent, agent), (sessions.c.tenant, tenant)):
        if value is not None:
            query = query.where(column == value)
    return _build_infos(connection, connection.execute(query).mappings().all())


def load_outcome(connection: Connection, session: str, number: int | None) -> FleetOutcome:
    """Return the state and the result of a run, by default the last one.

    Raises:
        FleetError: The session or the run does not exist.
    """
    found = load_info(connection, session)
    query = select(runs).where(runs.c.session == session, runs.c.number == (number or found.runs))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise FleetError(f"the session {session!r} has no run {number}", session_id=session)
    result = json.loads(row["result"]) if row["result"] else {}
    fields = {name: result[name] for name in FleetOutcome.__dataclass_fields__ if name in result}
    fields |= {name: row[name] for name in ("state", "attempts", "crashes", "started_at", "ended_at")}
    fields |= {"session_id": session, "run": row["number"], "prompt_uuid": row["uuid"]}
    return FleetOutcome(**{**fields, "cli_session_id": found.cli_session_id})


def load_events(
    connection: Connection, session: str, after: int, limit: int
) -> tuple[list[FleetEvent], FleetSessionInfo]:
    """Return the events after a number, and the session at that moment."""
    found = load_info(connection, session)
    return _select_events(connection, session, after, limit), found


def _select_events(connection: Connection, session: str, after: int, limit: int, *conditions: Any) -> list[FleetEvent]:
    query = select(events).where(events.c.session == session, events.c.number > after, *conditions)
    found = connection.execute(query.order_by(events.c.number).limit(limit)).mappings()
    names = ("number", "run", "kind", "at")
    return [
        FleetEvent(session_id=session, data=json.loads(row["data"]), **{name: row[name] for name in names})
        for row in found
    ]


def list_workers(connection: Connection) -> list[FleetWorkerInfo]:
    """Return the workers, oldest first."""
    count = select(func.count()).select_from(sessions).where(sessions.c.worker == workers.c.id).scalar_subquery()
    query = select(workers, count.label("running")).order_by(workers.c.started_at)
    return [
        FleetWorkerInfo(**{**row, "is_draining": bool(row["is_draining"])})
        for row in connection.execute(query).mappings()
    ]


def list_tenants(connection: Connection) -> list[FleetTenantInfo]:
    """Return the tenants that have sessions or settings, sorted by name."""
    counts: dict[str, Counter[str]] = {}
    query = select(sessions.c.tenant, sessions.c.state, func.count()).group_by(sessions.c.tenant, sessions.c.state)
    for name, state, number in connection.execute(query):
        counts.setdefault(name, Counter())[state] += number
    rows = {row["name"]: row for row in connection.execute(select(tenants)).mappings()}
    infos = []
    for name in sorted(counts.keys() | rows.keys()):
        settings = {}
        if name in rows:
            settings = {"limit": rows[name]["session_limit"], "weight": rows[name]["weight"]}
        infos.append(FleetTenantInfo(name=name, sessions=dict(counts.get(name, {})), **settings))
    return infos


def drain(connection: Connection, worker: str | None, grace: float | None) -> int:
    """Ask one worker or all to finish their prompts within `grace` seconds and exit. Return how many were asked."""
    change = update(workers).values(is_draining=1)
    if grace is not None:
        change = change.values(release_at=server_time(connection) + grace)
    if worker is not None:
        change = change.where(workers.c.id == worker)
    return int(connection.execute(change).rowcount)


def load_grace(connection: Connection, worker: str) -> float | None:
    """Return in how many seconds a worker that drains has to release its sessions; None if it waits for them."""
    release_at = connection.scalar(select(workers.c.release_at).where(workers.c.id == worker))
    return None if release_at is None else max(0.0, release_at - server_time(connection))


def count_open_sessions(connection: Connection) -> int:
    """Return how many sessions are queued or running."""
    query = select(func.count()).select_from(sessions).where(sessions.c.state.in_(OPEN))
    return int(connection.scalar(query) or 0)
