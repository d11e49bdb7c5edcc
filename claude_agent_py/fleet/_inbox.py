"""`FleetInbox`: questions of a session to a person, which wait in the fleet's database.

A question waits for a moment with its process. Then the process is given back: the turn ends at the question, and when
all of the session's questions are answered, any worker goes on with it. The model then makes the call again, and the
same question finds its answer.
"""

import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
from sqlalchemy import RowMapping

from claude_agent_py._errors import FleetError
from claude_agent_py.fleet import _claims, _rows
from claude_agent_py.fleet._database import Database
from claude_agent_py.permissions.interactions import (
    AnswerSource,
    Inbox,
    Interaction,
    InteractionOpened,
    InteractionSettled,
    read_stored,
)
from claude_agent_py.permissions.prompts import KINDS, Kind
from claude_agent_py.permissions.requests import PermissionContext
from claude_agent_py.wire.base import JSONObject, dump
from claude_agent_py.wire.fitting import fit


class FleetInteraction(Interaction):
    """A question of a session of a fleet. `await interaction.answer(value)` answers it, from any process."""

    def __init__(self, database: Database, row: Mapping[str, Any]) -> None:
        kind: Kind = row["kind"]
        super().__init__(
            kind,
            fit(KINDS[kind].wire, json.loads(row["request"]))[0],
            id=row["id"],
            created_at=row.get("created_at", 0.0),
            session_id=row["session"],
            agent_id=row["agent_id"],
        )
        self._database = database

    @property
    def done(self) -> bool:
        """Whether it was answered or withdrawn. Reads the database."""
        return self._database.run_once(_claims.answer_of, self.id, write=False) is not None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        told = {"id": self.id, "session_id": self.session_id, "kind": self.kind, "summary": self.summary}
        return {**told, "agent_id": self.agent_id, "created_at": self.created_at, "request": dump(self.wire)}

    async def answer(self, value: Any, *, by: str = "") -> bool:
        """Answer it. Waits for a database that is away."""
        return await self._record(KINDS[self.kind].read(self.wire, value), AnswerSource.here(by))

    async def deny(self, message: str = "", *, by: str = "") -> bool:
        """Refuse it. Waits for a database that is away."""
        return await self._record(KINDS[self.kind].refuse(message), AnswerSource.here(by))

    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        given = (self.id, json.dumps(reply), source.by, source.origin)
        return self._database.run_once(_rows.answer, *given)

    async def _record(self, reply: JSONObject, source: AnswerSource) -> bool:
        given = (self.id, json.dumps(reply), source.by, source.origin)
        return await self._database.call(_rows.answer, *given)


async def open_questions(database: Database, session_id: str | None) -> list[FleetInteraction]:
    """Return the questions that wait for a person, of one session or of all, oldest first."""
    rows = await database.call(_rows.questions, session_id, write=False)
    return [FleetInteraction(database, row) for row in rows]


class FleetInbox(Inbox):
    """The inbox of one claim.

    Args:
        database: The fleet's tables.
        claim: The claim of the session that asks.
        patience: For how many seconds a question waits with its process.
        poll: Seconds between looks for an answer.
        give_back: Ends the process, because a person takes longer. Returns only if it cannot.
        gives_back: Whether the process ends because of a question, which waits on.
    """

    def __init__(
        self,
        database: Database,
        claim: _claims.Claim,
        *,
        patience: float,
        poll: float,
        give_back: Callable[[str | None], Awaitable[None]],
        gives_back: Callable[[], bool],
    ) -> None:
        self._database = database
        self._claim = claim
        self._patience = patience
        self._poll = poll
        self._give_back = give_back
        self._gives_back = gives_back

    def __iter__(self) -> Iterator[Interaction]:
        return iter(())  # they are in the database: `FleetSession.interactions`

    def arrivals(self) -> AsyncIterator[Interaction]:
        """Not for this inbox: `FleetSession.interactions` has the questions."""
        raise FleetError("the questions of a fleet are in FleetSession.interactions()")

    async def ask(self, kind: Kind, wire: Any, context: PermissionContext) -> JSONObject:
        """Wait for an answer, for a moment, and return the reply to the CLI."""
        row: dict[str, Any] = {"id": secrets.token_hex(6), "kind": kind, "digest": digest_of(kind, wire)}
        row |= {"request": json.dumps(dump(wire)), "agent_id": context.agent_id}
        with context.awaiting_user(row["id"]):
            return await self._ask(row, kind, wire, context)

    async def _ask(self, row: dict[str, Any], kind: Kind, wire: Any, context: PermissionContext) -> JSONObject:
        database = self._database
        early = await database.call(_claims.ask, self._claim, row)
        if early is not None:
            return read_stored(kind, wire, early)
        interaction = FleetInteraction(database, {**row, "session": self._claim.id})
        context.on_interaction(InteractionOpened(interaction))
        try:
            settled = await self._settled(row["id"], context)
        except BaseException:
            if not self._gives_back():  # the CLI, or the end of the session, withdraws it
                with anyio.CancelScope(shield=True):
                    await database.call(_claims.close_question, row["id"], "withdrawn")
            raise
        reply = settled["reply"]
        source = AnswerSource(settled["answered_by"] or "", settled["answered_from"] or "")
        context.on_interaction(InteractionSettled(interaction, reply is not None, json.loads(reply or "null"), source))
        if reply is None:
            return KINDS[kind].refuse("The question was withdrawn.")
        await database.call(_claims.close_question, row["id"], "used")
        return read_stored(kind, wire, reply)

    async def _settled(self, interaction: str, context: PermissionContext) -> RowMapping:
        with anyio.move_on_after(self._patience):
            return await self._answered(interaction)
        await self._give_back(context.tool_use_id)
        return await self._answered(interaction)

    async def _answered(self, interaction: str) -> RowMapping:
        look = partial(self._database.call, _claims.answer_of, interaction, write=False)
        while (found := await look()) is None:  # noqa: ASYNC110
            await anyio.sleep(self._poll)
        return found


def digest_of(kind: Kind, wire: Any) -> str:
    """Return the digest of what is asked, without what differs when it is asked again."""
    asked = dump(wire)
    names = ("tool_name", "input", "mcp_server_name", "message", "requested_schema", "url", "dialog_kind", "payload")
    essence = [kind, {name: asked[name] for name in names if name in asked}]
    return hashlib.sha256(json.dumps(essence, sort_keys=True).encode()).hexdigest()
