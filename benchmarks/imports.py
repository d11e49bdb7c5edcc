"""The cost of importing, beyond starting an interpreter that imports nothing: wall time, CPU time and resident memory.

The programs import the names needed to start a session, because `import claude_agent_py` alone loads little: its names
load on first use, and the first `ClientOptions()` loads more. On a busy machine, CPU time is the most reliable figure.
"""

import resource
import time
from functools import partial
from statistics import median
from typing import Final

from benchmarks.measuring import OFFICIAL, OURS, Samples, has_official, in_turns, over, python, ratio, show

BARE: Final = "pass"
PROGRAMS: Final = {
    "import anyio, pydantic": None,
    f"import {OURS}": OURS,
    f"from {OURS} import Client, ClientOptions": OURS,
    f"from {OURS} import Client, ClientOptions; ClientOptions()": OURS,
    f"from {OURS} import Client, ClientOptions, query, AssistantMessage, ResultMessage": OURS,
    f"import {OFFICIAL}": OFFICIAL,
}
"""The programs, by SDK."""

SAY_MEMORY: Final = "\nprint(int(open('/proc/self/statm').read().split()[1]) * 4096 / 1048576)"


def cpu_seconds(program: str, wall: Samples, memory: Samples) -> float:
    """Run a program in a fresh interpreter and return its CPU time; store its duration and its memory at the end."""
    used, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = python("-c", program + SAY_MEMORY)
    wall.setdefault(program, []).append(time.perf_counter() - begin)
    memory.setdefault(program, []).append(float(done.stdout))
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def run(rounds: int) -> None:
    """Measure and print."""
    programs = [BARE, *(p for p, owner in PROGRAMS.items() if owner != OFFICIAL or has_official())]
    wall: Samples = {}
    memory: Samples = {}
    cpu = in_turns({program: partial(cpu_seconds, program, wall, memory) for program in programs}, rounds)
    walls = over({program: samples[-rounds:] for program, samples in wall.items()}, BARE)
    cost = over(cpu, BARE)
    resident = {program: median(samples) for program, samples in memory.items()}
    official = f"import {OFFICIAL}"
    rows = [
        (
            program,
            walls[program] * 1000,
            cost[program] * 1000,
            ratio(walls[program], walls.get(official)),
            ratio(cost[program], cost.get(official)),
            resident[program] - resident[BARE],
        )
        for program in programs[1:]
    ]
    columns = ("program", "ms", "ms CPU", "ratio", "ratio of CPU", "MiB")
    show(f"Import, over a bare interpreter ({rounds} rounds)", columns, rows)
