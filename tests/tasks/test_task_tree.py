"""The tree: parents, children, depths, roots, sums, and how it is drawn."""

from typing import Any

import pytest
from folding import Desk, deliver, fold_recording, intake_of, shell_started, tracking
from recordings_loader import lines

from claude_agent_py import TaskManager
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode


def usage(tokens: int) -> dict[str, Any]:
    return {"total_tokens": tokens, "tool_uses": 1, "duration_ms": 10}


@pytest.fixture
def manager() -> TaskManager:
    """Two subagents of the main agent, one with a subagent and a shell of its own, and a shell."""
    return tracking(
        TaskManager(),
        frames.task_started("a1", "plan", subagent_type="planner"),
        frames.task_started("a2", "search", parent_task_id="a1", spawn_depth=2),
        shell_started("b1", description="make", parent_task_id="a2", owned_by_subagent=True),
        frames.task_started("a3", "review"),
        shell_started("b2", description="tests"),
        frames.task_progress("a2", usage=usage(40)),
        frames.task_notification("a1", usage=usage(100)),
    )


def test_parents_children_depths_roots(manager: TaskManager) -> None:
    assert [task.id for task in manager.roots] == ["a1", "a3", "b2"]
    assert [task.id for task in manager["a1"].children] == ["a2"]
    assert manager["b1"].parent is manager["a2"]
    assert manager["a1"].parent is None
    assert {task.id: task.depth for task in manager} == {"a1": 1, "a2": 2, "b1": 3, "a3": 1, "b2": 1}


def test_an_ended_parent_is_still_the_parent(manager: TaskManager) -> None:
    assert manager["a1"].done
    assert manager["a2"].parent is manager["a1"]


def test_a_task_with_an_unknown_parent_is_a_root() -> None:
    manager = tracking(TaskManager(), frames.task_started("a2", parent_task_id="a1", spawn_depth=2))
    assert manager.roots == [manager["a2"]]
    assert (manager["a2"].parent, manager["a2"].depth) == (None, 2)
    tracking(manager, frames.task_started("a1"))
    assert manager.roots == [manager["a1"]]
    assert manager["a1"].children == [manager["a2"]]


def test_events_carry_the_agent_that_acted() -> None:
    desk = Desk()
    desk.fold(
        frames.task_started("a1", "plan", subagent_type="planner"),
        frames.task_started("a2", "search", subagent_type="searcher", parent_task_id="a1", spawn_depth=2),
        shell_started("b1", description="make", parent_task_id="a2", owned_by_subagent=True),
        frames.task_progress("a2"),
        frames.task_notification("b1", "failed"),
        frames.task_notification("a2", "stopped"),
        frames.task_notification("a1"),
    )
    said = [(event.task_id, event.kind, event.author) for event in desk.events if event.kind != "output_available"]
    assert said == [
        ("a1", "started", ""),
        ("a2", "started", "planner"),
        ("b1", "started", "searcher"),
        ("a2", "progressed", "searcher"),
        ("b1", "status_changed", "searcher"),
        ("b1", "finished", "searcher"),
        ("a2", "status_changed", "planner"),
        ("a2", "finished", "planner"),
        ("a1", "status_changed", "planner"),
        ("a1", "finished", "planner"),
    ]


@pytest.mark.anyio
async def test_a_late_listener_gets_the_author_of_an_event(manager: TaskManager) -> None:
    heard: list[tuple[str, str, str]] = []
    listener = manager.on(lambda event: heard.append((event.task_id, event.kind, event.author)))
    manager.catch_up(listener)
    intake_of(manager).process_exited("gone")
    await deliver(manager)
    assert heard[:4] == [
        ("a1", "started", ""),
        ("a1", "finished", "planner"),
        ("a2", "started", "planner"),
        ("b1", "started", "general-purpose"),
    ]


def test_the_tree_and_its_sums(manager: TaskManager) -> None:
    tree = manager.tree()
    assert len(tree) == 5
    assert [node.task.id for node in tree.walk()] == ["a1", "a2", "b1", "a3", "b2"]
    assert [node.task.id for node in tree] == ["a1", "a3", "b2"]
    assert tree.roots[0].usage.total_tokens == 140
    assert tree.usage.tool_uses == 2
    assert [node.task.id for node in manager["a2"].tree().walk()] == ["a2", "b1"]


def test_totals_have_all_runs(manager: TaskManager) -> None:
    tracking(manager, frames.task_started("a1", run_id="1-a1"))
    tracking(manager, frames.task_progress("a1", run_id="1-a1", usage=usage(7)))
    assert manager["a1"].usage is not None
    assert manager["a1"].usage.total_tokens == 7
    assert manager["a1"].total_usage.total_tokens == 147


def test_the_drawing(manager: TaskManager) -> None:
    assert str(manager.tree()) == (
        "plan [planner] completed, 100 tokens\n"
        "└── search [general-purpose] running, 40 tokens\n"
        "    └── make [local_bash] running\n"
        "review [general-purpose] running\n"
        "tests [local_bash] running"
    )


def test_the_drawing_of_siblings() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1", "top"))
    tracking(manager, *(frames.task_started(f"b{n}", f"child {n}", parent_task_id="a1") for n in (1, 2)))
    tracking(manager, frames.task_started("c1", "below", parent_task_id="b1"))
    assert [line.split(" [")[0] for line in str(manager.tree()).splitlines()] == [
        "top",
        "├── child 1",
        "│   └── below",
        "└── child 2",
    ]


def test_an_empty_tree() -> None:
    tree = TaskManager().tree()
    assert (len(tree), str(tree), tree.usage.total_tokens) == (0, "", 0)


def test_a_recorded_tree() -> None:
    manager = TaskManager()
    for line in lines("tasks/s04_nested_bg"):
        manager.track(decode(line))
    drawn = [line.split(" [")[0] for line in str(manager.tree()).splitlines()]
    assert drawn == ["depth 1", "└── depth 2", "    └── depth 3"]
    desk = fold_recording("tasks/s04_nested_bg")
    assert len(desk.ledger.records) == len(manager)
