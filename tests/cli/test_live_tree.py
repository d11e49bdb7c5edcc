"""How a command shows tasks while they run: a line for each change, or a tree in a terminal."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from installed_cli import CLI_VARIABLE

from claude_agent_py.cli import main
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script")


class Output(io.StringIO):
    """Where a command shows its tasks. It calls `seen` with all that is shown so far."""

    def __init__(self, seen: Callable[[str], None], *, is_terminal: bool) -> None:
        super().__init__()
        self._seen = seen
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        self._seen(self.getvalue())
        return written


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that runs a prompt and returns what the command showed."""

    def run(fake: FakeCLI, seen: Callable[[str], None], *, is_terminal: bool) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv(CLI_VARIABLE, str(fake.install(tmp_path / "bin")))
        output = Output(seen, is_terminal=is_terminal)
        monkeypatch.setattr("sys.stderr", output)
        assert main(["run", "go", "--timeout", "60"]) == 0
        return output.getvalue()

    return run


def progress(tokens: int, tool: str) -> dict[str, Any]:
    usage = {"total_tokens": tokens, "tool_uses": 1, "duration_ms": 50}
    return frames.task_progress("a1", usage=usage, last_tool_name=tool)


def test_a_count_of_tokens_never_falls(run: Callable[..., str]) -> None:
    reports = {"Read": 5500, "Bash": 22, "Grep": 6000}
    gates = {tool: Gate() for tool in reports}
    script = [[progress(tokens, tool), steps.wait_gate(gates[tool])] for tool, tokens in reports.items()]
    started = frames.task_started("a1", "Review\x1b[31m")
    fake = FakeCLI(steps.wait_for_prompt(), started, script, frames.task_end("a1"), frames.result("hi"))

    def open_next(shown: str) -> None:
        for tool, gate in gates.items():
            if f"· {tool}" in shown:
                gate.open()

    shown = run(fake, open_next, is_terminal=False)
    counts = [int(count) for count in re.findall(r"running .* (\d+) tokens", shown)]
    assert counts == [5500, 5500, 6000]
    assert "\x1b" not in shown


def test_a_terminal_shows_the_tasks_as_a_tree_that_stays(run: Callable[..., str]) -> None:
    gate = Gate()
    launched = [
        frames.assistant("[bold]started[/] a:key:b\x1b[2J"),
        frames.task_started("a1", "Review\x1b[31m"),
        frames.task_started("a2", "below", parent_task_id="a1"),
        steps.wait_gate(gate),
    ]
    ended = [frames.task_end("a1"), frames.task_end("a2")]
    fake = FakeCLI(steps.wait_for_prompt(), launched, ended, frames.result("hi"))

    def open_gate(shown: str) -> None:
        if "below" in shown:
            gate.open()

    shown = run(fake, open_gate, is_terminal=True)
    assert "[bold]started[/] a:key:b" in shown
    live, _, stays = shown.rpartition("\x1b[2K")  # erases a line
    assert "below" in live
    tree = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in stays.splitlines()]
    assert "tasks" in tree[0]
    assert "✓ Review" in tree[1]
    assert "completed" in tree[1]
    assert tree[2].lstrip("│ ").startswith("└")
    assert "below" in tree[2]
    assert "\x1b[2J" not in shown
    assert "Review\x1b[31m" not in shown


def test_a_terminal_without_tasks_shows_no_tree(run: Callable[..., str]) -> None:
    shown = run(FakeCLI(*steps.turn("hi")), lambda shown: None, is_terminal=True)
    assert "tasks" not in shown
    assert re.search(r"\x1b\[2K[\w-]+: 1 turn", shown)  # which follows the line that was erased
