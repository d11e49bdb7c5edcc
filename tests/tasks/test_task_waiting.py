"""Waiting: many waiters, timeouts, cancellation, resumed tasks, all, any, as completed; on asyncio and trio."""

import gc
import pickle
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from folding import HASTY, Clock, child, intake_of, level, message, text_of, track_hook, tracking

from claude_agent_py import TaskManager, TaskOutcome, TaskStatus
from claude_agent_py.errors import OptionsError, TaskError, TaskTimeoutError
from claude_agent_py.tasks import Evidence, Grace, MessageGap
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


def running(*task_ids: str) -> TaskManager:
    return tracking(TaskManager(grace=HASTY), *(frames.task_started(task_id) for task_id in task_ids))


async def test_awaiting_an_ended_task() -> None:
    manager = tracking(running("a1"), *frames.task_end("a1", summary="fine"))
    assert (await manager["a1"]).summary == "fine"
    assert (await manager.wait("a1", timeout=0)).summary == "fine"


async def test_many_waiters_get_the_same_outcome() -> None:
    manager = running("a1")
    outcomes: list[TaskOutcome] = []

    async def wait() -> None:
        outcomes.append(await manager["a1"].wait())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            for _ in range(50):
                waiters.start_soon(wait)
            await wait_all_tasks_blocked()
            tracking(manager, frames.task_notification("a1", "failed", "no luck"))
    assert len(outcomes) == 50
    assert len(set(map(id, outcomes))) == 1
    assert outcomes[0].status is TaskStatus.FAILED  # and nothing was raised for it


@pytest.mark.one_backend
async def test_no_wait_outlasts_its_timeout_for_a_transcript_that_cannot_be_read(tmp_path: Path) -> None:
    manager = tracking(TaskManager(), *(frames.task_started(task_id) for task_id in ("a1", "a2")))
    for task_id in ("a1", "a2"):
        tracking(manager, frames.task_notification(task_id, summary="s", output_file=str(tmp_path / "missing")))
    with anyio.fail_after(5):  # a transcript is waited for twice as long
        assert [outcome.task_id for outcome in await manager.wait_all(timeout=0.05)] == ["a1", "a2"]
        assert [outcome.task_id for outcome in await manager.wait_all(["a2", "a1"], timeout=0.05)] == ["a2", "a1"]
        assert (await manager.output("a1", timeout=0.05)).text == "s"


async def test_all_outcomes_are_returned_although_a_task_is_reopened_meanwhile() -> None:
    manager = running("a1", "a2")
    outcomes: list[TaskOutcome] = []

    async def wait() -> None:
        outcomes.extend(await manager.wait_all(["a1", "a2"]))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(wait)
            await wait_all_tasks_blocked()
            tracking(manager, *frames.task_end("a1", summary="first"), frames.task_started("a1", run_id="1-a1"))
            assert manager["a1"].status is TaskStatus.RUNNING
            tracking(manager, *frames.task_end("a2", summary="second"))
    assert [(outcome.task_id, outcome.summary) for outcome in outcomes] == [("a1", "first"), ("a2", "second")]


async def test_a_timeout_of_a_wait_leaves_the_task_alone() -> None:
    manager = running("a1")
    with pytest.raises(TaskTimeoutError, match=r"task 'a1' \('a task'\) did not end") as caught:
        await manager["a1"].wait(timeout=0.01)
    assert (caught.value.task_id, caught.value.timeout) == ("a1", 0.01)
    assert isinstance(caught.value, TimeoutError)
    assert manager["a1"].status is TaskStatus.RUNNING
    tracking(manager, frames.task_notification("a1"))
    assert (await manager["a1"]).is_success


async def test_a_task_stands_for_its_id() -> None:
    manager = running("a1", "a2")
    first, second = manager
    tracking(manager, frames.task_notification("a1"))
    assert first in manager
    assert manager[first] is first
    assert (await manager.wait(first)).task_id == "a1"
    assert [outcome.task_id for outcome in await manager.wait_all([first, "a1"])] == ["a1", "a1"]
    assert await manager.wait_any([second, first]) is first
    assert (await manager.stop(first)).task_id == "a1"
    assert (await manager.output(second, block=False)).task_id == "a2"


@pytest.mark.parametrize("wrong", ["a1", b"a1", 5, [5], [None], [["a1"]]])
async def test_an_invalid_list_of_tasks_is_refused(wrong: Any) -> None:
    manager = running("a1")
    for wait in (manager.wait_all, manager.wait_any):
        with pytest.raises(OptionsError, match="must be"):
            await wait(wrong)
    with pytest.raises(OptionsError, match="must be"):
        await manager.wait_all(manager["a1"])  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", ["x", -1, float("nan"), [1]])
async def test_an_invalid_timeout_is_refused(timeout: Any) -> None:
    manager = running("a1")
    task = manager["a1"]
    for use in (task.wait, task.stop, task.move_to_background, manager.wait_any, manager.stop_all, manager.wait_all):
        with pytest.raises(OptionsError, match="timeout: must be a number of seconds"):
            await use(timeout=timeout)
    with pytest.raises(OptionsError, match="timeout: must be a number of seconds"):
        await manager.output("a1", timeout=timeout)


async def test_a_timeout_names_every_task_that_is_not_over() -> None:
    manager = tracking(running("a1", "a2", "a3"), frames.task_notification("a2"))
    said = r"tasks 'a1' \('a task'\), 'a3' \('a task'\) did not end within 0\.01 s"
    for wait in (manager.wait_all, manager.wait_any):
        with pytest.raises(TaskTimeoutError, match=said) as caught:
            await wait(["a1", "a3"], timeout=0.01)
        assert (caught.value.task_id, caught.value.task_ids) == ("a1", ["a1", "a3"])
    with pytest.raises(TaskTimeoutError) as caught:
        await manager.wait_all(timeout=0.01)
    assert pickle.loads(pickle.dumps(caught.value)).task_ids == ["a1", "a3"]


async def test_a_timeout_shows_the_beginning_of_a_description_without_secrets() -> None:
    command = f"curl -H 'Authorization: Bearer hunter2hunter2'\n{'x' * 5000}"
    manager = tracking(running(), frames.task_started("b1", task_type="local_bash", description=command))
    for wait in (manager["b1"].wait, manager.wait_all):
        with pytest.raises(TaskTimeoutError, match="curl -H 'Authorization: ") as caught:
            await wait(timeout=0.01)
        assert "hunter2" not in str(caught.value)
        assert len(str(caught.value)) < 250


async def test_a_wait_that_is_over_leaves_nothing() -> None:
    def count() -> int:
        gc.collect()
        return sum(type(each).__name__ == "RepeatingEvent" for each in gc.get_objects())

    manager = running(*map(str, range(20)))
    before = count()
    for task in manager:
        with pytest.raises(TaskTimeoutError):
            await task.wait(timeout=0.001)
    assert count() < before + 5


async def test_cancelling_one_waiter_leaves_the_others_waiting() -> None:
    manager = running("a1")
    outcomes: list[TaskOutcome] = []

    async def wait(scope: anyio.CancelScope) -> None:
        with scope:
            outcomes.append(await manager.wait("a1"))

    with anyio.fail_after(30):
        first, second = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(wait, first)
            waiters.start_soon(wait, second)
            await wait_all_tasks_blocked()
            first.cancel()
            await wait_all_tasks_blocked()
            tracking(manager, frames.task_notification("a1"))
    assert len(outcomes) == 1


async def test_a_waiter_gets_the_run_it_waited_for_although_the_next_began_at_once() -> None:
    manager = running("a1")
    outcomes: list[TaskOutcome] = []

    async def wait() -> None:
        outcomes.append(await manager["a1"])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(wait)
            await wait_all_tasks_blocked()
            tracking(manager, frames.task_notification("a1", summary="one"), frames.task_started("a1", run_id="1-a1"))
    assert outcomes[0].summary == "one"
    assert not manager["a1"].done
    tracking(manager, frames.task_notification("a1", summary="two", run_id="1-a1"))
    assert (await manager["a1"]).summary == "two"


async def test_an_update_alone_ends_a_wait_after_a_moment() -> None:
    manager = tracking(running("a1"), frames.task_updated("a1", "killed"))
    with anyio.fail_after(30):
        outcome = await manager["a1"].wait()
    assert (outcome.status, outcome.evidence) == (TaskStatus.STOPPED, Evidence.UPDATE)


async def test_a_wait_without_time_does_not_wait_for_the_report() -> None:
    manager = TaskManager(grace=Grace(report=600))
    tracking(manager, frames.task_started("a1"), frames.task_updated("a1", "killed"))
    with anyio.fail_after(30):
        assert (await manager.wait("a1", timeout=0)).status is TaskStatus.STOPPED


async def test_a_wait_without_time_does_not_take_the_report_from_other_waiters() -> None:
    manager = TaskManager(grace=Grace(report=600))
    ends = manager.events("finished")
    outcomes: list[TaskOutcome] = []

    async def wait() -> None:
        outcomes.append(await manager.wait("b1"))

    started = frames.task_started("b1", task_type="local_bash")
    tracking(manager, started, frames.task_updated("b1", "completed"))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(wait)
            await wait_all_tasks_blocked()
            assert (await manager.wait("b1", timeout=0)).summary == ""
            await wait_all_tasks_blocked()
            assert (outcomes, ends.waiting) == ([], 0)
            tracking(manager, frames.task_notification("b1", summary="the report"))
    assert [outcome.summary for outcome in outcomes] == ["the report"]
    assert [ends.take().outcome.summary for _ in range(ends.waiting)] == ["the report"]


async def test_a_wait_ends_when_only_the_list_shows_the_end_of_the_task() -> None:
    manager = tracking(running("a1"), level("a1"))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(manager["a1"].wait)
            await wait_all_tasks_blocked()
            tracking(manager, level())
    assert (await manager["a1"]).evidence is Evidence.LEVEL


@pytest.mark.parametrize("with_worker", [True, False])
async def test_a_wait_ends_when_the_process_dies(with_worker: bool) -> None:
    manager = running("a1", "a2")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            if with_worker:
                intake_of(manager).reconciler.work_in(workers.start_soon)
            await wait_all_tasks_blocked()
            intake_of(manager).process_exited("gone")
            assert (await manager.wait("a1")).failure_reason == "gone"
            assert len(await manager.wait_all()) == 2
            workers.cancel_scope.cancel()


async def test_waiters_look_after_things_themselves_when_the_worker_ends() -> None:
    manager = running("a1")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            async with anyio.create_task_group() as worker:
                intake_of(manager).reconciler.work_in(worker.start_soon)
                await wait_all_tasks_blocked()
                waiters.start_soon(manager["a1"].wait)
                await wait_all_tasks_blocked()
                worker.cancel_scope.cancel()
            intake_of(manager).reconciler.stop()
            tracking(manager, frames.task_updated("a1", "killed"))
    assert manager["a1"].outcome is not None


# All, any, in order


async def test_waiting_for_all_includes_those_that_start_meanwhile() -> None:
    manager = running("a1")
    outcomes: list[TaskOutcome] = []

    async def wait() -> None:
        outcomes.extend(await manager.wait_all(timeout=60))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(wait)
            await wait_all_tasks_blocked()
            tracking(manager, frames.task_started("a2"), frames.task_notification("a1"))
            await wait_all_tasks_blocked()
            assert outcomes == []
            tracking(manager, frames.task_notification("a2", "failed"))
    assert [(outcome.task_id, outcome.status.value) for outcome in outcomes] == [("a1", "completed"), ("a2", "failed")]


async def test_waiting_for_all_of_nothing() -> None:
    assert await TaskManager().wait_all() == []


async def test_waiting_for_some() -> None:
    manager = tracking(running("a1", "a2", "a3"), frames.task_notification("a3"), frames.task_notification("a1"))
    outcomes = await manager.wait_all(["a3", "a1"], timeout=60)
    assert [outcome.task_id for outcome in outcomes] == ["a3", "a1"]


async def test_waiting_for_all_names_one_that_was_late() -> None:
    manager = tracking(running("a1", "a2", "a3"), frames.task_notification("a1"))
    with pytest.raises(TaskTimeoutError) as caught:
        await manager.wait_all(timeout=0.01)
    assert caught.value.task_id == "a2"


async def test_ambient_tasks_are_not_waited_for() -> None:
    manager = tracking(TaskManager(), frames.task_started("d1", ambient=True))
    with anyio.fail_after(30):
        assert await manager.wait_all() == []
        assert [task async for task in manager.as_completed()] == []


async def test_a_wait_for_all_ends_when_the_last_task_proves_to_be_ambient() -> None:
    manager = TaskManager(grace=Grace(quiet=600))
    listed = [{"id": "d1", "type": "subagent", "status": "running", "description": ""}]
    track_hook(intake_of(manager), "Stop", {"background_tasks": listed})
    with anyio.fail_after(30):
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(manager.wait_all)
            await wait_all_tasks_blocked()
            tracking(manager, level({"task_id": "d1", "task_type": "dream", "description": "d", "ambient": True}))


async def test_waiting_for_any() -> None:
    manager = running("a1", "a2")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as others:

            async def end_one() -> None:
                await wait_all_tasks_blocked()
                tracking(manager, frames.task_notification("a2"))

            others.start_soon(end_one)
            assert (await manager.wait_any(timeout=60)).id == "a2"
    assert (await manager.wait_any()).id == "a2"  # what is over counts
    with pytest.raises(TaskTimeoutError):
        await manager.wait_any(["a1"], timeout=0.01)


async def test_waiting_for_any_of_nothing() -> None:
    with pytest.raises(TaskError, match="no task"):
        await TaskManager().wait_any()


async def test_as_completed_gives_tasks_as_they_end() -> None:
    clock = Clock()
    manager = tracking(TaskManager(clock=clock), *(frames.task_started(f"a{number}") for number in range(4)))
    for task_id in ("a2", "a0"):
        clock.now += 1
        tracking(manager, frames.task_notification(task_id))
    order: list[str] = []

    async def collect() -> None:
        order.extend([task.id async for task in manager.as_completed(timeout=60)])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(collect)
            await wait_all_tasks_blocked()
            tracking(manager, frames.task_notification("a3"), frames.task_notification("a1"))
    assert order == ["a2", "a0", "a3", "a1"]


async def test_as_completed_gives_only_the_tasks_that_were_asked_for() -> None:
    manager = running("a1", "a2")
    seen: list[str] = []

    async def collect() -> None:
        seen.extend([task.id async for task in manager.as_completed(["a1"], timeout=60)])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(collect)
            await wait_all_tasks_blocked()
            tracking(manager, frames.task_notification("a2"), frames.task_notification("a1"))
    assert seen == ["a1"]


async def test_as_completed_gives_a_resumed_task_again() -> None:
    manager = tracking(running("a1", "a2"), frames.task_notification("a1"))
    seen: list[str | None] = []
    with anyio.fail_after(30):
        async for task in manager.as_completed():
            seen.append(task.run_id)
            if len(seen) == 1:
                tracking(manager, frames.task_started("a1", run_id="1-a1"))
                tracking(manager, frames.task_notification("a1", run_id="1-a1"), frames.task_notification("a2"))
    assert seen == ["0-a1", "1-a1", "0-a2"]


async def test_as_completed_times_out() -> None:
    manager = tracking(running("a1", "a2"), frames.task_notification("a1"))
    seen: list[str] = []

    async def collect() -> None:
        async for task in manager.as_completed(timeout=0.05):
            seen.append(task.id)  # noqa: PERF401 - what came before the error is the point

    with pytest.raises(TaskTimeoutError) as caught:
        await collect()
    assert seen == ["a1"]
    assert caught.value.task_id == "a2"


async def test_leaving_as_completed_early_leaves_nothing_behind() -> None:
    manager = tracking(running("a1", "a2"), frames.task_notification("a1"))
    async for task in manager.as_completed():
        assert task.id == "a1"
        break
    tracking(manager, frames.task_notification("a2"))
    assert manager["a2"].done


async def test_until_a_condition_holds() -> None:
    manager = running("a1")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(manager.until, lambda: manager["a1"].activity == "Running make", "a1")
            await wait_all_tasks_blocked()
            tracking(manager, frames.task_progress("a1", "Running make"))


# Live messages


async def test_messages_are_live_until_the_end() -> None:
    manager = tracking(running("a1"), child("a1", "one"))
    seen: list[str] = []

    async def read() -> None:
        seen.extend([text_of(one) async for one in manager["a1"].messages()])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as workers:
            workers.start_soon(read)
            await wait_all_tasks_blocked()
            tracking(manager, child("a1", "two"))
            await wait_all_tasks_blocked()
            tracking(manager, child("a1", "three"), *frames.task_end("a1"))
    assert seen == ["one", "two", "three"]


async def test_messages_that_are_no_longer_kept_are_a_gap() -> None:
    manager = TaskManager(message_limit=3)
    tracking(manager, frames.task_started("a1"), *(child("a1", str(number)) for number in range(10)))
    tracking(manager, *frames.task_end("a1"))
    seen = [one async for one in manager["a1"].messages()]
    assert seen[0] == MessageGap("a1", 7)
    assert [text_of(one) for one in seen[1:]] == ["7", "8", "9"]


async def test_without_a_limit_above_zero_no_messages_are_kept() -> None:
    manager = tracking(TaskManager(message_limit=0), frames.task_started("a1"), child("a1", "one"))
    tracking(manager, *frames.task_end("a1"))
    assert [one async for one in manager["a1"].messages()] == []


async def test_waits_work_on_one_loop_after_the_other() -> None:
    # The fixture runs this twice, on two loops; a manager that outlives a loop must not be tied to it either.
    manager = _OUTLIVING.setdefault("manager", running("a1"))
    with pytest.raises(TaskTimeoutError):
        await manager.wait("a1", timeout=0.01)
    await checkpoint()
    manager.track(message(frames.task_progress("a1")))


_OUTLIVING: dict[str, TaskManager] = {}
