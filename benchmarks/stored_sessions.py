"""Sessions on disk: listing a folder of them, first and again, and reading a large transcript.

Nobody else runs: neither SDK starts a process. Peak memory is what a process has at most, over what it has after
importing the SDK. The files are in the file system's cache, because they were just written.
"""

import importlib
import itertools
import json
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.measuring import OFFICIAL, OURS, host_worker, in_turns, memory_mib, ratio, show

SESSION_BYTES: Final = 100_000
"""The size of a listed session."""
ANSWER_CHARS: Final = 400
RESULT_CHARS: Final = (500, 3_000, 12_000)


def conversation(session_id: str, chance: random.Random) -> Iterator[bytes]:
    """Yield the lines of a session that never ends: prompts, each with three answers, calls and results."""
    parent: str | None = None
    for turn in itertools.count(1):
        entries: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("user", {"role": "user", "content": f"prompt {turn}: {text(300, chance)}"}, {})
        ]
        for step in range(3):
            answer, call = f"msg_{turn}_{step}", f"toolu_{turn}_{step}"
            result = text(chance.choice(RESULT_CHARS), chance)
            said = {"type": "text", "text": text(ANSWER_CHARS, chance)}
            called = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": text(200, chance)}}
            returned = {"type": "tool_result", "tool_use_id": call, "content": result, "is_error": False}
            entries += [
                ("assistant", message(answer, said), {}),
                ("assistant", message(answer, called), {}),
                ("user", {"role": "user", "content": [returned]}, {"toolUseResult": {"stdout": result, "stderr": ""}}),
            ]
        for kind, content, more in entries:
            own = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            entry = {"parentUuid": parent, "isSidechain": False, "type": kind, "message": content, **more, "uuid": own}
            place = {"timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/work", "sessionId": session_id}
            yield line({**entry, **place, "version": "2.1.328", "gitBranch": "main"})
            parent = own


def message(answer: str, block: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {"id": answer, "role": "assistant", "model": "claude", "content": [block], "usage": usage}


WORDS: Final = [f'def part_{number}(x):\n    return "value {number}" + x\n' for number in range(200)]


def text(chars: int, chance: random.Random) -> str:
    """Return program text, which JSON has to escape."""
    return "".join(chance.choices(WORDS, k=max(1, chars // len(WORDS[0]))))


def line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def write(path: Path, size: int, chance: random.Random) -> None:
    """Write a transcript of a size."""
    written = 0
    with path.open("wb") as file:
        for entry in conversation(path.stem, chance):
            written += file.write(entry)
            if written >= size:
                break
        file.write(line({"type": "last-prompt", "lastPrompt": "the last", "sessionId": path.stem}))


def write_many(folder: Path, count: int) -> None:
    """Write sessions that differ in their ids only."""
    chance = random.Random(1)
    first = folder / f"{uuid.UUID(int=1, version=4)}.jsonl"
    write(first, SESSION_BYTES, chance)
    content = first.read_bytes()
    for number in range(2, count + 1):
        other = str(uuid.UUID(int=number, version=4))
        (folder / f"{other}.jsonl").write_bytes(content.replace(first.stem.encode(), other.encode()))


# Hosts -----------------------------------------------------------------------------------------------------------


def list_ours() -> int:
    from claude_agent_py.sessions import list_sessions

    return len(list_sessions())


def read_ours(session_id: str) -> int:
    from claude_agent_py.sessions import get_session

    return sum(1 for _ in get_session(session_id).messages)


def list_official() -> int:
    from claude_agent_sdk import list_sessions

    return len(list_sessions())


def read_official(session_id: str) -> int:
    from claude_agent_sdk import get_session_messages

    return sum(1 for _ in get_session_messages(session_id))


LIST: Final[dict[str, Callable[[], int]]] = {OURS: list_ours, OFFICIAL: list_official}
READ: Final[dict[str, Callable[[str], int]]] = {OURS: read_ours, OFFICIAL: read_official}


def work(host: str, session_id: str = "") -> dict[str, float]:
    """List or read, twice, and return what it took."""
    importlib.import_module(f"{OURS}.sessions.stored_session" if host == OURS else OFFICIAL)
    before = memory_mib()
    found: dict[str, float] = {}
    for name in ("first", "again"):
        wall, cpu = time.perf_counter(), time.process_time()
        found["count"] = READ[host](session_id) if session_id else LIST[host]()
        found[name], found[f"{name}_cpu"] = time.perf_counter() - wall, time.process_time() - cpu
        found.setdefault("peak", memory_mib("VmHWM") - before)
    return found


def run(hosts: Sequence[str], sessions: int, transcript_mib: int, rounds: int, *, is_fresh: bool) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="claude-agent-py-bench-") as name:
        listed, read = Path(name, "listed"), Path(name, "read")
        for config in (listed, read):
            (config / "projects" / "-work").mkdir(parents=True)
        write_many(listed / "projects" / "-work", sessions)
        one = str(uuid.UUID(int=1, version=4))
        write(read / "projects" / "-work" / f"{one}.jsonl", transcript_mib * 1024 * 1024, random.Random(2))
        title = f"Listing {sessions} sessions of {SESSION_BYTES // 1000} KB ({rounds} rounds)"
        _measure(title, hosts, listed, "", rounds, is_fresh)
        title = f"Reading a transcript of {transcript_mib} MiB ({rounds} rounds)"
        _measure(title, hosts, read, one, rounds, is_fresh)


FIELDS: Final = (
    ("s", "first"),
    ("s CPU", "first_cpu"),
    ("again: s", "again"),
    ("s CPU", "again_cpu"),
    ("MiB at most", "peak"),
)
"""The columns."""


def _measure(title: str, hosts: Sequence[str], config: Path, session_id: str, rounds: int, is_fresh: bool) -> None:
    env = {"CLAUDE_CONFIG_DIR": os.fspath(config)}
    measure = partial(host_worker, "stored_sessions", env=env, is_fresh=is_fresh)
    measurements = {host: partial(measure, host, *filter(None, [session_id])) for host in hosts}
    found = in_turns(measurements, rounds, warms_up=False)
    counts = {sample["count"] for samples in found.values() for sample in samples}
    assert len(counts) == 1, f"the hosts found different numbers: {counts}"
    costs = {
        host: [median(sample[field] for sample in samples) for _, field in FIELDS] for host, samples in found.items()
    }
    to = costs.get(OFFICIAL, [None] * len(FIELDS))
    rows = [(host, *(f"{value:.3f}" for value in cost), " ".join(map(ratio, cost, to))) for host, cost in costs.items()]
    show(title, ("host", *(name for name, _ in FIELDS), "ratios"), rows)


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))
