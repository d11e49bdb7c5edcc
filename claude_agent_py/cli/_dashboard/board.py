"""`Board`: what is looked at, each part by itself, and the rows in the order in which they are shown."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from claude_agent_py.cli._dashboard.fleet import MOST, FleetView
from claude_agent_py.cli._dashboard.inbox import InboxView, inbox_row
from claude_agent_py.cli._dashboard.machine import LOOK_SECONDS, Machine
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.interactions import Interaction


@dataclass(frozen=True)
class Seen:
    """What one part told when it was looked at last."""

    rows: tuple[Row, ...] = ()
    questions: tuple[Interaction, ...] = ()
    problem: str = ""
    """Why it could not be looked at. What it told before is kept."""


Look = Callable[[], tuple[Sequence[Row], Sequence[Interaction]]]


class Board:
    """The machine, and a fleet and an inbox if they are named.

    Args:
        config_dir: The CLI's folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        fleet: The URL of a fleet's database.
        inbox: The file of an inbox.
        is_all: Show also the fleet's sessions that are idle, failed or cancelled.
        seconds: How long one look reads transcripts at most.

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
        seconds: float = LOOK_SECONDS,
    ) -> None:
        machine = Machine(config_dir, seconds)
        self.fleet: FleetView | None = FleetView(fleet, is_all=is_all) if fleet else None
        self.inbox: InboxView | None = InboxView(inbox) if inbox else None
        self.config_dir = config_dir
        self.looks: dict[str, Look] = {"machine": lambda: (machine.look(), ())}
        """The parts, by name. Each blocks, and no two calls of one part may overlap."""
        if self.fleet is not None:
            self.looks["fleet"] = self.fleet.look
        if self.inbox is not None:
            self.looks["inbox"] = self.inbox.look
        self.seen: dict[str, Seen] = {name: Seen() for name in self.looks}

    def look_at(self, name: str) -> Seen:
        """Look at one part, and return what it tells. Blocks. If it fails, the others go on, and it is tried again."""
        try:
            rows, questions = self.looks[name]()
        except Exception as error:
            return replace(self.seen[name], problem=one_line(str(error), 200) or type(error).__name__)
        return Seen(tuple(rows), tuple(questions))

    def look(self) -> list[Row]:
        """Look at everything, and return the rows. Blocks."""
        for name in self.looks:
            self.seen[name] = self.look_at(name)
        return self.rows()

    @property
    def problems(self) -> list[str]:
        """What could not be looked at, and why."""
        return [f"{name}: {seen.problem}" for name, seen in self.seen.items() if seen.problem]

    def rows(self) -> list[Row]:
        """Return the rows as they were seen last: what asks for a person is at the session that asks."""
        local = {row.session_id: row for row in self.seen["machine"].rows}
        inbox = self.seen.get("inbox", Seen())
        asked = _by_session(inbox.questions)
        local = {id_: asking(row, asked.pop(id_, ())) for id_, row in local.items()}
        rows = [] if self.fleet is None else [self._fleet_row(self.fleet, local)]
        if self.inbox is not None and (asked or inbox.problem):
            rows.append(inbox_row(self.inbox.name, [one for some in asked.values() for one in some], inbox.problem))
        return [*rows, *in_hosts(local.values())]

    def _fleet_row(self, fleet: FleetView, local: dict[str, Row]) -> Row:
        """Return the fleet with its sessions. Those that run on this machine are taken from there."""
        seen = self.seen["fleet"]
        asked = _by_session(seen.questions)
        children = [
            asking(_joined(row, local.pop(row.session_id, None)), asked.get(row.fleet_id, ())) for row in seen.rows
        ]
        states = Counter(row.state for row in seen.rows)
        about = [f"{count} {state}" for state, count in states.items()] or ["nothing to do"]
        about += [f"only the newest {MOST} of a state are shown"] if MOST in states.values() else []
        count = len(fleet.workers)
        workers = [seen.problem] if seen.problem else ["1 worker" if count == 1 else f"{count} workers"]
        return Row(key="fleet", kind="fleet", title=fleet.name, about=(*workers, *about), children=tuple(children))


def _by_session(questions: Iterable[Interaction]) -> dict[str, list[Interaction]]:
    found: dict[str, list[Interaction]] = {}
    for question in questions:
        found.setdefault(question.session_id or "", []).append(question)
    return found


def _joined(row: Row, local: Row | None) -> Row:
    """Return a session of the fleet with what this machine knows of it."""
    if local is None:
        return row
    more = {"pid": local.pid, "tasks": local.told["tasks"], "host": local.told["host"], "cwd": local.told["cwd"]}
    return replace(
        row,
        spent=local.spent if local.spent.tokens >= row.spent.tokens else row.spent,
        calls=local.calls,
        about=(*row.about, *local.about),
        children=local.children,
        questions=local.questions,
        pid=local.pid,
        path=local.path,
        told={**row.told, **more},
    )


def asking(row: Row, questions: Iterable[Interaction]) -> Row:
    """Return a session's row with its questions, each at the agent that asks."""
    given = list(questions)
    if not given:
        return row
    agents = {one.key.rpartition(":")[2] for one in row.walk() if one.kind == "task"}
    here = tuple(one for one in given if one.agent_id not in agents)
    return replace(
        row,
        questions=(*row.questions, *here),
        children=tuple(_task_asking(child, given) for child in row.children),
    )


def _task_asking(task: Row, questions: list[Interaction]) -> Row:
    own = tuple(one for one in questions if one.agent_id == task.key.rpartition(":")[2])
    children = tuple(_task_asking(child, questions) for child in task.children)
    return replace(task, questions=own, children=children)


def in_hosts(rows: Iterable[Row]) -> list[Row]:
    """Return sessions in the order in which they are, those that one program runs below a row of it: a pool's."""
    every = list(rows)
    counts = Counter(host["pid"] for row in every if (host := row.told["host"]))
    found: dict[str, list[Row]] = {}
    for row in every:
        host = row.told["host"]
        key = f"host:{host['pid']}" if host is not None and counts[host["pid"]] > 1 else row.key
        found.setdefault(key, []).append(row)
    return [some[0] if key == some[0].key else _host_row(key, some) for key, some in found.items()]


def _host_row(key: str, rows: list[Row]) -> Row:
    host = rows[0].told["host"]
    waiting = sum(not row.told["title"] for row in rows)
    about = [f"pid {host['pid']}", f"{len(rows)} sessions", *([f"{waiting} without a prompt yet"] if waiting else [])]
    return Row(key=key, kind="host", title=host["program"] or "a program", about=tuple(about), children=tuple(rows))
