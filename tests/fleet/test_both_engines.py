"""A fleet on SQLite and one on Temporal do the same, with a scripted CLI."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import pytest
from anyio import to_thread
from fleets import PATIENCE, events_of, until, until_state
from temporal_server import SharedServer, temporal_server as temporal_server

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError, FleetRunError
from claude_agent_py.fleet import Directory, Fleet, Workspace
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script"),
]

PASSWORD = "correct-horse-battery-7"
ABORTED = frames.result("", subtype="error_during_execution", terminal_reason="aborted_streaming")

long_on_temporal = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("temporal", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture(params=["sqlite", "temporal"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fleet.db'}"
    server: SharedServer = request.getfixturevalue("temporal_server")
    return server.new_url()


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet whose agents answer, write for long, and fail."""
    made = Fleet(url, store=SQLiteStore(tmp_path / "store.db"), lease=1.0, poll=0.1, tenant_limit=9)
    [refused, _] = frames.api_error("No such prompt.", "invalid_request", 400)
    scripts: dict[str, Any] = {
        "quick": [steps.turn("done")],
        "slow": [steps.wait_for_prompt(), frames.init(), steps.wait_for_request("interrupt"), steps.answer(), ABORTED],
        "bad": [steps.turn([refused], text="No such prompt.", is_error=True, api_error_status=400)],
    }
    for name, script in scripts.items():
        options = ClientOptions(cli_path=FakeCLI(*script).install(tmp_path / name))
        made.agent(name, options, workspace=Directory(tmp_path), limit=2, after_failure="fail")
    yield made
    made.close()


async def test_a_turn_is_interrupted_and_a_failed_prompt_sent_again(fleet: Fleet, tmp_path: Path) -> None:
    async with fleet.worker(folder=tmp_path / "ws"):
        slow = await fleet.start("slow", "take your time")
        await until_state(slow, "running")
        assert await slow.interrupt(actor="ann")
        await until_state(slow, "idle")
        assert (await slow.outcome(1)).error == "InterruptedRunError"
        bad = await fleet.start("bad", "do it")
        with pytest.raises(FleetRunError, match="No such prompt"):
            await bad.result(timeout=PATIENCE)
        assert await bad.retry(actor="ann") == 1

        async def has_run_again() -> bool:
            runs = [event.data["state"] for event in await events_of(bad) if event.kind == "run"]
            return runs.count("failed") == 2

        await until(has_run_again, "the prompt has failed again")
        with pytest.raises(FleetError, match=f"the session '{slow.id}' is idle, not failed"):
            await slow.retry()
        with pytest.raises(FleetError, match="has asked no question 'q'"):
            await slow.answer("q", None)
        with pytest.raises(FleetError, match="9"):
            await slow.outcome(9)
        assert await slow.cancel("enough")
        assert not await slow.interrupt()
        actions = [(entry.action, entry.actor) async for entry in fleet.audit(session_id=bad.id)][1:]
        assert actions == [("retry", "ann")]


@long_on_temporal
@pytest.mark.parametrize("are_deleted", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_events_of_prompts_that_are_sent_again_follow_those_before(
    fleet: Fleet, tmp_path: Path, are_deleted: bool
) -> None:
    session = await fleet.start("bad", "do it")
    assert await session.send("and this") == 2
    async with fleet.worker(folder=tmp_path / "ws"):
        last = 0

        async def have_failed() -> bool:
            found = [event async for event in session.events(after=last)]
            assert [event.number for event in found] == list(range(last + 1, last + 1 + len(found)))
            ends = [event.run for event in found if event.kind == "run" and event.data["state"] == "failed"]
            return ends == [1, 2] and (await session.info()).state == "failed"

        for _ in range(3):
            await until(have_failed, "both have failed")
            *_, event = [event async for event in session.events(after=last)]
            last = event.number
            if are_deleted:
                await fleet.prune_events(0, session_id=session.id)
            assert (await session.outcome(2)).error == "EarlierPromptFailed"
            assert await session.retry() == 1


@long_on_temporal
async def test_a_session_is_interrupted_while_its_only_worker_drains(fleet: Fleet, tmp_path: Path) -> None:
    session = await fleet.start("slow", "take your time")
    async with fleet.worker(folder=tmp_path / "ws") as worker, anyio.create_task_group() as group:
        await until_state(session, "running")
        group.start_soon(worker.drain)
        await until(lambda: "draining" in repr(worker), "it drains")
        assert await session.interrupt()
        with anyio.fail_after(PATIENCE):
            await worker.wait_drained()
    async with fleet.worker(folder=tmp_path / "ws"):  # on Temporal, the end may have come after the worker of workflows
        await until_state(session, "idle")
        assert (await session.outcome()).error == "InterruptedRunError"


@long_on_temporal
async def test_a_worker_that_drains_gets_a_limit_later(fleet: Fleet, tmp_path: Path) -> None:
    session = await fleet.start("slow", "take your time")
    async with fleet.worker(folder=tmp_path / "ws") as worker:

        async def is_asked(grace: float | None = None) -> bool:  # a server's list may lack a worker for a moment
            return await fleet.drain_workers(worker.id, grace=grace) == 1

        await until_state(session, "running")
        await until(is_asked, "it is asked to drain")
        await until(lambda: "draining" in repr(worker), "it drains")
        await until(partial(is_asked, 0.0), "it is asked to release its session")
        with anyio.fail_after(PATIENCE):
            await worker.wait_drained()


@long_on_temporal
async def test_a_session_whose_cli_does_not_stop_is_cancelled(fleet: Fleet, tmp_path: Path) -> None:
    heard = steps.wait_for_request("interrupt"), steps.answer(), steps.wait_for_request("nothing")
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), *heard)
    fleet.agent("deaf", ClientOptions(cli_path=fake.install(tmp_path / "deaf")), workspace=Directory(tmp_path))
    async with fleet.worker(folder=tmp_path / "ws"):
        session = await fleet.start("deaf", "take your time")
        await until(lambda: "take your time" in str(fake.received), "it runs")
        assert await session.interrupt()
        await until(lambda: "interrupt" in str(fake.received), "it was interrupted")
        assert await session.cancel("enough")
        await until_state(session, "cancelled")


class Cloning(Workspace):
    """A workspace whose error has a secret of the options."""

    def prepare(self, folder: Path, session_id: str) -> Path:
        raise ValueError(f"cannot clone https://joe:{PASSWORD}@host/shop with {PASSWORD}")


async def test_the_reason_of_a_failure_has_no_secrets(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.agent("cloning", ClientOptions(env={"DB_PASSWORD": PASSWORD}), workspace=Cloning())
    async with fleet.worker(folder=tmp_path / "ws"):
        session = await fleet.start("cloning", "hi")
        with pytest.raises(FleetRunError, match="cannot clone") as caught:
            await session.result(timeout=PATIENCE)
        await until_state(session, "failed")
        told = [caught.value, caught.value.outcome, await session.info(), await events_of(session)]
    assert PASSWORD not in repr(told)
    assert "cannot clone" in caplog.text
    assert PASSWORD not in caplog.text


@long_on_temporal
async def test_tenants_have_limits_and_old_events_are_deleted(fleet: Fleet, tmp_path: Path) -> None:
    await fleet.tenant("acme", limit=1)
    sessions = [await fleet.start("quick", "hi", tenant="acme") for _ in range(3)]
    async with fleet.worker(folder=tmp_path / "ws"):
        for session in sessions:
            assert (await session.result(timeout=PATIENCE)).text == "done"

        async def is_listed() -> bool:
            return [(each.name, each.limit) for each in await fleet.tenants() if each.limit] == [("acme", 1)]

        await until(is_listed, "a server lists the limit a moment after it was set")
        assert (await sessions[0].result(await sessions[0].send("again"), timeout=PATIENCE)).text == "done"
        assert await fleet.prune_events(3600) == 0
        assert await fleet.prune_events(0, session_id=sessions[0].id) > 0
        assert await anext(event.kind async for event in sessions[0].events()) == "pruned"
        assert await fleet.prune(3600) == 0
        assert [each.title for each in await fleet.list()] == ["hi"] * 3


@long_on_temporal
async def test_a_worker_tells_whether_it_is_ready(fleet: Fleet, tmp_path: Path) -> None:
    def get(path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    async with fleet.worker(folder=tmp_path / "ws", health=0) as worker:
        assert worker.health is not None
        port = worker.health[1]
        for path, status in (("/healthz", 200), ("/readyz", 200), ("/nothing", 404)):
            assert (await to_thread.run_sync(get, path))[0] == status
        status, figures = await to_thread.run_sync(get, "/metrics")
        assert status == 200
        assert "# TYPE" in figures
