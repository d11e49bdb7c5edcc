"""`Recorder`: writes what happens in a session to the fleet's database, in batches, numbered there."""

import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from uuid import uuid4

import anyio

from claude_agent_py._errors import ClaudeAgentError, FleetError
from claude_agent_py.fleet import _claims
from claude_agent_py.fleet._database import Database
from claude_agent_py.tasks.events import TaskEvent, TaskStarted
from claude_agent_py.wire.messages.stream import StreamEventMessage

logger: logging.Logger = logging.getLogger("claude_agent_py")

FLUSH_SECONDS: Final = 0.2
"""How long events wait for others."""
MOST: Final = 200
"""How many events one transaction writes at most."""

Entry = tuple[str, float, Mapping[str, Any]]


class Recorder:
    """Records the events of one claim."""

    def __init__(self, database: Database, claim: _claims.Claim) -> None:
        self._database = database
        self._claim = claim
        self._waiting: list[Entry] = []
        self._batch = str(uuid4())
        """Names what is written next, so that it is written once, however often it is tried."""
        self._lock = anyio.Lock()
        self._is_over = anyio.Event()

    async def follow(self, events: AsyncIterator[Any]) -> None:
        """Take the events of a client until it is closed."""
        try:
            async for event in events:
                entry = entry_of(event)
                if entry is not None:
                    self._waiting.append(entry)
        except ClaudeAgentError:
            pass  # the run tells
        finally:
            self._is_over.set()

    async def run(self) -> None:
        """Write what waits, from time to time, until `follow` has ended. Raises LostError."""
        while not self._is_over.is_set():
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._is_over.wait()
            try:
                await self.flush()
            except FleetError as error:
                logger.warning("events of session %s wait: %s", self._claim.id, error)

    async def flush(self) -> None:
        """Write what waits. Raises LostError."""
        async with self._lock:
            while self._waiting:
                batch = self._waiting[:MOST]
                await self._database.call(_claims.write_events, self._claim, self._batch, batch)
                del self._waiting[: len(batch)]
                self._batch = str(uuid4())


def entry_of(event: Any) -> Entry | None:
    """Return the event for the database, or None for one that is not kept: deltas of partial messages."""
    if isinstance(event, TaskEvent):
        told = {"event": event.kind, "task_id": event.task_id, "run_id": event.run_id, "author": event.author}
        if isinstance(event, TaskStarted):
            told |= {"description": event.description, "type": event.type, "parent_id": event.parent_id}
        return "task", event.at, told
    raw = getattr(event, "raw", None)
    if isinstance(event, StreamEventMessage) or not isinstance(raw, Mapping):
        return None
    return "message", time.time(), dict(raw)
