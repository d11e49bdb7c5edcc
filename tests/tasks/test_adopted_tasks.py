"""Tasks that the SDK runs itself: they outlive the CLI and report their own output files."""

import json
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from folding import deliver_in, intake_of, message, shell_started, text_of

from claude_agent_py import Task, TaskEvent, TaskManager, TaskStatus
from claude_agent_py.tasks import EndedBy, TaskFinished, TaskOutputAvailable
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


class Stopped:
    """The `stop` callback of an adopted task."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> None:
        self.times += 1
        await checkpoint()


def adopted(manager: TaskManager, task_id: str = "c1", stop: Stopped | None = None) -> Task:
    start = message(frames.task_started(task_id, "work", task_type="child_agent"))
    intake_of(manager).adopt(start, stop or Stopped())
    manager.track(start)
    return manager[task_id]


async def test_the_end_of_the_process_is_not_the_end_of_an_adopted_task() -> None:
    manager = TaskManager()
    task = adopted(manager)
    manager.track(message(frames.task_started("a1", "of the CLI")))
    stream, events = manager.events(), list[TaskEvent]()

    async def listen() -> None:
        async for event in stream:
            events.append(event)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(listen)
            deliver_in(workers, manager)
            await checkpoint()
            intake_of(manager).process_exited("it crashed")
            assert (manager["a1"].status, task.status) == (TaskStatus.FAILED, TaskStatus.PENDING)
            manager.track(message(frames.task_notification("c1", summary="done")))
        assert (await task).summary == "done"
    assert [event.task_id for event in events if isinstance(event, TaskFinished)] == ["a1", "c1"]


async def test_events_of_an_open_session_do_not_end_with_an_adopted_task() -> None:
    manager = TaskManager()
    stream = manager.events(TaskFinished)
    for task_id in ("c1", "c2"):
        adopted(manager, task_id)
        manager.track(message(frames.task_notification(task_id)))
        with anyio.fail_after(30):
            assert (await stream.__anext__()).task_id == task_id


async def test_an_adopted_task_is_stopped_through_its_source() -> None:
    manager, stop = TaskManager(), Stopped()
    task = adopted(manager, stop=stop)

    async def answer() -> None:
        while not stop.times:
            await checkpoint()
        manager.track(message(frames.task_notification("c1", "stopped", "it was cancelled")))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(answer)
            outcome = await task.stop()
    assert (outcome.status, outcome.failure_reason, stop.times) == (TaskStatus.STOPPED, "it was cancelled", 1)
    assert await task.stop() == outcome
    assert stop.times == 1


async def test_its_transcript_is_read_from_where_it_says(tmp_path: Path) -> None:
    manager = TaskManager()
    task = adopted(manager)
    said = {
        "type": "assistant",
        "uuid": "u1",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
    }
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(said) + "\n")
    events = manager.events(TaskOutputAvailable)
    intake_of(manager).set_path("c1", str(path))
    intake_of(manager).set_path("c1", str(path))
    intake_of(manager).set_path("nobody", str(path))
    intake_of(manager).set_cause("nobody", EndedBy.PARENT)
    assert list(manager) == [task]
    assert events.waiting == 1
    event = events.take()
    assert isinstance(event, TaskOutputAvailable)
    assert (task.output_file, event.path) == (str(path), str(path))
    assert [(one.agent_id, one.text) for one in await task.transcript()] == [("c1", "hi")]
    assert intake_of(manager).paths_of("c1")[0] == str(path)


async def test_the_output_of_an_adopted_shell_is_read_from_where_it_says(tmp_path: Path) -> None:
    manager = TaskManager()
    start = message(shell_started("b1"))
    intake_of(manager).adopt(start, Stopped())
    manager.track(start)
    path = tmp_path / "b1.output"
    path.write_text("made")
    intake_of(manager).set_path("b1", str(path))
    assert (manager["b1"].output_file, await manager["b1"].read_output()) == (str(path), "made")


async def test_messages_that_came_are_at_hand() -> None:
    manager = TaskManager()
    task = adopted(manager)
    manager.track(message(frames.assistant("one") | {"agent_id": "c1", "parent_tool_use_id": "t1"}))
    manager.track(message(frames.assistant("of the main agent")))
    assert [text_of(one) for one in task.seen_messages] == ["one"]
    assert manager.get(task.seen_messages[0].agent_id) is task
    assert manager.get(None) is None


async def test_the_end_of_the_process_revises_nothing_of_a_subagent_of_a_child() -> None:
    """Its own process writes its transcript, so that it may still be counted."""
    manager = TaskManager()
    adopted(manager)
    for task_id, parent in (("a1", None), ("a2", "c1")):
        start = message(frames.task_started(task_id, "below", parent_task_id=parent, is_backgrounded=True))
        if parent:
            intake_of(manager).adopt(start, Stopped())
        manager.track(start)
        manager.track(message(frames.task_notification(task_id)))
    before = {task.id: task.outcome for task in manager}
    intake_of(manager).process_exited("it crashed")
    assert {task.id: task.outcome for task in manager} == before
    ledger = intake_of(manager).ledger
    left = {record.id: until for record, until in ledger.uncounted.values()}
    assert left["a1"] < left["a2"]
