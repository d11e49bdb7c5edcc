"""What a message costs, from the pipe to the user's loop: CPU time of our side of it, for a replayed conversation.

In bursts, as fast as the pipe gives them, and paced, one a millisecond: there waking up is what costs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import conversations, replaying_cli
from benchmarks.measuring import OFFICIAL, has_official, ratio, show, stand_in, worker
from benchmarks.reading import READERS

PACE = 0.001
"""Seconds between two messages that do not come in a burst."""


REPLAYING = Path(replaying_cli.__file__)


def readers() -> list[str]:
    """The readers whose SDK is here."""
    return [name for name in READERS if has_official() or not name.startswith(OFFICIAL)]


def replay(folder: Path, rounds: int, pause: float = 0.0, how: str = "quiet") -> dict[str, list[Any]]:
    """Let every reader read the file in the folder, in turns; give what each measured."""
    env = {"REPLAY_PAUSE": str(pause)}
    found: dict[str, list[Any]] = {name: [] for name in readers()}
    for _ in range(rounds):
        for name, samples in found.items():
            samples.append(worker("reading", name, str(folder / "cli"), how, env=env))
    return found


def middle(samples: list[Any], field: str) -> float:
    """Give the median of what was measured; 0 where nothing was."""
    return median([float(sample[field]) for sample in samples] or [0.0])


def run(kinds: Sequence[str], messages: int, rounds: int, *, pause: float = 0.0, is_busy: bool = False) -> None:
    """Measure and print."""
    rows: list[tuple[object, ...]] = []
    with stand_in(REPLAYING) as folder:
        for kind in kinds:
            size = conversations.write(folder / "turn.jsonl", kind, messages)
            found = replay(folder, rounds, pause, "busy" if is_busy else "quiet")
            rows += _rows(f"{kind}, {size:.0f} bytes", found)
    how = f"one every {pause * 1000:g} ms" if pause else "in a burst"
    how += ", beside a worker that competes for the loop" if is_busy else ""
    columns = ("messages", "reader", "us CPU each", "us wall each", "ratio of CPU", "ratio of wall")
    show(f"{messages} messages {how} ({rounds} rounds)", columns, rows)


def _rows(what: str, found: dict[str, list[Any]]) -> Iterator[tuple[object, ...]]:
    official: list[Any] = next((samples for name, samples in found.items() if name.startswith(OFFICIAL)), [])
    for name, samples in found.items():
        count = middle(samples, "messages")
        costs = [middle(samples, clock) for clock in ("cpu", "wall")]
        ratios = [ratio(cost, middle(official, clock)) for cost, clock in zip(costs, ("cpu", "wall"), strict=True)]
        yield (what, name, *(cost / count * 1e6 for cost in costs), *ratios)


def run_memory(kinds: Sequence[str], messages: int, rounds: int, *, is_late: bool = False) -> None:
    """Measure memory and print."""
    rows: list[tuple[object, ...]] = []
    with stand_in(REPLAYING) as folder:
        for kind in kinds:
            size = conversations.write(folder / "turn.jsonl", kind, messages)
            for name, samples in replay(folder, rounds, how="late" if is_late else "quiet").items():
                start, *later = (middle(samples, f"{when}_mib") for when in ("connected", "peak", "end"))
                more = ((mib - start) * 1024 / messages for mib in later)
                rows.append((f"{kind}, {size:.0f} bytes", name, start, *later, *more))
    columns = ("messages", "reader", "MiB connected", "peak", "at the end", "KiB a message, peak", "at the end")
    how = "read when all that come have come" if is_late else "read as they come"
    show(f"Resident memory, {messages} messages {how}, and dropped ({rounds} rounds)", columns, rows)
