"""Reads the metrics of a fleet, in six queries."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, case, func, select, true

from claude_agent_py.fleet._dbos._database import server_time
from claude_agent_py.fleet._dbos._rows import find_abilities
from claude_agent_py.fleet._dbos._tables import meta, sessions, tenants, totals, workers
from claude_agent_py.fleet.metrics import QUEUE_REASONS, FleetMetrics, QueueReason

RATE_LIMIT = "RateLimitedError"
"""How the reason of a session begins that waits for the reset of a rate limit."""


def load_metrics(connection: Connection, agent_limits: Mapping[str, int]) -> FleetMetrics:
    """Return the metrics of the fleet."""
    now = server_time(connection)
    counted = select(sessions.c.state, sessions.c.agent, sessions.c.tenant, func.count())
    counted = counted.where(sessions.c.state.in_(("running", "waiting", "failed")))
    states: Counter[str] = Counter()
    running: Counter[tuple[str, str]] = Counter()
    for state, agent, tenant, number in connection.execute(counted.group_by(*counted.selected_columns[:3])):
        states[state] += number
        if state == "running":
            running["agent", agent] += number
            running["tenant", tenant] += number
    given = select(meta.c.tenant_limit, tenants.c.name, tenants.c.session_limit)
    found = connection.execute(given.select_from(meta.outerjoin(tenants, true()))).all()
    limits = {row.name: row.session_limit for row in found}

    def is_full(agent: str, tenant: str) -> bool:
        limit = limits.get(tenant) or found[0].tenant_limit
        if limit is not None and running["tenant", tenant] >= limit:
            return True
        return agent in agent_limits and running["agent", agent] >= agent_limits[agent]

    queued: Counter[QueueReason] = Counter(dict.fromkeys(QUEUE_REASONS, 0))
    oldest: dict[QueueReason, float] = dict.fromkeys(QUEUE_REASONS, 0.0)
    run_now = find_abilities(connection)
    for agent, version, tenant, why, number, since in _count_queued(connection, now):
        reason: QueueReason = why
        if why == "ready" and (agent, version) not in run_now:
            reason = "no_worker"
        elif why == "ready" and is_full(agent, tenant):
            reason = "limit"
        queued[reason] += number
        oldest[reason] = max(oldest[reason], now - since)
    sums = list(connection.execute(select(totals.c.tenant, totals.c.name, totals.c.value)))

    def add_up(name: str) -> int:
        return int(sum(value for _, each, value in sums if each == name))

    return FleetMetrics(
        at=now,
        queued=dict(queued),
        oldest_queued_seconds=oldest,
        running=states["running"],
        waiting=states["waiting"],
        failed=states["failed"],
        **_count_workers(connection, now),
        crashes=add_up("crashes"),
        rate_limits=add_up("rate_limits"),
        runs={outcome: add_up(f"runs_{outcome}") for outcome in ("done", "failed", "interrupted")},
        cost_usd={tenant: value for tenant, name, value in sums if name == "cost_usd"},
    )


def _count_queued(connection: Connection, now: float) -> Any:
    """Return the queued sessions by agent, version, tenant and reason: how many, and since when the oldest waits."""
    is_limited = sessions.c.reason.like(f"{RATE_LIMIT}%")
    why = case((sessions.c.not_before <= now, "ready"), (is_limited, "rate_limit"), else_="retry").label("why")
    # A session that was put off is as old as its next attempt.
    has_come = sessions.c.not_before.between(sessions.c.queued_at, now)
    since = case((has_come, sessions.c.not_before), else_=sessions.c.queued_at)
    groups = (sessions.c.agent, sessions.c.version, sessions.c.tenant, why)
    query = select(*groups, func.count(), func.min(since)).where(sessions.c.state == "queued")
    return connection.execute(query.group_by(*groups))


def _count_workers(connection: Connection, now: float) -> dict[str, int]:
    query = select(workers.c.is_draining, func.count(), func.sum(workers.c.slots))
    query = query.where(workers.c.expires_at > now).group_by(workers.c.is_draining)
    found = {bool(is_draining): (number, slots) for is_draining, number, slots in connection.execute(query)}
    live, draining = found.get(False, (0, 0)), found.get(True, (0, 0))
    return {"workers": live[0], "slots": live[1], "draining_workers": draining[0]}
