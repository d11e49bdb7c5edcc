"""The task history: storage, queries, replays, concurrent writers, and a responsive event loop."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from folding import Clock, deliver, intake_of, shell_started, tracking

from claude_agent_py import TaskManager, TaskStatus
from claude_agent_py.errors import OptionsError, SessionError
from claude_agent_py.history.records import rebuild
from claude_agent_py.tasks import FinishedTask, RecordKind, TaskHistory, TaskRecord
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[TaskHistory]:
    async with TaskHistory(tmp_path / "history.sqlite") as history:
        yield history


def run(task_id: str, status: TaskStatus = TaskStatus.COMPLETED, **fields: object) -> FinishedTask:
    return FinishedTask(**({"session_id": "s1", "task_id": task_id, "status": status} | fields))  # type: ignore[arg-type]


async def test_what_was_kept_comes_back(history: TaskHistory) -> None:
    kept = FinishedTask(
        session_id="s1",
        task_id="a1",
        status=TaskStatus.FAILED,
        run_id="0-a1",
        type="local_agent",
        agent="reviewer",
        parent_task_id="a0",
        description="review",
        prompt="look",
        summary="it broke",
        failure_reason="no luck",
        output_file="/tmp/a1",
        exit_code=3,
        evidence="notification",
        total_tokens=120.0,
        tool_uses=2.0,
        started_at=10.0,
        ended_at=20.5,
    )
    await history.add(kept)
    assert await history.finished() == [kept]


async def test_a_file_that_cannot_be_opened_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "nonexistent" / "x"
    with pytest.raises(SessionError, match=str(path)):
        await TaskHistory(path).open()


async def test_a_status_that_there_is_not_is_refused(history: TaskHistory) -> None:
    with pytest.raises(OptionsError, match=r"status: must be one of pending, .*, not 'bogus'"):
        await history.finished(status="bogus")


async def test_what_was_over_before_is_kept_too(tmp_path: Path) -> None:
    manager = TaskManager(clock=Clock())
    tracking(manager, frames.task_started("a1"), frames.task_notification("a1", summary="one"))
    tracking(manager, frames.task_started("a1", run_id="1-a1"), frames.task_notification("a1", run_id="1-a1"))
    tracking(manager, frames.task_started("a2", parent_task_id="a1"))
    heard: list[str] = []
    manager.on("started", lambda event: heard.append(event.task_id))
    async with TaskHistory(tmp_path / "history.sqlite") as history:
        for _ in range(2):  # attached again: nothing is stored twice
            history.attach(manager, "s1")
        tracking(manager, frames.task_notification("a2"))
        intake_of(manager).process_exited("over")
        await deliver(manager)
        kept = await history.finished()
        assert sorted((task.task_id, task.run_id) for task in kept) == [("a1", "0-a1"), ("a1", "1-a1"), ("a2", "0-a2")]
        steps = [(record.task_id, record.kind.value) for record in await history.records("s1")]
        ends = [("a1", "completed")] * 2 + [("a2", "completed")]
        assert sorted(step for step in steps if step[1] == "completed") == ends
    assert heard == []  # other listeners get nothing twice


async def test_questions(history: TaskHistory) -> None:
    await history.add(
        run("a1", agent="reviewer", ended_at=100.0),
        run("a2", TaskStatus.FAILED, agent="planner", ended_at=200.0),
        run("a3", TaskStatus.STOPPED, agent="reviewer", ended_at=300.0, session_id="s2"),
    )

    async def ids(**question: object) -> list[str]:
        return [task.task_id for task in await history.finished(**question)]  # type: ignore[arg-type]

    assert await ids() == ["a3", "a2", "a1"]
    assert await ids(session_id="s1") == ["a2", "a1"]
    assert await ids(agent="reviewer") == ["a3", "a1"]
    assert await ids(status="failed") == ["a2"]
    assert await ids(status=[TaskStatus.FAILED, "killed"]) == ["a3", "a2"]
    assert await ids(status=[]) == []
    assert await ids(since=200.0) == ["a3", "a2"]
    assert await ids(since=100.0, until=200.0) == ["a1"]
    assert await ids(task_id="a1") == ["a1"]
    assert await ids(limit=1) == ["a3"]
    assert await history.sessions() == ["s1", "s2"]


async def test_text_is_never_taken_for_sql(history: TaskHistory) -> None:
    nasty = "x'; DROP TABLE finished; --"
    await history.add(run(nasty, agent=nasty))
    assert [task.task_id for task in await history.finished(agent=nasty, session_id="s1")] == [nasty]


async def test_the_same_run_twice_is_one_row_and_the_later_one_counts(history: TaskHistory) -> None:
    await history.add(run("a1", run_id="0"), run("a1", run_id="1"))
    await history.add(run("a1", TaskStatus.FAILED, run_id="0"))
    assert {(task.run_id, task.status.value) for task in await history.finished()} == {
        ("0", "failed"),
        ("1", "completed"),
    }


async def test_records_are_kept_once_and_in_order(history: TaskHistory) -> None:
    steps = [
        TaskRecord("s1", "a1", RecordKind.CREATED, 1.0, author="planner", details={"title": "é"}),
        TaskRecord("s1", "a1", RecordKind.STARTED, 2.0),
        TaskRecord("s1", "a1", RecordKind.AWAITING_USER, 3.0),
        TaskRecord("s1", "a1", RecordKind.AWAITING_USER, 4.0, step=1),
        TaskRecord("s1", "a1", RecordKind.COMPLETED, 5.0, summary="done"),
    ]
    await history.record(*steps)
    await history.record(*reversed(steps))
    assert await history.records("s1") == steps
    assert await history.records("s1", "a2") == []


async def session(history: TaskHistory) -> TaskManager:
    """A stored session: a subagent with a child, a resumed one, and a shell."""
    clock = Clock(1000.0)
    manager = TaskManager(clock=clock)
    history.attach(manager, lambda: "s1")
    tracking(
        manager,
        frames.task_started("a1", "plan", subagent_type="planner"),
        frames.task_started("a2", "search", parent_task_id="a1", spawn_depth=2),
        shell_started("b1", parent_task_id="a2"),
        frames.task_progress("a2"),
    )
    intake_of(manager).track_prompt("r1", "a2")
    intake_of(manager).track_prompt_end("r1", "a2")
    tracking(
        manager,
        frames.task_notification("b1", "failed", "failed with exit code 3"),
        frames.task_notification("a2", usage={"total_tokens": 900}),
        frames.task_notification("a1", summary="one"),
        frames.task_started("a1", run_id="1-a1", subagent_type="planner"),
        frames.task_notification("a1", summary="two", run_id="1-a1"),
    )
    intake_of(manager).process_exited("over")
    await deliver(manager)
    return manager


async def test_a_session_is_kept_by_itself(history: TaskHistory) -> None:
    manager = await session(history)
    kept = {(task.task_id, task.run_id): task for task in await history.finished()}
    assert {key: task.summary for key, task in kept.items()} == {
        ("b1", "0-b1"): "failed with exit code 3",
        ("a2", "0-a2"): "done",
        ("a1", "0-a1"): "one",
        ("a1", "1-a1"): "two",
    }
    assert (kept["b1", "0-b1"].exit_code, kept["b1", "0-b1"].parent_task_id) == (3, "a2")
    assert kept["a2", "0-a2"].total_tokens == 900
    assert kept["a1", "0-a1"].agent == "planner"
    steps = [(record.task_id, record.kind.value) for record in await history.records("s1", "a2")]
    kinds = ["created", "started", "progressed", "awaiting_user", "resumed", "completed"]
    assert steps == [("a2", kind) for kind in kinds]
    assert [record.author for record in await history.records("s1", "a2")] == ["planner", *["general-purpose"] * 5]
    assert len(manager) == 3


async def test_the_tree_can_be_rebuilt_from_the_records_alone(history: TaskHistory) -> None:
    manager = await session(history)
    live = {(task.parent.id if task.parent else None, task.id) for task in manager}
    tree = await history.tree("s1")
    assert {(parent, child) for parent, children in tree.items() for child in children} == live
    rebuilt = await history.rebuild("s1")
    assert str(rebuilt) == str(manager.tree())
    assert len(rebuilt) == 3
    kept = {task.id: task for task in rebuilt.walk()}
    assert {task.id: (task.status, task.summary, task.failure_reason, task.type) for task in manager} == {
        task.id: (task.status, task.summary, task.failure_reason, task.type) for task in kept.values()
    }


async def test_an_end_of_which_more_became_known_is_rebuilt_as_it_was(history: TaskHistory) -> None:
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a1", "one"))
    intake_of(manager).process_exited("gone")
    tracking(manager, frames.task_notification("a1", summary="it was done before"))
    intake_of(manager).process_exited("over")
    await deliver(manager)
    assert [record.kind.value for record in await history.records("s1")] == [
        "created",
        "started",
        "failed",
        "completed",
    ]
    assert str(await history.rebuild("s1")) == str(manager.tree())


def test_a_parent_that_nothing_is_known_of_makes_a_root() -> None:
    records = [
        TaskRecord("s1", "a2", RecordKind.CREATED, 1.0, parent_task_id="a1", details={"agent": "helper"}),
        TaskRecord("s1", "b1", RecordKind.CREATED, 2.0, parent_task_id="a2", details={"description": "build"}),
        TaskRecord("s1", "b1", RecordKind.STARTED, 3.0),
    ]
    assert str(rebuild(records)) == "a2 [helper] pending\n└── build [task] running"


async def test_a_session_that_is_replayed_leaves_the_history_as_it_was(history: TaskHistory) -> None:
    await session(history)
    before = (await history.finished(), await history.records("s1"))
    await session(history)
    assert (await history.finished(), await history.records("s1")) == before


async def test_several_writers_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite"

    async def write(name: str) -> None:
        async with TaskHistory(path) as history:
            for number in range(20):
                await history.add(run(f"{name}{number}"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as writers:
            for name in ("a", "b", "c"):
                writers.start_soon(write, name)
    async with TaskHistory(path) as history:
        assert len(await history.finished()) == 60


async def test_forgetting(history: TaskHistory) -> None:
    await history.add(run("a1", ended_at=10.0), run("a2", ended_at=20.0), run("a3"))
    await history.record(
        TaskRecord("s1", "a1", RecordKind.STARTED, 5.0), TaskRecord("s1", "a2", RecordKind.STARTED, 15.0)
    )
    assert await history.forget(before=15.0) == 1
    assert {task.task_id for task in await history.finished()} == {"a2", "a3"}
    assert [record.task_id for record in await history.records("s1")] == ["a2"]


async def test_in_memory_and_used_without_opening() -> None:
    history = TaskHistory(":memory:")
    await history.add(run("a1"))
    assert len(await history.finished()) == 1
    await history.close()
    await history.close()
    assert await history.finished() == []


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("this is no database, and it is long enough to be looked at as one " * 20)
    with pytest.raises(SessionError, match="not a database"):
        await TaskHistory(path).open()


# Files changed by others


async def change(path: Path, statement: str, *values: object) -> None:
    """Change the file as another program would."""
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(statement, values)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "hibernating"),
        ("status", 7),
        ("total_tokens", "many"),
        ("started_at", b"\xff"),
        ("exit_code", "one"),
        ("description", b"blob"),
    ],
)
async def test_an_odd_run_is_left_out_and_counted(tmp_path: Path, column: str, value: object, caplog: Any) -> None:
    path = tmp_path / "history.db"
    async with TaskHistory(path) as history:
        await history.add(run("a1"), run("a2"))
        await change(path, f"UPDATE finished SET {column} = ? WHERE task_id = 'a1'", value)
        assert [task.task_id for task in await history.finished()] == ["a2"]
        assert history.skipped_rows == 1
    assert column in caplog.text


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "hibernated"),
        ("details", "no json"),
        ("details", "[1]"),
        ("details", "[" * 100_000),
        ("details", '{"a":' * 300 + "1" + "}" * 300),
        ("at", "today"),
        ("step", 1.5),
    ],
)
async def test_an_odd_record_is_left_out_and_counted(tmp_path: Path, column: str, value: object) -> None:
    path = tmp_path / "history.db"
    async with TaskHistory(path) as history:
        steps = [TaskRecord("s1", name, RecordKind.CREATED, 1.0) for name in ("a1", "a2")]
        await history.record(*steps)
        await change(path, f"UPDATE records SET {column} = ? WHERE task_id = 'a1'", value)
        assert await history.records("s1") == steps[1:]
        assert [task.id for task in (await history.rebuild("s1")).walk()] == ["a2"]
        assert history.skipped_rows == 1


async def test_text_that_is_none_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with TaskHistory(path) as history:
        await history.add(run("a1"))
        await change(path, "UPDATE finished SET description = CAST(x'61ff' AS TEXT)")
        assert [task.description for task in await history.finished()] == ["a\ufffd"]


async def test_details_of_another_version_leave_the_rest_of_the_tree(history: TaskHistory) -> None:
    odd = {"type": ["x"], "description": 7, "usage": {"total_tokens": "many"}}
    await history.record(TaskRecord("s1", "a1", RecordKind.CREATED, 1.0, details=odd))
    (task,) = await history.rebuild("s1")
    assert (task.type, task.description, task.usage) == (None, "", None)


async def test_half_characters_are_replaced(history: TaskHistory) -> None:
    await history.add(run("a1", summary="\ud83d half"))
    await history.record(TaskRecord("s1", "a1", RecordKind.CREATED, 1.0, details={"x": "\ud800"}))
    assert [task.summary for task in await history.finished()] == ["\ufffd half"]
    assert [record.details for record in await history.records("s1")] == [{"x": "\ufffd"}]


async def test_what_cannot_be_kept_is_a_typed_error(history: TaskHistory) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SessionError):
        await history.add(run("a1", exit_code=2**70))
    with pytest.raises(SessionError):
        await history.add(run("a1", summary=object()))
    for details in ({"x": object()}, {"x": deep}):
        with pytest.raises(SessionError):
            await history.record(TaskRecord("s1", "a1", RecordKind.CREATED, 1.0, details=details))
    with pytest.raises(SessionError):
        await history.finished(limit=2**70)
    assert await history.finished() == []


async def test_a_chain_of_thousands_of_parents_is_a_typed_error(history: TaskHistory) -> None:
    chain = [TaskRecord("s1", f"a{n}", RecordKind.CREATED, 1.0, parent_task_id=f"a{n - 1}") for n in range(5000)]
    await history.record(*chain)
    with pytest.raises(SessionError):
        await history.rebuild("s1")
