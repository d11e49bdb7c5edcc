"""What the dashboard of `watch` does with files, processes and databases that come, go and lie."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from stored import SESSION, Stored
from textual.widgets import Input

from claude_agent_py import ClaudeAgentError
from claude_agent_py.cli import main
from claude_agent_py.cli._dashboard.app import Dashboard
from claude_agent_py.cli._dashboard.machine import TranscriptTailer
from claude_agent_py.cli._dashboard.model import DashboardModel
from claude_agent_py.cli._dashboard.termination import terminate_tree
from claude_agent_py.cli._dashboard.tree import RowTree
from claude_agent_py.sessions import get_session
from claude_agent_py.sessions.stored_tasks import StoredLedger
from claude_agent_py.transport.processes import ProcessID, descendants, process_table

LATER = float("inf")
PATIENCE = 60.0


def tail_of(stored: Stored) -> TranscriptTailer:
    return TranscriptTailer(str(stored.path), StoredLedger())


def tokens(tail: TranscriptTailer) -> float:
    return sum(map(sum, tail.by_model.values()))


# Transcripts ----------------------------------------------------------------------------------------------------------


def test_a_transcript_is_read_on_from_where_the_last_look_ended(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("Which files?")
    stored.assistant("Let me look.", {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}})
    tail = tail_of(stored)
    assert tail.read_new(LATER)
    assert (tokens(tail), tail.calls) == (15, "Bash ls")
    assert not tail.read_new(LATER)
    other = {"id": "other", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 1000}}
    line = json.dumps({"parentUuid": None, "type": "assistant", "message": other}, separators=(",", ":")).encode()
    with stored.path.open("r+b") as file:  # what was read is not read again
        file.write(line.ljust(stored.path.stat().st_size - 1))
    stored.result("toolu_1", "a.py")
    stored.assistant("One.")
    with stored.path.open("ab") as file:
        file.write(b'{"parentUuid":null,"type":"assistant","message":{"id":"x","role":"assistant"')  # is being written
    assert tail.read_new(LATER)
    assert (tokens(tail), tail.calls, tail.is_partial) == (30, "", False)
    assert not tail.read_new(LATER)


def test_a_call_that_changes_a_file_is_shown_with_the_file(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("Change it")
    edit = {"replace_all": False, "file_path": "a.py", "old_string": "1", "new_string": "2"}
    stored.assistant("", {"type": "tool_use", "id": "toolu_2", "name": "Edit", "input": edit})
    tail = tail_of(stored)
    assert tail.read_new(LATER)
    assert tail.calls == "Edit a.py"


def looks_left(tail: TranscriptTailer) -> int:
    looks = 0
    while tail.is_partial:
        assert tail.read_new(0.0)
        looks += 1
    return looks


def test_a_long_transcript_is_read_in_parts_and_gives_the_same(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("Count")
    for _ in range(1000):
        stored.assistant("more")
    stored.note("cost-state", totalCostUSD=0.5, modelUsage={})
    tail = tail_of(stored)
    tail.read_new(0.0)
    assert tail.is_partial
    assert 0 < tokens(tail) < 15_000
    assert looks_left(tail) > 2
    total = get_session(SESSION, config_dir=tmp_path).usage.total.total_tokens
    assert (tokens(tail), tail.cost.total_cost_usd, tail_of(stored).is_partial) == (total, 0.5, False)


def test_a_transcript_that_is_replaced_or_removed_is_no_error(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.user("Hi")
    stored.assistant("Hello")
    stored.assistant("there")
    tail = tail_of(stored)
    assert tail.read_new(LATER)
    stored.path.unlink()
    assert not tail.read_new(LATER)
    assert tokens(tail) == 30  # what is known stays
    stored.assistant("another file")
    assert tail.read_new(LATER)
    assert tokens(tail) == 15
    stored.path.write_bytes(b"\x00\xff not JSON\n" * 3)
    assert tail.read_new(LATER)
    assert tokens(tail) == 0
    stored.path.unlink()
    os.mkfifo(stored.path)
    assert not tail.read_new(LATER)


# Processes ------------------------------------------------------------------------------------------------------------

SHELLS = "trap '' TERM; sleep 1000 & (sleep 1000 & wait) & wait"


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def id_of(pid: int) -> ProcessID:
    return ProcessID(pid, process_table([pid])[pid][1])


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
def test_the_process_tree_that_was_shown_is_ended_and_no_other() -> None:
    with subprocess.Popen(["bash", "-c", SHELLS]) as process:
        try:
            wait_until(lambda: len(descendants(process.pid)) == 3)
            shown, below = id_of(process.pid), descendants(process.pid)
            assert not terminate_tree(ProcessID(process.pid, "1"))  # the id was used again since
            assert process.poll() is None
            assert terminate_tree(shown, grace=0.2)  # it ignores being asked
            assert process.wait(PATIENCE) == -signal.SIGKILL
            wait_until(
                lambda: not any(process_table([one.pid]).get(one.pid, ("", ""))[1] == one.started for one in below)
            )
            assert not terminate_tree(shown)
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux")
def test_a_process_of_another_user_is_not_ended() -> None:
    if os.geteuid():
        with pytest.raises(ClaudeAgentError, match="another user"):
            terminate_tree(id_of(1))
        return
    with subprocess.Popen(["sleep", "1000"], user=65534) as process:
        try:
            with pytest.raises(ClaudeAgentError, match="another user"):
                terminate_tree(id_of(process.pid))
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
def test_a_signal_that_the_system_forbids_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(pid: int, number: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            with monkeypatch.context() as patched:
                patched.setattr(os, "kill", forbid)
                with pytest.raises(ClaudeAgentError, match="not permitted"):
                    terminate_tree(id_of(process.pid))
            assert process.poll() is None
        finally:
            process.kill()


# The whole ------------------------------------------------------------------------------------------------------------


def running(config: Path, count: int) -> list[Stored]:
    """Write transcripts, and records that say that this process has them open."""
    (config / "sessions").mkdir()
    found = []
    for number in range(count):
        stored = Stored(config, f"{number:08}-1111-4111-8111-111111111111")
        stored.user(f"[red]number {number}[/] \x1b[31m\u202ehi\x07")
        stored.assistant("Hello")
        record = {
            "pid": os.getpid(),
            "sessionId": stored.id,
            "cwd": "/work/[bold]",
            "startedAt": 1000.0 * number,
            "procStart": id_of(os.getpid()).started if sys.platform == "linux" else None,
            "status": "idle",
        }
        (config / "sessions" / f"{number}.json").write_text(json.dumps(record))
        found.append(stored)
    return found


def test_a_cost_is_derived_from_what_the_cli_said_of_earlier_sessions(tmp_path: Path) -> None:
    running(tmp_path, 1)[0].assistant("again")

    def cost() -> Any:
        [row] = DashboardModel(str(tmp_path)).refresh()
        return row.spent.cost_usd, row.spent.is_derived

    assert cost() == (None, False)
    ended = Stored(tmp_path)
    ended.user("How much is it?")
    used = {"m": {"inputTokens": 100, "outputTokens": 10, "costUSD": 0.0006}}
    ended.note("cost-state", totalCostUSD=0.0006, modelUsage=used, hasUnknownModelCost=True)
    assert cost() == (None, False)
    ended.note("cost-state", totalCostUSD=0.0006, modelUsage=used)
    assert cost() == (pytest.approx(20 * 4e-6 + 10 * 20e-6), True)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_sessions_with_hostile_titles_fit_any_terminal(tmp_path: Path) -> None:
    sessions = running(tmp_path, 200)
    app = Dashboard(DashboardModel(str(tmp_path)), every=0.2)

    def drawn() -> str:
        tree = app.query_one(RowTree)
        return "\n".join(tree.render_line(at).text for at in range(tree.size.height))

    async def until(is_so: Any) -> None:
        with anyio.fail_after(PATIENCE):
            while not is_so():
                await pilot.pause(0.02)

    async with app.run_test(size=(100, 30)) as pilot:
        await until(lambda: "[red]number 199[/]" in drawn())
        assert f"{os.getppid()} · 200 sessions" in drawn() or sys.platform != "linux"
        assert all(char.isprintable() or char == "\n" for char in drawn())
        await pilot.press("down", "down", "down")
        chosen = app.query_one(RowTree).row
        assert chosen is not None
        (tmp_path / "sessions" / "199.json").unlink()  # a session above it ends
        await until(lambda: "number 199[" not in drawn())
        assert getattr(app.query_one(RowTree).row, "key", "") == chosen.key
        for stored in sessions[:190]:
            stored.path.unlink()
        await pilot.press("slash", "1")
        app.query_one(Input).value = "Number 17"
        await until(lambda: "number 179[" in drawn() and "number 18" not in drawn())
        await pilot.press("enter", "home", "down", "enter")
        for size in ((20, 6), (1, 1), (250, 60)):
            await pilot.resize_terminal(*size)
            await pilot.press("up", "a")
        await pilot.press("escape")
        await until(lambda: "number 18" in drawn())
        await pilot.press("q")
    assert app.return_code == 0


def test_what_cannot_be_read_is_told_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running(tmp_path, 1)
    fleet, inbox = tmp_path / "no fleet.db", tmp_path / "no inbox.db"
    arguments = [
        "watch",
        "--once",
        "--config-dir",
        str(tmp_path),
        "--fleet",
        f"sqlite:///{fleet}",
        "--inbox",
        str(inbox),
    ]
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "[red]number 0[/]" in told.out
    assert f"fleet: there is no database {fleet}\ninbox: file not found: {inbox}\n" in told.err
    assert not fleet.exists()
    assert not inbox.exists()
    fleet.write_bytes(b"no database, but long enough to look like one" * 100)
    inbox.write_bytes(b"neither is this" * 1000)
    assert main(arguments) == 1
    assert "fleet: the database of the fleet" in capsys.readouterr().err
    monkeypatch.setenv("CLAUDE_AGENT_FLEET", "postgresql://ann:secret@localhost:1/nothing?password=secret")
    assert main(["watch", "--once", "--config-dir", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "ann" in told.out
    assert "secret" not in told.out + told.err


def test_a_fleet_that_goes_away_keeps_its_rows_and_comes_back(tmp_path: Path) -> None:
    from claude_agent_py.fleet import Fleet

    file = tmp_path / "fleet.db"
    fleet = Fleet(f"sqlite:///{file}")
    fleet.agent("worker")

    async def start() -> None:
        async with fleet:
            await fleet.start("worker", "do it", id="job")

    anyio.run(start)
    model = DashboardModel(str(tmp_path), f"sqlite:///{file}")
    [top] = model.refresh()
    assert [(row.key, row.state) for row in top.children] == [("fleet:job", "queued")]
    file.rename(tmp_path / "away.db")
    [top] = model.refresh()
    assert [row.key for row in top.children] == ["fleet:job"]
    assert "there is no database" in top.line()
    assert model.problems
    (tmp_path / "away.db").rename(file)
    model.refresh()
    assert not model.problems


def test_the_tasks_of_a_fleet_are_those_that_its_events_tell(tmp_path: Path) -> None:
    from claude_agent_py.fleet import Fleet, _line

    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    fleet = Fleet(url)
    fleet.agent("worker")
    model = DashboardModel(str(tmp_path), url)

    async def start() -> None:
        await fleet.start("worker", "do it", id="job")

    def tell(*told: dict[str, Any], state: str | None = None) -> None:
        def write(connection: Any) -> None:
            if state is not None:
                _line.set_state(connection, "job", 1, time.time(), state)
            found = [("task", time.time(), one) for one in told] or [("message", time.time(), {})]
            _line.add_events(connection, "job", 1, found)

        fleet.database.run(write)

    def tree() -> list[Any]:
        [top] = model.refresh()
        assert not model.problems
        return [(row.title, [child.title for child in row.children]) for row in top.children[0].children]

    def began(task: str, parent: str | None = None) -> dict[str, Any]:
        return {"event": "started", "task_id": task, "description": task, "type": "local_agent", "parent_id": parent}

    anyio.run(start)
    tell(began("a"), began("b", "a"), state="running")
    assert tree() == [("a (local_agent)", ["b (local_agent)"])]
    tell()
    assert tree() == [("a (local_agent)", ["b (local_agent)"])]
    tell({"event": "finished", "task_id": "b"}, began("c", "gone"))
    assert tree() == [("a (local_agent)", []), ("c (local_agent)", [])]
    tell(state="running")  # another worker took it up
    tell(began("d"))
    assert tree() == [("d (local_agent)", [])]
    assert tree() == [("d (local_agent)", [])]
    fleet.close()
