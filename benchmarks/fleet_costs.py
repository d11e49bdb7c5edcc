"""What a fleet costs: an idle worker, a prompt with and without tools, and sessions that wait. The real CLI runs.

    python -m benchmarks.fleet_costs [--url temporal://...] [--runs 10] [--tools 10] [--waiting 10 100 1000 10000]

CPU time is that of the worker's process, without the CLI and without a server. Sessions that wait are measured in an
SQLite file only.
"""

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from benchmarks.pooling import surroundings
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.fleet._local import _changes
from claude_agent_py.fleet._local._file import FleetFile, Transaction
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import Reply, ScriptedModel, tool_use
from claude_agent_py.transport.locate import find_cli

CHUNK = 1000
IDLE_SECONDS = 10.0


async def measure(folder: Path, url: str, given: argparse.Namespace) -> None:
    with surroundings(find_cli()) as place:
        await measure_agent(folder, url, place.options(), given)
    count = given.tools

    def call(request: Any) -> Reply | str:
        if json.dumps(request.messages).count('"tool_result"') < count:
            return Reply(tool_use("Bash", {"command": "true", "description": "Do nothing"}))
        return "Yes."

    with ScriptedModel(call) as model:
        options = ClientOptions(inherit_env=False, env=model.environment(), permission_mode="bypassPermissions")
        async with open_fleet(folder, url, options) as fleet, fleet.worker(sessions=2, folder=folder):
            session = await fleet.start("one", "hi")
            await session.result()
            print(f"with {count} tool calls: {await weigh(fleet, session)}")


async def measure_agent(folder: Path, url: str, options: ClientOptions, given: argparse.Namespace) -> None:
    async with open_fleet(folder, url, options) as fleet, fleet.worker(sessions=2, folder=folder):
        await (await fleet.start("one", "warm up")).result()
        await asyncio.sleep(2.0)
        idle = await measure_idle()
        await measure_runs(fleet, given.runs, idle)
        if url.startswith("sqlite"):
            there, file = 0, FleetFile(Path(url.removeprefix("sqlite:///")), create=False)
            for count in given.waiting:
                await file.write(make_waiting, there, count)
                there = count
                await measure_waiting(fleet, file, count)
            file.close()


def open_fleet(folder: Path, url: str, options: ClientOptions) -> Fleet:
    fleet = Fleet(url, store=SQLiteStore(folder / "store.db"))
    fleet.agent("one", options)
    return fleet


async def measure_idle() -> float:
    """Measure a worker without work, and return its CPU seconds per second."""
    before, at = cpu(), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    used = (cpu() - before) / (time.perf_counter() - at)
    print(f"an idle worker: {used * 1000:.1f} ms CPU time a second")
    return used


async def measure_runs(fleet: Fleet, count: int, idle: float) -> None:
    """Measure runs one after another. What an idle worker does in that time is taken off."""
    starts, begins, ends = [], [], []
    before, at = cpu(), time.perf_counter()
    session = None
    for _ in range(count):
        begin = time.time()
        session = await fleet.start("one", "hi")
        starts.append(time.time() - begin)
        result = await session.result()
        assert result.started_at is not None
        assert result.ended_at is not None
        begins.append(result.started_at - begin)
        ends.append(time.time() - result.ended_at)
    used, seconds = cpu() - before, time.perf_counter() - at
    print(f"{count} runs in a row, {seconds / count * 1000:.0f} ms each")
    print(f"  {(used - idle * seconds) / count * 1000:.0f} ms CPU time each in the worker")
    print(f"  start {median(starts) * 1000:.0f} ms, until it runs {median(begins):.2f} s (max {max(begins):.2f})")
    print(f"  from its end until result() returns {median(ends):.2f} s (max {max(ends):.2f})")
    assert session is not None
    print(f"  {await weigh(fleet, session)}")


async def weigh(fleet: Fleet, session: FleetSession) -> str:
    """Return what a session takes: its events, its conversation and its history on a server."""
    await asyncio.sleep(1.0)
    events = [json.dumps(event.data) async for event in session.events()]
    key: Any = {"project_key": "fleet", "session_id": (await session.info()).cli_session_id}
    stored = [json.dumps(entry) for entry in await fleet.store.load(key) or ()]
    text = f"{len(events)} events of {sum(map(len, events)) / 1000:.1f} KB"
    text += f", {len(stored)} entries of {sum(map(len, stored)) / 1000:.1f} KB in the store"
    if fleet._engine.name == "Temporal":
        found = (await fleet._engine._describe(session.id)).raw_description.workflow_execution_info  # type: ignore[attr-defined]
        text += f", {found.history_length} events of {found.history_size_bytes / 1000:.1f} KB in the history"
    return text


async def measure_waiting(fleet: Fleet, file: FleetFile, count: int) -> None:
    looks, ends = [], []
    for _ in range(20):
        at = time.perf_counter()
        await file.read(_changes.look, "nobody", list(fleet.agents.values()))
        looks.append(time.perf_counter() - at)
    for _ in range(3):
        at = time.perf_counter()
        await (await fleet.start("one", "hi")).result()
        ends.append(time.perf_counter() - at)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(path.stat().st_size for path in file.path.parent.glob(f"{file.path.name}*")) / 1e6
    print(
        f"{count} waiting: a look for work {median(looks) * 1000:.1f} ms, a new session answered in "
        f"{median(ends):.2f} s, the worker's memory at its peak {memory:.0f} MiB, the database {size:.1f} MB"
    )


def make_waiting(tx: Transaction, there: int, count: int) -> None:
    """Enter sessions that wait for a person, as a fleet leaves them: a run, a question, some events."""
    request = json.dumps({"tool_name": "Bash", "input": {"command": "make release"}, "tool_use_id": "toolu_1"})
    fact = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * 600}]}})
    for first in range(there, count, CHUNK):
        names = [f"w{i}" for i in range(first, min(count, first + CHUNK))]
        row: dict[str, Any] = {"agent": "one", "version": "1", "tenant": "", "priority": 0, "state": "waiting"}
        row |= {"epoch": 1, "queued_at": 0.0, "machine": "m", "runs": 1, "events": 12}
        row |= {"created_at": 0.0, "updated_at": 0.0}
        tx.insert("fleet_sessions", *({**row, "id": name, "cli_session": str(uuid4())} for name in names))
        run = {"number": 1, "prompt": '"hi"', "state": "running", "created_at": 0.0}
        tx.insert("fleet_runs", *({**run, "session": name, "uuid": str(uuid4())} for name in names))
        asked = {"run": 1, "digest": "d" * 64, "kind": "permission", "request": request, "state": "pending"}
        tx.insert("fleet_interactions", *({**asked, "id": name, "session": name, "created_at": 0.0} for name in names))
        event = {"run": 1, "kind": "fact", "at": 0.0, "data": fact}
        rows = [{**event, "session": name, "number": number} for name in names for number in range(1, 13)]
        tx.insert("fleet_events", *rows)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="such as temporal://localhost:7233/bench (default: an SQLite file)")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--tools", type=int, default=10)
    parser.add_argument("--waiting", type=int, nargs="*", default=[10, 100, 1000, 10_000])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(measure(folder, given.url or f"sqlite:///{folder / 'fleet.db'}", given))


if __name__ == "__main__":
    main()
