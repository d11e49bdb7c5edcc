"""What makes a prompt fail and what does not, what becomes of the prompts behind it, and of requests that cross."""

import asyncio
import errno
import os
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from fleets import PATIENCE, execute, fleet_url as fleet_url, until, until_state
from inside import changes
from temporal_server import temporal_server as temporal_server

from claude_agent_py import ClientOptions, RetryPolicy
from claude_agent_py.errors import FleetRunError, OptionsError, StoreError
from claude_agent_py.fleet import Copy, Fleet, FleetSession, Workspace
from claude_agent_py.sessions import MemoryStore, SessionKey, SessionStoreEntry
from claude_agent_py.testing import Failure, FakeCLI, Gate, ScriptedModel, steps

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Picky:
    """A model that refuses prompts with `bad` in them until it is mended."""

    is_mended = False

    def __call__(self, request: Any) -> Any:
        prompt = request.last_user_text.splitlines()[-1]
        return Failure(400, "bad prompt") if prompt == "bad" and not self.is_mended else f"to {prompt}"


@pytest.mark.long
@pytest.mark.real_cli
async def test_prompts_behind_a_failed_one_run(tmp_path: Path, fleet_url: str) -> None:
    with ScriptedModel(Picky()) as model:
        async with Fleet(fleet_url, store=MemoryStore(), poll=0.1) as fleet:
            fleet.agent("one", model.options(), retry=RetryPolicy(attempts=1))
            session = await fleet.start("one", "bad")
            assert await session.send("good") == 2
            async with fleet.worker(folder=tmp_path / "ws"):
                with pytest.raises(FleetRunError, match="InvalidRequestError"):
                    await session.result(1, timeout=PATIENCE)
                assert (await session.result(2, timeout=PATIENCE)).text == "to good"
                assert (await session.info()).state == "idle"


@pytest.mark.long
@pytest.mark.real_cli
async def test_prompts_behind_a_failed_one_fail_with_it_and_are_tried_again_with_it(
    tmp_path: Path, fleet_url: str
) -> None:
    picky = Picky()
    with ScriptedModel(picky) as model:
        async with Fleet(fleet_url, store=MemoryStore(), poll=0.1) as fleet:
            fleet.agent("one", model.options(), retry=RetryPolicy(attempts=1), after_failure="fail")
            session = await fleet.start("one", "good")
            assert [await session.send("bad"), await session.send("better")] == [2, 3]
            async with fleet.worker(folder=tmp_path / "ws"):
                reason = "EarlierPromptFailed: prompt 2 failed: InvalidRequestError: .*bad prompt"
                with pytest.raises(FleetRunError, match=reason):
                    await session.result(3, timeout=PATIENCE)
                info = await session.info()
                assert (info.state, str(info.reason)[:19]) == ("failed", "InvalidRequestError")
                picky.is_mended = True
                assert await session.retry() == 2
                texts = [(await session.result(number, timeout=PATIENCE)).text for number in (1, 2, 3)]
                assert texts == ["to good", "to bad", "to better"]


@pytest.mark.real_cli
async def test_a_prompt_that_would_begin_another_conversation_fails(tmp_path: Path) -> None:
    store = MemoryStore()
    with ScriptedModel() as model:
        async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=store, poll=0.1) as fleet:
            fleet.agent("one", model.options())
            session = await fleet.start("one", "hello")
            await session.send("/clear")
            async with fleet.worker(folder=tmp_path / "ws"):
                with pytest.raises(FleetRunError, match="begins another conversation"):
                    await session.result(2, timeout=PATIENCE)
    assert len(await store.list_sessions("fleet")) == 1


async def test_outcomes_that_may_follow_a_failure(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="after_failure: must be 'run' or 'fail', not 'stop'"):
        Fleet(f"sqlite:///{tmp_path / 'fleet.db'}").agent("one", after_failure="stop")  # type: ignore[arg-type]


def held(folder: Path, url: str, **more: Any) -> tuple[Fleet, Gate]:
    """Return a fleet whose processes answer when the gate opens."""
    gate = Gate()
    program = FakeCLI(steps.wait_gate(gate), steps.turn("ok")).install(folder / "cli")
    fleet = Fleet(url, store=MemoryStore(), **more)
    fleet.agent("one", ClientOptions(cli_path=program, cwd=folder))
    return fleet, gate


@pytest.mark.parametrize("by_scope", [True, False])
async def test_a_cancelled_worker_returns_its_sessions(by_scope: bool, tmp_path: Path, fleet_url: str) -> None:
    """If asyncio cancels it several times in a row, the later ones reach it while it leaves."""
    fleet, _ = held(tmp_path, fleet_url, poll=0.1)
    scope = anyio.CancelScope()

    async def work() -> None:
        with scope:
            async with fleet.worker():
                await anyio.sleep_forever()

    async with fleet:
        session = await fleet.start("one", "go")
        working = asyncio.create_task(work())
        await until_state(session, "running")
        for _ in range(4):
            scope.cancel() if by_scope else working.cancel()
            await asyncio.sleep(0)
        with anyio.fail_after(PATIENCE):
            await asyncio.wait([working])
        assert working.cancelled() != by_scope
        assert (await session.info()).state == "queued"
        assert (await session.outcome()).crashes == 0
        assert await fleet.workers() == []


async def test_a_prompt_is_overdue_although_the_one_before_it_runs(tmp_path: Path, fleet_url: str) -> None:
    fleet, gate = held(tmp_path, fleet_url, poll=0.1, lease=1.0)
    async with fleet, fleet.worker():
        session = await fleet.start("one", "first")
        await until_state(session, "running")
        number = await session.send("second", timeout=0.2)
        with pytest.raises(FleetRunError, match="RunTimeoutError: the prompt was not answered in time"):
            await session.result(number, timeout=PATIENCE)
        assert (await session.info()).state == "running"
        gate.open()
        assert (await session.result(1, timeout=PATIENCE)).text == "ok"
        info = await session.info()
        assert (info.state, str(info.reason)[:15]) == ("failed", "RunTimeoutError")  # a dead letter
        assert await session.retry() == number


async def test_interrupting_does_not_undo_cancelling(tmp_path: Path, fleet_url: str) -> None:
    fleet, _ = held(tmp_path, fleet_url, poll=PATIENCE)
    async with fleet, Fleet(fleet_url) as outside, fleet.worker() as worker:
        session = await fleet.start("one", "first")
        await until_state(session, "running")
        other = outside.session(session.id)  # the worker does not hear of its requests
        assert await other.cancel("no longer needed")
        await other.interrupt()  # the worker may have ended the run before: it looks again after it has begun one
        assert not await other.cancel("a second time")
        worker.wake()
        with pytest.raises(FleetRunError, match="was cancelled: no longer needed"):
            await session.result(timeout=PATIENCE)
        assert (await session.info()).state == "cancelled"


class Unreachable(MemoryStore):
    """A store that cannot be reached for a while."""

    is_away = False

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        if self.is_away:
            raise StoreError("nobody answers")
        return await super().load(key)


async def test_an_outage_of_the_store_uses_up_no_attempts(tmp_path: Path, fleet_url: str) -> None:
    store = Unreachable()
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    async with Fleet(fleet_url, store=store, poll=0.1) as fleet:
        retry = RetryPolicy(attempts=2, wait=0.1, max_wait=0.1)
        fleet.agent("one", ClientOptions(cli_path=program, cwd=tmp_path), retry=retry)
        async with fleet.worker():
            session = await fleet.start("one", "first")
            await session.result(timeout=PATIENCE)
            store.is_away = True
            await session.send("second")

            async def was_tried_often() -> bool:
                found, _ = await fleet._engine.events(session.id, 0, 500)
                return sum(event.data == {"state": "running"} for event in found) > 4

            await until(was_tried_often, "it is tried more often than attempts are allowed")
            store.is_away = False
            outcome = await session.result(timeout=PATIENCE)
            assert (outcome.text, outcome.attempts) == ("ok", 0)


async def begun_conversation(fleet: Fleet, store: MemoryStore) -> tuple[FleetSession, SessionKey]:
    """Start a session whose next prompt continues a conversation in the store."""
    session = await fleet.start("one", "first")
    assert await session.interrupt()
    key: SessionKey = {"project_key": "fleet", "session_id": (await session.info()).cli_session_id}
    entry: Any = {"type": "user", "uuid": str(uuid4()), "message": {"role": "user", "content": "first"}}
    await store.append(key, [entry])
    await session.send("hi")
    return session, key


async def test_the_claim_of_a_session_takes_its_lease(tmp_path: Path, fleet_url: str) -> None:
    """A worker that lost the store could not release the lease, which outlives all attempts."""
    store = MemoryStore()
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    async with Fleet(fleet_url, store=store, poll=0.1) as fleet:
        fleet.agent("one", ClientOptions(cli_path=program, cwd=tmp_path), retry=RetryPolicy(attempts=2, wait=0.1))
        session, key = await begun_conversation(fleet, store)
        await store.acquire_lease(key, "durable turn of before", ttl=600)
        async with fleet.worker():
            outcome = await session.result(timeout=PATIENCE)
        assert (outcome.text, outcome.attempts) == ("ok", 0)


async def test_a_session_that_a_person_has_resumed_waits_for_its_lease(tmp_path: Path, fleet_url: str) -> None:
    store = MemoryStore()
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    async with Fleet(fleet_url, store=store, poll=0.1) as fleet:
        retry = RetryPolicy(attempts=1, wait=0.3, max_wait=0.3)
        fleet.agent("one", ClientOptions(cli_path=program, cwd=tmp_path), retry=retry)
        session, key = await begun_conversation(fleet, store)
        lease = await store.acquire_lease(key, "Ada", ttl=3)  # a worker looks again when it would expire
        async with fleet.worker():

            async def says_so() -> bool:
                nonlocal lease
                lease = await store.renew_lease(lease, ttl=3)
                info = await session.info()
                return info.state == "queued" and "is being written by Ada" in (info.reason or "")

            await until(says_so, "it waits for Ada")
            await store.release_lease(lease)
            outcome = await session.result(timeout=PATIENCE)
            assert (outcome.text, outcome.attempts) == ("ok", 0)


async def test_a_session_whose_store_never_answers_can_be_cancelled(tmp_path: Path, fleet_url: str) -> None:
    store = Unreachable()
    async with Fleet(fleet_url, store=store, poll=0.1) as fleet:
        fleet.agent("one", ClientOptions(cwd=tmp_path), retry=RetryPolicy(attempts=1, wait=0.3, max_wait=0.3))
        session = await fleet.start("one", "first")
        assert await session.interrupt()  # the next prompt looks for the conversation
        store.is_away = True
        await session.send("second")
        async with fleet.worker():

            async def says_so() -> bool:
                return any("nobody answers" in (info.reason or "") for info in await fleet.list(state="queued"))

            await until(says_so, "the reason is listed")
            assert await session.cancel("the store is gone")
            with pytest.raises(FleetRunError, match="was cancelled: the store is gone"):
                await session.result(timeout=PATIENCE)


async def test_overdue_prompts_fail_once(tmp_path: Path, fleet_url: str) -> None:
    async with Fleet(fleet_url, store=MemoryStore(), poll=0.1, lease=0.5) as fleet:
        fleet.agent("one", ClientOptions(cwd=tmp_path), after_failure="fail")
        session = await fleet.start("one", "first", timeout=0.1)
        await session.send("second", timeout=0.1)

        async def is_reaped() -> bool:
            await reap(fleet)
            return (await session.info()).state == "failed"

        await until(is_reaped, "it is overdue")
        assert (await session.outcome(2)).error == "EarlierPromptFailed"
        ends = [event.run async for event in session.events() if event.data.get("state") == "failed"]
        assert ends == [1, 2, 1]  # both prompts, then the session
        assert await session.retry() == 1


class Refusing(Workspace):
    """A workspace that cannot be prepared."""

    def __init__(self, text: str) -> None:
        self._text = text

    def prepare(self, folder: Path, session_id: str) -> Path:
        raise ValueError(self._text)


class Full(Copy):
    """Copies a directory to a disk that is full for a while."""

    is_full = True

    def fill(self, work: Path) -> None:
        super().fill(work)
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(work))


async def test_a_full_disk_uses_up_no_attempts(tmp_path: Path, fleet_url: str) -> None:
    workspace = Full()
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    async with Fleet(fleet_url, store=MemoryStore(), poll=0.1) as fleet:
        retry = RetryPolicy(attempts=2, wait=0.1, max_wait=0.1)
        fleet.agent("one", ClientOptions(cli_path=program), workspace=workspace, retry=retry)
        async with fleet.worker(folder=tmp_path / "ws"):
            session = await fleet.start("one", "first")

            async def was_tried_often() -> bool:
                found = await session.read_events()
                return sum(event.data == {"state": "running"} for event in found) > 4

            await until(was_tried_often, "it is tried more often than attempts are allowed")
            workspace.is_full = False
            outcome = await session.result(timeout=PATIENCE)
            assert (outcome.text, outcome.attempts) == ("ok", 0)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("temporal", marks=pytest.mark.long)])
async def test_an_error_whose_text_a_database_refuses_ends_its_prompt(
    tmp_path: Path, fleet_url: str, text: str, engine: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("temporal_server").new_url() if engine == "temporal" else fleet_url
    async with Fleet(url, store=MemoryStore(), poll=0.1) as fleet:
        fleet.agent("one", ClientOptions(), workspace=Refusing(text))
        session = await fleet.start("one", "hi")
        async with fleet.worker(folder=tmp_path / "ws"):
            with pytest.raises(FleetRunError, match="ValueError"):
                await session.result(timeout=PATIENCE)
            info = await session.info()
            assert (info.state, without_odd(info.reason)) == ("failed", "ValueError: ab")
            assert await session.cancel(text)
            await until_state(session, "cancelled")
            assert without_odd((await session.info()).reason) == "ab"


async def test_a_call_that_lost_its_session_withdraws_no_question_of_it(tmp_path: Path) -> None:
    asked = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t1"}
    gate = Gate()
    program = FakeCLI(
        steps.wait_for_prompt(),
        steps.emit({"type": "control_request", "request_id": "first", "request": asked}),
        steps.wait_gate(gate),
        steps.emit({"type": "control_cancel_request", "request_id": "first"}),
        steps.emit({"type": "control_request", "request_id": "second", "request": {**asked, "tool_use_id": "t2"}}),
        steps.hang(),
    ).install(tmp_path / "cli")
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=MemoryStore(), poll=PATIENCE) as fleet:
        fleet.agent("one", ClientOptions(cli_path=program, cwd=tmp_path), patience=PATIENCE)
        async with fleet.worker() as worker:
            session = await fleet.start("one", "first")
            await until(session.interactions, "it asks")
            execute(fleet, "UPDATE fleet_sessions SET epoch = epoch + 1")  # as another worker does that claims it
            gate.open()
            await until(lambda: "0 of" in repr(worker), "the call has ended")
            assert len(await session.interactions()) == 1


def without_odd(text: str | None) -> str:
    """Leave out what SQLite refuses, and what stands for it. Temporal keeps it."""
    return re.sub("[\0\ud800\ufffd]", "", text or "")


async def test_an_outcome_that_cannot_be_stored_fails_its_prompt(tmp_path: Path, fleet_url: str) -> None:
    fleet, gate = held(tmp_path, fleet_url, poll=0.1)
    async with fleet, fleet.worker():
        session = await fleet.start("one", "first")
        await until_state(session, "running")
        refuse_results(fleet)
        gate.open()
        with pytest.raises(FleetRunError, match="IntegrityError: "):
            await session.result(timeout=PATIENCE)
        assert (await session.info()).state == "failed"


def refuse_results(fleet: Fleet) -> None:
    """Let the database refuse successful runs."""
    when = "BEFORE UPDATE ON fleet_runs WHEN NEW.state = 'done'"
    execute(fleet, f"CREATE TRIGGER refusing {when} BEGIN SELECT RAISE(ABORT, 'not done'); END")


async def reap(fleet: Fleet) -> None:
    """Do what a worker does from time to time: fail overdue prompts."""
    engine: Any = fleet._engine
    await engine.write(changes.fail_overdue)
