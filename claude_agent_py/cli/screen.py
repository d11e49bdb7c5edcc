"""`Screen`: tasks in a terminal, a line for each change."""

import time
from collections.abc import Callable
from typing import Final, TextIO

from claude_agent_py._base.display import displayable
from claude_agent_py.cli.terminal import MARKS, one_line
from claude_agent_py.tasks import Task, TaskManager

SHOWN_CHARS: Final = 300


def describe_task(task: Task, now: float) -> str:
    """Return the line of a task, without its mark. `now` is the time in seconds since the epoch."""
    line = f"{task.description} [{task.subagent_type or task.type}] {task.status}"
    if task.started_at:
        line += f" {max(0.0, (task.ended_at or now) - task.started_at):.1f}s"
    if task.last_tool_name and not task.done:
        line += f" · {task.last_tool_name}"
    usage = task.usage
    if usage and usage.total_tokens:
        line += f" · {usage.total_tokens:.0f} tokens"
    return one_line(line, SHOWN_CHARS)


class Screen:
    """Prints messages, and a line for each change of a task's status or tool. With None as `out`, prints nothing."""

    def __init__(self, out: TextIO | None, clock: Callable[[], float] = time.time) -> None:
        self._out = out
        self._clock = clock
        self._shown: dict[str, tuple[object, ...]] = {}

    def say(self, text: str) -> None:
        """Print a line above the tasks."""
        if self._out is not None:
            print(displayable(text, None), file=self._out, flush=True)

    async def watch(self, tasks: TaskManager) -> None:
        """Show the tasks until cancelled."""
        async for _ in tasks.events():
            self.finish(tasks)

    def finish(self, tasks: TaskManager) -> None:
        """Show the current state of the tasks."""
        for task in tasks:
            state = (task.status, task.last_tool_name)
            if self._shown.get(task.id) != state:
                self._shown[task.id] = state
                self.say(f"{'  ' * (task.depth - 1)}{MARKS[task.status][0]} {describe_task(task, self._clock())}")
