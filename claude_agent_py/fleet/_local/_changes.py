"""What changes sessions and prompts: commands, claims and outcomes. Each function is called in a transaction.

A worker that has claimed a session names the epoch of its claim. If another worker has claimed the session since, its
change raises `LostError` and does nothing.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4, uuid5

from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py.durable import Done, Failed, Interrupted, Later, TurnOutcome, Waiting
from claude_agent_py.fleet._engine import NewSession
from claude_agent_py.fleet._local._file import Row, Transaction, as_list, decode
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.records import FleetOutcome
from claude_agent_py.permissions import AnswerSource

EARLIER_FAILED: Final = "EarlierPromptFailed"
"""The error of a prompt that failed because one before it did."""
ALONE_CRASHES: Final = 2
"""After so many crashes, a prompt runs with no other in its process."""
ALONE_SECONDS: Final = 10.0
"""For how long such a prompt waits for a process without sessions; then the one with the fewest takes no others."""
CLOCK_SECONDS: Final = 60.0
"""A session that was queued so far in the future waits no longer: the clock was set back."""
OVERDUE: Final = Failed(error="RunTimeoutError", reason="the prompt was not answered in time")
RESULT_FIELDS: Final = frozenset(FleetOutcome.__dataclass_fields__)

Event = tuple[str, float, Mapping[str, object]]


class LostError(Exception):
    """Another worker has the session."""


class Claim(NamedTuple):
    """A session that a worker runs, and its current prompt."""

    session: Row
    run: Row
    epoch: int
    seconds: float | None
    """Within which the prompt has to be answered."""

    @property
    def id(self) -> str:
        return str(self.session["id"])


# Records --------------------------------------------------------------------------------------------------------------


def record(tx: Transaction, action: str, by: AnswerSource, session: str | None = None, **details: object) -> None:
    """Add an entry to the audit log."""
    entry = {"at": tx.now, "actor": by.by, "origin": by.origin, "action": action, "session": session}
    tx.insert("fleet_audit", {**entry, "details": json.dumps(details)})


def add_to_total(tx: Transaction, tenant: str, name: str, amount: float) -> None:
    """Add to a sum that outlives the sessions."""
    statement = "INSERT INTO fleet_totals VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value"
    tx.run(statement, tenant, name, amount)


def add_events(tx: Transaction, session: str, run: int, new: Sequence[Event], **changes: object) -> None:
    """Append events, each with its kind and time, and change the row of the session."""
    number = tx.value("SELECT events FROM fleet_sessions WHERE id = ?", session)
    tx.update("fleet_sessions", {"id": session}, events=number + len(new), **changes)
    rows = [
        {"session": session, "number": number + i, "run": run, "kind": kind, "at": at, "data": json.dumps(data)}
        for i, (kind, at, data) in enumerate(new, 1)
    ]
    tx.insert("fleet_events", *rows)


def set_state(tx: Transaction, session: str, run: int, state: str, *first: Event, **changes: Any) -> None:
    """Change the state of a session, and add an event after other ones."""
    data = {"state": state, **({"reason": changes["reason"]} if changes.get("reason") else {})}
    new = [*first, ("state", tx.now, data)]
    add_events(tx, session, run, new, state=state, updated_at=tx.now, **changes)


# Sessions and prompts -------------------------------------------------------------------------------------------------


def load_session(tx: Transaction, session: str) -> Row:
    """Return the row of a session. Raises FleetError if it does not exist."""
    row = tx.one("SELECT * FROM fleet_sessions WHERE id = ?", session)
    if row is None:
        raise FleetError(f"the fleet has no session {session!r}", session_id=session)
    return row


def find_current_run(tx: Transaction, session: str) -> Row | None:
    """Return the first prompt that has not ended, or None."""
    query = "SELECT * FROM fleet_runs WHERE session = ? AND state IN ('queued', 'running') ORDER BY number LIMIT 1"
    return tx.one(query, session)


def register_agents(tx: Transaction, known: Sequence[FleetAgent]) -> None:
    """Store agents, for processes that do not register them."""
    for agent in known:
        tx.run(
            "INSERT INTO fleet_agents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET timeout = excluded.timeout, after_failure = excluded.after_failure",
            *(agent.name, agent.version, agent.timeout, agent.after_failure, tx.now),
        )


def start(tx: Transaction, new: NewSession, known: Sequence[FleetAgent], by: AnswerSource) -> None:
    """Create a session with its first prompt, unless it exists.

    Raises:
        OptionsError: No process has registered the agent, or the session belongs to another agent.
    """
    register_agents(tx, known)
    agent = tx.value("SELECT agent FROM fleet_sessions WHERE id = ?", new.id)
    if agent is not None:
        if agent != new.agent:
            raise OptionsError(f"the session {new.id!r} belongs to the agent {agent!r}", option="id")
        return
    row: Row = {"id": new.id, "agent": new.agent, "version": _find_version(tx, new), "tenant": new.tenant}
    row |= {"priority": new.priority, "state": "idle", "cli_session": str(uuid4())}
    tx.insert("fleet_sessions", {**row, **dict.fromkeys(("queued_at", "created_at", "updated_at"), tx.now)})
    _add_run(tx, load_session(tx, new.id), new.prompt, new.timeout, new.key)
    record(tx, "start", by, new.id, run=1)


def _find_version(tx: Transaction, new: NewSession) -> str:
    """Return the requested version, or the last registered one, preferring those that a worker runs."""
    query = "SELECT version FROM fleet_agents WHERE name = ? ORDER BY registered_at DESC, rowid DESC"
    known = [row["version"] for row in tx.all(query, new.agent) if new.version in (None, row["version"])]
    if not known:
        version = "" if new.version is None else f" of version {new.version!r}"
        raise OptionsError(f"no worker has registered an agent {new.agent!r}{version}", option="agent")
    live = {able["version"] for able in find_abilities(tx) if able["agent"] == new.agent and _exists(able["pid"])}
    return str(next((version for version in known if version in live), known[0]))


def find_abilities(tx: Transaction) -> list[Row]:
    """Return the agents that live workers take sessions of, with the process ids of the workers."""
    query = "SELECT agent, version, pid FROM fleet_abilities JOIN fleet_workers ON id = worker"
    return tx.all(f"{query} WHERE expires_at > ? AND NOT is_draining", tx.now)


def _exists(pid: int) -> bool:
    """Return whether a process exists, as far as this one can see."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def send(tx: Transaction, session: str, prompt: object, timeout: float | None, key: str, by: AnswerSource) -> int:
    """Add a prompt and return its number. A repeated key returns the number of the earlier prompt.

    Raises:
        FleetError: The session does not exist, or was cancelled.
    """
    row = load_session(tx, session)
    known = tx.value("SELECT number FROM fleet_runs WHERE session = ? AND key = ?", session, key)
    if known is not None:
        return int(known)
    if row["state"] == "cancelled":
        raise FleetError(f"the session {session!r} was cancelled: {row['reason']}", session_id=session)
    number = _add_run(tx, row, prompt, timeout, key)
    record(tx, "send", by, session, run=number)
    return number


def _add_run(tx: Transaction, session: Row, prompt: object, timeout: float | None, key: str | None) -> int:
    number = int(session["runs"]) + 1
    if timeout is None:
        query = "SELECT timeout FROM fleet_agents WHERE name = ? AND version = ?"
        timeout = tx.value(query, session["agent"], session["version"])
    row: Row = {
        "session": session["id"],
        "number": number,
        "key": key,
        "prompt": json.dumps(prompt),
        "uuid": str(uuid4()),
    }
    row |= {"state": "queued", "timeout": timeout, "deadline": timeout and tx.now + timeout, "created_at": tx.now}
    tx.insert("fleet_runs", row)
    sent: Event = ("run", tx.now, {"run": number, "state": "queued"})
    if session["state"] in ("idle", "failed"):
        queue(tx, session, number, sent, runs=number)
    else:
        add_events(tx, session["id"], number, [sent], runs=number, updated_at=tx.now)
    return number


def queue(
    tx: Transaction, session: Row, run: int, *first: Event, delay: float = 0.0, reason: str | None = None, **more: Any
) -> None:
    """Queue a session for its next prompt."""
    waits = "SELECT 1 FROM fleet_sessions WHERE state = 'queued' AND tenant = ? AND id != ? LIMIT 1"
    if tx.value(waits, session["tenant"], session["id"]) is None:
        # A tenant that had nothing to run has saved no turns.
        tx.run(
            "INSERT INTO fleet_turns SELECT ?, turn FROM fleet_meta WHERE true "
            "ON CONFLICT DO UPDATE SET turn = max(turn, excluded.turn)",
            session["tenant"],
        )
    times = {"queued_at": tx.now, "not_before": tx.now + delay if delay else 0.0}
    set_state(tx, session["id"], run, "queued", *first, worker=None, wanted=None, reason=reason, **times, **more)


def _queue_next(tx: Transaction, session: Row, run: int) -> None:
    """Queue a session for its next prompt, or make it idle if there is none."""
    if find_current_run(tx, session["id"]) is not None:
        queue(tx, session, run)
    else:
        set_state(tx, session["id"], run, "idle", worker=None, wanted=None, reason=None)


def _end_run(tx: Transaction, session: str, number: int, state: str, result: Mapping[str, Any]) -> None:
    ended = {"state": state, "result": json.dumps(result), "ended_at": tx.now}
    tx.update("fleet_runs", {"session": session, "number": number}, **ended)
    data = {"run": number, "state": state, "text": result.get("text", ""), "reason": result.get("reason", "")}
    add_events(tx, session, number, [("run", tx.now, data)])


def interrupt(tx: Transaction, session: str, by: AnswerSource) -> bool:
    """Interrupt the current prompt, and return whether there was one. The next one follows."""
    row = load_session(tx, session)
    run = find_current_run(tx, session)
    if run is None or row["state"] not in ("running", "queued", "waiting"):
        return False
    if row["state"] == "running":
        # To cancel interrupts too, and for good.
        tx.update("fleet_sessions", {"id": session}, wanted=row["wanted"] or "interrupt")
    else:
        _interrupt_now(tx, row, run)
    record(tx, "interrupt", by, session)
    return True


def _interrupt_now(tx: Transaction, row: Row, run: Row) -> None:
    withdraw_questions(tx, row["id"])
    result = {"error": "InterruptedRunError", "reason": "interrupted while no process ran"}
    _end_run(tx, row["id"], run["number"], "cancelled", result)
    _queue_next(tx, row, run["number"])


def cancel(tx: Transaction, session: str, reason: str, by: AnswerSource) -> bool:
    """Cancel a session permanently. Return False if it was cancelled before."""
    row = load_session(tx, session)
    if row["state"] == "cancelled" or row["wanted"] == "cancel":
        return False
    if row["state"] == "running":
        tx.update("fleet_sessions", {"id": session}, wanted="cancel", reason=reason)
    else:
        _cancel_now(tx, session, reason)
    record(tx, "cancel", by, session, reason=reason)
    return True


def _cancel_now(tx: Transaction, session: str, reason: str) -> None:
    """End all open prompts of a session, and mark it cancelled."""
    withdraw_questions(tx, session)
    while (run := find_current_run(tx, session)) is not None:
        _end_run(tx, session, run["number"], "cancelled", {"error": "", "reason": reason})
    set_state(tx, session, 0, "cancelled", worker=None, wanted=None, reason=reason)


def retry(tx: Transaction, session: str, by: AnswerSource) -> int:
    """Queue the prompt that failed again, and those that failed with it, and return its number.

    Raises:
        FleetError: The session has not failed.
    """
    row = load_session(tx, session)
    if row["state"] != "failed":
        raise FleetError(f"the session {session!r} is {row['state']}, not failed", session_id=session)
    number = 0
    query = "SELECT * FROM fleet_runs WHERE session = ? AND state = 'failed' ORDER BY number DESC"
    for run in tx.all(query, session):
        number = int(run["number"])
        # The conversation may have the prompt, which gets an answer only if it is sent anew.
        fresh = {"state": "queued", "uuid": str(uuid5(UUID(run["uuid"]), "retry")), "attempts": 0, "crashes": 0}
        fresh |= {"deadline": run["timeout"] and tx.now + run["timeout"], "result": None, "ended_at": None}
        tx.update("fleet_runs", {"session": session, "number": number}, **fresh)
        if decode(run["result"]).get("error") != EARLIER_FAILED:
            break
    queue(tx, row, number)
    record(tx, "retry", by, session)
    return number


# Questions ------------------------------------------------------------------------------------------------------------


def withdraw_questions(tx: Transaction, session: str) -> None:
    """Withdraw the unanswered questions of a session, because no process asks them any more."""
    for question in tx.all("SELECT * FROM fleet_interactions WHERE session = ? AND state = 'pending'", session):
        settle_question(tx, question, "withdrawn")


def settle_question(tx: Transaction, question: Row, state: str, **changes: object) -> None:
    """Change the state of a question, and add an event unless only its answer was taken."""
    tx.update("fleet_interactions", {"id": question["id"]}, state=state, **changes)
    if state != "taken":
        data = {"id": question["id"], "state": state}
        if state == "answered":
            data |= {"kind": question["kind"], "by": changes["answered_by"]}
        add_events(tx, question["session"], question["run"], [("interaction", tx.now, data)])


def answer(tx: Transaction, session: str, interaction: str, reply: Mapping[str, Any], by: AnswerSource) -> bool:
    """Record an answer, and queue the session if no question is left. Return whether it is the first answer."""
    question = tx.one("SELECT * FROM fleet_interactions WHERE id = ? AND session = ?", interaction, session)
    if question is None or question["state"] != "pending":
        return False
    given = {"reply": json.dumps(reply), "answered_by": by.by, "answered_from": by.origin}
    settle_question(tx, question, "answered", **given)
    row = load_session(tx, session)
    if row["state"] == "waiting" and not count_pending(tx, session):
        queue(tx, row, question["run"])
    record(tx, "answer", by, session, id=interaction)
    return True


def count_pending(tx: Transaction, session: str) -> int:
    """Return how many questions of a session are unanswered."""
    query = "SELECT count(*) FROM fleet_interactions WHERE session = ? AND state = 'pending'"
    return int(tx.value(query, session))


# Claims ---------------------------------------------------------------------------------------------------------------

_NEXT: Final = """
WITH busy AS (SELECT agent, tenant, count(*) AS number FROM fleet_sessions WHERE state = 'running' GROUP BY 1, 2)
SELECT s.*, r.crashes, coalesce(u.turn, 0) AS turn, 1.0 / max(1, round(coalesce(t.weight, 1))) AS step
FROM fleet_sessions s CROSS JOIN fleet_meta m
JOIN json_each(?1) a ON json_extract(a.value, '$[0]') = s.agent AND json_extract(a.value, '$[1]') = s.version
JOIN fleet_runs r ON r.session = s.id AND r.number = (
    SELECT min(number) FROM fleet_runs WHERE session = s.id AND state IN ('queued', 'running'))
LEFT JOIN fleet_tenants t ON t.name = s.tenant LEFT JOIN fleet_turns u ON u.tenant = s.tenant
WHERE s.state = 'queued' AND s.not_before <= ?2 AND (r.crashes < ?3 OR ?4 OR (?5 AND s.queued_at < ?2 - ?6))
    AND coalesce(json_extract(a.value, '$[2]') > (SELECT total(number) FROM busy WHERE agent = s.agent), true)
    AND coalesce(coalesce(t.session_limit, m.tenant_limit) >
        (SELECT total(number) FROM busy WHERE tenant = s.tenant), true)
ORDER BY s.priority DESC, coalesce(u.turn, 0) + 1.0 / max(1, round(coalesce(t.weight, 1))), s.queued_at, s.rowid LIMIT 1
"""


def claim(tx: Transaction, worker: str, known: Collection[FleetAgent]) -> Claim | None:
    """Claim the next session for a worker, and return it; None if there is none.

    Sessions with a higher priority are first, then those of the tenant whose turn it is, then the oldest. After some
    crashes, a prompt only runs alone in its process, so that it takes no others with it.
    """
    pid = tx.value("SELECT pid FROM fleet_workers WHERE id = ? AND NOT is_draining", worker)
    if pid is None:
        return None
    processes = tx.all(
        "SELECT w.pid, count(s.id) AS number, coalesce(max(r.crashes), 0) AS crashes FROM fleet_workers w "
        "LEFT JOIN fleet_sessions s ON s.worker = w.id AND s.state = 'running' "
        "LEFT JOIN fleet_runs r ON r.session = s.id AND r.state = 'running' WHERE w.expires_at > ? GROUP BY w.pid",
        tx.now,
    )
    mine = next((process for process in processes if process["pid"] == pid), None)
    if mine is None or (mine["number"] and mine["crashes"] >= ALONE_CRASHES):
        return None
    has_fewest = mine["number"] <= min(process["number"] for process in processes)
    agents = as_list([[agent.name, agent.version, agent.limit] for agent in known])
    row = tx.one(_NEXT, agents, tx.now, ALONE_CRASHES, not mine["number"], has_fewest, ALONE_SECONDS)
    if row is None or (row["crashes"] >= ALONE_CRASHES and mine["number"]):
        return None
    tx.update("fleet_meta", {"rowid": 1}, turn=row["turn"])
    turns = {"tenant": row["tenant"], "turn": row["turn"] + row["step"]}
    tx.insert("fleet_turns", turns, instead="INSERT OR REPLACE")
    run = find_current_run(tx, row["id"])
    assert run is not None  # noqa: S101 - the query joins it
    epoch = int(row["epoch"]) + 1
    first: list[Event] = []
    if run["started_at"] is None:
        first = [("run", tx.now, {"run": run["number"], "state": "running", "worker": worker})]
    changes = {"worker": worker, "epoch": epoch, "reason": None}
    set_state(tx, row["id"], run["number"], "running", *first, **changes)
    begun = {"state": "running", "started_at": run["started_at"] or tx.now}
    tx.update("fleet_runs", {"session": row["id"], "number": run["number"]}, **begun)
    seconds = None if run["deadline"] is None else max(0.0, run["deadline"] - tx.now)
    return Claim({**row, **changes}, {**run, **begun}, epoch, seconds)


def check_claim(tx: Transaction, claimed: Claim) -> Row:
    """Return the row of a claimed session. Raises LostError."""
    row = tx.one("SELECT * FROM fleet_sessions WHERE id = ?", claimed.id)
    if row is None or row["epoch"] != claimed.epoch or row["state"] != "running":
        raise LostError(claimed.id)
    return row


def write_events(tx: Transaction, claimed: Claim, new: Sequence[Event]) -> None:
    """Append events of a claimed session. Raises LostError."""
    check_claim(tx, claimed)
    add_events(tx, claimed.id, claimed.run["number"], new)


def note_workspace(tx: Transaction, claimed: Claim, where: Mapping[str, str]) -> None:
    """Store where the workspace is. Raises LostError."""
    check_claim(tx, claimed)
    tx.update("fleet_sessions", {"id": claimed.id}, **where)


def settle(tx: Transaction, claimed: Claim, outcome: TurnOutcome) -> str:
    """Store the outcome of a claim, queue the session if it goes on, and return its state. Raises LostError."""
    row, run = check_claim(tx, claimed), claimed.run
    number = run["number"]
    result = {name: value for name, value in outcome.to_dict().items() if name in RESULT_FIELDS and value is not None}
    result["worker"] = row["worker"]
    if isinstance(outcome, Done | Interrupted):
        withdraw_questions(tx, claimed.id)  # the turn could not if the file was locked
    if row["wanted"] == "cancel":
        _cancel_now(tx, claimed.id, row["reason"] or "cancelled")
    elif isinstance(outcome, Done):
        if outcome.is_recovered:
            result |= _find_costs(tx, claimed.id, number)
        _end_run(tx, claimed.id, number, "done", result)
        _queue_next(tx, row, number)
    elif isinstance(outcome, Interrupted):
        interrupted = {"error": "InterruptedRunError", "reason": "interrupted"}
        _end_run(tx, claimed.id, number, "cancelled", {**result, **interrupted})
        _queue_next(tx, row, number)
    elif isinstance(outcome, Failed):
        fail_run(tx, row, number, result)
    elif row["wanted"] == "interrupt":
        # The worker did not hear of it before the process ended.
        _interrupt_now(tx, row, run)
    elif isinstance(outcome, Waiting) and count_pending(tx, claimed.id):
        set_state(tx, claimed.id, number, "waiting", worker=None, wanted=None, reason=None)
    elif isinstance(outcome, Later):
        tx.update(
            "fleet_runs", {"session": claimed.id, "number": number}, attempts=run["attempts"] + outcome.is_attempt
        )
        queue(tx, row, number, delay=outcome.pause, reason=outcome.reason if outcome.pause else None)
    else:
        # The answer arrived before the session could wait for it.
        queue(tx, row, number)
    _add_totals(tx, row["tenant"], outcome)
    return str(tx.value("SELECT state FROM fleet_sessions WHERE id = ?", claimed.id))


def _find_costs(tx: Transaction, session: str, run: int) -> dict[str, Any]:
    """Return the cost of a turn whose result an earlier process saw, if it became an event."""
    query = (
        "SELECT data FROM fleet_events WHERE session = ? AND run = ? AND kind = 'fact' ORDER BY number DESC LIMIT 50"
    )
    for row in tx.all(query, session, run):
        data = decode(row["data"])
        if data["fact"] == "turn_ended" and data.get("cost_usd") is not None:
            return {"cost_usd": data["cost_usd"]}
    return {}


def _add_totals(tx: Transaction, tenant: str, outcome: TurnOutcome) -> None:
    if cost := getattr(outcome, "cost_usd", None):
        add_to_total(tx, tenant, "cost_usd", cost)
    if isinstance(outcome, Done | Failed | Interrupted):
        add_to_total(tx, tenant, f"runs_{outcome.kind}", 1)
    elif isinstance(outcome, Later) and outcome.reason.startswith("RateLimitedError"):
        add_to_total(tx, tenant, "rate_limits", 1)


def fail_run(tx: Transaction, session: Row, number: int, result: Mapping[str, Any]) -> None:
    """Fail a prompt. Those behind it run, or fail too. The session becomes a dead letter if none is left."""
    name = session["id"]
    current = find_current_run(tx, name)
    _end_run(tx, name, number, "failed", result)
    reason = ": ".join(part for part in (result.get("error"), result.get("reason")) if part)
    query = "SELECT after_failure FROM fleet_agents WHERE name = ? AND version = ?"
    if tx.value(query, session["agent"], session["version"]) == "fail":
        behind = "SELECT number FROM fleet_runs WHERE session = ? AND number > ? AND state IN ('queued', 'running')"
        failure = {"error": EARLIER_FAILED, "reason": f"prompt {number} failed: {reason}"}
        for later in tx.all(f"{behind} ORDER BY number", name, number):
            _end_run(tx, name, later["number"], "failed", failure)
    # A prompt behind the current one failed, because its time was over.
    if current is not None and current["number"] != number:
        return
    withdraw_questions(tx, name)
    if find_current_run(tx, name) is not None:
        queue(tx, session, number)
    else:
        set_state(tx, name, number, "failed", worker=None, wanted=None, reason=reason)


def fail_overdue(tx: Transaction) -> None:
    """Fail prompts whose time is over and that nobody watches. A worker watches the prompt that it runs."""
    late = tx.all(
        "SELECT r.session, r.number FROM fleet_runs r JOIN fleet_sessions s ON s.id = r.session WHERE "
        "r.state IN ('queued', 'running') AND r.deadline < ? AND (r.state = 'queued' OR s.state != 'running') "
        "ORDER BY r.session, r.number",
        tx.now,
    )
    for row in late:
        # It may have failed with an earlier one.
        state = "SELECT state FROM fleet_runs WHERE session = ? AND number = ?"
        if tx.value(state, row["session"], row["number"]) in ("queued", "running"):
            session = load_session(tx, row["session"])
            fail_run(tx, session, row["number"], {"error": OVERDUE.error, "reason": OVERDUE.reason})


# Workers --------------------------------------------------------------------------------------------------------------


def register(tx: Transaction, row: Mapping[str, Any], known: Collection[FleetAgent], tenant_limit: int | None) -> None:
    """Insert a worker and its agents."""
    delete_worker(tx, row["id"])
    tx.insert("fleet_workers", {**row, "started_at": tx.now, "expires_at": tx.now + row["lease"]})
    abilities = [{"worker": row["id"], "agent": agent.name, "version": agent.version} for agent in known]
    tx.insert("fleet_abilities", *abilities)
    register_agents(tx, list(known))
    tx.run("UPDATE fleet_meta SET tenant_limit = ?", tenant_limit)


def delete_worker(tx: Transaction, worker: str) -> None:
    tx.run("DELETE FROM fleet_workers WHERE id = ?", worker)
    tx.run("DELETE FROM fleet_abilities WHERE worker = ?", worker)


def beat(tx: Transaction, worker: str, memory_used: int) -> Row | None:
    """Extend the lease of a worker, and return its row; None if it was declared dead.

    Sessions that were queued before the clock was set back are ready.
    """
    change = "UPDATE fleet_workers SET beats = beats + 1, expires_at = ? + lease, memory_used = ? WHERE id = ?"
    tx.run(change, tx.now, memory_used, worker)
    late = "UPDATE fleet_sessions SET queued_at = ?1, not_before = 0 WHERE state = 'queued' AND queued_at > ?1 + ?2"
    tx.run(late, tx.now, CLOCK_SECONDS)
    row = tx.one("SELECT * FROM fleet_workers WHERE id = ?", worker)
    if row is not None and row["release_at"] is not None:
        row["release_in"] = max(0.0, row["release_at"] - tx.now)
    return row


def load_beats(tx: Transaction) -> list[Row]:
    return tx.all("SELECT id, beats, lease FROM fleet_workers")


def free_dead(tx: Transaction, dead: Mapping[str, int], max_crashes: int) -> list[str]:
    """Queue the sessions of workers whose heartbeats are still these, and return the workers."""
    query = "SELECT w.id FROM fleet_workers w JOIN json_each(?) d ON d.key = w.id AND d.value = w.beats"
    found = [str(row["id"]) for row in tx.all(query, json.dumps(dict(dead)))]
    for worker in found:
        delete_worker(tx, worker)
    lost = "SELECT * FROM fleet_sessions WHERE state = 'running' AND worker NOT IN (SELECT id FROM fleet_workers)"
    for row in tx.all(lost):
        _free_session(tx, row, max_crashes)
    return found


def free_unknown(tx: Transaction, worker: str, running: Collection[str], max_crashes: int) -> None:
    """Queue the sessions that a worker has claimed, but that do not run there."""
    mine = tx.all("SELECT * FROM fleet_sessions WHERE worker = ? AND state = 'running'", worker)
    for row in mine:
        if row["id"] not in running:
            _free_session(tx, row, max_crashes)


def _free_session(tx: Transaction, row: Row, max_crashes: int) -> None:
    run = find_current_run(tx, row["id"])
    if row["wanted"] == "cancel":
        _cancel_now(tx, row["id"], row["reason"] or "cancelled")
        return
    if run is None:
        _queue_next(tx, row, 0)
        return
    crashes = int(run["crashes"]) + 1
    tx.update("fleet_runs", {"session": row["id"], "number": run["number"]}, crashes=crashes)
    add_to_total(tx, row["tenant"], "crashes", 1)
    if row["wanted"] == "interrupt":
        _interrupt_now(tx, row, run)
    elif crashes >= max_crashes:
        reason = f"{crashes} workers died while running it"
        fail_run(tx, row, run["number"], {"error": "WorkerDied", "reason": reason})
    else:
        queue(tx, row, run["number"])


class Look(NamedTuple):
    """What a worker sees when it looks for work."""

    wanted: dict[str, tuple[int, str | None]]
    """The epoch and the requested action of each session that it has claimed."""
    is_due: bool
    """Whether a schedule is to start a session."""
    has_work: bool
    """Whether a session may be ready for it."""


def look(tx: Transaction, worker: str, known: Collection[FleetAgent]) -> Look:
    """Look for work, without holding up others."""
    query = "SELECT id, epoch, wanted FROM fleet_sessions WHERE worker = ? AND state = 'running'"
    wanted = {row["id"]: (row["epoch"], row["wanted"]) for row in tx.all(query, worker)}
    is_due = tx.value("SELECT 1 FROM fleet_schedules WHERE next_at <= ? LIMIT 1", tx.now) is not None
    names = as_list([agent.name for agent in known])
    ready = "SELECT 1 FROM fleet_sessions JOIN json_each(?) ON value = agent WHERE state = 'queued' AND not_before <= ?"
    return Look(wanted, is_due, tx.value(f"{ready} LIMIT 1", names, tx.now) is not None)


def list_cancelled(tx: Transaction) -> list[Row]:
    """Return the cancelled sessions that have a workspace."""
    return tx.all("SELECT * FROM fleet_sessions WHERE state = 'cancelled' AND folder IS NOT NULL")


def forget_workspace(tx: Transaction, session: str) -> None:
    """Record that the workspace of a cancelled session was removed."""
    tx.update("fleet_sessions", {"id": session, "state": "cancelled"}, machine=None, folder=None, workspace=None)


def drain(tx: Transaction, worker: str | None, grace: float | None, by: AnswerSource | None) -> int:
    """Ask one worker or all to finish their prompts within `grace` seconds and exit. Return how many were asked."""
    release_at = None if grace is None else tx.now + grace
    change = "UPDATE fleet_workers SET is_draining = 1, release_at = coalesce(?, release_at) WHERE id = coalesce(?, id)"
    count = tx.run(change, release_at, worker)
    if count and by is not None:
        record(tx, "drain", by, worker=worker, grace=grace)
    return count


def set_tenant(tx: Transaction, name: str, limit: int | None, weight: float, by: AnswerSource) -> None:
    """Set the limit and the weight of a tenant."""
    tx.insert("fleet_tenants", {"name": name, "session_limit": limit, "weight": weight}, instead="INSERT OR REPLACE")
    record(tx, "tenant", by, tenant=name, limit=limit, weight=weight)
