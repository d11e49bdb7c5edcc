"""`FleetView`: the sessions of a fleet, read from its database. It never creates the database.

Imported only for a fleet, because SQLAlchemy takes time to load.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import anyio

from claude_agent_py.cli._dashboard.rows import MAX_SESSIONS, Row, Spent, nest_tasks
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.fleet import Fleet, FleetEvent, FleetOutcome, FleetSessionInfo, FleetWorkerInfo, _rows
from claude_agent_py.fleet._inbox import FleetInteraction
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages.usage import TOKEN_FIELDS

LIVE: Final = ("running", "waiting", "queued")
MAX_EVENTS: Final = 500
"""The maximum number of events in one query."""
MAX_READS: Final = 300
"""The maximum number of runs read in one refresh. The next refreshes read the rest."""

T = TypeVar("T")


class FleetView:
    """The sessions of a fleet.

    Args:
        fleet: The fleet.
        is_all: Whether to include idle, failed and cancelled sessions.
    """

    def __init__(self, fleet: Fleet, *, is_all: bool = False) -> None:
        self.fleet = fleet
        self.name: str = self.fleet.database.engine.url.set(query={}).render_as_string()
        self._states: tuple[str | None, ...] = (None,) if is_all else LIVE
        self._outcomes: dict[tuple[str, int], FleetOutcome] = {}
        """The outcomes of finished runs, by the CLI's session id and the number of the run. Fleet ids may be reused."""
        self._reads = 0
        self._tasks: dict[str, _Tasks] = {}
        self.workers: Sequence[FleetWorkerInfo] = ()

    def refresh(self) -> tuple[list[Row], Sequence[Interaction]]:
        """Return the sessions and their questions. Blocks.

        Raises:
            FleetError: The database does not respond.
        """
        return anyio.run(self._refresh)

    async def _refresh(self) -> tuple[list[Row], Sequence[Interaction]]:
        self._reads = 0
        found: dict[str, FleetSessionInfo] = {}  # a session that changes its state meanwhile is found twice
        for state in self._states:
            found |= {info.id: info for info in await self._query(_rows.list_sessions, state, None, None, MAX_SESSIONS)}
        infos = sorted(found.values(), key=lambda info: -info.created_at)
        questions = await self._query(_rows.list_questions, None)
        self.workers = await self._query(_rows.list_workers)
        by_session = {info.cli_session_id: info for info in infos}
        self._outcomes = {key: outcome for key, outcome in self._outcomes.items() if key[0] in by_session}
        running = {session_id: info for session_id, info in by_session.items() if info.state == "running"}
        self._tasks = {session_id: self._tasks.get(session_id) or _Tasks() for session_id in running}
        for session_id, tasks in self._tasks.items():
            await self._read_task_events(running[session_id], tasks)
        rows = [self._build_row(info, await self._load_spent(info)) for info in infos]
        return rows, [FleetInteraction(self.fleet.database, row) for row in questions]

    async def _read_task_events(self, info: FleetSessionInfo, tasks: "_Tasks") -> None:
        while tasks.after < info.events:
            events = await self._query(_rows.load_task_events, info.id, tasks.after, MAX_EVENTS)
            for event in events:
                tasks.apply(event)
            if len(events) < MAX_EVENTS:
                tasks.after = max(tasks.after, info.events)

    async def _query(self, work: Callable[..., T], *args: object) -> T:
        return await self.fleet.database.read(work, *args, patience=0.0)

    async def _load_spent(self, info: FleetSessionInfo) -> Spent:
        """Return the tokens and the cost of the finished runs."""
        outcomes: list[FleetOutcome] = []
        for number in range(1, info.runs + 1):
            outcome = self._outcomes.get((info.cli_session_id, number))
            if outcome is None:
                self._reads += 1
                if self._reads > MAX_READS:
                    return _sum_outcomes(outcomes, is_partial=True)
                outcome = await self._query(_rows.load_outcome, info.id, number)
            # A failed run may be retried, so its outcome can still change.
            if outcome.state in ("done", "cancelled"):
                self._outcomes[info.cli_session_id, number] = outcome
            outcomes.append(outcome)
        return _sum_outcomes(outcomes)

    async def _load_messages(self, session_id: str, last: int | None) -> list[object]:
        info = await self._query(_rows.load_info, session_id)
        after = 0 if last is None else max(0, info.events - last)
        messages: list[object] = []
        while after < info.events:
            events, _ = await self._query(_rows.load_events, session_id, after, MAX_EVENTS)
            if not events:
                break
            after = events[-1].number
            frames = [json.dumps(event.data).encode() for event in events if event.kind == "message"]
            messages += [decode(frame, report=False) for frame in frames]
        return messages

    def _build_row(self, info: FleetSessionInfo, spent: Spent) -> Row:
        about = []
        if info.worker:
            about.append(f"on {info.worker}")
        if info.reason:
            about.append(info.reason)
        row = Row(
            key=f"fleet:{info.id}",
            kind="fleet_session",
            title=one_line(f"{info.id} ({info.agent})"),
            state=info.state,
            since=info.created_at,
            spent=spent,
            about=tuple(one_line(fact) for fact in about),
            session_id=info.cli_session_id,
            fleet_id=info.id,
            load_messages=lambda last: anyio.run(self._load_messages, info.id, last),
            cancel=lambda: anyio.run(self.fleet.session(info.id).cancel, "cancelled from the dashboard"),
            facts={"kind": "fleet", **info.to_dict(), "tasks": []},
        )
        tasks = self._tasks.get(info.cli_session_id)
        return row if tasks is None else replace(row, children=tasks.rows(row))


class _Tasks:
    """The running tasks of a session, tracked from its events."""

    def __init__(self) -> None:
        self.after = 0
        """The number of the last applied event."""
        self.running: dict[str, FleetEvent] = {}
        """The `started` event of each task, by task id."""

    def apply(self, event: FleetEvent) -> None:
        self.after = event.number
        if event.kind == "state":
            # The session may run in another process now, which reports its own tasks.
            self.running.clear()
        elif event.data.get("event") == "started":
            self.running[str(event.data.get("task_id"))] = event
        elif event.data.get("event") == "finished":
            self.running.pop(str(event.data.get("task_id")), None)

    def rows(self, session: Row) -> tuple[Row, ...]:
        """Return the rows of the tasks, below the row of the session."""
        tasks = {
            task_id: Row(
                key=f"{session.key}:{task_id}",
                kind="task",
                title=one_line(f"{event.data.get('description') or ''} ({event.data.get('type')})"),
                state="running",
                since=event.at,
                about=(one_line(task_id),),
                fleet_id=session.fleet_id,
                load_messages=session.load_messages,
            )
            for task_id, event in self.running.items()
        }
        return nest_tasks(tasks, {task_id: event.data.get("parent_id") for task_id, event in self.running.items()})


def _sum_outcomes(outcomes: Sequence[FleetOutcome], *, is_partial: bool = False) -> Spent:
    cost = sum(outcome.cost_usd for outcome in outcomes)
    return Spent(sum(map(_count_tokens, outcomes)), cost or None, is_partial=is_partial)


def _count_tokens(outcome: FleetOutcome) -> int:
    usage = outcome.usage or {}
    counts = [usage.get(name) for name in TOKEN_FIELDS]
    return sum(count for count in counts if isinstance(count, int))
