"""`Recorder`: writes the events of a session to the fleet's database, in batches."""

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
"""Seconds during which events are collected for one batch."""
MAX_BATCH: Final = 200
"""The maximum number of events in one transaction."""

Entry = tuple[str, float, Mapping[str, Any]]


class Recorder:
    """Records the events of one claim."""

    def __init__(self, database: Database, claim: _claims.Claim) -> None:
        self._database = database
        self._claim = claim
        self._pending: list[Entry] = []
        self._batch = str(uuid4())
        """The id of the next batch: a retry does not write it twice."""
        self._lock = anyio.Lock()
        self._ended = anyio.Event()

    async def follow(self, events: AsyncIterator[Any]) -> None:
        """Collect the events of a client until it is closed."""
        try:
            async for event in events:
                entry = build_entry(event)
                if entry is not None:
                    self._pending.append(entry)
        except ClaudeAgentError:
            # The run raises the same error.
            pass
        finally:
            self._ended.set()

    async def run(self) -> None:
        """Write batches of events until `follow` has ended. Raises LostError."""
        while not self._ended.is_set():
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._ended.wait()
            try:
                await self.flush()
            except FleetError as error:
                logger.warning("events of session %s cannot be written yet: %s", self._claim.id, error)

    async def flush(self) -> None:
        """Write the collected events. Raises LostError."""
        async with self._lock:
            while self._pending:
                batch = self._pending[:MAX_BATCH]
                await self._database.call(_claims.write_events, self._claim, self._batch, batch)
                del self._pending[: len(batch)]
                self._batch = str(uuid4())


def build_entry(event: Any) -> Entry | None:
    """Return the database entry of an event, or None if it is not stored, such as deltas of partial messages."""
    if isinstance(event, TaskEvent):
        data = {"event": event.kind, "task_id": event.task_id, "run_id": event.run_id, "author": event.author}
        if isinstance(event, TaskStarted):
            data |= {"description": event.description, "type": event.type, "parent_id": event.parent_id}
        return "task", event.at, data
    raw = getattr(event, "raw", None)
    if isinstance(event, StreamEventMessage) or not isinstance(raw, Mapping):
        return None
    return "message", time.time(), dict(raw)
