"""Recordings of the real CLI, by name: `tasks/s04_nested_bg`, `control/05_hook_events`, ..."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

FOLDER = Path(__file__).parent / "recordings"
Direction: TypeAlias = Literal["in", "out"]


class Record(NamedTuple):
    """One line of a recording."""

    at: float
    """Seconds since the start."""
    direction: str
    """`in` and `out` for frames; `in_raw`, `note`, `exit`, ... for others."""
    value: Any


@cache
def names() -> tuple[str, ...]:
    """Return the names of all recordings."""
    return tuple(sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.jsonl")))


@cache
def records(name: str) -> tuple[Record, ...]:
    """Return all lines of a recording."""
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    lines = (json.loads(line) for line in text.split("\n") if line)
    return tuple(Record(line.get("t", 0.0), line["dir"], line.get("m")) for line in lines)


def frames(name: str, direction: Direction = "out") -> list[dict[str, Any]]:
    """Return the frames of a recording in one direction, as JSON objects."""
    return [record.value for record in records(name) if record.direction == direction]


def lines(name: str, direction: Direction = "out") -> list[bytes]:
    """Return the frames of a recording in one direction, as lines."""
    return [as_line(frame) for frame in frames(name, direction)]


def all_frames() -> Iterator[tuple[str, Direction, dict[str, Any]]]:
    """Yield every frame of every recording."""
    directions: tuple[Direction, Direction] = ("in", "out")
    for name in names():
        for direction in directions:
            for frame in frames(name, direction):
                yield name, direction, frame


def as_line(frame: Any) -> bytes:
    """Encode a frame like the CLI."""
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
