"""The database goes away while sessions run and wait, and comes back: work goes on, and each session ends once."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from anyio import to_thread
from fleets import PATIENCE, FleetSetUp, clis, database_of, events_of, fleet_in, new_database, until, until_state
from stoppable_postgres import PostgresServer

from claude_agent_py import Allow
from claude_agent_py.errors import FleetError, FleetTimeoutError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.fleet._dbos import _database
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of a new database."""
    return new_database(postgres)


LOCK = """
import sqlite3, sys
held = [sqlite3.connect(path, isolation_level=None, timeout=60) for path in sys.argv[1:]]
for connection in held:
    connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
for connection in held:
    connection.close()
"""


class Work:
    """Two workers with a session that thinks, one that waits for a person, and one that waits for its turn."""

    TEXTS = ("think", "ask", "next")

    def __init__(self, made: FleetSetUp, gate: Gate) -> None:
        self.made = made
        self.gate = gate
        self.fleet = made.fleet()
        self.sessions: dict[str, FleetSession] = {}
        self.results: dict[str, str] = {}
        self.events: list[Any] = []

    async def begin(self) -> None:
        for _ in range(2):
            self.made.start_worker(sessions=1, options={"permission_mode": "default"}, agent={"patience": 0.3})
        self.fleet.agent("worker")
        self.sessions["ask"] = await self.fleet.start("worker", "task-ask", id="ask")
        await until_state(self.sessions["ask"], "waiting")
        self.sessions["think"] = await self.fleet.start("worker", "task-think", id="think")
        await until(lambda: self.gate.reached == 1, "the model is asked")
        self.sessions["next"] = await self.fleet.start("worker", "task-next", id="next")

    async def wait_for_results(self) -> None:
        for text, session in self.sessions.items():
            outcome = await session.result(timeout=PATIENCE)
            self.results[text] = outcome.text
            assert outcome.crashes == 0, self.made.logs()  # nobody adopts what is alive

    async def follow(self) -> None:
        async for event in self.sessions["think"].events(follow=True):
            self.events.append(event)

    async def until_workers_have_noticed(self) -> None:
        def have() -> bool:
            logs = [path.read_text() for path in self.made.folder.glob("worker-*.log")]
            return all("could not send a heartbeat" in log for log in logs)

        await until(have, "both workers notice")

    async def check(self) -> None:
        logs = self.made.logs
        assert self.results == {text: f"to {text}" for text in self.TEXTS}, logs()
        store = self.made.store()
        for text, session in self.sessions.items():
            events = await events_of(session)
            assert [e.data["state"] for e in events if e.kind == "run"] == ["queued", "running", "done"], logs()
            key = (await session.info()).cli_session_id
            stored = await store.load({"project_key": "fleet", "session_id": key})
            said = [e for e in stored or () if e["type"] == "assistant" and f"to {text}" in json.dumps(e["message"])]
            assert len(said) == 1
        store.close()
        assert [event.number for event in self.events] == list(range(1, len(self.events) + 1))
        assert self.events[-1].data == {"state": "idle"}
        assert [process.poll() for process in self.made.processes] == [None, None], logs()
        await self.fleet.drain_workers()
        assert [process.wait(60) for process in self.made.processes] == [0, 0], logs()
        assert clis(self.made.model) == []


def answer(gate: Gate) -> Callable[[Any], Any]:
    def say(request: Any) -> Any:
        [said] = set(re.findall(r"task-(\w+)", json.dumps(request.messages)))
        if said == "ask" and not request.tool_results:
            return Reply(tool_use("Bash", {"command": "touch made", "description": "make"}))
        return Reply(f"to {said}", after=gate) if said == "think" else f"to {said}"

    return say


async def goes_on(work: Work, leave: Callable[[], object], come_back: Callable[[], object]) -> None:
    """Let the database leave, wait until everybody has noticed, let it come back, and check what became of it all."""
    await work.begin()
    async with anyio.create_task_group() as group:
        group.start_soon(work.follow)
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(work.wait_for_results)
            [question] = await work.sessions["ask"].interactions()
            try:
                await to_thread.run_sync(leave)
                waiting.start_soon(work.sessions["ask"].answer, question.id, Allow())
                work.gate.open()  # the result comes while there is no database
                with pytest.raises(FleetTimeoutError):
                    await work.sessions["next"].result(timeout=0.1)
                await work.until_workers_have_noticed()
            finally:
                with anyio.CancelScope(shield=True):  # else a server that is frozen would fail all other tests, too
                    await to_thread.run_sync(come_back)
        await until(lambda: work.events and work.events[-1].data == {"state": "idle"}, "the events are followed")
        group.cancel_scope.cancel()
    await work.check()


@pytest.mark.real_cli
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("how", ["stopped", "frozen"])
async def test_postgres_goes_away(tmp_path: Path, postgres: PostgresServer, url: str, how: str) -> None:
    gate = Gate()
    ways: dict[str, tuple[Callable[[], None], Callable[[], None]]]
    ways = {"stopped": (partial(postgres.stop, signal.SIGQUIT), postgres.start)}
    ways["frozen"] = (postgres.freeze, postgres.thaw)
    with ScriptedModel(answer(gate)) as model, fleet_in(tmp_path, model, url=url, store=url) as made:
        await goes_on(Work(made, gate), *ways[how])


@pytest.mark.real_cli
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_sqlite_is_locked_by_another_process(tmp_path: Path) -> None:
    gate, locks = Gate(), list[subprocess.Popen[bytes]]()
    with ScriptedModel(answer(gate)) as model, fleet_in(tmp_path, model) as made:

        def lock() -> None:
            files = [str(tmp_path / "fleet.db"), str(tmp_path / "store.db")]
            command, pipe = [sys.executable, "-c", LOCK, *files], subprocess.PIPE
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
            locks.append(process)
            assert process.stdout is not None
            assert process.stdout.readline()

        def unlock() -> None:
            for process in locks:
                process.communicate()

        await goes_on(Work(made, gate), lock, unlock)


async def test_calls_to_a_database_that_does_not_answer_say_that_they_may_be_repeated(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Fleet(url) as fleet:
        fleet.agent("worker")
        session = await fleet.start("worker", "task", id="one")  # makes the tables, which takes a moment
        postgres.freeze()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(_database, "AWAY_SECONDS", 0.1)
                patch.setattr(_database, "ANSWER_SECONDS", 0.5)
                for call in (session.info, partial(session.send, "more"), lambda: anext(session.events())):
                    with pytest.raises(FleetError, match=r"try again later: no answer within 0\.5 s") as raised:
                        await call()
                    assert raised.value.is_retryable
            with anyio.move_on_after(0.2) as scope:
                await session.result()
            assert scope.cancelled_caught
        finally:
            postgres.thaw()
        assert (await session.info()).runs == 1
        with pytest.raises(FleetError, match="no session") as wrong:
            await fleet.session("two").info()
        assert not wrong.value.is_retryable


@pytest.mark.one_backend
async def test_a_process_that_is_stopped_in_a_transaction_holds_up_nobody(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_database, "FROZEN_SECONDS", 1)
    stopped, go_on = anyio.Event(), threading.Event()

    def stop(connection: Any) -> None:
        _database.lock(connection)
        if go_on.is_set():
            return
        anyio.from_thread.run_sync(stopped.set)
        go_on.wait()

    async with Fleet(url) as frozen, Fleet(url) as fleet, anyio.create_task_group() as group:
        fleet.agent("worker")
        await fleet.list()  # makes the tables
        group.start_soon(database_of(frozen).write, stop)
        try:
            await stopped.wait()
            with anyio.fail_after(PATIENCE):
                await fleet.start("worker", "task", id="one")
        finally:
            go_on.set()  # it is rolled back, and tried again
