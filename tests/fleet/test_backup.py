"""A backup of a fleet that runs, and a new fleet from it: sessions and conversations go on where they were."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from fleets import PATIENCE, FleetSetUp, built, fleet_in, until_state

from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def copy_sqlite(made: FleetSetUp) -> tuple[str, str]:
    paths = []
    for name in ("fleet", "store"):  # the fleet first: what the store has beyond it is found
        paths.append(made.folder / f"{name}-copy.db")
        with closing(sqlite3.connect(made.folder / f"{name}.db")) as old, closing(sqlite3.connect(paths[-1])) as new:
            old.backup(new)
    return f"sqlite:///{paths[0]}", str(paths[1])


@pytest.mark.long
async def test_a_fleet_continues_from_a_backup(tmp_path: Path) -> None:
    def answer(asked: Any) -> Any:
        return built(asked) if "build" in asked.prompt else f"to {asked.last_user_text.splitlines()[0]}"

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        settings: dict[str, Any] = {"options": {"permission_mode": "default"}, "agent": {"patience": 0.2}}
        worker = made.start_worker(**settings)
        fleet = made.fleet()
        fleet.agent("worker")
        one = await fleet.start("worker", "first", id="one")
        await one.result(timeout=PATIENCE)
        asks = await fleet.start("worker", "build", id="asks")
        await until_state(asks, "waiting")
        made.url, made.store_at = await to_thread.run_sync(copy_sqlite, made)
        worker.kill()
        worker.wait()
        restored = made.fleet()
        made.start_worker(**settings)
        [question] = await restored.interactions()
        assert await question.answer({"Which target?": "release"})
        result = await restored.session("asks").result(timeout=PATIENCE)
        assert (result.text, result.crashes) == ("built release", 0), made.logs()
        number = await restored.session("one").send("second")
        assert (await restored.session("one").result(number, timeout=PATIENCE)).text == "to second", made.logs()
        assert "to first" in json.dumps(model.requests[-1].messages)
