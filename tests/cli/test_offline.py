"""The command `offline`: unchanged programs with the real CLI."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Command, command as command
from forks import Program

from claude_agent_py.testing import ScriptedModel

PROGRAM = """
import sys
from pathlib import Path
from claude_agent_py import AgentDefinition, ClientOptions, run_sync

options = ClientOptions(agents={"reviewer": AgentDefinition(description="d", prompt="p")})
result = run_sync("What is the capital of France?", options, until="idle")
print(result.text, sys.argv[1:], Path.cwd().name, len(result.tasks))
sys.exit(7)
"""

SCRIPT = """
from pathlib import Path
from claude_agent_py.testing import tool_use

call = {"description": "auth", "prompt": "Review auth", "subagent_type": "reviewer", "run_in_background": False}
script = [tool_use("Agent", call)]
on_exhausted = "Reviewed."
agents = {"Review auth": "auth is sound"}
assert Path(__file__).is_absolute()
session = {}
scrap = 1
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    program = tmp_path / "work" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    return program


@pytest.fixture
def offline(command: Command) -> Command:
    """Return a function that runs `offline` in a folder."""
    return lambda folder, *arguments, **env: command("offline", *arguments, env={**os.environ, **env}, cwd=folder)


@pytest.mark.real_cli
def test_a_program_runs_as_it_is_and_asks_nobody_else(offline: Command, program: Path) -> None:
    with ScriptedModel("Paris.") as elsewhere:
        mine = {"ANTHROPIC_BASE_URL": elsewhere.url, "ANTHROPIC_AUTH_TOKEN": "mine", "CLAUDE_CODE_USE_BEDROCK": "1"}
        dead = "http://127.0.0.1:9"
        done = offline(program.parent, program.name, "--a", "b", HTTP_PROXY=dead, HTTPS_PROXY=dead, **mine)
        assert elsewhere.requests == []
    assert done.stdout == "You said: What is the capital of France? ['--a', 'b'] work 0\n", done.stderr
    assert done.stderr == "claude-agent-py: offline: requests to the scripted model: 1\n"
    assert done.returncode == 7


def test_a_misspelt_name_of_a_script_warns(offline: Command, tmp_path: Path) -> None:
    (tmp_path / "said.py").write_text(SCRIPT)
    done = offline(tmp_path, "--script", "said.py", "true")
    first, *_ = done.stderr.splitlines()
    assert first == "claude-agent-py: offline: said.py: 'session' has no effect; did you mean 'sessions'?"
    assert "scrap" not in done.stderr


@pytest.mark.long
@pytest.mark.real_cli
def test_the_model_says_what_a_file_says_and_a_misspelt_name_warns(offline: Command, program: Path) -> None:
    (program.parent / "said.py").write_text(SCRIPT)
    done = offline(program.parent, "--script", "said.py", program.name)
    assert done.stdout == "Reviewed. [] work 1\n", done.stderr
    first, *_ = done.stderr.splitlines()
    assert first == "claude-agent-py: offline: said.py: 'session' has no effect; did you mean 'sessions'?"
    assert "scrap" not in done.stderr


def test_any_command_runs_and_one_that_asks_nothing_is_told_of(offline: Command, tmp_path: Path) -> None:
    done = offline(tmp_path, sys.executable, "-c", "import os; print(os.environ['ANTHROPIC_BASE_URL'])")
    assert done.stdout.startswith("http://127.0.0.1:")
    assert (done.returncode, "scripted model: 0" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--script", "none.py", "x.py"), "none.py"),
        (("--script", "empty.py", "x.py"), "empty.py defines no `script`"),
        (("--script", "wrong.py", "x.py"), "a block of a reply must be"),
        (("--script", "raises.py", "x.py"), "raises.py: KeyError: 'nowhere'"),
        (("no-such-command",), "cannot start no-such-command"),
    ],
)
def test_a_program_that_cannot_be_run_is_reported(
    offline: Command, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "wrong.py").write_text("script = [5]")
    (tmp_path / "raises.py").write_text("import os; os.environ['nowhere']")
    done = offline(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ending_the_command_ends_the_program() -> None:
    program = "import os, time; print(os.environ['CLAUDE_CONFIG_DIR'], flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "claude_agent_py", "offline", sys.executable, "-c", program]
    with Program(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        folder = process.stdout.readline().strip()
        assert Path(folder).is_dir()
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not Path(folder).exists()
