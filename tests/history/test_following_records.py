"""Facts that another process records: following them live, and what becomes of its tasks when it dies."""

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import anyio
import pytest
from bounds import set_bound
from folding import tracking
from forks import Program, run_program

from claude_agent_py import TaskManager, TaskStatus
from claude_agent_py.errors import OptionsError, SessionError
from claude_agent_py.tasks import EndedBy, TaskEvent, TaskFinished, TaskHistory
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio

PROGRAM = """
import sys, anyio
from claude_agent_py import TaskManager
from claude_agent_py.tasks import TaskHistory
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode
import json

async def main(path):
    manager = TaskManager()
    async with TaskHistory(path) as history:
        history.attach(manager, "s1")
        for line in sys.stdin:
            for frame in json.loads(line):
                manager.track(decode(json.dumps(frame).encode()))
            await history.flush()
            print("stored", flush=True)

anyio.run(main, sys.argv[1])
"""


class Recording:
    """A process that records the frames that it is sent."""

    def __init__(self, path: Path) -> None:
        self.process = Program(
            [sys.executable, "-c", PROGRAM, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, *sent: dict[str, Any]) -> None:
        import json

        stdin, stdout = pipes(self.process)
        stdin.write(json.dumps(sent) + "\n")
        stdin.flush()
        assert stdout.readline() == "stored\n"


def pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


@contextmanager
def recording(path: Path) -> Iterator[Recording]:
    other = Recording(path)
    try:
        yield other
    finally:
        other.process.kill()
        other.process.wait()
        for pipe in pipes(other.process):
            pipe.close()


def signs(path: Path) -> list[str]:
    """The files by which processes show that they live."""
    folder = Path(f"{path}-writers")
    return os.listdir(folder) if folder.exists() else []


async def begin(history: TaskHistory, *task_ids: str) -> None:
    """Record the starts of tasks of another client."""
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, *map(frames.task_started, task_ids))
    await history.flush()


async def test_records_of_another_process_are_followed_live(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with recording(path) as other:
        async with TaskHistory(path) as history:
            seen: list[TaskEvent] = []
            records = history.follow("s1", poll=0.01)
            with anyio.fail_after(60):
                other.send(frames.task_started("a1"))
                seen.append(await anext(records))
                other.send(frames.task_progress("a1"), frames.task_notification("a1"))
                seen += [await anext(records) for _ in range(3)]
            with anyio.move_on_after(0.05) as scope:
                await anext(records)
            assert scope.cancelled_caught  # there is nothing more, and waiting for it can be cancelled
            assert [(record.number, record.kind) for record in seen] == [
                (1, "started"),
                (2, "progressed"),
                (3, "status_changed"),
                (4, "finished"),
            ]
            later = history.follow("s1", after=3)
            assert (await anext(later)).number == 4


async def test_a_cancelled_reader_continues_where_it_was(tmp_path: Path) -> None:
    async with TaskHistory(tmp_path / "history.db") as history:
        records = history.follow("s1", "a1", poll=0.01)
        with anyio.move_on_after(0.05):
            await anext(records)
        await begin(history, "other", "a1")
        with anyio.fail_after(60):
            assert (await anext(records)).task_id == "a1"
        with pytest.raises(OptionsError, match="poll: must be positive"):
            history.follow("s1", poll=0.0)


async def test_a_last_record_that_cannot_be_read_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    async with TaskHistory(path) as history:
        await begin(history, "a1", "a2")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE facts SET fact = replace(fact, 'started', 'hibernated') WHERE task_id = 'a2'")
        records = history.follow("s1", poll=0.001)
        assert (await anext(records)).task_id == "a1"

        async def read_on() -> None:
            await anext(records)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as reader:
                reader.start_soon(read_on)
                while not history.skipped_rows:
                    await anyio.sleep(0.01)
                await anyio.sleep(0.05)  # and then it looks again
                reader.cancel_scope.cancel()
        assert [message for message in caplog.messages if "hibernated" in message] == caplog.messages[:1]
        assert history.skipped_rows == 1
        await begin(history, "a3")
        with anyio.fail_after(60):
            assert (await anext(records)).task_id == "a3"


async def test_a_session_whose_process_died_is_closed_by_the_next_reader(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with recording(path) as other:
        other.send(frames.task_started("a1", "plan"), frames.task_started("a2", "look", parent_task_id="a1"))
        other.send(frames.task_started("a3", "done"), frames.task_notification("a3"))
        async with TaskHistory(path) as history:
            assert str(await history.rebuild("s1")).count("running") == 2  # it lives
            records = history.follow("s1", after=len(await history.records("s1")), poll=0.01)
            other.process.kill()
            other.process.wait()
            with anyio.fail_after(60):
                ends = [await anext(records), await anext(records)]
            last = {task.id: task for task in (await history.rebuild("s1")).walk()}
            finished = {task.id: task.outcome for task in await history.finished(status="failed")}
    assert signs(path) == []
    for end in ends:
        assert isinstance(end, TaskFinished)
        outcome = end.outcome
        assert (outcome.status, outcome.ended_by, outcome.evidence) == ("failed", EndedBy.PROCESS, "process_exit")
        assert outcome.failure_reason == "the process that recorded it has ended"
    assert {task_id: task.status.value for task_id, task in last.items()} == {
        "a1": "failed",
        "a2": "failed",
        "a3": "completed",
    }
    assert finished == {end.task_id: end.outcome for end in ends if isinstance(end, TaskFinished)}
    async with TaskHistory(path) as history:
        assert len(await history.records("s1")) == 5 + 2  # once


async def test_a_process_that_ends_well_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with TaskHistory(path) as reader:
        async with TaskHistory(path) as history:
            manager = TaskManager()
            history.attach(manager, "s1")
            tracking(manager, frames.task_started("a1"))
            await history.flush()
            assert len(signs(path)) == 1
            assert [task.status for task in (await reader.rebuild("s1"))] == ["running"]
            tracking(manager, frames.task_notification("a1"))
        assert signs(path) == []
        assert [task.status for task in (await reader.rebuild("s1"))] == ["completed"]


async def test_closing_the_history_first_does_not_end_running_tasks(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    manager = TaskManager()
    history = TaskHistory(path)
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a1"))
    await history.close()
    async with TaskHistory(path) as reader:
        assert [task.status for task in (await reader.rebuild("s1"))] == ["running"]
        tracking(manager, frames.task_notification("a1"))
        await history.close()  # which stores what came since
        assert [task.status for task in (await reader.rebuild("s1"))] == ["completed"]
    assert signs(path) == []


async def test_a_session_that_continues_in_another_process_belongs_to_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with recording(path) as first:
        first.send(frames.task_started("a1", prompt="Look."))
    with recording(path) as second:
        second.send(frames.task_started("a1", run_id="1-a1", prompt="Look again."))
        async with TaskHistory(path) as history:
            kinds = [record.kind for record in await history.records("s1")]
            (task,) = await history.rebuild("s1")
    assert kinds == ["started", "finished", "started"]
    assert (task.status, task.run_id, task.prompt) == (TaskStatus.RUNNING, "1-a1", "Look again.")


FORK = """
import os, sys
import anyio
from claude_agent_py import TaskManager
from claude_agent_py.tasks import TaskHistory
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode
import json

def tell(manager, frame):
    manager.track(decode(json.dumps(frame).encode()))

manager, history = TaskManager(), TaskHistory(sys.argv[1])

async def begin():
    history.attach(manager, "s1")
    tell(manager, frames.task_started("a1"))
    await history.flush()
    tell(manager, frames.task_progress("a1"))

async def read():
    async with history:
        print(len(await history.records("s1")), flush=True)

async def end():
    tell(manager, frames.task_notification("a1"))
    await history.flush()
    async with TaskHistory(sys.argv[1]) as other:
        print([record.kind for record in await other.records("s1")], flush=True)
    await history.close()

if sys.argv[2] == "while it records":
    anyio.run(begin)
child = os.fork()
if child == 0:
    anyio.run(read)
    os._exit(0)
os.waitpid(child, 0)
if sys.argv[2] == "before it records":
    anyio.run(begin)
anyio.run(end)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize(("when", "count"), [("while it records", "1"), ("before it records", "0")])
async def test_a_forked_process_reads_the_history_and_leaves_the_tasks_to_the_original(
    tmp_path: Path, when: str, count: str
) -> None:
    arguments = [sys.executable, "-c", FORK, str(tmp_path / "history.db"), when]
    done = await anyio.to_thread.run_sync(run_program, arguments)
    assert done.stdout.splitlines() == [count, "['started', 'progressed', 'status_changed', 'finished']"], done.stderr


@pytest.mark.parametrize("problem", ["no folder for locks", "no locks"])
async def test_a_process_that_cannot_show_that_it_lives_records_all_the_same(
    tmp_path: Path, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    if problem == "no folder for locks":
        Path(f"{path}-writers").write_text("in its place")
    else:  # as on some network file systems
        monkeypatch.setattr("fcntl.flock", refuse_locks)
    async with TaskHistory(path) as history:
        await begin(history, "a1")
        assert [task.status for task in await history.rebuild("s1")] == ["running"]
        if problem == "no locks":
            assert signs(path) == []


def refuse_locks(descriptor: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, "no locks available")


@pytest.mark.parametrize(("sign", "status"), [("deleted", "failed"), ("a link", "running")])
async def test_a_process_without_a_sign_of_life_has_ended_but_not_one_whose_sign_cannot_be_read(
    tmp_path: Path, sign: str, status: str
) -> None:
    path = tmp_path / "history.db"
    with recording(path) as other:
        other.send(frames.task_started("a1"))
        (name,) = signs(path)
        file = Path(f"{path}-writers", name)
        file.unlink()
        if sign == "a link":
            file.symlink_to("/dev/null")
        async with TaskHistory(path) as history:
            assert [task.status for task in await history.rebuild("s1")] == [status]


READ_ONLY = """
import os, sys
import anyio
from claude_agent_py.tasks import TaskHistory

async def read(path):
    for file in os.scandir(os.path.dirname(path)):
        os.chmod(file, 0o777 if file.is_dir() else 0o444 if file.path == path else 0o666)
    async with TaskHistory(":memory:"):  # imports what is needed: another user may not read where it is installed
        pass
    if os.geteuid() == 0:
        os.seteuid(65534)
    async with TaskHistory(path) as history:
        print([task.status.value for task in await history.rebuild("s1")])

anyio.run(read, sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
async def test_a_reader_who_may_not_write_leaves_the_tasks_of_a_dead_process_to_others() -> None:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = Path(folder, "history.db")
        with recording(path) as other:
            other.send(frames.task_started("a1"))
        done = await anyio.to_thread.run_sync(run_program, [sys.executable, "-c", READ_ONLY, str(path)])
    assert done.stdout == "['running']\n", done.stderr


async def test_a_file_that_cannot_be_written_is_read_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, connect = tmp_path / "history.db", sqlite3.connect

    def connect_read_only(name: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(name, **more)
        connection.execute("PRAGMA query_only = ON")
        return connection

    with recording(path) as other:
        other.send(frames.task_started("a1"))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_read_only)
        async with TaskHistory(path) as history:
            assert [task.status for task in await history.rebuild("s1")] == ["running"]
    async with TaskHistory(path) as history:
        assert [task.status for task in await history.rebuild("s1")] == ["failed"]


async def test_the_tasks_of_a_dead_process_end_once_no_other_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "BUSY_SECONDS", 0.05)
    path = tmp_path / "history.db"
    with recording(path) as other:
        other.send(frames.task_started("a1"))
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        async with TaskHistory(path) as history:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(SessionError, match="locked"):
                await history.rebuild("s1")
            writer.execute("ROLLBACK")
            assert [task.status for task in await history.rebuild("s1")] == ["failed"]


async def test_a_history_that_cannot_be_closed_cleanly_logs_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    history = TaskHistory(path)
    manager = TaskManager()
    history.attach(manager, "s1")
    tracking(manager, frames.task_started("a1"), frames.task_notification("a1"))
    await history.flush()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TRIGGER stay BEFORE DELETE ON writers BEGIN SELECT RAISE(ABORT, 'no'); END")
    await history.close()
    assert f"the history {path} was not closed cleanly" in caplog.text
