"""The `tasks` command: draw the task trees of a history.

In a terminal, `rich` (extra `cli`) adds colours. Otherwise the tree is plain text. Control characters are stripped from
the output.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import anyio

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.shared_sqlite import lacks_tables
from claude_agent_py.cli.terminal import MARKS, build_tree, create_console, one_line
from claude_agent_py.history import RecordedTask, RecordedTree, TaskHistory
from claude_agent_py.tasks.tree import draw

VARIABLE: Final = "CLAUDE_AGENT_HISTORY"
"""The environment variable that names the default history."""

SHOWN_CHARS: Final = 120
"""Longer descriptions are cut."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tasks`."""
    parser.add_argument(
        "target",
        metavar="FILE|SESSION",
        help="the file of a TaskHistory, or the id of a session in the history that CLAUDE_AGENT_HISTORY names",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this session of the file")
    parser.add_argument("--at", type=int, metavar="NUMBER", help="draw the tree as of this record")


def execute(arguments: argparse.Namespace) -> int:
    """Print the tasks and return the exit code.

    Raises:
        OptionsError: The file or session does not exist, the file is not a history, or the id prefix is ambiguous.
        SessionError: The file cannot be read.
    """
    path, session = _locate(arguments.target, arguments.session)
    if lacks_tables(path, "records", "finished"):
        raise OptionsError(f"{path} is not a history of tasks")
    trees = anyio.run(_read, path, session, arguments.at)
    if not trees:
        print("no tasks are recorded")
    for name, last, tree in trees:
        _draw(name, last, tree)
    return 0


def _locate(target: str, session: str | None) -> tuple[str, str | None]:
    """Return the file of a history, and the id of the session in it, if any."""
    if os.path.isfile(target):
        return target, session
    default = os.environ.get(VARIABLE)
    if session is not None or (default is None and os.path.basename(target) != target):
        raise OptionsError(f"history not found: {target}")
    if default is None:
        raise OptionsError(f"{target!r} is not a file; to pass only a session id, set {VARIABLE} to a history")
    if not os.path.isfile(default):
        raise OptionsError(f"there is no history at {default}, which {VARIABLE} names")
    return default, target


async def _read(path: str, session: str | None, at: int | None) -> list[tuple[str, float, RecordedTree]]:
    async with TaskHistory(path) as history:
        names = await history.sessions()
        if session is not None:
            names = [_select(names, session, path)]
        found = []
        for name in names:
            records = await history.records(name)
            last = max((record.at for record in records if at is None or record.number <= at), default=0.0)
            if records:
                found.append((name, last, await history.rebuild(name, at=at)))
        return found


def _select(names: Sequence[str], wanted: str, path: str) -> str:
    """Return the session with this id, or the only one with this id prefix."""
    if wanted in names:
        return wanted
    matching = [name for name in names if wanted and name.startswith(wanted)]
    if len(matching) != 1:
        problem = "more than one session begins with" if matching else "no session begins with"
        raise OptionsError(f"{problem} {wanted!r} in {path}")
    return matching[0]


def _draw(name: str, last: float, tree: RecordedTree) -> None:
    time = datetime.fromtimestamp(last).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    title = f"session {one_line(name, SHOWN_CHARS)}, {len(tree)} tasks, last record {time}"
    console = create_console(sys.stdout)
    if console is None:
        print(title, draw(tree.roots, _describe), sep="\n")
    else:
        console.print(build_tree(title, tree, lambda task: (MARKS[task.status], " ", _describe(task))))


def _describe(task: RecordedTask) -> str:
    """Return the line of a task."""
    reason = f": {one_line(task.failure_reason, SHOWN_CHARS)}" if task.failure_reason else ""
    return one_line(task.label, SHOWN_CHARS) + reason
