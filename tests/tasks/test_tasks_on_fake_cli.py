"""Whole sessions with a CLI that loses, repeats, reorders and invents messages about tasks, or dies."""

import pickle
from typing import Any, Literal

import anyio
import pytest
from folding import level

from claude_agent_py import Client, ResultMessage, RunError, TaskStatus, query
from claude_agent_py.tasks import Evidence, TaskChanged
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = pytest.mark.anyio

TEN = [f"a{number}" for number in range(10)]


def launching(*task_ids: str) -> list[Any]:
    """A turn that launches background tasks and ends."""
    started = [frame for task_id in task_ids for frame in (level(*task_ids), frames.task_started(task_id, task_id))]
    return steps.turn([*started, frames.of_prompt(frames.assistant("launched"))], text="launched")


def follow_up(task_id: str, text: str = "noted") -> list[Any]:
    """The turn that the CLI begins by itself when a task is over."""
    return [frames.init(), frames.assistant(text), frames.result(text, origin=frames.task_origin(task_id))]


async def outcomes_of(fake: FakeCLI, *, until: str = "idle") -> dict[str, tuple[TaskStatus, Evidence]]:
    """Run one prompt, and return how its tasks ended."""
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            await client.query("go", until=until)  # type: ignore[arg-type]
            found = {outcome.task_id: outcome for outcome in await client.tasks.wait_all(timeout=60)}
    return {task_id: (outcome.status, outcome.evidence) for task_id, outcome in found.items()}


async def test_a_result_with_tasks_and_its_error_can_be_pickled() -> None:
    fake = FakeCLI(launching("a1"), frames.task_notification("a1", summary="fine"), level(), follow_up("a1"))
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            result = await client.query("go", until="idle")
    for copy in (pickle.loads(pickle.dumps(result)), pickle.loads(pickle.dumps(RunError("no", result=result))).result):
        assert copy.text == result.text
        assert [(task.id, task.summary) for task in copy.tasks] == [("a1", "fine")]


async def test_a_listener_that_raises_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: object) -> None:
        raise ValueError("broken on purpose")

    fake = FakeCLI(launching("a1"), frames.task_notification("a1"), level(), follow_up("a1"))
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            client.tasks.on("finished", broken)
            await client.query("go", until="idle")
    assert [(record.levelname, record.exc_info is not None) for record in caplog.records] == [("ERROR", True)]


@pytest.mark.parametrize(("until", "advice"), [("result", 'run until="idle"'), ("idle", "the run ended before they")])
async def test_the_warning_at_the_end_advises_nothing_that_was_done(
    until: Literal["result", "idle"], advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeCLI(launching("a1"))
    with anyio.fail_after(60):
        async with query("go", until=until, transport=fake.transport()) as one:
            async for message in one:
                if isinstance(message, ResultMessage):
                    break
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert advice in warning
    assert ("until=" in warning) is (until == "result")


async def test_a_notification_that_is_lost() -> None:
    fake = FakeCLI(launching("a1"), frames.task_updated("a1", "completed"), level(), follow_up("a1"))
    assert await outcomes_of(fake) == {"a1": (TaskStatus.COMPLETED, Evidence.UPDATE)}


async def test_every_word_about_the_end_is_lost_but_the_list() -> None:
    fake = FakeCLI(launching("a1", "a2"), level("a2"), frames.task_notification("a2"), level())
    assert await outcomes_of(fake) == {
        "a1": (TaskStatus.COMPLETED, Evidence.LEVEL),
        "a2": (TaskStatus.COMPLETED, Evidence.NOTIFICATION),
    }


async def test_an_end_that_only_the_list_shows_is_noticed_without_a_waiter_for_each_task_in_turn() -> None:
    ended: list[str] = []
    fake = FakeCLI(launching("a1"), level(), launching("a2"), level())
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            client.tasks.on("finished", lambda event: ended.append(event.task_id))
            for task_id in ("a1", "a2"):
                await client.query("go")
                while task_id not in ended:
                    await anyio.sleep(0.01)
                await client.tasks.wait(task_id)  # its transcript is counted, and the worker has ended
                await anyio.wait_all_tasks_blocked()


async def test_notifications_that_come_twice_early_and_out_of_order() -> None:
    end = frames.task_notification("a1", "failed", "no luck")
    turn = steps.turn(
        [
            frames.task_notification("a2", "stopped", "early"),
            frames.task_started("a1"),
            end,
            frames.task_updated("a1", "failed"),
            end,
            frames.task_started("a2"),
            frames.task_progress("a1"),
            end,
        ]
    )
    assert await outcomes_of(FakeCLI(turn, level())) == {
        "a1": (TaskStatus.FAILED, Evidence.NOTIFICATION),
        "a2": (TaskStatus.STOPPED, Evidence.NOTIFICATION),
    }


async def test_messages_about_tasks_that_nobody_started() -> None:
    turn = steps.turn(
        [
            frames.task_progress("a1"),
            frames.task_updated("a2", "killed"),
            frames.task_notification("a3", "completed"),
            frames.assistant("?", agent_id="a4", parent_tool_use_id="toolu_x"),
            frames.task_notification("a4"),
            frames.task_notification("a1"),
        ]
    )
    found = await outcomes_of(FakeCLI(turn))
    assert {task_id: status.value for task_id, (status, _) in found.items()} == {
        "a1": "completed",
        "a2": "stopped",
        "a3": "completed",
        "a4": "completed",
    }


async def test_the_process_dies_with_ten_tasks_live() -> None:
    gate = Gate()
    fake = FakeCLI(launching(*TEN), steps.wait_gate(gate), steps.die(9))
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            result = await client.query("go")
            assert len(result.unfinished_tasks) == 10
            ends = client.tasks.events("finished")
            async with anyio.create_task_group() as waiters:
                for task in client.tasks:
                    waiters.start_soon(task.wait)
                await anyio.wait_all_tasks_blocked()
                gate.open()
            told = [event.task_id async for event in ends]
            outcomes = [task.outcome for task in client.tasks]
    assert told == TEN
    assert {outcome.status for outcome in outcomes if outcome} == {TaskStatus.FAILED}
    assert {outcome.evidence for outcome in outcomes if outcome} == {Evidence.PROCESS_EXIT}
    assert all(outcome and outcome.failure_reason for outcome in outcomes)
    assert list(result.unfinished_tasks) == []


async def test_a_stop_that_the_cli_confirms_and_forgets() -> None:
    fake = FakeCLI(launching("a1"))
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            await client.query("go")
            outcome = await client.tasks["a1"].stop()
    assert (outcome.status, outcome.evidence) == (TaskStatus.STOPPED, Evidence.STOP_REQUEST)


async def test_a_thousand_tasks_end_in_one_breath() -> None:
    ids = [f"a{number}" for number in range(1000)]
    started = [frames.task_started(task_id) for task_id in ids]
    ended = [frames.task_notification(task_id) for task_id in reversed(ids)]
    fake = FakeCLI(steps.turn([*started, frames.of_prompt(frames.assistant("x"))]), steps.emit(*ended), level())
    order: list[str] = []
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            await client.query("go")
            async for task in client.tasks.as_completed(timeout=60):
                order.append(task.id)  # noqa: PERF401 - the order is the point
    assert sorted(order) == sorted(ids)


async def test_a_change_before_there_is_a_listener_is_not_reported_later() -> None:
    first, second = Gate(), Gate()
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.task_started("b1", "one", task_type="local_bash"),
        steps.wait_gate(first),
        frames.task_updated("b1", None, description="two"),
        steps.wait_gate(second),
        frames.task_updated("b1", None, description="three"),
        frames.task_end("b1"),
        frames.of_prompt(frames.result("done")),
    )
    changes: list[Any] = []
    with anyio.fail_after(30):
        async with Client(transport=fake.transport()) as client:
            run = client.query("go")
            await client.tasks.until(lambda: "b1" in client.tasks)
            first.open()
            await client.tasks.until(lambda: client.tasks["b1"].description == "two", "b1")
            client.tasks.on(lambda event: changes.append(event) if isinstance(event, TaskChanged) else None)
            second.open()
            await run
    assert [change.description for change in changes] == ["three"]
