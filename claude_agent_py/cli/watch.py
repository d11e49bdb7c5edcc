"""The `watch` command: the sessions of this machine, of a fleet, and what waits in an inbox.

It reads what the CLI and the fleet keep, so it also sees sessions that other programs run, and disturbs none. In a
terminal with textual it is an application, in `dashboard.app`; otherwise it prints.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from claude_agent_py.cli._dashboard.board import Board
from claude_agent_py.cli._dashboard.machine import LOOK_SECONDS
from claude_agent_py.cli._dashboard.rows import Row, count_sessions
from claude_agent_py.cli.fleet import VARIABLE as FLEET_VARIABLE
from claude_agent_py.cli.interactions import VARIABLE as INBOX_VARIABLE
from claude_agent_py.cli.terminal import can_show_screen, rich_console, rich_tree

NOTHING: Final = "no session runs on this machine"
LEAST_SECONDS: Final = 0.1
"""Between two looks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch`."""
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.add_argument("--json", action="store_true", help="print once, as JSON")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="how often to look (default: 1)")
    parser.add_argument("--config-dir", metavar="DIR", help="the CLI's folder (default: CLAUDE_CONFIG_DIR, ~/.claude)")
    fleet, inbox = os.environ.get(FLEET_VARIABLE), os.environ.get(INBOX_VARIABLE)
    parser.add_argument("--fleet", metavar="URL", default=fleet, help=f"a fleet's database (default: {FLEET_VARIABLE})")
    parser.add_argument("--all", action="store_true", help="also the fleet's idle, failed and cancelled sessions")
    parser.add_argument("--inbox", metavar="FILE", default=inbox, help=f"an SQLiteInbox (default: {INBOX_VARIABLE})")


def execute(arguments: argparse.Namespace) -> int:
    """Show the sessions until interrupted, and return the exit code."""
    is_once = arguments.once or arguments.json
    every = max(LEAST_SECONDS, arguments.every)
    board = Board(
        arguments.config_dir,
        arguments.fleet,
        arguments.inbox,
        is_all=arguments.all,
        seconds=math.inf if is_once else LOOK_SECONDS,
    )
    if not is_once and can_show_screen():
        from claude_agent_py.cli._dashboard.app import Dashboard

        Dashboard(board, every=every).run()
        return 0
    console = rich_console(sys.stdout)
    if is_once:
        rows = board.look()
        _print(rows, console, is_json=arguments.json)
        print("\n".join(board.problems), end="\n" * bool(board.problems), file=sys.stderr)
        return 1 if board.problems else 0
    if console is None:
        _print_changes(board, every)
    else:
        _redraw(board, every, console)
    return 0


def _print(rows: Sequence[Row], console: Any, *, is_json: bool) -> None:
    if is_json:
        told = [row.as_json() for top in rows for row in top.walk() if row.told]
        print(json.dumps(told, ensure_ascii=False))
    elif console is None:
        print(as_text(rows))
    else:
        console.print(as_tree(rows))


def as_text(rows: Sequence[Row]) -> str:
    """Return the rows as lines."""
    return "\n".join(f"{'  ' * depth}{row.mark[0]} {row.line()}" for row, depth in _nested(rows)) or NOTHING


def _nested(rows: Sequence[Row], depth: int = 0) -> Iterator[tuple[Row, int]]:
    for row in rows:
        yield row, depth
        yield from _nested(row.children, depth + 1)


def as_tree(rows: Sequence[Row]) -> Any:
    """Return the rows as a tree of `rich`."""
    title = f"sessions: {count_sessions(rows)}" if rows else NOTHING
    return rich_tree(title, rows, lambda row: (row.mark, " ", row.line()))


def _redraw(board: Board, every: float, console: Any) -> None:
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(as_tree(board.look()), refresh=True)
            time.sleep(every)


def _print_changes(board: Board, every: float) -> None:
    """Print the rows whenever something else than the time and what was spent has changed."""
    before: Any = None
    while True:
        rows = board.look()
        state = [(row.key, row.title, row.state, row.waits_for, row.about) for top in rows for row in top.walk()]
        if state != before:
            print(as_text(rows), flush=True)
        before = state
        time.sleep(every)
