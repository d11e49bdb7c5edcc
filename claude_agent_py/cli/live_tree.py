"""Show tasks in a terminal as a live tree.

`rich` (extra `cli`) draws the tree. Without it, or if the output is not a terminal, every change is printed as a line.
"""

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TextIO

import anyio

from claude_agent_py.permissions.requests import displayable
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.tasks import TaskStatus

MARKS: Final = {
    TaskStatus.PENDING: ("·", "dim"),
    TaskStatus.RUNNING: ("●", "cyan"),
    TaskStatus.PAUSED: ("‖", "yellow"),
    TaskStatus.AWAITING_USER: ("?", "yellow"),
    TaskStatus.COMPLETED: ("✓", "green"),
    TaskStatus.FAILED: ("✗", "red"),
    TaskStatus.STOPPED: ("■", "magenta"),
}
SHOWN_CHARS: Final = 300
REFRESH: Final = 0.1
"""Seconds between two redraws of the live tree."""


class Screen(Protocol):
    """Where the demo prints its output."""

    def say(self, text: str) -> None:
        """Print a line above the tree."""
        ...

    async def watch(self, tasks: TaskManager) -> None:
        """Show the tasks until cancelled."""
        ...

    def finish(self, tasks: TaskManager) -> None:
        """Print the final state of the tasks."""
        ...


@contextmanager
def screen(out: TextIO, clock: Callable[[], float] = time.time) -> Iterator[Screen]:
    """Yield a live tree if `out` is a terminal and `rich` is installed, otherwise plain lines.

    `clock` returns the time, in seconds since the epoch; 0 if it is unknown.
    """
    console = rich_console(out)
    yield _Lines(out, clock) if console is None else _LiveTree(console, clock)


def rich_console(out: TextIO) -> Any:
    """Return a console, or None if `out` is not a terminal or `rich` is not installed."""
    if not out.isatty():
        return None
    if importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console

    return Console(file=out, highlight=False)


def elapsed(task: Task, now: float) -> float:
    """Return how long the task has run, in seconds."""
    return max(0.0, (task.ended_at or now) - task.started_at)


class Descriptions:
    """Describes tasks in one line each. Token counts never fall, although the CLI may report fewer than before."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._tokens: dict[str, int] = {}

    def of(self, task: Task) -> str:
        """Return the line of a task, without its mark."""
        kind = task.subagent_type or task.type
        tool = f" · {task.last_tool_name}" if task.last_tool_name and not task.done else ""
        used = max(int(task.usage.total_tokens) if task.usage else 0, self._tokens.get(task.id, 0))
        self._tokens[task.id] = used
        tokens = f" · {used} tokens" if used else ""
        took = f" {elapsed(task, self._clock()):.1f}s" if task.started_at else ""
        line = f"{task.description} [{kind}] {task.status}{took}{tool}{tokens}"
        return displayable(" ".join(line.split()), SHOWN_CHARS)


class _Lines:
    """Prints a line for each change of a task's status or tool."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.time) -> None:
        self._out = out
        self._descriptions = Descriptions(clock)
        self._shown: dict[str, tuple[object, ...]] = {}

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    async def watch(self, tasks: TaskManager) -> None:
        async for _ in tasks.events():
            self.finish(tasks)

    def finish(self, tasks: TaskManager) -> None:
        for task in tasks:
            state = (task.status, task.last_tool_name)
            if self._shown.get(task.id) != state:
                self._shown[task.id] = state
                self.say(f"{'  ' * (task.depth - 1)}{MARKS[task.status][0]} {self._descriptions.of(task)}")


class _LiveTree:
    """Redraws a tree of the tasks."""

    def __init__(self, console: Any, clock: Callable[[], float] = time.time) -> None:
        self._console = console
        self._descriptions = Descriptions(clock)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    async def watch(self, tasks: TaskManager) -> None:
        from rich.live import Live

        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(self._tree(tasks), refresh=True)
                await anyio.sleep(REFRESH)

    def finish(self, tasks: TaskManager) -> None:
        if len(tasks):
            self._console.print(self._tree(tasks))

    def _tree(self, tasks: TaskManager) -> Any:
        return tree_of(tasks.roots, self._descriptions) if len(tasks) else ""


def tree_of(roots: Iterable[Task], descriptions: Descriptions) -> Any:
    """Return tasks and their children as a tree of `rich`."""
    from rich.text import Text
    from rich.tree import Tree

    def add(parent: Tree, task: Task) -> None:
        mark, colour = MARKS[task.status]
        branch = parent.add(Text.assemble((mark, colour), " ", descriptions.of(task)))
        for child in task.children:
            add(branch, child)

    tree = Tree("tasks", guide_style="dim")
    for task in roots:
        add(tree, task)
    return tree
