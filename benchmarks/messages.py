"""CPU time per message in the host, from the pipe to the user's loop, for a replayed conversation.

Messages come in a burst, as fast as the pipe allows, or one per millisecond, which mostly measures wake-ups.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import conversations, replaying_cli
from benchmarks.measuring import OFFICIAL, has_official, host_worker, in_turns, show, stand_in
from benchmarks.reading import READERS

PACE = 0.001
"""Seconds between two paced messages."""


def readers() -> list[str]:
    """The readers whose SDK is installed."""
    is_traceable = find_spec("opentelemetry.sdk") is not None
    there = [name for name in READERS if is_traceable or not name.endswith("traced")]
    return [name for name in there if has_official() or not name.startswith(OFFICIAL)]


class Replay(NamedTuple):
    """Which conversations are read, by which readers, and how often."""

    readers: Sequence[str]
    kinds: Sequence[str]
    messages: int
    rounds: int
    is_fresh: bool

    def measured(self, how: str, pause: float = 0.0) -> Iterator[tuple[str, dict[str, list[Any]]]]:
        """Let the readers take turns on each kind; yield the kind and the measurements by reader."""
        env = {"REPLAY_PAUSE": str(pause)}
        with stand_in(Path(replaying_cli.__file__)) as folder:
            for kind in self.kinds:
                size = conversations.write(folder / "turn.jsonl", kind, self.messages)
                read = partial(host_worker, "reading", env=env, is_fresh=self.is_fresh)
                measurements = {name: partial(read, name, str(folder / "cli"), how) for name in self.readers}
                yield f"{kind}, {size:.0f} bytes", in_turns(measurements, self.rounds, warms_up=False)


def middle(samples: list[Any], field: str) -> float:
    """Return the median of the measurements, or 0 if there are none."""
    return median([float(sample[field]) for sample in samples] or [0.0])


def paired_ratio(samples: list[Any], official: list[Any], field: str) -> str:
    """Return the median of the ratios within a round, because the machine's speed changes between rounds."""
    ratios = [sample[field] / other[field] for sample, other in zip(samples, official, strict=False)]
    return f"{median(ratios):.2f}" if ratios else "-"


def run(replay: Replay, *, pause: float = 0.0, is_busy: bool = False) -> None:
    """Measure and print."""
    measured = replay.measured("busy" if is_busy else "quiet", pause)
    rows = [row for what, found in measured for row in _rows(what, found)]
    how = f"one every {pause * 1000:g} ms" if pause else "in a burst"
    how += ", beside a worker that competes for the loop" if is_busy else ""
    columns = ("messages", "reader", "us CPU each", "us wall each", "ratio of CPU", "ratio of wall")
    show(f"{replay.messages} messages {how} ({replay.rounds} rounds)", columns, rows)


def _rows(what: str, found: dict[str, list[Any]]) -> Iterator[tuple[object, ...]]:
    official: list[Any] = next((samples for name, samples in found.items() if name.startswith(OFFICIAL)), [])
    for name, samples in found.items():
        count = middle(samples, "messages")
        costs = [middle(samples, clock) for clock in ("cpu", "wall")]
        ratios = [paired_ratio(samples, official, clock) for clock in ("cpu", "wall")]
        yield (what, name, *(cost / count * 1e6 for cost in costs), *ratios)


def run_memory(replay: Replay, *, is_late: bool = False) -> None:
    """Measure memory and print."""
    rows: list[tuple[object, ...]] = []
    for what, found in replay.measured("late" if is_late else "quiet"):
        for name, samples in found.items():
            start, *later = (middle(samples, f"{when}_mib") for when in ("connected", "peak", "end"))
            more = ((mib - start) * 1024 / replay.messages for mib in later)
            rows.append((what, name, start, *later, *more))
    columns = ("messages", "reader", "MiB connected", "peak", "at the end", "KiB a message, peak", "at the end")
    how = "read when all that come have come" if is_late else "read as they come"
    show(f"Resident memory, {replay.messages} messages {how}, and dropped ({replay.rounds} rounds)", columns, rows)
