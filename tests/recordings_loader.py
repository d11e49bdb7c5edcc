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
    """`in` and `out` are frames; `in_raw`, `note`, `exit`, ... are not."""
    value: Any


@cache
def names() -> tuple[str, ...]:
    """Give the names of all recordings."""
    return tuple(sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.jsonl")))


@cache
def records(name: str) -> tuple[Record, ...]:
    """Give all lines of a recording."""
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    lines = (json.loads(line) for line in text.split("\n") if line)
    return tuple(Record(line.get("t", 0.0), line["dir"], line.get("m")) for line in lines)


def frames(name: str, direction: Direction = "out") -> list[dict[str, Any]]:
    """Give the frames of a recording in one direction, as JSON objects."""
    return [record.value for record in records(name) if record.direction == direction]


def lines(name: str, direction: Direction = "out") -> list[bytes]:
    """Give the same frames as lines."""
    return [as_line(frame) for frame in frames(name, direction)]


def all_frames() -> Iterator[tuple[str, Direction, dict[str, Any]]]:
    """Give every frame of every recording."""
    directions: tuple[Direction, Direction] = ("in", "out")
    for name in names():
        for direction in directions:
            for frame in frames(name, direction):
                yield name, direction, frame


def as_line(frame: Any) -> bytes:
    """Write a frame as the CLI does."""
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
