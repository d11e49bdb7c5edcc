"""Queries of a local fleet: sessions, prompts, events, questions, workers, tenants, the audit log and the metrics."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from claude_agent_py._base.errors import FleetError
from claude_agent_py.fleet._local._changes import RATE_LIMIT, find_abilities
from claude_agent_py.fleet._local._file import Row, Transaction, decode
from claude_agent_py.fleet._local._rows import load_session, read_question
from claude_agent_py.fleet._state import FleetQuestion, read_outcome
from claude_agent_py.fleet.metrics import QUEUE_REASONS, FleetMetrics, QueueReason
from claude_agent_py.fleet.records import (
    FleetAuditEntry,
    FleetDelta,
    FleetEvent,
    FleetOutcome,
    FleetSessionInfo,
    FleetTenantInfo,
    FleetWorkerInfo,
    SessionState,
)

MAX_ENTRIES: Final = 500
"""How many entries of the audit log one query returns."""


class _Limits:
    """What keeps sessions from running: the agents of live workers, and the limits of tenants."""

    def __init__(self, tx: Transaction) -> None:
        self.able = {(row["agent"], row["version"]) for row in find_abilities(tx)}
        self._default = tx.value("SELECT tenant_limit FROM fleet_meta")
        self._own = {row["name"]: row["session_limit"] for row in tx.all("SELECT * FROM fleet_tenants")}
        query = "SELECT agent, tenant, count(*) AS number FROM fleet_sessions WHERE state = 'running' GROUP BY 1, 2"
        self.agents: Counter[str] = Counter()
        self.tenants: Counter[str] = Counter()
        for row in tx.all(query):
            self.agents[row["agent"]] += row["number"]
            self.tenants[row["tenant"]] += row["number"]

    def of(self, tenant: str) -> int | None:
        """Return the limit of a tenant."""
        found: int | None = self._own.get(tenant) or self._default
        return found

    def is_full(self, tenant: str) -> bool:
        """Return whether a tenant runs as many sessions as it may."""
        limit = self.of(tenant)
        return limit is not None and self.tenants[tenant] >= limit

    def explain(self, row: Row) -> str | None:
        """Return why a queued session cannot run; None if it waits for a free slot."""
        if (row["agent"], row["version"]) not in self.able:
            return f"no live worker has the agent {row['agent']!r} of version {row['version']!r}"
        if self.is_full(row["tenant"]):
            return f"the tenant {row['tenant']!r} has reached its limit of {self.of(row['tenant'])} running sessions"
        return None


def build_infos(tx: Transaction, rows: Sequence[Row]) -> list[FleetSessionInfo]:
    """Return sessions. Those that cannot run say why."""
    limits: _Limits | None = None
    infos = []
    for row in rows:
        reason = row["reason"]
        if row["state"] == "queued" and not reason:
            limits = limits or _Limits(tx)
            reason = limits.explain(row)
        fields = {name: row[name] for name in FleetSessionInfo.__dataclass_fields__ if name in row}
        infos.append(FleetSessionInfo(**{**fields, "reason": reason, "cli_session_id": row["cli_session"]}))
    return infos


def describe_session(tx: Transaction, session: str) -> FleetSessionInfo:
    """Return a session. Raises FleetError if it does not exist."""
    return build_infos(tx, [load_session(tx, session)])[0]


def list_sessions(
    tx: Transaction, state: str | None, agent: str | None, tenant: str | None, limit: int
) -> list[FleetSessionInfo]:
    """Return sessions, newest first."""
    given = {
        name: value for name, value in (("state", state), ("agent", agent), ("tenant", tenant)) if value is not None
    }
    condition = " AND ".join(f"{name} = ?" for name in given) or "true"
    query = f"SELECT * FROM fleet_sessions WHERE {condition} ORDER BY created_at DESC LIMIT ?"  # noqa: S608 - our names
    return build_infos(tx, tx.all(query, *given.values(), limit))


def load_outcome(tx: Transaction, session: str, run: int | None) -> FleetOutcome:
    """Return the state and the result of a prompt, by default the last one. Raises FleetError if it does not exist."""
    found = load_session(tx, session)
    row = tx.one("SELECT * FROM fleet_runs WHERE session = ? AND number = ?", session, run or found["runs"])
    if row is None:
        raise FleetError(f"the session {session!r} has no run {run}", session_id=session)
    return read_outcome(session, found["cli_session"], row["number"], {**row, "result": decode(row["result"])})


def load_events(tx: Transaction, session: str, after: int, limit: int) -> tuple[list[FleetEvent], SessionState]:
    """Return the events after a number, and the state of the session at that moment."""
    state: SessionState = load_session(tx, session)["state"]
    rows = tx.all(
        "SELECT number, run, kind, at, data FROM fleet_events WHERE session = ? AND number > ? ORDER BY number LIMIT ?",
        *(session, after, limit),
    )
    return [FleetEvent(**{**row, "data": decode(row["data"])}, session_id=session) for row in rows], state


def load_deltas(tx: Transaction, session: str, after: int) -> list[FleetDelta]:
    """Return the latest deltas after a number."""
    query = "SELECT number, kind, id, text, whole FROM fleet_deltas WHERE session = ? AND number > ? ORDER BY number"
    return [FleetDelta(session_id=session, **row) for row in tx.all(query, session, after)]


def list_questions(tx: Transaction, session: str | None) -> list[tuple[str, FleetQuestion]]:
    """Return the unanswered questions of one session or of all, each with its session, oldest first."""
    query = "SELECT * FROM fleet_interactions WHERE state = 'pending'"
    if session is None:
        rows = tx.all(f"{query} ORDER BY created_at")
    else:
        rows = tx.all(f"{query} AND session = ? ORDER BY created_at", session)
    return [(row["session"], read_question(row)) for row in rows]


def check_question(tx: Transaction, session: str, interaction: str) -> None:
    """Raise FleetError unless the session has asked this question."""
    load_session(tx, session)
    if tx.value("SELECT 1 FROM fleet_interactions WHERE id = ? AND session = ?", interaction, session) is None:
        raise FleetError(f"the session {session!r} has asked no question {interaction!r}", session_id=session)


def count_open_sessions(tx: Transaction) -> int:
    """Return how many sessions are queued or running."""
    return int(tx.value("SELECT count(*) FROM fleet_sessions WHERE state IN ('queued', 'running')"))


def list_workers(tx: Transaction) -> list[FleetWorkerInfo]:
    """Return the workers, oldest first."""
    count = "(SELECT count(*) FROM fleet_sessions WHERE worker = w.id) AS running"
    rows = tx.all(f"SELECT *, {count} FROM fleet_workers w ORDER BY started_at")  # noqa: S608 - a constant
    workers = [{name: row[name] for name in FleetWorkerInfo.__dataclass_fields__} for row in rows]
    return [FleetWorkerInfo(**{**row, "is_draining": bool(row["is_draining"])}) for row in workers]


def list_tenants(tx: Transaction) -> list[FleetTenantInfo]:
    """Return the tenants that have sessions or settings, sorted by name."""
    sessions: dict[str, dict[str, int]] = {}
    for row in tx.all("SELECT tenant, state, count(*) AS number FROM fleet_sessions GROUP BY 1, 2"):
        sessions.setdefault(row["tenant"], {})[row["state"]] = row["number"]
    settings = {
        row["name"]: {"limit": row["session_limit"], "weight": row["weight"]}
        for row in tx.all("SELECT * FROM fleet_tenants")
    }
    return [
        FleetTenantInfo(name=name, sessions=sessions.get(name, {}), **settings.get(name, {}))
        for name in sorted(sessions.keys() | settings.keys())
    ]


def load_audit(tx: Transaction, after: int, session: str | None, actor: str | None) -> list[FleetAuditEntry]:
    """Return entries of the audit log after a number, oldest first."""
    query = (
        "SELECT number, at, actor, origin, action, session AS session_id, details FROM fleet_audit "
        "WHERE number > ? AND session IS coalesce(?, session) AND actor = coalesce(?, actor) ORDER BY number LIMIT ?"
    )
    rows = tx.all(query, after, session, actor, MAX_ENTRIES)
    return [FleetAuditEntry(**{**row, "details": decode(row["details"])}) for row in rows]


def load_metrics(tx: Transaction, agent_limits: Mapping[str, int]) -> FleetMetrics:
    """Return the figures of the fleet."""
    limits = _Limits(tx)
    queued, oldest = _count_queued(tx, limits, agent_limits)
    query = "SELECT state, count(*) AS number FROM fleet_sessions WHERE state IN ('waiting', 'failed') GROUP BY state"
    states = {row["state"]: row["number"] for row in tx.all(query)}
    query = (
        "SELECT is_draining, count(*) AS number, sum(slots) AS slots FROM fleet_workers WHERE expires_at > ? GROUP BY 1"
    )
    workers = {row["is_draining"]: row for row in tx.all(query, tx.now)}
    totals = tx.all("SELECT * FROM fleet_totals")

    def add_up(name: str) -> int:
        return int(sum(row["value"] for row in totals if row["name"] == name))

    return FleetMetrics(
        at=tx.now,
        queued=queued,
        oldest_queued_seconds=oldest,
        running=limits.agents.total(),
        waiting=states.get("waiting", 0),
        failed=states.get("failed", 0),
        workers=workers[0]["number"] if 0 in workers else 0,
        slots=workers[0]["slots"] if 0 in workers else 0,
        draining_workers=workers[1]["number"] if 1 in workers else 0,
        crashes=add_up("crashes"),
        rate_limits=add_up("rate_limits"),
        runs={outcome: add_up(f"runs_{outcome}") for outcome in ("done", "failed", "interrupted")},
        cost_usd={row["tenant"]: row["value"] for row in totals if row["name"] == "cost_usd"},
    )


def _count_queued(
    tx: Transaction, limits: "_Limits", agent_limits: Mapping[str, int]
) -> tuple[dict[QueueReason, int], dict[QueueReason, float]]:
    """Return how many sessions are queued for each reason, and for how many seconds the oldest of them has been."""
    queued: Counter[QueueReason] = Counter(dict.fromkeys(QUEUE_REASONS, 0))
    oldest: dict[QueueReason, float] = dict.fromkeys(QUEUE_REASONS, 0.0)
    # A session that was put off is as old as its next attempt.
    groups = tx.all(
        "SELECT agent, version, tenant, count(*) AS number, CASE WHEN not_before <= ?1 THEN 'ready' "
        "WHEN reason LIKE ?2 THEN 'rate_limit' ELSE 'retry' END AS why, "
        "min(CASE WHEN not_before BETWEEN queued_at AND ?1 THEN not_before ELSE queued_at END) AS since "
        "FROM fleet_sessions WHERE state = 'queued' GROUP BY agent, version, tenant, why",
        *(tx.now, f"{RATE_LIMIT}%"),
    )
    for row in groups:
        reason: QueueReason = row["why"]
        most = agent_limits.get(row["agent"])
        if reason == "ready" and (row["agent"], row["version"]) not in limits.able:
            reason = "no_worker"
        elif reason == "ready" and (limits.is_full(row["tenant"]) or (most and limits.agents[row["agent"]] >= most)):
            reason = "limit"
        queued[reason] += row["number"]
        oldest[reason] = max(oldest[reason], tx.now - row["since"])
    return dict(queued), oldest
