"""The figures of a fleet: from the database, as text for Prometheus, and for OpenTelemetry."""

import json
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from fleets import PATIENCE, execute, fleet_url as fleet_url
from inside import file
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum

from claude_agent_py import ClientOptions
from claude_agent_py.cli import main
from claude_agent_py.fleet import Fleet, FleetMetrics
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import FakeCLI, steps

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def change(fleet: Fleet, session: str, **values: Any) -> None:
    """Change the row of a session."""
    setting = ", ".join(f"{name} = :{name}" for name in values)
    execute(fleet, f"UPDATE fleet_sessions SET {setting} WHERE id = :session", session=session, **values)


async def test_queued_sessions_are_counted_by_what_they_wait_for(fleet_url: str) -> None:
    async with Fleet(fleet_url) as fleet:
        fleet.agent("known", limit=5)
        fleet.agent("unknown")
        empty = await fleet.metrics()
        assert (set(empty.queued.values()), empty.workers, empty.cost_usd) == ({0}, 0, {})
        for name, agent, tenant in (
            ("ready", "known", "small"),
            ("held back", "known", "full"),
            ("runs", "known", "full"),
            ("limited", "known", "small"),
            ("later", "known", "small"),
            ("nobody", "unknown", "small"),
            ("asks", "known", "small"),
            ("dead", "known", "small"),
        ):
            await fleet.start(agent, "hi", id=name, tenant=tenant)
        # As a worker sets it.
        execute(fleet, "UPDATE fleet_meta SET tenant_limit = 1")
        now = time.time()
        for name, slots, expires_at in (("w", 3, now + 1000), ("dead", 7, now - 1000)):
            row = {
                "id": name,
                "machine": "m",
                "pid": 1,
                "slots": slots,
                "memory_used": 0,
                "is_draining": 0,
                "lease": 1000.0,
            }
            row |= {"started_at": now, "expires_at": expires_at}
            values = ", ".join(f":{name}" for name in row)
            execute(fleet, f"INSERT INTO fleet_workers ({', '.join(row)}) VALUES ({values})", **row)
        execute(fleet, "INSERT INTO fleet_abilities VALUES ('w', 'known', '1')")
        change(fleet, "ready", queued_at=now - 500, not_before=now - 90)
        change(fleet, "held back", queued_at=now - 300)
        change(fleet, "runs", state="running")
        change(fleet, "limited", not_before=now + 600, reason="RateLimitedError: the limit is reached")
        change(fleet, "later", not_before=now + 600, reason="ServerError: 500")
        change(fleet, "asks", state="waiting")
        change(fleet, "dead", state="failed")
        found = await fleet.metrics()
        assert found.queued == {"ready": 1, "limit": 1, "rate_limit": 1, "retry": 1, "no_worker": 1}
        assert found.oldest_queued_seconds["ready"] == pytest.approx(90, abs=30)
        assert found.oldest_queued_seconds["limit"] == pytest.approx(300, abs=30)
        assert (found.running, found.waiting, found.failed) == (1, 1, 1)
        assert (found.workers, found.draining_workers, found.slots) == (1, 0, 3)
        await fleet.drain_workers()
        found = await fleet.metrics()
        assert (found.workers, found.draining_workers, found.slots) == (0, 1, 0)
        assert found.queued["ready"] == 0
        assert json.loads(json.dumps(found.to_dict()))["queued"]["no_worker"] == 3


@on_asyncio
async def test_costs_are_added_up_and_outlive_their_sessions(tmp_path: Path, fleet_url: str) -> None:
    spent = {"some-model": {"inputTokens": 1, "outputTokens": 1, "costUSD": 0.25}}
    works = FakeCLI(steps.turn("ok", model_usage_since_last_result=spent)).install(tmp_path / "works")
    async with Fleet(fleet_url, store=SQLiteStore(tmp_path / "store.db"), poll=0.1) as fleet:
        fleet.agent("works", ClientOptions(cli_path=works, cwd=tmp_path))
        async with fleet.worker():
            for tenant in ("acme", "acme", "other"):
                await (await fleet.start("works", "hi", tenant=tenant)).result(timeout=PATIENCE)
        await fleet.prune(0)
        found = await fleet.metrics()
        assert found.cost_usd == {"acme": 0.5, "other": 0.25}
        assert found.runs == {"done": 3, "failed": 0, "interrupted": 0}


async def test_a_command_prints_the_figures(fleet_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with Fleet(fleet_url) as fleet:
        fleet.agent("known")
        await fleet.start("known", "hi", tenant="acme")
    assert await run_command("metrics", "--url", fleet_url) == 0
    printed = capsys.readouterr().out
    assert 'claude_agent_fleet_queued_sessions{reason="no_worker"} 1\n' in printed
    assert 'claude_agent_fleet_oldest_queued_seconds{reason="ready"} 0\n' in printed
    assert "# TYPE claude_agent_fleet_crashes_total counter\nclaude_agent_fleet_crashes_total 0\n" in printed
    for line in printed.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="(\\.|[^"\\])*"\})? [0-9.e+-]+', line), line
    assert await run_command("metrics", "--json", "--url", fleet_url) == 0
    assert json.loads(capsys.readouterr().out)["queued"]["no_worker"] == 1


async def run_command(*arguments: str) -> int:
    return await to_thread.run_sync(main, ["fleet", *arguments])


async def test_opentelemetry_exports_the_figures(fleet_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    async with Fleet(fleet_url) as fleet:
        fleet.agent("known")
        await fleet.start("known", "hi", tenant="acme")
        fleet.observe_metrics(provider)
        data = reader.get_metrics_data()  # in a thread with an event loop that runs
        assert data is not None
        [scope] = data.resource_metrics[0].scope_metrics
        found = {metric.name: metric for metric in scope.metrics}
        queued = json.loads(found["claude_agent.fleet.queued_sessions"].to_json())["data"]["data_points"]
        assert {point["attributes"]["reason"]: point["value"] for point in queued}["no_worker"] == 1
        crashes = found["claude_agent.fleet.crashes"].data
        assert isinstance(crashes, Sum)
        assert crashes.is_monotonic
    provider.shutdown()


async def test_lists_of_20_000_sessions_read_no_whole_table(fleet_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Fleet(fleet_url) as fleet:
        fleet.agent("known")
        await fleet.start("known", "hi", id="first")
        names = columns_of(fleet)
        numbers = "WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each WHERE n < 20000)"
        changed = {
            "id": "'s' || n",
            "state": "CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'idle' END",
            "agent": "'a' || (n % 500)",
            "tenant": "'t' || (n % 500)",
            "created_at": "created_at + n",
        }
        copied = f"SELECT {', '.join(changed.get(name, name) for name in names)} FROM fleet_sessions, each"
        execute(fleet, f"INSERT INTO fleet_sessions ({', '.join(names)}) {numbers} {copied}")
        columns = "id, session, digest, record, state, created_at"
        state = "CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'used' END"
        values = f"'q' || n, 's' || n, '', :record, {state}, n"
        asked = f"INSERT INTO fleet_interactions ({columns}) {numbers} SELECT {values} FROM each"
        request = {"tool_name": "Bash", "input": {}, "tool_use_id": "t1"}
        execute(fleet, asked, record=json.dumps({"kind": "permission", "request": request}))
        execute(fleet, "ANALYZE")
        explain = explaining(fleet, monkeypatch)
        assert [info.id for info in await fleet.list(limit=2)] == ["s20000", "s19999"]
        assert len(await fleet.list(state="failed", limit=10)) == 10
        assert len(await fleet.list(agent="a1", limit=10)) == len(await fleet.list(tenant="t1", limit=10)) == 10
        assert len(await fleet.interactions()) == 20
        assert (await fleet.metrics()).failed == 20
        plans = explain()
        assert len(plans) >= 6
        for statement, plan in plans:
            assert "Seq Scan" not in plan, plan
            assert "Sort" not in plan or "count(" in statement, plan
            assert not re.search(r"SCAN (fleet_(sessions|interactions)|s)$", plan, re.MULTILINE), plan


def columns_of(fleet: Fleet) -> list[str]:
    """Return the columns of the sessions."""
    return [row[1] for row in execute(fleet, "PRAGMA table_info(fleet_sessions)")]


def explaining(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[tuple[str, str]]]:
    """Note the queries of sessions and questions, and return what explains them."""
    seen: list[tuple[str, Any]] = []
    select = file.Transaction.all

    def note_all(self: Any, statement: str, *values: object) -> Any:
        seen.append((statement, values))
        return select(self, statement, *values)

    monkeypatch.setattr(file.Transaction, "all", note_all)

    def explain(statement: str, values: Any) -> str:
        with closing(sqlite3.connect(fleet._engine.path)) as connection:  # type: ignore[attr-defined]
            return "\n".join(row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values))

    def explain_all() -> list[tuple[str, str]]:
        mine = [each for each in seen if "fleet_sessions" in each[0] or "fleet_interactions" in each[0]]
        return [(statement, explain(statement, values)) for statement, values in mine]

    return explain_all


def test_text_for_prometheus_escapes_labels() -> None:
    zero: Any = dict.fromkeys(
        ("running", "waiting", "failed", "workers", "draining_workers", "slots", "crashes", "rate_limits"), 0
    )
    found = FleetMetrics(at=0.0, queued={}, oldest_queued_seconds={}, runs={}, cost_usd={'a\\b"c\nd': 1.5}, **zero)
    assert found.to_prometheus().endswith('claude_agent_fleet_cost_usd_total{tenant="a\\\\b\\"c\\nd"} 1.5\n')
