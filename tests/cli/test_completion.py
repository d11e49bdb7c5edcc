"""The command `completion`: the script completes commands and options in a real shell."""

import re
import shutil
import subprocess

import pytest

from claude_agent_py.cli import main


def completed(script: str, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    typed = " ".join(words)
    program = f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _claude_agent_py; echo ${{COMPREPLY[@]}}"
    return subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=30, check=True
    ).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_actions_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "claude-agent-py", "ses") == ["sessions"]
    assert completed(script, "claude-agent-py", "sessions", "re") == ["rename"]
    assert completed(script, "claude-agent-py", "run", "--json") == ["--json", "--jsonl"]
    assert completed(script, "claude-agent-py", "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_every_command_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z-]+)(?=  |$)", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) > 10
    assert [command for command in commands if command not in script] == []
