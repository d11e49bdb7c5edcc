"""What changes sessions and prompts: commands, claims and outcomes. Each function is called in a transaction.

A worker that has claimed a session names the epoch of its claim. If another worker has claimed the session since, its
change raises `LostError` and does nothing.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from claude_agent_py._base.configuration import suggest
from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.durable import Done, Failed, Interrupted, Later, TurnOutcome
from claude_agent_py.fleet._events import NewDeltas, NewEvent
from claude_agent_py.fleet._local._file import Row, Transaction, as_list, decode
from claude_agent_py.fleet._local._rows import add_deltas, add_events, add_to_total, changing, load_session, record
from claude_agent_py.fleet._state import ALONE_CRASHES, OVERDUE, FleetPrompt, SessionRecord, TurnResult
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.permissions import AnswerSource

ALONE_SECONDS: Final = 10.0
"""For how long such a prompt waits for a process without sessions; then the one with the fewest takes no others."""
RATE_LIMIT: Final = "RateLimitedError"
"""How the reason of a session begins that waits for the reset of a rate limit."""
CLOCK_SECONDS: Final = 60.0
"""A session that was queued so far in the future waits no longer: the clock was set back."""


class LostError(Exception):
    """Another worker has the session."""


class Claim(NamedTuple):
    """A session that a worker runs, as it was when the worker claimed it."""

    session: SessionRecord
    prompt: FleetPrompt
    folder: str | None
    """The folder of the workspace."""
    seconds: float | None
    """Within which the prompt has to be answered."""

    @property
    def id(self) -> str:
        return self.session.id


# Commands ------------------------------------------------------------------------------------------------------------


def register_agents(tx: Transaction, known: Sequence[FleetAgent]) -> None:
    """Store agents, for processes that do not register them."""
    for agent in known:
        tx.run(
            "INSERT INTO fleet_agents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET timeout = excluded.timeout, after_failure = excluded.after_failure",
            *(agent.name, agent.version, agent.timeout, agent.after_failure, tx.now),
        )


def start(tx: Transaction, new: SessionRecord, known: Sequence[FleetAgent], by: AnswerSource) -> None:
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
    row: Row = {name: getattr(new, name) for name in ("id", "agent", "title", "tenant", "priority")}
    row |= {"version": _find_version(tx, new), "cli_session": new.conversation, "state": "idle"}
    tx.insert("fleet_sessions", {**row, **dict.fromkeys(("queued_at", "created_at", "updated_at"), tx.now)})
    (prompt,) = new.prompts
    _add_prompt(tx, new.id, prompt.content, prompt.timeout, next(iter(new.keys), None))
    record(tx, "start", by, new.id, run=1)


def _find_version(tx: Transaction, new: SessionRecord) -> str:
    """Return the requested version, or the last registered one, preferring those that a worker runs."""
    query = "SELECT version FROM fleet_agents WHERE name = ? ORDER BY registered_at DESC, rowid DESC"
    known = [row["version"] for row in tx.all(query, new.agent) if new.version in ("", row["version"])]
    if not known:
        version = f" of version {new.version!r}" if new.version else ""
        near = suggest(new.agent, {row["name"] for row in tx.all("SELECT name FROM fleet_agents")} - {new.agent})
        raise OptionsError(f"no worker has registered an agent {new.agent!r}{version}{near}", option="agent")
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
    number = _add_prompt(tx, session, prompt, timeout, key)
    record(tx, "send", by, session, run=number)
    return number


def _add_prompt(tx: Transaction, session: str, prompt: object, timeout: float | None, key: str | None) -> int:
    with changing(tx, session) as s:
        return s.add(str(uuid4()), json.dumps(prompt), timeout, key, tx.now).number


def interrupt(tx: Transaction, session: str, by: AnswerSource) -> bool:
    """Interrupt the current prompt, and return whether there was one. The next one follows."""
    with changing(tx, session) as s:
        if (prompt := s.current) is None:
            return False
        if s.state != "running":
            s.stop(prompt, tx.now)
        elif s.wanted is None:  # to cancel interrupts too, and for good
            s.wanted = "interrupt"
    record(tx, "interrupt", by, session)
    return True


def cancel(tx: Transaction, session: str, reason: str, by: AnswerSource) -> bool:
    """Cancel a session permanently. Return False if it was cancelled before."""
    with changing(tx, session) as s:
        if s.state == "cancelled" or s.wanted == "cancel":
            return False
        s.wanted, s.reason = "cancel", reason
        if s.state != "running":
            s.cancel(tx.now)
    record(tx, "cancel", by, session, reason=reason)
    return True


def retry(tx: Transaction, session: str, by: AnswerSource) -> int:
    """Queue the prompt that failed again, and those that failed with it, and return its number.

    Raises:
        FleetError: The session has not failed.
    """
    with changing(tx, session) as s:
        if s.state != "failed":
            raise FleetError(f"the session {session!r} is {s.state}, not failed", session_id=session)
        number = s.retry(tx.now)
    record(tx, "retry", by, session)
    return number


def answer(tx: Transaction, session: str, interaction: str, reply: JSONMapping, by: AnswerSource) -> bool:
    """Record an answer, and queue the session if no question is left. Return whether it is the first answer."""
    with changing(tx, session) as s:
        if not s.answer(interaction, reply, by.by):
            return False
    record(tx, "answer", by, session, id=interaction)
    return True


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
    with changing(tx, row["id"]) as s:
        s.epoch += 1
        s.begin(worker, tx.now)
    prompt = s.current
    assert prompt is not None  # noqa: S101 - the query joins it
    return Claim(s, prompt, row["folder"], None if prompt.deadline is None else max(0.0, prompt.deadline - tx.now))


def check_claim(tx: Transaction, claimed: Claim) -> Row:
    """Return the row of a claimed session. Raises LostError."""
    row = tx.one("SELECT * FROM fleet_sessions WHERE id = ?", claimed.id)
    if row is None or row["epoch"] != claimed.session.epoch or row["state"] != "running":
        raise LostError("another worker has it")
    return row


def write_events(tx: Transaction, claimed: Claim, new: Sequence[NewEvent], deltas: NewDeltas) -> None:
    """Append events and deltas of a claimed session. Raises LostError."""
    check_claim(tx, claimed)
    add_events(tx, claimed.id, [(claimed.prompt.number, event) for event in new])
    if deltas.open or deltas.whole:
        add_deltas(tx, claimed.id, deltas)


def note_workspace(tx: Transaction, claimed: Claim, where: Mapping[str, str]) -> None:
    """Store where the workspace is. Raises LostError."""
    check_claim(tx, claimed)
    tx.update("fleet_sessions", {"id": claimed.id}, **where)


def settle(tx: Transaction, claimed: Claim, outcome: TurnOutcome) -> str:
    """Store the outcome of a claim, queue the session if it goes on, and return its state. Raises LostError."""
    row = check_claim(tx, claimed)
    result = TurnResult.of(outcome, row["worker"])
    if isinstance(outcome, Done) and outcome.is_recovered:
        result.result |= _find_costs(tx, claimed.id, claimed.prompt.number)
    with changing(tx, claimed.id) as s:
        if (prompt := s.current) is not None:
            s.settle(prompt, result, tx.now)
    _add_totals(tx, row["tenant"], outcome, result.cost_usd or result.result.get("cost_usd"))
    return s.state


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


def _add_totals(tx: Transaction, tenant: str, outcome: TurnOutcome, cost: float | None) -> None:
    if cost:
        add_to_total(tx, tenant, "cost_usd", cost)
    if isinstance(outcome, Done | Failed | Interrupted):
        add_to_total(tx, tenant, f"runs_{outcome.kind}", 1)
    elif isinstance(outcome, Later) and outcome.reason.startswith(RATE_LIMIT):
        add_to_total(tx, tenant, "rate_limits", 1)


def fail_overdue(tx: Transaction) -> None:
    """Fail prompts whose time is over and that nobody watches. A worker watches the prompt that it runs."""
    late = tx.all(
        "SELECT r.session, r.number FROM fleet_runs r JOIN fleet_sessions s ON s.id = r.session WHERE "
        "r.state IN ('queued', 'running') AND r.deadline < ? AND (r.state = 'queued' OR s.state != 'running') "
        "ORDER BY r.session, r.number",
        tx.now,
    )
    for row in late:
        with changing(tx, row["session"]) as s:
            for prompt in s.prompts:
                if prompt.number == row["number"] and prompt.ended_at is None:  # it may have failed with an earlier one
                    s.fail(prompt, OVERDUE, tx.now)


# Workers --------------------------------------------------------------------------------------------------------------


def register(tx: Transaction, row: JSONMapping, known: Collection[FleetAgent], tenant_limit: int | None) -> None:
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


def load_beats(tx: Transaction) -> list[tuple[str, int, float]]:
    """Return the number of heartbeats and the lease of each worker."""
    return [(row["id"], row["beats"], row["lease"]) for row in tx.all("SELECT * FROM fleet_workers")]


def free_dead(tx: Transaction, dead: Mapping[str, int], max_crashes: int) -> list[str]:
    """Queue the sessions of workers whose heartbeats are still these, and return the workers."""
    query = "SELECT w.id FROM fleet_workers w JOIN json_each(?) d ON d.key = w.id AND d.value = w.beats"
    found = [str(row["id"]) for row in tx.all(query, json.dumps(dict(dead)))]
    for worker in found:
        delete_worker(tx, worker)
    lost = "SELECT id FROM fleet_sessions WHERE state = 'running' AND worker NOT IN (SELECT id FROM fleet_workers)"
    for row in tx.all(lost):
        _free_session(tx, row["id"], max_crashes)
    return found


def free_unknown(tx: Transaction, worker: str, running: Collection[str], max_crashes: int) -> None:
    """Queue the sessions that a worker has claimed, but that do not run there."""
    for row in tx.all("SELECT id FROM fleet_sessions WHERE worker = ? AND state = 'running'", worker):
        if row["id"] not in running:
            _free_session(tx, row["id"], max_crashes)


def _free_session(tx: Transaction, session: str, max_crashes: int) -> None:
    with changing(tx, session) as s:
        s.max_crashes = max_crashes
        if (prompt := s.current) is not None:
            s.crash(prompt, tx.now)
    add_to_total(tx, s.tenant, "crashes", 1)


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
    has_work = tx.value(f"{ready} LIMIT 1", names, tx.now) is not None
    return Look(wanted, is_due, has_work)


def list_cancelled(tx: Transaction, known: Collection[FleetAgent]) -> list[Row]:
    """Return the cancelled sessions of some agents that have a workspace."""
    names = {(agent.name, agent.version) for agent in known}
    rows = tx.all("SELECT * FROM fleet_sessions WHERE state = 'cancelled' AND folder IS NOT NULL")
    return [row for row in rows if (row["agent"], row["version"]) in names]


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
