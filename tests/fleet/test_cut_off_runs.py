"""Workers that are killed late in a turn: what was done is not done again, asked again or forgotten."""

import json
import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from fleets import (
    LEASE,
    PATIENCE,
    FleetSetUp,
    clis,
    events_of,
    fleet_in,
    fleet_url as fleet_url,
    given_options,
    until,
    until_state,
)
from temporal_server import temporal_server as temporal_server

from claude_agent_py import Allow, ClientOptions, RetryPolicy
from claude_agent_py.errors import StoreError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.sessions import SessionKey, SessionListSubkeysKey, SessionStoreEntry, SQLiteStore
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.long,
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]

ASKING: dict[str, Any] = {"permission_mode": "default"}
PROCESSES_END: dict[str, Any] = {"options": ASKING, "agent": {"patience": 0.2}}


@pytest.mark.parametrize("has_files", [True, False], ids=["same machine", "other machine"])
async def test_an_approved_command_runs_once_when_its_worker_is_killed(
    tmp_path: Path, fleet_url: str, has_files: bool
) -> None:
    ran = tmp_path / "ran"
    command = f"echo once >> {ran}; sleep 300"

    def answer(request: Any) -> Any:
        if request.tool_results:
            return "it was cut off"
        return Reply(tool_use("Bash", {"command": command, "description": "build"}))

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=fleet_url) as made:
        fleet = made.fleet()
        worker = made.start_worker(**PROCESSES_END)
        fleet.agent("worker")
        session = await fleet.start("worker", "build it", id="one")
        await until_state(session, "waiting")
        [question] = await session.interactions()
        assert await session.answer(question.id, Allow(), by="Ada")
        await until(ran.exists, "the command runs")
        worker.kill()
        worker.wait()
        elsewhere = {} if has_files else {"CLAUDE_CONFIG_DIR": str(tmp_path / "other machine")}
        options = {**ASKING, "env": {**model.environment(), **elsewhere}}
        made.start_worker(**{**PROCESSES_END, "options": options})
        result = await session.result(timeout=PATIENCE)
        assert result.text == "it was cut off", made.logs()
        assert ran.read_text() == "once\n"
        asked = [event for event in await events_of(session) if event.kind == "interaction"]
        assert [event.data["state"] for event in asked] == ["pending", "answered"]
        with closing(made.store()) as conversations:
            entries = await conversations.load({"project_key": "fleet", "session_id": result.cli_session_id})
        assert sum(entry.get("message", {}).get("content") == "build it" for entry in entries) == 1


class Unreachable(SQLiteStore):
    """A store that cannot be read for a while."""

    refusals = 0
    is_away = True

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        if self.is_away:
            self.refusals += 1
            raise StoreError("nobody answers")
        return await super().load(key)


def build(ran: Path) -> Callable[[Any], Any]:
    """Return a model that runs a command, and answers once the command has a result."""

    def answer(request: Any) -> Any:
        if request.tool_results:
            return "it was cut off"
        return Reply(tool_use("Bash", {"command": f"echo once >> {ran}; sleep 300", "description": "build"}))

    return answer


async def until_it_runs(made: FleetSetUp, session: FleetSession, ran: Path) -> None:
    """Wait until the command runs, and the store knows of it."""
    await until(ran.exists, "the command runs")
    key: SessionKey = {"project_key": "fleet", "session_id": (await session.info()).cli_session_id}

    async def is_stored() -> bool:
        with closing(made.store()) as conversations:
            return "sleep 300" in json.dumps(await conversations.load(key))

    await until(is_stored, "its call is stored")


async def test_a_command_runs_once_when_its_process_is_killed(tmp_path: Path, fleet_url: str) -> None:
    ran = tmp_path / "ran"
    with ScriptedModel(build(ran)) as model, fleet_in(tmp_path, model, url=fleet_url) as made:
        fleet = made.fleet()
        made.start_worker()
        fleet.agent("worker")
        session = await fleet.start("worker", "build it", id="one")
        await until_it_runs(made, session, ran)
        for pid in clis(model):
            os.kill(pid, signal.SIGKILL)
        outcome = await session.result(timeout=PATIENCE)
        assert (outcome.text, outcome.attempts) == ("it was cut off", 1), made.logs()
        assert ran.read_text() == "once\n"


async def test_a_command_runs_once_when_the_store_is_away_after_its_worker_was_killed(
    tmp_path: Path, fleet_url: str
) -> None:
    ran = tmp_path / "ran"
    with ScriptedModel(build(ran)) as model, fleet_in(tmp_path, model, url=fleet_url) as made:
        worker = made.start_worker()
        async with made.fleet() as outside:
            outside.agent("worker")
            session = await outside.start("worker", "build it", id="one")
            await until_it_runs(made, session, ran)
        worker.kill()
        worker.wait()
        store = Unreachable(made.store_at)
        async with Fleet(fleet_url, store=store, lease=LEASE, poll=0.1) as fleet:
            options = ClientOptions(inherit_env=False, **given_options(model))
            fleet.agent("worker", options, retry=RetryPolicy(attempts=1, wait=0.1))
            async with fleet.worker(folder=tmp_path / "workspaces"):
                await until(lambda: store.refusals > 1, "the store is asked")
                store.is_away = False
                outcome = await fleet.session(session.id).result(timeout=PATIENCE)
        assert (outcome.text, outcome.attempts) == ("it was cut off", 0)
        assert ran.read_text() == "once\n"


async def test_a_result_whose_worker_died_keeps_its_cost(tmp_path: Path, fleet_url: str) -> None:
    """The worker waits for a background task when it dies: the answer is stored, and its result is an event."""

    def answer(request: Any) -> Any:
        if request.tool_results:
            return "it runs"
        waiting = {"command": "sleep 300", "description": "wait", "run_in_background": True}
        return Reply(tool_use("Bash", waiting))

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=fleet_url) as made:
        fleet = made.fleet()
        worker = made.start_worker(agent={"until": "idle"})
        fleet.agent("worker")
        session = await fleet.start("worker", "build it", id="one")
        results: list[Any] = []

        async def has_result() -> bool:
            found, _ = await fleet._engine.events("one", 0, 500)
            ends = ("result", "turn_ended")
            results[:] = [event.data for event in found if event.data.get("type", event.data.get("fact")) in ends]
            with closing(made.store()) as conversations:
                key = {"project_key": "fleet", "session_id": (await session.info()).cli_session_id}
                return bool(results) and "it runs" in json.dumps(await conversations.load(key))

        await until(has_result, "it is answered")
        worker.kill()
        worker.wait()
        made.start_worker()
        outcome = await session.result(timeout=PATIENCE)
        assert (outcome.text, outcome.is_recovered, outcome.crashes) == ("it runs", True, 1), made.logs()
        assert outcome.cost_usd == results[-1].get("total_cost_usd", results[-1].get("cost_usd")) > 0


@pytest.mark.parametrize("is_resumed", [True, False], ids=["resumed", "new"])
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("temporal", marks=pytest.mark.long)])
async def test_a_prompt_is_sent_once_when_the_store_is_away_and_its_worker_is_killed(
    tmp_path: Path, is_resumed: bool, engine: str, request: pytest.FixtureRequest
) -> None:
    """The turn ends, but only this machine has all of it."""
    url = request.getfixturevalue("temporal_server").new_url() if engine == "temporal" else None
    ran = tmp_path / "ran"
    lock = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)

    def answer(request: Any) -> Any:
        if "pay" not in json.dumps(request.messages):
            return "hi"
        if request.tool_results and not lock.in_transaction:
            lock.execute("BEGIN IMMEDIATE")
        if request.tool_results:
            return "it is paid"
        return Reply(tool_use("Bash", {"command": f"echo once >> {ran}", "description": "pay"}))

    with closing(lock), ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=url) as made:
        fleet = made.fleet()
        worker = made.start_worker()
        fleet.agent("worker")
        session = await fleet.start("worker", "hello" if is_resumed else "pay", id="one")
        if is_resumed:
            await session.result(timeout=PATIENCE)
            await session.send("pay")
        conversation = (await session.info()).cli_session_id

        def is_written() -> bool:
            private = Path(tempfile.gettempdir()).glob("claude-agent-py-session-*")
            for folder in (*private, Path(model.sandbox.home) / ".claude"):
                for path in folder.glob(f"projects/*/{conversation}.jsonl"):
                    with suppress(FileNotFoundError):  # what the store lacks is moved when the process ends
                        if "it is paid" in path.read_text():
                            return True
            return False

        await until(is_written, "the answer is on this machine")
        worker.kill()
        worker.wait()
        lock.execute("ROLLBACK")
        made.start_worker()
        outcome = await session.result(timeout=PATIENCE)
        assert (outcome.text, outcome.is_recovered, outcome.crashes) == ("it is paid", True, 1), made.logs()
        assert ran.read_text() == "once\n"
        with closing(made.store()) as conversations:
            entries = await conversations.load({"project_key": "fleet", "session_id": conversation})
        assert [entry["uuid"] for entry in entries if entry.get("message", {}).get("content") == "pay"] == [
            outcome.prompt_uuid
        ]


class Lagging(SQLiteStore):
    """A store that returns no answers until a process gets a copy of the session."""

    is_current = False

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        found = await super().load(key)
        return found if self.is_current else [entry for entry in found or () if entry["type"] != "assistant"]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        self.is_current = True
        return await super().list_subkeys(key)


async def test_an_answer_that_arrives_while_a_process_starts_is_taken(tmp_path: Path) -> None:
    with ScriptedModel(lambda request: "it is paid") as model, fleet_in(tmp_path, model) as made:
        with closing(sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)) as lock:
            worker = made.start_worker()
            async with made.fleet() as outside:
                outside.agent("worker")
                session = await outside.start("worker", "pay", id="one")
                conversation = (await session.info()).cli_session_id

            async def is_answered() -> bool:
                if model.requests and not lock.in_transaction:
                    lock.execute("BEGIN IMMEDIATE")  # its worker cannot settle it
                with closing(made.store()) as conversations:
                    key: SessionKey = {"project_key": "fleet", "session_id": conversation}
                    return "it is paid" in json.dumps(await conversations.load(key))

            await until(is_answered, "the answer is stored")
            worker.kill()
            worker.wait()
        async with Fleet(made.url, store=Lagging(made.store_at), lease=LEASE, poll=0.1) as fleet:
            env = {**model.environment(), "CLAUDE_CONFIG_DIR": str(tmp_path / "other machine")}
            fleet.agent("worker", ClientOptions(inherit_env=False, **{**given_options(model), "env": env}))
            async with fleet.worker(folder=tmp_path / "workspaces"):
                outcome = await fleet.session("one").result(timeout=PATIENCE)
        assert (outcome.text, outcome.is_recovered, len(model.requests)) == ("it is paid", True, 1)
