"""What an operator of a Temporal server does to sessions, with its own commands."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from fleets import PATIENCE, events_of, until, until_state
from temporal_server import SharedServer, TemporalServer, start, temporal_server as temporal_server

from claude_agent_py import ClientOptions, RetryPolicy
from claude_agent_py.cli import main
from claude_agent_py.fleet import Directory, Fleet, FleetSession
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="an installed fake is a shell script"),
]

ASKED = {"subtype": "elicitation", "mcp_server_name": "shop", "message": "Which?", "requested_schema": {}}
SCRIPTS: dict[str, Any] = {
    "idle": [steps.turn("done")],
    "running": [steps.wait_for_prompt(), frames.init(), steps.wait_for_request("interrupt")],
    "queued": [steps.wait_for_prompt(), steps.exit(1)],
    "waiting": [
        steps.wait_for_prompt(),
        steps.emit({"type": "control_request", "request_id": "first", "request": ASKED}),
        steps.hang(),
    ],
}
"""What the process of an agent does, by the state in which its session stays."""


class Held(SQLiteStore):
    """A store that takes no end of a prompt for a while."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate: anyio.Event | None = None
        self.reached = anyio.Event()

    async def append(self, key: Any, entries: Any, **more: Any) -> None:
        if self.gate is not None and any(entry.get("data", {}).get("state") == "failed" for entry in entries):
            self.reached.set()
            await self.gate.wait()
        await super().append(key, entries, **more)


def make_fleet(url: str, folder: Path, **more: Any) -> Fleet:
    """Return a fleet with an agent for each state in which a session stays."""
    made = Fleet(url, store=Held(folder / "store.db"), lease=1.0, poll=0.1, **more)
    for name, script in SCRIPTS.items():
        options = ClientOptions(cli_path=FakeCLI(*script).install(folder / name))
        retry = RetryPolicy(attempts=3, wait=PATIENCE, max_wait=PATIENCE)
        made.agent(name, options, workspace=Directory(folder), patience=0.1, retry=retry)
    return made


@pytest.fixture
def fleet(temporal_server: SharedServer, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on a shared server."""
    made = make_fleet(temporal_server.new_url(), tmp_path)
    yield made
    made.close()


async def connect(fleet: Fleet) -> Any:
    """Return the client of a fleet's server."""
    return await fleet._engine._server.connect()  # type: ignore[attr-defined]


async def until_it_stays(session: FleetSession, state: str) -> None:
    """Wait until a session is in a state, and not only on its way there."""

    async def stays() -> bool:
        info = await session.info()
        return info.state == state and (state != "queued" or info.not_before > 0)

    await until(stays, state)


async def has_ended(fleet: Fleet, session: FleetSession) -> str:
    """Wait until the workflow of a session has ended, and return how."""
    handle = (await connect(fleet)).get_workflow_handle(session.id)

    async def is_closed() -> bool:
        return (await handle.describe()).close_time is not None

    await until(is_closed, "the workflow ends")
    return str((await handle.describe()).status.name)


@pytest.mark.parametrize(
    "state", ["waiting", *(pytest.param(each, marks=pytest.mark.long) for each in ("idle", "running", "queued"))]
)
async def test_a_session_ends_when_its_workflow_is_cancelled(fleet: Fleet, tmp_path: Path, state: str) -> None:
    session = await fleet.start(state, "first")
    async with fleet.worker(folder=tmp_path / "ws"):
        await until_it_stays(session, state)
        if state != "idle":
            assert await session.send("second") == 2
        await (await connect(fleet)).get_workflow_handle(session.id).cancel()
        assert await has_ended(fleet, session) == "CANCELED"
        outcomes = [await session.outcome(number) for number in range(1, (await session.info()).runs + 1)]
    assert (await session.info()).state == "cancelled"
    if state != "idle":
        assert [(outcome.state, outcome.reason) for outcome in outcomes] == [
            ("cancelled", "its workflow ended: cancelled")
        ] * 2
        ends = [(event.run, event.data["state"]) for event in await events_of(session) if event.kind == "run"]
        assert ends[-2:] == [(1, "cancelled"), (2, "cancelled")]


@pytest.mark.long
@pytest.mark.parametrize("retention", [None, 3600.0])
async def test_the_workflow_of_a_cancelled_session_can_be_cancelled(
    temporal_server: SharedServer, tmp_path: Path, retention: float | None
) -> None:
    async with make_fleet(temporal_server.new_url(), tmp_path, retention=retention) as fleet:
        session = await fleet.start("idle", "first")
        async with fleet.worker(folder=tmp_path / "ws"):
            await session.result(timeout=PATIENCE)
            assert await session.cancel("no longer needed")
            await until_state(session, "cancelled")
            await (await connect(fleet)).get_workflow_handle(session.id).cancel()
            await has_ended(fleet, session)
            assert (await session.info()).reason == "no longer needed"


async def end_workflow(fleet: Fleet, session: FleetSession, how: str) -> None:
    """End the workflow of a session that no worker has."""
    from temporalio.api.command.v1 import Command, FailWorkflowExecutionCommandAttributes
    from temporalio.api.enums.v1 import CommandType
    from temporalio.api.failure.v1 import Failure
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest, RespondWorkflowTaskCompletedRequest

    client = await connect(fleet)
    if how == "fail":
        service, space = client.workflow_service, client.namespace
        request = PollWorkflowTaskQueueRequest(namespace=space, task_queue=TaskQueue(name="idle"), identity="bad")
        task = await service.poll_workflow_task_queue(request)
        command = Command(
            command_type=CommandType.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
            fail_workflow_execution_command_attributes=FailWorkflowExecutionCommandAttributes(failure=Failure()),
        )
        await service.respond_workflow_task_completed(
            RespondWorkflowTaskCompletedRequest(namespace=space, task_token=task.task_token, commands=[command])
        )
    else:
        await getattr(client.get_workflow_handle(session.id), how)()


@pytest.mark.parametrize(
    "how", ["terminate", *(pytest.param(each, marks=pytest.mark.long) for each in ("cancel", "fail"))]
)
async def test_a_session_whose_workflow_has_ended_is_listed_as_cancelled_and_pruned(
    fleet: Fleet, tmp_path: Path, how: str
) -> None:
    session = await fleet.start("idle", "first", tenant="acme", id="ended")
    conversation = (await session.info()).cli_session_id
    key: Any = {"project_key": "fleet", "session_id": conversation}
    await fleet.store.append(key, [{"type": "user", "uuid": "1"}])
    await end_workflow(fleet, session, how)
    if how == "cancel":
        async with fleet.worker(folder=tmp_path / "ws"):
            await has_ended(fleet, session)

    async def is_listed() -> bool:
        return [(each.id, each.state) for each in await fleet.list(state="cancelled")] == [("ended", "cancelled")]

    await until(is_listed, "it is listed")
    assert [(each.id, each.state) for each in await fleet.list()] == [("ended", "cancelled")]
    assert [(each.name, each.sessions) for each in await fleet.tenants()] == [("acme", {"cancelled": 1})]
    assert await fleet.list(state="queued") == []
    assert (await fleet.metrics()).queued == {"ready": 0}
    assert await fleet.prune(3600) == 0
    assert await fleet.prune(0) == 1
    assert await fleet.store.load(key) is None


@pytest.mark.long
async def test_a_session_is_listed_once_although_an_operator_reset_its_workflow(fleet: Fleet, tmp_path: Path) -> None:
    from temporalio.api.common.v1 import WorkflowExecution
    from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

    session = await fleet.start("idle", "first", id="reset")
    client = await connect(fleet)
    async with fleet.worker(folder=tmp_path / "ws"):
        await until_state(session, "idle")
        execution = WorkflowExecution(workflow_id="reset")
        request = ResetWorkflowExecutionRequest(
            namespace=client.namespace, workflow_execution=execution, workflow_task_finish_event_id=4, request_id="1"
        )
        await client.workflow_service.reset_workflow_execution(request)

        async def has_ended_before() -> bool:
            return bool((await client.count_workflows("ExecutionStatus = 'Terminated'")).count)

        await until(has_ended_before, "the server lists the run before")
        await until_state(session, "idle")
        assert [each.id for each in await fleet.list()] == ["reset"]
        assert await fleet.list(state="cancelled") == []


@pytest.fixture
def impatient_server(tmp_path: Path) -> Iterator[TemporalServer]:
    """A server that hears of local activities soon, not after eight seconds."""
    server = start(tmp_path, {"history.defaultWorkflowTaskTimeout": '"2s"'})
    try:
        yield server
    finally:
        server.end()


@pytest.mark.long
async def test_a_session_whose_events_are_being_written_ends_when_its_workflow_is_cancelled(
    impatient_server: TemporalServer, tmp_path: Path
) -> None:
    async with make_fleet(f"temporal://{impatient_server.address}/test-0", tmp_path) as fleet:
        store: Any = fleet.store
        store.gate = anyio.Event()
        session = await fleet.start("idle", "first", timeout=1e-9)
        assert await session.send("second") == 2
        async with fleet.worker(folder=tmp_path / "ws"):
            with anyio.fail_after(PATIENCE):
                await store.reached.wait()
            handle = (await connect(fleet)).get_workflow_handle(session.id)
            await handle.cancel()

            async def has_heard() -> bool:
                kinds = ("workflow_execution_cancel_requested_event", "workflow_task_completed_event")
                events = (await handle.fetch_history()).events
                cancelled, handled = (
                    [event.event_id for event in events if event.HasField(f"{kind}_attributes")] for kind in kinds
                )
                return bool(cancelled) and cancelled[0] < handled[-1]

            await until(has_heard, "it hears of it")
            store.gate.set()
            assert await has_ended(fleet, session) == "CANCELED"
            assert [(await session.outcome(number)).state for number in (1, 2)] == ["failed", "cancelled"]
        ends = [(event.run, event.data["state"]) for event in await events_of(session)]
        assert ends == [(1, "failed"), (2, "cancelled")]


@pytest.mark.long
async def test_a_session_is_shown_by_a_command_without_the_store(
    temporal_server: SharedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = temporal_server.new_url()
    async with make_fleet(url, tmp_path) as fleet:
        program = FakeCLI(steps.turn("long " * 4000)).install(tmp_path / "long")
        fleet.agent("long", ClientOptions(cli_path=program), workspace=Directory(tmp_path))
        session = await fleet.start("long", "hi", id="long")
        async with fleet.worker(folder=tmp_path / "ws"):
            assert (await session.result(timeout=PATIENCE)).text == "long " * 4000
            await session.cancel("enough")
            await until_state(session, "cancelled")
    assert await to_thread.run_sync(main, ["fleet", "show", "long", "--url", url]) == 0
    assert "only the session store has (--url MODULE:NAME): 1" in capsys.readouterr().out


@pytest.mark.long
async def test_the_audit_log_goes_on_by_number_although_the_server_has_deleted_its_beginning(
    fleet: Fleet, tmp_path: Path
) -> None:
    from temporalio.api.common.v1 import WorkflowExecution
    from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

    session = await fleet.start("idle", "hi", id="old")
    client = await connect(fleet)

    async def earlier_runs() -> list[Any]:
        found = [run async for run in client.list_workflows("WorkflowId = 'old'")]
        return [run for run in found if run.close_time is not None]

    async def entries(after: int = 0) -> list[Any]:
        return [entry async for entry in fleet.audit(session_id="old", after=after)]

    async with fleet.worker(folder=tmp_path / "ws"):
        await session.result(timeout=PATIENCE)
        while not await earlier_runs():  # until its workflow goes on in another run
            await session.result(await session.send("more"), timeout=PATIENCE)
        before = await entries()
        for run in await earlier_runs():
            execution = WorkflowExecution(workflow_id="old", run_id=run.run_id)
            request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
            await client.workflow_service.delete_workflow_execution(request)

        async def are_deleted() -> bool:
            return before[0] not in await entries()

        await until(are_deleted, "the beginning is gone")
        await session.send("new")
        assert [entry.action for entry in await entries(before[-1].number)] == ["send"]
