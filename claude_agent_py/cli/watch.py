"""The `watch` command: show the sessions of this machine and of a fleet, and the questions in an inbox.

It only reads the files of the CLI and the database of the fleet. So it also shows sessions of other programs, and
disturbs none. In a terminal with textual it runs the application in `_dashboard.app`; otherwise it prints lines.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from claude_agent_py.cli._dashboard.machine import REFRESH_SECONDS
from claude_agent_py.cli._dashboard.model import DashboardModel
from claude_agent_py.cli._dashboard.rows import Row, count_sessions
from claude_agent_py.cli.fleet import VARIABLE as FLEET_VARIABLE
from claude_agent_py.cli.interactions import VARIABLE as INBOX_VARIABLE
from claude_agent_py.cli.terminal import build_tree, can_show_screen, create_console

NOTHING: Final = "no session runs on this machine"
MIN_INTERVAL: Final = 0.1
"""The shortest interval between updates, in seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch`."""
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.add_argument("--json", action="store_true", help="print once, as JSON")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="the refresh interval (default: 1)")
    parser.add_argument(
        "--config-dir", metavar="DIR", help="the CLI's folder (default: CLAUDE_CONFIG_DIR or ~/.claude)"
    )
    fleet = os.environ.get(FLEET_VARIABLE)
    inbox = os.environ.get(INBOX_VARIABLE)
    parser.add_argument("--fleet", metavar="URL", default=fleet, help=f"a fleet's database (default: {FLEET_VARIABLE})")
    parser.add_argument("--all", action="store_true", help="include idle, failed and cancelled sessions of the fleet")
    parser.add_argument("--inbox", metavar="FILE", default=inbox, help=f"an SQLiteInbox (default: {INBOX_VARIABLE})")


def execute(arguments: argparse.Namespace) -> int:
    """Show the sessions until interrupted, and return the exit code."""
    is_once = arguments.once or arguments.json
    every = max(MIN_INTERVAL, arguments.every)
    model = DashboardModel(
        arguments.config_dir,
        arguments.fleet,
        arguments.inbox,
        is_all=arguments.all,
        seconds=math.inf if is_once else REFRESH_SECONDS,
    )
    if not is_once and can_show_screen():
        from claude_agent_py.cli._dashboard.app import Dashboard

        Dashboard(model, every=every).run()
        return 0
    if is_once:
        _print(model.refresh(), is_json=arguments.json)
        print("\n".join(model.problems), end="\n" * bool(model.problems), file=sys.stderr)
        return 1 if model.problems else 0
    _print_changes(model, every)
    return 0


def _print(rows: Sequence[Row], *, is_json: bool) -> None:
    console = create_console(sys.stdout)
    if is_json:
        facts = [row.as_json() for top in rows for row in top.walk() if row.facts]
        print(json.dumps(facts, ensure_ascii=False))
    elif console is None:
        print("\n".join(_format_lines(rows)) or NOTHING)
    else:
        console.print(_build_row_tree(rows))


def _format_lines(rows: Sequence[Row], indent: str = "") -> Iterator[str]:
    for row in rows:
        yield f"{indent}{row.mark[0]} {row.line()}"
        yield from _format_lines(row.children, indent + "  ")


def _build_row_tree(rows: Sequence[Row]) -> object:
    title = f"sessions: {count_sessions(rows)}" if rows else NOTHING
    return build_tree(title, rows, lambda row: (row.mark, " ", row.line()))


def _print_changes(model: DashboardModel, every: float) -> None:
    """Print the rows after each change, except of times, tokens and costs."""
    last_state: object = None
    while True:
        rows = model.refresh()
        state = [(row.key, row.title, row.state, row.waits_for, row.about) for top in rows for row in top.walk()]
        if state != last_state:
            print("\n".join(_format_lines(rows)) or NOTHING, flush=True)
        last_state = state
        time.sleep(every)
