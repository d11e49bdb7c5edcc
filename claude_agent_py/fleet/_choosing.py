"""Which of the queued sessions a worker takes: by priority, then fairly between tenants and agents, then by age.

The tenant with the fewest running sessions for its weight goes first. Among equals it is the one whose turn it is: each
session that a tenant begins puts its next turn off by 1 / weight, so that shares hold where few sessions run at once.
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
"""For how long a session waits for the machine that has its workspace before another one takes it."""


class Place(NamedTuple):
    """A worker."""

    worker: str
    machine: str
    tenant_limit: int | None


class Shares:
    """What runs, and what tenants and agents may have."""

    def __init__(self, connection: Connection, place: Place, known: Sequence[FleetAgent]) -> None:
        self.running: Counter[tuple[str, str]] = Counter()
        query = select(sessions.c.agent, sessions.c.tenant, func.count()).where(sessions.c.state == "running")
        for agent, tenant, number in connection.execute(query.group_by(sessions.c.agent, sessions.c.tenant)):
            self.running["agent", agent] += number
            self.running["tenant", tenant] += number
        self._agents = {one.name: one for one in known}
        self._tenant_limit = place.tenant_limit
        self.tenants: dict[str, RowMapping] = {
            row["name"]: row for row in connection.execute(select(tenants)).mappings()
        }
        self.began: dict[str, float] = {
            name: row["began"] for name, row in self.tenants.items() if row["began"] is not None
        }
        """When tenants had their last turn, in turns of weight 1."""
        self._now = max(self.began.values(), default=0.0)

    def has_room(self, agent: str, tenant: str) -> bool:
        """Return whether one more may run."""
        most = self._agents[agent].limit
        has_agent_room = most is None or self.running["agent", agent] < most
        return has_agent_room and tenant not in self.full_tenants((tenant,))

    def full_tenants(self, names: Iterable[str]) -> list[str]:
        """Return which of these tenants have as many running sessions as they may."""
        return [name for name in names if self.running["tenant", name] >= self._limit(name)]

    def rank(self, row: RowMapping) -> tuple[float, ...]:
        """Return what the sessions that may run are sorted by."""
        agent, tenant = row["agent"], row["tenant"]
        tenants_share = self.running["tenant", tenant] / self._weight(tenant)
        agents_share = self.running["agent", agent] / self._agents[agent].weight
        return -row["priority"], tenants_share, self._turn(tenant), agents_share, row["queued_at"]

    def count(self, row: RowMapping) -> None:
        """Note that a session begins."""
        self.running["agent", row["agent"]] += 1
        self.running["tenant", row["tenant"]] += 1
        self._now = self.began[row["tenant"]] = self._turn(row["tenant"])

    def _limit(self, tenant: str) -> float:
        own = self.tenants[tenant]["session_limit"] if tenant in self.tenants else None
        given = self._tenant_limit if own is None else own
        return float("inf") if given is None else given

    def _weight(self, tenant: str) -> float:
        return self.tenants[tenant]["weight"] if tenant in self.tenants else 1.0

    def _turn(self, tenant: str) -> float:
        """Return when it is a tenant's turn: now, for one that had none for long."""
        if tenant not in self.began:
            return self._now
        return max(self._now, self.began[tenant] + 1 / self._weight(tenant))


def is_work(connection: Connection, place: Place, known: Sequence[FleetAgent]) -> bool:
    """Return whether there may be sessions to take."""
    now = server_time(connection)
    query = select(sessions.c.id).where(or_(*(_fits(place, one, now) for one in known)))
    return connection.execute(query.limit(1)).first() is not None


def choose(
    connection: Connection, place: Place, known: Sequence[FleetAgent], count: int, now: float
) -> Sequence[RowMapping]:
    """Return up to `count` queued sessions, locked. One worker at a time chooses: the caller has the fleet's lock."""
    shares = Shares(connection, place, known)
    full = shares.full_tenants(list({name for kind, name in shares.running if kind == "tenant"}))
    heads = _heads(connection, place, known, full, now)
    agents = {(one.name, one.version): one for one in known}
    candidates = [
        row
        for head in nsmallest(count, heads, key=shares.rank)  # what is chosen comes from them, since no other rises
        for row in _candidates(connection, place, agents[head["agent"], head["version"]], head["tenant"], count, now)
    ]
    chosen: list[str] = []
    while candidates and len(chosen) < count:
        row = min(candidates, key=shares.rank)
        candidates.remove(row)
        if shares.has_room(row["agent"], row["tenant"]):
            chosen.append(row["id"])
            shares.count(row)
    if len({head["tenant"] for head in heads}) > 1:
        _note_turns(connection, shares)
    query = select(sessions).where(sessions.c.id.in_(chosen), sessions.c.state == "queued")
    found = connection.execute(query.with_for_update(skip_locked=True)).mappings()
    return sorted(found, key=lambda row: chosen.index(row["id"]))


def _fits(place: Place, agent: FleetAgent, now: float) -> ColumnElement[bool]:
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
        sessions.c.machine == place.machine,
        sessions.c.queued_at < now - AFFINITY_SECONDS,
        sessions.c.machine.not_in(select(workers.c.machine)),
    )
    return and_(is_ready, is_here)


def _heads(
    connection: Connection, place: Place, known: Sequence[FleetAgent], full: Sequence[str], now: float
) -> list[RowMapping]:
    """Return what waits: the agents and tenants, the highest priority of each pair, and since when."""
    found: list[RowMapping] = []
    first = (func.max(sessions.c.priority).label("priority"), func.min(sessions.c.queued_at).label("queued_at"))
    names = [sessions.c[name] for name in ("agent", "version", "tenant")]
    for one in known:
        query = select(*names, *first).where(_fits(place, one, now), sessions.c.tenant.not_in(full))
        found += connection.execute(query.group_by(*names)).mappings()
    return found


def _candidates(
    connection: Connection, place: Place, agent: FleetAgent, tenant: str, count: int, now: float
) -> Sequence[RowMapping]:
    """Return the first sessions of an agent and a tenant."""
    columns = [sessions.c[name] for name in ("id", "agent", "tenant", "priority", "queued_at")]
    query = select(*columns).where(_fits(place, agent, now), sessions.c.tenant == tenant)
    query = query.order_by(sessions.c.priority.desc(), sessions.c.queued_at).limit(count)
    return connection.execute(query).mappings().all()


# Tenants --------------------------------------------------------------------------------------------------------------


def _note_turns(connection: Connection, shares: Shares) -> None:
    """Write the turns that changed."""
    for name, began in shares.began.items():
        if name not in shares.tenants:
            connection.execute(insert(tenants).values(name=name, weight=1.0, began=began))
        elif began != shares.tenants[name]["began"]:
            connection.execute(update(tenants).where(tenants.c.name == name).values(began=began))


def forget_turns(connection: Connection) -> None:
    """Delete tenants of which nothing is known but a turn that is long past: those without have the same."""
    latest = connection.scalar(select(func.max(tenants.c.began)))
    if latest is not None:
        is_plain = and_(tenants.c.session_limit.is_(None), tenants.c.weight == 1.0)
        connection.execute(delete(tenants).where(is_plain, tenants.c.began <= latest - 1.0))


def set_tenant(connection: Connection, name: str, limit: int | None, weight: float) -> None:
    """Set what a tenant may have."""
    lock(connection)
    given = {"session_limit": limit, "weight": weight}
    if connection.execute(update(tenants).where(tenants.c.name == name).values(given)).rowcount == 0:
        connection.execute(insert(tenants).values(name=name, **given))


def list_tenants(connection: Connection) -> list[FleetTenantInfo]:
    """Return the tenants that have sessions or were set, by name."""
    counts: dict[str, Counter[str]] = {}
    query = select(sessions.c.tenant, sessions.c.state, func.count()).group_by(sessions.c.tenant, sessions.c.state)
    for name, state, number in connection.execute(query):
        counts.setdefault(name, Counter())[state] += number
    rows = {row["name"]: row for row in connection.execute(select(tenants)).mappings()}
    told = []
    for name in sorted(counts.keys() | rows.keys()):
        known = {} if name not in rows else {"limit": rows[name]["session_limit"], "weight": rows[name]["weight"]}
        told.append(FleetTenantInfo(name=name, sessions=dict(counts.get(name, {})), **known))
    return told
