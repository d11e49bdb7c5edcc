"""`FleetView`: the sessions of a fleet, from its database. It never makes that database."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from claude_agent_py.cli._dashboard.rows import Row, Spent, nested
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages.usage import TOKEN_FIELDS

if TYPE_CHECKING:
    from claude_agent_py.fleet import FleetEvent, FleetOutcome, FleetSessionInfo, FleetWorkerInfo

LIVE: Final = ("running", "waiting", "queued")
MOST: Final = 500
"""How many sessions of a state are shown."""
MOST_READS: Final = 300
"""How many runs one look reads. What is left is read at the next looks."""

T = TypeVar("T")


class FleetView:
    """The sessions of a fleet.

    Args:
        url: The database.
        is_all: Also those that are idle, failed or cancelled.

    Raises:
        OptionsError: The URL is invalid, or the extra `fleet` is not installed.
    """

    def __init__(self, url: str, *, is_all: bool = False) -> None:
        from claude_agent_py.fleet import Fleet

        self.fleet: Fleet = Fleet(url, create=False)
        self.name: str = self.fleet.database.engine.url.set(query={}).render_as_string()
        self._states: tuple[str | None, ...] = (None,) if is_all else LIVE
        self._outcomes: dict[tuple[str, int], FleetOutcome] = {}
        """Those of runs that are over for good, by the CLI's session: the fleet's ids may be used again."""
        self._reads = 0
        self._tasks: dict[str, _Tasks] = {}
        self.workers: Sequence[FleetWorkerInfo] = ()

    def look(self) -> tuple[list[Row], Sequence[Interaction]]:
        """Return the sessions, and what they ask. Blocks; raises FleetError if the database does not answer."""
        return anyio.run(self._look)

    async def _look(self) -> tuple[list[Row], Sequence[Interaction]]:
        from claude_agent_py.fleet import _rows
        from claude_agent_py.fleet._inbox import FleetInteraction

        self._reads = 0
        infos = [
            info for state in self._states for info in await self._ask(_rows.list_sessions, state, None, None, MOST)
        ]
        infos.sort(key=lambda info: -info.created_at)
        asked = await self._ask(_rows.list_questions, None)
        self.workers = await self._ask(_rows.list_workers)
        names = {info.cli_session_id: info for info in infos}
        self._outcomes = {key: one for key, one in self._outcomes.items() if key[0] in names}
        running = {name: info for name, info in names.items() if info.state == "running"}
        self._tasks = {name: self._tasks.get(name) or _Tasks() for name in running}
        for name, tasks in self._tasks.items():
            await self._look_at_tasks(running[name], tasks)
        spent = {info.id: await self._spent(info) for info in infos}
        questions = [FleetInteraction(self.fleet.database, row) for row in asked]
        return [_row(info, spent[info.id], self._tasks.get(info.cli_session_id)) for info in infos], questions

    async def _look_at_tasks(self, info: "FleetSessionInfo", tasks: "_Tasks") -> None:
        from claude_agent_py.fleet import _rows

        while tasks.after < info.events:
            events = await self._ask(_rows.load_task_events, info.id, tasks.after, MOST)
            for event in events:
                tasks.take(event)
            if len(events) < MOST:
                tasks.after = max(tasks.after, info.events)

    async def _ask(self, work: Callable[..., T], *args: Any) -> T:
        return await self.fleet.database.call(work, *args, write=False, patience=0.0)

    async def _spent(self, info: "FleetSessionInfo") -> Spent:
        """Return what the runs that are over used."""
        from claude_agent_py.fleet import _rows

        known: list[FleetOutcome] = []
        for number in range(1, info.runs + 1):
            found = self._outcomes.get((info.cli_session_id, number))
            if found is None:
                self._reads += 1
                if self._reads > MOST_READS:
                    return _sum(known, is_partial=True)
                found = await self._ask(_rows.load_outcome, info.id, number)
            if found.state in ("done", "cancelled"):
                self._outcomes[info.cli_session_id, number] = found
            known.append(found)
        return _sum(known)

    def messages(self, session_id: str, last: int | None = None) -> list[Any]:
        """Return the messages of a session, from its events: all, or those in about as many last events.

        Blocks; raises FleetError.
        """
        return anyio.run(self._messages, session_id, last)

    async def _messages(self, session_id: str, last: int | None) -> list[Any]:
        from claude_agent_py.fleet import _rows

        info = await self._ask(_rows.load_info, session_id)
        after = 0 if last is None else max(0, info.events - last)
        found: list[Any] = []
        while after < info.events:
            events, _ = await self._ask(_rows.load_events, session_id, after, MOST)
            if not events:
                break
            after = events[-1].number
            found += [decode(json.dumps(one.data).encode(), report=False) for one in events if one.kind == "message"]
        return found

    def cancel(self, session_id: str) -> bool:
        """Cancel a session for good; False if it was over. Blocks; raises FleetError."""
        return anyio.run(partial(self.fleet.session(session_id).cancel, "cancelled from the dashboard"))


class _Tasks:
    """The tasks that run in a session, by its events."""

    def __init__(self) -> None:
        self.after = 0
        """The number of the last event."""
        self.running: dict[str, FleetEvent] = {}
        """How each began."""

    def take(self, event: "FleetEvent") -> None:
        """Take the next event."""
        self.after, told = event.number, event.data
        if event.kind == "state":
            self.running.clear()  # another process, which knows its own tasks
        elif told.get("event") == "started":
            self.running[str(told.get("task_id"))] = event
        elif told.get("event") == "finished":
            self.running.pop(str(told.get("task_id")), None)

    def rows(self, session_id: str) -> tuple[Row, ...]:
        """Return the rows of the tasks."""
        tasks = {task_id: _task_row(session_id, task_id, event) for task_id, event in self.running.items()}
        return nested(tasks, {task_id: event.data.get("parent_id") for task_id, event in self.running.items()})


def _task_row(session_id: str, task_id: str, event: "FleetEvent") -> Row:
    return Row(
        key=f"fleet:{session_id}:{task_id}",
        kind="task",
        title=one_line(f"{event.data.get('description') or ''} ({event.data.get('type')})"),
        state="running",
        since=event.at,
        about=(one_line(task_id),),
        fleet_id=session_id,
    )


def _sum(outcomes: "Sequence[FleetOutcome]", *, is_partial: bool = False) -> Spent:
    cost = sum(one.cost_usd for one in outcomes)
    return Spent(sum(map(_tokens, outcomes)), cost or None, is_partial=is_partial)


def _tokens(outcome: "FleetOutcome") -> int:
    used = outcome.usage or {}
    return sum(value for name in TOKEN_FIELDS if isinstance(value := used.get(name), int))


def _row(info: "FleetSessionInfo", spent: Spent, tasks: _Tasks | None) -> Row:
    about = [f"on {info.worker}"] if info.worker else []
    about += [info.reason] if info.reason else []
    return Row(
        key=f"fleet:{info.id}",
        kind="fleet_session",
        title=one_line(f"{info.id} ({info.agent})"),
        state=info.state,
        since=info.created_at,
        spent=spent,
        about=tuple(one_line(fact) for fact in about),
        children=() if tasks is None else tasks.rows(info.id),
        session_id=info.cli_session_id,
        fleet_id=info.id,
        told={"kind": "fleet", **info.to_dict(), "tasks": []},
    )
