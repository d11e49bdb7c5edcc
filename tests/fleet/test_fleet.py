"""A fleet on SQLite, in one process, with the real CLI."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from fleets import LEASE, PATIENCE, events_of, fleet_in, until

from claude_agent_py import ClientOptions, RetryPolicy
from claude_agent_py.errors import FleetError, FleetRunError, FleetTimeoutError, OptionsError
from claude_agent_py.fleet import Directory, Fleet
from claude_agent_py.sessions import MemoryStore, SQLiteStore
from claude_agent_py.testing import Failure, FakeCLI, Gate, Reply, ScriptedModel, steps, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.mark.long
@pytest.mark.real_cli
async def test_prompts_are_answered_in_order_and_events_are_numbered(tmp_path: Path) -> None:
    def answer(request: Any) -> str:
        said = [m for m in request.body["messages"] if m["role"] == "user"]
        return f"answer {len(said)} to {request.last_user_text}"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        fleet.agent("reviewer", model.options())
        session = await fleet.start("reviewer", "Review auth", id="pr-17")  # before any worker lives
        assert (await fleet.start("reviewer", "Review auth", id="pr-17")).id == "pr-17"
        number = await session.send("and billing", key="once")
        assert await session.send("and billing", key="once") == number == 2
        with pytest.raises(FleetTimeoutError):
            await session.result(timeout=0.1)
        async with fleet.worker(sessions=2, folder=tmp_path / "ws"):
            await fleet.drain()
            [worker] = await fleet.workers()
        first, second = await session.result(1, timeout=PATIENCE), await session.result(timeout=PATIENCE)
        assert first.text == "answer 1 to Review auth"
        assert (second.run, second.text) == (2, "answer 2 to and billing")
        assert second.worker == worker.id
        events = await events_of(session)
        assert [event.data["state"] for event in events if event.kind == "run" and event.run == 1] == [
            "queued",
            "running",
            "done",
        ]
        said = [event for event in events if event.kind == "fact" and event.data["fact"] == "message_added"]
        assert [event.run for event in said] == [1, 2]
        later = [event async for event in session.events(after=said[0].number)]
        assert later == events[said[0].number :]
        info = await session.info()
        assert (info.state, info.runs, info.worker, info.events) == ("idle", 2, None, len(events))
        assert [listed.id for listed in await fleet.list(state="idle")] == ["pr-17"]
        assert await fleet.workers() == []


async def test_a_call_that_waits_for_the_database_warns_once_and_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}") as fleet, anyio.create_task_group() as group:
        await fleet.list()
        fleet.close()
        for path in tmp_path.iterdir():
            path.unlink()
        (tmp_path / "fleet.db").mkdir()  # cannot be opened
        caplog.set_level("DEBUG", "claude_agent_py")
        group.start_soon(fleet.list)
        await until(lambda: len(caplog.records) >= 5, "it tries again")
        (tmp_path / "fleet.db").rmdir()
    assert [record.levelname for record in caplog.records[:5]] == ["DEBUG", "DEBUG", "WARNING", "DEBUG", "DEBUG"]
    assert "does not answer, trying again" in caplog.text
    assert (tmp_path / "fleet.db").is_file()


@pytest.mark.parametrize("create", [True, False])
async def test_a_database_that_cannot_be_opened_is_told_at_once(tmp_path: Path, create: bool) -> None:
    (tmp_path / "fleet.db").mkdir()
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", create=create) as fleet:
        with anyio.fail_after(PATIENCE / 2), pytest.raises(FleetError, match="cannot be used: unable to open"):
            await fleet.list()


@pytest.mark.real_cli
@pytest.mark.parametrize("is_cancelled", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_what_a_prompt_has_spent_counts_although_it_was_ended(tmp_path: Path, is_cancelled: bool) -> None:
    def answer(request: Any) -> Any:
        return Reply(tool_use("Bash", {"command": f"touch {tmp_path}/runs; sleep 300", "description": "Wait"}))

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        fleet.agent("one", model.options(permission_mode="bypassPermissions"))
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("one", "hi", timeout=None if is_cancelled else 8.0, tenant="acme")
            await until((tmp_path / "runs").exists, "its command runs")
            if is_cancelled:
                await session.cancel()
            with pytest.raises(FleetRunError, match="cancelled" if is_cancelled else "RunTimeoutError") as caught:
                await session.result(timeout=PATIENCE)
            assert caught.value.outcome.cost_usd == pytest.approx((await fleet.metrics()).cost_usd["acme"])
            assert caught.value.outcome.cost_usd > 0


@pytest.mark.long
@pytest.mark.real_cli
async def test_an_error_that_may_pass_is_tried_again_and_another_is_a_dead_letter(tmp_path: Path) -> None:
    is_mended = False
    asked = 0

    def answer(request: Any) -> Any:
        nonlocal asked
        asked += 1
        if is_mended:
            return "at last"
        return Failure(529) if asked == 1 else Failure(400, "bad prompt")

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        policy = RetryPolicy(attempts=2, wait=0.1)
        fleet.agent(
            "reviewer", model.options(env={**model.environment(), "CLAUDE_CODE_MAX_RETRIES": "0"}), retry=policy
        )
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("reviewer", "Review auth")
            with pytest.raises(FleetRunError, match="InvalidRequestError") as failed:
                await session.result(timeout=PATIENCE)
            assert (failed.value.outcome.error, failed.value.outcome.attempts) == ("InvalidRequestError", 1)
            [letter] = await fleet.list(state="failed")
            assert "InvalidRequestError" in str(letter.reason)
            is_mended = True
            await session.retry()
            assert (await session.result(timeout=PATIENCE)).text == "at last"


async def test_invalid_arguments_of_a_fleet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="sqlite:///"):
        Fleet("mysql://x:secret@y/z")
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}")
    with pytest.raises(OptionsError, match="store"):
        fleet.worker()
    with pytest.raises(OptionsError, match="no worker has registered an agent 'nobody'"):
        await fleet.start("nobody", "hi")
    with pytest.raises(OptionsError, match="limit: must be a positive number"):
        await fleet.list(limit=0)
    assert await fleet.list(limit=10**30) == []
    assert [entry async for entry in fleet.audit(after=10**30)] == []
    with pytest.raises(FleetError, match="has no session 'x'"):
        await fleet.session("x").info()
    fleet.agent("one")
    await fleet.start("one", "hi", id="x")
    with pytest.raises(OptionsError, match="no worker has registered an agent 'one' of version '7'"):
        await fleet.start("one", "hi", version="7")
    with pytest.raises(OptionsError, match="an agent 'onne'; did you mean 'one'"):
        await fleet.start("onne", "hi")
    for given, told in (
        ({"tenant": "a\ud800"}, "tenant: must be text of at most 200 characters"),
        ({"tenant": None}, "tenant: must be text"),
        ({"priority": "high"}, "priority: must be a whole number"),
        ({"priority": 10**30}, "priority: must be a whole number"),
    ):
        with pytest.raises(OptionsError, match=told):
            await fleet.start("one", "hi", **given)
        with pytest.raises(OptionsError, match=told):
            fleet.schedule("daily", "0 3 * * *", "one", "hi", **given)
    fleet.agent("two")
    with pytest.raises(OptionsError, match="belongs to the agent 'one'"):
        await fleet.start("two", "hi", id="x")
    with pytest.raises(FleetError, match="no open worker"):
        await fleet.drain_forever()
    fleet.close()


@pytest.mark.parametrize("key", ["a\0b", "a\ud800"])
async def test_a_prompt_is_added_once_by_any_key(tmp_path: Path, key: str) -> None:
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}") as fleet:
        fleet.agent("one")
        session = await fleet.start("one", "hi", key=key)
        assert await session.send("hi", key=key) == 1
        assert await session.send("more", key=f"{key}2") == await session.send("more", key=f"{key}2") == 2
        assert await fleet.list(tenant=key) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": ""}, "name: must not be empty"),
        ({"version": ""}, "version: must not be empty"),
        ({"version": "1\ud800"}, "version: must be text of at most 200 characters"),
        ({"until": "end"}, "until: must be 'result' or 'idle', not 'end'"),
        ({"after_failure": "stop"}, "after_failure: must be 'run' or 'fail', not 'stop'"),
        ({"patience": -1}, "patience: must not be negative"),
        ({"timeout": 0}, "timeout: must be more than 0"),
        ({"limit": 0}, "limit: must be more than 0"),
        ({"options": ClientOptions(session_id="7d0f9c1e-1a55-4f1e-9d57-0a4f7b7c3c11")}, "session_id: must not be set"),
    ],
)
async def test_an_agent_that_cannot_be_is_refused(given: Any, told: str, tmp_path: Path) -> None:
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}")
    with pytest.raises(OptionsError, match=told):
        fleet.agent(**{"name": "one", **given})
    fleet.agent("one")
    with pytest.raises(OptionsError, match="agent 'one' of version '1' is already registered"):
        fleet.agent("one")


async def test_ids_that_cannot_be_shown_and_addresses_without_a_file_are_refused(tmp_path: Path) -> None:
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=SQLiteStore(tmp_path / "store.db"))
    assert repr(fleet) == "<Fleet on SQLite, 0 agents>"
    with pytest.raises(OptionsError, match=r"agents: register an agent first"):
        async with fleet.worker():
            pass
    with pytest.raises(OptionsError, match="sessions: must be a positive number"):
        fleet.worker(sessions=0)
    fleet.agent("one")
    for wrong in (" ", "x" * 201, 7):
        with pytest.raises(OptionsError, match="id: must be text of 1 to 200 characters"):
            await fleet.start("one", "hi", id=wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="id: must be printable"):
        await fleet.start("one", "hi", id="a\x1bb")
    with pytest.raises(OptionsError, match="url: must name a file"):
        Fleet("sqlite:///:memory:")


async def test_metrics_for_opentelemetry_need_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}")
    monkeypatch.delitem(sys.modules, "claude_agent_py.fleet._telemetry", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(OptionsError, match="pip install opentelemetry-api"):
        fleet.observe_metrics()


async def test_several_workers_run_in_a_process(tmp_path: Path) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    async with Fleet(url, store=MemoryStore(), poll=0.1, lease=LEASE) as fleet:  # they hear of draining within a third
        fleet.agent("one", ClientOptions(cli_path=program), workspace=Directory(tmp_path))
        async with fleet.worker(sessions=1), fleet.worker(sessions=1):
            assert len(await fleet.workers()) == 2
            sessions = [await fleet.start("one", "hi") for _ in range(4)]
            workers = {(await session.result(timeout=PATIENCE)).worker for session in sessions}
            assert len(workers) == 2
            assert await fleet.drain_workers() == 2
            await fleet.drain_forever()
    assert os.name != "posix" or (tmp_path / "fleet.db").stat().st_mode & 0o777 == 0o600  # it has prompts


@pytest.mark.long
@pytest.mark.real_cli
async def test_interrupting_and_cancelling(tmp_path: Path) -> None:
    gate = Gate()

    def answer(request: Any) -> Any:
        return Reply("late", after=gate) if "slow" in request.last_user_text else "quick"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        fleet.agent("reviewer", model.options())
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("reviewer", "a slow one")
            await session.send("a quick one")
            await until(lambda: gate.reached == 1)
            assert await session.interrupt()
            assert (await session.result(2, timeout=PATIENCE)).text == "quick"
            assert (await session.outcome(1)).error == "InterruptedRunError"
            assert not await session.interrupt()
            await session.send("another slow one")
            await until(lambda: gate.reached == 2)
            assert await session.cancel("no longer needed")
            with pytest.raises(FleetRunError, match="was cancelled: no longer needed"):
                await session.result(timeout=PATIENCE)
            assert not await session.cancel()
            with pytest.raises(FleetError, match="was cancelled"):
                await session.send("more")
        gate.open()
        assert not (tmp_path / "ws" / session.id).exists()
