"""The command line, run as a process."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Command, command as command
from forks import run_program
from installed_cli import CLI_VARIABLE

from claude_agent_py import __version__
from claude_agent_py.cli import main
from claude_agent_py.permissions import SQLiteInbox
from claude_agent_py.testing import FakeCLI, frames, steps
from claude_agent_py.transport import CLI_VERSION

Environ = dict[str, str]


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    """A machine without any CLI, npm or package index."""
    (tmp_path / "bin").mkdir()
    return {
        "HOME": str(tmp_path),
        "PATH": str(tmp_path / "bin"),
        "CLAUDE_AGENT_CACHE_DIR": str(tmp_path / "cache"),
        "CLAUDE_AGENT_BUNDLED_DIR": str(tmp_path / "bundled"),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }


@pytest.fixture
def run(command: Command) -> Command:
    """Return a function that runs a command on a machine."""
    return lambda environ, *args: command(*args, env=environ)


def test_the_package_is_a_program(environ: Environ) -> None:
    command = [sys.executable, "-m", "claude_agent_py", "install-cli", "--version", "latest"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    told = f"claude-agent-py: version: 'latest' is not a version such as {CLI_VERSION}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_help_and_version(run: Command, environ: Environ) -> None:
    assert run(environ, "--version").stdout.strip() == f"claude_agent_py {__version__}"
    shown = run(environ, "--help").stdout
    assert "install-cli" in shown
    assert "doctor" in shown


def test_every_command_is_on_the_page(run: Command, environ: Environ) -> None:
    commands = re.findall(r"^    ([\w-]+) ", run(environ, "--help").stdout, re.MULTILINE)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (\S.*?) \|", page.partition("\n## ")[0], re.MULTILINE))
    assert set(commands) == set(re.findall(r"`([\w-]+)`", rows))


@pytest.mark.parametrize("args", [(), ("nonsense",), ("install-cli", "--nonsense")])
def test_wrong_arguments_are_reported(run: Command, environ: Environ, args: tuple[str, ...]) -> None:
    done = run(environ, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: claude-agent-py" in done.stderr


def test_install_cli_says_what_was_tried(run: Command, environ: Environ) -> None:
    done = run(environ, "install-cli")
    assert done.returncode == 1
    assert f"fetching Claude Code {CLI_VERSION}" in done.stdout
    assert "npm is not on PATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_install_cli_fetches_nothing_that_is_there(run: Command, tmp_path: Path, environ: Environ) -> None:
    FakeCLI(version=CLI_VERSION).install(tmp_path / "bin")
    done = run(environ, "install-cli")
    assert done.returncode == 0
    assert f"is version {CLI_VERSION}: nothing to fetch" in done.stdout
    assert f"fetching Claude Code {CLI_VERSION}" in run(environ, "install-cli", "--force").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the program here is a shell script")
@pytest.mark.parametrize("args", [(), ("--if-missing",)])
def test_install_cli_does_not_run_a_cached_program_with_another_checksum(
    run: Command, tmp_path: Path, environ: Environ, args: tuple[str, ...]
) -> None:
    path = tmp_path / "cache" / "cli" / CLI_VERSION / "claude"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{CLI_VERSION} (Claude Code)'\n")
    path.chmod(0o755)
    done = run(environ, "install-cli", *args)
    assert done.returncode == 1
    assert f"{path} has the SHA-256 " in done.stdout
    assert not path.exists()
    assert not (tmp_path / "ran").exists()


def test_install_cli_if_missing_is_content_with_another_version(run: Command, tmp_path: Path, environ: Environ) -> None:
    FakeCLI(version="99.0.0").install(tmp_path / "bin")
    assert run(environ, "install-cli").returncode == 1  # tries to fetch the one that is tested
    done = run(environ, "install-cli", "--if-missing")
    assert (done.returncode, "99.0.0: nothing to fetch" in done.stdout) == (0, True)


def test_install_cli_if_missing_is_not_content_with_an_old_one(run: Command, tmp_path: Path, environ: Environ) -> None:
    FakeCLI(version="2.0.0").install(tmp_path / "bin")
    assert run(environ, "install-cli", "--if-missing").returncode == 1


def test_main_gives_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install-cli", "--version", "x"]) == 1
    assert "is not a version" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_shell_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 0
    script = capsys.readouterr().out

    def complete(*words: str) -> list[str]:
        typed = " ".join(words)
        state = f"COMP_WORDS=(claude-agent-py {typed}); COMP_CWORD={len(words)}"
        program = (
            f'{script}\n{state}; $(complete -p claude-agent-py | sed "s/.*-F //; s/ .*//"); echo ${{COMPREPLY[@]}}'
        )
        done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.split()

    assert complete("ses") == ["sessions"]
    assert complete("sessions", "re") == ["rename"]
    assert complete("run", "--json") == ["--json", "--jsonl"]
    with pytest.raises(SystemExit):
        main(["--print-completion", "cmd"])
    assert "takes bash, zsh" in capsys.readouterr().err


def test_completion_without_its_extra_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 1
    assert "pip install shtab" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="pipes break differently elsewhere")
@pytest.mark.parametrize(
    "arguments",
    [
        *(["--version"], ["inbox", "--inbox", "i.db", "list"], ["doctor"], ["replay", "printed.jsonl"]),
        *(["run", "--quiet", "--jsonl", "hi"], ["chat", "hi"]),
    ],
)
def test_a_reader_that_leaves_ends_a_command_quietly(tmp_path: Path, arguments: list[str]) -> None:
    SQLiteInbox(tmp_path / "i.db")
    (tmp_path / "printed.jsonl").write_text(json.dumps(frames.assistant("Hello.")))
    program = FakeCLI(steps.turn(frames.text_stream("Hello."))).install(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "claude_agent_py", *arguments]
    env = os.environ | {CLI_VARIABLE: str(program)}
    done = run_program(command, stdout=writing, cwd=tmp_path, timeout=60, env=env)
    os.close(writing)
    assert done.stderr == ""
    if "doctor" not in arguments:
        assert done.returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the streams")
@pytest.mark.parametrize(
    ("shell", "code", "told"),
    [
        ("exec {} run --quiet hi >&-", 0, ""),
        ("exec {} run --quiet - <&-", 2, "claude-agent-py: OptionsError: prompt: stdin contains no prompt\n"),
        ("exec {} run hi <&- >&- 2>&-", 0, ""),
    ],
)
def test_streams_that_the_caller_closed_are_empty(tmp_path: Path, shell: str, code: int, told: str) -> None:
    program = FakeCLI(steps.turn("Hello.")).install(tmp_path)
    command = ["sh", "-c", shell.format(shlex.join([sys.executable, "-m", "claude_agent_py"]))]
    env = os.environ | {CLI_VARIABLE: str(program)}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", told)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", [["inbox", "--inbox", "i.db", "list"], ["doctor"]])
def test_an_output_on_a_full_disk_is_told_in_a_line(tmp_path: Path, arguments: list[str]) -> None:
    SQLiteInbox(tmp_path / "i.db")
    with open("/dev/full", "wb") as full:
        done = run_program([sys.executable, "-m", "claude_agent_py", *arguments], stdout=full, cwd=tmp_path, timeout=60)
    assert done.stderr == "claude-agent-py: [Errno 28] No space left on device\n"
    assert done.returncode == 1


def test_importing_the_program_runs_nothing() -> None:
    """As tools do that import all modules of a package."""
    assert importlib.import_module("claude_agent_py.__main__").main is main
