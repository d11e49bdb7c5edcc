"""The command `replay`: show a recording, as `record` writes it, or the output of `claude -p`."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli import run_command
from claude_agent_py.cli.live_tree import Screen, screen
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages.conversation import ResultMessage
from claude_agent_py.wire.timestamps import seconds

LONGEST_PAUSE: Final = 2.0
"""Seconds; a replay does not wait longer between two frames."""


class Line(NamedTuple):
    """A line of a recording."""

    at: float | None
    """Seconds since the start; None if the recording does not tell."""
    frame: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `replay`."""
    parser.add_argument("file", help="a recording, or what `claude -p --output-format stream-json --verbose` printed")
    parser.add_argument(
        "--speed", type=float, default=0.0, metavar="N", help="N times as fast as it was; 0 does not wait (default)"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Show a recording and return the exit code: that of the recorded run's last result."""
    lines = list(read_recording(arguments.file))
    clock = _Clock(lines)
    return anyio.run(_replayed, lines, arguments.speed, screen(sys.stdout, clock.time), clock)


async def _replayed(lines: list[Line], speed: float, view: Screen, clock: "_Clock") -> int:
    tasks, code, before = TaskManager(clock=clock.time), 0, 0.0
    async with anyio.create_task_group() as group:
        if speed > 0:
            group.start_soon(view.watch, tasks)
        for line in lines:
            if speed > 0 and line.at is not None:
                await anyio.sleep(min(max(0.0, line.at - before) / speed, LONGEST_PAUSE))
                before = line.at
            clock.reach(line)
            message: Any = decode(json.dumps(line.frame))
            tasks.track(message)
            run_command.show(message, view)
            if isinstance(message, ResultMessage):
                code = 1 if message.is_error else 0
                view.say(f"turn ended: {message.subtype}, {message.total_cost_usd:.4f} USD so far")
        group.cancel_scope.cancel()
    view.finish(tasks)
    return code


class _Clock:
    """The time of a recording, by the CLI's own times of its messages; 0 as long as nothing tells it."""

    def __init__(self, lines: list[Line]) -> None:
        known = ((line.at or 0.0, seconds(line.frame.get("timestamp"))) for line in lines)
        self._began = next((own - at for at, own in known if own is not None), 0.0)
        self._now = self._began

    def time(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._now

    def reach(self, line: Line) -> None:
        """Go on to a line."""
        at = seconds(line.frame.get("timestamp")) or (None if line.at is None else self._began + line.at)
        self._now = max(self._now, at or 0.0)


def read_recording(path: str) -> Iterator[Line]:
    """Yield what the CLI wrote in a recording, or in the output of `claude -p --output-format stream-json`.

    Raises:
        OptionsError: The file cannot be read, or a line is not one of a recording.
    """
    number = 0
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):  # noqa: B007 - for the error
                line: dict[str, Any] = json.loads(text) if text.strip() else {"dir": "note"}
                if "dir" not in line and isinstance(line["type"], str):
                    yield Line(None, line)
                elif line["dir"] == "out" and isinstance(line["m"], dict):
                    yield Line(float(line.get("t", 0.0)), line["m"])
    except OSError as error:
        raise OptionsError(f"cannot read {path}: {error.strerror}", option="file") from None
    except (ValueError, KeyError, TypeError):
        raise OptionsError(f"{path}:{number} is not a line of a recording", option="file") from None
