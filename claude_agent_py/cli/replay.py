"""The `replay` command: show a recording of `record`, or the output of `claude -p`."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.cli import run_command
from claude_agent_py.cli.live_tree import Screen, create_screen
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages.conversation import ResultMessage
from claude_agent_py.wire.timestamps import seconds

LONGEST_PAUSE: Final = 2.0
"""The longest pause of a replay between two frames, in seconds."""


class Line(NamedTuple):
    """A line of a recording."""

    at: float | None
    """Seconds since the start; None if the recording has no times."""
    frame: JSONObject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `replay`."""
    parser.add_argument("file", help="a recording, or the output of `claude -p --output-format stream-json --verbose`")
    parser.add_argument(
        "--speed", type=float, default=0.0, metavar="N", help="N times the original speed; 0 (default) does not wait"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Show a recording and return the exit code: 1 if the last result is an error, otherwise 0."""
    lines = list(read_recording(arguments.file))
    clock = _Clock(lines)
    return anyio.run(_replay, lines, arguments.speed, create_screen(sys.stdout, clock.time), clock)


async def _replay(lines: list[Line], speed: float, view: Screen, clock: "_Clock") -> int:
    tasks = TaskManager(clock=clock.time)
    code = 0
    last_at = 0.0
    async with anyio.create_task_group() as group:
        if speed > 0:
            group.start_soon(view.watch, tasks)
        for line in lines:
            if speed > 0 and line.at is not None:
                await anyio.sleep(min(max(0.0, line.at - last_at) / speed, LONGEST_PAUSE))
                last_at = line.at
            clock.advance(line)
            message: object = decode(json.dumps(line.frame))
            tasks.track(message)
            run_command.show(message, view)
            if isinstance(message, ResultMessage):
                code = 1 if message.is_error else 0
                view.say(f"turn ended: {message.subtype}, {message.total_cost_usd:.4f} USD so far")
        group.cancel_scope.cancel()
    view.finish(tasks)
    return code


class _Clock:
    """The time of a recording, from the timestamps of its messages; 0 until one is known."""

    def __init__(self, lines: list[Line]) -> None:
        times = ((line.at or 0.0, seconds(line.frame.get("timestamp"))) for line in lines)
        self._began = next((stamp - at for at, stamp in times if stamp is not None), 0.0)
        self._now = self._began

    def time(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._now

    def advance(self, line: Line) -> None:
        """Advance to the time of a line. The time never goes backwards."""
        now = seconds(line.frame.get("timestamp"))
        if not now and line.at is not None:
            now = self._began + line.at
        self._now = max(self._now, now or 0.0)


def read_recording(path: str) -> Iterator[Line]:
    """Yield the CLI's frames from a recording, or from the output of `claude -p --output-format stream-json`.

    Raises:
        OptionsError: The file cannot be read, or a line is not in the format of recordings.
    """
    number = 0
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):  # noqa: B007 - for the error
                line: JSONObject = json.loads(text) if text.strip() else {"dir": "note"}
                if "dir" not in line and isinstance(line["type"], str):
                    yield Line(None, line)
                elif line["dir"] == "out" and isinstance(line["m"], dict):
                    yield Line(float(line.get("t", 0.0)), line["m"])
    except OSError as error:
        raise OptionsError(f"cannot read {path}: {error.strerror}", option="file") from None
    except (ValueError, KeyError, TypeError):
        raise OptionsError(f"{path}:{number} is not a line of a recording", option="file") from None
