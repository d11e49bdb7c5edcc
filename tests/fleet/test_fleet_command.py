"""The command `fleet`, with the real CLI: a worker in a process of its own, and all else from a shell."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio
import pytest
from anyio import to_thread
from fleets import PATIENCE, FleetSetUp, fleet_in, given_options, until, until_state
from forks import FLEET, Program
from leftovers import processes_with

from claude_agent_py.cli import main
from claude_agent_py.fleet import Fleet
from claude_agent_py.testing import Failure, FakeCLI, Gate, Reply, ScriptedModel, steps, tool_use

MODULE = """
import json
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import SQLiteStore
given = json.load(open("given.json"))
fleet = Fleet(given["url"], store=SQLiteStore("store.db"), lease=3, poll=0.1)
fleet.agent("asker", ClientOptions(inherit_env=False, **given["options"]), patience=0.1)
"""


def test_no_text_of_a_session_looks_like_another_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forged = "why\x1b[31m\nadmin  known  running on w1"

    async def cancel_one() -> None:
        async with Fleet(url) as fleet:
            fleet.agent("known")
            await (await fleet.start("known", "hi", id="one")).cancel(forged, actor=forged)

    url = f"sqlite:///{tmp_path}/fleet.db"
    anyio.run(cancel_one)
    for action in ("list", "show one", "audit"):
        assert main(["fleet", *action.split(), "--url", url]) == 0
        shown = capsys.readouterr().out
        assert "why" in shown
        assert "\x1b" not in shown
        assert not any(line.startswith(("admin", "  admin")) for line in shown.splitlines())


@pytest.mark.real_cli
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
def test_the_fleet_command_starts_answers_lists_and_prunes_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Any) -> Any:
        if "fail" in request.last_user_text:
            return Failure(400, "bad prompt")
        if "more" in request.last_user_text:
            return "a second answer"
        return "it ran" if request.tool_results else Reply(tool_use("Bash", {"command": "touch x", "description": "d"}))

    def fleet(*arguments: str, code: int = 0) -> list[Any]:
        action, *rest = arguments
        assert main(["fleet", action, "--json", *rest]) == code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    with ScriptedModel(answer) as model, fleet_in(tmp_path, model) as made:
        (tmp_path / "agents.py").write_text(MODULE)
        given = {"url": made.url, "options": given_options(model, permission_mode="default")}
        (tmp_path / "given.json").write_text(json.dumps(given))
        command = [sys.executable, "-m", "claude_agent_py", "fleet", "worker", "agents", "--sessions", "2", "--json"]
        process = Program([*command, "--folder", "ws"], preloaded=FLEET, cwd=tmp_path, stdout=subprocess.PIPE)
        made.processes.append(process)
        assert process.stdout is not None
        began = json.loads(process.stdout.readline())
        assert began["state"] == "runs"
        monkeypatch.setenv("CLAUDE_AGENT_FLEET", made.url)
        [started] = fleet("start", "asker", "do it", "--id", "one")
        assert started["id"] == "one"
        assert started["state"] in ("queued", "running")
        for event in follow(made.url):  # another process
            if event["kind"] == "state" and event["data"]["state"] == "waiting":
                break
        [shown] = fleet("show", "one")
        [question] = shown["interactions"]
        assert question["summary"] == "Bash: touch x"
        assert main(["fleet", "answer", "one", question["id"], "perhaps"]) == 1
        assert "answer with: allow | deny [why]" in capsys.readouterr().err
        assert main(["fleet", "answer", "one", "nothing", "allow"]) == 1
        assert "the session 'one' has asked no question 'nothing'" in capsys.readouterr().err
        assert main(["fleet", "answer", "two", question["id"], "allow"]) == 1
        assert "the fleet has no session 'two'" in capsys.readouterr().err
        assert main(["fleet", "show", "one"]) == 0
        assert f"  workspace: {shown['workspace']} on {shown['machine']}\n  1. running\n" in capsys.readouterr().out
        assert Path(shown["workspace"]).parent.parent.parent == tmp_path / "ws"
        assert fleet("answer", "one", question["id"], "allow") == [{"id": question["id"], "answered": True}]
        assert fleet("answer", "one", question["id"], "deny", code=1)[0]["answered"] is False
        assert main(["fleet", "start", "asker", "fail", "--id", "two", "--wait"]) == 1
        assert "run 1 of session 'two' failed: InvalidRequestError" in capsys.readouterr().err
        assert main(["fleet", "show", "two"]) == 0
        shown_text = capsys.readouterr().out
        assert "events, failed: InvalidRequestError: " in shown_text
        assert "  1. failed: API Error: 400" in shown_text
        assert fleet("send", "two", "fail", "--wait", code=1)[0]["error"] == "InvalidRequestError"
        [outcome] = fleet("send", "one", "more", "--wait")
        assert (outcome["run"], outcome["text"]) == (2, "a second answer")
        assert [listed["id"] for listed in fleet("list", "--state", "idle")] == ["one"]
        assert [(dead["id"], dead["state"]) for dead in fleet("list", "--limit", "1")] == [("two", "failed")]
        assert [worker["pid"] for worker in fleet("list", "--workers")] == [process.pid]
        numbers = [event["number"] for event in fleet("events", "one", "--after", "3")]
        assert numbers == list(range(4, 4 + len(numbers)))
        assert main(["fleet", "show", "one"]) == 0
        assert "  1. done: it ran\n  2. done: a second answer\n" in capsys.readouterr().out
        assert fleet("cancel", "one") == [{"session_id": "one", "done": True}]
        assert fleet("tenant", "acme", "--limit", "2", "--weight", "3") == [{"name": "acme", "limit": 2, "weight": 3.0}]
        assert {"name": "acme", "limit": 2, "weight": 3.0, "sessions": {}} in fleet("list", "--tenants")
        assert fleet("unschedule", "nightly", code=1) == [{"schedule": "nightly", "done": False}]
        assert fleet("prune", "--older-than", "1d") == [{"sessions": 0}]
        assert fleet("prune", "--older-than", "0") == [{"sessions": 2}]
        assert fleet("list") == []
        assert fleet("drain") == [{"workers": 1}]
        assert process.wait(PATIENCE) == 0
        assert json.loads(process.stdout.readline()) == {**began, "state": "ended"}


def follow(url: str) -> Any:
    command = [sys.executable, "-m", "claude_agent_py", "fleet", "events", "one", "--json", "--follow"]
    with Program([*command, "--url", url], preloaded=FLEET, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.real_cli
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_runs_after_the_grace_of_a_drain_continue_in_another_worker(tmp_path: Path) -> None:
    gate = Gate()
    with ScriptedModel(lambda request: Reply("at last", after=gate)) as model, fleet_in(tmp_path, model) as made:
        fleet = made.fleet()
        fleet.agent("worker")
        first = made.start_worker()
        session = await fleet.start("worker", "take your time")
        await until(lambda: gate.reached == 1, "it runs")
        assert await to_thread.run_sync(main, ["fleet", "drain", "--grace", "0.5", "--url", made.url]) == 0
        [draining] = await fleet.workers()
        assert draining.is_draining
        assert draining.release_at is not None
        second = made.start_worker()
        assert await to_thread.run_sync(first.wait, PATIENCE) == 0
        await until(lambda: gate.reached == 2, "it goes on")
        gate.open()
        result = await session.result(timeout=PATIENCE)
        assert (result.text, result.crashes) == ("at last", 0), made.logs()
        assert [worker.pid for worker in await fleet.workers()] == [second.pid]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
async def test_a_worker_drains_on_sigterm_and_gives_back_what_takes_longer(tmp_path: Path) -> None:
    gate = Gate()

    def start_worker(made: FleetSetUp, *more: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "claude_agent_py", "fleet", "worker", "agents:fleet", "--folder", "ws", *more]
        process = Program(command, preloaded=FLEET, cwd=tmp_path, stdout=subprocess.PIPE)
        made.processes.append(process)
        assert process.stdout is not None
        assert b"runs" in process.stdout.readline()
        return process

    program = FakeCLI(steps.wait_gate(gate), steps.turn("at last")).install(tmp_path / "cli")
    with ScriptedModel() as model, fleet_in(tmp_path, model) as made:
        (tmp_path / "agents.py").write_text(MODULE)
        given = {"url": made.url, "options": {"cli_path": str(program)}}
        (tmp_path / "given.json").write_text(json.dumps(given))
        fleet = made.fleet()
        impatient = start_worker(made, "--grace", "0.5")
        first = await fleet.start("asker", "take your time")
        await until_state(first, "running")
        impatient.send_signal(signal.SIGTERM)
        assert await to_thread.run_sync(impatient.wait, PATIENCE) == 0
        info = await first.info()
        assert (info.state, info.worker, await fleet.workers()) == ("queued", None, [])
        assert processes_with(str(program)) == []
        patient = start_worker(made)
        await until_state(first, "running")
        patient.send_signal(signal.SIGTERM)

        async def drains() -> bool:
            return [worker.is_draining for worker in await fleet.workers()] == [True]

        await until(drains, "it drains")
        second = await fleet.start("asker", "another one")
        gate.open()
        assert await to_thread.run_sync(patient.wait, PATIENCE) == 0
        result = await first.result(timeout=PATIENCE)
        assert (result.text, result.crashes) == ("at last", 0)
        assert (await second.info()).state == "queued"


def test_mistakes_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_AGENT_FLEET", raising=False)
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    anyio.run(Fleet(url).list)
    for arguments, told in [
        (["list"], "pass --url or set CLAUDE_AGENT_FLEET"),
        (["worker", "no_such_module"], "cannot be loaded"),
        (["show", "x", "--url", url], "the fleet has no session 'x'"),
        (["drain", "w", "--url", url], "the fleet has no worker 'w'"),
        (["list", "--limit", "-1", "--url", url], "limit: must be a positive number"),
        (["prune", "--older-than", "-1", "--url", url], "older_than: must not be negative"),
        (["start", "x", "hi", "--url", url], "no worker has registered an agent 'x'"),
    ]:
        assert main(["fleet", *arguments]) == 1
        assert told in capsys.readouterr().err


def test_what_is_no_fleet_or_no_duration_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "without_fleet.py").write_text("fleet = 3")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["fleet", "worker", "without_fleet"]) == 1
    assert "fleet: must be a Fleet, not int: without_fleet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["fleet", "prune", "--older-than", "3x"])
    assert "must be a duration such as 30d, 12h, 90m or 45, not '3x'" in capsys.readouterr().err


def test_a_session_that_has_not_failed_is_not_retried_and_an_interrupted_one_has_nothing_to_interrupt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}")
    fleet.agent("one")
    anyio.run(partial(fleet.start, "one", "hi", id="s"))
    url = ["--url", f"sqlite:///{tmp_path / 'fleet.db'}"]
    for code, told in ((0, "done\n"), (1, "nothing to do\n")):
        assert main(["fleet", "cancel", "s", "--interrupt", *url]) == code
        assert capsys.readouterr().out == told
    assert main(["fleet", "retry", "s", *url]) == 1
    assert "the session 's' is idle, not failed" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
def test_a_worker_names_the_address_of_its_health(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    (tmp_path / "agents.py").write_text(MODULE)
    (tmp_path / "given.json").write_text(json.dumps({"url": url, "options": {}}))
    command = [sys.executable, "-m", "claude_agent_py", "fleet", "worker", "agents", "--json", "--health", "0"]
    with Program(command, preloaded=FLEET, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["health"]
        with urlopen(f"{address}/healthz", timeout=PATIENCE) as health:
            assert health.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_an_unusable_database_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.db"
    other.write_text("This is no database, and long enough to have a header of one. " * 4)
    store = tmp_path / "store.db"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE entries (id)")
    for path, told in (
        (tmp_path / "missing" / "fleet.db", "the folder of the fleet's database does not exist"),
        (other, f"the database of the fleet, {other}, cannot be read: file is not a database"),
        (tmp_path / "flete.db", f"there is no database {tmp_path / 'flete.db'}"),
        (store, f"there is no fleet in the database {store}"),
    ):
        before = sorted(tmp_path.iterdir())
        for words in COMMANDS:
            assert main(["fleet", *words, "--url", f"sqlite:///{path}"]) == 1
            assert told in capsys.readouterr().err
        assert sorted(tmp_path.iterdir()) == before
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("entries",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_commands_that_only_read_do_not_wait_for_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    fleet = Fleet(f"sqlite:///{path}")
    fleet.agent("one")
    session = anyio.run(partial(fleet.start, "one", "hi", id="s"))
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO fleet_interactions VALUES ('q', ?, 'd', '{}', 'taken', NULL, 0)", [session.id])
        writer.execute("BEGIN IMMEDIATE")
        for words, code in (
            (["list"], 0),
            (["list", "--workers"], 0),
            (["list", "--tenants"], 0),
            (["show", "s"], 0),
            (["answer", "s", "q", "allow"], 1),
            (["metrics"], 0),
            (["audit"], 0),
        ):
            assert main(["fleet", *words, "--url", f"sqlite:///{path}"]) == code


COMMANDS = [
    ["start", "x", "hi"],
    ["list"],
    ["list", "--workers"],
    ["show", "x"],
    ["send", "x", "hi"],
    ["answer", "x", "i", "allow"],
    ["cancel", "x"],
    ["retry", "x"],
    ["events", "x"],
    ["tenant", "x", "--limit", "1"],
    ["unschedule", "x"],
    ["prune", "--older-than", "1d"],
    ["drain"],
]
