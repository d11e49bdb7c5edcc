"""Workers of a fleet on one machine are killed and stopped at any moment: each command runs once, nothing is left."""

import json
import os
import random
import shlex
import signal
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from fleets import PATIENCE, FleetSetUp, clis, events_of, fleet_in, until
from leftovers import processes_with

from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.long,
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGKILL and SIGSTOP"),
]

SESSIONS = int(os.environ.get("CHAOS_SESSIONS", "6"))
KILLS = int(os.environ.get("CHAOS_KILLS", "6"))
LEASE = 2.0


def answer(folder: Path) -> Any:
    """Return a model that runs a command, and looks what became of it if it was cut off."""

    def say(request: Any) -> Any:
        name = next(word for word in json.dumps(request.messages[0]).split() if word.startswith("paid-"))
        file = shlex.quote(str(folder / name))
        if not request.tool_results:
            pay = f"sleep 0.3; echo once >> {file}; sleep 0.3"
            return Reply(tool_use("Bash", {"command": pay, "description": "pay"}))
        if request.tool_results[-1].get("is_error"):  # it was cut off
            look = f"sleep 1; test -s {file} || echo once >> {file}"
            return Reply(tool_use("Bash", {"command": look, "description": "look"}))
        return "paid"

    return say


async def disturb(made: FleetSetUp, chance: random.Random) -> None:
    """Kill workers, each third time only stop one for longer than its lease, and replace them."""
    for i in range(KILLS):
        await anyio.sleep(chance.uniform(0.3, 2.5))
        alive = [process for process in made.processes if process.poll() is None]
        victim = chance.choice(alive)
        if i % 3 == 2:
            await made.suspend(victim)
            await anyio.sleep(LEASE * 1.7)
            os.kill(victim.pid, signal.SIGCONT)
        else:
            victim.kill()
            made.start_worker(lease=LEASE, sessions=3, max_crashes=KILLS)


async def test_each_command_runs_once_whatever_becomes_of_the_workers(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("CHAOS_SEED", "1")))
    ran = tmp_path / "ran"
    ran.mkdir()
    with ScriptedModel(answer(ran)) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        fleet.agent("worker")
        sessions = [await fleet.start("worker", f"pay paid-{i} now", id=f"s{i}") for i in range(SESSIONS)]
        for _ in range(2):
            made.start_worker(lease=LEASE, sessions=3, max_crashes=KILLS)
        async with anyio.create_task_group() as group:
            group.start_soon(disturb, made, chance)
            for session in sessions:
                outcome = await session.result(timeout=PATIENCE * max(1, KILLS / 10))
                assert outcome.text == "paid", made.logs()
        assert {path.name: path.read_text() for path in ran.iterdir()} == {
            f"paid-{i}": "once\n" for i in range(SESSIONS)
        }, made.logs()
        with closing(made.store()) as store:
            for session in sessions:
                events = await events_of(session)
                assert [e.data["state"] for e in events if e.kind == "run"] == ["queued", "running", "done"]
                key = {"project_key": "fleet", "session_id": (await session.info()).cli_session_id}
                entries = await store.load(key)
                sent = [e for e in entries if "pay paid" in str(e.get("message", {}).get("content"))]
                assert len(sent) == 1
        await fleet.drain_workers()
        for process in made.processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            assert process.wait(60) in (0, -signal.SIGKILL), made.logs()
        await until(lambda: not clis(model) and not processes_with(str(ran)), "nothing is left")
