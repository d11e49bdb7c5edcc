"""`EventLog`: the events of a session, in the session store: a log for each prompt.

A worker that was wrongly declared dead may still write. Each entry has the number of its call of `run_turn`, and
entries after those of a later call do not count. So all readers number the events alike, without gaps.
"""

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast
from uuid import UUID, uuid5

import anyio

from claude_agent_py.fleet.records import FleetEvent
from claude_agent_py.sessions import SessionKey, SessionStore, SessionStoreEntry

PROJECT: Final = "fleet-events"
"""The project key of the logs."""
FLUSH_SECONDS: Final = 0.2
"""Seconds during which events are collected for one batch."""


def log_key(conversation: str, run: int) -> SessionKey:
    """Return the key of the log of a prompt."""
    return {"project_key": PROJECT, "session_id": conversation, "subpath": f"run-{run}"}


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
    for entry in await store.load(log_key(conversation, run)) or ():
        fields = cast("Mapping[str, Any]", entry)
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
    found = [event for log in reversed(logs) for event in log.events if event.number > after]
    return found[:limit]


class EventLog:
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
        self._pending: list[SessionStoreEntry] = []
        self._lock = anyio.Lock()

    async def begin(self) -> None:
        """Find the number of the last event before this prompt. Errors of the store propagate."""
        for run in range(self._run - 1, 0, -1):
            log = await read_log(self._store, "", self._conversation, run)
            if log is not None:
                self._base = log.end
                return

    def add(self, kind: str, data: Mapping[str, Any], at: float | None = None) -> None:
        """Add an event, which `flush` writes."""
        self._written += 1
        entry: dict[str, Any] = {
            "type": "fleet-event",
            # A batch that is written twice counts once.
            "uuid": str(uuid5(UUID(self._conversation), f"{self._run}.{self._epoch}.{self._written}")),
            "base": self._base,
            "epoch": self._epoch,
            "kind": kind,
            "at": time.time() if at is None else at,
            "data": data,
        }
        self._pending.append(entry)  # type: ignore[arg-type]

    async def flush(self) -> None:
        """Write the events. Errors of the store propagate, and the events are kept."""
        async with self._lock:
            while batch := self._pending[:200]:
                await self._store.append(log_key(self._conversation, self._run), batch)
                del self._pending[: len(batch)]
