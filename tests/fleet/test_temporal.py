"""A fleet on Temporal: a real server, workers in processes of their own, and the real CLI."""

import json
import lzma
import signal
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from cancelling import Cancelling, How, cancel_everywhere
from fleets import COST, LEASE, PATIENCE, built, clis, events_of, fleet_in, until, until_state
from inside import workflows
from temporal_server import (
    SharedServer,
    TemporalServer,
    stoppable_temporal as stoppable_temporal,
    temporal_server as temporal_server,
)

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError, FleetRunError, FleetTimeoutError, OptionsError
from claude_agent_py.fleet import Copy, Fleet, FleetSession, Workspace
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import Failure, FakeCLI, Gate, Reply, ScriptedModel, steps, tool_use

STARTED = 2
"""The state of an activity that a worker has."""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def temporal(temporal_server: SharedServer) -> str:
    return temporal_server.new_url()


async def test_a_session_is_a_workflow_that_all_can_read(tmp_path: Path, temporal: str) -> None:
    with (
        ScriptedModel(lambda request: f"answer to {request.last_user_text}") as model,
        fleet_in(tmp_path, model, url=temporal) as made,
    ):
        fleet = made.fleet()
        fleet.agent("reviewer", model.options(), workspace=Copy())
        session = await fleet.start("reviewer", "Review auth", id="pr-17", tenant="acme")  # before any worker lives
        assert (await fleet.start("reviewer", "Review auth", id="pr-17")).id == "pr-17"
        number = await session.send("and billing", key="once")
        assert await session.send("and billing", key="once") == number == 2
        assert (await session.info()).state == "queued"
        unseen = await session.outcome(number)
        assert (unseen.state, await session.outcome()) == ("queued", unseen)
        with pytest.raises(FleetTimeoutError):
            await session.result(timeout=0.1)
        async with fleet.worker(sessions=2, folder=tmp_path / "ws") as worker:
            first, second = await session.result(1, timeout=PATIENCE), await session.result(2, timeout=PATIENCE)
            assert (first.text, first.run) == ("answer to Review auth", 1)
            assert (second.text, second.worker) == ("answer to and billing", worker.id)
            assert second.prompt_uuid == unseen.prompt_uuid != ""
            await until_state(session, "idle")
            assert await session.send("more", key="third") == 3
            assert (await session.result(timeout=PATIENCE)).text == "answer to more"
            workspace = Path((await session.info()).workspace or "")
            assert workspace.is_dir()
            assert await session.cancel("done with it")
            await until_state(session, "cancelled")
            await until(lambda: not workspace.exists(), "the workspace is removed")
            assert not await session.cancel()
        events = await events_of(session)
        assert [event.data["state"] for event in events if event.kind == "run"] == ["running", "done"] * 3
        assert [event async for event in session.events(after=4)] == events[4:]
        with pytest.raises(FleetError, match="was cancelled: done with it"):
            await session.send("again")
        fleet.agent("other", model.options())
        with pytest.raises(OptionsError, match="belongs to the agent 'reviewer'"):
            await fleet.start("other", "x", id="pr-17")
        assert [entry.action async for entry in fleet.audit(session_id="pr-17")] == ["start", "send", "send", "cancel"]

        async def is_listed() -> bool:
            return [each.id for each in await fleet.list(state="cancelled", tenant="acme")] == ["pr-17"]

        await until(is_listed, "the list shows it")
        assert await fleet.list(state="idle") == []
        with pytest.raises(FleetError, match="no session 'nobody'"):
            await fleet.session("nobody").info()


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_other_processes_run_on_trio(tmp_path: Path, temporal: str) -> None:
    with ScriptedModel(lambda request: "hello") as model, fleet_in(tmp_path, model, url=temporal) as made:
        fleet = made.fleet()
        made.start_worker()
        fleet.agent("worker")
        session = await fleet.start("worker", "hi")
        assert (await session.result(timeout=PATIENCE)).text == "hello", made.logs()
        with pytest.raises(FleetError, match="asyncio only"):
            await fleet.worker(folder=tmp_path / "ws").__aenter__()


@pytest.mark.long
async def test_a_turn_continues_after_its_worker_was_killed_although_clocks_are_an_hour_off(
    tmp_path: Path, temporal: str
) -> None:
    effects = tmp_path / "effects"

    def answer(request: Any) -> Any:
        if not request.tool_results:
            return Reply(tool_use("Bash", {"command": f"echo paid >> {effects}; sleep 300", "description": "pay"}))
        return "unknown" if "outcome is unknown" in json.dumps(request.tool_results) else "known"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=temporal) as made:
        fleet = made.fleet()
        first = made.start_worker(clock=3600.0)
        fleet.agent("worker")
        begun = time.time()
        session = await fleet.start("worker", "pay", id="one", timeout=PATIENCE)
        await until(effects.exists, "the command runs")
        first.kill()
        made.start_worker(clock=-3600.0)
        result = await session.result(timeout=PATIENCE)
        assert (result.text, result.crashes) == ("unknown", 1), made.logs()
        assert result.started_at is not None
        assert result.ended_at is not None
        assert begun - 1 < result.started_at < result.ended_at < time.time() + 1
        assert effects.read_text() == "paid\n"
        events = await events_of(session)
        assert [event.data["state"] for event in events if event.kind == "run"] == ["running", "running", "done"]
        await until(lambda: not clis(model), "no process is left")


@pytest.mark.long
async def test_a_question_is_answered_while_no_worker_and_no_server_lived(
    tmp_path: Path, stoppable_temporal: TemporalServer
) -> None:
    with (
        ScriptedModel(built) as model,
        fleet_in(tmp_path, model, url=f"temporal://{stoppable_temporal.address}/test-0") as made,
    ):
        fleet = made.fleet()
        worker = made.start_worker(agent={"patience": 0.2})
        fleet.agent("worker")
        session = await fleet.start("worker", "build", id="one")
        await until_state(session, "waiting")
        await until(lambda: not clis(model), "waiting costs no process")
        worker.kill()
        worker.wait()
        stoppable_temporal.kill()
        stoppable_temporal.restart()
        [question] = await session.interactions()
        with pytest.raises(ValueError, match="Which"):
            await question.answer({"Which": "nothing"})
        assert await question.answer({"Which target?": "release"}, by="Ada")
        made.start_worker(agent={"patience": 0.2})
        result = await session.result(timeout=PATIENCE)
        assert result.text == "built release", made.logs()
        assert len(model.requests) == 3
        assert result.cost_usd == pytest.approx(3 * COST), "with the process before"
        assert await session.interactions() == []
        assert not await question.answer({"Which target?": "debug"})


@pytest.mark.long
async def test_interrupts_and_deadlines_end_a_prompt_and_the_next_follows(tmp_path: Path, temporal: str) -> None:
    gate = Gate()

    def answer(request: Any) -> Any:
        return Reply("late", after=gate) if "slow" in request.last_user_text else "quick"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=temporal) as made:
        fleet = made.fleet()
        made.start_worker()
        fleet.agent("worker")
        session = await fleet.start("worker", "slow", id="one")
        await until(lambda: gate.reached == 1, "the model is asked")
        number = await session.send("quick")
        assert await session.interrupt()
        assert (await session.result(number, timeout=PATIENCE)).text == "quick", made.logs()
        first = await session.outcome(1)
        assert (first.state, first.error) == ("cancelled", "InterruptedRunError")
        late = await session.send("slow again", timeout=3)
        with pytest.raises(FleetRunError, match="RunTimeoutError"):
            await session.result(late, timeout=PATIENCE)
        assert (await session.info()).state == "failed"
        assert not await session.interrupt()
        number = await session.send("quick again")
        assert (await session.result(number, timeout=PATIENCE)).text == "quick", made.logs()
        await until_state(session, "idle")
        gate.open()


@pytest.mark.long
async def test_a_prompt_that_failed_is_sent_again(tmp_path: Path, temporal: str) -> None:
    fails = True
    with (
        ScriptedModel(lambda request: Failure(400) if fails else "better") as model,
        fleet_in(tmp_path, model, url=temporal) as made,
    ):
        fleet = made.fleet()
        made.start_worker()
        fleet.agent("worker")
        session = await fleet.start("worker", "hi")
        with pytest.raises(FleetRunError, match="InvalidRequestError"):
            await session.result(timeout=PATIENCE)
        assert (await session.info()).state == "failed"
        fails = False
        assert await session.retry() == 1
        assert (await session.result(timeout=PATIENCE)).text == "better", made.logs()
        with pytest.raises(FleetError, match="not failed"):
            await session.retry()


@pytest.mark.long
async def test_a_prompt_that_kills_workers_fails_alone(tmp_path: Path, temporal: str) -> None:
    gate = Gate()

    def answer(request: Any) -> Any:
        return Reply("never", after=gate) if "poison" in request.last_user_text else "fine"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=temporal) as made:
        fleet = made.fleet()
        fleet.agent("worker")
        poison = await fleet.start("worker", "poison")
        others: list[FleetSession] = []
        while True:
            worker = made.start_worker(lease=1.0)

            async def runs_it(pid: int = worker.pid) -> bool:
                info = await poison.info()
                return info.state == "failed" or (info.state == "running" and f"-{pid}-" in (info.worker or ""))

            await until(runs_it, "the worker runs it")
            if (await poison.info()).state == "failed":
                break
            crashes = (await poison.outcome()).crashes
            # From the third on, nothing else runs in the worker, so that others are not dragged along.
            others.append(await fleet.start("worker", "innocent"))
            if crashes < 2:
                assert (await others[-1].result(timeout=PATIENCE)).text == "fine"
            else:
                with pytest.raises(FleetTimeoutError):
                    await others[-1].result(timeout=0.5)
            worker.kill()
            worker.wait()
        with pytest.raises(FleetRunError, match="WorkerDied") as caught:
            await poison.result(timeout=PATIENCE)
        assert caught.value.outcome.crashes == 5
        for other in others:
            assert (await other.result(timeout=PATIENCE)).text == "fine", made.logs()
        gate.open()


@pytest.mark.long
async def test_a_prompt_that_waits_to_run_alone_is_cancelled_at_once(tmp_path: Path, temporal: str) -> None:
    gate = Gate()
    with (
        ScriptedModel(lambda _: Reply("never", after=gate)) as model,
        fleet_in(tmp_path, model, url=temporal) as made,
    ):
        fleet = made.fleet()
        fleet.agent("worker")
        poison = await fleet.start("worker", "poison")

        async def runs_in(session: FleetSession, pid: int) -> bool:
            info = await session.info()
            return info.state == "running" and f"-{pid}-" in (info.worker or "")

        async def waits_in_worker() -> bool:
            client = await fleet._engine._server.connect()  # type: ignore[attr-defined]
            found = (await client.get_workflow_handle(poison.id).describe()).raw_description.pending_activities
            return (await poison.outcome()).crashes == 2 and [each.state for each in found] == [STARTED]

        for crashes in (1, 2):
            worker = made.start_worker(lease=1.0, sessions=1)
            await until(partial(runs_in, poison, worker.pid), "the worker runs it")
            if crashes == 2:
                other, last = await fleet.start("worker", "innocent"), made.start_worker(lease=1.0)
                await until(partial(runs_in, other, last.pid), "another worker runs another one")
            worker.kill()
            worker.wait()
        await until(waits_in_worker, "it waits for the other one")
        assert await poison.cancel("enough")
        await until_state(poison, "cancelled")
        assert (await other.info()).state == "running"
        gate.open()


@pytest.mark.long
async def test_limits_hold_whatever_becomes_of_workers_and_sessions(tmp_path: Path, temporal: str) -> None:
    gate = Gate()
    program = FakeCLI(steps.wait_gate(gate), steps.turn("done")).install(tmp_path / "cli")
    with ScriptedModel(lambda request: "") as model, fleet_in(tmp_path, model, url=temporal) as made:
        options = {"env": {}, "cli_path": str(program)}
        given: Any = {"fleet": {"tenant_limit": 9}, "agent": {"limit": 4}, "options": options}
        first = made.start_worker(**given)
        fleet = made.fleet(tenant_limit=9)
        fleet.agent("worker")
        await fleet.tenant("acme", limit=2)
        sessions = [await fleet.start("worker", "hi", id=f"acme-{number}", tenant="acme") for number in range(6)]

        async def list_running(worker: Any) -> set[str]:
            infos = [await session.info() for session in sessions]
            return {info.id for info in infos if info.state == "running" and f"-{worker.pid}-" in (info.worker or "")}

        async def run_two() -> bool:
            return len(await list_running(first)) == 2

        await until(run_two, "two of the tenant run")
        sessions += [await fleet.start("worker", "hi", id=f"other-{number}") for number in range(4)]

        async def run_four() -> bool:
            return len(await list_running(made.processes[-1])) == 4

        await until(run_four, "the agent runs four")
        before = await list_running(first)
        _, acme = await fleet.tenants()
        assert (acme.name, acme.limit) == ("acme", 2)
        first.kill()
        first.wait()
        second = made.start_worker(**given)
        await until(run_four, "four run in the other worker")
        assert await list_running(second) == before
        infos = [await session.info() for session in sessions]
        assert sorted(info.reason or "" for info in infos) == [
            *[""] * 4,
            *["the limit of agent/worker is reached"] * 2,
            *["the limit of tenant/acme is reached"] * 4,
        ]
        lost = next(name for name in before if name.startswith("acme"))
        client = await fleet._engine._server.connect()  # type: ignore[attr-defined]
        await client.get_workflow_handle(lost).terminate()  # by an operator, with its permits
        sessions = [session for session in sessions if session.id != lost]

        async def runs_another() -> bool:
            return bool(await list_running(second) - before)

        await until(runs_another, "another one runs instead")
        waiting = next(info.id for info in infos if info.state == "queued" and info.tenant == "acme")
        assert await fleet.session(waiting).cancel()  # waits for a permit, or runs
        gate.open()
        spans: dict[str, list[tuple[float, float]]] = {"acme": [], "": []}
        for session in sessions:
            if session.id == waiting:
                continue
            outcome = await session.result(timeout=PATIENCE)
            spans["acme" if "acme" in session.id else ""].append((outcome.started_at or 0, outcome.ended_at or 0))
        assert count_most(spans["acme"]) <= 2, made.logs()
        assert count_most([*spans["acme"], *spans[""]]) <= 4


def count_most(spans: list[tuple[float, float]]) -> int:
    """Return how many spans overlap at most."""
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


@pytest.mark.long
async def test_a_worker_that_ends_gives_its_sessions_back(tmp_path: Path, temporal: str) -> None:
    gate = Gate()
    with (
        ScriptedModel(lambda request: Reply("answer", after=gate)) as model,
        fleet_in(tmp_path, model, url=temporal) as made,
    ):
        fleet = made.fleet()
        fleet.agent("worker", ClientOptions(inherit_env=False, env=dict(model.environment())))
        session = await fleet.start("worker", "hi")
        async with fleet.worker(folder=tmp_path / "ws"):
            await until(lambda: gate.reached == 1, "the model is asked")
        assert not clis(model)
        gate.open()
        async with fleet.worker(folder=tmp_path / "ws"):
            result = await session.result(timeout=PATIENCE)
        assert (result.text, result.crashes, result.attempts) == ("answer", 0, 0)


@pytest.mark.long
async def test_a_session_keeps_its_version_and_new_ones_get_the_current(tmp_path: Path, temporal: str) -> None:
    with ScriptedModel(lambda request: "yes") as model, fleet_in(tmp_path, model, url=temporal) as made:
        old = made.start_worker(agent={"version": "1"})
        fleet = made.fleet()
        fleet.agent("worker")
        first = await fleet.start("worker", "one")
        await first.result(timeout=PATIENCE)
        made.start_worker(agent={"version": "2"})

        async def is_current() -> bool:
            session = await fleet.start("worker", "two")
            await session.result(timeout=PATIENCE)
            return (await session.info()).version == "2"

        await until(is_current, "new sessions have version 2")
        old.send_signal(signal.SIGTERM)
        number = await first.send("more")
        await anyio.sleep(0)
        assert (await first.info()).version == "1"
        made.start_worker(agent={"version": "1"})
        assert (await first.result(number, timeout=PATIENCE)).text == "yes", made.logs()


class Refusing(Workspace):
    """A workspace that cannot be prepared."""

    def prepare(self, folder: Path, session_id: str) -> Path:
        raise ValueError("no\0 room")


async def test_a_workspace_that_cannot_be_made_fails_its_prompt(tmp_path: Path, temporal: str) -> None:
    async with Fleet(temporal, store=MemoryStore()) as fleet:
        fleet.agent("one", ClientOptions(), workspace=Refusing())
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("one", "hi")
            with pytest.raises(FleetRunError, match="ValueError"):
                await session.result(timeout=PATIENCE)


@pytest.mark.parametrize("grace", [None, 5.0])
async def test_other_processes_list_workers_and_drain_them(tmp_path: Path, temporal: str, grace: float | None) -> None:
    async with Fleet(temporal, store=MemoryStore(), lease=1) as fleet, Fleet(temporal) as other:
        fleet.agent("one", ClientOptions())
        async with fleet.worker(sessions=3, folder=tmp_path / "ws") as worker:
            # The server's list of who polls may lack one for a moment.
            async def is_listed() -> bool:
                return [(each.id, each.slots) for each in await other.workers()] == [(worker.id, 3)]

            async def is_counted() -> bool:
                metrics = await other.metrics()
                assert (metrics.crashes, metrics.cost_usd) == (None, {})
                assert "crashes" not in metrics.to_prometheus()  # a figure that the server has not
                return (metrics.workers, metrics.slots) == (1, 3)

            async def is_drained() -> bool:
                return await other.drain_workers(worker.id, grace=grace) == 1

            await until(is_listed, "the worker is listed")
            await until(is_counted, "the worker is counted")
            assert await other.drain_workers("nobody") == 0
            await until(is_drained, "the worker is drained")
            with anyio.fail_after(PATIENCE):
                await worker.wait_drained()


async def test_a_worker_that_is_cancelled_ends(tmp_path: Path, temporal: str) -> None:
    async with Fleet(temporal, store=MemoryStore()) as fleet:
        fleet.agent("one", ClientOptions())
        with anyio.CancelScope() as scope:
            async with fleet.worker(folder=tmp_path / "ws"):
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught


@pytest.mark.parametrize("how", ["scope", pytest.param("task twice", marks=pytest.mark.long)])
async def test_a_worker_that_is_cancelled_at_any_moment_of_its_start_ends(
    tmp_path: Path, temporal: str, how: How
) -> None:
    async def work() -> None:
        async with Fleet(temporal, store=MemoryStore(), tenant_limit=1) as fleet:
            fleet.agent("one", ClientOptions())
            async with fleet.worker(folder=tmp_path / "ws"):
                pass

    async def attempt(cancelling: Cancelling) -> None:
        assert await cancelling.run(work) or not cancelling.is_strict

    assert await cancel_everywhere(how, 0, attempt) > 5


@pytest.mark.long
async def test_a_session_lives_on_in_a_new_workflow_run(tmp_path: Path, temporal: str) -> None:
    with ScriptedModel(lambda request: f"re {request.last_user_text}") as model:
        with fleet_in(tmp_path, model, url=temporal) as made:
            made.start_worker()
            fleet = made.fleet()
            fleet.agent("worker")
            session = await fleet.start("worker", "prompt 1", id="long")
            for number in range(2, 6):
                assert await session.send(f"prompt {number}", key=str(number)) == number
            assert (await session.result(5, timeout=PATIENCE)).text == "re prompt 5", made.logs()
            client = await fleet._engine._server.connect()  # type: ignore[attr-defined]
            runs = [run async for run in client.list_workflows("WorkflowId = 'long'")]
            assert len(runs) > 1
            assert await session.send("prompt 3", key="3") == 3
            for number in range(6, 11):
                assert await session.send(f"prompt {number}") == number
            for number in range(11, 14):  # together, they are too long to begin a run with
                assert await session.send("x" * 900_000) == number
            assert (await session.result(10, timeout=PATIENCE)).text == "re prompt 10", made.logs()
            with pytest.raises(OptionsError, match="longer than"):
                await session.send("x" * 1_000_000)
            assert await session.cancel()
            assert [(await session.outcome(number)).text for number in range(1, 6)] == [
                f"re prompt {number}" for number in range(1, 6)
            ]
            await events_of(session)


@pytest.mark.long
async def test_old_sessions_and_events_are_deleted(
    tmp_path: Path, temporal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(lambda request: "done" * 10_000) as model, fleet_in(tmp_path, model, url=temporal) as made:
        fleet, deleting = made.fleet(retention=3600), made.fleet(retention=0.1)
        for each in (fleet, deleting):
            each.agent("worker", ClientOptions(inherit_env=False, env=dict(model.environment())))
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("worker", "hi", id="one")
            await session.result(timeout=PATIENCE)
            await session.result(await session.send("and on"), timeout=PATIENCE)
            before = await events_of(session)
            first, _ = [event for event in before if event.kind == "run" and "result" in event.data]
            assert await fleet.prune_events(3600) == 0
            assert await fleet.prune_events(0, session_id="one") == first.number - 1
            assert await fleet.prune_events(0) == 0
            told, *rest = [event async for event in session.events()]
            assert (told.kind, told.data) == ("pruned", {"first": 1, "last": first.number - 1})
            assert rest == before[first.number - 1 :]
            assert [event async for event in session.events(after=first.number)] == before[first.number :]
            assert (await session.outcome(1)).text == "done" * 10_000  # which is only in the events
            info = await session.info()
            with monkeypatch.context() as an_hour_ahead:
                real = time.time
                an_hour_ahead.setattr(time, "time", lambda: real() + 3600)
                assert await fleet.prune(1800) == 0
            gone = await fleet.start("worker", "hi", id="two")
            await gone.result(timeout=PATIENCE)
            assert await gone.cancel()
            await until_state(gone, "cancelled")
            client = await fleet._engine._server.connect()  # type: ignore[attr-defined]
            described = await client.get_workflow_handle("two").describe()
            assert described.close_time is None  # or the server deletes it before the worker does
        async with deleting.worker(folder=tmp_path / "ws"):

            async def are_gone() -> bool:
                return [each.id async for each in client.list_workflows("WorkflowType = 'fleet-session'")] == []

            await until(are_gone, "the sessions are deleted")
            assert not Path(info.workspace or "").exists()
        with pytest.raises(FleetError, match="no session"):
            await session.info()
        store: Any = made.store()
        assert await store.list_sessions("fleet") == []
        assert await store.list_subkeys({"project_key": "fleet-events", "session_id": info.cli_session_id}) == []
        store.close()


async def test_a_schedule_starts_sessions(tmp_path: Path, temporal: str) -> None:
    program = FakeCLI(steps.turn("done")).install(tmp_path / "cli")
    async with Fleet(temporal, store=MemoryStore(), lease=LEASE) as fleet:
        fleet.agent("worker", ClientOptions(cli_path=program))
        fleet.schedule("nightly", "0 3 * * *", "worker", "clean up", timezone="Europe/Berlin")
        async with fleet.worker(folder=tmp_path / "ws"):
            client = await fleet._engine._server.connect()  # type: ignore[attr-defined]
            await client.get_schedule_handle("nightly").trigger()
            found: list[Any] = []

            async def has_started() -> bool:
                found[:] = [each.id for each in await fleet.list(state="idle")]
                return bool(found)

            await until(has_started, "the schedule started a session")
        assert found[0].startswith("nightly@")

        async def has_started_another() -> bool:  # which nobody has begun to keep
            await client.get_schedule_handle("nightly").trigger()  # starts nothing in the second of the one before
            return bool((await client.count_workflows("WorkflowType = 'fleet-session'")).count > 1)

        await until(has_started_another, "the schedule started another session")
        assert [each.id for each in await fleet.list()] == found
        known = {each.id async for each in client.list_workflows("WorkflowType = 'fleet-session'")}
        with pytest.raises(FleetError, match="no worker has seen yet"):
            await fleet.session((known - set(found)).pop()).info()
        assert (await fleet.session(found[0]).outcome(1)).text == "done"
        assert await fleet.unschedule("nightly")
        assert not await fleet.unschedule("nightly")


@pytest.mark.long
async def test_a_session_that_an_operator_resets_keeps_its_answers(tmp_path: Path, temporal: str) -> None:
    from temporalio.api.common.v1 import WorkflowExecution
    from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

    with ScriptedModel(lambda request: "hello") as model, fleet_in(tmp_path, model, url=temporal) as made:
        fleet = made.fleet()
        made.start_worker()
        fleet.agent("worker")
        session = await fleet.start("worker", "hi", id="one")
        assert (await session.result(timeout=PATIENCE)).text == "hello", made.logs()
        await until_state(session, "idle")
        client = await fleet._engine._server.connect()  # type: ignore[attr-defined]
        request = ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id="one"),
            workflow_task_finish_event_id=4,
            request_id="reset",
        )
        await client.workflow_service.reset_workflow_execution(request)

        async def has_it() -> bool:
            outcome = await session.outcome()
            return (outcome.state, outcome.text, outcome.attempts) == ("done", "hello", 0)

        await until(has_it, "the outcome is found in the store, without another attempt")
        assert len(model.requests) == 1

        async def is_listed_once() -> bool:
            return [each.id for each in await fleet.list()] == ["one"]

        await until(is_listed_once, "the run before the reset is not listed")
        number = await session.send("and now?")
        assert (await session.result(number, timeout=PATIENCE)).text == "hello", made.logs()


@pytest.mark.long
async def test_times_of_a_schedule_that_an_outage_of_the_server_missed_are_made_up(
    tmp_path: Path, stoppable_temporal: TemporalServer
) -> None:
    async with Fleet(f"temporal://{stoppable_temporal.address}/test-0", store=MemoryStore(), lease=LEASE) as fleet:
        fleet.agent("worker", ClientOptions())
        fleet.schedule("tick", "* * * * * * *", "worker", "clean up")
        async with fleet.worker(folder=tmp_path / "ws"):
            pass
        client = await fleet._engine._server.connect()  # type: ignore[attr-defined]

        async def has_fired_after(at: float) -> bool:
            query = "WorkflowType = 'fleet-session'"
            found = [each.id.removeprefix("tick@-") async for each in client.list_workflows(query)]
            fired[:] = sorted(datetime.fromisoformat(each).timestamp() for each in found)
            return bool(fired) and fired[-1] > at

        fired: list[float] = []
        await until(lambda: has_fired_after(0), "it fires")
        begun = fired[0]
        stoppable_temporal.kill()
        killed = time.time()
        await until(lambda: time.time() > killed + 3, "it is away when it has to fire")
        stoppable_temporal.restart()
        restarted = time.time()
        await until(lambda: has_fired_after(restarted + 1), "it fires again")
        assert fired == [begun + number for number in range(len(fired))]


async def test_a_program_that_registers_no_agent_starts_many_sessions_at_once(tmp_path: Path, temporal: str) -> None:
    """The server limits how often it tells about the workers of an agent."""
    async with Fleet(temporal, store=MemoryStore()) as workers, Fleet(temporal, store=MemoryStore()) as fleet:
        workers.agent("one", ClientOptions())
        async with workers.worker(sessions=1, folder=tmp_path / "ws"):
            pass  # the server knows the agent now
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for number in range(100):
                    group.start_soon(partial(fleet.start, "one", "Build it.", id=f"session-{number}"))


@pytest.mark.parametrize(
    "url", ["temporal://", "temporal://user:secret@host/x", "temporal://host:port", "temporal://h/?a=1"]
)
async def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(OptionsError, match="url") as caught:
        Fleet(url, store=MemoryStore())
    assert "secret" not in str(caught.value)


async def test_features_missing_on_temporal_are_refused(tmp_path: Path, temporal: str) -> None:
    async with Fleet(temporal, store=MemoryStore()) as fleet:
        with pytest.raises(OptionsError, match="tenants take turns"):
            await fleet.tenant("acme", weight=3)
        with pytest.raises(OptionsError, match="tenant_limit"):
            await fleet.tenant("acme", limit=3)
    async with Fleet(f"{temporal.rpartition('/')[0]}/nowhere", store=MemoryStore()) as fleet:
        with pytest.raises(FleetError, match="not_found: Namespace nowhere") as caught:
            await fleet.session("one").info()
        assert (
            caught.value.is_retryable
        )  # a new one is found after a while, and a busy server may lose one for a moment
    async with Fleet("temporal://127.0.0.1:1", store=MemoryStore()) as fleet:
        with pytest.raises(FleetError, match="does not answer") as caught:
            await fleet.list()
        assert caught.value.is_retryable


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "histories").iterdir()), ids=lambda path: path.stem)
async def test_workflows_of_earlier_releases_replay(path: Path) -> None:
    """Sessions live for weeks. A new history: `temporal workflow show --workflow-id ... --output json | xz`."""
    from temporalio.client import WorkflowHistory
    from temporalio.worker import Replayer
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

    restrictions = SandboxRestrictions.default.with_passthrough_modules("claude_agent_py")
    replayer = Replayer(
        workflows=workflows(),
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
    )
    text = lzma.decompress(path.read_bytes()).decode()
    await replayer.replay_workflow(WorkflowHistory.from_json(path.stem, text))
