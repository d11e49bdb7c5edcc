"""The `replay` command: show a recording of `run --record`, or the output of `claude -p`."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import anyio

from claude_agent_py.cli import run_command
from claude_agent_py.cli.live_tree import create_screen
from claude_agent_py.cli.screen import Screen
from claude_agent_py.journal import recorded_frames
from claude_agent_py.messages import ResultMessage
from claude_agent_py.tasks import TaskManager

LONGEST_PAUSE: Final = 2.0
"""The longest pause of a replay between two frames, in seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `replay`."""
    parser.add_argument("file", help="a recording, or the output of `claude -p --output-format stream-json --verbose`")
    parser.add_argument(
        "--speed", type=float, default=0.0, metavar="N", help="N times the original speed; 0 (default) does not wait"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Show a recording and return the exit code: 1 if the last result is an error, otherwise 0."""
    frames = [frame for frame in recorded_frames(arguments.file) if frame[0] is not None and not frame[2]]
    return anyio.run(_replay, frames, arguments.speed)


async def _replay(frames: Sequence[tuple[object, float | None, bool]], speed: float) -> int:
    now = 0.0  # in seconds since the epoch; 0 until a frame has a time
    code = 0
    last_at: float | None = None
    view: Screen = create_screen(sys.stdout, lambda: now)
    tasks = TaskManager(clock=lambda: now)
    async with anyio.create_task_group() as group:
        if speed > 0:
            group.start_soon(view.watch, tasks)
        for message, at, _ in frames:
            if speed > 0 and at is not None:
                await anyio.sleep(min(max(0.0, at - (last_at or at)) / speed, LONGEST_PAUSE))
                last_at = at
            now = max(now, _read_time(message) or at or 0.0)
            tasks.track(message)
            run_command.show(message, view)
            if isinstance(message, ResultMessage):
                code = 1 if message.is_error else 0
                view.say(f"turn ended: {message.subtype}, {message.total_cost_usd:.4f} USD so far")
        group.cancel_scope.cancel()
    view.finish(tasks)
    return code


def _read_time(message: object) -> float | None:
    try:
        return datetime.fromisoformat(getattr(message, "timestamp", None) or "").timestamp()
    except (TypeError, ValueError):
        return None
