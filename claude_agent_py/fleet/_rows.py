"""What processes beside the workers do with the tables: start, send, answer, cancel, look. Each is one transaction."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, Select, func, insert, select, update

from claude_agent_py._errors import FleetError, OptionsError
from claude_agent_py.fleet._database import lock, server_time
from claude_agent_py.fleet._tables import agents, events, interactions, runs, sessions, workers
from claude_agent_py.fleet.records import FleetEvent, FleetOutcome, FleetSessionInfo, FleetWorkerInfo

OPEN: tuple[str, ...] = ("queued", "running")
"""The states of a run that is not over."""
RELEASED: Mapping[str, Any] = {"worker": None, "wanted": None, "is_orphan": 0, "step": sessions.c.step + 1}
"""What changes in a session's row when no worker has it any more."""


class NewSession(NamedTuple):
    """What `start` is called with."""

    id: str
    agent: str
    version: str | None
    tenant: str
    priority: int


# Events ---------------------------------------------------------------------------------------------------------------


def add_events(
    connection: Connection, session: str, run: int, new: Sequence[tuple[str, float, Mapping[str, Any]]], **changes: Any
) -> None:
    """Append events, each with its kind and time, and change the session's row on the way."""
    change = update(sessions).where(sessions.c.id == session).values(events=sessions.c.events + len(new), **changes)
    last = connection.execute(change.returning(sessions.c.events)).scalar_one()
    first = last - len(new) + 1
    rows = [
        {"session": session, "number": first + i, "run": run, "kind": kind, "at": at, "data": json.dumps(data)}
        for i, (kind, at, data) in enumerate(new)
    ]
    connection.execute(insert(events), rows)


def set_state(connection: Connection, session: str, run: int, at: float, state: str, **changes: Any) -> None:
    """Change the state of a session, and tell."""
    told = {"state": state, **({"reason": changes["reason"]} if changes.get("reason") else {})}
    add_events(connection, session, run, [("state", at, told)], state=state, updated_at=at, **changes)


def change_session(connection: Connection, session: str, **values: Any) -> None:
    """Change a session's row."""
    connection.execute(update(sessions).where(sessions.c.id == session).values(values))


def change_run(connection: Connection, session: str, number: int, **values: Any) -> None:
    """Change a run's row."""
    connection.execute(update(runs).where(runs.c.session == session, runs.c.number == number).values(values))


def end_run(
    connection: Connection, session: str, number: int, at: float, state: str, result: Mapping[str, Any]
) -> None:
    """Settle a run, and tell."""
    change_run(connection, session, number, state=state, result=json.dumps(result), ended_at=at)
    told = {"run": number, "state": state, "text": result.get("text", ""), "reason": result.get("reason", "")}
    add_events(connection, session, number, [("run", at, told)])


# Sessions and prompts -------------------------------------------------------------------------------------------------


def locked(connection: Connection, session: str) -> RowMapping:
    """Lock a session until the end of the transaction.

    Raises:
        FleetError: There is no such session.
    """
    return _existing(connection, session, select(sessions).with_for_update())


def _existing(connection: Connection, session: str, query: Select[Any]) -> RowMapping:
    row = connection.execute(query.where(sessions.c.id == session)).mappings().one_or_none()
    if row is None:
        raise FleetError(f"the fleet has no session {session!r}", session_id=session)
    return row


def start(connection: Connection, new: NewSession, prompt: Any, timeout: float | None) -> FleetSessionInfo:
    """Make a session with its first prompt, unless it exists.

    Raises:
        OptionsError: No process has registered such an agent, or the session belongs to another one.
    """
    lock(connection)
    now = server_time(connection)
    found = connection.execute(select(sessions).where(sessions.c.id == new.id)).mappings().one_or_none()
    if found is None:
        version = _registered(connection, new.agent, new.version)
        row = {**new._asdict(), "version": version, "state": "idle", "epoch": 0, "step": 0, "is_orphan": 0}
        more = {"queued_at": now, "not_before": 0.0, "cli_session": str(uuid4()), "runs": 0, "events": 0}
        connection.execute(insert(sessions).values({**row, **more, "created_at": now, "updated_at": now}))
        _add_run(connection, locked(connection, new.id), now, prompt, timeout, None)
    elif found["agent"] != new.agent:
        raise OptionsError(f"the session {new.id!r} belongs to the agent {found['agent']!r}", option="id")
    return info(connection, new.id)


def _registered(connection: Connection, agent: str, wanted: str | None) -> str:
    """Return the version that is wanted, or the one that was registered last. Raises OptionsError."""
    query = select(agents.c.version).where(agents.c.name == agent).order_by(agents.c.registered_at.desc())
    if wanted is not None:
        query = query.where(agents.c.version == wanted)
    version: str | None = connection.scalar(query.limit(1))
    if version is None:
        told = f"no worker has registered an agent {agent!r}"
        raise OptionsError(told if wanted is None else f"{told} of version {wanted!r}", option="agent")
    return version


def send(connection: Connection, session: str, prompt: Any, timeout: float | None, key: str | None) -> int:
    """Add a prompt and return its number; that of the earlier one if a prompt with this key is there.

    Raises:
        FleetError: The session does not exist, or was cancelled.
    """
    row = locked(connection, session)
    if key is not None:
        query = select(runs.c.number).where(runs.c.session == session, runs.c.key == key)
        if (number := connection.scalar(query)) is not None:
            return int(number)
    if row["state"] == "cancelled":
        raise FleetError(f"the session {session!r} was cancelled: {row['reason']}", session_id=session)
    return _add_run(connection, row, server_time(connection), prompt, timeout, key)


def _add_run(
    connection: Connection, session: RowMapping, now: float, prompt: Any, timeout: float | None, key: str | None
) -> int:
    number = int(session["runs"]) + 1
    if timeout is None:
        query = select(agents.c.timeout).where(agents.c.name == session["agent"])
        timeout = connection.scalar(query.where(agents.c.version == session["version"]))
    row = {"session": session["id"], "number": number, "key": key, "prompt": json.dumps(prompt), "state": "queued"}
    times = {"timeout": timeout, "deadline": None if timeout is None else now + timeout, "created_at": now}
    more = {"uuid": str(uuid4()), "attempts": 0, "claims": 0, "crashes": 0}
    connection.execute(insert(runs).values({**row, **times, **more}))
    told = {"run": number, "state": "queued"}
    add_events(connection, session["id"], number, [("run", now, told)], runs=number, updated_at=now)
    if session["state"] in ("idle", "failed"):
        set_state(connection, session["id"], number, now, "queued", queued_at=now, not_before=0.0, reason=None)
    return number


def current_run(connection: Connection, session: str) -> RowMapping | None:
    """Return the first run that is not over, or None."""
    query = select(runs).where(runs.c.session == session, runs.c.state.in_(OPEN)).order_by(runs.c.number).limit(1)
    return connection.execute(query).mappings().one_or_none()


def interrupt(connection: Connection, session: str) -> bool:
    """Interrupt the run at hand, and return whether there was one. The next prompt follows."""
    row, now = locked(connection, session), server_time(connection)
    run = current_run(connection, session)
    if row["state"] == "running":
        change_session(connection, session, wanted="interrupt")
        return True
    if run is None or row["state"] not in ("queued", "waiting"):
        return False
    withdraw(connection, session, now)
    told = {"error": "InterruptedRunError", "reason": "interrupted while no process ran"}
    end_run(connection, session, run["number"], now, "cancelled", told)
    follow_up(connection, session, run["number"], now)
    return True


def follow_up(connection: Connection, session: str, run: int, now: float) -> None:
    """Queue a session whose run is over for its next one, or let it rest."""
    state = "idle" if current_run(connection, session) is None else "queued"
    set_state(connection, session, run, now, state, queued_at=now, not_before=0.0, reason=None, **RELEASED)


def cancel(connection: Connection, session: str, reason: str) -> bool:
    """Cancel a session for good, and return whether it was not over."""
    row, now = locked(connection, session), server_time(connection)
    if row["state"] == "cancelled":
        return False
    if row["state"] == "running":
        change_session(connection, session, wanted="cancel", reason=reason)
        return True
    cancel_now(connection, session, now, reason)
    return True


def cancel_now(connection: Connection, session: str, now: float, reason: str) -> None:
    """Settle all open runs of a session, and the session."""
    withdraw(connection, session, now)
    while (run := current_run(connection, session)) is not None:
        end_run(connection, session, run["number"], now, "cancelled", {"error": "", "reason": reason})
    set_state(connection, session, 0, now, "cancelled", reason=reason, **RELEASED)


def withdraw(connection: Connection, session: str, at: float) -> None:
    """Withdraw the questions that wait, because no process asks them any more."""
    pending = (interactions.c.session == session, interactions.c.state == "pending")
    change = update(interactions).where(*pending).values(state="withdrawn")
    for found, run in connection.execute(change.returning(interactions.c.id, interactions.c.run)).all():
        add_events(connection, session, run, [("interaction", at, {"id": found, "state": "withdrawn"})])


def retry(connection: Connection, session: str) -> int:
    """Queue the last prompt of a dead letter again, and return its number.

    Raises:
        FleetError: The session has not failed.
    """
    row, now = locked(connection, session), server_time(connection)
    if row["state"] != "failed":
        raise FleetError(f"the session {session!r} is {row['state']}, not failed", session_id=session)
    query = select(runs).where(runs.c.session == session, runs.c.state == "failed").order_by(runs.c.number.desc())
    run = connection.execute(query.limit(1)).mappings().one()
    fresh = {"state": "queued", "attempts": 0, "crashes": 0, "result": None, "ended_at": None, "uuid": str(uuid4())}
    deadline = None if run["timeout"] is None else now + run["timeout"]
    change_run(connection, session, run["number"], deadline=deadline, **fresh)
    set_state(connection, session, run["number"], now, "queued", queued_at=now, not_before=0.0, reason=None)
    return int(run["number"])


# Answers --------------------------------------------------------------------------------------------------------------


def answer(connection: Connection, interaction: str, reply: str, by: str, origin: str) -> bool:
    """Record an answer, queue the session if it waits for this one only, and return whether it is the first."""
    asked = connection.execute(select(interactions).where(interactions.c.id == interaction)).mappings().one_or_none()
    if asked is None:
        return False
    session, now = locked(connection, asked["session"]), server_time(connection)
    pending = (interactions.c.id == interaction, interactions.c.state == "pending")
    given = {"state": "answered", "reply": reply, "answered_by": by, "answered_from": origin}
    if connection.execute(update(interactions).where(*pending).values(given)).rowcount != 1:
        return False
    told = {"id": interaction, "state": "answered", "kind": asked["kind"], "by": by}
    add_events(connection, session["id"], asked["run"], [("interaction", now, told)])
    if session["state"] == "waiting" and not waiting(connection, session["id"]):
        set_state(connection, session["id"], asked["run"], now, "queued", queued_at=now, not_before=0.0)
    return True


def check_asked(connection: Connection, session: str, interaction: str) -> None:
    """Check that a session has asked a question. Raises FleetError."""
    info(connection, session)
    query = select(interactions.c.id).where(interactions.c.id == interaction, interactions.c.session == session)
    if connection.scalar(query) is None:
        raise FleetError(f"the session {session!r} has asked no question {interaction!r}", session_id=session)


def waiting(connection: Connection, session: str) -> int:
    """Return how many questions of a session wait for an answer."""
    pending = (interactions.c.session == session, interactions.c.state == "pending")
    return int(connection.scalar(select(func.count()).select_from(interactions).where(*pending)) or 0)


def questions(connection: Connection, session: str | None) -> list[dict[str, Any]]:
    """Return the questions that wait, of one session or of all, oldest first."""
    query = select(interactions).where(interactions.c.state == "pending").order_by(interactions.c.created_at)
    if session is not None:
        query = query.where(interactions.c.session == session)
    return [dict(row) for row in connection.execute(query).mappings()]


# Looking --------------------------------------------------------------------------------------------------------------


def _info(row: RowMapping) -> FleetSessionInfo:
    names = FleetSessionInfo.__dataclass_fields__
    known = {name: row[name] for name in names if name in row}
    return FleetSessionInfo(**known, cli_session_id=row["cli_session"])


def info(connection: Connection, session: str) -> FleetSessionInfo:
    """Return a session. Raises FleetError if there is none."""
    return _info(_existing(connection, session, select(sessions)))


def listed(
    connection: Connection, state: str | None, agent: str | None, tenant: str | None, limit: int
) -> list[FleetSessionInfo]:
    """Return sessions, newest first."""
    query = select(sessions).order_by(sessions.c.created_at.desc()).limit(limit)
    for column, value in ((sessions.c.state, state), (sessions.c.agent, agent), (sessions.c.tenant, tenant)):
        if value is not None:
            query = query.where(column == value)
    return [_info(row) for row in connection.execute(query).mappings()]


def outcome(connection: Connection, session: str, number: int | None) -> FleetOutcome:
    """Return what is known of a run, by default the last one.

    Raises:
        FleetError: There is no such session or run.
    """
    wanted = info(connection, session)
    query = select(runs).where(runs.c.session == session, runs.c.number == (number or wanted.runs))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise FleetError(f"the session {session!r} has no run {number}", session_id=session)
    result = json.loads(row["result"]) if row["result"] else {}
    known = {name: result[name] for name in FleetOutcome.__dataclass_fields__ if name in result}
    counted = {name: row[name] for name in ("state", "attempts", "crashes", "started_at", "ended_at")}
    fixed = {"session_id": session, "run": row["number"], "prompt_uuid": row["uuid"]}
    return FleetOutcome(**{**known, **fixed, **counted, "cli_session_id": wanted.cli_session_id})


def read_events(
    connection: Connection, session: str, after: int, limit: int
) -> tuple[list[FleetEvent], FleetSessionInfo]:
    """Return the events after a number, and the session as it was then."""
    now = info(connection, session)
    return _events(connection, session, after, limit), now


def task_events(connection: Connection, session: str, after: int, limit: int) -> list[FleetEvent]:
    """Return the events of tasks after a number, and the states that the session entered."""
    return _events(connection, session, after, limit, events.c.kind.in_(("task", "state")))


def _events(connection: Connection, session: str, after: int, limit: int, *more: Any) -> list[FleetEvent]:
    query = select(events).where(events.c.session == session, events.c.number > after, *more)
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


def drain(connection: Connection, worker: str | None) -> int:
    """Ask a worker, or all, to finish what they run and to end. Returns how many were asked."""
    change = update(workers).values(is_draining=1)
    return int(connection.execute(change if worker is None else change.where(workers.c.id == worker)).rowcount)


def unsettled(connection: Connection) -> int:
    """Return how many sessions are queued or running."""
    query = select(func.count()).select_from(sessions).where(sessions.c.state.in_(OPEN))
    return int(connection.scalar(query) or 0)
