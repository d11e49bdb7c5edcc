"""Workers that are killed, or stopped and woken: no session is lost, none is answered twice."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from fleets import LEASE, PATIENCE, FleetSetUp, clis, events_of, fleet_in, task_of, until
from leftovers import is_alive, processes_with
from stoppable_postgres import new_database

from claude_agent_py.fleet import FleetSession
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]


async def stored(made: FleetSetUp, session: FleetSession) -> list[dict[str, Any]]:
    store, info = made.store(), await session.info()
    try:
        found = await store.load({"project_key": "fleet", "session_id": info.cli_session_id})
    finally:
        store.close()
    return [dict(entry) for entry in found or ()]


def answers(entries: list[dict[str, Any]], text: str) -> int:
    return sum(entry["type"] == "assistant" and text in json.dumps(entry["message"]) for entry in entries)


async def until_stored(made: FleetSetUp, session: FleetSession, text: str) -> None:
    async def is_there() -> bool:
        return text in json.dumps(await stored(made, session))

    await until(is_there, f"{text} in the store")


async def test_a_turn_continues_after_its_worker_was_killed_although_clocks_are_an_hour_off(tmp_path: Path) -> None:
    def answer(request: Any) -> Any:
        if not request.tool_results:
            return Reply(
                tool_use("Bash", {"command": "for i in $(seq 300); do sleep 0.2; done", "description": "wait"})
            )
        return "unknown" if "outcome is unknown" in json.dumps(request.tool_results) else "known"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        first = made.start_worker(clock=3600.0)
        fleet.agent("worker")
        begun = time.time()
        session = await fleet.start("worker", "count", id="one", timeout=PATIENCE)
        prompt = (await session.outcome()).prompt_uuid
        await until_stored(made, session, "seq 300")
        before = await events_of_now(session)
        first.kill()
        made.start_worker(clock=-3600.0)
        result = await session.result(timeout=PATIENCE)
        assert (result.text, result.prompt_uuid, result.crashes) == ("unknown", prompt, 1), made.logs()
        assert result.started_at is not None
        assert result.ended_at is not None
        assert begun - 1 < result.started_at < result.ended_at < time.time() + 1
        assert (await fleet.metrics()).crashes == 1
        events = await events_of(session)
        assert events[: len(before)] == before
        assert [e.data["state"] for e in events if e.kind == "run"] == ["queued", "running", "done"]
        await until(lambda: not processes_with(f"HOME={model.sandbox.home}", "seq 300"), "the command is gone")
        entries = await stored(made, session)
        assert [entry["uuid"] for entry in entries if entry["type"] == "user" and entry.get("uuid") == prompt] == [
            prompt
        ]
        assert answers(entries, "unknown") == 1


async def events_of_now(session: FleetSession) -> list[Any]:
    """Return the events so far of a session that runs."""
    last, found = (await session.info()).events, []
    async for event in session.events():
        found.append(event)
        if event.number == last:
            break
    return found


@pytest.mark.parametrize("store", [pytest.param(each, marks=pytest.mark.long) for each in ("SQLite", "PostgreSQL")])
async def test_a_worker_that_slept_past_its_lease_writes_nothing(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    where = None if store == "SQLite" else new_database(request.getfixturevalue("postgres"))
    gate = Gate()
    seen = 0

    def answer(request: Any) -> Any:
        nonlocal seen
        if "quick" in request.last_user_text:
            return "quick"
        seen += 1
        return Reply(f"answer {seen}", after=gate) if seen == 1 else f"answer {seen}"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, store=where) as made:
        fleet = made.fleet()
        sleeper = made.start_worker(machine="a")
        fleet.agent("worker")
        session = await fleet.start("worker", "think", id="one")
        await until_stored(made, session, "think")
        await until(lambda: gate.reached == 1, "the model is asked")
        await made.suspend(sleeper)
        other = made.start_worker(machine="a")
        result = await session.result(timeout=PATIENCE)
        assert result.text == "answer 2", made.logs()
        before = await stored(made, session)
        gate.open()  # the CLI of the sleeper, which nobody stopped, gets its answer
        await anyio.sleep(0.5)
        os.kill(sleeper.pid, signal.SIGCONT)

        async def is_back() -> bool:
            return {worker.pid for worker in await fleet.workers()} == {sleeper.pid, other.pid}

        await until(is_back, "the sleeper is a worker again")
        await until(lambda: len(clis(model)) == 0, "its process is gone")
        after = await stored(made, session)
        assert after == before, made.logs()
        assert answers(after, "answer 1") == 0
        events = await events_of(session)
        assert [e.data["state"] for e in events if e.kind == "run"] == ["queued", "running", "done"]
        other.kill()
        assert is_alive(sleeper.pid)
        await session.send("quick")  # which the sleeper answers
        assert (await session.result(timeout=PATIENCE)).text == "quick"
        assert LEASE < 10


@pytest.mark.long
async def test_four_sessions_on_three_workers_one_of_which_is_killed_at_work(tmp_path: Path) -> None:
    gate = Gate()

    def answer(request: Any) -> Reply:
        task = task_of(request)
        return Reply(f"to {task}", after=gate if task == "task 3" else None)

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        workers = [made.start_worker(sessions=1) for _ in range(3)]
        fleet.agent("worker")
        sessions = [await fleet.start("worker", f"task {i}", id=f"s{i}") for i in range(4)]
        await until(lambda: gate.reached == 1, "one is done, and the last one is at work")
        info = await sessions[-1].info()
        [at_work] = [worker.pid for worker in await fleet.workers() if worker.id == info.worker]
        [killed] = [process for process in workers if process.pid == at_work]
        killed.kill()
        gate.open()
        for i, session in enumerate(sessions):
            result = await session.result(timeout=PATIENCE)
            assert result.text == f"to task {i}", made.logs()
            events = await events_of(session)
            assert [e.data["state"] for e in events if e.kind == "run"] == ["queued", "running", "done"]
            assert answers(await stored(made, session), f"task {i}") == 1
        await fleet.drain_workers()
        for process in workers:
            process.wait(60)
        assert {process: process.returncode for process in workers} == {
            **dict.fromkeys(workers, 0),
            killed: -signal.SIGKILL,
        }
        assert clis(model) == []
