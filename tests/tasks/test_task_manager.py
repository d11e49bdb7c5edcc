"""The manager: looking tasks up, the handle, prompts, the end of the process, tasks of this side."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from folding import (
    Clock,
    child,
    close_question,
    intake_of,
    level,
    message,
    open_question,
    shell_started,
    text_of,
    track_hook,
    tracking,
)
from task_host import Host

from claude_agent_py import Task, TaskManager, TaskStartedMessage, TaskStatus
from claude_agent_py.errors import TaskError, TaskNotFoundError, TaskTimeoutError
from claude_agent_py.tasks import TaskFinished, TaskIntake
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


def test_a_manager_without_a_session_and_without_a_loop() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1", "review"), *frames.task_end("a1", summary="fine"))
    task = manager["a1"]
    assert isinstance(task, Task)
    assert (task.id, task.description, task.status, task.summary) == ("a1", "review", TaskStatus.COMPLETED, "fine")
    assert task.done
    assert repr(task) == "<Task a1 local_agent completed 'review'>"


async def test_a_pickled_task_has_the_same_attributes() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1", "review"), shell_started("b1", parent_task_id="a1"))
    tracking(manager, *frames.task_end("a1", summary="fine", usage={"total_tokens": 7}), level())
    task, shell = pickle.loads(pickle.dumps([manager["a1"], manager["b1"]]))
    assert (task.status, task.summary, task.description) == (TaskStatus.COMPLETED, "fine", "review")
    assert task.outcome == manager["a1"].outcome
    assert task.children == [shell]
    assert (await task).summary == await task.read_output() == "fine"
    assert shell.status is TaskStatus.RUNNING
    with anyio.fail_after(30):
        with pytest.raises(TaskError, match="unpickled copy"):  # it would never end
            await shell.wait()
        with pytest.raises(TaskError):
            [chunk async for chunk in shell.follow()]


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_manager_stays_as_it_was(make: Callable[[TaskManager], TaskManager]) -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    made = make(manager)
    tracking(manager, *frames.task_end("a1"))
    assert (made["a1"].status, made.live_ids()) == (TaskStatus.RUNNING, frozenset({"a1"}))
    assert (manager["a1"].status, manager.live_ids()) == (TaskStatus.COMPLETED, frozenset())


def test_deep_copies_of_tasks_stay_as_they_were() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), shell_started("b1", parent_task_id="a1"))
    task, shell = copy.deepcopy([manager["a1"], manager["b1"]])
    tracking(manager, *frames.task_end("a1"), level())
    assert task.status is shell.status is TaskStatus.RUNNING
    assert task.children == [shell]


async def test_the_output_of_a_pickled_shell_can_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "b1.output"
    path.write_text("all\n\n[exited with code 0]\n")
    manager = tracking(TaskManager(), shell_started("b1"), frames.task_notification("b1", output_file=str(path)))
    pickled = pickle.loads(pickle.dumps(manager["b1"]))
    assert [chunk async for chunk in pickled.follow()] == ["all\n"]


def test_looking_up() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), frames.task_started("a2"), *frames.task_end("a2"))
    assert [task.id for task in manager] == ["a1", "a2"]
    assert len(manager) == 2
    assert "a1" in manager
    assert "a3" not in manager
    assert manager.get("a3") is None
    assert manager.get("a1") is manager["a1"]
    assert [task.id for task in manager.running] == ["a1"]
    assert [task.id for task in manager.finished] == ["a2"]
    assert manager.live_ids() == {"a1"}
    assert repr(manager) == "<TaskManager 2 tasks, 1 live>"


async def test_unknown_tasks_are_a_typed_error() -> None:
    manager = TaskManager()
    with pytest.raises(TaskNotFoundError) as caught:
        manager["nope"]
    assert caught.value.task_id == "nope"
    for call in (manager.wait, manager.stop, manager.output, manager.move_to_background):
        with pytest.raises(TaskNotFoundError):
            await call("nope")


def test_the_attributes_of_a_task_follow_its_messages() -> None:
    clock = Clock(50.0)
    manager = TaskManager(clock=clock)
    start = frames.task_started("a1", "review", prompt="look", subagent_type="reviewer", tool_use_id="toolu_7")
    tracking(manager, level("a1"), start, frames.task_progress("a1", "Running make", last_tool_name="Bash"))
    task = manager["a1"]
    assert (task.type, task.subagent_type, task.prompt, task.tool_use_id) == (
        "local_agent",
        "reviewer",
        "look",
        "toolu_7",
    )
    assert (task.run_id, task.activity, task.last_tool_name) == ("0-a1", "Running make", "Bash")
    assert (task.is_backgrounded, task.is_agent, task.is_shell, task.is_ambient) == (True, True, False, False)
    assert (task.started_at, task.ended_at, task.outcome) == (50.0, None, None)
    assert task.usage is not None
    assert task.usage.total_tokens == 110
    clock.now = 60.0
    tracking(manager, *frames.task_end("a1", "failed", "it broke", output_file="/tmp/a1.output"))
    assert (task.ended_at, task.failure_reason, task.output_file) == (60.0, "it broke", "/tmp/a1.output")
    assert task.outcome is not None
    assert task.outcome.duration == 10.0
    assert not task.outcome.is_success


def test_the_history_of_runs_is_kept() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), *frames.task_end("a1", summary="one"))
    task = manager["a1"]
    tracking(manager, frames.task_started("a1", run_id="1-a1", prompt="more"))
    assert (task.status, task.prompt, task.outcome) == (TaskStatus.RUNNING, "more", None)
    tracking(manager, frames.task_notification("a1", summary="two", run_id="1-a1"))
    assert manager["a1"] is task
    assert [outcome.summary for outcome in task.outcomes] == ["one", "two"]
    assert [outcome.run_id for outcome in task.outcomes] == ["0-a1", "1-a1"]


def test_tracking_returns_the_task_that_the_message_is_about() -> None:
    manager = TaskManager()
    task = manager.track(message(frames.task_started("a1")))
    assert task is not None
    assert task.id == "a1"
    assert manager.track(message(frames.assistant("hi", agent_id="a1", parent_tool_use_id="toolu_a1"))) is task
    assert manager.track(message(frames.assistant("hi"))) is None
    assert manager.track(message(frames.background_tasks())) is None
    notified = manager.track(message(frames.task_notification("a2", summary="fine")))
    assert notified is not None
    assert (notified.id, notified.status) == ("a2", TaskStatus.COMPLETED)
    ends = manager.events("finished")
    assert manager.track(message(frames.task_notification("a1", summary="fine"))) is task
    event = ends.take()
    assert (event.outcome.summary, event.notification().summary) == ("fine", "fine")


async def test_tracking_in_a_thread_wakes_what_waits_in_the_event_loop() -> None:
    manager = TaskManager()
    started, ended = message(frames.task_started("a1")), message(frames.task_notification("a1", summary="fine"))
    task = await anyio.to_thread.run_sync(manager.track, started)
    outcomes: list[Any] = []

    async def wait() -> None:
        outcomes.append(await manager.wait("a1"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert await anyio.to_thread.run_sync(manager.track, ended) is task
    assert [outcome.summary for outcome in outcomes] == ["fine"]


def test_tracking_in_many_threads_loses_nothing_and_works_after_the_loop_of_a_wait() -> None:
    manager = TaskManager()

    async def wait_briefly() -> None:
        manager.track(message(frames.task_started("first")))
        with pytest.raises(TaskTimeoutError):
            await manager.wait("first", timeout=0.01)

    anyio.run(wait_briefly)

    def track(number: int) -> None:
        manager.track(message(frames.task_started(f"a{number}")))
        manager.track(message(frames.task_notification(f"a{number}")))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(track, range(200)))
    assert (len(manager.finished), [task.id for task in manager.running]) == (200, ["first"])


def test_tracking_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    def broken_clock() -> float:
        if manager is not None:
            raise RuntimeError("broken on purpose")
        return 0.0

    manager: TaskManager | None = None
    manager = TaskManager(clock=broken_clock)
    assert manager.track(message(frames.task_started("a1"))) is None
    track_hook(intake_of(manager), "SubagentStart", {"agent_id": "a1", "agent_type": "x"})
    intake_of(manager).process_exited("over")
    assert caplog.text.count("the session continues") == 3


def test_a_receiver_of_events_that_fails_does_not_end_the_session(caplog: pytest.LogCaptureFixture) -> None:
    def fail(events: list[Any]) -> None:
        raise RuntimeError("broken on purpose")

    manager = TaskManager(intake=TaskIntake(host=Host(take=fail)))
    assert manager.track(message(frames.task_started("a1"))) is not None
    assert manager["a1"].status is TaskStatus.RUNNING
    assert "broken on purpose" in caplog.text


@pytest.mark.parametrize("odd", [None, 5, "text", {"type": "system", "subtype": "task_started"}, b"", object()])
def test_a_value_that_is_no_message_is_ignored(odd: object) -> None:
    manager = TaskManager()
    assert manager.track(odd) is None
    track_hook(intake_of(manager), "SubagentStart", {"agent_id": odd})
    assert len(manager) == 0


def test_a_failed_watcher_affects_no_other(caplog: pytest.LogCaptureFixture) -> None:
    manager = TaskManager()
    seen: list[Any] = []

    def broken(touched: set[str], events: list[Any]) -> None:
        raise RuntimeError("no")

    manager.watch(broken)
    manager.watch(lambda _, events: seen.extend(events))
    tracking(manager, frames.task_started("a1"))
    assert [event.kind for event in seen] == ["started"]
    assert "watcher" in caplog.text


def test_of_equal_watchers_the_right_one_is_removed() -> None:
    class Watcher:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, touched: set[str], events: list[Any]) -> None:
            self.calls += 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Watcher)

        __hash__ = None  # type: ignore[assignment]

    manager = TaskManager()
    first, second = Watcher(), Watcher()
    manager.watch(first)
    remove = manager.watch(second)
    remove()
    remove()
    tracking(manager, frames.task_started("a1"))
    assert (first.calls, second.calls) == (1, 0)


def test_events_of_progress_are_made_for_those_who_want_them() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    seen: list[Any] = []
    assert [event.kind for event in intake_of(manager).track(message(frames.task_progress("a1", "one")))] == [
        "progressed"
    ]
    manager = tracking(TaskManager(intake=TaskIntake(host=Host())), frames.task_started("a1"))
    ends = manager.events("finished")
    assert intake_of(manager).track(message(frames.task_progress("a1", "two"))) == []
    assert (ends.waiting, manager["a1"].activity) == (0, "two")
    stop_watching = manager.watch(lambda _, events: seen.extend(events))
    manager.track(message(frames.task_progress("a1", "three")))
    assert [event.activity for event in seen] == ["three"]
    stop_watching()
    progress = manager.events("progressed")
    manager.track(message(frames.task_progress("a1", "four")))
    assert (len(seen), progress.take().activity) == (1, "four")


def test_a_session_hears_of_starts_and_ends_without_events() -> None:
    heard: list[Any] = []
    manager = TaskManager(intake=TaskIntake(host=Host(take=heard.append)))
    for frame in frames.task_started("a1"), frames.task_progress("a1", "one"), *frames.task_end("a1", output_file="/o"):
        assert intake_of(manager).track(message(frame)) == []
    assert (heard[0], heard[-1], len(heard)) == ([], [], 3)  # the start, the status and the report
    assert (manager["a1"].done, manager["a1"].output_file) == (True, "/o")
    ends = manager.events("finished")
    tracking(manager, frames.task_started("a2"), *frames.task_end("a2"))
    assert ends.take() in heard[-1]


def test_a_prompt_for_the_user() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    open_question(intake_of(manager), "r1", "a1")
    assert [task.id for task in manager.running if task.status is TaskStatus.AWAITING_USER] == ["a1"]
    close_question(intake_of(manager), "r1")
    assert manager["a1"].status is TaskStatus.RUNNING
    events = manager.events()
    open_question(intake_of(manager), "r2", "")
    assert events.waiting == 0


def test_running_tasks_fail_when_the_process_dies() -> None:
    manager = tracking(TaskManager(), *(frames.task_started(f"a{number}") for number in range(10)))
    events = manager.events(TaskFinished)
    intake_of(manager).process_exited("the CLI ended with exit code 137")
    assert events.waiting == 10
    assert {task.status for task in manager} == {TaskStatus.FAILED}
    assert {task.failure_reason for task in manager} == {"the CLI ended with exit code 137"}
    assert manager.live_ids() == frozenset()


# Tasks that this side runs


async def test_an_adopted_task_is_stopped_by_its_own_function_and_survives_the_process() -> None:
    manager = TaskManager()

    async def stop() -> None:
        manager.track(message(frames.task_notification("child", "stopped", "as told")))

    start = message(frames.task_started("child", task_type="child_agent"))
    assert isinstance(start, TaskStartedMessage)
    intake_of(manager).adopt(start, stop)
    manager.track(start)
    task = manager["child"]
    tracking(manager, level(), frames.task_started("a1"))
    intake_of(manager).process_exited("gone")
    assert (task.status, manager["a1"].status) == (TaskStatus.PENDING, TaskStatus.FAILED)
    tracking(manager, frames.task_updated("child", "awaiting_user"))
    assert task.status is TaskStatus.AWAITING_USER
    outcome = await task.stop()
    assert (outcome.status, outcome.summary) == (TaskStatus.STOPPED, "as told")


async def test_requests_need_a_session() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1", is_backgrounded=False))
    for call in (manager["a1"].stop, manager["a1"].move_to_background, manager.move_all_to_background):
        with pytest.raises(TaskError, match="no session"):
            await call()


# Messages


async def test_the_messages_of_a_subagent() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), child("a1", "one"), child("a2", "other"))
    tracking(manager, child("a1", "two"), frames.assistant("main"), *frames.task_end("a1"), child("a1", "straggler"))
    assert [text_of(one) async for one in manager["a1"].messages()] == ["one", "two", "straggler"]


def test_shells_are_shells_and_agents_are_agents() -> None:
    manager = tracking(TaskManager(), shell_started("b1"), frames.task_started("w1", task_type="local_workflow"))
    assert (manager["b1"].is_shell, manager["b1"].is_agent) == (True, False)
    assert (manager["w1"].is_shell, manager["w1"].is_agent) == (False, False)
    tracking(manager, frames.task_notification("a0123456789abcdef"), frames.task_notification("b12345678"))
    assert manager["a0123456789abcdef"].is_agent
    assert manager["b12345678"].is_shell


def test_an_outcome_is_a_value_and_lasts_as_long_as_is_known() -> None:
    clock = Clock(1.0)
    manager = tracking(
        TaskManager(clock=clock), frames.task_started("w1", task_type="local_workflow", workflow_name="w")
    )
    clock.now = 3.5
    tracking(manager, frames.task_notification("w1"))
    outcome = manager["w1"].outcome
    assert outcome is not None
    assert (manager["w1"].workflow_name, outcome.duration) == ("w", 2.5)
    assert msgspec.structs.replace(outcome, started_at=None).duration is None
    assert len({outcome, msgspec.structs.replace(outcome)}) == 1
