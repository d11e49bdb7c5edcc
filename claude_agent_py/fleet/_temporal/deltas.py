"""`DeltaLog`: what the model writes now, in the session store beside the events.

One log of a session has the deltas that no event has yet. A mark says that events up to a number have all of some of
them, for who reads them now. The log is deleted now and then, and when another call of `run_turn` begins.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, cast
from uuid import UUID, uuid5

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._base.log import logger
from claude_agent_py.durable import Delta
from claude_agent_py.fleet._events import NewDeltas
from claude_agent_py.fleet._temporal.events import EVENTS
from claude_agent_py.fleet.records import FleetDelta
from claude_agent_py.sessions import SessionKey, SessionStore, SessionStoreEntry

EPOCH_BITS: Final = 32
"""Deltas are numbered within a call of `run_turn`, and those of a later one come after them."""

MOST_STORED: Final = 100
"""Beyond this, what is whole is deleted."""


def delta_key(conversation: str) -> SessionKey:
    """Return the key of the deltas of a session."""
    return {"project_key": EVENTS, "session_id": conversation, "subpath": "deltas"}


async def read_deltas(store: SessionStore, session: str, conversation: str, after: int) -> list[FleetDelta]:
    """Return the deltas after a number, of the last call of `run_turn` that has some. Errors of the store propagate."""
    found: list[FleetDelta] = []
    last = 0
    for entry in await store.load(delta_key(conversation)) or ():
        fields = cast("JSONMapping", entry)
        if fields["epoch"] < last:
            continue  # of a worker that was declared dead
        if fields["epoch"] > last:
            found, last = [], fields["epoch"]
        if "whole" in fields:
            whole = {"whole": fields["events"]}
            found = [replace(each, **whole) if each.id in fields["whole"] else each for each in found]
        else:
            kind, part, text = fields["delta"]
            found.append(FleetDelta(session_id=session, number=fields["number"], kind=kind, id=part, text=text))
    return [each for each in found if each.number > after]


class DeltaLog:
    """Writes the deltas of one call of `run_turn`.

    Args:
        store: The session store, which can delete if `begin` is called.
        conversation: The id of the conversation.
        epoch: The number of the call.
    """

    def __init__(self, store: SessionStore, conversation: str, epoch: int) -> None:
        self._store = store
        self._conversation = conversation
        self._epoch = epoch
        self._number = epoch << EPOCH_BITS
        self._stored = 0
        """How many entries the log has."""
        self._open: set[str] = set()
        """The ids of what no event has, of which there are deltas."""
        self._late: list[SessionStoreEntry] = []
        """Entries that could not be written."""

    async def begin(self) -> None:
        """Delete what an earlier process has written. Errors of the store propagate."""
        deleting: Any = self._store
        await deleting.delete(delta_key(self._conversation))
        self._stored = 0

    async def close(self, deltas: NewDeltas, events: int) -> None:
        """Write the last deltas of what the events up to a number have, which are written next. Errors propagate."""
        if deltas.whole & ({each.id for each in deltas.last} | self._open):
            mark = {"whole": sorted(deltas.whole), "events": events}
            await self._append(self._build([*({"delta": list(each)} for each in deltas.last), mark]))
            self._open -= deltas.whole

    async def add(self, deltas: Sequence[Delta]) -> None:
        """Write deltas of what no event has. What cannot be written is written with the next ones."""
        if not deltas:
            return
        entries = self._build([{"delta": list(each)} for each in deltas])
        try:
            if self._stored > MOST_STORED and not self._open and not self._late:
                await self.begin()  # who is behind has the rest from the events
            await self._append(entries)
        except Exception as error:
            self._late = entries
            logger.warning("what the model writes is not shown yet: %s: %s", type(error).__name__, error)
        self._open.update(each.id for each in deltas)

    def _build(self, fields: Sequence[JSONMapping]) -> list[SessionStoreEntry]:
        """Return entries, after those that could not be written. The same ones have the same uuids."""
        first = self._number + len(self._late) + 1
        entries = [{"epoch": self._epoch, "number": number, **each} for number, each in enumerate(fields, first)]
        names = (str(uuid5(UUID(self._conversation), json.dumps(each))) for each in entries)
        named = ({"type": "fleet-delta", "uuid": name, **each} for name, each in zip(names, entries, strict=True))
        return [*self._late, *cast("Iterator[SessionStoreEntry]", named)]

    async def _append(self, entries: list[SessionStoreEntry]) -> None:
        await self._store.append(delta_key(self._conversation), entries)
        self._number += len(entries)
        self._stored += len(entries)
        self._late = []
