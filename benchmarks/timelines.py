"""The timeline of a large transcript: from the start of a fresh process to the saved page.

Time counts from the process's start, with the imports. Peak memory is all that the process has.
"""

import json
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median

from benchmarks.measuring import host_worker, memory_mib, show
from benchmarks.stored_sessions import write


def work(session_id: str, config_dir: str) -> dict[str, float]:
    """Draw a timeline, and return what it took."""
    wall = time.perf_counter()
    from claude_agent_py.observe import Timeline
    from claude_agent_py.sessions import get_session

    timeline = Timeline.from_session(get_session(session_id, config_dir=config_dir))
    page = Path(config_dir, "session.html")
    timeline.save(page)
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time(),
        "peak": memory_mib("VmHWM"),
        "spans": timeline.summary.count,
        "kept": len(timeline.spans),
        "page": page.stat().st_size / 2**20,
    }


def run(transcript_mib: int, rounds: int, *, is_fresh: bool) -> None:
    """Measure and print."""
    rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory(prefix="claude-agent-py-bench-") as config:
        session_id = str(uuid.UUID(int=1, version=4))
        path = Path(config, "projects", "-work", f"{session_id}.jsonl")
        path.parent.mkdir(parents=True)
        write(path, transcript_mib * 2**20, random.Random(2))
        samples = [host_worker("timelines", session_id, config, env={}, is_fresh=is_fresh) for _ in range(rounds)]
    for field in ("wall", "cpu", "peak", "spans", "kept", "page"):
        values = [float(sample[field]) for sample in samples]
        rows.append((field, median(values), max(values)))
    show(f"Timeline of {transcript_mib} MiB, seconds and MiB ({rounds} rounds)", ("what", "median", "most"), rows)


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))
