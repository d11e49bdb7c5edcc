"""The facts in a history: what they say of a task, their numbers, and the tree at any of them."""

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from folding import (
    Clock,
    answer_question,
    child,
    close_question,
    intake_of,
    level,
    open_question,
    shell_started,
    track_hook,
    tracking,
)
from hypothesis import given, strategies as st

from claude_agent_py import TaskManager, TaskStatus
from claude_agent_py.errors import SessionError
from claude_agent_py.history import RecordedTask
from claude_agent_py.tasks import (
    Answered,
    Asked,
    Evidence,
    TaskAnswered,
    TaskAsked,
    TaskEvent,
    TaskFinished,
    TaskHistory,
    TaskProgressed,
    TaskReopened,
    TaskRevised,
    TaskStarted,
)
from claude_agent_py.testing import frames

FACTS = (
    "parent_id",
    "type",
    "subagent_type",
    "description",
    "status",
    "output_file",
    "activity",
)
"""What a rebuilt task and a live one have in common. Usage and counts of an outcome may change without a fact."""

BEGINS = (TaskStarted, TaskReopened)
IDS = st.sampled_from(["a1", "a2", "a3", "b1"])
Happening = Callable[[TaskManager], object]


def tell(frame: dict[str, Any]) -> Happening:
    return lambda manager: tracking(manager, frame)


def hook(event: str, data: dict[str, Any]) -> Happening:
    return lambda manager: track_hook(intake_of(manager), event, data)


def usage(tokens: int) -> dict[str, Any]:
    return {"total_tokens": tokens, "tool_uses": 1, "duration_ms": 5}


@st.composite
def happenings(draw: st.DrawFn) -> Happening:
    """Anything that a session may hear of a task, in no particular order."""
    task_id, run = draw(IDS), draw(st.integers(0, 2))
    run_id = f"{run}-{task_id}"
    other = draw(st.sampled_from(["a1", "a2", "unknown", None]))
    word = draw(st.sampled_from(["running", "paused", "pending", "completed", "failed", "killed", "awaiting_user"]))
    parent = {"parent_task_id": other} if other not in (None, task_id) else {}
    started = {"run_id": run_id, "subagent_type": draw(st.sampled_from(["planner", "x"])), **parent}
    happening: Happening = draw(
        st.sampled_from(
            [
                tell(frames.task_started(task_id, draw(st.sampled_from(["", "look", "find"])), **started)),
                tell(shell_started(task_id, **parent)),
                tell(frames.task_progress(task_id, draw(st.sampled_from(["one", "two"])), run_id=run_id)),
                tell(child(task_id, draw(st.sampled_from(["hm", "ah"])))),
                tell(frames.task_updated(task_id, word)),
                tell(frames.system("task_updated", task_id=task_id, patch={"description": word})),
                tell(frames.system("task_updated", task_id=task_id, patch={"is_backgrounded": bool(run)})),
                tell(frames.task_notification(task_id, "failed", "no", run_id=run_id)),
                tell(frames.task_notification(task_id, "completed", word, run_id=run_id, usage=usage(run * 10))),
                tell(level(*draw(st.lists(IDS, max_size=3, unique=True)))),
                hook("SubagentStart", {"agent_id": task_id, "agent_type": "x"}),
                lambda manager: open_question(intake_of(manager), f"r{run}", task_id, Asked("May I?", "permission")),
                lambda manager: answer_question(intake_of(manager), f"r{run}", Answered({"behavior": "allow"})),
                lambda manager: close_question(intake_of(manager), f"r{run}"),
                lambda manager: intake_of(manager).process_exited("gone"),
            ]
        )
    )
    return happening


def live(manager: TaskManager) -> dict[str, dict[str, Any]]:
    """What the session says of its tasks."""
    return {
        task.id: {
            **{name: getattr(task, name) for name in FACTS},
            "failure_reason": task.failure_reason if task.done else None,
            "summary": task.summary if task.done else None,
        }
        for task in manager
    }


def rebuilt(tasks: list[RecordedTask]) -> dict[str, dict[str, Any]]:
    """What its facts say of them."""
    return {
        task.id: {
            **{name: getattr(task, name) for name in FACTS},
            "failure_reason": task.failure_reason,
            "summary": task.summary if task.status.is_terminal else None,
        }
        for task in tasks
    }


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(happening=st.lists(st.tuples(happenings(), st.booleans()), max_size=30))
def test_a_task_that_has_begun_is_rebuilt_at_any_number_as_it_was(
    backend: str, happening: list[tuple[Happening, bool]]
) -> None:
    async def compare() -> None:
        manager = TaskManager(clock=Clock())
        moments: dict[int, dict[str, dict[str, Any]]] = {}
        async with TaskHistory(":memory:") as history:
            keep = history.attach(manager, "s1")
            for happen, is_flushed in happening:
                happen(manager)
                await (history.flush() if is_flushed else keep(TaskEvent(task_id="", at=0.0)))
                records = await history.records("s1")
                if records and records[-1].number not in moments:
                    moments[records[-1].number] = live(manager)
            await history.flush()
            records = await history.records("s1")
            assert [record.number for record in records] == list(range(1, len(records) + 1))
            begun = {record.task_id: record.number for record in reversed(records) if isinstance(record, BEGINS)}
            for number, then in moments.items():
                of_then = [task for task, first in begun.items() if first <= number]
                found = rebuilt(list((await history.rebuild("s1", at=number)).walk()))
                assert {task: found[task] for task in of_then} == {task: then[task] for task in of_then}
            assert {record.task_id for record in records} >= {event.task_id for event in manager.so_far()}

    anyio.run(compare, backend=backend)


# What records say


def attached(history: TaskHistory) -> TaskManager:
    manager = TaskManager(clock=Clock())
    history.attach(manager, "s1")
    return manager


async def told(history: TaskHistory, task_id: str | None = None) -> list[TaskEvent]:
    await history.flush()
    return await history.records("s1", task_id)


@pytest.mark.anyio
async def test_a_task_is_recorded_from_its_prompt_to_its_evidence() -> None:
    async with TaskHistory(":memory:") as history:
        manager = attached(history)
        started = frames.task_started("a1", "look", prompt="Look closely.", subagent_type="reviewer")
        tracking(manager, started, frames.task_progress("a1", "Reading", last_tool_name="Read"))
        asked = Asked("Bash: ls", "permission", "f00d")
        open_question(intake_of(manager), "r1", "a1", asked)
        answer_question(intake_of(manager), "r1", Answered({"behavior": "allow"}, "Ann", "process 7 on host", "f00d"))
        close_question(intake_of(manager), "r1")
        tracking(manager, frames.task_notification("a1", summary="All is well.", usage=usage(900)))
        records = await told(history)
    assert [(record.number, record.kind) for record in records] == [
        (1, "started"),
        (2, "progressed"),
        (3, "status_changed"),
        (4, "asked"),
        (5, "answered"),
        (6, "status_changed"),
        (7, "status_changed"),
        (8, "finished"),
    ]
    match records:
        case [
            TaskStarted() as start,
            TaskProgressed() as progress,
            _,
            TaskAsked() as waits,
            TaskAnswered() as reply,
            *_,
        ]:
            assert (start.author, start.prompt, start.name) == ("", "Look closely.", "reviewer")
            assert (progress.activity, progress.last_tool_name) == ("Reading", "Read")
            assert waits.asked == asked
            assert reply.answered == Answered({"behavior": "allow"}, "Ann", "process 7 on host", "f00d")
        case _:
            pytest.fail(str(records))
    end = records[-1]
    assert isinstance(end, TaskFinished)
    outcome = end.outcome
    assert (outcome.summary, outcome.evidence, outcome.ended_by) == ("All is well.", Evidence.NOTIFICATION, None)
    assert outcome.usage is not None
    assert outcome.usage.total_tokens == 900


@pytest.mark.anyio
async def test_each_prompt_of_a_task_that_waits_is_recorded() -> None:
    async with TaskHistory(":memory:") as history:
        manager = attached(history)
        tracking(manager, frames.task_started("a1"))
        for number in (1, 2):
            open_question(intake_of(manager), f"r{number}", "a1", Asked(f"Question {number}?"))
        for number in (1, 2):
            close_question(intake_of(manager), f"r{number}")
        records = await told(history)
    waits = [record.asked.question for record in records if isinstance(record, TaskAsked)]
    assert waits == ["Question 1?", "Question 2?"]
    assert [record.kind for record in records].count("status_changed") == 2  # it waits, and then it runs


@pytest.mark.anyio
async def test_a_record_names_the_cause_of_an_end() -> None:
    async with TaskHistory(":memory:") as history:
        manager = attached(history)
        stop = {"type": "tool_use", "id": "t1", "name": "TaskStop", "input": {"task_id": "model"}}
        tracking(
            manager,
            frames.task_started("model"),
            frames.task_started("turn", is_backgrounded=False),
            frames.task_started("owner"),
            frames.task_started("owned", parent_task_id="owner", is_backgrounded=True),
            frames.task_started("alone", is_backgrounded=True),
            frames.task_started("waited", is_backgrounded=False),
            frames.task_started("shell", parent_task_id="waited", is_backgrounded=True),
            frames.task_notification("shell", "stopped"),  # the CLI stops it before it reports the end of its owner
            frames.task_notification("waited"),
            frames.task_started("lost"),
            frames.assistant([stop]),
            *(frames.task_notification(name, "stopped") for name in ("model", "turn", "owner", "owned", "alone")),
        )
        intake_of(manager).process_exited("the CLI ended")
        records = await told(history)
        outcomes = {task.id: task.outcome for task in manager}
    ends = {record.task_id: record.outcome for record in records if isinstance(record, TaskFinished)}
    assert {task_id: end.ended_by for task_id, end in ends.items()} == {
        "model": "model",
        "turn": "parent",
        "owner": None,
        "owned": "parent",
        "alone": None,
        "shell": "parent",
        "waited": None,
        "lost": "process",
    }
    assert ends["lost"].status is TaskStatus.FAILED
    assert ends == outcomes


@pytest.mark.anyio
async def test_missed_events_are_recorded_later_once() -> None:
    async with TaskHistory(":memory:") as history:
        manager = TaskManager(clock=Clock())
        keep = history.attach(manager, "s1")
        tracking(manager, frames.task_started("a1"), frames.task_progress("a1"))
        await history.flush()
        manager.off(keep)
        tracking(manager, frames.task_notification("a1"), frames.task_started("a1", run_id="1-a1"))
        await history.flush()
        before = await history.records("s1")
        history.attach(manager, "s1")
        tracking(manager, frames.task_progress("a1", run_id="1-a1"))
        records = await told(history)
    assert [record.kind for record in before] == ["started", "progressed"]
    assert [record.kind for record in records[2:]] == ["finished", "reopened", "progressed"]
    assert [record.run_id for record in records[2:]] == ["0-a1", "1-a1", "1-a1"]


def lost() -> TaskManager:
    """Return the tasks of a resumed session, which reports the end of one that it has not seen."""
    manager = TaskManager(clock=Clock())
    frame = frames.task_notification("b1", "stopped", "it did not finish")
    tracking(manager, {name: value for name, value in frame.items() if name != "run_id"})
    return manager


@pytest.mark.anyio
async def test_an_end_that_a_resumed_session_reports_is_recorded_even_if_it_came_before() -> None:
    async with TaskHistory(":memory:") as history:
        history.attach(lost(), "s1")
        records = await told(history)
        (finished,) = await history.finished()
    assert [(record.kind, record.run_id) for record in records] == [("finished", None)]
    assert (finished.id, finished.run_id, finished.status) == ("b1", None, TaskStatus.STOPPED)


@pytest.mark.anyio
@pytest.mark.parametrize("was_stored", [True, False])
async def test_an_end_that_a_resumed_session_reports_leaves_what_is_known(was_stored: bool) -> None:
    async with TaskHistory(":memory:") as history:
        first = attached(history)
        tracking(first, frames.task_started("b1", "Slow", run_id="0-b1"))
        if was_stored:
            intake_of(first).process_exited("gone")
        before = await told(history)
        history.attach(lost(), "s1")
        records = await told(history)
        finished = await history.finished()
        (task,) = (await history.rebuild("s1")).walk()
    assert [record.kind for record in records[len(before) :]] == ([] if was_stored else ["finished"])
    assert (task.description, task.status, len(finished)) == (
        "Slow",
        TaskStatus.FAILED if was_stored else TaskStatus.STOPPED,
        1,
    )


@pytest.mark.anyio
async def test_a_session_whose_id_comes_late_keeps_all_its_records() -> None:
    names: list[str] = []
    async with TaskHistory(":memory:") as history:
        manager = TaskManager(clock=Clock())
        history.attach(manager, lambda: names[-1] if names else None)
        tracking(manager, frames.task_started("a1"))
        await history.flush()
        assert await history.sessions() == []
        names.append("s1")
        tracking(manager, frames.task_progress("a1"))
        await history.flush()
        names.append("s2")  # after /clear: what was begun is finished where it began
        tracking(manager, frames.task_notification("a1"), frames.task_started("a2"))
        await history.flush()
        assert [record.kind for record in await history.records("s1")][-1] == "finished"
        assert {record.task_id for record in await history.records("s2")} == {"a2"}
        assert [task.session_id for task in await history.finished()] == ["s1"]


# Numbers


async def store(history: TaskHistory, session: str, task_id: str, at: float = 1000.0) -> None:
    """Store the start of a task."""
    manager = TaskManager(clock=Clock(at))
    tracking(manager, frames.task_started(task_id))
    history.attach(manager, session)
    await history.flush()


@pytest.mark.anyio
async def test_each_session_counts_from_one_also_with_several_writers_and_after_forgetting(tmp_path: Path) -> None:
    path = tmp_path / "history.db"

    async def write(name: str) -> None:
        async with TaskHistory(path) as history:
            for number in range(20):
                await store(history, "both", f"{name}{number}")
                await store(history, name, f"a{number}")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as writers:
            for name in ("one", "two"):
                writers.start_soon(write, name)
    async with TaskHistory(path) as history:
        for session, count in (("both", 40), ("one", 20), ("two", 20)):
            assert [record.number for record in await history.records(session)] == list(range(1, count + 1))
        assert [record.number for record in await history.records("one", after=18)] == [19, 20]
        await history.forget(before=2000.0)
        await store(history, "one", "b", at=3000.0)
        assert [record.number for record in await history.records("one")] == [21]


@pytest.mark.anyio
async def test_forgetting_leaves_no_gap() -> None:
    async with TaskHistory(":memory:") as history:
        for at in (1.0, 30.0, 2.0, 40.0):
            await store(history, "s1", f"a{at}", at=at)
        await history.forget(before=10.0)
        assert [record.number for record in await history.records("s1")] == [2, 3, 4]


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("is_first", [True, False])
async def test_records_that_a_full_disk_refused_are_stored_later(tmp_path: Path, is_first: bool) -> None:
    import resource

    path = tmp_path / "history.db"
    history = await TaskHistory(path).open()
    manager = attached(history)
    tracking(manager, frames.task_started("a1", "look", run_id="0-a1"))
    if not is_first:
        await history.flush()
    tracking(manager, frames.task_notification("a1", "completed", "done", run_id="0-a1"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("history.db-wal").stat().st_size + 100, hard))
    try:
        with pytest.raises(SessionError, match="disk"):
            await history.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    [*_, last] = await told(history)
    assert (last.kind, [task.summary for task in await history.finished()]) == ("finished", ["done"])
    with closing(sqlite3.connect(path)) as database:
        [(writer,)] = database.execute("SELECT writer FROM writers")
    assert [each.name for each in Path(f"{path}-writers").iterdir()] == [writer]
    await history.close()


# Files of other versions


@pytest.mark.anyio
async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as new, new:
        new.execute("PRAGMA user_version = 1000")
    with pytest.raises(SessionError, match="newer version"):
        await TaskHistory(path).open()


@pytest.mark.anyio
async def test_a_file_of_an_older_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("CREATE TABLE records (key TEXT)")
        old.execute("PRAGMA user_version = 1")
    with pytest.raises(SessionError, match=r"old\.db .* older version of the library; start a new file"):
        await TaskHistory(path).open()


@pytest.mark.anyio
async def test_a_late_end_of_an_earlier_run_does_not_end_the_task() -> None:
    async with TaskHistory(":memory:") as history:
        manager = attached(history)
        tracking(manager, frames.task_started("a1"), frames.task_started("a1", run_id="1-a1"))
        tracking(manager, frames.task_notification("a1", "failed", "late"))
        records = await told(history)
        (task,) = await history.rebuild("s1")
    last = records[-1]
    assert isinstance(last, TaskRevised)
    assert (last.run_id, last.outcome.failure_reason) == ("0-a1", "late")
    assert (task.status, task.run_id) == (TaskStatus.RUNNING, "1-a1")


@pytest.mark.anyio
async def test_a_run_that_was_past_when_it_became_known_does_not_change_its_task() -> None:
    async with TaskHistory(":memory:") as history:
        manager = attached(history)
        tracking(manager, child("a2", "hm"))
        intake_of(manager).process_exited("gone")
        tracking(manager, frames.task_progress("a2", "one", run_id="1-a2"))  # tells the id of the run that ended
        tracking(manager, frames.task_notification("a2", "completed", "earlier", run_id="0-a2"))
        records = await told(history, "a2")
        [task] = await history.rebuild("s1")
    assert [(record.kind, record.id) for record in records][-1] == ("finished", "a2#2")
    assert [record.kind for record in records].count("started") == 1
    assert (task.failure_reason, task.summary) == (manager["a2"].failure_reason, "") == ("gone", "")
