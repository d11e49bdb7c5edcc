"""The program `chat`: in a real terminal (tmux), and as plain lines."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from forks import Program, run_program
from installed_cli import CLI_VARIABLE, find_cli
from questions import asking

import claude_agent_py
from claude_agent_py.testing import Gate, RecordedRequest, Reply, ScriptedModel, tool_use

pytestmark = pytest.mark.real_cli

DEADLINE = 120
PACKAGE = Path(claude_agent_py.__file__).parent.parent
CHAT = [sys.executable, "-m", "claude_agent_py", "chat"]
LAUNCH = {"description": "auth", "prompt": "Review auth", "subagent_type": "general-purpose"}


def environment(model: ScriptedModel) -> dict[str, str]:
    return {**model.environment(**{CLI_VARIABLE: str(find_cli())}), "PYTHONPATH": str(PACKAGE)}


def chat_in_lines(model: ScriptedModel, lines: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a chat without the extra `cli`."""
    program = (
        "import sys; sys.modules.update(rich=None, textual=None); import claude_agent_py.cli as c; sys.exit(c.main())"
    )
    command = [sys.executable, "-c", program, "chat", *arguments]
    return run_program(command, input=lines, timeout=DEADLINE, env=environment(model), cwd=model.sandbox.cwd)


class Terminal:
    """A pane of tmux, on a server of its own."""

    def __init__(self) -> None:
        self._server = f"chat-{uuid.uuid4().hex}"

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._server, *arguments]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout

    def start(self, model: ScriptedModel, *arguments: str) -> None:
        variables = [f"{name}={value}" for name, value in environment(model).items()]
        program = shlex.join([*CHAT, *arguments])
        shell = f"cd {shlex.quote(str(model.sandbox.cwd))}; {program}; echo exit code $?; sleep {DEADLINE}"
        run = shlex.join(["env", "-i", *variables, "TERM=screen-256color", "LC_ALL=C.UTF-8", "bash", "-c", shell])
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "30", run)

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def shows(self, *texts: str) -> str:
        deadline = time.monotonic() + DEADLINE
        while True:
            shown = self._tmux("capture-pane", "-p")
            if all(text in shown for text in texts):
                return shown
            assert time.monotonic() < deadline, f"no {texts} in\n{shown}"
            time.sleep(0.1)

    def end(self) -> None:
        subprocess.run(["tmux", "-L", self._server, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminals() -> Iterator[tuple[Terminal, Terminal]]:
    both = Terminal(), Terminal()
    yield both
    for terminal in both:
        terminal.end()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_chat_in_a_terminal(terminals: tuple[Terminal, Terminal]) -> None:
    terminal, later = terminals
    gate = Gate()

    def script(request: RecordedRequest) -> object:
        told = request.last_user_text
        if told.endswith("slowly"):
            return Reply("late", after=gate)
        if told.endswith("touch"):
            return tool_use("Bash", {"command": "touch made"})
        return f"You said **{told.splitlines()[-1]}**." if told else "I did."

    with ScriptedModel(script) as model:  # type: ignore[arg-type]
        terminal.start(model, "--permission-mode", "default")
        terminal.shows("0 tokens", "^D end")
        terminal.type("-l", "héllo 漢字")
        terminal.type("Enter")
        terminal.shows("» héllo 漢字", "You said héllo 漢字.", "110 tokens")
        terminal.paste("one\ntwo\nthree")
        terminal.shows("three")
        assert len(model.requests) == 1  # a paste is not sent line by line
        terminal.type("Enter")
        terminal.shows("You said three.")
        terminal.resize(50, 16)
        terminal.type("touch", "Enter")
        terminal.shows("Allow Bash?", "command: touch made", "y: once")
        terminal.type("y")
        terminal.shows("✓ Bash touch made", "I did.")
        assert (model.sandbox.cwd / "made").exists()
        terminal.resize(90, 30)
        terminal.type("slowly", "Enter")
        anyio.run(partial(gate.wait_reached, timeout=DEADLINE))
        terminal.type("C-c")
        terminal.shows("interrupted", "^D end")
        gate.open()
        terminal.type("C-d")
        shown = terminal.shows("exit code 0")
        assert f"chat --resume {model.requests[-1].session_id}" in shown
        later.start(model, "--continue")
        later.shows("» touch", "✓ Bash touch made", "I did.", "interrupted")
        later.type("Up", "Enter")
        later.shows("late")
        later.type("C-c", "C-c")
        later.shows("exit code 130")


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


def _children(pid: int) -> list[str]:
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, encoding="utf-8", check=True)
    return shown.stdout.split()
