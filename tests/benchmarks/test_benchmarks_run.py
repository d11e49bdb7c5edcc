"""The benchmarks run: each once, with tiny numbers, in a process of its own. How fast anything is, is not tested."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import asking_cli
from claude_agent_py.testing import FakeCLI, steps

ROOT = Path(__file__).parent.parent.parent
HAS_OFFICIAL = importlib.util.find_spec("claude_agent_sdk") is not None
SDKS = ["claude_agent_py", *(["claude_agent_sdk"] if HAS_OFFICIAL else [])]
HOSTS = [*SDKS, "bare asyncio"]
READERS = [rf"mixed, \d+ bytes +{reader}" for reader in (r"claude_agent_py: client.query\(\)", *HOSTS[1:])]

FIGURE = r".* \d+\.\d"
TINY = "--rounds=1 --messages=25 --tasks=200 --asks=2 --sessions=2 --stored=3 --transcript-mib=1 --runs=1 --spares=1"
RUNS = {
    "imports timeline messages callbacks sessions --kinds mixed hook --hosts bare": {
        "Import, over": [r"import anyio, pydantic", r"from claude_agent_py import Client, ClientOptions"],
        "Timeline of 1 MiB": ["wall", "spans"],
        "25 messages in a burst": [r"mixed, \d+ bytes +bare asyncio"],
        "2 questions": ["hook +bare asyncio"],
        "Sessions at once": ["2 +bare asyncio"],
    },
    "stored traced messages callbacks sessions engine tasks paced busy memory unread --kinds mixed --in-process": {
        "Listing 3 sessions of 100 KB": SDKS,
        "Reading a transcript of 1 MiB": SDKS,
        "Telemetry": ["mixed"],
        "25 messages in a burst (": READERS,
        "2 questions": [f"{kind} +{host}" for kind in ("hook", "permission", "tool") for host in HOSTS],
        "Sessions at once": [f"2 +{host}" for host in HOSTS],
        "us a message": ["deltas", "all of these"],
        "   tasks": [r"200 +3800"],
        "live_ids()": [r"live_ids\(\):"],
        "25 messages one every 1 ms": READERS,
        "25 messages in a burst, beside a worker": READERS,
        "Resident memory, 25 messages read as they come": READERS,
        "Resident memory, 25 messages read when all that come have come": READERS,
    },
}
"""What to run, and by table the rows that are printed then."""
QUICK_RUNS = {
    "timeline messages callbacks --kinds mixed hook --hosts bare": {
        "Timeline of 1 MiB": ["wall", "spans"],
        "25 messages in a burst": [r"mixed, \d+ bytes +bare asyncio"],
        "2 questions": ["hook +bare asyncio"],
    }
}
RUNS_OF_A_CLI = {
    "connect instant pool --hosts claude_agent_py": {
        "Connect to": ["by hand", *(f"claude_agent_py, {how}" for how in ("warm", "cold", "from nothing"))],
        "From the prompt": ["the CLI alone", r"pool.query\(\), a spare", r"pool.query\(\), a parked spare", "a script"],
        "1 runs": ["cold", "pool"],
    }
}


def start(arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks", *arguments.split()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(QUICK_RUNS, id="a few"),
        pytest.param(RUNS, id="in memory", marks=pytest.mark.long),
        pytest.param(RUNS_OF_A_CLI, id="a CLI", marks=pytest.mark.long),
    ],
)
def test_the_benchmarks_run(runs: dict[str, dict[str, list[str]]], tmp_path: Path) -> None:
    """With a fake for the real CLI, which it takes some 15 processes of. The official SDK connects in no test."""
    cli = FakeCLI(*[steps.turn("Yes.")] * 3).install(tmp_path)
    for what, tables in runs.items():
        process = start(f"{what} {TINY} --cli {cli}")
        try:
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == 0, err
        assert ("comparison is left out" in out) is not HAS_OFFICIAL
        for title, rows in tables.items():
            found = re.findall(rf"(?ms)^{re.escape(title)}.*?(?=^\S[^\n]*\n\n|\Z)", out)
            assert len(found) == (2 if title == "Connect to" else 1), out
            for table in found:
                missing = [row for row in rows if not re.search(rf"(?m)^ *{row}{FIGURE}", table)]
                assert not missing, table


def test_an_unknown_benchmark_is_refused() -> None:
    process = start("speed")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "unknown: speed; there are imports, connect" in err


ALLOWED = {"subtype": "success", "request_id": "ask-1", "response": {"behavior": "allow"}}
WRONG = [
    {"subtype": "error", "request_id": "ask-1", "error": "no"},
    ALLOWED | {"request_id": "ask-2"},
    ALLOWED | {"response": {"behavior": "deny", "message": "no"}},
    ALLOWED | {"response": {"behavior": "allow", "updatedInput": {"command": "echo 2"}}},
]


@pytest.mark.parametrize(("answer", "is_right"), [(ALLOWED, True), *((wrong, False) for wrong in WRONG)])
def test_only_the_right_answer_counts(answer: dict[str, Any], is_right: bool, tmp_path: Path) -> None:
    (tmp_path / "initialize.json").write_text("{}", encoding="utf-8")
    initialize = {"type": "control_request", "request_id": "req-1", "request": {"subtype": "initialize"}}
    heard = [initialize, {"type": "user"}, {"type": "control_response", "response": answer}]
    done = subprocess.run(
        [sys.executable, "-I", "-S", asking_cli.__file__, str(tmp_path)],
        input="".join(json.dumps(frame) + "\n" for frame in heard),
        capture_output=True,
        text=True,
        env={"ASK": "permission", "ASKS": "1"},
        timeout=60,
    )
    assert (done.returncode == 0) is is_right
    assert ('"type": "result"' in done.stdout) is is_right


@pytest.mark.long
def test_the_benchmark_of_serving_runs_and_readers_lose_nothing() -> None:
    """The readers check that each got all events in order."""
    command = [sys.executable, "-m", "benchmarks.serving", "--sessions=2", "--readers=2", "--seconds=0.5"]
    done = subprocess.run(
        [*command, "--pause=0.05"], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    for host in ("bare Starlette", "claude_agent_py"):
        assert re.search(rf"(?m)^{host} +40 events, delay p50 \d+\.\d ms", done.stdout), done.stdout
