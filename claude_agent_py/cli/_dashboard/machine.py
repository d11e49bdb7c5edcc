"""`Machine`: the sessions that processes of the CLI on this machine have open, read from what the CLI keeps on disk."""

import os
import sys
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from claude_agent_py._errors import SessionError
from claude_agent_py._proc import contents
from claude_agent_py.cli._dashboard.rows import Row, Spent, nested
from claude_agent_py.cli._dashboard.tails import Tail
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.sessions.folders import AnyPath, find_session, regular_file
from claude_agent_py.sessions.index import describe_session, list_sessions
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.processes import RunningProcess, RunningSession, running_sessions
from claude_agent_py.sessions.stored_tasks import Launches, StoredTask
from claude_agent_py.sessions.subagent import StoredSubagent, find_agent_files, read_subagent
from claude_agent_py.sessions.usage import CostNote, read_last_cost
from claude_agent_py.tasks.ledger.spending import Counts, Prices, add_counts
from claude_agent_py.transport.processes import ProcessID, Table, process_table

LOOK_SECONDS: Final = 0.5
"""How long one look reads transcripts at most. What is left is read at the next looks."""
PRICED_SESSIONS: Final = 20
"""Of how many earlier sessions the costs are read, for the prices of models."""
MOST_PRICED_BYTES: Final = 10_000_000


class Machine:
    """The sessions of one configuration folder.

    Args:
        config_dir: The folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        seconds: How long a look reads at most.
    """

    def __init__(self, config_dir: AnyPath | None, seconds: float = LOOK_SECONDS) -> None:
        self._config_dir = config_dir
        self._seconds = seconds
        self._known: dict[str, _Watched] = {}
        self._prices: Prices | None = None
        self._first = 0
        """Which session the next look reads first, so that none waits for the others for ever."""

    def look(self) -> list[Row]:
        """Return the sessions, the latest first. Blocks; raises nothing for files that come and go."""
        prices = self._prices = self._prices or _known_prices(self._config_dir)
        running = running_sessions(self._config_dir)
        before, self._known = self._known, {}
        for one in running:
            key = f"session:{one.process.pid}:{one.started_at}:{one.session_id}"
            self._known[key] = before.get(key) or _Watched(key, self._config_dir, prices)
        watched = list(self._known.values())
        self._first = self._first + 1 if self._first + 1 < len(watched) else 0
        deadline = time.monotonic() + self._seconds
        pairs = list(zip(watched, running, strict=True))
        for each, session in (*pairs[self._first :], *pairs[: self._first]):
            each.look(deadline, is_idle=session.process.status == "idle")
        table = process_table([one.process.pid for one in running]) if running else {}
        return [each.row(session, _entry(session, table)) for each, session in pairs]


def _entry(running: RunningSession, table: Table) -> tuple[int, str] | None:
    """Return the parent and the start of a session's process; None if its id may be that of another one."""
    found, started = table.get(running.process.pid), running.process.started
    return found if found is not None and (found[1] == started or sys.platform != "linux") else None


class _Watched:
    """What is known of one session."""

    def __init__(self, key: str, config_dir: AnyPath | None, prices: Prices) -> None:
        self._key = key
        self._config_dir = config_dir
        self._prices = prices
        self._path = self._title = ""
        self._launches = Launches()
        self._tails: dict[str, Tail] = {}
        """By subagent; that of the main agent has no name."""
        self._agents: dict[str, StoredSubagent] = {}
        self._tasks: list[StoredTask] = []
        self._session_id = key.rpartition(":")[2]

    def look(self, deadline: float, *, is_idle: bool) -> None:
        """Read what is new, until the deadline."""
        try:
            if not self._path:
                self._path = find_session(self._session_id, None, self._config_dir)
                self._tails[""] = Tail(self._path, self._launches, on_cost=partial(_learn, self._prices))
        except (SessionError, ValueError):  # nothing was written yet
            return
        has_new = self._tails[""].look(deadline)
        if has_new or self._tasks or not is_idle:
            self._look_at_agents(deadline)
        if has_new:
            try:
                self._title = describe_session(self._path, self._session_id).summary
            except OSError:  # it was removed meanwhile
                return

    def _look_at_agents(self, deadline: float) -> None:
        for path in find_agent_files(self._path.removesuffix(".jsonl")):
            if path not in self._agents:
                agent = self._agents[path] = read_subagent(path, self._session_id)
                self._tails[agent.agent_id] = Tail(path, self._launches, agent.agent_id)
        for agent in self._agents.values():
            self._tails[agent.agent_id].look(deadline)
        found = self._launches.build_tasks(list(self._agents.values()), {}, is_running=True)
        self._tasks = [task for task in found if not task.status.is_terminal]

    def row(self, running: RunningSession, entry: tuple[int, str] | None) -> Row:
        """Return the session's row. `entry` has the parent of its process, and when it started."""
        process = running.process
        main = self._tails.get("")
        return Row(
            key=self._key,
            kind="session",
            title=one_line(self._title) or f"no prompt yet ({running.session_id[:8]})",
            state=process.status or "?",
            since=running.started_at,
            spent=self._spent(self._tails.values(), main.reported if main else None),
            calls=_waits(process, main.calls if main else ""),
            about=(f"pid {process.pid}", one_line(running.cwd)),
            children=nested(
                {task.id: self._task_row(task) for task in self._tasks},
                {task.id: task.parent_id for task in self._tasks},
            ),
            process=ProcessID(process.pid, entry[1]) if entry else None,
            pid=process.pid,
            session_id=running.session_id,
            path=self._path,
            told={
                "kind": "session",
                "session_id": running.session_id,
                "title": self._title,
                "pid": process.pid,
                "host": _host(entry[0]) if entry else None,
                "status": process.status,
                "cwd": running.cwd,
                "started_at": running.started_at,
                "tasks": [
                    {"id": task.id, "type": task.type, "description": task.description, "parent_id": task.parent_id}
                    for task in self._tasks
                ],
            },
        )

    def _task_row(self, task: StoredTask) -> Row:
        tail = self._tails.get(task.id)
        kind = (task.subagent.agent_type if task.subagent else None) or task.type
        return Row(
            key=f"{self._key}:{task.id}",
            kind="task",
            title=one_line(f"{task.description} ({kind})"),
            state="running",
            since=task.started_at,
            spent=self._spent([tail]) if tail else Spent(),
            calls=tail.calls if tail else "",
            about=(one_line(task.id),),
            session_id=self._session_id,
            path=tail.path if tail else "",
        )

    def _spent(self, tails: Iterable[Tail], reported: float | None = None) -> Spent:
        by_model: dict[str, Counts] = {}
        is_partial = False
        for tail in tails:
            is_partial |= tail.is_partial
            for model, counts in tail.by_model.items():
                by_model[model] = add_counts(by_model[model], counts) if model in by_model else counts
        derived = self._prices.cost_of(by_model)
        is_derived = derived is not None and derived > (reported or 0)
        tokens = int(sum(map(sum, by_model.values())))
        return Spent(tokens, derived if is_derived else reported, is_derived, is_partial)


def _waits(process: RunningProcess, calls: str) -> str:
    """Return what a process waits for: what it says itself, and its tool calls."""
    told = [one_line(process.waiting_for)] if process.waiting_for else []
    return ": ".join([*told, calls] if calls and process.status != "idle" else told)


# Prices -----------------------------------------------------------------------------------------------------------


def _known_prices(config_dir: AnyPath | None) -> Prices:
    """Return the prices that the CLI's own sums of the latest sessions imply."""
    prices = Prices()
    for info in list_sessions(limit=PRICED_SESSIONS, config_dir=config_dir):
        if info.cost_usd and info.file_size <= MOST_PRICED_BYTES and regular_file(info.path) is not None:
            try:
                _learn(prices, read_last_cost(Snapshot(info.path, info.file_size)))
            except OSError:  # it was removed meanwhile
                continue
    return prices


def _learn(prices: Prices, note: CostNote) -> None:
    if not note.has_unknown_model_cost:
        prices.derive(note.model_usage)


# Hosts ------------------------------------------------------------------------------------------------------------


def _host(pid: int) -> Mapping[str, object] | None:
    """Return a program that runs processes of the CLI; None if it is in another container."""
    if pid < 1:
        return None
    words = [word.decode(errors="replace") for word in contents(f"/proc/{pid}/cmdline").split(b"\0") if word]
    return {"pid": pid, "program": program_name(words)}


def program_name(words: list[str]) -> str:
    """Return a short name of a program, without arguments that may be secret: `python serve.py`."""
    if not words:
        return ""
    name = os.path.basename(words[0]) or words[0]
    if not name.startswith("python"):
        return one_line(name, 40)
    options = words[1:]
    while options and options[0].startswith("-") and options[0] not in ("-m", "-c", "-"):
        options = options[1:]
    if options[:1] == ["-m"]:
        return one_line(f"{name} -m {' '.join(options[1:2])}", 40)
    script = options[0] if options and options[0] not in ("-c", "-") else " ".join(options[:1])
    return one_line(f"{name} {os.path.basename(script)}", 40)
