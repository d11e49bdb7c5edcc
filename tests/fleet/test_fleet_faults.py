"""What goes wrong between a worker, its engine and its stores: no session hangs, and none is settled too early."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from fleets import PATIENCE, FleetSetUp, clis, events_of, execute, fleet_in, fleet_url as fleet_url, until, until_state
from temporal_server import (
    SharedServer,
    TemporalServer,
    stoppable_temporal as stoppable_temporal,
    temporal_server as temporal_server,
)

from claude_agent_py import ClientOptions, RetryPolicy
from claude_agent_py.errors import FleetError, StoreError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import FakeCLI, ScriptedModel, steps

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class ClosedStore(MemoryStore):
    """Takes nothing until it is opened."""

    is_open = False
    refused = 0

    async def append(self, *args: Any, **more: Any) -> None:
        if not self.is_open:
            self.refused += 1
            raise StoreError("closed")
        await super().append(*args, **more)


@pytest.mark.real_cli
async def test_no_run_is_settled_before_the_store_has_all_of_it(tmp_path: Path) -> None:
    store = ClosedStore()
    with ScriptedModel(lambda request: "answer") as model:
        async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=store, poll=0.1) as fleet:
            fleet.agent("worker", model.options())
            async with fleet.worker(folder=tmp_path / "ws"):
                session = await fleet.start("worker", "task")
                await until_state(session, "running")
                await until(lambda: store.refused and not clis(model), "the process is gone")
                tried = store.refused
                await until(lambda: store.refused > tried, "it is tried again")
                assert (await session.info()).state == "running"
                store.is_open = True
                outcome = await session.result(timeout=PATIENCE)
    stored = await store.load({"project_key": "fleet", "session_id": outcome.cli_session_id}) or []
    assert [entry["type"] for entry in stored if entry["type"] in ("user", "assistant")] == ["user", "assistant"]
    assert (outcome.text, outcome.attempts) == ("answer", 0)


async def orphan_in(made: FleetSetUp, fleet: Fleet) -> FleetSession:
    """Start a session whose worker dies at it. The fleet of this process can answer it."""
    hanging = FakeCLI(steps.wait_for_prompt(), steps.hang())
    answering = FakeCLI(steps.turn("ok")).install(made.folder / "answering")
    first = made.start_worker(options={"env": {}, "cli_path": str(hanging.install(made.folder / "hanging"))})
    fleet.agent("worker", ClientOptions(cli_path=answering))
    session = await fleet.start("worker", "task", id="one")
    await until(lambda: hanging.received_like({"type": "user"}), "its prompt is sent")
    first.kill()
    first.wait()
    return session


async def test_a_dead_worker_is_adopted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel(lambda request: "") as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        session = await orphan_in(made, fleet)
        async with fleet.worker(folder=tmp_path / "ws"):
            assert (await session.result(timeout=PATIENCE)).text == "ok"
        assert "workers are dead, and their sessions are queued again" in caplog.text
        ends = [event.data["state"] for event in await events_of(session) if event.kind == "run"]
        assert ends == ["queued", "running", "done"]


async def test_a_retry_does_not_wait_for_an_hour_by_which_the_clock_was_set_back(
    tmp_path: Path, fleet_url: str
) -> None:
    failing, answering = FakeCLI(steps.wait_for_prompt(), steps.die(1)), FakeCLI(steps.turn("ok"))
    async with Fleet(fleet_url, store=MemoryStore(), lease=0.6, poll=0.1) as fleet:
        program = failing.install(tmp_path / "cli")
        fleet.agent("worker", ClientOptions(cli_path=program), retry=RetryPolicy(wait=300.0))
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("worker", "task")

            async def waits() -> bool:
                return (await session.info()).not_before > 0

            await until(waits, "it waits for its next attempt")
            answering.install(tmp_path / "answering").replace(program)
            execute(fleet, "UPDATE fleet_sessions SET queued_at = queued_at + 3600, not_before = not_before + 3600")
            assert (await session.result(timeout=PATIENCE)).text == "ok"


DIES_AT_ITS_SCHEDULE = """
import os, sys, anyio
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.fleet._local import _schedules
from claude_agent_py.sessions import MemoryStore
_schedules.start = lambda *given: os._exit(9)
async def main():
    fleet = Fleet(sys.argv[1], store=MemoryStore(), lease=1.0)
    fleet.agent("one", ClientOptions(cli_path=sys.argv[2]))
    fleet.schedule("tick", "* * * * * *", "one", "hi")
    async with fleet.worker(folder=sys.argv[3]):
        await fleet.drain_forever()
anyio.run(main)
"""


async def test_a_schedule_whose_worker_dies_before_it_stores_the_session_is_not_lost(
    tmp_path: Path, fleet_url: str
) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    command = [sys.executable, "-c", DIES_AT_ITS_SCHEDULE, fleet_url, str(program), str(tmp_path / "ws")]
    died = await anyio.run_process(command, check=False)
    assert died.returncode == 9, died.stderr.decode()
    async with Fleet(fleet_url, store=MemoryStore(), lease=1.0, poll=0.1) as fleet:
        fleet.agent("one", ClientOptions(cli_path=program))
        assert await fleet.list() == []
        async with fleet.worker(folder=tmp_path / "ws"):
            await until(fleet.list, "it is started")
            info = (await fleet.list())[0]  # the schedule may have fired again before its worker died
            assert info.id.startswith("tick@")
            assert (await fleet.session(info.id).result(timeout=PATIENCE)).text == "ok"


@pytest.mark.parametrize("given", [{}, {"health": 0}])
async def test_a_worker_that_cannot_start_raises_one_error(
    tmp_path: Path, fleet_url: str, given: dict[str, Any]
) -> None:
    async with Fleet(fleet_url, store=MemoryStore()) as fleet:
        fleet.agent("worker")
        await fleet.list()
        execute(fleet, "ALTER TABLE fleet_workers RENAME TO elsewhere")
        with pytest.raises(FleetError, match="no such table: fleet_workers"):
            async with fleet.worker(folder=tmp_path / "ws", **given):
                raise AssertionError("it has started")


async def test_a_worker_does_not_start_while_the_temporal_server_is_away(
    tmp_path: Path, stoppable_temporal: TemporalServer
) -> None:
    async with Fleet(f"temporal://{stoppable_temporal.address}/test-0", store=MemoryStore()) as fleet:
        fleet.agent("worker")
        await fleet.list()  # connects
        stoppable_temporal.kill()
        with pytest.raises(FleetError, match="the Temporal server failed: unavailable") as caught:
            async with fleet.worker(folder=tmp_path / "ws"):
                raise AssertionError("it has started")
        assert caught.value.is_retryable


async def test_a_second_worker_of_one_fleet_on_temporal_is_refused(
    tmp_path: Path, temporal_server: SharedServer
) -> None:
    async with Fleet(temporal_server.new_url(), store=MemoryStore()) as fleet:
        fleet.agent("worker")
        async with fleet.worker(folder=tmp_path / "ws"):
            with pytest.raises(FleetError, match="this process has a worker of this Fleet"):
                async with fleet.worker(folder=tmp_path / "ws"):
                    raise AssertionError("it has started")
