"""`LocalEngine`: the commands and queries of a fleet on one machine, each a transaction on its file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from claude_agent_py.fleet._engine import NewSession
from claude_agent_py.fleet._local import _changes, _queries, _retention, _schedules
from claude_agent_py.fleet._local._file import File
from claude_agent_py.fleet._local.worker import LocalWorker
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
"""Seconds within which the file has to answer a query of metrics."""


class LocalEngine:
    """Sessions in one SQLite file, run by a loop in each worker. See `Engine` for the methods.

    Args:
        path: The file.
        create: Whether the first call creates it.
    """

    name: str = "SQLite"

    def __init__(self, path: Path, *, create: bool) -> None:
        self.file: Final = File(path, create=create)

    def close(self) -> None:
        self.file.close()

    # Commands to a session -------------------------------------------------------------------------------------------

    async def start(self, new: NewSession, known: Sequence[FleetAgent], by: AnswerSource) -> None:
        await self.file.write(_changes.start, new, known, by)

    async def send(self, session: str, prompt: Any, timeout: float | None, key: str, by: AnswerSource) -> int:
        return await self.file.write(_changes.send, session, prompt, timeout, key, by)

    async def answer(self, session: str, interaction: str, reply: JSONObject, by: AnswerSource) -> bool:
        return await self.file.write(_changes.answer, session, interaction, reply, by)

    async def interrupt(self, session: str, by: AnswerSource) -> bool:
        return await self.file.write(_changes.interrupt, session, by)

    async def cancel(self, session: str, reason: str, by: AnswerSource) -> bool:
        return await self.file.write(_changes.cancel, session, reason, by)

    async def retry(self, session: str, by: AnswerSource) -> int:
        return await self.file.write(_changes.retry, session, by)

    # Queries about a session -----------------------------------------------------------------------------------------

    async def info(self, session: str) -> FleetSessionInfo:
        return await self.file.read(_queries.describe_session, session)

    async def outcome(self, session: str, run: int | None) -> FleetOutcome:
        return await self.file.read(_queries.load_outcome, session, run)

    async def events(self, session: str, after: int, limit: int) -> tuple[Sequence[FleetEvent], SessionState]:
        return await self.file.read(_queries.load_events, session, after, limit)

    async def questions(self, session: str | None) -> Sequence[Mapping[str, Any]]:
        return await self.file.read(_queries.list_questions, session)

    async def is_settled(self, interaction: str) -> bool:
        return await self.file.read(_queries.is_settled, interaction)

    async def check_question(self, session: str, interaction: str) -> None:
        await self.file.read(_queries.check_question, session, interaction)

    # The fleet -------------------------------------------------------------------------------------------------------

    async def list_sessions(
        self, state: SessionState | None, agent: str | None, tenant: str | None, limit: int
    ) -> Sequence[FleetSessionInfo]:
        return await self.file.read(_queries.list_sessions, state, agent, tenant, limit)

    async def count_open_sessions(self) -> int:
        return await self.file.read(_queries.count_open_sessions)

    async def list_workers(self) -> Sequence[FleetWorkerInfo]:
        return await self.file.read(_queries.list_workers)

    async def drain_workers(self, worker: str | None, grace: float | None, by: AnswerSource) -> int:
        return await self.file.write(_changes.drain, worker, grace, by)

    async def list_tenants(self) -> Sequence[FleetTenantInfo]:
        return await self.file.read(_queries.list_tenants)

    async def set_tenant(self, name: str, limit: int | None, weight: float, by: AnswerSource) -> None:
        await self.file.write(_changes.set_tenant, name, limit, weight, by)

    async def unschedule(self, name: str, by: AnswerSource) -> bool:
        return await self.file.write(_schedules.unschedule, name, by)

    async def prune(self, store: SessionStore | None, seconds: float, by: AnswerSource) -> int:
        pruned = await _retention.prune(self.file, store, seconds)
        await self.file.write(lambda tx: _changes.record(tx, "prune", by, older_than=seconds))
        return len(pruned)

    async def prune_events(self, seconds: float, session: str | None, by: AnswerSource) -> int:
        return await _retention.prune_events(self.file, seconds, session, by)

    async def load_audit(self, after: int, session: str | None, actor: str | None) -> Sequence[FleetAuditEntry]:
        return await self.file.read(_queries.load_audit, after, session, actor)

    async def load_metrics(self, agent_limits: Mapping[str, int]) -> FleetMetrics:
        return await self.file.read(_queries.load_metrics, agent_limits, patience=METRICS_SECONDS)

    # Workers ---------------------------------------------------------------------------------------------------------

    def make_worker(self, settings: FleetSettings, **given: Any) -> Worker:
        return LocalWorker(self.file, settings, **given)
