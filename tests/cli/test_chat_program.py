"""The program `chat`."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from forks import Program, run_program
from installed_cli import CLI_VARIABLE, find_cli
from questions import asking

import claude_agent_py
from claude_agent_py.testing import FakeCLI, Gate, Reply, ScriptedModel, frames, steps, tool_use

pytestmark = pytest.mark.real_cli

DEADLINE = 120
PACKAGE = Path(claude_agent_py.__file__).parent.parent
CHAT = [sys.executable, "-m", "claude_agent_py", "chat"]
LAUNCH = {"description": "auth", "prompt": "Review auth", "subagent_type": "general-purpose"}


def environment(model: ScriptedModel) -> dict[str, str]:
    return {**model.environment(**{CLI_VARIABLE: str(find_cli())}), "PYTHONPATH": str(PACKAGE)}


def chat_in_lines(model: ScriptedModel, lines: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a chat without the extra `cli`."""
    program = "import sys; sys.modules.update(rich=None); import claude_agent_py.cli as c; sys.exit(c.main())"
    command = [sys.executable, "-c", program, "chat", *arguments]
    return run_program(command, input=lines, timeout=DEADLINE, env=environment(model), cwd=model.sandbox.cwd)


def test_a_chat_of_plain_lines_can_be_scripted() -> None:
    """Prompts and answers to what is asked are lines of stdin; stdout has the answers alone."""
    touch = tool_use("Bash", {"command": "touch made"})
    script = [
        "Hello\x1b[31m.",
        touch,
        "Denied.",
        touch,
        "Made.",
        tool_use("AskUserQuestion", asking("Which?", "A", "B")),
        "B it is.",
    ]
    with ScriptedModel(
        [*script, tool_use("Agent", LAUNCH), "Started.", "Reviewed.", touch, "Nobody answered."],
        agents={"Review auth": "fine"},
    ) as model:
        typed = "hi touch perhaps n_not_now touch a which 2 review /usage /rename_Mine touch".replace(" ", "\n")
        done = chat_in_lines(model, typed.replace("_", " "), "--permission-mode", "default")
        assert done.returncode == 0, done.stderr
        answers = done.stdout.splitlines()
        assert answers[:6] == ["Hello�[31m.", "Denied.", "Made.", "B it is.", "Started.", "Reviewed."]
        assert any("Usage by model" in line for line in answers)
        shown = done.stderr.splitlines()
        assert {"? Allow Bash?", "answer with y, n [why] or a", "    not now"} <= set(shown)
        assert any(line.startswith("✓ auth completed") for line in shown)
        assert (model.sandbox.cwd / "made").exists()
        assert not (model.sandbox.home / ".local" / "state").exists()  # what a script says is not kept

        again = chat_in_lines(model, "again", "--resume", "Mine")
        assert again.stdout == "Done.\n", again.stderr
        assert len({request.session_id for request in model.requests if request.agent_id is None}) == 1
        assert chat_in_lines(model, "", "--max-budget-usd", "-1").returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_plain_lines_after_ctrl_c_and_after_the_death_of_the_cli() -> None:
    first, second = Gate(), Gate()
    with ScriptedModel([Reply("late", after=first), Reply("later", after=second)], on_exhausted="Done.") as model:
        with Program(
            CHAT,
            env=environment(model),
            cwd=model.sandbox.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        ) as process:
            try:
                assert process.stdin is not None
                process.stdin.write("slowly\nagain\n")
                process.stdin.flush()
                anyio.run(partial(first.wait_reached, timeout=DEADLINE))
                process.send_signal(signal.SIGINT)
                anyio.run(partial(second.wait_reached, timeout=DEADLINE))
                first.open()
                (cli,) = [int(one) for one in _children(process.pid)]
                os.kill(cli, signal.SIGKILL)
                out, err = process.communicate(timeout=DEADLINE)
            finally:
                process.kill()
    second.open()
    assert out == ""
    assert "interrupted" in err.splitlines()
    assert "CLIExitError" in err
    assert "Traceback" not in err
    assert process.returncode == 1


def chat_with_fake(fake: FakeCLI, folder: Path, lines: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, CLI_VARIABLE: str(fake.install(folder)), "HOME": str(folder)}
    return run_program([*CHAT, *arguments], input=lines, timeout=DEADLINE, env=env, cwd=folder)


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_questions_are_answered_one_after_the_other(tmp_path: Path) -> None:
    questions = [*asking("Which?", "A", "B")["questions"], *asking("Where?", "C", "D")["questions"]]
    asked = frames.can_use_tool("q1", "AskUserQuestion", input={"questions": questions}, tool_use_id="t1")
    fake = FakeCLI(
        steps.wait_for_prompt("the first prompt"),
        frames.init(),
        frames.system("status", status=None, compact_error="too long"),
        asked,
        steps.wait_for_reply("q1"),
        frames.assistant("Thank you."),
        frames.result("Thank you."),
    )
    done = chat_with_fake(fake, tmp_path, "2\n\n1\n", "the first prompt")
    assert (done.returncode, done.stdout) == (0, "Thank you.\n"), done.stderr
    [reply] = fake.received_like({"type": "control_response", "response": {"request_id": "q1"}})
    assert reply["response"]["response"]["updatedInput"]["answers"] == {"Which?": "B", "Where?": "C"}
    shown = done.stderr.splitlines()
    assert [line for line in shown if line in ("  Which?", "  Where?")] == ["  Which?", "  Where?"]
    assert any(line.endswith("not compacted: too long") for line in shown)


@pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")
def test_a_question_is_denied_if_the_input_ends(tmp_path: Path) -> None:
    asked = frames.can_use_tool("q1", "Bash", input={"command": "ls"}, tool_use_id="t1")
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.init(),
        asked,
        steps.wait_for_reply("q1"),
        frames.assistant("No."),
        frames.result(),
    )
    done = chat_with_fake(fake, tmp_path, "go\n")
    assert (done.returncode, done.stdout) == (0, "No.\n"), done.stderr
    [reply] = fake.received_like({"type": "control_response", "response": {"request_id": "q1"}})
    assert reply["response"]["response"]["message"] == "The input ended before the question was answered."


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_ctrl_c_ends_a_chat_without_a_turn_and_a_second_one_any(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("Hello."), steps.wait_for_prompt(), frames.init(), answers={"interrupt": {"error": "no"}})
    env = {**os.environ, CLI_VARIABLE: str(fake.install(tmp_path)), "HOME": str(tmp_path)}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for is_in_turn in (False, True):
        with Program(CHAT, env=env, cwd=tmp_path, encoding="utf-8", **pipes) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write("hi\n")
            process.stdin.flush()
            assert process.stdout.readline() == "Hello.\n"
            if is_in_turn:
                process.stdin.write("go on\n")
                process.stdin.flush()
                anyio.run(fake.wait_received, {"message": {"content": "go on"}})
                process.send_signal(signal.SIGINT)
                told = [process.stderr.readline(), process.stderr.readline()]
                assert told[0] == "interrupting; press Ctrl-C again to exit\n"
                assert "no" in told[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130


def _children(pid: int) -> list[str]:
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, encoding="utf-8", check=True)
    return shown.stdout.split()
