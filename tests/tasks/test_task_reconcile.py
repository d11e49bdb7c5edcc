"""Reconciling with files: unreported ends and doubts, with and without a worker."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from folding import HASTY, Desk, intake_of, level, shell_started, track_hook, tracking

from claude_agent_py import TaskManager, TaskStatus
from claude_agent_py.tasks import Evidence
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["with a worker", "alone"])
def with_worker(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "with a worker")


async def build_outcome(manager: TaskManager, task_id: str, with_worker: bool) -> tuple[TaskStatus, Evidence]:
    """Wait for a task, with the session's worker or without."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            if with_worker:
                intake_of(manager).reconciler.work_in(workers.start_soon)
            outcome = await manager.wait(task_id)
            workers.cancel_scope.cancel()
    return outcome.status, outcome.evidence


def shell(tmp_path: Path, text: str) -> TaskManager:
    """A live shell with this output, of a CLI that sends no list."""
    path = tmp_path / "b1.output"
    path.write_text(text)
    manager = tracking(TaskManager(grace=HASTY), shell_started("b1"))
    said = f"Command running in background with ID: b1. Output is being written to: {path}. You will be notified."
    return tracking(manager, frames.tool_result("toolu_b1", said))


def agent(tmp_path: Path, notes: dict[str, object] | None, text: str = "report") -> TaskManager:
    """A live subagent, listed by the CLI, with this transcript."""
    path = tmp_path / "agent-a1.jsonl"
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    path.write_text(json.dumps({"type": "assistant", "message": message, "uuid": "u"}) + "\n")
    if notes is not None:
        (tmp_path / "agent-a1.meta.json").write_text(json.dumps(notes))
    manager = tracking(TaskManager(grace=HASTY), level("a1"), frames.task_started("a1"))
    track_hook(
        intake_of(manager), "SubagentStop", {"agent_id": "a1", "agent_type": "x", "agent_transcript_path": str(path)}
    )
    return manager


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("ok\n\n[exited with code 0]\n", TaskStatus.COMPLETED, 0),
        ("no\n\n[exited with code 2]\n", TaskStatus.FAILED, 2),
        ("half\n\n[killed]\n", TaskStatus.STOPPED, None),
    ],
)
async def test_an_end_that_only_the_marker_shows(
    tmp_path: Path, with_worker: bool, text: str, status: TaskStatus, code: int | None
) -> None:
    manager = shell(tmp_path, text)
    assert await build_outcome(manager, "b1", with_worker) == (status, Evidence.END_MARKER)
    assert manager["b1"].exit_code == code
    assert manager["b1"].failure_reason == ("exit code 2" if code else None)


async def test_the_marker_decides_how_a_shell_ended_that_is_no_longer_listed(tmp_path: Path, with_worker: bool) -> None:
    manager = tracking(shell(tmp_path, "no\n\n[exited with code 2]\n"), level())
    assert await build_outcome(manager, "b1", with_worker) == (TaskStatus.FAILED, Evidence.END_MARKER)


@pytest.mark.parametrize("path", ["/x/\0.jsonl", "/x/\ud800.jsonl"])
async def test_an_invalid_path_does_not_end_the_worker(tmp_path: Path, with_worker: bool, path: str) -> None:
    manager = tracking(TaskManager(grace=HASTY), level("a1"), frames.task_started("a1"), shell_started("b1"))
    stop = {"agent_id": "a1", "agent_type": "x", "agent_transcript_path": path}
    track_hook(intake_of(manager), "SubagentStop", stop)
    said = f"Command running in background with ID: b1. Output is being written to: {path}. You will be notified."
    tracking(manager, frames.tool_result("toolu_b1", said), level())
    assert (await build_outcome(manager, "a1", with_worker))[0].is_terminal
    assert (await build_outcome(manager, "b1", with_worker))[0].is_terminal


async def test_an_end_that_only_the_notes_of_the_cli_tell_of(tmp_path: Path, with_worker: bool) -> None:
    manager = agent(tmp_path, {"finished": True})
    assert await build_outcome(manager, "a1", with_worker) == (TaskStatus.COMPLETED, Evidence.TRANSCRIPT)
    assert manager["a1"].summary == "report"


async def test_an_agent_that_the_cli_notes_as_stopped(tmp_path: Path, with_worker: bool) -> None:
    manager = agent(tmp_path, {"stoppedByUser": True})
    assert await build_outcome(manager, "a1", with_worker) == (TaskStatus.STOPPED, Evidence.TRANSCRIPT)


async def test_the_report_of_an_update_that_no_notification_followed(tmp_path: Path, with_worker: bool) -> None:
    manager = tracking(agent(tmp_path, {"finished": True}), frames.task_updated("a1", "completed"))
    assert await build_outcome(manager, "a1", with_worker) == (TaskStatus.COMPLETED, Evidence.UPDATE)
    assert manager["a1"].summary == "report"


async def test_an_agent_not_recorded_as_finished_keeps_running(tmp_path: Path) -> None:
    manager = agent(tmp_path, {"agentType": "x"})
    with anyio.move_on_after(0.5):
        async with anyio.create_task_group() as workers:
            intake_of(manager).reconciler.work_in(workers.start_soon)
    assert manager["a1"].status is TaskStatus.RUNNING


async def test_a_running_shell_keeps_running(tmp_path: Path) -> None:
    manager = shell(tmp_path, "so far\n")
    with anyio.move_on_after(0.5):
        await manager["b1"].wait()
    assert manager["b1"].status is TaskStatus.RUNNING


async def test_a_marker_that_the_cli_contradicts_is_not_believed(tmp_path: Path, with_worker: bool) -> None:
    # A shell that prints another one's output ends in a marker that is not its own.
    manager = shell(tmp_path, "other\n\n[exited with code 0]\n")
    tracking(manager, level({"task_id": "b1", "run_id": "0-b1", "task_type": "local_bash", "description": "make"}))
    with anyio.move_on_after(0.5):
        await manager["b1"].wait()
    assert manager["b1"].status is TaskStatus.RUNNING
    tracking(manager, level())
    assert await build_outcome(manager, "b1", with_worker) == (TaskStatus.COMPLETED, Evidence.END_MARKER)


def hold_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold back whoever opens a file; return the event that is set then, and the one that lets it open the file."""
    real, is_opened, goes_on = os.open, threading.Event(), threading.Event()

    def slowly(name: Any, *arguments: Any, **more: Any) -> int:
        if name == str(path):
            is_opened.set()
            assert goes_on.wait(30)
        return real(name, *arguments, **more)

    monkeypatch.setattr(os, "open", slowly)
    return is_opened, goes_on


@pytest.mark.parametrize("meanwhile", ["it ends", "the CLI contradicts itself"])
async def test_what_is_told_while_the_files_are_read_counts_more_than_what_they_say(
    meanwhile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b1.output"
    path.write_text("ok\n\n[exited with code 0]\n")
    listed = level({"task_id": "b1", "run_id": "0-b1", "task_type": "local_bash", "description": "make"})
    said = f"Command running in background with ID: b1. Output is being written to: {path}. You will be notified."
    desk = Desk()
    desk.fold(listed, shell_started("b1"), frames.tool_result("toolu_b1", said), level())

    desk.clock.now += 10
    is_read, goes_on = hold_back(path, monkeypatch)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:
            workers.start_soon(desk.intake.reconciler.check)
            assert await anyio.to_thread.run_sync(is_read.wait, 30)
            desk.fold(*(frames.task_end("b1", "failed") if meanwhile == "it ends" else (listed, level())))
            goes_on.set()
    outcome = desk.tasks["b1"].outcome
    if meanwhile == "it ends":
        assert outcome is not None
        assert (outcome.status, outcome.evidence) == (TaskStatus.FAILED, Evidence.NOTIFICATION)
        return
    assert outcome is None
    desk.clock.now += 10
    await desk.intake.reconciler.check()
    outcome = desk.tasks["b1"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.evidence) == (TaskStatus.COMPLETED, Evidence.END_MARKER)


async def test_files_of_an_earlier_run_do_not_make_the_next_one_suspicious(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent(tmp_path, {"finished": True})
    path = tmp_path / "agent-a1.jsonl"
    desk = Desk()
    desk.fold(level("a1"), frames.task_started("a1", run_id="0-a1"))
    desk.hook("SubagentStart", agent_id="a1", agent_type="x", agent_transcript_path=str(path))
    desk.intake.paths.record_output("a1", str(path))

    desk.clock.now += 1000
    is_read, goes_on = hold_back(path, monkeypatch)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:
            workers.start_soon(desk.intake.reconciler.check)
            assert await anyio.to_thread.run_sync(is_read.wait, 30)
            desk.fold(*frames.task_end("a1", run_id="0-a1"), frames.task_started("a1", run_id="1-a1"))
            goes_on.set()
    assert desk.status("a1") == "running"
    assert desk.run("a1").run_id == "1-a1"
    assert desk.run("a1").suspicion is None


async def test_files_that_do_not_fit_into_the_memory_decide_nothing_about_other_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager, real = agent(tmp_path, None), os.open
    tracking(manager, frames.task_started("a2", run_id="0-a2"), level("a1", "a2"))
    other = tmp_path / "agent-a2.jsonl"
    other.write_text((tmp_path / "agent-a1.jsonl").read_text())
    track_hook(
        intake_of(manager), "SubagentStop", {"agent_id": "a2", "agent_type": "x", "agent_transcript_path": str(other)}
    )

    def fail(name: Any, *arguments: Any, **more: Any) -> int:
        if name == str(tmp_path / "agent-a1.jsonl"):
            raise MemoryError
        return real(name, *arguments, **more)

    monkeypatch.setattr(os, "open", fail)
    assert await build_outcome(manager, "a2", with_worker=False) == (TaskStatus.COMPLETED, Evidence.TRANSCRIPT)
    assert manager["a1"].outcome is None
    assert "Cannot inspect the files of task a1" in caplog.text
    tracking(manager, frames.task_notification("a1", summary="report"))
    await intake_of(manager).reconciler.check()
    assert f"Cannot count the transcript {tmp_path}" in caplog.text
    assert manager["a1"].status is TaskStatus.COMPLETED


async def test_a_worker_runs_only_while_a_task_needs_it() -> None:
    manager = TaskManager(grace=HASTY)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            intake_of(manager).reconciler.work_in(workers.start_soon)
        for task_id in ("a1", "a2"):  # a worker ends with the group; the next one is another
            async with anyio.create_task_group() as workers:
                intake_of(manager).reconciler.work_in(workers.start_soon)
                tracking(manager, frames.task_started(task_id))
                await anyio.wait_all_tasks_blocked()
                tracking(manager, frames.task_updated(task_id, "killed"))
            assert manager[task_id].outcome is not None


async def test_a_worker_that_is_stopped_leaves_reconciling_to_those_who_wait(tmp_path: Path) -> None:
    manager = shell(tmp_path, "ok\n")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            intake_of(manager).reconciler.work_in(workers.start_soon)
            await anyio.wait_all_tasks_blocked()
            intake_of(manager).reconciler.stop()
    (tmp_path / "b1.output").write_text("ok\n\n[exited with code 0]\n")
    assert await build_outcome(manager, "b1", with_worker=False) == (TaskStatus.COMPLETED, Evidence.END_MARKER)
