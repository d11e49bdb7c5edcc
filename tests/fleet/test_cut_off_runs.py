"""Workers that are killed late in a turn: what was done is not done again, asked again or forgotten."""

import json
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fleets import PATIENCE, any_url as any_url, events_of, fleet_in, until, until_state

from claude_agent_py import Allow
from claude_agent_py.fleet import _rows
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]

ASKING: dict[str, Any] = {"permission_mode": "default"}
PROCESSES_END: dict[str, Any] = {"options": ASKING, "agent": {"patience": 0.2}}


@pytest.mark.parametrize("has_files", [True, False], ids=["same machine", "other machine"])
async def test_an_approved_command_runs_once_when_its_worker_is_killed(
    tmp_path: Path, any_url: str, has_files: bool
) -> None:
    ran = tmp_path / "ran"
    command = f"echo once >> {ran}; sleep 300"

    def answer(request: Any) -> Any:
        if request.tool_results:
            return "it was cut off"
        return Reply(tool_use("Bash", {"command": command, "description": "build"}))

    store = any_url if any_url.startswith("postgres") else None
    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=any_url, store=store) as made:
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


async def test_a_result_whose_worker_died_keeps_its_cost(tmp_path: Path, any_url: str) -> None:
    """The worker waits for a background task when it dies: the answer is stored, and its result is an event."""

    def answer(request: Any) -> Any:
        if request.tool_results:
            return "it runs"
        waiting = {"command": "sleep 300", "description": "wait", "run_in_background": True}
        return Reply(tool_use("Bash", waiting))

    store = any_url if any_url.startswith("postgres") else None
    with ScriptedModel(answer) as model, fleet_in(tmp_path, model, url=any_url, store=store) as made:
        fleet = made.fleet()
        worker = made.start_worker(agent={"until": "idle"})
        fleet.agent("worker")
        session = await fleet.start("worker", "build it", id="one")
        results: list[Any] = []

        async def has_result() -> bool:
            found, _ = await fleet.database.read(_rows.load_events, "one", 0, 500)
            results[:] = [event.data for event in found if event.data.get("type") == "result"]
            with closing(made.store()) as conversations:
                key = {"project_key": "fleet", "session_id": (await session.info()).cli_session_id}
                return bool(results) and "it runs" in json.dumps(await conversations.load(key))

        await until(has_result, "it is answered")
        worker.kill()
        worker.wait()
        made.start_worker()
        outcome = await session.result(timeout=PATIENCE)
        assert (outcome.text, outcome.is_recovered, outcome.crashes) == ("it runs", True, 1), made.logs()
        assert (outcome.cost_usd, outcome.num_turns) == (results[-1]["total_cost_usd"], 2)
        assert outcome.usage is not None
        assert outcome.usage["output_tokens"] > 0
