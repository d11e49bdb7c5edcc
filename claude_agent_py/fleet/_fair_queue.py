"""The order in which workers claim queued sessions: by priority, then fairly between tenants and agents, then by age.

The tenant with the fewest running sessions for its weight goes first. Ties are decided by virtual time: each session
that a tenant starts delays its next turn by 1 / weight, so that shares stay fair even if few sessions run concurrently.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, func, insert, or_, select, update

from claude_agent_py.fleet._database import lock, server_time
from claude_agent_py.fleet._tables import sessions, tenants, workers
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.records import FleetTenantInfo

AFFINITY_SECONDS: Final = 5.0
"""Seconds that a session waits for the machine with its workspace before another machine may claim it."""


class Claimant(NamedTuple):
    """A worker that claims sessions."""

    worker: str
    machine: str
    tenant_limit: int | None


class Shares:
    """The running sessions and the limits of tenants and agents."""

    def __init__(self, connection: Connection, claimant: Claimant, known: Sequence[FleetAgent]) -> None:
        self.running: Counter[tuple[str, str]] = Counter()
        query = select(sessions.c.agent, sessions.c.tenant, func.count()).where(sessions.c.state == "running")
        for agent, tenant, number in connection.execute(query.group_by(sessions.c.agent, sessions.c.tenant)):
            self.running["agent", agent] += number
            self.running["tenant", tenant] += number
        self._agents = {agent.name: agent for agent in known}
        self._tenant_limit = claimant.tenant_limit
        self.tenants: dict[str, RowMapping] = {
            row["name"]: row for row in connection.execute(select(tenants)).mappings()
        }
        self.last_turns: dict[str, float] = {
            name: row["began"] for name, row in self.tenants.items() if row["began"] is not None
        }
        """The virtual time of each tenant's last turn, in turns of weight 1."""
        self._now = max(self.last_turns.values(), default=0.0)

    def has_room(self, agent: str, tenant: str) -> bool:
        """Return whether one more session may run."""
        most = self._agents[agent].limit
        has_agent_room = most is None or self.running["agent", agent] < most
        return has_agent_room and tenant not in self.find_full_tenants((tenant,))

    def find_full_tenants(self, names: Iterable[str]) -> list[str]:
        """Return the names of tenants that have reached their limit of running sessions."""
        return [name for name in names if self.running["tenant", name] >= self._limit(name)]

    def rank(self, row: RowMapping) -> tuple[float, ...]:
        """Return the sort key of a session that may run."""
        agent = row["agent"]
        tenant = row["tenant"]
        tenants_share = self.running["tenant", tenant] / self._weight(tenant)
        agents_share = self.running["agent", agent] / self._agents[agent].weight
        return -row["priority"], tenants_share, self._next_turn(tenant), agents_share, row["queued_at"]

    def add(self, row: RowMapping) -> None:
        """Count a session that starts."""
        self.running["agent", row["agent"]] += 1
        self.running["tenant", row["tenant"]] += 1
        self._now = self._next_turn(row["tenant"])
        self.last_turns[row["tenant"]] = self._now

    def _limit(self, tenant: str) -> float:
        limit = self.tenants[tenant]["session_limit"] if tenant in self.tenants else None
        if limit is None:
            limit = self._tenant_limit
        return float("inf") if limit is None else limit

    def _weight(self, tenant: str) -> float:
        return self.tenants[tenant]["weight"] if tenant in self.tenants else 1.0

    def _next_turn(self, tenant: str) -> float:
        """Return the virtual time of a tenant's next turn: now, if it has not had one for a while."""
        if tenant not in self.last_turns:
            return self._now
        return max(self._now, self.last_turns[tenant] + 1 / self._weight(tenant))


def has_work(connection: Connection, claimant: Claimant, known: Sequence[FleetAgent]) -> bool:
    """Return whether there may be sessions to claim."""
    now = server_time(connection)
    query = select(sessions.c.id).where(or_(*(_is_available(claimant, agent, now) for agent in known)))
    return connection.execute(query.limit(1)).first() is not None


def choose_sessions(
    connection: Connection, claimant: Claimant, known: Sequence[FleetAgent], count: int, now: float
) -> Sequence[RowMapping]:
    """Lock and return up to `count` queued sessions. The caller must hold the fleet's lock."""
    shares = Shares(connection, claimant, known)
    full = shares.find_full_tenants(list({name for kind, name in shares.running if kind == "tenant"}))
    heads = _find_heads(connection, claimant, known, full, now)
    agents = {(agent.name, agent.version): agent for agent in known}
    candidates: list[RowMapping] = []
    # Choosing a session never raises the rank of another one, so the first `count` heads are enough.
    for head in nsmallest(count, heads, key=shares.rank):
        agent = agents[head["agent"], head["version"]]
        candidates += _load_candidates(connection, claimant, agent, head["tenant"], count, now)
    chosen: list[str] = []
    while candidates and len(chosen) < count:
        row = min(candidates, key=shares.rank)
        candidates.remove(row)
        if shares.has_room(row["agent"], row["tenant"]):
            chosen.append(row["id"])
            shares.add(row)
    if len({head["tenant"] for head in heads}) > 1:
        _store_turns(connection, shares)
    query = select(sessions).where(sessions.c.id.in_(chosen), sessions.c.state == "queued")
    found = connection.execute(query.with_for_update(skip_locked=True)).mappings()
    return sorted(found, key=lambda row: chosen.index(row["id"]))


def _is_available(claimant: Claimant, agent: FleetAgent, now: float) -> ColumnElement[bool]:
    is_ready = and_(
        sessions.c.state == "queued",
        sessions.c.agent == agent.name,
        sessions.c.version == agent.version,
        sessions.c.not_before <= now,
    )
    if agent.workspace is None or agent.workspace.is_shared:
        return is_ready
    is_here = or_(
        sessions.c.machine.is_(None),
        sessions.c.machine == claimant.machine,
        sessions.c.queued_at < now - AFFINITY_SECONDS,
        sessions.c.machine.not_in(select(workers.c.machine)),
    )
    return and_(is_ready, is_here)


def _find_heads(
    connection: Connection, claimant: Claimant, known: Sequence[FleetAgent], full: Sequence[str], now: float
) -> list[RowMapping]:
    """Return the queued pairs of agent and tenant, each with its highest priority and its oldest queue time."""
    found: list[RowMapping] = []
    first = (func.max(sessions.c.priority).label("priority"), func.min(sessions.c.queued_at).label("queued_at"))
    names = [sessions.c[name] for name in ("agent", "version", "tenant")]
    for agent in known:
        query = select(*names, *first).where(_is_available(claimant, agent, now), sessions.c.tenant.not_in(full))
        found += connection.execute(query.group_by(*names)).mappings()
    return found


def _load_candidates(
    connection: Connection, claimant: Claimant, agent: FleetAgent, tenant: str, count: int, now: float
) -> Sequence[RowMapping]:
    """Return the first queued sessions of an agent and a tenant."""
    columns = [sessions.c[name] for name in ("id", "agent", "tenant", "priority", "queued_at")]
    query = select(*columns).where(_is_available(claimant, agent, now), sessions.c.tenant == tenant)
    query = query.order_by(sessions.c.priority.desc(), sessions.c.queued_at).limit(count)
    return connection.execute(query).mappings().all()


# Tenants --------------------------------------------------------------------------------------------------------------


def _store_turns(connection: Connection, shares: Shares) -> None:
    for name, began in shares.last_turns.items():
        if name not in shares.tenants:
            connection.execute(insert(tenants).values(name=name, weight=1.0, began=began))
        elif began != shares.tenants[name]["began"]:
            connection.execute(update(tenants).where(tenants.c.name == name).values(began=began))


def delete_old_turns(connection: Connection) -> None:
    """Delete tenants that only have an old turn: a tenant without a row is treated the same."""
    latest = connection.scalar(select(func.max(tenants.c.began)))
    if latest is not None:
        is_plain = and_(tenants.c.session_limit.is_(None), tenants.c.weight == 1.0)
        connection.execute(delete(tenants).where(is_plain, tenants.c.began <= latest - 1.0))


def set_tenant(connection: Connection, name: str, limit: int | None, weight: float) -> None:
    """Set the limit and the weight of a tenant."""
    lock(connection)
    values = {"session_limit": limit, "weight": weight}
    if connection.execute(update(tenants).where(tenants.c.name == name).values(values)).rowcount == 0:
        connection.execute(insert(tenants).values(name=name, **values))


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
