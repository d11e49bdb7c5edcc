"""`TurnEventLog`: the events of a session, in the session store: a log for each prompt that ran.

A worker that was wrongly declared dead may still write. Each entry has the number of its call of `run_turn`, and
entries after those of a later call do not count. So all readers number the events alike, without gaps.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple, cast
from uuid import UUID, uuid5

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.errors import FleetError
from claude_agent_py.fleet._events import NewEvent
from claude_agent_py.fleet.records import FleetEvent
from claude_agent_py.sessions import SessionKey, SessionStore, SessionStoreEntry, implements

EVENTS: Final = "fleet-events"
"""The project key of the logs."""


def log_key(conversation: str, run: int, name: str = "run") -> SessionKey:
    """Return the key of the log of a prompt, or of its `last` event, which stays when the log is deleted."""
    return {"project_key": EVENTS, "session_id": conversation, "subpath": f"{name}-{run}"}


class Log(NamedTuple):
    """The events of one prompt, and of those after it that ended without a log of their own."""

    entries: list[JSONMapping]
    """Those of the events in the store."""
    events: list[FleetEvent]

    @property
    def base(self) -> int:
        """The number of events before them."""
        return self.events[0].number - 1

    @property
    def end(self) -> int:
        """The number of the last event."""
        return self.events[-1].number


async def read_log(store: SessionStore, session: str, conversation: str, run: int) -> Log | None:
    """Return the events of a prompt; None before the first. Errors of the store propagate."""
    entries: list[JSONMapping] = []
    found = await store.load(log_key(conversation, run)) or await store.load(log_key(conversation, run, "last"))
    for entry in found or ():
        fields = cast("JSONMapping", entry)
        if not entries or fields["epoch"] >= entries[-1]["epoch"]:
            entries.append(fields)
    events = [
        FleetEvent(
            session_id=session,
            number=entries[0]["base"] + number,
            run=fields["data"]["run"] if fields["kind"] == "run" else run,
            kind=fields["kind"],
            at=fields["at"],
            data=fields["data"],
        )
        for number, fields in enumerate(entries, 1)
    ]
    return Log(entries, events) if events else None


async def read_last_log(store: SessionStore, session: str, conversation: str, run: int) -> tuple[int, Log | None]:
    """Return the log of a prompt or, without one, the last log before it, and the number of its prompt."""
    for number in range(run, 0, -1):
        log = await read_log(store, session, conversation, number)
        if log is not None:
            return number, log
    return run, None


async def find_end(store: SessionStore, session: str, conversation: str, run: int, last: int) -> JSONMapping:
    """Return the data of the event with which a prompt ended; nothing if there is none. `last` is the last log."""
    _, log = await read_last_log(store, session, conversation, min(run, last))
    ends = [event.data for event in log.events if event.run == run and _is_end(event)] if log is not None else []
    return ends[-1] if ends else {}


def _is_end(event: FleetEvent) -> bool:
    return event.kind == "run" and "result" in event.data


async def read_events(
    store: SessionStore, session: str, conversation: str, runs: int, after: int, limit: int
) -> list[FleetEvent]:
    """Return the events of a session after a number."""
    logs: list[Log] = []
    for run in range(runs, 0, -1):
        log = await read_log(store, session, conversation, run)
        if log is not None:
            logs.append(log)
            if log.base <= after:
                break
    found: list[FleetEvent] = []
    for log in reversed(logs):
        first = (found[-1].number if found else after) + 1
        if log.base >= first:  # deleted
            data = {"first": first, "last": log.base}
            found.append(
                FleetEvent(
                    session_id=session,
                    number=log.base,
                    run=log.events[0].run,
                    kind="pruned",
                    at=log.events[0].at,
                    data=data,
                )
            )
        found += [event for event in log.events if event.number > after]
    return found[:limit]


async def prune_logs(store: SessionStore, conversation: str, latest: float) -> int:
    """Delete the events of prompts, except the ends, which have the results. Return how many were deleted.

    The last log keeps its events, because it may get more, and so do prompts that ended after a time.

    Raises:
        FleetError: The store cannot delete.
    """
    if not implements(store, "delete") or not implements(store, "list_subkeys"):
        raise FleetError("the session store cannot delete events")
    deleting: Any = store
    count = 0
    names = await deleting.list_subkeys({"project_key": EVENTS, "session_id": conversation})
    for run in sorted(int(name.removeprefix("run-")) for name in names if name.startswith("run-"))[:-1]:
        log = await read_log(store, "", conversation, run)
        if log is None or log.events[-1].at >= latest:
            break
        kept = len([*takewhile(_is_end, reversed(log.events))]) or 1
        last = [{**fields, "base": log.end - kept} for fields in log.entries[-kept:]]
        await store.append(log_key(conversation, run, "last"), cast("list[SessionStoreEntry]", last))
        await deleting.delete(log_key(conversation, run))
        count += len(log.events) - kept
    return count


class TurnEventLog:
    """Writes the events of one call of `run_turn`.

    Args:
        store: The session store.
        conversation: The id of the conversation.
        run: The number of the prompt.
        epoch: The number of the call.
    """

    def __init__(self, store: SessionStore, conversation: str, run: int, epoch: int) -> None:
        self._store = store
        self._conversation = conversation
        self._run = run
        self._epoch = epoch
        self._log = run
        """The number of the prompt whose log it writes to."""
        self._base = 0
        self._written = 0

    @property
    def end(self) -> int:
        """The number of the last event that was written."""
        return self._base + self._written

    async def begin(self, *, is_over: bool = False) -> JSONMapping:
        """Find the number of the last event before, and return the data of the last one of this prompt, or nothing.

        Only the last log gets more events: those of a prompt that has ended without a log of its own belong to it, too.
        Errors of the store propagate.
        """
        number, log = await read_last_log(self._store, "", self._conversation, self._run)
        if log is None:
            return {}
        self._base = log.end
        self._log = number if is_over else self._run
        return next((event.data for event in reversed(log.events) if event.run == self._run), {})

    async def write(self, events: Sequence[NewEvent]) -> None:
        """Write events. Errors of the store propagate. A batch that is written twice counts once."""
        entries: list[Any] = [
            {
                "type": "fleet-event",
                "uuid": str(uuid5(UUID(self._conversation), f"{self._run}.{self._epoch}.{number}")),
                "base": self._base,
                "epoch": self._epoch,
                "kind": kind,
                "at": at,
                "data": data,
            }
            for number, (kind, at, data) in enumerate(events, self._written + 1)
        ]
        await self._store.append(log_key(self._conversation, self._log), entries)
        self._written += len(events)
