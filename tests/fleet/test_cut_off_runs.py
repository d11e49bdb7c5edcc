"""Workers that are killed while an approved command runs: it runs once, and nobody is asked again."""

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fleets import PATIENCE, any_url as any_url, events_of, fleet_in, until, until_state

from claude_agent_py import Allow
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
