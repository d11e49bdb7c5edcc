"""The `watch` command: every session that runs on this machine, with its tasks and what it waits for.

It reads what the CLI keeps on disk, so it also sees sessions that other programs run, and disturbs none.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from claude_agent_py._errors import SessionError
from claude_agent_py.cli.live_tree import MARKS, rich_console
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.sessions.running import RunningSession, running_sessions
from claude_agent_py.sessions.session import Session, get_session
from claude_agent_py.sessions.stored_tasks import StoredTask
from claude_agent_py.wire.messages.tasks import TaskStatus

SHOWN_CHARS: Final = 70
MOST_BYTES: Final = 50_000_000
"""Of larger transcripts only the title is read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch`."""
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.add_argument("--json", action="store_true", help="print once, as JSON")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="how often to look (default: 1)")
    parser.add_argument("--config-dir", metavar="DIR", help="the CLI's folder (default: CLAUDE_CONFIG_DIR, ~/.claude)")


def execute(arguments: argparse.Namespace) -> int:
    """Show the sessions until interrupted, and return the exit code."""
    board = Board(arguments.config_dir)
    if arguments.json:
        print(json.dumps([row.as_json() for row in board.rows()], ensure_ascii=False))
        return 0
    console = rich_console(sys.stdout)
    if arguments.once:
        shown = list(board.rows())
        print(as_text(shown)) if console is None else console.print(as_tree(shown))
    elif console is None:
        _print_changes(board, arguments.every)
    else:
        _redraw(board, arguments.every, console)
    return 0


@dataclass(frozen=True)
class Row:
    """A running session, as far as its transcript tells."""

    running: RunningSession
    title: str = ""
    cost_usd: float | None = None
    tokens: int = 0
    waits_for: str = ""
    """The tool calls of the main agent without a result."""
    tasks: list[StoredTask] = field(default_factory=list)
    """Those that run."""

    @property
    def line(self) -> str:
        """The session in one line."""
        process = self.running.process
        seconds = max(0, int(time.time() - self.running.started_at))
        facts = [f"pid {process.pid}", f"{seconds // 60}m{seconds % 60:02}s"]
        facts += [f"{self.tokens} tokens"] if self.tokens else []
        facts += [f"{self.cost_usd:.4f} $"] if self.cost_usd is not None else []
        facts += [f"in {self.waits_for}"] if self.waits_for else []
        title = self.title or self.running.session_id
        return _line(f"{title} [{process.status or '?'}] {' · '.join(facts)} · {self.running.cwd}", 200)

    def as_json(self) -> dict[str, Any]:
        """Return the session as JSON."""
        return {
            "session_id": self.running.session_id,
            "title": self.title,
            "pid": self.running.process.pid,
            "status": self.running.process.status,
            "cwd": self.running.cwd,
            "started_at": self.running.started_at,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "waits_for": self.waits_for,
            "tasks": [{"id": task.id, "type": task.type, "description": task.description} for task in self.tasks],
        }


class Board:
    """The running sessions. A transcript is read again only after it grew."""

    def __init__(self, config_dir: str | None) -> None:
        self._config_dir = config_dir
        self._known: dict[str, tuple[int, Row]] = {}

    def rows(self) -> Iterator[Row]:
        """Yield the sessions, the latest first."""
        for running in running_sessions(self._config_dir):
            try:
                session = get_session(running.session_id, config_dir=self._config_dir)
                yield self._row(running, session)
            except (SessionError, ValueError):  # nothing was written yet
                yield Row(running)

    def _row(self, running: RunningSession, session: Session) -> Row:
        size, known = self._known.get(session.id, (-1, Row(running)))
        if size == session.info.file_size and known.running == running and not known.tasks:
            return known
        row = _read(running, session)
        self._known[session.id] = (session.info.file_size, row)
        return row


def _read(running: RunningSession, session: Session) -> Row:
    title = _line(session.info.summary)
    if session.info.file_size > MOST_BYTES:
        return Row(running, title)
    waits = [
        f"{call.name} {_line(str(next(iter(call.input.values()), '')), 40)}"
        for call in session.tool_calls
        if not call.done
    ]
    total = session.usage.total
    return Row(
        running,
        title,
        session.usage.cost_usd,
        int(total.total_tokens),
        ", ".join(waits) if running.process.status == "busy" else "",
        [task for task in session.tasks if not task.status.is_terminal],
    )


# Showing ----------------------------------------------------------------------------------------------------------


def as_text(rows: list[Row]) -> str:
    """Return the sessions as lines."""
    lines = [line for row in rows for line in (f"{_mark(row)[0]} {row.line}", *(f"  ● {_task(t)}" for t in row.tasks))]
    return "\n".join(lines) or "no session runs on this machine"


def as_tree(rows: list[Row]) -> Any:
    """Return the sessions as a tree of `rich`."""
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(f"sessions that run on this machine: {len(rows)}", guide_style="dim")
    for row in rows:
        branch = tree.add(Text.assemble(_mark(row), " ", row.line))
        for task in row.tasks:
            branch.add(Text.assemble(MARKS[TaskStatus.RUNNING], " ", _task(task)))
    return tree


def _redraw(board: Board, every: float, console: Any) -> None:
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(as_tree(list(board.rows())), refresh=True)
            time.sleep(every)


def _print_changes(board: Board, every: float) -> None:
    """Print the sessions whenever something else than the time has changed."""
    before: Any = None
    while True:
        rows = list(board.rows())
        state = [(row.running, row.waits_for, row.tasks) for row in rows]
        if state != before:
            print(as_text(rows), flush=True)
        before = state
        time.sleep(every)


def _mark(row: Row) -> tuple[str, str]:
    return MARKS[TaskStatus.RUNNING if row.running.process.status == "busy" else TaskStatus.PENDING]


def _task(task: StoredTask) -> str:
    return _line(f"{task.description} [{task.type}] {task.id}")


def _line(text: str, limit: int = SHOWN_CHARS) -> str:
    return " ".join(displayable(" ".join(text.split()), limit).split())
