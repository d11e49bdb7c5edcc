"""Runs of a fleet beside as many cold queries at once: sessions an hour, and processor time, of the real CLI.

    python -m benchmarks.fleet_runs [--temporal temporal://...] [--rounds 5] [--runs 8] [--at-once 4]

The ways take turns within a round, and ratios are of the same round, because the speed of a shared machine varies. The
scripted model answers at once, from a process of its own. Processor time is that of this process and of its CLIs,
without a server.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.pooling import Place, surroundings
from claude_agent_py import run
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.transport.locate import find_cli

COLD = "asyncio.gather of run()"


class Block(NamedTuple):
    """What some runs took."""

    seconds: float
    cpu: float


async def cold(place: Place, runs: int, at_once: int) -> None:
    """Run prompts, each in a process of its own, without a fleet."""
    limit = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with limit:
            await run("Are you there?", place.options())

    await asyncio.gather(*(one() for _ in range(runs)))


async def fleet_block(url: str, store: SQLiteStore, place: Place, runs: int, at_once: int, folder: Path) -> Block:
    """Open a worker, and measure the same in its fleet."""
    async with Fleet(url, store=store, poll=0.5) as fleet, AsyncExitStack() as stack:
        fleet.agent("one", place.options())
        await stack.enter_async_context(fleet.worker(sessions=at_once, folder=folder))

        async def work() -> None:
            started = [await fleet.start("one", "Are you there?") for _ in range(runs)]
            for session in started:
                await session.result()

        return await measured(work)


async def measured(work: Callable[[], Awaitable[None]]) -> Block:
    """Measure one block."""
    before, begin = cpu(), time.perf_counter()
    await work()
    return Block(time.perf_counter() - begin, cpu() - before)


def cpu() -> float:
    """Return the processor seconds of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def compare(given: argparse.Namespace, place: Place, folder: Path) -> dict[str, list[Block]]:
    """Measure all ways in turns. The first round warms up."""
    urls = {"a fleet on SQLite": f"sqlite:///{folder / 'fleet.db'}"}
    if given.temporal:
        urls["a fleet on Temporal"] = given.temporal
    taken: dict[str, list[Block]] = {name: [] for name in (COLD, *urls)}
    for number in range(given.rounds + 1):
        blocks = {COLD: await measured(lambda: cold(place, given.runs, given.at_once))}
        for name, url in urls.items():
            store = SQLiteStore(folder / "store.db")
            blocks[name] = await fleet_block(url, store, place, given.runs, given.at_once, folder / "workspaces")
            store.close()
        for name, block in blocks.items():
            if number:
                taken[name].append(block)
                print(f"round {number}: {name}: {block.seconds:.1f} s, {block.cpu:.1f} CPU s", flush=True)
    return taken


def show(taken: dict[str, list[Block]], runs: int) -> None:
    """Print medians, and medians of the ratios of a round."""
    for name, blocks in taken.items():
        pairs = list(zip(blocks, taken[COLD], strict=True))
        print(
            f"{name}: {3600 * runs / median(one.seconds for one in blocks):.0f} sessions an hour, "
            f"{median(one.cpu for one in blocks) / runs:.2f} CPU seconds each, "
            f"{median(one.cpu / one.seconds for one in blocks):.2f} cores; of cold ones: "
            f"{median(cold.seconds / one.seconds for one, cold in pairs):.2f} of the throughput, "
            f"{median(one.cpu / cold.cpu for one, cold in pairs):.2f} of the CPU time"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--temporal", help="the URL of a namespace of its own, such as temporal://localhost:7233/bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, surroundings(find_cli()) as place:
        show(asyncio.run(compare(given, place, Path(name))), given.runs)


if __name__ == "__main__":
    main()
