"""`LocalEngine`: the commands and queries of a fleet on one machine, each a transaction on its file."""

from collections.abc import Callable, Mapping
from types import CoroutineType
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

from claude_agent_py.fleet import _local
from claude_agent_py.fleet._local import _changes, _queries, _retention, _rows, _schedules
from claude_agent_py.fleet._local._file import FleetFile, Transaction
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.permissions import AnswerSource
from claude_agent_py.sessions import SessionStore

T = TypeVar("T")
P = ParamSpec("P")
Work: TypeAlias = Callable[Concatenate[Transaction, P], T]
Call: TypeAlias = "Callable[Concatenate[LocalEngine, P], CoroutineType[Any, Any, T]]"

METRICS_SECONDS: Final = 3.0
"""Seconds within which the file has to answer a query of metrics."""


def _call(how: Callable[..., Any], work: "Work[P, T]") -> "Call[P, T]":
    async def call(self: FleetFile, *args: Any) -> Any:
        return await how(self, work, *args)

    return cast("Call[P, T]", call)


class LocalEngine(FleetFile):
    """Sessions in one SQLite file, run by a loop in each worker. See `FleetEngine` for the methods."""

    name: str = "SQLite"

    start = _call(FleetFile.write, _changes.start)
    send = _call(FleetFile.write, _changes.send)
    answer = _call(FleetFile.write, _changes.answer)
    interrupt = _call(FleetFile.write, _changes.interrupt)
    cancel = _call(FleetFile.write, _changes.cancel)
    retry = _call(FleetFile.write, _changes.retry)

    info = _call(FleetFile.read, _queries.describe_session)
    outcome = _call(FleetFile.read, _queries.load_outcome)
    events = _call(FleetFile.read, _queries.load_events)
    deltas = _call(FleetFile.read, _queries.load_deltas)
    questions = _call(FleetFile.read, _queries.list_questions)
    check_question = _call(FleetFile.read, _queries.check_question)

    list_sessions = _call(FleetFile.read, _queries.list_sessions)
    count_open_sessions = _call(FleetFile.read, _queries.count_open_sessions)
    list_workers = _call(FleetFile.read, _queries.list_workers)
    drain_workers = _call(FleetFile.write, _changes.drain)
    list_tenants = _call(FleetFile.read, _queries.list_tenants)
    set_tenant = _call(FleetFile.write, _changes.set_tenant)
    unschedule = _call(FleetFile.write, _schedules.unschedule)
    load_audit = _call(FleetFile.read, _queries.load_audit)

    async def prune(self, store: SessionStore | None, seconds: float, by: AnswerSource) -> int:
        pruned = await _retention.prune(self, store, seconds)
        await self.write(lambda tx: _rows.record(tx, "prune", by, older_than=seconds))
        return len(pruned)

    async def prune_events(self, seconds: float, session: str | None, by: AnswerSource) -> int:
        return await _retention.prune_events(self, seconds, session, by)

    async def load_metrics(self, agent_limits: Mapping[str, int]) -> FleetMetrics:
        return await self.read(_queries.load_metrics, agent_limits, patience=METRICS_SECONDS)

    def make_worker(self, settings: FleetSettings, **given: Any) -> "_local.LocalWorker":
        return _local.LocalWorker(self, settings, self.load_metrics, **given)
