"""What goes wrong between a worker, its engine and its stores: no session hangs, and none is settled too early."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from dbos import DBOS
from fleets import PATIENCE, FleetSetUp, any_url as any_url, clis, events_of, fleet_in, until, until_state
from questions import RecordingContext

from claude_agent_py import ClientOptions
from claude_agent_py.control import CanUseToolRequest
from claude_agent_py.errors import StoreError
from claude_agent_py.fleet import Fleet, FleetAgent, FleetSession, _claims, _fair_queue, _inbox, _rows, _workflows
from claude_agent_py.permissions import InteractionOpened, InteractionSettled
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


async def test_a_workflow_that_does_not_begin_gives_its_session_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resume, resumed = DBOS.resume_workflow_async, list[str]()

    async def resume_elsewhere(name: str, *, queue_name: str) -> Any:
        resumed.append(name)
        return await resume(name, queue_name=f"{queue_name}, to which nobody listens")

    monkeypatch.setattr(DBOS, "resume_workflow_async", resume_elsewhere)
    monkeypatch.setattr(_workflows, "START_SECONDS", 0.5)
    with ScriptedModel(lambda request: "") as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        session = await orphan_in(made, fleet)
        async with fleet.worker(folder=tmp_path / "ws"):
            assert (await session.result(timeout=PATIENCE)).text == "ok"
        assert resumed == [f"{(await session.info()).cli_session_id}:0"]
        assert "session one is returned to the fleet: its workflow did not start" in caplog.text
        ends = [event.data["state"] for event in await events_of(session) if event.kind == "run"]
        assert ends == ["queued", "running", "done"]


async def test_a_worker_that_was_taken_for_dead_adopts_the_sessions_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedModel(lambda request: "") as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        session = await orphan_in(made, fleet)
        async with fleet.worker(folder=tmp_path / "ws") as worker:
            await _workflows.delete_queue(worker.id)  # as another worker does that takes it for dead
            assert (await session.result(timeout=PATIENCE)).text == "ok"
        assert "is returned" not in caplog.text


async def test_a_session_that_a_worker_has_without_knowing_is_freed(tmp_path: Path) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=MemoryStore(), lease=1.0, poll=0.1) as fleet:
        fleet.agent("worker", ClientOptions(cli_path=program))
        async with fleet.worker(machine="here", folder=tmp_path / "ws") as worker:
            database, claimant = fleet.database, _fair_queue.Claimant(worker.id, "here", None)

            def start_and_claim(connection: Any) -> list[_claims.Claim]:
                """Claim a session for the worker, which does not hear of it: the answer of the database was lost."""
                new = _rows.NewSession("one", "worker", "1", "", 0)
                _rows.start(connection, new, "task", None)
                return _claims.claim_sessions(connection, claimant, [FleetAgent(name="worker")], 1)

            assert len(await database.write(start_and_claim)) == 1
            session = fleet.session("one")
            assert (await session.result(timeout=PATIENCE)).text == "ok"
            assert (await session.outcome()).crashes == 0


async def test_a_question_that_the_cli_withdraws_is_settled(tmp_path: Path) -> None:
    events: list[InteractionOpened | InteractionSettled] = []
    context = RecordingContext(request_id="r", events=events)
    wire = CanUseToolRequest(tool_name="Bash", input={"command": "ls"}, tool_use_id="t1")
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}") as fleet:
        fleet.agent("worker")
        session = await fleet.start("worker", "task")
        claimant = _fair_queue.Claimant("worker", "here", None)
        known = [FleetAgent(name="worker")]
        [claim] = await fleet.database.write(_claims.claim_sessions, claimant, known, 1)
        inbox = _inbox.FleetInbox(
            database=fleet.database,
            claim=claim,
            patience=PATIENCE,
            poll=0.1,
            end_and_wait=lambda tool_use_id: anyio.sleep_forever(),
            is_releasing=lambda: False,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(inbox.ask, "permission", wire, context)
            await until(session.interactions, "it asks")
            group.cancel_scope.cancel()
        assert await session.interactions() == []
    opened, settled = events
    assert isinstance(opened, InteractionOpened)
    assert isinstance(settled, InteractionSettled)
    assert (settled.interaction, settled.was_answered) == (opened.interaction, False)


DIES_AT_ITS_SCHEDULE = """
import os, sys, anyio
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet, _rows
from claude_agent_py.sessions import MemoryStore
_rows.start = lambda *given: os._exit(9)
async def main():
    fleet = Fleet(sys.argv[1], store=MemoryStore(), lease=1.0)
    fleet.agent("one", ClientOptions(cli_path=sys.argv[2]))
    fleet.schedule("tick", "* * * * * *", "one", "hi")
    async with fleet.worker(folder=sys.argv[3]):
        await fleet.drain_forever()
anyio.run(main)
"""


async def test_a_schedule_whose_worker_dies_before_it_stores_the_session_is_not_lost(
    tmp_path: Path, any_url: str
) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    command = [sys.executable, "-c", DIES_AT_ITS_SCHEDULE, any_url, str(program), str(tmp_path / "ws")]
    died = await anyio.run_process(command, check=False)
    assert died.returncode == 9, died.stderr.decode()
    async with Fleet(any_url, store=MemoryStore(), lease=1.0, poll=0.1) as fleet:
        fleet.agent("one", ClientOptions(cli_path=program))
        assert await fleet.unschedule("tick")
        assert await fleet.list() == []
        async with fleet.worker(folder=tmp_path / "ws"):
            await until(fleet.list, "it is started")
            info = (await fleet.list())[0]  # the schedule may have fired again before its worker died
            assert info.id.startswith("tick@")
            assert (await fleet.session(info.id).result(timeout=PATIENCE)).text == "ok"
