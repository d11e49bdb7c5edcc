"""The task history: storage, queries, replays, concurrent writers, and a responsive event loop."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from cancelling import cancel_in_a_row
from folding import Clock, answer_question, close_question, deliver, intake_of, open_question, shell_started, tracking

from claude_agent_py import TaskManager, TaskStatus
from claude_agent_py.errors import OptionsError, SessionError
from claude_agent_py.tasks import Answered, RecordedTask, TaskAnswered, TaskHistory, TaskStarted, TaskUsage
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[TaskHistory]:
    async with TaskHistory(tmp_path / "history.sqlite") as history:
        yield history


def run(
    task_id: str,
    status: str = "completed",
    *,
    agent: str = "reviewer",
    at: float = 1000.0,
    session: str = "s1",
    summary: str = "done",
    **started: Any,
) -> tuple[str, float, list[dict[str, Any]]]:
    """Return the session of a run, the time of its start and its end, and its frames."""
    start = frames.task_started(task_id, subagent_type=agent, **started)
    end = frames.task_notification(task_id, status, summary, run_id=started.get("run_id", f"0-{task_id}"))
    return session, at, [start, end]


async def keep(history: TaskHistory, *runs: tuple[str, float, list[dict[str, Any]]]) -> None:
    """Store runs, each by a session that began now."""
    for session, at, its_frames in runs:
        manager = TaskManager(clock=Clock(at))
        history.attach(manager, session)
        tracking(manager, *its_frames)
        await history.flush()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_cancellations_by_asyncio_in_a_row_lose_no_facts(tmp_path: Path, anyio_backend: str) -> None:
    history, manager = TaskHistory(tmp_path / "history.sqlite"), TaskManager(clock=Clock(10.0))
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a1", "review"))
    ending = asyncio.create_task(history.close())
    await asyncio.sleep(0)
    await cancel_in_a_row(ending)
    await asyncio.wait([ending])
    assert ending.cancelled()
    async with TaskHistory(tmp_path / "history.sqlite") as later:
        assert [type(fact) for fact in await later.records("s1")][:1] == [TaskStarted]


async def test_stored_tasks_are_read_back(history: TaskHistory) -> None:
    clock = Clock(10.0)
    manager = TaskManager(clock=clock)
    history.attach(manager, "s1")
    fields = {"subagent_type": "reviewer", "prompt": "look", "parent_task_id": "a0", "is_backgrounded": True}
    tracking(manager, frames.task_started("a1", "review", **fields))
    clock.now = 20.5
    used: dict[str, Any] = {"total_tokens": 120, "tool_uses": 2, "duration_ms": 5}
    tracking(manager, frames.task_notification("a1", "failed", "it broke", usage=used, output_file="/tmp/a1"))
    [kept] = await history.finished()
    outcome = kept.outcome
    assert kept == RecordedTask(
        id="a1",
        session_id="s1",
        parent_id="a0",
        type="local_agent",
        subagent_type="reviewer",
        description="review",
        status=TaskStatus.FAILED,
        summary="it broke",
        failure_reason="it broke",
        usage=TaskUsage(**used, uncounted_tokens=120),
        created_at=10.0,
        ended_at=20.5,
        run="a1",
        run_id="0-a1",
        prompt="look",
        output_file="/tmp/a1",
        is_backgrounded=True,
        outcome=manager["a1"].outcome,
    )
    assert outcome is not None
    assert (outcome.evidence, outcome.duration) == ("notification", 10.5)


async def test_a_file_that_cannot_be_opened_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "nonexistent" / "x"
    with pytest.raises(SessionError, match=str(path)):
        await TaskHistory(path).open()


async def test_a_status_that_there_is_not_is_refused(history: TaskHistory) -> None:
    with pytest.raises(OptionsError, match=r"status: must be one of pending, .*, not 'bogus'"):
        await history.finished(status="bogus")


async def test_tasks_that_ended_before_attach_are_stored(tmp_path: Path) -> None:
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
        assert sorted((task.id, task.run_id) for task in kept) == [("a1", "0-a1"), ("a1", "1-a1"), ("a2", "0-a2")]
        ends = [record.task_id for record in await history.records("s1") if record.kind == "finished"]
        assert sorted(ends) == ["a1", "a1", "a2"]
    assert heard == []  # other listeners get nothing twice


async def test_questions(history: TaskHistory) -> None:
    await keep(
        history,
        run("a1", at=100.0),
        run("a2", "failed", agent="planner", at=200.0),
        run("a3", "stopped", at=300.0, session="s2"),
    )

    async def ids(**question: object) -> list[str]:
        return [task.id for task in await history.finished(**question)]  # type: ignore[arg-type]

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
    nasty = "x'; DROP TABLE facts; --"
    await keep(history, run(nasty, agent=nasty, session=nasty))
    assert [task.id for task in await history.finished(agent=nasty, session_id=nasty, task_id=nasty)] == [nasty]


async def test_a_run_that_is_corrected_is_one_run_and_the_correction_counts(history: TaskHistory) -> None:
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a1"), frames.task_notification("a1", summary="one"))
    tracking(manager, frames.task_notification("a1", "failed", "no"))
    tracking(manager, frames.task_started("a1", run_id="1-a1"), frames.task_notification("a1", run_id="1-a1"))
    assert {(task.run_id, task.status.value, task.summary) for task in await history.finished()} == {
        ("0-a1", "failed", "no"),
        ("1-a1", "completed", "done"),
    }
    assert await history.finished(status="failed", since=0.0) != []
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
    open_question(intake_of(manager), "r1", "a2")
    close_question(intake_of(manager), "r1")
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
    kept = {(task.id, task.run_id): task for task in await history.finished()}
    assert {key: task.summary for key, task in kept.items()} == {
        ("b1", "0-b1"): "failed with exit code 3",
        ("a2", "0-a2"): "done",
        ("a1", "0-a1"): "one",
        ("a1", "1-a1"): "two",
    }
    of_shell, of_agent = kept["b1", "0-b1"], kept["a2", "0-a2"]
    assert of_shell.outcome is not None
    assert (of_shell.outcome.exit_code, of_shell.parent_id) == (3, "a2")
    assert of_agent.usage is not None
    assert of_agent.usage.total_tokens == 900
    assert kept["a1", "0-a1"].subagent_type == "planner"
    facts = await history.records("s1", "a2")
    assert [fact.kind for fact in facts] == [
        "started",
        "progressed",
        "status_changed",
        "asked",
        "status_changed",
        "status_changed",
        "finished",
    ]
    assert [fact.author for fact in facts] == ["planner", *["general-purpose"] * 6]
    assert len(manager) == 3


async def test_the_tree_can_be_rebuilt_from_the_records_alone(history: TaskHistory) -> None:
    manager = await session(history)
    live = {(task.parent.id if task.parent else None, task.id) for task in manager}
    tree = await history.tree("s1")
    assert {(parent, child) for parent, children in tree.items() for child in children} == live
    rebuilt = await history.rebuild("s1")
    assert [task.id for task in rebuilt.roots[0].walk()] == [task.id for task in rebuilt.walk()]
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
    assert [record.kind for record in await history.records("s1")] == [
        "started",
        "status_changed",
        "finished",
        "status_changed",
        "revised",
    ]
    assert str(await history.rebuild("s1")) == str(manager.tree())


async def test_a_child_of_a_parent_that_nothing_is_known_of_is_a_root(history: TaskHistory) -> None:
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a2", "search", parent_task_id="a1", spawn_depth=2))
    tracking(manager, shell_started("b1", parent_task_id="a2"))
    intake_of(manager).process_exited("over")
    await deliver(manager)
    [started, *_] = await history.records("s1", "a2")
    assert isinstance(started, TaskStarted)
    assert started.parent_id == "a1"
    rebuilt = await history.rebuild("s1")
    assert [[task.id for task in root.walk()] for root in rebuilt.roots] == [["a2", "b1"]]


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
                await keep(history, run(f"{name}{number}"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as writers:
            for name in ("a", "b", "c"):
                writers.start_soon(write, name)
    async with TaskHistory(path) as history:
        assert len(await history.finished()) == 60


async def test_forgetting(history: TaskHistory) -> None:
    await keep(history, run("a1", at=10.0), run("a2", at=20.0), run("a3", at=10.0, session="s2"))
    assert await history.forget(before=15.0) == 2
    assert {task.id for task in await history.finished()} == {"a2"}
    assert {record.task_id for record in await history.records("s1")} == {"a2"}
    assert await history.sessions() == ["s1"]


async def test_in_memory_and_used_without_opening() -> None:
    history = TaskHistory(":memory:")
    await keep(history, run("a1"))
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
        ("fact", '{"fact": "task_hibernated", "task_id": "a1"}'),
        ("fact", '{"fact": "task_started", "task_id": 7}'),
        ("fact", '{"fact": "task_finished", "task_id": "a1"}'),
        ("fact", '{"fact": "state_changed", "state": "idle"}'),
        ("fact", "no json"),
        ("fact", "[1]"),
        ("fact", "[" * 100_000),
        ("fact", '{"a":' * 100_000 + "1" + "}" * 100_000),
        ("fact", b"\xff"),
        ("fact", 7),
    ],
)
async def test_an_odd_fact_is_left_out_and_counted(tmp_path: Path, column: str, value: object, caplog: Any) -> None:
    path = tmp_path / "history.db"
    async with TaskHistory(path) as history:
        await keep(history, run("a1"), run("a2"))
        await change(path, f"UPDATE facts SET {column} = ? WHERE task_id = 'a1' AND kind = 'task_finished'", value)
        assert [task.id for task in await history.finished()] == ["a2"]
        assert [fact.kind for fact in await history.records("s1", "a1")] == ["started", "status_changed"]
        assert len((await history.rebuild("s1")).roots) == 2
        assert history.skipped_rows == 1
    assert "skipped a fact" in caplog.text


async def test_text_that_is_none_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with TaskHistory(path) as history:
        await keep(history, run("a1", summary="a!"))
        odd = "UPDATE facts SET fact = CAST(replace(CAST(fact AS BLOB), x'6121', x'61ff') AS TEXT)"
        await change(path, odd)
        assert [task.summary for task in await history.finished()] == ["a\ufffd"]


async def test_half_characters_are_replaced(history: TaskHistory) -> None:
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a1"))
    open_question(intake_of(manager), "r1", "a1")
    answer_question(intake_of(manager), "r1", Answered({"message": "\ud83d half"}))
    answered = (await history.records("s1"))[-1]
    assert isinstance(answered, TaskAnswered)
    assert answered.answered.answer == {"message": "\ufffd half"}


async def test_values_without_a_json_form_are_left_out(history: TaskHistory, caplog: pytest.LogCaptureFixture) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a1"))
    for request_id, answer in (("r1", {"x": deep}), ("r2", {"x": Path("a")})):
        open_question(intake_of(manager), request_id, "a1")
        answer_question(intake_of(manager), request_id, Answered(answer))
    tracking(manager, frames.task_notification("a1"))
    kept = await history.records("s1")
    kinds = [fact.kind for fact in kept]
    assert kinds == ["started", "status_changed", "asked", "asked", "answered", "status_changed", "finished"]
    assert [fact.answered.answer for fact in kept if isinstance(fact, TaskAnswered)] == [{"x": "a"}]
    assert "history" in caplog.text  # dropped as it is stored or, with Python 3.14, as it is read
    with pytest.raises(SessionError):
        await history.finished(limit=2**70)


async def test_a_chain_of_thousands_of_parents_is_a_typed_error(history: TaskHistory) -> None:
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, *(frames.task_started(f"a{n}", parent_task_id=f"a{n - 1}") for n in range(2000)))
    with pytest.raises(SessionError):
        await history.rebuild("s1")
