"""The commands `sessions` and `watch`, on transcripts and on a running session of the real CLI."""

import io
import json
import os
from pathlib import Path

import pytest
from stored import SESSION, Stored, call

from claude_agent_py.cli import main
from claude_agent_py.sessions import list_sessions

OTHER = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    for name, question in ((SESSION, "Which \x1b[31mfiles?"), (OTHER, "Why?")):
        stored = Stored(tmp_path, name)
        stored.user(question)
        stored.assistant(
            "Let me look.", {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
        )
        stored.result("toolu_1", "a.py")
        stored.assistant(f"The answer to {question}")
    return tmp_path


def test_sessions_are_listed_shown_and_searched(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["sessions", "list"]) == 0
    listed = capsys.readouterr().out
    assert len(listed.splitlines()) == 2
    assert "\x1b" not in listed
    assert any(len(line) > 45 for line in listed.splitlines())
    monkeypatch.setenv("COLUMNS", "45")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["sessions", "list"]) == 0
    assert all(len(line) <= 45 for line in capsys.readouterr().out.splitlines())
    assert main(["sessions", "list", "--json", "--limit", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1

    assert main(["sessions", "show", "2222"]) == 0
    shown = capsys.readouterr().out
    assert '**User:** Why?\n\n**Claude:** Let me look.\n\n> Bash {"command": "ls"}\n\n**Claude:** The answer' in shown
    assert main(["sessions", "show", OTHER, "--json", "--last", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["messages"]) == 1

    assert main(["sessions", "search", "answer to Why"]) == 0
    assert capsys.readouterr().out.startswith("22222222  ")
    assert main(["sessions", "search", "answer to Why", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["session_id"] == OTHER
    assert main(["sessions", "search", "nowhere to be found"]) == 1


def test_tasks_and_their_ends_are_shown(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = Stored(config, "33333333-3333-4333-8333-333333333333")
    stored.user("Look")
    stored.assistant(call("toolu_2", "Agent", description="auth", prompt="Look at auth"))
    stored.result("toolu_2", "launched")
    stored.agent(
        "a1", ["Look at auth", "It is sound."], agentType="general-purpose", toolUseId="toolu_2", description="auth"
    )
    ended = "<task-id>a1</task-id><status>completed</status><summary>auth completed</summary>"
    stored.user(f"<task-notification>{ended}</task-notification>", origin={"kind": "task-notification"})
    stored.assistant(call("toolu_3", command="ls"))
    assert main(["sessions", "show", "3333"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "> auth completed" in shown
    assert [line for line in shown if line.startswith("task ")] == ["task a1 completed: auth"]


def test_a_terminal_gets_no_escapes_of_a_transcript(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    escapes = "\x1b]0;x\x07\x9b31m\u202e"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    stored = Stored(tmp_path, project=f"-work{escapes}")
    stored.note("custom-title", customTitle=f"title{escapes}")
    stored.user(f"Look{escapes}", cwd=escapes, gitBranch=escapes)
    stored.assistant(call("t1", f"Bash{escapes}", command=escapes, description=f"wait{escapes}"))
    stored.result("t1", f"out{escapes}", toolUseResult={"stdout": "", "backgroundTaskId": f"b1{escapes}"})
    stored.assistant(f"Done{escapes}", id=escapes)
    for arguments in ("list", f"show {SESSION}", "search Done", f"export {SESSION}"):
        assert main(["sessions", *arguments.split()]) == 0
        shown = capsys.readouterr().out
        assert all(char.isprintable() or char == "\n" for char in shown), shown
    page = tmp_path / f"page{escapes}.html"
    assert main(["timeline", SESSION, "-o", str(page)]) == 0
    assert capsys.readouterr().out.strip().isprintable()
    assert page.exists()


def test_a_folder_without_sessions_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert main(["sessions", "list"]) == 0
    assert capsys.readouterr().out == "no sessions\n"


@pytest.mark.parametrize(
    ("typed", "code", "left"), [("n\n", 1, {SESSION, OTHER}), ("", 1, {SESSION, OTHER}), ("yes\n", 0, {SESSION})]
)
def test_a_session_is_deleted_if_a_person_confirms_it(
    typed: str,
    code: int,
    left: set[str],
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert main(["sessions", "delete", OTHER]) == code
    assert {info.session_id for info in list_sessions()} == left
    assert capsys.readouterr().out.startswith(f"Delete {OTHER} (Why?")


def test_a_session_is_forked_renamed_exported_and_deleted(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["sessions", "fork", "1111", "--title", "Copy"]) == 0
    copy = capsys.readouterr().out.strip()
    assert {info.session_id for info in list_sessions()} == {SESSION, OTHER, copy}
    assert main(["sessions", "rename", copy, "Better"]) == 0
    assert next(info for info in list_sessions() if info.session_id == copy).summary == "Better"

    (tmp_path / "out.json").touch(0o644)
    assert main(["sessions", "export", OTHER, "-o", str(tmp_path / "out.json")]) == 0
    assert os.name != "posix" or (tmp_path / "out.json").stat().st_mode & 0o777 == 0o600
    assert [one["role"] for one in json.loads((tmp_path / "out.json").read_text())][:2] == ["user", "assistant"]
    assert main(["sessions", "export", OTHER, "-o", str(tmp_path / "out.md")]) == 0
    assert (tmp_path / "out.md").read_text().startswith("# Why?\n")
    assert main(["sessions", "export", OTHER]) == 0
    assert capsys.readouterr().out.startswith("# Why?\n")
    assert main(["sessions", "export", OTHER, "-o", "out.txt"]) == 1
    assert main(["sessions", "export", OTHER, "-o", str(tmp_path / "missing" / "out.md")]) == 1
    assert f"cannot write {tmp_path / 'missing' / 'out.md'}: No such file" in capsys.readouterr().err

    assert main(["sessions", "delete", copy]) == 1  # nobody can be asked
    assert "pass --yes" in capsys.readouterr().err
    assert main(["sessions", "delete", copy, "--yes"]) == 0
    assert {info.session_id for info in list_sessions()} == {SESSION, OTHER}
    assert main(["sessions", "show", copy[:8]]) == 1
    assert main(["sessions", "show", ""]) == 1
