"""A background shell that never ends, against the real CLI: what waits for it, for how long, and what becomes of it."""

import logging
from pathlib import Path

import anyio
import pytest

from claude_agent_py import Client, Task, Timeouts, run, run_sync
from claude_agent_py.testing import LooseAnswer, Reply, ScriptedModel, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

SCRIPT: list[LooseAnswer] = [
    Reply(tool_use("Bash", {"command": "sleep 1000", "description": "A server", "run_in_background": True})),
    text("It is up."),
]
BRIEF = Timeouts(idle=0.3)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def assert_told_once(caplog: pytest.LogCaptureFixture) -> None:
    told = [record.getMessage() for record in caplog.records if "'A server'" in record.getMessage()]
    assert len(told) == 1, told


def only(tasks: object) -> Task:
    assert isinstance(tasks, list | tuple)
    (task,) = tasks
    assert isinstance(task, Task)
    return task


def test_a_run_waits_so_long_for_tasks_and_names_those_that_it_stops(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel(SCRIPT) as model:
        result = run_sync("go", model.options(timeouts=BRIEF))
    assert result.text == "It is up."
    assert not result.is_error
    task = only(result.unfinished_tasks)
    assert (task.description, task.status) == ("A server", "stopped")
    (warning,) = warnings(caplog)  # and none that advises to wait
    assert "0.3 s" in warning
    assert "'A server'" in warning
    assert "stopped" in warning


@pytest.mark.long
async def test_in_a_session_only_the_tasks_are_stopped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "claude_agent_py")
    with ScriptedModel(SCRIPT) as model, anyio.fail_after(240):
        async with Client(model.options(timeouts=BRIEF)) as client:
            result = await client.query("go", until="idle")
            assert_told_once(caplog)
            task = only(result.unfinished_tasks)
            assert (await task.wait(timeout=60)).status == "stopped"
            assert result.unfinished_tasks == [task]
            assert (await client.query("and now?")).text


@pytest.mark.long
async def test_tasks_may_be_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "claude_agent_py")
    with ScriptedModel(SCRIPT) as model, anyio.fail_after(240):
        async with Client(model.options(timeouts=BRIEF, late_tasks="leave")) as client:
            result = await client.query("go", until="idle")
            assert_told_once(caplog)
            assert not only(result.unfinished_tasks).done
            assert (await client.query("and now?")).text
            assert client.tasks.running == list(result.unfinished_tasks)
    assert "go on" in warnings(caplog)[0]


async def test_a_run_leaves_its_process_to_tasks_that_are_left_alone(tmp_path: Path) -> None:
    slow = f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done; echo done"
    script: list[LooseAnswer] = [
        Reply(tool_use("Bash", {"command": slow, "description": "Slow", "run_in_background": True})),
        text("It is under way."),
    ]
    with ScriptedModel(script) as model, anyio.fail_after(240):
        result = await run("go", model.options(timeouts=BRIEF, late_tasks="leave"))
        (tmp_path / "end").touch()
        outcome = await only(result.unfinished_tasks).wait(timeout=60)
    assert outcome.status == "completed"
