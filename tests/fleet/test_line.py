"""Sessions that start, run, end and are cancelled at the same time: none is left without a workflow, limits hold."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import anyio
from fleets import database_of, new_database_of
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import OperationalError

from claude_agent_py.errors import FleetError
from claude_agent_py.fleet import Fleet
from claude_agent_py.fleet._dbos import _claims, _rows
from claude_agent_py.fleet._dbos._line import IN_LINE, WAITS
from claude_agent_py.fleet._dbos._tables import DBOS_SCHEMA, sessions
from claude_agent_py.fleet._engine import NewSession

TENANTS = ("free", "limited", "heavy")


class Crowd:
    """Starts, runs, ends and cancels sessions, in the transactions of the fleet, as many workers do."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.table = f"{DBOS_SCHEMA}.workflow_status"

    def call(self, work: Callable[..., Any], *args: object) -> Any:
        """Run a transaction. A deadlock is tried again."""
        while True:
            with suppress(OperationalError):
                return database_of(self.fleet).run(work, *args)

    def take(self, connection: Connection) -> list[tuple[str, int]]:
        """Take workflows out of the queue, as the engine does."""
        query = f"SELECT workflow_uuid FROM {self.table} WHERE status = 'ENQUEUED' ORDER BY priority LIMIT 3"
        taken = []
        for name in list(connection.execute(text(f"{query} FOR UPDATE SKIP LOCKED")).scalars()):
            connection.execute(text(f"UPDATE {self.table} SET status = 'PENDING' WHERE workflow_uuid = '{name}'"))
            cli_session, _, step = name.rpartition(":")
            found = connection.scalar(select(sessions.c.id).where(sessions.c.cli_session == cli_session))
            taken.append((str(found), int(step)))
        return taken

    def count_taken(self, connection: Connection) -> int:
        return int(connection.scalar(text(f"SELECT count(*) FROM {self.table} WHERE status = 'PENDING'")) or 0)

    def run(self, number: int) -> list[_claims.Claim]:
        worker = (f"w{number}", "here", self.fleet.agents)
        found = [self.call(_claims.begin, *workflow, *worker) for workflow in self.call(self.take)]
        limited = select(sessions.c.id).where(sessions.c.state == "running", sessions.c.tenant == "limited")
        assert len(database_of(self.fleet).run(lambda connection: connection.execute(limited).all())) <= 2
        return [claim for claim in found if claim is not None]

    def work(self, number: int) -> None:
        chance = random.Random(number)
        mine: list[_claims.Claim] = []
        for i in range(40):
            given = {"agent": "one", "version": "1", "prompt": "hi", "timeout": None}
            where = {"tenant": chance.choice(TENANTS), "priority": chance.choice((0, 5))}
            self.call(_rows.start, NewSession(id=f"{number}-{i}", **given, **where))  # type: ignore[arg-type]
            mine += self.run(number)
            kind = chance.choice(("start", "end", "end", "cancel", "interrupt"))
            other = f"{chance.randrange(6)}-{chance.randrange(i + 1)}"
            with suppress(FleetError):  # the other one has not started
                if kind == "end" and mine:
                    self.call(_claims.settle, mine.pop(0), {"kind": "done"})
                elif kind == "cancel":
                    self.call(_rows.cancel, other, "no")
                elif kind == "interrupt":
                    self.call(_rows.interrupt, other)
        for claim in mine:
            self.call(_claims.settle, claim, {"kind": "released"})


def lines(connection: Connection) -> dict[tuple[str, int], Counter[int]]:
    """Return how many queued sessions of each tenant and priority wait, and are in line."""
    found: dict[tuple[str, int], Counter[int]] = {}
    query = select(sessions.c.tenant, sessions.c.priority, sessions.c.line).where(sessions.c.state == "queued")
    for tenant, priority, line in connection.execute(query):
        found.setdefault((tenant, priority), Counter())[line] += 1
    return found


def test_no_session_is_left_behind(postgres_server: str) -> None:
    fleet = Fleet(new_database_of(postgres_server))
    fleet.agent("one")

    async def set_up() -> None:
        first = await fleet.start("one", "hi", id="first")
        await first.cancel()
        await fleet.tenant("limited", limit=2)
        await fleet.tenant("heavy", weight=3)

    anyio.run(set_up)
    crowd = Crowd(fleet)
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(crowd.work, range(6)))
    for (tenant, priority), line in database_of(fleet).run(lines).items():
        assert tenant == "limited" or line[IN_LINE] or not line[WAITS], (tenant, priority, line)
    while queued := database_of(fleet).run(lines):
        assert any(line[IN_LINE] for line in queued.values()), queued
        before = database_of(fleet).run(crowd.count_taken)
        for claim in crowd.run(0):
            crowd.call(_claims.settle, claim, {"kind": "done"})
        assert database_of(fleet).run(crowd.count_taken) > before, "those in line have workflows"
    fleet.close()
