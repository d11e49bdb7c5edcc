"""The audit log: who gave which command. Each row is written in the transaction of its command, and never changed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, select
from sqlalchemy.dialects.postgresql import insert

from claude_agent_py.fleet._dbos import _rows
from claude_agent_py.fleet._dbos._database import server_time
from claude_agent_py.fleet._dbos._tables import audit
from claude_agent_py.fleet.records import FleetAuditEntry
from claude_agent_py.permissions.interactions import AnswerSource
from claude_agent_py.wire.base import JSONObject

T = TypeVar("T")

MAX_ENTRIES: Final = 500
"""How many entries one query returns."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to record. `run` may be called again if a connection breaks; it records one row."""

    action: str
    source: AnswerSource
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
        row = {
            "key": self.key,
            "at": server_time(connection),
            "actor": self.source.by,
            "origin": self.source.origin,
            "action": self.action,
            "session": self.session,
            "details": json.dumps({**self.details, **details}),
        }
        connection.execute(insert(audit).values(row).on_conflict_do_nothing(index_elements=[audit.c.key]))


def record_prompt(connection: Connection, session: str, number: int, source: AnswerSource) -> None:
    """Record who sent a prompt. The first one starts the session. A prompt that exists is not recorded again."""
    action = "send" if number > 1 else "start"
    command = Command(action=action, source=source, session=session, key=f"prompt:{session}:{number}")
    command.record(connection, run=number)


def answer(
    connection: Connection, session: str | None, interaction: str, reply: JSONObject, source: AnswerSource
) -> bool:
    """Record an answer. Return whether it is the first one."""
    command = Command(action="answer", source=source, session=session, key=f"answer:{interaction}")
    is_first = _rows.answer(connection, interaction, json.dumps(reply), source.by, source.origin)
    if is_first:
        command.record(connection, id=interaction)
    return is_first


def load_entries(connection: Connection, after: int, session: str | None, actor: str | None) -> list[FleetAuditEntry]:
    """Return the entries after a number, oldest first."""
    query = select(audit).where(audit.c.number > after).order_by(audit.c.number).limit(MAX_ENTRIES)
    for column, value in ((audit.c.session, session), (audit.c.actor, actor)):
        if value is not None:
            query = query.where(column == value)
    return [_build_entry(row) for row in connection.execute(query).mappings()]


def _build_entry(row: RowMapping) -> FleetAuditEntry:
    same = {name: row[name] for name in ("number", "at", "actor", "origin", "action")}
    return FleetAuditEntry(**same, session_id=row["session"], details=json.loads(row["details"]))
