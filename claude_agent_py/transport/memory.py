"""The memory of process trees, if the system reports it."""

import os
import sys
from collections.abc import Callable, Collection

from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.proc import contents
from claude_agent_py.transport.processes import descendants, run_ps


def can_measure() -> bool:
    """Return whether the system reports the memory of processes: Linux with /proc, others with `ps`; not Windows."""
    return sys.platform != "win32" and (sys.platform != "linux" or os.path.exists("/proc/self/statm"))


async def tree_memory(pids: Collection[int]) -> dict[int, int]:
    """Return the resident memory, in bytes, of each of these processes with its descendants; 0 once it has exited.

    Shared pages count for each process, so the sum is an upper bound. A process that left its tree (a daemon) is not
    counted. Measured in a thread, in about a millisecond per tree.
    """
    return await run_file_work(_measure, tuple(pids), abandon_on_cancel=True)


def _in_proc(pids: Collection[int]) -> dict[int, int]:
    """Return the memory of each process, from /proc."""
    page = os.sysconf("SC_PAGE_SIZE")
    fields = {pid: contents(f"/proc/{pid}/statm").split() for pid in pids}
    return {pid: int(found[1]) * page for pid, found in fields.items() if len(found) > 1}


def _in_ps(pids: Collection[int]) -> dict[int, int]:
    """Return the memory of each process, from `ps`, which counts in KiB."""
    return {pid: int(kib) * 1024 for pid, (kib,) in run_ps(pids, "rss").items()}


_resident: Callable[[Collection[int]], dict[int, int]] = _in_proc if sys.platform == "linux" else _in_ps


def _measure(pids: Collection[int]) -> dict[int, int]:
    trees = {pid: [pid, *(process.pid for process in descendants(pid))] for pid in pids}
    every = {pid for tree in trees.values() for pid in tree}
    resident = _resident(every) if every and can_measure() else {}
    return {root: sum(resident.get(pid, 0) for pid in tree) for root, tree in trees.items()}
