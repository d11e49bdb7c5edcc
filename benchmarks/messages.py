"""What a message costs, from the pipe to the user's loop: CPU time of our side of it, for a replayed conversation.

In bursts, as fast as the pipe gives them, and paced, one a millisecond: there waking up is what costs.
"""

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import conversations, replaying_cli
from benchmarks.measuring import OFFICIAL, has_official, ratio, show, worker
from benchmarks.reading import READERS
from claude_agent_py.testing import frames

PACE = 0.001
"""Seconds between two messages that do not come in a burst."""


@contextmanager
def program() -> Iterator[Path]:
    """Give a folder with `cli`, a program that plays the CLI and answers a prompt with `turn.jsonl` there."""
    with tempfile.TemporaryDirectory(prefix="claude-agent-py-bench-") as name:
        folder = Path(name)
        (folder / "initialize.json").write_text(json.dumps(frames.initialize_response()), encoding="utf-8")
        command = shlex.join([sys.executable, "-I", "-S", replaying_cli.__file__, name])
        cli = folder / "cli"
        cli.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        cli.chmod(0o755)
        yield folder


def readers() -> list[str]:
    """The readers whose SDK is here."""
    return [name for name in READERS if has_official() or not name.startswith(OFFICIAL)]


def replay(folder: Path, rounds: int, pause: float = 0.0) -> dict[str, list[Any]]:
    """Let every reader read the file in the folder, in turns; give what each measured."""
    env = {"REPLAY_PAUSE": str(pause)}
    found: dict[str, list[Any]] = {name: [] for name in readers()}
    for _ in range(rounds):
        for name, samples in found.items():
            samples.append(worker("reading", name, str(folder / "cli"), env=env))
    return found


def middle(samples: list[Any], field: str) -> float:
    """Give the median of what was measured; 0 where nothing was."""
    return median([float(sample[field]) for sample in samples] or [0.0])


def run(messages: int, rounds: int, *, pause: float = 0.0) -> None:
    """Measure and print."""
    rows: list[tuple[object, ...]] = []
    with program() as folder:
        for kind in conversations.KINDS:
            size = conversations.write(folder / "turn.jsonl", kind, messages)
            found = replay(folder, rounds, pause)
            rows += _rows(f"{kind}, {size:.0f} bytes", found)
    how = f"one every {pause * 1000:g} ms" if pause else "in a burst"
    columns = ("messages", "reader", "us CPU each", "us wall each", "ratio of CPU", "ratio of wall")
    show(f"{messages} messages {how} ({rounds} rounds)", columns, rows)


def _rows(what: str, found: dict[str, list[Any]]) -> Iterator[tuple[object, ...]]:
    official: list[Any] = next((samples for name, samples in found.items() if name.startswith(OFFICIAL)), [])
    for name, samples in found.items():
        count = middle(samples, "messages")
        costs = [middle(samples, clock) for clock in ("cpu", "wall")]
        ratios = [ratio(cost, middle(official, clock)) for cost, clock in zip(costs, ("cpu", "wall"), strict=True)]
        yield (what, name, *(cost / count * 1e6 for cost in costs), *ratios)


def run_memory(messages: int, rounds: int) -> None:
    """Measure memory and print."""
    rows: list[tuple[object, ...]] = []
    with program() as folder:
        for kind in conversations.KINDS:
            size = conversations.write(folder / "turn.jsonl", kind, messages)
            for name, samples in replay(folder, rounds).items():
                start, end = middle(samples, "connected_mib"), middle(samples, "end_mib")
                rows.append((f"{kind}, {size:.0f} bytes", name, start, end, (end - start) * 1024 / messages))
    columns = ("messages", "reader", "MiB connected", "MiB after", "KiB a message")
    show(f"Resident memory, {messages} messages read and dropped", columns, rows)
