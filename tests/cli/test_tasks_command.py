"""The command `tasks`: the tree of a history."""

import io
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from anyio import to_thread
from folding import Clock, tracking

from claude_agent_py import TaskManager
from claude_agent_py.cli import main
from claude_agent_py.permissions import SQLiteInbox
from claude_agent_py.tasks import TaskHistory
from claude_agent_py.testing import frames

pytestmark = pytest.mark.anyio


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A history of two sessions."""
    path = tmp_path / "tasks.sqlite"
    async with TaskHistory(path) as history:
        for session in ("5e55-one", "5e55-two"):
            manager = TaskManager(clock=Clock())
            history.attach(manager, session)
            tracking(
                manager,
                frames.task_started("a1", f"plan {session}", subagent_type="planner"),
                frames.task_started("a2", "look\x1b[2J\n└── fake", parent_task_id="a1", subagent_type="x"),
                frames.task_notification("a2", "failed", "no luck"),
                frames.task_notification("a1", usage={"total_tokens": 900}),
            )
    return path


def drawn(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["tasks", *arguments]) == 0
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "then", capsys.readouterr().out)


TREE = """session 5e55-{0}, 2 tasks, last record then
plan 5e55-{0} [planner] completed, 900 tokens
└── look\ufffd[2J └── fake [x] failed: no luck
"""


async def test_a_file_is_drawn_by_session(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = await to_thread.run_sync(lambda: drawn(str(path), capsys=capsys))
    assert both == TREE.format("one") + TREE.format("two")
    one = await to_thread.run_sync(lambda: drawn(str(path), "5e55-two", capsys=capsys))
    assert one == TREE.format("two")


async def test_a_session_is_found_in_the_default_history(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_AGENT_HISTORY", str(path))
    told = await to_thread.run_sync(lambda: drawn("5e55-o", capsys=capsys))
    assert told == TREE.format("one")
    earlier = await to_thread.run_sync(lambda: drawn("5e55-one", "--at", "4", capsys=capsys))
    assert "failed" not in earlier
    assert "look" in earlier


async def test_what_is_not_found_is_told(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_AGENT_HISTORY", raising=False)
    for arguments, problem in (
        ([str(path), "5e55"], "more than one session begins with '5e55'"),
        ([str(path), "other"], "no session begins with 'other'"),
        (["5e55-one"], "set CLAUDE_AGENT_HISTORY to a history"),
        ([str(path) + "x"], "history not found"),
    ):
        assert await to_thread.run_sync(main, ["tasks", *arguments]) == 1
        assert problem in capsys.readouterr().err
    assert not Path(str(path) + "x").exists()


async def test_a_file_that_is_no_history_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inbox, empty = tmp_path / "inbox.sqlite", tmp_path / "empty"
    SQLiteInbox(inbox)
    empty.touch()
    for path in (inbox, empty):
        assert await to_thread.run_sync(main, ["tasks", str(path)]) == 1
        assert f"{path} is not a history of tasks" in capsys.readouterr().err
    with closing(sqlite3.connect(inbox)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert tables == [("interactions",)]
    assert empty.stat().st_size == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_in_a_terminal_the_tree_has_marks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert await to_thread.run_sync(main, ["tasks", str(path), "5e55-one"]) == 0
    shown = terminal.getvalue()
    assert "✓" in shown
    assert "✗" in shown
    assert "[planner] completed, 900 tokens" in shown
    assert "[2J └── fake [x] failed: no luck" in shown
    assert "\x1b[2J" not in shown
