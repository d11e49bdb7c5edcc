"""`TurnEventLog`: the events of a session, in the session store: a log for each prompt.

A worker that was wrongly declared dead may still write. Each entry has the number of its call of `run_turn`, and
entries after those of a later call do not count. So all readers number the events alike, without gaps.
"""

from collections.abc import Sequence
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
    """The events of one prompt."""

    base: int
    """The number of events before them."""
    events: list[FleetEvent]

    @property
    def end(self) -> int:
        """The number of the last event."""
        return self.base + len(self.events)


async def read_log(store: SessionStore, session: str, conversation: str, run: int) -> Log | None:
    """Return the events of a prompt; None before the first. Errors of the store propagate."""
    base, epoch = 0, 0
    events: list[FleetEvent] = []
    found = await store.load(log_key(conversation, run)) or await store.load(log_key(conversation, run, "last"))
    for entry in found or ():
        fields = cast("JSONMapping", entry)
        if fields["epoch"] < epoch:
            continue
        if not events:
            base = fields["base"]
        epoch, number = fields["epoch"], base + len(events) + 1
        event = {name: fields[name] for name in ("kind", "at", "data")}
        events.append(FleetEvent(session_id=session, number=number, run=run, **event))
    return Log(base, events) if events else None


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


async def prune_logs(store: SessionStore, conversation: str, runs: int, latest: float) -> int:
    """Delete the events of prompts, except each one's last, which has its result. Return how many were deleted.

    The last prompt keeps its events, and so do those that ended after a time.

    Raises:
        FleetError: The store cannot delete.
    """
    if not implements(store, "delete") or not implements(store, "list_subkeys"):
        raise FleetError("the session store cannot delete events")
    deleting: Any = store
    count = 0
    names = await deleting.list_subkeys({"project_key": EVENTS, "session_id": conversation})
    for run in sorted(int(name.removeprefix("run-")) for name in names if name.startswith("run-")):
        entries = await store.load(log_key(conversation, run)) or []
        log = await read_log(store, "", conversation, run)
        if log is None or run >= runs or log.events[-1].at >= latest:
            break
        last = {**entries[-1], "base": log.end - 1}
        await store.append(log_key(conversation, run, "last"), [cast("SessionStoreEntry", last)])
        await deleting.delete(log_key(conversation, run))
        count += len(log.events) - 1
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
        self._base = 0
        self._written = 0

    @property
    def end(self) -> int:
        """The number of the last event that was written."""
        return self._base + self._written

    async def begin(self) -> JSONMapping:
        """Find the number of the last event before this prompt, and return the data of its own last one, or nothing.

        Errors of the store propagate.
        """
        own = await read_log(self._store, "", self._conversation, self._run)
        for run in range(self._run - 1, 0, -1):
            log = await read_log(self._store, "", self._conversation, run)
            if log is not None:
                self._base = log.end
                break
        return {} if own is None else own.events[-1].data

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
        await self._store.append(log_key(self._conversation, self._run), entries)
        self._written += len(events)
