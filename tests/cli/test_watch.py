"""The `watch` command: sessions of the real CLI with their tasks and questions, a fleet, and what cannot be read."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from forks import Program

from claude_agent_py import Allow, Client
from claude_agent_py.cli import main
from claude_agent_py.permissions import SQLiteInbox
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

PATIENCE = 100.0
SHOWN = ["‖ Make it [waiting", "  ● auth \ufffd[31mnow (general-purpose) [running"]
"""The session and its task, up to their states."""


@pytest.mark.real_cli
@pytest.mark.anyio
async def test_a_session_is_shown_with_its_tasks_and_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = Gate()
    launch = {"description": "auth \x1b[31mnow", "prompt": "Look at auth", "subagent_type": "general-purpose"}
    make = tool_use("Bash", {"command": "touch made", "description": "make"})
    script = [Reply([tool_use("Agent", {**launch, "run_in_background": True}), make]), "Made."]
    inbox = tmp_path / "inbox.db"
    async with ScriptedModel(script, agents={"Look at auth": Reply("sound", after=gate)}, on_exhausted="Ok.") as model:
        options = model.options(permission_mode="default", interactions=SQLiteInbox(inbox, poll=0.05))
        arguments = ["--config-dir", str(model.sandbox.config_dir), "--inbox", str(inbox)]
        async with Client(options) as client:
            run = client.query("Make it", until="idle")
            with anyio.fail_after(PATIENCE):
                told: list[str] = []
                # The CLI writes what it does, and the name of the agent, some time after it has asked.
                while [line.partition("]")[0] for line in told[:2]] != SHOWN or len(told) < 3:
                    assert await anyio.to_thread.run_sync(main, ["watch", "--once", *arguments]) == 0
                    told = capsys.readouterr().out.splitlines()
            assert await anyio.to_thread.run_sync(main, ["watch", "--json", *arguments]) == 0
            rows = json.loads(capsys.readouterr().out)
            session, question = rows
            assert (session["kind"], session["title"], session["pid"]) == ("session", "Make it", client.pid)
            assert [(task["type"], task["tasks"]) for task in session["tasks"]] == [("local_agent", [])]
            assert (question["kind"], question["summary"]) == ("interaction", "Bash: touch made")
            assert told[2].startswith("? Bash: touch made [asks]")
            assert "\x1b" not in "".join(told)
            gate.open()
            for asked in SQLiteInbox(inbox):
                await asked.answer(Allow())
            assert [task.id for task in (await run).tasks] == [session["tasks"][0]["id"]]
        assert await anyio.to_thread.run_sync(main, ["watch", "--once", *arguments]) == 0
        assert capsys.readouterr().out == "no session runs on this machine\n"


def write_record(config: Path, began: float | None = None) -> None:
    """Write the record of a process, this one, with a session that has a transcript."""
    session = "4c1c23c4-05d6-4f4a-9c3a-0123456789ab"
    folder = config / "projects" / "-work"
    folder.mkdir(parents=True)
    entry = {"type": "user", "uuid": session, "message": {"role": "user", "content": "[red]topic[/]"}, "cwd": "/work"}
    (folder / f"{session}.jsonl").write_text(json.dumps(entry) + "\n")
    (config / "sessions").mkdir()
    record = {"pid": os.getpid(), "sessionId": session, "cwd": "/work", "startedAt": (began or time.time()) * 1000}
    (config / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(record))


def test_an_unreadable_source_is_reported_and_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(tmp_path)
    fleet, inbox = tmp_path / "no fleet.db", tmp_path / "no inbox.db"
    common = ["watch", "--once", "--config-dir", str(tmp_path)]
    arguments = [*common, "--fleet", f"sqlite:///{fleet}", "--inbox", str(inbox)]
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "[red]topic[/]" in told.out
    assert f"fleet: there is no database {fleet}\ninbox: inbox not found: {inbox}\n" in told.err
    assert not fleet.exists()
    assert not inbox.exists()
    fleet.write_bytes(b"no database, but long enough to look like one" * 100)
    inbox.write_bytes(b"neither is this" * 1000)
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "[red]topic[/]" in told.out
    assert "fleet: the database of the fleet" in told.err
    assert "inbox: " in told.err
    for url in ("postgresql://ann:secret@localhost:1/nothing?password=secret", "temporal://ann:secret@localhost:1/x"):
        monkeypatch.setenv("CLAUDE_AGENT_FLEET", url)
        assert main(common) != 0
        told = capsys.readouterr()
        assert "url: must be" in told.err
        assert "secret" not in told.out + told.err


@pytest.mark.parametrize(("seconds", "shown"), [(125, "2m05s"), (7260, "2h01m"), (3 * 86400 + 5, "3d"), (-60, "0m00s")])
def test_a_time_is_as_precise_as_it_is_short(
    seconds: int, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_record(tmp_path, time.time() - seconds - 0.1)
    assert main(["watch", "--once", "--config-dir", str(tmp_path)]) == 0
    assert shown in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal as Ctrl-C does")
def test_watching_shows_each_change_until_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "claude_agent_py", "watch", "--config-dir", str(tmp_path), "--every"]
    with Program([*command, "inf"], stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "no session runs on this machine\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGINT)
    with Program([*command, "0.01"], stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "no session runs on this machine\n"
        write_record(tmp_path)
        assert "[red]topic[/]" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (130, -signal.SIGINT)


def test_a_fleet_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from claude_agent_py.fleet import Fleet

    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    fleet = Fleet(url)
    fleet.agent("worker")

    async def start() -> None:
        async with fleet:
            await fleet.start("worker", "do it", id="job")

    anyio.run(start)
    assert main(["watch", "--once", "--config-dir", str(tmp_path), "--fleet", url]) == 0
    assert capsys.readouterr().out.startswith("· job (worker) [queued]")
