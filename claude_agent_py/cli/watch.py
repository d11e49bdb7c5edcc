"""The `watch` command: print the sessions of this machine, a fleet and the questions in an inbox, or open a page.

Printing only reads the files of the CLI, the database of the fleet and the inbox. So it also shows sessions of other
programs, and disturbs none.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from claude_agent_py import fleet as fleet_room  # loads on first use
from claude_agent_py._base.display import displayable, displayable_json
from claude_agent_py.cli import serve
from claude_agent_py.cli.fleet import VARIABLE as FLEET_VARIABLE, open_fleet
from claude_agent_py.cli.inbox import VARIABLE as INBOX_VARIABLE, open_inbox
from claude_agent_py.cli.terminal import MARKS, one_line
from claude_agent_py.errors import ClaudeAgentError, FleetError, OptionsError, SessionError
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import Interaction
from claude_agent_py.sessions import RunningSession, SessionUsage, StoredSession, get_session, running_sessions
from claude_agent_py.wire import JSONObject

NOTHING: Final = "no session runs on this machine"
MIN_INTERVAL: Final = 0.1
MAX_INTERVAL: Final = 86400.0
"""The shortest and the longest interval between updates, in seconds."""
LINE_CHARS: Final = 200
LIVE: Final = ("running", "waiting", "queued")
"""The states of fleet sessions that are shown without `--all`."""
FLEET_SECONDS: Final = 3.0
"""The time for a fleet's database to answer."""


@dataclass(frozen=True, slots=True)
class WatchedRow:
    """A session or one of its tasks."""

    title: str
    state: str
    about: tuple[str, ...] = ()
    """Further facts of the line."""
    spent: str = ""
    """The age, the tokens and the cost: a row whose `spent` alone differs has not changed."""
    children: "tuple[WatchedRow, ...]" = ()
    facts: JSONObject = field(default_factory=dict, compare=False)
    """The facts for `--json`."""

    def lines(self, indent: str = "") -> Iterator[str]:
        """Yield the line of this row and those of its children."""
        texts = " · ".join(text for text in (self.spent, *self.about) if text)
        yield indent + one_line(f"{MARKS.get(self.state, '·')[0]} {self.title} [{self.state}] {texts}", LINE_CHARS)
        for child in self.children:
            yield from child.lines(indent + "  ")

    def timeless(self) -> "WatchedRow":
        """Return the row without what changes all the time."""
        return replace(self, spent="", children=tuple(child.timeless() for child in self.children))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch`."""
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.add_argument("--json", action="store_true", help="print once, as JSON")
    parser.add_argument("--page", action="store_true", help="open a page with the sessions, instead of printing them")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="the refresh interval (default: 1)")
    parser.add_argument(
        "--config-dir", metavar="DIR", help="the CLI's folder (default: CLAUDE_CONFIG_DIR or ~/.claude)"
    )
    fleet = os.environ.get(FLEET_VARIABLE)
    inbox = os.environ.get(INBOX_VARIABLE)
    parser.add_argument(
        "--fleet", metavar="URL", default=fleet, help=f"a fleet's address, or MODULE:NAME (default: {FLEET_VARIABLE})"
    )
    parser.add_argument("--all", action="store_true", help="include idle, failed and cancelled sessions of the fleet")
    parser.add_argument("--inbox", metavar="FILE", default=inbox, help=f"an SQLiteInbox (default: {INBOX_VARIABLE})")


def execute(arguments: argparse.Namespace) -> int:
    """Print the sessions, again after each change until interrupted, and return the exit code."""
    if arguments.page:
        return _serve_page(arguments)
    fleet = open_fleet(arguments.fleet) if arguments.fleet else None
    last: object = None
    while True:
        started = time.monotonic()
        rows, problems = _read(arguments, fleet)
        if arguments.json:
            print(displayable_json([row.facts for row in rows]))
        elif (state := ([row.timeless() for row in rows], problems)) != last:
            print("\n".join(displayable(line, None) for row in rows for line in row.lines()) or NOTHING, flush=True)
            last = state
            print("".join(f"{displayable(problem, None)}\n" for problem in problems), end="", file=sys.stderr)
        if arguments.once or arguments.json:
            return 1 if problems else 0
        # Long transcripts take a while to read: at least three quarters of the time nothing is read.
        time.sleep(min(MAX_INTERVAL, max(MIN_INTERVAL, arguments.every, 3 * (time.monotonic() - started))))


def _serve_page(arguments: argparse.Namespace) -> int:
    """Serve the page of the fleet, or of this machine, on a free port, and open it in a browser.

    Raises:
        OptionsError: Another argument is about printing, or the agents of the fleet are unknown.
    """
    for name in ("once", "json", "all"):
        if getattr(arguments, name):
            raise OptionsError("is about printing, so it does not go with --page", option=f"--{name}")
    fleet = open_fleet(arguments.fleet) if arguments.fleet else None
    if fleet is not None and not fleet.agents:
        raise OptionsError("must be MODULE:NAME for a page, which needs the agents", option="--fleet")
    config = arguments.config_dir
    options = ClientOptions(env={} if config is None else {"CLAUDE_CONFIG_DIR": os.path.abspath(config)})
    return serve.serve_object(fleet or options, arguments.fleet, port=0, open_browser=True)


def _read(arguments: argparse.Namespace, fleet: "fleet_room.Fleet | None") -> tuple[list[WatchedRow], list[str]]:
    """Return the rows, and the problems of sources that cannot be read, which do not affect the others."""
    rows: list[WatchedRow] = []
    problems: list[str] = []
    config_dir = arguments.config_dir
    sources: dict[str, Callable[[], list[WatchedRow]]] = {
        "machine": lambda: [_describe(running, config_dir) for running in running_sessions(config_dir)]
    }
    if fleet is not None:
        sources["fleet"] = lambda: anyio.run(_read_fleet, fleet, arguments.all)
    if arguments.inbox:
        sources["inbox"] = lambda: [_describe_question(question) for question in open_inbox(arguments.inbox)]
    for name, read in sources.items():
        try:
            rows += read()
        except ClaudeAgentError as error:
            problems.append(f"{name}: {one_line(str(error), LINE_CHARS)}")
    return rows, problems


# This machine -------------------------------------------------------------------------------------------------------


def _describe(running: RunningSession, config_dir: str | None) -> WatchedRow:
    process = running.process
    title, usage = "", SessionUsage()
    tasks: tuple[WatchedRow, ...] = ()
    try:
        session = get_session(running.session_id, config_dir=config_dir)
        title = session.info.summary
        usage = session.usage
        tasks = _describe_tasks(session)
    except (SessionError, ValueError):
        pass  # the CLI has not written a transcript yet
    tokens, cost = usage.total.total_tokens, usage.cost_usd
    waits = f"waits for {process.waiting_for}" if process.waiting_for else ""
    return WatchedRow(
        title or f"no prompt yet ({running.session_id[:8]})",
        process.status or "?",
        (waits, f"pid {process.pid}", running.cwd),
        _format_spent(running.started_at, tokens, cost),
        tasks,
        {
            "kind": "session",
            "session_id": running.session_id,
            "title": one_line(title, LINE_CHARS),
            "status": process.status,
            "waits_for": process.waiting_for,
            "pid": process.pid,
            "cwd": running.cwd,
            "program": running.program,
            "started_at": running.started_at,
            "tokens": tokens,
            "cost_usd": cost,
            "tasks": [task.facts for task in tasks],
        },
    )


def _describe_tasks(session: StoredSession) -> tuple[WatchedRow, ...]:
    """Return the running tasks, each below the subagent that launched it."""
    running = {task.id: task for task in session.tasks if task.outcome is None}

    def below(parent: str | None) -> tuple[WatchedRow, ...]:
        return tuple(
            WatchedRow(
                f"{task.description} ({task.subagent.agent_type if task.subagent else task.type})",
                task.status.value,
                spent=_format_spent(task.started_at),
                children=(children := below(task.id)),
                facts={
                    "id": task.id,
                    "type": task.type,
                    "description": one_line(task.description, LINE_CHARS),
                    "started_at": task.started_at,
                    "tasks": [child.facts for child in children],
                },
            )
            for task in running.values()
            if (task.parent_id if task.parent_id in running else None) == parent and task.id != parent
        )

    return below(None)


def _format_spent(since: float | None, tokens: float = 0, cost: float | None = None) -> str:
    texts = [format_elapsed(since)] if since else []
    if tokens:
        texts.append(f"{tokens:,.0f} tokens")
    if cost is not None:
        texts.append(f"{cost:.4f} USD")
    return " · ".join(texts)


def format_elapsed(since: float) -> str:
    """Return the time since an event, such as `2m05s`."""
    seconds = max(0, int(time.time() - since))
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds // 60 % 60:02}m"
    return f"{seconds // 86400}d"


# A fleet and an inbox -----------------------------------------------------------------------------------------------


async def _read_fleet(fleet: "fleet_room.Fleet", is_all: bool) -> list[WatchedRow]:
    try:
        with anyio.fail_after(FLEET_SECONDS):
            found = {info.id: info for state in ((None,) if is_all else LIVE) for info in await fleet.list(state=state)}
            questions = await fleet.interactions()
    except TimeoutError:
        raise FleetError(f"the database of the fleet does not answer within {FLEET_SECONDS:g} s") from None
    asked: dict[str, list[WatchedRow]] = {}
    for question in questions:
        asked.setdefault(question.session_id or "", []).append(_describe_question(question))
    return [
        WatchedRow(
            f"{info.id} ({info.agent})",
            info.state,
            (f"on {info.worker}" if info.worker else "", info.reason or ""),
            _format_spent(info.created_at),
            tuple(asked.get(info.id, ())),
            {"kind": "fleet", **info.to_dict(), "interactions": [row.facts for row in asked.get(info.id, ())]},
        )
        for info in sorted(found.values(), key=lambda info: -info.created_at)
    ]


def _describe_question(question: "Interaction") -> WatchedRow:
    return WatchedRow(
        question.summary,
        "asks",
        (question.kind, question.id, f"session {question.session_id}" if question.session_id else ""),
        _format_spent(question.created_at),
        facts={
            "kind": "interaction",
            "id": question.id,
            "of": question.kind,
            "session_id": question.session_id,
            "agent_id": question.agent_id,
            "summary": one_line(question.summary, LINE_CHARS),
            "asked_at": question.created_at,
        },
    )
