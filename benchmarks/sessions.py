"""The cost of many concurrent sessions to their process, each with its own stand-in CLI (`silent_cli.sh`).

    python -m benchmarks.sessions <host> <program to run as the CLI> <sessions>

As a worker, this module is the host: it connects all sessions, reads a turn in each with `async for`, and closes them.
It prints, as JSON, the CPU and wall time of each step and the increase of resident memory. One session runs before, so
that one-time costs do not count.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.measuring import FLOOR, OFFICIAL, OURS, host_worker, in_turns, memory_mib, ratio, show, stand_in
from benchmarks.reading import Read, at_once, floor, official_response, our_run

HOSTS: Final[dict[str, Callable[[str], AbstractAsyncContextManager[Read]]]] = {
    OURS: our_run,
    OFFICIAL: official_response,
    FLOOR: floor,
}
SILENT: Final = Path(__file__).with_name("silent_cli.sh")


class Steps:
    """Measures the steps of all sessions together, which wait at a barrier before and after each step."""

    def __init__(self, sessions: int) -> None:
        self.barrier = asyncio.Barrier(sessions + 1)
        self.found: dict[str, float] = {}

    @contextmanager
    def clocked(self, step: str) -> Iterator[None]:
        """Measure the CPU and wall time of a step."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.found[f"{step}_cpu"] = time.process_time() - cpu
        self.found[f"{step}_wall"] = time.perf_counter() - wall

    def weigh(self, step: str, before: float) -> None:
        """Measure the memory after a step."""
        gc.collect()
        self.found[f"{step}_mib"] = memory_mib() - before


async def session(host: str, cli: str, barrier: asyncio.Barrier) -> int:
    """Connect, read, close; return the number of messages."""
    async with HOSTS[host](cli) as read:
        await barrier.wait()
        await barrier.wait()
        messages = await read(at_once)
        await barrier.wait()
        await barrier.wait()
    return messages


async def measure_steps(host: str, cli: str, sessions: int) -> dict[str, float]:
    async with HOSTS[host](cli):
        pass
    gc.collect()
    before, steps = memory_mib(), Steps(sessions)
    with steps.clocked("start"):
        tasks = [asyncio.create_task(session(host, cli, steps.barrier)) for _ in range(sessions)]
        await all_at(steps.barrier, tasks)
    steps.weigh("start", before)
    with steps.clocked("read"):
        await all_at(steps.barrier, tasks)
        await all_at(steps.barrier, tasks)
    steps.weigh("read", before)
    with steps.clocked("close"):
        await all_at(steps.barrier, tasks)
        messages = await asyncio.gather(*tasks)
    return steps.found | {"messages": min(messages)}


async def all_at(barrier: asyncio.Barrier, tasks: list[asyncio.Task[int]]) -> None:
    """Wait for all sessions at the barrier. Fails if a session fails."""
    arrival = asyncio.ensure_future(barrier.wait())
    done, _ = await asyncio.wait([arrival, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def run(hosts: Sequence[str], counts: Sequence[int], messages: int, rounds: int, *, is_fresh: bool) -> None:
    """Measure and print."""
    from benchmarks.conversations import write  # not at the top: it imports this library, which other hosts do not need
    from benchmarks.replaying_cli import PROMPT

    rows: list[tuple[object, ...]] = []
    with stand_in(SILENT) as folder:
        (folder / "prompt").write_text(f"{PROMPT}\n", encoding="utf-8")
        write(folder / "turn.jsonl", "mixed", messages)
        for sessions in counts:
            measure = partial(host_worker, "sessions", env={}, is_fresh=is_fresh)
            measurements = {host: partial(measure, host, str(folder / "cli"), str(sessions)) for host in hosts}
            found = in_turns(measurements, rounds, warms_up=False)
            assert {sample["messages"] for samples in found.values() for sample in samples} == {messages}
            rows += _rows(sessions, messages, found)
    columns = ("sessions", "host", *(title for title, *_ in FIELDS), "ratios")
    show(f"Sessions at once, {messages} messages each ({rounds} rounds)", columns, rows)


FIELDS: Final = (
    ("start: ms CPU each", "start_cpu", lambda sessions, messages: 1e3 / sessions),
    ("KiB each", "start_mib", lambda sessions, messages: 1024 / sessions),
    ("read: us CPU a message", "read_cpu", lambda sessions, messages: 1e6 / sessions / messages),
    ("KiB each", "read_mib", lambda sessions, messages: 1024 / sessions),
    ("close: ms CPU each", "close_cpu", lambda sessions, messages: 1e3 / sessions),
    ("ms all", "close_wall", lambda sessions, messages: 1e3),
)
"""The columns: title, value and unit."""


def _rows(sessions: int, messages: int, found: dict[str, list[Any]]) -> list[tuple[object, ...]]:
    costs = {
        host: [median(one[field] for one in samples) * unit(sessions, messages) for _, field, unit in FIELDS]
        for host, samples in found.items()
    }
    to = costs.get(OFFICIAL, [None] * len(FIELDS))
    return [(sessions, host, *cost, " ".join(map(ratio, cost, to))) for host, cost in costs.items()]


def work(host: str, cli: str, sessions: str) -> dict[str, float]:
    return asyncio.run(measure_steps(host, cli, int(sessions)))


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))
