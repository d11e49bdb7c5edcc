"""CPU time per message in the sans-IO engine: splitting, decoding and routing, without tasks or an event loop.

    python benchmarks/engine_throughput.py [messages] [--profile]

Recorded frames of the real CLI are fed into one run, in chunks like those of a pipe. For comparison: decoding alone,
and `json.loads` of the same lines.
"""

import argparse
import cProfile
import itertools
import json
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_py._journal.engine import Engine
from claude_agent_py._journal.open_runs import OpenRun
from claude_agent_py._journal.router import TurnRouter
from claude_agent_py._journal.routes import route
from claude_agent_py._journal.state import Step
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages.stream import StreamEventMessage

RECORDINGS = Path(__file__).parent.parent / "tests" / "recordings"
SOURCES = ("turns/stream_with_thinking_and_tool", "turns/stream_interrupted", "turns/three_agents")
CHUNK_BYTES = 64 * 1024
REPETITIONS = 7


def recorded() -> list[dict[str, Any]]:
    """Return the assistant messages and stream events of some recordings."""
    lines = (line for name in SOURCES for line in (RECORDINGS / f"{name}.jsonl").read_text("utf-8").splitlines())
    frames = (record["m"] for record in map(json.loads, lines) if record["dir"] == "out")
    return [frame for frame in frames if frame["type"] in ("assistant", "stream_event")]


KINDS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "deltas": lambda frame: frame["type"] == "stream_event" and frame["event"]["type"] == "content_block_delta",
    "stream events": lambda frame: frame["type"] == "stream_event",
    "assistant messages": lambda frame: frame["type"] == "assistant",
    "all of these": lambda frame: True,
}


def lines_of(kind: str, count: int) -> list[bytes]:
    """Return so many lines of a kind, repeating the recorded ones."""
    chosen = filter(KINDS[kind], recorded())
    lines = [json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for frame in chosen]
    return list(itertools.islice(itertools.cycle(lines), count))


def through_engine(lines: list[bytes]) -> None:
    engine, router = Engine(max_line_bytes=1 << 28), TurnRouter(frozenset, bool)
    engine.advance(Step.START)
    run = OpenRun()
    router.open_run(run, 0.0, ["prompt"])
    router.seal_run(run, 0.0)
    data = b"".join(lines)
    heard = 0
    for at in range(0, len(data), CHUNK_BYTES):
        for message in engine.receive_data(data[at : at + CHUNK_BYTES]):
            route(router, message, 1.0)
            if type(message) is not StreamEventMessage:
                router.settle(1.0)
            heard += 1
    assert heard == len(lines)


def through_codec(lines: list[bytes]) -> None:
    for line in lines:
        decode(line)


def through_json(lines: list[bytes]) -> None:
    for line in lines:
        json.loads(line)


def cost(work: Callable[[list[bytes]], None], lines: list[bytes]) -> float:
    """Return the CPU time per line, in microseconds: the best of several repetitions."""
    times: list[float] = []
    for _ in range(REPETITIONS):
        begin = time.process_time()
        work(lines)
        times.append(time.process_time() - begin)
    return min(times) / len(lines) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a message costs in the engine.")
    parser.add_argument("messages", nargs="?", type=int, default=20_000)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    given = parser.parse_args()
    run(given.messages, profile=given.profile)


def run(messages: int, *, profile: bool = False) -> None:
    """Measure and print."""
    print(f"{'us a message':20} {'bytes':>6} {'engine':>8} {'decode':>8} {'json.loads':>11}")
    for kind in KINDS:
        lines = lines_of(kind, messages)
        size = sum(map(len, lines)) / len(lines)
        costs = [cost(work, lines) for work in (through_engine, through_codec, through_json)]
        print(f"{kind:20} {size:6.0f} {costs[0]:8.2f} {costs[1]:8.2f} {costs[2]:11.2f}")
    if profile:
        lines = lines_of("deltas", messages)
        with cProfile.Profile() as profiler:
            through_engine(lines)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
