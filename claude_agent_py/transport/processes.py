"""Ending a process together with everything that it started.

The CLI gets a process group of its own, but the shells that it starts lead groups of their own, so that the group
alone is not enough: on Linux the descendants are read from /proc while their parents still live. Elsewhere the group
has to do (macOS), or the process alone (Windows).
"""

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessID:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: str
    """When it started, in the kernel's ticks."""


def _stat(pid: int) -> tuple[int, str] | None:
    """Give the parent of a process and when it started; None where it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything, spaces included
    return int(fields[1]), fields[19]


def descendants(pid: int) -> list[ProcessID]:
    """Give every process that `pid` started, directly or not. Empty where there is no /proc."""
    if not sys.platform.startswith("linux"):
        return []
    children: dict[int, list[ProcessID]] = {}
    for name in os.listdir(_PROC):
        if name.isdigit() and (stat := _stat(int(name))):
            children.setdefault(stat[0], []).append(ProcessID(int(name), stat[1]))
    found: list[ProcessID] = []
    queue = [pid]
    while queue:
        born = children.get(queue.pop(), [])
        found += born
        queue += [child.pid for child in born]
    return found


def kill_each(processes: list[ProcessID]) -> None:
    """Kill those of the processes that still run."""
    for process in processes:
        stat = _stat(process.pid)
        if stat is not None and stat[1] == process.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def signal_group(pid: int, *, force: bool) -> None:
    """Ask the process group that `pid` leads to end, or end it by force. On Windows: the process alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)  # TerminateProcess: Windows knows no gentle way here
        else:
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)
