"""`DBOSEngine`: the commands and queries of a fleet, each a transaction on its tables."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from claude_agent_py.fleet._dbos import _audit, _claims, _line, _retention, _rows
from claude_agent_py.fleet._dbos._audit import Command
from claude_agent_py.fleet._dbos._database import Database, server_time
from claude_agent_py.fleet._dbos._metrics import load_metrics
from claude_agent_py.fleet._engine import NewSession
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.fleet.records import (
    FleetAuditEntry,
    FleetEvent,
    FleetOutcome,
    FleetSessionInfo,
    FleetTenantInfo,
    FleetWorkerInfo,
    SessionState,
)
from claude_agent_py.fleet.worker import Worker
from claude_agent_py.permissions.interactions import AnswerSource
from claude_agent_py.sessions import SessionStore
from claude_agent_py.wire.base import JSONObject

METRICS_SECONDS: Final = 3.0
"""Seconds within which the database has to answer a query of metrics."""


class DBOSEngine:
    """Sessions in a database that many machines reach, run by DBOS. See `Engine` for the methods.

    Args:
        url: The URL of the database.
        create: Whether the first call creates missing tables.
    """

    name: str = "PostgreSQL"

    def __init__(self, url: str, *, create: bool) -> None:
        self.database: Final = Database(url, create=create)

    def close(self) -> None:
        self.database.close()

    # Commands to a session -------------------------------------------------------------------------------------------

    async def start(self, new: NewSession, known: Sequence[FleetAgent], by: AnswerSource) -> None:
        def start(connection: Connection) -> None:
            if known:
                _claims.register_agents(connection, server_time(connection), known)
            _rows.start(connection, new)
            _audit.record_prompt(connection, new.id, 1, by)

        await self.database.write(start)

    async def send(self, session: str, prompt: Any, timeout: float | None, key: str, by: AnswerSource) -> int:
        def send(connection: Connection) -> int:
            number = _rows.send(connection, session, prompt, timeout, key)
            _audit.record_prompt(connection, session, number, by)
            return number

        return await self.database.write(send)

    async def answer(self, session: str, interaction: str, reply: JSONObject, by: AnswerSource) -> bool:
        return await self.database.write(_audit.answer, session, interaction, reply, by)

    async def interrupt(self, session: str, by: AnswerSource) -> bool:
        command = Command(action="interrupt", source=by, session=session)
        return await self.database.write(command.run, _rows.interrupt, session)

    async def cancel(self, session: str, reason: str, by: AnswerSource) -> bool:
        command = Command(action="cancel", source=by, session=session, details={"reason": reason})
        return await self.database.write(command.run, _rows.cancel, session, reason)

    async def retry(self, session: str, by: AnswerSource) -> int:
        command = Command(action="retry", source=by, session=session)
        return await self.database.write(command.run, _rows.retry, session)

    # Queries about a session -----------------------------------------------------------------------------------------

    async def info(self, session: str) -> FleetSessionInfo:
        return await self.database.read(_rows.describe_session, session)

    async def outcome(self, session: str, run: int | None) -> FleetOutcome:
        return await self.database.read(_rows.load_outcome, session, run)

    async def events(self, session: str, after: int, limit: int) -> tuple[Sequence[FleetEvent], SessionState]:
        found, info = await self.database.read(_rows.load_events, session, after, limit)
        return found, info.state

    async def questions(self, session: str | None) -> Sequence[Mapping[str, Any]]:
        return await self.database.read(_rows.list_questions, session)

    async def is_settled(self, interaction: str) -> bool:
        return await self.database.read(_claims.find_settled_question, interaction) is not None

    async def check_question(self, session: str, interaction: str) -> None:
        await self.database.read(_rows.check_question, session, interaction)

    # The fleet -------------------------------------------------------------------------------------------------------

    async def list_sessions(
        self, state: SessionState | None, agent: str | None, tenant: str | None, limit: int
    ) -> Sequence[FleetSessionInfo]:
        return await self.database.read(_rows.list_sessions, state, agent, tenant, limit)

    async def count_open_sessions(self) -> int:
        return await self.database.read(_rows.count_open_sessions)

    async def list_workers(self) -> Sequence[FleetWorkerInfo]:
        return await self.database.read(_rows.list_workers)

    async def drain_workers(self, worker: str | None, grace: float | None, by: AnswerSource) -> int:
        command = Command(action="drain", source=by, details={"worker": worker, "grace": grace})
        return await self.database.write(command.run, _rows.drain, worker, grace)

    async def list_tenants(self) -> Sequence[FleetTenantInfo]:
        return await self.database.read(_rows.list_tenants)

    async def set_tenant(self, name: str, limit: int | None, weight: float, by: AnswerSource) -> None:
        command = Command(action="tenant", source=by, details={"tenant": name, "limit": limit, "weight": weight})

        def change(connection: Connection) -> None:
            _line.set_tenant(connection, name, limit, weight)
            command.record(connection)

        await self.database.write(change)

    async def unschedule(self, name: str, by: AnswerSource) -> bool:
        existed = await _retention.unschedule(self.database, name)
        if existed:
            command = Command(action="unschedule", source=by, details={"schedule": name})
            await self.database.write(command.record)
        return existed

    async def prune(self, store: SessionStore | None, seconds: float, by: AnswerSource) -> int:
        command = Command(action="prune", source=by, details={"older_than": seconds})
        pruned = await _retention.prune(self.database, store, seconds)
        await self.database.write(command.record)
        return len(pruned)

    async def prune_events(self, seconds: float, session: str | None, by: AnswerSource) -> int:
        command = Command(action="prune_events", source=by, details={"older_than": seconds})
        return await _retention.prune_events(self.database, seconds, session, command)

    async def load_audit(self, after: int, session: str | None, actor: str | None) -> Sequence[FleetAuditEntry]:
        return await self.database.read(_audit.load_entries, after, session, actor)

    async def load_metrics(self, agent_limits: Mapping[str, int]) -> FleetMetrics:
        times = {"patience": METRICS_SECONDS, "answer_seconds": METRICS_SECONDS}
        return await self.database.read(load_metrics, agent_limits, **times)

    # Workers ---------------------------------------------------------------------------------------------------------

    def make_worker(self, settings: FleetSettings, **given: Any) -> Worker:
        from claude_agent_py.fleet._dbos.worker import DBOSWorker

        return DBOSWorker(self, self.database, settings, **given)
