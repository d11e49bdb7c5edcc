"""On Temporal, each prompt has one number and one outcome, whatever becomes of workers and of what the server keeps."""

import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from fleets import PATIENCE, events_of, fleet_in, until, until_state
from inside import find_program
from temporal_server import SharedServer, TemporalServer, start, temporal_server as temporal_server

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError, FleetRunError, StoreError
from claude_agent_py.fleet import Copy, Directory, Fleet, FleetSession
from claude_agent_py.sessions import SessionKey, SQLiteStore
from claude_agent_py.testing import FakeCLI, ScriptedModel, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="an installed fake is a shell script"),
]


@pytest.fixture
def fleet(temporal_server: SharedServer, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet with an agent that answers, and one that never does."""
    made = Fleet(temporal_server.new_url(), store=SQLiteStore(tmp_path / "store.db"), lease=1.0, poll=0.1)
    scripts: dict[str, Any] = {
        "one": [steps.turn("done")],
        "slow": [steps.wait_for_prompt(), frames.init(), steps.wait_for_request("interrupt")],
    }
    for name, script in scripts.items():
        program = FakeCLI(*script).install(tmp_path / name)
        made.agent(name, ClientOptions(cli_path=program), workspace=Directory(tmp_path))
    yield made
    made.close()


async def connect(fleet: Fleet) -> Any:
    """Return the client of a fleet's server."""
    return await fleet._engine._server.connect()  # type: ignore[attr-defined]


@pytest.fixture
def impatient_server(tmp_path: Path) -> Iterator[TemporalServer]:
    """A server that waits a second for a worker that has a workflow, not ten."""
    server = start(tmp_path, {"history.defaultWorkflowTaskTimeout": '"1s"'})
    try:
        yield server
    finally:
        server.end()


@pytest.mark.long
async def test_a_prompt_gets_its_number_although_a_worker_died_with_the_workflow(
    impatient_server: TemporalServer,
) -> None:
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest

    async with Fleet(f"temporal://{impatient_server.address}/test-0") as fleet:
        fleet.agent("one")
        session = await fleet.start("one", "first")
        client = await connect(fleet)
        # Until the server gives up who took this task, signals are not in the history.
        request = PollWorkflowTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name="one"), identity="dead"
        )
        task = await client.workflow_service.poll_workflow_task_queue(request)
        assert task.workflow_execution.workflow_id == session.id
        assert await session.send("second", key="second") == 2
        assert await session.send("second", key="second") == 2
        assert (await session.outcome(2)).state == "queued"


@pytest.mark.parametrize("how", ["terminate", pytest.param("cancel", marks=pytest.mark.long)])
async def test_a_session_whose_workflow_an_operator_ends_is_cancelled(fleet: Fleet, tmp_path: Path, how: str) -> None:
    session = await fleet.start("one", "first", id="ended")
    client = await connect(fleet)
    handle = client.get_workflow_handle(session.id)
    await getattr(handle, how)()
    if how == "cancel":
        async with fleet.worker(folder=tmp_path / "ws"):
            await until_state(session, "cancelled")
    with pytest.raises(FleetRunError, match="was cancelled: its workflow ended: ") as caught:
        await session.result(timeout=PATIENCE)
    assert caught.value.outcome.state == "cancelled"
    with pytest.raises(FleetError, match="was cancelled: its workflow ended"):
        await session.send("more")
    assert (await (await fleet.start("one", "first", id="ended")).info()).state == "cancelled"
    assert not await session.cancel()


@pytest.mark.long
async def test_a_prompt_that_failed_has_failed_while_others_wait_for_a_worker(fleet: Fleet, tmp_path: Path) -> None:
    session = await fleet.start("slow", "first", timeout=0.1)
    async with fleet.worker(folder=tmp_path / "ws"):
        await until_state(session, "failed")
        await session.send("second")
        await until_state(session, "running")
    assert await session.send("third") == 3
    assert [(await session.outcome(number)).state for number in (1, 3)] == ["failed", "queued"]


@pytest.mark.long
async def test_a_deadline_that_passes_while_no_worker_lives_fails_a_prompt_whose_worker_died(
    temporal_server: SharedServer, tmp_path: Path
) -> None:
    silent = FakeCLI(steps.wait_for_prompt(), frames.init(), steps.wait_for_request("interrupt")).install(tmp_path)
    with ScriptedModel([]) as model, fleet_in(tmp_path, model, url=temporal_server.new_url()) as made:
        options = {"env": {}, "cli_path": str(silent)}
        worker = made.start_worker(options=options, lease=15.0)
        fleet = made.fleet()
        fleet.agent("worker")
        session = await fleet.start("worker", "hi", timeout=10.0)  # before the worker counts as dead
        await until_state(session, "running")
        worker.kill()
        worker.wait()
        handle = (await connect(fleet)).get_workflow_handle(session.id)

        async def have_both_passed() -> bool:
            events = (await handle.fetch_history()).events
            kinds = ("activity_task_timed_out_event_attributes", "timer_fired_event_attributes")
            return all(any(event.HasField(kind) for event in events) for kind in kinds)

        await until(have_both_passed, "the deadline passes, and the worker counts as dead")
        made.start_worker(options=options, lease=15.0)
        await until_state(session, "failed")
        assert (await session.outcome()).error == "RunTimeoutError"
        assert await session.cancel()
        await until_state(session, "cancelled")


async def test_all_prompts_of_a_cancelled_session_have_an_outcome_and_an_event(fleet: Fleet, tmp_path: Path) -> None:
    session = await fleet.start("one", "1", id="many", timeout=0.1)
    for number in range(2, 26):
        await session.send(str(number), key=str(number))
    assert await session.cancel("too many")
    async with fleet.worker(folder=tmp_path / "ws"):
        await until_state(session, "cancelled")
        outcomes = [await session.outcome(number) for number in range(1, 26)]
    assert {outcome.state for outcome in outcomes} == {"cancelled"}
    assert {outcome.reason for outcome in outcomes} == {"too many"}
    events = await events_of(session)
    assert [(event.run, event.data["state"]) for event in events] == [(n, "cancelled") for n in range(1, 26)]


@pytest.mark.long
async def test_a_prompt_that_no_worker_ran_has_an_event_of_its_end(fleet: Fleet, tmp_path: Path) -> None:
    session = await fleet.start("one", "1", timeout=1e-9)
    async with fleet.worker(folder=tmp_path / "ws"):
        await until_state(session, "failed")
        for number in (2, 3):
            assert (await session.result(await session.send("more"), timeout=PATIENCE)).run == number
    states = [(event.run, event.data["state"]) for event in await events_of(session) if event.kind == "run"]
    assert states == [(1, "failed"), (2, "running"), (2, "done"), (3, "running"), (3, "done")]


@pytest.mark.long
async def test_events_go_on_while_a_prompt_waits_for_a_worker(fleet: Fleet, tmp_path: Path) -> None:
    session = await fleet.start("one", "hi")
    async with fleet.worker(folder=tmp_path / "ws"):
        await session.result(timeout=PATIENCE)
        await until_state(session, "idle")
    before, after = await events_of(session), list[Any]()

    async def read() -> None:
        after.extend([event async for event in session.events(after=before[-1].number)])

    assert await session.send("more") == 2
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            async with fleet.worker(folder=tmp_path / "ws"):
                await session.result(2, timeout=PATIENCE)
                await until_state(session, "idle")
    assert [event.data["state"] for event in after if event.kind == "run"] == ["running", "done"]


class Slow(SQLiteStore):
    """A store that does something else before it deletes the first conversation."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.before: Callable[[str], Awaitable[object]] | None = None

    async def delete(self, key: SessionKey) -> None:
        before, self.before = self.before, None
        if before is not None:
            await before(key["session_id"])
        await super().delete(key)


@pytest.mark.long
async def test_a_session_that_gets_a_prompt_while_others_are_deleted_stays(
    temporal_server: SharedServer, tmp_path: Path
) -> None:
    store = Slow(tmp_path / "store.db")
    async with Fleet(temporal_server.new_url(), store=store, lease=1.0, poll=0.1) as fleet:
        program = FakeCLI(steps.turn("done")).install(tmp_path / "cli")
        fleet.agent("one", ClientOptions(cli_path=program), workspace=Directory(tmp_path))
        sessions = [await fleet.start("one", "hi") for _ in range(2)]
        async with fleet.worker(folder=tmp_path / "ws"):
            for session in sessions:
                await session.result(timeout=PATIENCE)
                await until_state(session, "idle")
        # No worker lives: what the server lists says nothing of the new prompt.
        infos = {(await session.info()).cli_session_id: session for session in sessions}

        async def send(deleted: str) -> None:
            [kept] = [session for conversation, session in infos.items() if conversation != deleted]
            assert await kept.send("late") == 2

        async def are_listed() -> bool:
            return len(await fleet.list(state="idle")) == 2

        await until(are_listed, "both are listed")
        store.before = send
        assert await fleet.prune(0) == 1
        async with fleet.worker(folder=tmp_path / "ws"):
            [left] = [session for session in sessions if session.id in {info.id for info in await fleet.list()}]
            assert (await left.result(2, timeout=PATIENCE)).text == "done"
            assert {event.run for event in await events_of(left)} == {1, 2}


@pytest.mark.long
async def test_a_session_that_gets_a_prompt_before_it_is_deleted_keeps_its_workspace(
    temporal_server: SharedServer, tmp_path: Path
) -> None:
    program = FakeCLI(steps.turn("done")).install(tmp_path / "cli")
    given: dict[str, Any] = {"store": SQLiteStore(tmp_path / "store.db"), "lease": 1.0}
    url = temporal_server.new_url()
    fleet, deleting = Fleet(url, **given), Fleet(url, retention=5.0, **given)
    async with fleet, deleting:
        for each in (fleet, deleting):
            each.agent("one", ClientOptions(cli_path=program), workspace=Copy())
        session = await fleet.start("one", "hi")
        async with fleet.worker(folder=tmp_path / "ws"):
            await session.result(timeout=PATIENCE)
            await until_state(session, "idle")
        notes = Path((await session.info()).workspace or "") / "notes"
        notes.write_text("of the first prompt")

        async def is_old() -> bool:
            return [info.updated_at < time.time() - 5 for info in await fleet.list(state="idle")] == [True]

        await until(is_old, "it is listed as old")
        assert await session.send("late") == 2  # no worker lives: what the server lists says nothing of it
        async with deleting.worker(folder=tmp_path / "ws"):
            await session.result(2, timeout=PATIENCE)
            assert notes.exists()
            await until(lambda: not notes.exists(), "it is deleted once it is old again")

            async def is_empty() -> bool:
                return await fleet.list() == []

            await until(is_empty, "the server no longer lists it")


@pytest.mark.long
async def test_answers_stay_whole_after_pruning_although_later_prompts_never_ran(fleet: Fleet, tmp_path: Path) -> None:
    program = FakeCLI(steps.turn("done" * 10_000)).install(tmp_path / "long")
    fleet.agent("long", ClientOptions(cli_path=program), workspace=Directory(tmp_path))
    session = await fleet.start("long", "hi")

    async def is_at_a_worker() -> bool:
        described = await (await connect(fleet)).get_workflow_handle(session.id).describe()
        return [pending.state for pending in described.raw_description.pending_activities] == [2]  # started

    async with fleet.worker(folder=tmp_path / "ws", sessions=1):
        await session.result(timeout=PATIENCE)
        await until_state(await fleet.start("slow", "hi"), "running")  # has the only slot
        for number in (2, 3):
            await fleet.prune_events(0, session_id=session.id)
            assert await session.send("never") == number
            await until(is_at_a_worker, "a worker has it, without room")
            assert await session.interrupt()
            await until(partial(is_told, session, (number, "cancelled")), "its end is told")
    assert (await session.outcome(1)).text == "done" * 10_000  # which is only in the events
    assert await ends_of(session) == [(1, "done"), (2, "cancelled"), (3, "cancelled")]


async def is_told(session: FleetSession, end: tuple[int, str]) -> bool:
    return end in await ends_of(session)


async def ends_of(session: FleetSession) -> list[tuple[int, str]]:
    return [(event.run, event.data["state"]) async for event in session.events() if "result" in event.data]


class Shaky(SQLiteStore):
    """A store that lacks the end of a prompt the first time that it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.refusals = 1

    async def append(self, key: Any, entries: Any, **more: Any) -> None:
        if self.refusals and any(entry.get("data", {}).get("state") == "done" for entry in entries):
            self.refusals -= 1
            raise StoreError("the store is away: sk-ant-api03-0123456789abcdef")
        await super().append(key, entries, **more)


@pytest.mark.long
async def test_an_answer_is_not_lost_if_the_store_lacks_its_event(
    temporal_server: SharedServer, tmp_path: Path
) -> None:
    store = Shaky(tmp_path / "store.db")
    fake = FakeCLI(steps.turn("x" * 20_000)).install(tmp_path)
    async with Fleet(temporal_server.new_url(), store=store, lease=1.0, poll=0.1) as fleet:
        fleet.agent("long", ClientOptions(cli_path=fake), workspace=Directory(tmp_path))
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("long", "hi")
            assert (await session.result(timeout=PATIENCE)).text == "x" * 20_000
        states = [event.data["state"] for event in await events_of(session) if event.kind == "run"]
        assert (store.refusals, states[-1], states.count("done")) == (0, "done", 1)
        history = await (await connect(fleet)).get_workflow_handle(session.id).fetch_history()
        noted = [event for event in history.events if "the store is away" in str(event)]
        assert noted
        assert "0123456789abcdef" not in str(noted)


@pytest.mark.long
async def test_a_session_that_an_operator_moves_has_its_new_version(
    temporal_server: SharedServer, tmp_path: Path
) -> None:
    url = temporal_server.new_url()
    fake = FakeCLI(steps.turn("done")).install(tmp_path)
    async with Fleet(url, store=SQLiteStore(tmp_path / "store.db"), poll=0.1) as fleet:
        for version in ("1", "2"):
            fleet.agent("one", ClientOptions(cli_path=fake), workspace=Directory(tmp_path), version=version)
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("one", "hi", id="moved", version="1")
            await session.result(timeout=PATIENCE)
            assert (await session.info()).version == "1"
            server, namespace = url.removeprefix("temporal://").split("/")
            pinned = "--versioning-override-behavior pinned --versioning-override-deployment-name one"
            place = f"--address {server} --namespace {namespace} --workflow-id moved"
            move = f"workflow update-options {place} {pinned} --versioning-override-build-id 2"
            await anyio.run_process([find_program(), *move.split()])
            await session.result(await session.send("again"), timeout=PATIENCE)
            assert (await session.info()).version == "2"
