"""`Machine`: the sessions that CLI processes on this machine have open, read from the CLI's files."""

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from claude_agent_py._base.bounded_reading import Lines
from claude_agent_py._base.errors import SessionError
from claude_agent_py._base.growing_files import Tail
from claude_agent_py._base.proc import contents
from claude_agent_py._journal.facts import CallStarted
from claude_agent_py._journal.fold import Journal
from claude_agent_py._journal.tasks.spending import Counts, Prices, Spending, add_counts
from claude_agent_py.cli._dashboard.rows import Row, Spent, nest_tasks
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.sessions.entries import stored_frames
from claude_agent_py.sessions.folders import AnyPath, find_session, regular_file
from claude_agent_py.sessions.index import describe_session, list_sessions
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.processes import RunningProcess, RunningSession, running_sessions
from claude_agent_py.sessions.stored_session import CostNote, read_cost, read_last_cost
from claude_agent_py.sessions.stored_tasks import StoredLedger, StoredTask
from claude_agent_py.sessions.transcript import StoredSubagent, find_agent_files, read_subagent
from claude_agent_py.tasks.files.transcript import TranscriptMessage, read_message
from claude_agent_py.transport.processes import ProcessID, Table, process_table
from claude_agent_py.wire.base import SYNTHETIC_MODEL
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage

_MAX_CALLS: Final = 100
_KINDS: Final = (b'"type":"user"', b'"type":"assistant"')
_NOTE: Final = b'{"type":"'


class TranscriptTailer:
    """The transcript of a subagent or of the main agent.

    Args:
        path: The transcript.
        ledger: The tasks found in the transcripts of the session. This transcript adds its own.
        agent_id: The id of the subagent; None for the main agent.
    """

    def __init__(self, path: str, ledger: StoredLedger, agent_id: str | None = None) -> None:
        self.path = path
        self.is_partial = False
        """Whether the last read stopped before the end of the file."""
        self._ledger = ledger
        self._agent_id = agent_id
        self._tail = Tail()
        self._reset()

    def _reset(self) -> None:
        self.cost = CostNote()
        """The last cost that the CLI recorded, or an empty one."""
        self._lines = Lines()
        self._spending = Spending()
        self._journal = Journal()

    @property
    def by_model(self) -> dict[str, Counts]:
        """The tokens by model."""
        return {model: counts for model, counts in self._spending.by_model.items() if model != SYNTHETIC_MODEL}

    @property
    def calls(self) -> str:
        """The tool calls in progress."""
        calls = (fact.call for fact in self._journal.open if isinstance(fact, CallStarted))
        return ", ".join(map(_describe_call, islice(calls, _MAX_CALLS)))

    def read_new(self, deadline: float) -> bool:
        """Read new lines until the deadline on the monotonic clock. Return whether there were any.

        A removed file has no new lines, and the known facts remain.
        """
        has_new = self.is_partial = False
        # The file may be removed, be a link, or belong to another user.
        with contextlib.suppress(OSError):
            while True:
                piece = self._tail.read(self.path)
                if piece.restarted:
                    self._reset()
                for line in self._lines.feed(piece.data):
                    has_new = True
                    self._read_line(line)
                self.is_partial = not piece.is_end
                if piece.is_end or time.monotonic() > deadline:
                    break
        return has_new

    def _read_line(self, line: bytes) -> None:
        if (cost := read_cost(line)) is not None:
            self.cost = cost
        elif is_message(line):
            with contextlib.suppress(ValueError):
                self._read_message(read_message(line)[0])
        self._ledger.read_notifications(line)

    def _read_message(self, message: TranscriptMessage) -> None:
        self._ledger.read(message, self._agent_id)
        if isinstance(message, AssistantMessage):
            self._spending.add_message(message)
        # In its own transcript, each agent is the main one.
        for frame, at, is_sent in stored_frames("", [message.replace(agent_id=None)], ()):
            self._journal.feed(frame, at, sent=is_sent)


def _describe_call(call: ToolUseBlock) -> str:
    argument = call.input.get("file_path") or next(iter(call.input.values()), "")
    return one_line(f"{call.name} {argument}", 40)


def is_message(line: bytes) -> bool:
    """Return whether a line may be a message."""
    # Notes begin with their type, and some contain messages.
    if line.startswith(_NOTE):
        return line.startswith(_KINDS, 1)
    return any(kind in line for kind in _KINDS)


REFRESH_SECONDS: Final = 0.5
"""The time limit for reading transcripts in one refresh. The next refreshes read the rest."""
PRICED_SESSIONS: Final = 20
"""The number of earlier sessions whose costs are read to derive the prices of models."""
MAX_PRICED_BYTES: Final = 10_000_000


class Machine:
    """The sessions of one configuration folder.

    Args:
        config_dir: The folder; by default `CLAUDE_CONFIG_DIR` or `~/.claude`.
        seconds: The time limit for reading transcripts in one refresh.
    """

    def __init__(self, config_dir: AnyPath | None, seconds: float = REFRESH_SECONDS) -> None:
        self._config_dir = config_dir
        self._seconds = seconds
        self._sessions: dict[str, _SessionReader] = {}
        self._prices: Prices | None = None
        self._first = 0
        """The index of the session that the next refresh reads first. It rotates so that each session gets its turn."""

    def refresh(self) -> list[Row]:
        """Return the sessions, latest first. Files may appear and vanish in the meantime. Blocks."""
        if self._prices is None:
            self._prices = _load_prices(self._config_dir)
        running = running_sessions(self._config_dir)
        previous = self._sessions
        self._sessions = {}
        for session in running:
            key = f"session:{session.process.pid}:{session.started_at}:{session.session_id}"
            self._sessions[key] = previous.get(key) or _SessionReader(key, self._config_dir, self._prices)
        readers = list(self._sessions.values())
        self._first = self._first + 1 if self._first + 1 < len(readers) else 0
        deadline = time.monotonic() + self._seconds
        pairs = list(zip(readers, running, strict=True))
        for reader, session in (*pairs[self._first :], *pairs[: self._first]):
            reader.read(deadline, is_idle=session.process.status == "idle")
        table = process_table([session.process.pid for session in running]) if running else {}
        return [reader.row(session, _find_process(session, table)) for reader, session in pairs]


def _find_process(running: RunningSession, table: Table) -> tuple[int, str] | None:
    """Return the parent and the start of a session's process, or None if another process may have its id."""
    found = table.get(running.process.pid)
    if found is None:
        return None
    # The starts are comparable only on Linux.
    if sys.platform == "linux" and found[1] != running.process.started:
        return None
    return found


class _SessionReader:
    """Reads the transcripts of one session."""

    def __init__(self, key: str, config_dir: AnyPath | None, prices: Prices) -> None:
        self._key = key
        self._config_dir = config_dir
        self._prices = prices
        self._path = ""
        self._title = ""
        self._ledger = StoredLedger()
        self._tailers: dict[str, TranscriptTailer] = {}
        """By agent id, which is empty for the main agent."""
        self._agents: dict[str, StoredSubagent] = {}
        self._tasks: list[StoredTask] = []
        self._session_id = key.rpartition(":")[2]

    def read(self, deadline: float, *, is_idle: bool) -> None:
        """Read the new lines of the transcripts, until the deadline."""
        try:
            if not self._path:
                self._path = find_session(self._session_id, None, self._config_dir)
                self._tailers[""] = TranscriptTailer(self._path, self._ledger)
        except (SessionError, ValueError):
            # The CLI has not written a transcript yet.
            return
        main = self._tailers[""]
        has_new = main.read_new(deadline)
        if has_new or self._tasks or not is_idle:
            self._read_agents(deadline)
        if has_new:
            _learn(self._prices, main.cost)
            try:
                self._title = describe_session(self._path, self._session_id).summary
            except OSError:
                # The file has been removed in the meantime.
                return

    def _read_agents(self, deadline: float) -> None:
        for path in find_agent_files(self._path.removesuffix(".jsonl")):
            if path not in self._agents:
                agent = read_subagent(path, self._session_id)
                self._agents[path] = agent
                self._tailers[agent.agent_id] = TranscriptTailer(path, self._ledger, agent.agent_id)
        for agent in self._agents.values():
            self._tailers[agent.agent_id].read_new(deadline)
        self._ledger.add_agents(self._agents.values())
        self._tasks = self._ledger.running

    def row(self, running: RunningSession, entry: tuple[int, str] | None) -> Row:
        """Return the row of the session. `entry` contains the parent and the start of its process."""
        process = running.process
        main = self._tailers.get("")
        return Row(
            key=self._key,
            kind="session",
            title=one_line(self._title) or f"no prompt yet ({running.session_id[:8]})",
            state=process.status or "?",
            since=running.started_at,
            spent=self._sum_spent(self._tailers.values(), main.cost.total_cost_usd if main else None),
            calls=_describe_wait(process, main.calls if main else ""),
            about=(f"pid {process.pid}", one_line(running.cwd)),
            children=nest_tasks(
                {task.id: self._build_task_row(task) for task in self._tasks},
                {task.id: task.parent_id for task in self._tasks},
            ),
            process=ProcessID(process.pid, entry[1]) if entry else None,
            pid=process.pid,
            session_id=running.session_id,
            path=self._path,
            facts={
                "kind": "session",
                "session_id": running.session_id,
                "title": self._title,
                "pid": process.pid,
                "host": _describe_host(entry[0]) if entry else None,
                "status": process.status,
                "cwd": running.cwd,
                "started_at": running.started_at,
                "tasks": [
                    {"id": task.id, "type": task.type, "description": task.description, "parent_id": task.parent_id}
                    for task in self._tasks
                ],
            },
        )

    def _build_task_row(self, task: StoredTask) -> Row:
        tailer = self._tailers.get(task.id)
        kind = (task.subagent.agent_type if task.subagent else None) or task.type
        return Row(
            key=f"{self._key}:{task.id}",
            kind="task",
            title=one_line(f"{task.description} ({kind})"),
            state="running",
            since=task.started_at,
            spent=self._sum_spent([tailer]) if tailer else Spent(),
            calls=tailer.calls if tailer else "",
            about=(one_line(task.id),),
            session_id=self._session_id,
            path=tailer.path if tailer else "",
        )

    def _sum_spent(self, tailers: Iterable[TranscriptTailer], reported: float | None = None) -> Spent:
        """Return the sums of transcripts. The cost is derived if the CLI has not reported one, or a lower one."""
        by_model: dict[str, Counts] = {}
        is_partial = False
        for tailer in tailers:
            is_partial |= tailer.is_partial
            for model, counts in tailer.by_model.items():
                by_model[model] = add_counts(by_model[model], counts) if model in by_model else counts
        derived = self._prices.cost_of(by_model)
        is_derived = derived is not None and derived > (reported or 0)
        tokens = int(sum(map(sum, by_model.values())))
        return Spent(tokens, derived if is_derived else reported, is_derived, is_partial)


def _describe_wait(process: RunningProcess, calls: str) -> str:
    """Return what a process waits for: the reason that it reports, and its tool calls."""
    reason = one_line(process.waiting_for or "")
    return ": ".join(filter(None, [reason, calls if process.status != "idle" else ""]))


# Prices -----------------------------------------------------------------------------------------------------------


def _load_prices(config_dir: AnyPath | None) -> Prices:
    """Return the prices implied by the costs that the CLI recorded for the latest sessions."""
    prices = Prices()
    for info in list_sessions(limit=PRICED_SESSIONS, config_dir=config_dir):
        if info.cost_usd and info.file_size <= MAX_PRICED_BYTES and regular_file(info.path) is not None:
            try:
                _learn(prices, read_last_cost(Snapshot(info.path, info.file_size)))
            except OSError:
                # The file has been removed in the meantime.
                continue
    return prices


def _learn(prices: Prices, note: CostNote) -> None:
    if not note.has_unknown_model_cost:
        prices.derive(note.model_usage)


# Hosts ------------------------------------------------------------------------------------------------------------


def _describe_host(pid: int) -> Mapping[str, object] | None:
    """Return the program that runs a CLI process, or None if it is in another container."""
    # The kernel reports 0 for a parent outside of the container.
    if pid < 1:
        return None
    words = [word.decode(errors="replace") for word in contents(f"/proc/{pid}/cmdline").split(b"\0") if word]
    return {"pid": pid, "program": _shorten_command(words)}


def _shorten_command(words: list[str]) -> str:
    """Return a short name of a program, such as `python serve.py`, without arguments, which may be secret."""
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
