"""Sums that grow over the life of a fleet, by tenant: retention deletes the runs that they count.

A transaction adds to them last: it holds their rows until it ends, and must wait for nothing meanwhile.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from claude_agent_py.fleet._dbos._tables import totals


def add(connection: Connection, tenant: str, name: str, amount: float) -> None:
    """Add to a sum."""
    row = insert(totals).values(tenant=tenant, name=name, value=amount)
    change = row.on_conflict_do_update(
        index_elements=[totals.c.tenant, totals.c.name], set_={"value": totals.c.value + row.excluded.value}
    )
    connection.execute(change)


def add_outcome(connection: Connection, tenant: str, outcome: Mapping[str, Any]) -> None:
    """Add the outcome of an attempt: its cost, and whether it ended the run or met a rate limit."""
    result: Mapping[str, Any] = outcome.get("result") or outcome
    cost = result.get("cost_usd")
    if cost:
        add(connection, tenant, "cost_usd", cost)
    if outcome["kind"] in ("done", "failed", "interrupted"):
        add(connection, tenant, f"runs_{outcome['kind']}", 1)
    elif str(outcome.get("reason", "")).startswith("RateLimitedError"):
        add(connection, tenant, "rate_limits", 1)


def add_crashes(connection: Connection, crashed: Iterable[str]) -> None:
    """Add runs whose worker died, each named by its tenant."""
    for tenant in sorted(crashed):
        add(connection, tenant, "crashes", 1)
