"""Stopping tasks and moving them to the background: the requests sent, and waiting for their effect."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from folding import HASTY, Port, level, shell_started, tracking

from claude_agent_py import TaskManager, TaskStatus
from claude_agent_py.errors import ControlRejectedError, TaskError, TaskTimeoutError
from claude_agent_py.tasks import Evidence, Grace
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


def session(*started: dict[str, Any], effect: Callable[[TaskManager, str, dict[str, Any]], dict[str, Any]]) -> Any:
    """A manager with a port whose requests have an effect."""
    port = Port(lambda subtype, fields: effect(manager, subtype, fields))
    manager = TaskManager(port, grace=HASTY)
    return tracking(manager, *started), port


def stops(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Stop like the CLI: the last frames first, with the list of the others, then the reply."""
    *end, _ = frames.task_end(fields["task_id"], "stopped", "a task")
    tracking(manager, *end)
    others = [{"task_id": task.id, "task_type": task.type, "description": "a task"} for task in manager.running]
    tracking(manager, level(*others))
    return {}


def says_yes(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Confirm and do nothing, as for an id that the CLI does not know."""
    return {}


async def test_stopping_a_task() -> None:
    manager, port = session(frames.task_started("a1"), effect=stops)
    outcome = await manager["a1"].stop()
    assert (outcome.status, outcome.evidence) == (TaskStatus.STOPPED, Evidence.NOTIFICATION)
    assert port.sent == [("stop_task", {"task_id": "a1"})]
    assert outcome.failure_reason == manager["a1"].failure_reason == "stopped by this program"


async def test_an_ended_task_is_left_alone() -> None:
    manager, port = session(frames.task_started("a1"), frames.task_notification("a1"), effect=stops)
    assert (await manager["a1"].stop()).status is TaskStatus.COMPLETED
    assert port.sent == []
    assert await manager["a1"].move_to_background() is False  # it is nowhere any more


async def test_a_stop_that_is_confirmed_without_an_end() -> None:
    manager, _ = session(frames.task_started("a1"), effect=says_yes)
    with anyio.fail_after(30):
        outcome = await manager["a1"].stop()
    assert (outcome.status, outcome.evidence) == (TaskStatus.STOPPED, Evidence.STOP_REQUEST)


async def test_a_stop_that_is_refused_is_no_reason_for_a_later_end() -> None:
    def refuse(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        raise ControlRejectedError(subtype, "no")

    manager, _ = session(frames.task_started("a1"), effect=refuse)
    with pytest.raises(ControlRejectedError):
        await manager["a1"].stop()
    tracking(manager, *frames.task_end("a1", "stopped", "a task"))
    assert manager["a1"].failure_reason is None


async def test_a_stop_whose_effect_does_not_come_in_time() -> None:
    port = Port()
    manager = tracking(TaskManager(port, grace=Grace(doubt=60)), frames.task_started("a1"))
    with pytest.raises(TaskTimeoutError):
        await manager["a1"].stop(timeout=0.01)
    assert not manager["a1"].done


async def test_stopping_all_stops_subagents_first_and_leaves_housekeeping_alone() -> None:
    started = [
        shell_started("b1"),
        frames.task_started("a1"),
        frames.task_started("a2"),
        frames.task_started("d1", ambient=True),
        frames.task_started("a3"),
        frames.task_notification("a3"),
    ]
    manager, port = session(*started, effect=stops)
    outcomes = await manager.stop_all()
    assert {outcome.task_id for outcome in outcomes} == {"a1", "a2", "b1"}
    sent = [fields["task_id"] for _, fields in port.sent]
    assert (set(sent[:2]), sent[2:]) == ({"a1", "a2"}, ["b1"])


async def test_stopping_all_returns_the_end_of_a_shell_that_ends_with_its_subagent() -> None:
    def stops_both(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        tracking(manager, frames.task_notification("b1", "stopped"))
        return stops(manager, subtype, fields)

    manager, port = session(frames.task_started("a1"), shell_started("b1"), effect=stops_both)
    assert [outcome.task_id for outcome in await manager.stop_all()] == ["a1", "b1"]
    assert port.sent == [("stop_task", {"task_id": "a1"})]


async def test_stopping_all_continues_after_a_failure() -> None:
    def refuse_one(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["task_id"] == "a1":
            raise ControlRejectedError(subtype, "no")
        return stops(manager, subtype, fields)

    manager, _ = session(frames.task_started("a1"), frames.task_started("a2"), effect=refuse_one)
    with pytest.raises(ControlRejectedError):
        await manager.stop_all()
    assert manager["a2"].done


async def test_stopping_all_stops_what_a_subagent_launches_meanwhile_but_not_what_the_main_agent_does() -> None:
    def launches_more(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["task_id"] == "a1":
            tracking(manager, frames.task_started("a2", parent_task_id="a1"), frames.task_started("a3"))
        return stops(manager, subtype, fields)

    manager, port = session(frames.task_started("a1"), shell_started("b1"), effect=launches_more)
    assert [outcome.task_id for outcome in await manager.stop_all()] == ["a1", "a2", "b1"]
    assert [fields["task_id"] for _, fields in port.sent] == ["a1", "a2", "b1"]
    assert [task.id for task in manager.running] == ["a3"]


async def test_stopping_some() -> None:
    manager, _ = session(shell_started("b1"), frames.task_started("a1"), frames.task_started("a2"), effect=stops)
    assert [outcome.task_id for outcome in await manager.stop_all(task_ids=["b1", manager["a2"]])] == ["a2", "b1"]
    assert [task.id for task in manager.running] == ["a1"]


async def test_stopping_all_of_nothing() -> None:
    assert await TaskManager().stop_all() == []


# To the background


def moves(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Move like the CLI: the list, the update, then the reply."""
    tracking(manager, level("a1"), frames.task_updated("a1", None, is_backgrounded=True))
    return {"backgrounded": True}


async def test_moving_a_task_to_the_background() -> None:
    manager, port = session(frames.task_started("a1", is_backgrounded=False), effect=moves)
    assert not manager["a1"].is_backgrounded
    assert await manager["a1"].move_to_background() is True
    assert manager["a1"].is_backgrounded
    assert port.sent == [("background_tasks", {"tool_use_id": "toolu_a1"})]


async def test_a_background_task_is_not_moved() -> None:
    manager, port = session(frames.task_started("a1"), effect=moves)
    assert await manager["a1"].move_to_background() is True
    assert port.sent == []


async def test_an_ended_task_is_not_moved() -> None:
    manager, port = session(
        frames.task_started("a1", is_backgrounded=False), frames.task_notification("a1"), effect=moves
    )
    assert await manager["a1"].move_to_background() is False
    assert port.sent == []


async def test_a_shell_that_is_too_young_is_not_moved() -> None:
    manager, _ = session(
        shell_started("b1", is_backgrounded=False), effect=lambda manager, subtype, fields: {"backgrounded": False}
    )
    assert await manager["b1"].move_to_background() is False


async def test_a_task_whose_call_is_unknown_is_not_moved() -> None:
    manager, port = session(frames.task_started("a1", is_backgrounded=False, tool_use_id=None), effect=moves)
    with pytest.raises(TaskError, match="the tool call that waits for task 'a1' is unknown"):
        await manager["a1"].move_to_background()
    assert port.sent == []


async def test_a_task_that_ends_instead_of_moving() -> None:
    def ends(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        tracking(manager, frames.task_notification("a1"))
        return {"backgrounded": True}

    manager, _ = session(frames.task_started("a1", is_backgrounded=False), effect=ends)
    with anyio.fail_after(30):
        assert await manager["a1"].move_to_background() is False


async def test_moving_all() -> None:
    manager, port = session(frames.task_started("a1", is_backgrounded=False), effect=says_yes)
    await manager.move_all_to_background()
    assert port.sent == [("background_tasks", {})]


async def test_background_tasks_may_be_disabled() -> None:
    def refuse(manager: TaskManager, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        raise ControlRejectedError(subtype, "Background tasks are disabled in this session.")

    manager, _ = session(frames.task_started("a1", is_backgrounded=False), effect=refuse)
    with pytest.raises(ControlRejectedError, match="disabled"):
        await manager["a1"].move_to_background()
