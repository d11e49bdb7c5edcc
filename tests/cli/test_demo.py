"""The demo, run as a process. Its output is not a terminal, so it prints plain lines."""

import sys

import pytest
from forks import run_program

pytestmark = pytest.mark.real_cli


def test_the_demo_shows_every_task_its_output_and_the_answer() -> None:
    done = run_program([sys.executable, "-m", "claude_agent_py", "demo"])
    assert done.stderr == ""
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    [prompt] = [line for line in lines if line.startswith("> ")]
    assert prompt.endswith("in two sentences.")
    for name, output in (
        ("Review auth", "one secret is logged"),
        ("Review billing", "rounding is right"),
        ("Run the tests", "test 6 ok"),
    ):
        assert any(f"● {name} [" in line and "running" in line for line in lines)
        assert any(f"✓ {name} [" in line and "completed" in line for line in lines)
        assert f"{name}: completed" in lines
        assert output in done.stdout
    assert "Answer: Auth is sound" in done.stdout
    assert "the process has exited" in lines[-1]


def test_the_live_demo_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    done = run_program([sys.executable, "-m", "claude_agent_py", "demo", "--live"])
    assert done.returncode == 1
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr


SMALL = """
import sys
from claude_agent_py.cli import fleet_demo, main
fleet_demo.SESSIONS, fleet_demo.WORKERS, fleet_demo.LEASE = 1, ("a", "b"), 3.0
sys.exit(main(sys.argv[1:]))
"""
"""The demo with one session."""


@pytest.mark.parametrize(
    ("program", "more", "count"),
    [
        pytest.param(["-c", SMALL], [], 1, id="small"),
        pytest.param(["-m", "claude_agent_py"], [], 6, id="sqlite", marks=pytest.mark.long),
        pytest.param(["-m", "claude_agent_py"], ["--temporal"], 6, id="temporal", marks=pytest.mark.long),
    ],
)
def test_the_demo_of_fleets_kills_a_worker_and_no_command_runs_twice(
    program: list[str], more: list[str], count: int
) -> None:
    done = run_program([sys.executable, *program, "fleet", "demo", *more])
    assert done.stderr == ""
    assert "killed worker " in done.stdout
    told = f"{count} of {count} prompts answered; commands that ran once: {count} of {count}"
    assert done.stdout.splitlines()[-1] == told
    assert done.returncode == 0
