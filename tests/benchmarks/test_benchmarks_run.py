"""The benchmarks run: each once, with tiny numbers, in a process of its own. How fast anything is, is not tested."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HAS_OFFICIAL = importlib.util.find_spec("claude_agent_sdk") is not None

PRINTED = {
    "imports": ["import anyio, pydantic", "from claude_agent_py import Client, ClientOptions"],
    "messages": ["assistant, ", "deltas, ", "streamed, ", "mixed, ", "client.query()", "client.messages()"],
    "paced": ["one every 1 ms", "client.query()"],
    "memory": ["Resident memory", "client.query()"],
    "engine": ["deltas", "json.loads"],
    "tasks": ["live_ids()"],
}
"""What each prints, beside figures."""


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PRINTED)
def test_a_benchmark_runs(name: str) -> None:
    printed = run(name, "--rounds=1", "--messages=25", "--tasks=200")
    for text in PRINTED[name]:
        assert text in printed
    assert re.search(r"\d+\.\d", printed)


def test_connecting_is_measured_against_a_start_by_hand() -> None:
    printed = run("instant", "--rounds=1")
    assert re.search(r"by hand +\d+\.\d", printed)
    assert re.search(r"claude_agent_py, warm +\d+\.\d", printed)
    assert re.search(r"claude_agent_py, cold +\d+\.\d", printed)
    assert re.search(r"claude_agent_py, from nothing +\d+\.\d", printed)


@pytest.mark.real_cli
def test_connecting_to_the_real_program_is_measured() -> None:
    assert re.search(r"by hand +\d+\.\d", run("connect", "--rounds=1"))


def test_the_comparison_is_there_where_the_official_sdk_is() -> None:
    printed = run("imports", "--rounds=1")
    assert ("import claude_agent_sdk" in printed) is HAS_OFFICIAL
    assert ("comparison is left out" in printed) is not HAS_OFFICIAL


def test_an_unknown_benchmark_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "speed"], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 2
    assert "unknown: speed; there are imports, connect" in done.stderr
