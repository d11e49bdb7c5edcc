"""Waiting for a process to exit, and killing it together with its descendants.

The shells that the CLI starts lead process groups of their own, so its descendants are looked up while their parents
are alive (in /proc on Linux, with `ps` on other POSIX systems). Orphans of a CLI that died are found by a mark in their
environment, on Linux only. On Windows only the process itself is killed.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import anyio
from anyio.abc import Process

LOOK_FIRST: Final = 0.1
LOOK_EVERY: Final = 1.0
"""How often to look whether a process is gone, in seconds, where its end may not be told; soon at first, then less."""

KILL_ROUNDS: Final = 20
KILL_PAUSE: Final = 0.01
"""How long a killed process takes to be gone, in seconds, or somewhat less."""

MARK: Final = "CLAUDE_AGENT_PY_PROCESS"
"""The variable that all that a CLI starts inherits; its value is another one for each CLI."""

PS_TIMEOUT: Final = 2.0
"""How long `ps` may take, in seconds; it takes some milliseconds."""

_PROC = Path("/proc")


async def wait_for_exit(process: Process) -> int:
    """Wait until a process has exited, but not its descendants, and return its exit status.

    Before anyio 4.16, asyncio tells the end of a process only once its pipes are closed, too, and what it started may
    hold them open: so the status is looked at now and then.
    """
    pause = LOOK_FIRST
    while process.returncode is None:
        with anyio.move_on_after(pause):
            await process.wait()
        pause = min(2 * pause, LOOK_EVERY)
    return process.returncode


@dataclass(frozen=True, slots=True)
class ProcessID:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: str
    """When it started: in the kernel's ticks on Linux, else a date with seconds."""


Table: TypeAlias = dict[int, tuple[int, str]]
"""Every process by its id: its parent, and when it started."""


def told_by_proc() -> Table:
    """Return the processes in /proc; empty if it is not mounted."""
    return {pid: stat for pid in _all_pids() if (stat := _stat(pid))}


def told_by_ps() -> Table:
    """Return the processes that `ps` lists; empty if it is missing."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    argv = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "lstart="]
    try:
        told = subprocess.run(argv, env=env, capture_output=True, timeout=PS_TIMEOUT, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [line.split(maxsplit=2) for line in told.decode(errors="replace").splitlines()]
    return {int(row[0]): (int(row[1]), row[2].strip()) for row in rows if len(row) == 3}


def _stat(pid: int) -> tuple[int, str] | None:
    """Return the parent of a process and its start time, or None if it has exited."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything, spaces included
    return int(fields[1]), fields[19]


process_table: Callable[[], Table] = {"linux": told_by_proc, "win32": Table}.get(sys.platform, told_by_ps)
"""Looks all processes up, in this system's way."""


def descendants(pid: int) -> list[ProcessID]:
    """Return all descendants of `pid`."""
    children: dict[int, list[ProcessID]] = {}
    for each, (parent, started) in process_table().items():
        children.setdefault(parent, []).append(ProcessID(each, started))
    found: list[ProcessID] = []
    queue = [pid]
    while queue:
        born = children.get(queue.pop(), [])
        found += born
        queue += [child.pid for child in born]
    return found


def bearing(mark: str) -> list[ProcessID]:
    """Return every process that inherited `MARK` with this value, orphans included. Empty except on Linux."""
    entry = f"{MARK}={mark}".encode()
    found: list[ProcessID] = []
    for each in _all_pids():
        try:
            has_mark = entry in (_PROC / str(each) / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or of another user
            continue
        if has_mark and (stat := _stat(each)):
            found.append(ProcessID(each, stat[1]))
    return found


async def kill_bearing(mark: str) -> None:
    """Kill every process that inherited `MARK` with this value, those included that they start meanwhile."""
    for _ in range(KILL_ROUNDS):
        found = bearing(mark)
        if not found:
            return
        kill_each(found)
        await anyio.sleep(KILL_PAUSE)


def _all_pids() -> list[int]:
    if not sys.platform.startswith("linux"):
        return []
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:  # a container may do without
        return []


def kill_each(processes: list[ProcessID]) -> None:
    """Kill those of the processes that still run."""
    running = process_table() if processes else {}
    for process in processes:
        if process.pid in running and running[process.pid][1] == process.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def signal_group(pid: int, *, force: bool) -> None:
    """Ask the process group that `pid` leads to end, or end it by force. On Windows: the process alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)  # TerminateProcess: Windows knows no gentle way here
        else:
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)
