"""`DashboardModel`: the data sources, read independently, and the sorted rows."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.cli._dashboard.machine import REFRESH_SECONDS, Machine
from claude_agent_py.cli._dashboard.rows import MAX_SESSIONS, Row
from claude_agent_py.cli.fleet import open_fleet
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox
from claude_agent_py.permissions.interactions import Interaction

if TYPE_CHECKING:
    from claude_agent_py.cli._dashboard.fleet import FleetView


class InboxView:
    """An inbox file. It is never created."""

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        self._path = Path(path).expanduser()
        self._inode = 0
        self._inbox: SQLiteInbox | None = None

    def refresh(self) -> tuple[Sequence[Row], Sequence[Interaction]]:
        """Return no rows, and the pending questions, oldest first. Blocks.

        Raises:
            OptionsError: The file does not exist or is not an inbox.
        """
        try:
            inode = self._path.stat().st_ino
        except OSError:
            raise OptionsError(f"file not found: {self._path}") from None
        # The file may have been replaced since the last refresh.
        if self._inbox is None or inode != self._inode:
            self._inbox = SQLiteInbox(self._path)
            self._inode = inode
        return (), list(self._inbox)


def build_inbox_row(name: str, questions: list[Interaction], problem: str) -> Row:
    """Return the row of an inbox, with questions of sessions that have no row."""
    rows = [
        Row(
            key=f"question:{question.id}",
            kind="question",
            title=f"{question.kind} {question.id}",
            state="asks",
            since=question.created_at,
            about=(f"session {one_line(question.session_id)}",) if question.session_id else (),
            questions=(question,),
            session_id=question.session_id or "",
            facts={"kind": "interaction", "session_id": question.session_id or "", "id": question.id},
        )
        for question in questions
    ]
    about = problem or f"{len(rows)} pending"
    return Row(key="inbox", kind="inbox", title=one_line(name), about=(about,), children=tuple(rows))


@dataclass(frozen=True)
class SourceState:
    """The last result of a source."""

    rows: tuple[Row, ...] = ()
    questions: tuple[Interaction, ...] = ()
    problem: str = ""
    """The error of the last read; empty if it succeeded. After an error, the rows and questions are older ones."""


ReadSource = Callable[[], tuple[Sequence[Row], Sequence[Interaction]]]


class DashboardModel:
    """The sessions of this machine, and optionally of a fleet, and the questions of an inbox.

    Args:
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR` or `~/.claude`.
        fleet: The URL of a fleet's database.
        inbox: The file of an inbox.
        is_all: Whether to include idle, failed and cancelled sessions of the fleet.
        seconds: The time limit for reading transcripts in one refresh.

    Raises:
        OptionsError: The URL is invalid, or the extra `fleet` is not installed.
    """

    def __init__(
        self,
        config_dir: str | None = None,
        fleet: str | None = None,
        inbox: str | None = None,
        *,
        is_all: bool = False,
        seconds: float = REFRESH_SECONDS,
    ) -> None:
        machine = Machine(config_dir, seconds)
        self.fleet = _open_fleet(fleet, is_all=is_all) if fleet else None
        self.inbox: InboxView | None = InboxView(inbox) if inbox else None
        self.config_dir = config_dir
        self.sources: dict[str, ReadSource] = {"machine": lambda: (machine.refresh(), ())}
        """The functions that read the sources, by name. They block. Calls of the same function must not overlap."""
        if self.fleet is not None:
            self.sources["fleet"] = self.fleet.refresh
        if self.inbox is not None:
            self.sources["inbox"] = self.inbox.refresh
        self.states: dict[str, SourceState] = {name: SourceState() for name in self.sources}

    def read_source(self, name: str) -> SourceState:
        """Read a source and return its new state. Blocks."""
        try:
            rows, questions = self.sources[name]()
        except Exception as error:
            # A failing source must not affect the others. Keep its last rows until a later read succeeds.
            return replace(self.states[name], problem=one_line(str(error), 200) or type(error).__name__)
        return SourceState(tuple(rows), tuple(questions))

    def refresh(self) -> list[Row]:
        """Read all sources and return the rows. Blocks."""
        for name in self.sources:
            self.states[name] = self.read_source(name)
        return self.rows()

    @property
    def problems(self) -> list[str]:
        """The errors of sources that could not be read."""
        return [f"{name}: {state.problem}" for name, state in self.states.items() if state.problem]

    def rows(self) -> list[Row]:
        """Return the rows of the last states. Questions are in the rows of the sessions that asked them."""
        local = {row.session_id: row for row in self.states["machine"].rows}
        inbox = self.states.get("inbox", SourceState())
        questions = _group_by_session(inbox.questions)
        local = {id_: attach_questions(row, questions.pop(id_, ())) for id_, row in local.items()}
        rows = []
        if self.fleet is not None:
            rows.append(self._build_fleet_row(self.fleet, local))
        # Questions of sessions that are not shown get a row for the inbox.
        if self.inbox is not None and (questions or inbox.problem):
            others = [question for group in questions.values() for question in group]
            rows.append(build_inbox_row(self.inbox.name, others, inbox.problem))
        return [*rows, *group_by_host(local.values())]

    def _build_fleet_row(self, fleet: "FleetView", local: dict[str, Row]) -> Row:
        """Return the row of the fleet with its sessions. Removes the sessions of the fleet from `local`."""
        source = self.states["fleet"]
        questions = _group_by_session(source.questions)
        children = []
        for row in source.rows:
            merged = _merge_local(row, local.pop(row.session_id, None))
            children.append(attach_questions(merged, questions.get(row.fleet_id, ())))
        states = Counter(row.state for row in source.rows)
        about = [f"{count} {state}" for state, count in states.items()] or ["nothing to do"]
        if MAX_SESSIONS in states.values():
            about.append(f"only the newest {MAX_SESSIONS} per state are shown")
        count = len(fleet.workers)
        summary = source.problem or ("1 worker" if count == 1 else f"{count} workers")
        return Row(key="fleet", kind="fleet", title=fleet.name, about=(summary, *about), children=tuple(children))


def _open_fleet(url: str, *, is_all: bool) -> "FleetView":
    fleet = open_fleet(url)
    from claude_agent_py.cli._dashboard.fleet import FleetView  # needs the extra `fleet`, unlike this module

    return FleetView(fleet, is_all=is_all)


def _group_by_session(questions: Iterable[Interaction]) -> dict[str, list[Interaction]]:
    found: dict[str, list[Interaction]] = {}
    for question in questions:
        found.setdefault(question.session_id or "", []).append(question)
    return found


def _merge_local(row: Row, local: Row | None) -> Row:
    """Add the facts that this machine has about a session to the fleet's row."""
    if local is None:
        return row
    more = {"pid": local.pid, "tasks": local.facts["tasks"], "host": local.facts["host"], "cwd": local.facts["cwd"]}
    return replace(
        row,
        spent=local.spent if local.spent.tokens >= row.spent.tokens else row.spent,
        calls=local.calls,
        about=(*row.about, *local.about),
        children=local.children,
        questions=local.questions,
        pid=local.pid,
        path=local.path,
        facts={**row.facts, **more},
    )


def attach_questions(row: Row, questions: Iterable[Interaction]) -> Row:
    """Return a session's row with its questions, each in the row of the agent that asked it."""
    agents = {_get_agent(child) for child in row.walk() if child.kind == "task"}
    by_agent: dict[str | None, list[Interaction]] = {}
    for question in questions:
        agent = question.agent_id if question.agent_id in agents else None
        by_agent.setdefault(agent, []).append(question)

    def attach(row: Row, agent: str | None) -> Row:
        children = tuple(attach(child, _get_agent(child)) for child in row.children)
        return replace(row, questions=(*row.questions, *by_agent.get(agent, ())), children=children)

    return attach(row, None) if by_agent else row


def _get_agent(task: Row) -> str:
    return task.key.rpartition(":")[2]


def group_by_host(rows: Iterable[Row]) -> list[Row]:
    """Return the rows in their order. Several sessions of one program, such as a pool, become children of one row."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        host = row.facts["host"]
        groups.setdefault(f"host:{host['pid']}" if host else row.key, []).append(row)
    return [group[0] if len(group) == 1 else _build_host_row(key, group) for key, group in groups.items()]


def _build_host_row(key: str, rows: list[Row]) -> Row:
    host = rows[0].facts["host"]
    unused = sum(not row.facts["title"] for row in rows)
    about = [f"pid {host['pid']}", f"{len(rows)} sessions"]
    if unused:
        about.append(f"{unused} without a prompt yet")
    return Row(key=key, kind="host", title=host["program"] or "a program", about=tuple(about), children=tuple(rows))
