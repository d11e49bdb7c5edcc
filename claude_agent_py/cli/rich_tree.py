"""`RichTree`: the tasks as a live tree, drawn by `rich`."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TextIO

import anyio
from rich.console import Console
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from claude_agent_py._base.display import displayable
from claude_agent_py.cli.screen import Screen, describe_task
from claude_agent_py.cli.terminal import MARKS
from claude_agent_py.tasks import Task, TaskManager

REFRESH: Final = 0.1
"""Seconds between redraws."""


class RichTree(Screen):
    """Redraws a tree of the tasks."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(None, clock)
        self._console = Console(file=out, highlight=False, markup=False, emoji=False)

    def say(self, text: str) -> None:
        """Print a line above the tree."""
        self._console.print(displayable(text, None))

    async def watch(self, tasks: TaskManager) -> None:
        """Draw the tree again and again until cancelled."""
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(self._tree(tasks), refresh=True)
                await anyio.sleep(REFRESH)

    def finish(self, tasks: TaskManager) -> None:
        """Draw the tree once, to stay."""
        if len(tasks):
            self._console.print(self._tree(tasks))

    def _tree(self, tasks: TaskManager) -> Any:
        if not len(tasks):
            return ""
        tree = Tree("tasks", guide_style="dim")
        self._add(tree, tasks.roots)
        return tree

    def _add(self, parent: Any, tasks: Iterable[Task]) -> None:
        for task in tasks:
            line = Text.assemble(MARKS[task.status], " ", describe_task(task, self._clock()))
            self._add(parent.add(line), task.children)
