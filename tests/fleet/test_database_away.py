"""The database goes away while sessions run, wait and are begun, and comes back: work goes on, each session ends once."""

import json
import re
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import pytest
from fleets import PATIENCE, FleetSetUp, clis, events_of, fleet_in, until, until_state
from stoppable_postgres import PostgresServer

from claude_agent_py import Allow
from claude_agent_py.fleet import FleetSession
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of a new database."""
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        name = f"away_{connection.info.backend_pid}"
        connection.execute(f"CREATE DATABASE {name}".encode())
    return urlunsplit(urlsplit(postgres.url)._replace(path=f"/{name}"))


class Work:
    """Two workers with a session that thinks, one that waits for a person, and some that wait for their turn."""

    TEXTS = ("think", "ask", "a", "b", "c")

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
        for text in self.TEXTS[2:]:
            self.sessions[text] = await self.fleet.start("worker", f"task-{text}", id=text)

    async def wait_for_results(self) -> None:
        for text, session in self.sessions.items():
            self.results[text] = (await session.result(timeout=PATIENCE)).text

    async def follow(self) -> None:
        async for event in self.sessions["think"].events(follow=True):
            self.events.append(event)

    async def until_workers_have_noticed(self) -> None:
        def have() -> bool:
            logs = [path.read_text() for path in self.made.folder.glob("worker-*.log")]
            return all("cannot tell of itself" in log for log in logs)

        await until(have, "both workers notice")

    async def check(self) -> None:
        logs = self.made.logs
        assert self.results == {text: f"to {text}" for text in self.TEXTS}, logs()
        for text, session in self.sessions.items():
            events = await events_of(session)
            assert [e.data["state"] for e in events if e.kind == "run"] == ["queued", "running", "done"], logs()
            stored = await self.made.store().load(
                {"project_key": "fleet", "session_id": (await session.info()).cli_session_id}
            )
            said = [e for e in stored or () if e["type"] == "assistant" and f"to {text}" in json.dumps(e["message"])]
            assert len(said) == 1
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


@pytest.mark.parametrize("how", ["stopped", "frozen"])
async def test_postgres_goes_away(tmp_path: Path, postgres: PostgresServer, url: str, how: str) -> None:
    gate = Gate()
    with ScriptedModel(answer(gate)) as model, fleet_in(tmp_path, model, url=url, store=url) as made:
        work = Work(made, gate)
        await work.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(work.follow)
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(work.wait_for_results)
                [question] = await work.sessions["ask"].interactions()
                if how == "stopped":
                    postgres.stop(signal.SIGQUIT)
                else:
                    postgres.freeze()
                try:
                    waiting.start_soon(work.sessions["ask"].answer, question.id, Allow())
                    gate.open()  # the result comes while there is no database
                    await work.until_workers_have_noticed()
                finally:
                    postgres.start() if how == "stopped" else postgres.thaw()
            await until(lambda: work.events and work.events[-1].data == {"state": "idle"}, "the events are followed")
            group.cancel_scope.cancel()
        await work.check()
