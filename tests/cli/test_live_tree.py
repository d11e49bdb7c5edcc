"""How the demo shows tasks."""

import io
import re

import anyio
import pytest

from claude_agent_py import Client
from claude_agent_py.cli import demo, live_tree
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = pytest.mark.anyio


def progress(tokens: int, tool: str) -> dict[str, object]:
    usage = {"total_tokens": tokens, "tool_uses": 1, "duration_ms": 50}
    return frames.task_progress("a1", usage=usage, last_tool_name=tool)


async def test_a_count_of_tokens_never_falls() -> None:
    shown = io.StringIO()
    reports = {"Read": 5500, "Bash": 22, "Grep": 6000}
    gates = {tool: Gate() for tool in reports}
    script = [[steps.wait_gate(gates[tool]), progress(tokens, tool)] for tool, tokens in reports.items()]
    fake = FakeCLI(steps.wait_for_prompt(), frames.task_started("a1", "Review\x1b[31m"), script, frames.result("hi"))
    async with Client(transport=fake.transport()) as client:
        view = live_tree.create_screen(shown)
        with anyio.fail_after(60):
            async with client.query("hi") as run:
                for tool, gate in gates.items():
                    gate.open()
                    while (task := client.tasks.get("a1")) is None or task.last_tool_name != tool:
                        await anyio.sleep(0.01)
                    view.finish(client.tasks)
                await run
    counts = [int(count) for count in re.findall(r"(\d+) tokens", shown.getvalue())]
    assert counts == [5500, 5500, 6000]
    assert "\x1b" not in shown.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_a_terminal_shows_the_tasks_as_a_tree_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown, gate = Terminal(), Gate()
    launched = [
        frames.task_started("a1", "Review\x1b[31m"),
        frames.task_started("a2", "below", parent_task_id="a1"),
        steps.wait_gate(gate),
    ]
    fake = FakeCLI(steps.wait_for_prompt(), launched, frames.task_end("a1"), frames.result("hi"))
    async with Client(transport=fake.transport()) as client:
        view = live_tree.create_screen(shown)
        view.finish(client.tasks)
        assert shown.getvalue() == ""
        view.say("[bold]started[/] a:key:b\x1b[2J")
        assert "[bold]started[/] a:key:b" in shown.getvalue()
        with anyio.fail_after(60):
            async with client.query("hi") as run, anyio.create_task_group() as group:
                group.start_soon(view.watch, client.tasks)
                while "below" not in shown.getvalue():
                    await anyio.sleep(0.01)
                gate.open()
                await run
                group.cancel_scope.cancel()
        begin = len(shown.getvalue())
        view.finish(client.tasks)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.getvalue()[begin:].splitlines()]
    assert lines[0] == "tasks"
    assert "✓ Review" in lines[1]
    assert "completed" in lines[1]
    assert "\x1b[31m" not in lines[1]
    assert lines[2].lstrip("│ ").startswith("└")
    assert "below" in lines[2]
    assert "\x1b[2J" not in shown.getvalue()


def test_the_prompt_is_one_paragraph() -> None:
    assert "\n" not in demo.PROMPT
