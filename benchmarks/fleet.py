"""What a fleet costs: a run in the database, and sessions that wait. A stand-in plays the CLI.

    python -m benchmarks.fleet [--url postgresql://...] [--runs 50] [--waiting 10 100 1000 10000]

CPU time is that of the worker's process, without the CLI's. With PostgreSQL, transactions are those of the server, of
DBOS and of the fleet together.
"""

import argparse
import asyncio
import json
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, create_engine, func, insert, select, text

from benchmarks.statements import Statements
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.fleet._dbos import _claims
from claude_agent_py.fleet._dbos._database import Database, normal_url
from claude_agent_py.fleet._dbos._tables import events, interactions, runs, sessions
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import FakeCLI, steps

CHUNK = 1000


STATEMENTS = Statements()


def database_of(fleet: Fleet) -> Database:
    """Return the database of a fleet on DBOS."""
    found: Database = fleet._engine.database  # type: ignore[attr-defined]
    return found


async def measure(folder: Path, url: str, given: argparse.Namespace) -> None:
    program = FakeCLI(steps.turn("ok")).install(folder / "cli")
    fleet = Fleet(url, store=MemoryStore(), poll=0.5)
    fleet.agent("one", ClientOptions(cli_path=program, cwd=folder))
    async with fleet.worker(sessions=2):
        await (await fleet.start("one", "warm up")).result()
        await asyncio.sleep(2.0)  # PostgreSQL counts what is over a second later
        idle = await measure_idle(fleet, url)
        await measure_runs(fleet, url, given.runs, idle)
        there = 0
        for count in given.waiting:
            await database_of(fleet).write(make_waiting, there, count)
            there = count
            await measure_waiting(fleet, url, count)
    fleet.close()


async def measure_runs(fleet: Fleet, url: str, count: int, idle: Sequence[float]) -> None:
    """Measure runs one after another. What an idle worker does in that time is taken off."""
    before, at = (cpu(), transactions(url), await counted(fleet), STATEMENTS.counts()), time.perf_counter()
    for _ in range(count):
        await (await fleet.start("one", "hi")).result()
    after, seconds = (cpu(), transactions(url), STATEMENTS.counts()), time.perf_counter() - at
    await asyncio.sleep(1.0)
    written = [b - a for a, b in zip(before[2], await counted(fleet), strict=True)]
    print(f"{count} runs in a row, {seconds / count * 1000:.0f} ms each")
    print(f"  {(after[0] - before[0]) / count * 1000:.0f} ms CPU time each in the worker")
    print(f"  {written[0] / count:.1f} events each, {written[1] / count:.0f} bytes each")
    done = [(b - a - rate * seconds) / count for a, b, rate in zip(before[3], after[2], idle, strict=True)]
    print(f"  {done[0]:.0f} statements each, of which {done[1]:.0f} write, in {done[2]:.0f} transactions that write")
    print(f"  connections are in use for {done[3] * 1000:.0f} ms each")
    if before[1] is not None:
        print(f"  {((after[1] or 0) - before[1]) / count:.0f} transactions each, those of the idle worker included")


async def measure_idle(fleet: Fleet, url: str) -> list[float]:
    """Measure a worker without work, and return its statements, writes, transactions and database seconds a second."""
    before, at = (cpu(), transactions(url), STATEMENTS.counts()), time.perf_counter()
    await asyncio.sleep(10)
    seconds = time.perf_counter() - at
    rates = [(b - a) / seconds for a, b in zip(before[2], STATEMENTS.counts(), strict=True)]
    print(f"an idle worker: {(cpu() - before[0]) / seconds * 1000:.1f} ms CPU time a second")
    print(f"  {rates[0]:.1f} statements a second, {rates[2]:.1f} transactions that write")
    if before[1] is not None:
        print(f"  {((transactions(url) or 0) - before[1]) / seconds:.1f} transactions a second")
    return rates


async def measure_waiting(fleet: Fleet, url: str, count: int) -> None:
    looks, ends = [], []
    for _ in range(20):
        at = time.perf_counter()
        await database_of(fleet).read(_claims.find_work, "nowhere", list(fleet.agents))
        looks.append(time.perf_counter() - at)
    for _ in range(3):
        at = time.perf_counter()
        await (await fleet.start("one", "hi")).result()
        ends.append(time.perf_counter() - at)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count} waiting: a look for work {median(looks) * 1000:.1f} ms, a new session answered in "
        f"{median(ends):.2f} s, the worker's memory at its peak {memory:.0f} MiB, the database {size(url) / 1e6:.1f} MB"
    )


def make_waiting(connection: Connection, there: int, count: int) -> None:
    """Enter sessions that wait for a person, as a fleet leaves them: a run, a question, some events."""
    request = json.dumps({"tool_name": "Bash", "input": {"command": "make release"}, "tool_use_id": "toolu_1"})
    message = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * 600}]}})
    for first in range(there, count, CHUNK):
        names = [f"w{i}" for i in range(first, min(count, first + CHUNK))]
        row = {"agent": "one", "version": "1", "tenant": "", "priority": 0, "state": "waiting", "epoch": 1, "step": 2}
        row |= {"is_orphan": 0, "queued_at": 0.0, "not_before": 0.0, "machine": "m", "runs": 1, "events": 12}
        row |= {"created_at": 0.0, "updated_at": 0.0}
        connection.execute(insert(sessions), [{**row, "id": name, "cli_session": str(uuid4())} for name in names])
        run = {"number": 1, "prompt": '"hi"', "state": "running", "attempts": 0, "claims": 1, "crashes": 0}
        connection.execute(
            insert(runs), [{**run, "session": name, "uuid": str(uuid4()), "created_at": 0.0} for name in names]
        )
        asked = {"run": 1, "kind": "permission", "digest": "d" * 64, "request": request, "state": "pending"}
        connection.execute(
            insert(interactions), [{**asked, "id": name, "session": name, "created_at": 0.0} for name in names]
        )
        event: dict[str, Any] = {"run": 1, "kind": "message", "at": 0.0, "data": message}
        rows = [{**event, "session": name, "number": number} for name in names for number in range(1, 13)]
        connection.execute(insert(events), rows)


async def counted(fleet: Fleet) -> tuple[int, int]:
    def count(connection: Connection) -> tuple[int, int]:
        row = connection.execute(select(func.count(), func.sum(func.length(events.c.data))).select_from(events)).one()
        return int(row[0]), int(row[1] or 0)

    return await database_of(fleet).read(count)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def transactions(url: str) -> int | None:
    if url.startswith("sqlite"):
        return None
    query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    return int(scalar(url, query))


def size(url: str) -> float:
    if not url.startswith("sqlite"):
        return float(scalar(url, "SELECT pg_database_size(current_database())"))
    path = Path(url.removeprefix("sqlite:///"))
    return float(sum(os.path.getsize(p) for p in path.parent.glob(f"{path.name}*")))


def scalar(url: str, query: str) -> Any:
    engine = create_engine(normal_url(url))
    try:
        with closing(engine.connect()) as connection:
            return connection.scalar(text(query))
    finally:
        engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a database of its own (default: an SQLite file)")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--waiting", type=int, nargs="*", default=[10, 100, 1000, 10_000])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(measure(folder, given.url or f"sqlite:///{folder / 'fleet.db'}", given))


if __name__ == "__main__":
    main()
