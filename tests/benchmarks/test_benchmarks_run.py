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

ROOT = Path(__file__).parent.parent.parent
HAS_OFFICIAL = importlib.util.find_spec("claude_agent_sdk") is not None
HOSTS = ["claude_agent_py", "bare asyncio", *(["claude_agent_sdk"] if HAS_OFFICIAL else [])]

FIGURE = r".* \d+\.\d"
RUNS = {
    "imports": [rf"import anyio, pydantic{FIGURE}", rf"from claude_agent_py import Client, ClientOptions{FIGURE}"],
    "instant": [rf"{who}{FIGURE}" for who in ("by hand", "py, warm", "py, cold", "py, from nothing")],
    "messages callbacks sessions --kinds mixed hook --hosts bare --sessions 2": [
        "mixed, ",
        "hook ",
        "Sessions at once",
    ],
    "messages callbacks sessions engine tasks --kinds mixed --sessions 2 --in-process": [
        *(rf"mixed, \d+ bytes +{host}{FIGURE}" for host in HOSTS),
        *(rf"{kind} +{host}{FIGURE}" for kind in ("hook", "permission", "tool") for host in HOSTS),
        *(rf"2 +{host}{FIGURE}" for host in HOSTS),
        r"live_ids\(\): ",
        "json.loads",
    ],
    "paced busy memory unread --kinds mixed --hosts client.query --in-process": [
        "25 messages one every 1 ms",
        "25 messages in a burst, beside a worker",
        "25 messages read as they come",
        "25 messages read when all that come have come",
    ],
    "traced timeline --kinds mixed --transcript-mib=1": [rf"mixed{FIGURE}", rf"wall{FIGURE}", rf"spans{FIGURE}"],
    "stored --stored=3 --transcript-mib=1": [
        "Listing 3 sessions of 100 KB",
        "Reading a transcript of 1 MiB",
        rf"claude_agent_py{FIGURE}",
    ],
}
"""What to run, and what is printed then."""


def start(arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks", *arguments.split()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def printed_by(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_the_benchmarks_run() -> None:
    running = {what: start(f"{what} --rounds=1 --messages=25 --tasks=200 --asks=2") for what in RUNS}
    try:
        printed = {what: printed_by(process) for what, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    missing = [(what, line) for what, lines in RUNS.items() for line in lines if not re.search(line, printed[what])]
    assert not missing, printed
    assert all(("comparison is left out" in text) is not HAS_OFFICIAL for text in printed.values())


@pytest.mark.real_cli
def test_connecting_to_the_real_program_is_measured() -> None:
    assert re.search(rf"by hand{FIGURE}", printed_by(start("connect --rounds=1 --hosts claude_agent_py")))


@pytest.mark.real_cli
def test_the_pool_is_measured() -> None:
    printed = printed_by(start("pool --rounds=1 --runs=1"))
    for way in ("the CLI alone", r"pool.query\(\), a spare", r"pool.query\(\), a parked spare", "a script", "pool"):
        assert re.search(rf"{way}{FIGURE}", printed), printed


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
