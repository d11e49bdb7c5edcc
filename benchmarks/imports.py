"""What importing costs, over starting an interpreter that imports nothing: wall time and resident memory.

The names that a program needs to start a session count, not only the package: namespaces load on first use here, so
`import claude_agent_py` alone says little.
"""

import time
from statistics import median
from typing import Final

from benchmarks.measuring import OFFICIAL, OURS, has_official, in_turns, over, python, ratio, show

BARE: Final = "pass"
PROGRAMS: Final = {
    "import anyio, pydantic": None,
    f"import {OURS}": OURS,
    f"from {OURS} import Client, ClientOptions": OURS,
    f"from {OURS} import Client, ClientOptions, query, AssistantMessage, ResultMessage": OURS,
    f"import {OFFICIAL}": OFFICIAL,
}
"""Programs, and whose they are."""

SAY_MEMORY: Final = "\nprint(int(open('/proc/self/statm').read().split()[1]) * 4096 / 1048576)"


def seconds(program: str) -> float:
    """Run a program in a fresh interpreter and give how long it took, start of the interpreter included."""
    begin = time.perf_counter()
    python("-c", program)
    return time.perf_counter() - begin


def resident_mib(program: str) -> float:
    """Give the resident memory of a fresh interpreter at the end of a program, in MiB."""
    return float(python("-c", program + SAY_MEMORY).stdout)


def run(rounds: int) -> None:
    """Measure and print."""
    programs = [BARE, *(p for p, owner in PROGRAMS.items() if owner != OFFICIAL or has_official())]
    times = in_turns({program: lambda program=program: seconds(program) for program in programs}, rounds)  # type: ignore[misc]
    cost = over(times, BARE)
    memory = {program: median(resident_mib(program) for _ in range(3)) for program in programs}
    official = f"import {OFFICIAL}"
    rows = [
        (program, cost[program] * 1000, ratio(cost[program], cost.get(official)), memory[program] - memory[BARE])
        for program in programs[1:]
    ]
    show(f"Import, over a bare interpreter ({rounds} rounds)", ("program", "ms", "ratio", "MiB"), rows)
