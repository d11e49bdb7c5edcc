"""`FleetInbox`: questions of a session to a person, stored in the fleet's database.

The process first waits a short time for the answer. Then it ends, and the turn stops at the question. When all
questions of the session are answered, any worker resumes it. The model then repeats the call, and the same question
gets the stored answer.
"""

import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from sqlalchemy import RowMapping

from claude_agent_py._base.errors import FleetError
from claude_agent_py.fleet._dbos import _claims
from claude_agent_py.fleet._dbos._database import Database
from claude_agent_py.fleet._engine import Engine
from claude_agent_py.fleet._interactions import FleetInteraction
from claude_agent_py.permissions import Inbox, Interaction, InteractionOpened, InteractionSettled, PermissionContext
from claude_agent_py.permissions.interactions import AnswerSource, read_stored
from claude_agent_py.permissions.prompts import KINDS, Kind
from claude_agent_py.wire.base import JSONObject, dump


@dataclass(kw_only=True, eq=False)
class FleetInbox(Inbox):
    """The inbox of one claim."""

    engine: Engine
    database: Database
    claim: _claims.Claim
    patience: float
    """Seconds that the process waits for an answer."""
    poll: float
    """Seconds between queries of the database for an answer."""
    end_and_wait: Callable[[str | None], Awaitable[None]]
    """Ends the process because the answer takes longer. Never returns: the end of the process cancels it."""
    is_releasing: Callable[[], bool]
    """Returns whether the process ends because of an open question."""

    def __iter__(self) -> Iterator[Interaction]:
        # The questions are in the database: see `FleetSession.interactions`.
        return iter(())

    def arrivals(self) -> AsyncIterator[Interaction]:
        """Not supported: use `FleetSession.interactions`."""
        raise FleetError("arrivals() is not supported by a fleet: use FleetSession.interactions()")

    async def ask(self, kind: Kind, wire: Any, context: PermissionContext) -> JSONObject:
        """Store the question, wait for the answer, and return the reply to the CLI."""
        row: dict[str, Any] = {
            "id": secrets.token_hex(6),
            "kind": kind,
            "digest": digest_question(kind, wire),
            "request": json.dumps(dump(wire)),
            "agent_id": context.agent_id,
        }
        with context.awaiting_user(row["id"]):
            earlier = await self.database.write(_claims.open_question, self.claim, row)
            if earlier is not None:
                return read_stored(kind, wire, earlier)
            interaction = FleetInteraction(self.engine, {**row, "session": self.claim.id, "created_at": time.time()})
            context.on_interaction(InteractionOpened(interaction))
            settled = InteractionSettled(interaction, was_answered=False)
            found: RowMapping | None = None
            try:
                with anyio.move_on_after(self.patience):
                    found = await self._poll_reply(interaction.id)
                if found is None:
                    await self.end_and_wait(context.tool_use_id)
                elif found["reply"] is not None:
                    source = AnswerSource(found["answered_by"] or "", found["answered_from"] or "")
                    settled = InteractionSettled(interaction, True, read_stored(kind, wire, found["reply"]), source)
            finally:
                context.on_interaction(settled)
                # A question at which the process ends stays open.
                if not self.is_releasing():
                    state = "used" if settled.was_answered else "withdrawn"
                    with anyio.CancelScope(shield=True):
                        await self.database.write(_claims.close_question, interaction.id, state)
        return settled.answer or KINDS[kind].refuse("The question was withdrawn.")

    async def _poll_reply(self, interaction: str) -> RowMapping:
        query = partial(self.database.read, _claims.find_settled_question, interaction)
        while (found := await query()) is None:  # noqa: ASYNC110
            await anyio.sleep(self.poll)
        return found


def digest_question(kind: Kind, wire: Any) -> str:
    """Return a digest of the fields that stay the same when the model repeats the question."""
    request = dump(wire)
    names = ("tool_name", "input", "mcp_server_name", "message", "requested_schema", "url", "dialog_kind", "payload")
    fields = [kind, {name: request[name] for name in names if name in request}]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
