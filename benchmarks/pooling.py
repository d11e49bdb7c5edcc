"""What a process that was started ahead saves: from the prompt to the first answer, and runs in a row.

The floor is the CLI alone: started and initialised ahead with the standard library, and then sent a prompt. The
scripted model answers at once. Its server is in a process of its own, so that it does not slow down this one.

    python -m benchmarks.pooling <its place as JSON>

runs one prompt in a fresh interpreter and prints when the first answer came, by the monotonic clock.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import anyio
from anyio import to_thread

from benchmarks.measuring import Samples, ratio, show, worker

SETTLE: Final = 1.0
"""Seconds between a start and the prompt: what was started ahead has come to rest."""

ALONE: Final = "the CLI alone, initialised ahead"
POOL: Final = "pool.query(), a spare"
PARKED: Final = "pool.query(), a parked spare"
QUERY: Final = "query() in a running process"
SCRIPT: Final = "a script, from nothing"

SERVER: Final = """
import json, sys
from claude_agent_py.testing import ScriptedModel
with ScriptedModel(lambda request: "Yes.") as model:
    print(json.dumps([model.environment(), str(model.sandbox.cwd)]), flush=True)
    sys.stdin.read()
"""


class Place(NamedTuple):
    """Where sessions run: the program, its environment and its directory."""

    cli: str
    env: dict[str, str]
    cwd: str

    def options(self) -> Any:
        """Return the options for it."""
        from claude_agent_py import ClientOptions

        return ClientOptions(
            cli_path=self.cli, env=self.env, cwd=self.cwd, inherit_env=False, permission_mode="bypassPermissions"
        )


@contextmanager
def surroundings(cli: Path) -> Iterator[Place]:
    """Serve a model in another process."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        env, cwd = json.loads(server.stdout.readline())
        yield Place(str(cli), env, cwd)
    finally:
        server.communicate()


class Alone:
    """A CLI that is initialised ahead, with the standard library only. Used once."""

    def __init__(self, place: Place) -> None:
        self._process = self._started(place)
        self._send(
            {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}}, "control_response"
        )

    def first_answer(self) -> float:
        """Return the seconds from the prompt to the first answer."""
        begin = time.monotonic()
        message = {"role": "user", "content": "Are you there?"}
        self._send({"type": "user", "message": message, "session_id": ""}, "assistant")
        took = time.monotonic() - begin
        self._process.communicate()
        return took

    def _send(self, frame: dict[str, Any], kind: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")
        self._process.stdin.flush()
        while json.loads(self._process.stdout.readline())["type"] != kind:
            pass

    @staticmethod
    def _started(place: Place) -> "subprocess.Popen[bytes]":
        from claude_agent_py.options.planner import plan_launch

        plan, pipe = plan_launch(place.options(), cli=Path(place.cli)), subprocess.PIPE
        return subprocess.Popen(
            list(plan.argv),
            env=dict(plan.env),
            cwd=place.cwd,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )


async def first_answer(run: Any) -> float:
    """Return when the first answer of a run came; the run goes on to its end."""
    from claude_agent_py import AssistantMessage

    at = 0.0
    async for message in run:
        if isinstance(message, AssistantMessage) and not at:
            at = time.monotonic()
    return at


async def first_answers(place: Place, rounds: int, spares: int) -> Samples:
    """Measure the ways to a first answer in turns, while the pool is at rest."""
    from claude_agent_py import query
    from claude_agent_py.pool import Pool

    options, other = place.options(), Path(place.cwd) / "other"
    other.mkdir()
    elsewhere = options.replace(cwd=other)

    async def from_pool() -> float:
        begin = time.monotonic()
        return await first_answer(pool.query("Are you there?")) - begin

    async def from_parked() -> float:
        begin = time.monotonic()
        return await first_answer(pool.query("Are you there?", elsewhere)) - begin

    async def cold() -> float:
        begin = time.monotonic()
        return await first_answer(query("Are you there?", options)) - begin

    def script() -> float:
        begin = time.monotonic()
        at: float = worker("pooling", json.dumps(place))
        return at - begin

    ways: dict[str, Callable[[], Awaitable[float]]] = {
        ALONE: lambda: to_thread.run_sync(ahead.first_answer),
        POOL: from_pool,
        PARKED: from_parked,
        QUERY: cold,
        SCRIPT: lambda: to_thread.run_sync(script),
    }
    samples: Samples = {name: [] for name in ways}
    warm_up = rounds > 1
    async with Pool(options, size=spares, parked=1, max_size=2 * spares) as pool:
        for number in range(rounds + warm_up):
            ahead = await to_thread.run_sync(Alone, place)
            for name, measure in ways.items():
                await until_at_rest(pool, spares + 1)
                took = await measure()
                if number >= warm_up:
                    samples[name].append(took)
    return samples


async def until_at_rest(pool: Any, spares: int) -> None:
    """Wait until all spares are there, and have settled."""
    while (stats := pool.stats()).spares < spares or stats.closing:  # noqa: ASYNC110
        await anyio.sleep(0.02)
    await anyio.sleep(SETTLE)


class Block(NamedTuple):
    """What some runs took."""

    seconds: float
    cpu: float
    """Of the CLIs."""


async def in_a_row(count: int, at_a_time: int, run: Callable[[], Awaitable[Any]]) -> Block:
    """Run so many prompts."""
    left = count

    async def work() -> None:
        nonlocal left
        while left:
            left -= 1
            await run()

    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(at_a_time):
            group.start_soon(work)
    seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Block(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


async def many_runs(place: Place, runs: int, blocks: int, spares: int) -> dict[str, list[Block]]:
    """Measure blocks of runs in turns, so that a slow phase of the machine affects both ways."""
    from claude_agent_py import run
    from claude_agent_py.pool import Pool

    options, each = place.options(), max(1, runs // blocks)
    taken: dict[str, list[Block]] = {"cold": [], "pool": []}
    for _ in range(blocks):
        taken["cold"].append(await in_a_row(each, spares, lambda: run("Are you there?", options)))
        async with Pool(options, size=spares, max_size=2 * spares) as pool:
            await until_at_rest(pool, spares)
            taken["pool"].append(await in_a_row(each, spares, lambda: pool.run("Are you there?")))
    return taken


def run(rounds: int, runs: int, spares: int, cli: Path) -> None:
    """Measure and print."""
    with surroundings(cli) as place:
        samples = anyio.run(first_answers, place, rounds, spares)
        taken = anyio.run(many_runs, place, runs, min(5, runs), spares)
    rows = [_row(name, samples) for name in samples]
    columns = ("way", "ms", "fastest", "of the CLI alone", "of a cold query()", "of a cold script")
    show(f"From the prompt to the first answer ({rounds} rounds; ratios of the same round)", columns, rows)
    total = {name: sum(block.seconds for block in blocks) for name, blocks in taken.items()}
    cpu = {name: sum(block.cpu for block in blocks) for name, blocks in taken.items()}
    count = max(1, runs // min(5, runs)) * min(5, runs)
    rows = [(name, count / total[name], ratio(total["cold"], total[name]), cpu[name] / count * 1000) for name in total]
    show(f"{count} runs, {spares} at a time", ("way", "runs a second", "of cold", "CPU ms of the CLI a run"), rows)


def _row(name: str, samples: Samples) -> tuple[object, ...]:
    took = samples[name]

    def paired(base: str) -> str:
        return f"{median(one / other for one, other in zip(took, samples[base], strict=True)):.2f}"

    return name, median(took) * 1000, min(took) * 1000, paired(ALONE), paired(QUERY), paired(SCRIPT)


async def one(place: Place) -> float:
    """Run one prompt; return when its first answer came."""
    from claude_agent_py import query

    return await first_answer(query("Are you there?", place.options()))


if __name__ == "__main__":
    print(json.dumps(anyio.run(one, Place(*json.loads(sys.argv[1])))))
