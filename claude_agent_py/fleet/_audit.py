"""The audit log: who gave which command. Each row is written in the transaction of its command, and never changed."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, select
from sqlalchemy.dialects import postgresql, sqlite

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.fleet import _rows
from claude_agent_py.fleet._database import Database, server_time
from claude_agent_py.fleet._tables import audit
from claude_agent_py.fleet.records import FleetAuditEntry
from claude_agent_py.permissions.interactions import AnswerSource

T = TypeVar("T")

MAX_ACTOR_CHARS: Final = 200
MAX_ENTRIES: Final = 500
"""How many entries one query returns."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to record. `run` may be called again if a connection breaks; it records one row."""

    action: str
    actor: str
    session: str | None = None
    details: Mapping[str, object] = field(default_factory=dict[str, object])
    key: str = field(default_factory=lambda: uuid4().hex)

    def run(self, connection: Connection, work: Callable[..., T], *args: object) -> T:
        """Do the work, and record it if it returns something true."""
        result = work(connection, *args)
        if result:
            self.record(connection)
        return result

    def record(self, connection: Connection, **details: object) -> None:
        """Record the command, unless a command with this key was recorded."""
        make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        source = AnswerSource.here(self.actor)
        row = {
            "key": self.key,
            "at": server_time(connection),
            "actor": source.by,
            "origin": source.origin,
            "action": self.action,
            "session": self.session,
            "details": json.dumps({**self.details, **details}),
        }
        connection.execute(make(audit).values(row).on_conflict_do_nothing(index_elements=[audit.c.key]))


def check_actor(actor: object) -> str:
    """Return the actor. Raises OptionsError unless it is a short text."""
    if not isinstance(actor, str) or len(actor) > MAX_ACTOR_CHARS or "\0" in actor:
        raise OptionsError(f"must be text of at most {MAX_ACTOR_CHARS} characters", option="actor")
    return actor


def record_prompt(connection: Connection, session: str, number: int, actor: str) -> None:
    """Record who sent a prompt. The first one starts the session. A prompt that exists is not recorded again."""
    action = "send" if number > 1 else "start"
    command = Command(action=action, actor=actor, session=session, key=f"prompt:{session}:{number}")
    command.record(connection, run=number)


def answer(connection: Connection, session: str | None, interaction: str, reply: str, source: AnswerSource) -> bool:
    """Record an answer. Return whether it is the first one."""
    command = Command(action="answer", actor=source.by, session=session, key=f"answer:{interaction}")
    is_first = _rows.answer(connection, interaction, reply, source.by, source.origin)
    if is_first:
        command.record(connection, id=interaction)
    return is_first


async def iterate(
    database: Database, after: int, session: str | None, actor: str | None
) -> AsyncIterator[FleetAuditEntry]:
    """Yield the entries after a number, oldest first."""
    while found := await database.read(_load_entries, after, session, actor):
        for entry in found:
            yield entry
        after = found[-1].number


def _load_entries(connection: Connection, after: int, session: str | None, actor: str | None) -> list[FleetAuditEntry]:
    """Return the entries after a number, oldest first."""
    query = select(audit).where(audit.c.number > after).order_by(audit.c.number).limit(MAX_ENTRIES)
    for column, value in ((audit.c.session, session), (audit.c.actor, actor)):
        if value is not None:
            query = query.where(column == value)
    return [_build_entry(row) for row in connection.execute(query).mappings()]


def _build_entry(row: RowMapping) -> FleetAuditEntry:
    same = {name: row[name] for name in ("number", "at", "actor", "origin", "action")}
    return FleetAuditEntry(**same, session_id=row["session"], details=json.loads(row["details"]))
