"""Fleets for tests: their database and store in a folder or on a server, and workers in processes of their own."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from forks import FLEET, TEMPORAL, Program
from leftovers import processes_with
from questions import asking

from claude_agent_py.errors import FleetError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.sessions import PostgresStore, SQLiteStore
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel, tool_use

PATIENCE = 100.0
"""For how long a test waits for what is about to happen, in seconds."""
LEASE = 3.0
COST = 0.0006
"""The cost of a request to the scripted model that is answered at once, in US dollars."""

WORKER = """
import json, sys, anyio
given = json.loads(sys.argv[1])
if given["clock"]:
    import time
    real = time.time
    time.time = lambda: real() + given["clock"]
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import PostgresStore, SQLiteStore
store = SQLiteStore(given["store"]) if not given["store"].startswith("postgres") else PostgresStore(given["store"])
fleet = Fleet(given["url"], store=store, poll=0.2, **given["fleet"])
fleet.agent("worker", ClientOptions(inherit_env=False, **given["options"]), **given["agent"])
async def main():
    async with fleet.worker(**given["worker"]):
        await fleet.drain_forever()
anyio.run(main)
"""


def task_of(request: RecordedRequest) -> str:
    """Return the prompt that a model was sent. A CLI that takes up a turn adds that it is to continue."""
    return request.prompt.splitlines()[0]


QUESTION = asking("Which target?", "debug", "release")


def built(request: RecordedRequest) -> Reply:
    """Ask which target to build, and then say which one was built."""
    if not request.tool_results:
        return Reply(tool_use("AskUserQuestion", QUESTION))
    return Reply("built " + ("release" if "release" in json.dumps(request.tool_results[-1]) else "?"))


def given_options(model: ScriptedModel, **more: Any) -> dict[str, Any]:
    """Return options for a process of the scripted model, as JSON."""
    return {"env": dict(model.environment()), "permission_mode": "bypassPermissions", **more}


class FleetSetUp:
    """A fleet in a folder: its database, its store, and worker processes, which end with the block."""

    def __init__(self, folder: Path, model: ScriptedModel, *, url: str | None = None, store: str | None = None) -> None:
        self.folder = folder
        self.model = model
        self.url = url or f"sqlite:///{folder / 'fleet.db'}"
        self.store_at = store or str(folder / "store.db")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.fleets: list[Fleet] = []

    def fleet(self, **more: Any) -> Fleet:
        """Return the fleet for this process."""
        made = Fleet(self.url, store=self.store(), **{"lease": LEASE, "poll": 0.1, **more})
        self.fleets.append(made)
        return made

    def store(self) -> Any:
        """Return the session store."""
        return PostgresStore(self.store_at) if self.store_at.startswith("postgres") else SQLiteStore(self.store_at)

    def start_worker(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        agent: Mapping[str, Any] | None = None,
        lease: float = LEASE,
        max_crashes: int = 5,
        fleet: Mapping[str, Any] | None = None,
        clock: float = 0.0,
        **worker: Any,
    ) -> "subprocess.Popen[bytes]":
        """Start a worker in a process of its own, whose clock is off by some seconds."""
        given = {
            "url": self.url,
            "store": self.store_at,
            "fleet": {"lease": lease, "max_crashes": max_crashes, **(fleet or {})},
            "clock": clock,
            "options": given_options(self.model, **(options or {})),
            "agent": dict(agent or {}),
            "worker": {"folder": str(self.folder / "workspaces"), **worker},
        }
        log = (self.folder / f"worker-{len(self.processes)}.log").open("wb")
        with log:
            command = [sys.executable, "-c", WORKER, json.dumps(given)]
            preloaded = TEMPORAL if self.url.startswith("temporal") else FLEET
            process = Program(command, preloaded=preloaded, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    async def suspend(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop the only worker between two transactions.

        In a transaction, it would lock out the other workers for as long as it is stopped.
        """
        while True:
            os.kill(process.pid, signal.SIGSTOP)
            # Returns once all of its threads have stopped.
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), self.logs()
            if not self._has_transaction():
                return
            os.kill(process.pid, signal.SIGCONT)
            await anyio.sleep(0.01)

    def _has_transaction(self) -> bool:
        for path in (
            self.url.removeprefix("sqlite:///"),
            *([] if self.store_at.startswith("postgres") else [self.store_at]),
        ):
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    return True
                connection.execute("ROLLBACK")
        return False

    def logs(self) -> str:
        """Return what the workers printed."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("worker-*.log")))

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for fleet in self.fleets:
            fleet.close()


@contextmanager
def fleet_in(folder: Path, model: ScriptedModel, **more: Any) -> Iterator[FleetSetUp]:
    """Make a fleet, and end its workers."""
    made = FleetSetUp(folder, model, **more)
    try:
        yield made
    finally:
        made.end()


async def until(is_so: Callable[[], Any], what: str = "") -> None:
    """Wait until something is so. A server that is too busy to tell is asked again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = is_so()
        if hasattr(found, "__await__"):
            try:
                found = await found
            except FleetError as error:
                if not error.is_retryable:
                    raise
                found = False
        if found:
            return
        assert time.monotonic() < deadline, f"it never happened: {what}"
        await anyio.sleep(0.05)


async def until_state(session: FleetSession, state: str) -> None:
    """Wait until a session is in a state."""

    async def is_there() -> bool:
        return (await session.info()).state == state

    await until(is_there, f"{session.id} {state}")


async def events_of(session: FleetSession) -> list[Any]:
    """Return the events of a session so far, and check that their numbers have no gaps."""
    found = [event async for event in session.events()]
    assert [event.number for event in found] == list(range(1, len(found) + 1))
    return found


def execute(fleet: Fleet, statement: str, **values: object) -> list[Any]:
    """Run a statement on the file of a fleet, and return the rows that it finds."""
    engine: Any = fleet._engine
    with closing(sqlite3.connect(engine.path, timeout=PATIENCE)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def clis(model: ScriptedModel) -> list[int]:
    """Return the processes of the CLI that run for a model."""
    found: list[int] = processes_with(f"HOME={model.sandbox.home}", "--output-format")
    return found


@pytest.fixture
def fleet_url(tmp_path: Path) -> str:
    """Return the URL of a new fleet."""
    return f"sqlite:///{tmp_path / 'fleet.db'}"
