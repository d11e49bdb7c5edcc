"""The end of a process: noticing it, and bringing it about together with everything that the process started.

The CLI gets a process group of its own, but the shells that it starts lead groups of their own, so that the group
alone is not enough: on Linux the descendants are read from /proc while their parents still live, and those of a CLI
that died are known by a mark in their environment. Elsewhere the group has to do (macOS), or the process alone
(Windows).
"""

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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

_PROC = Path("/proc")


async def wait_for_exit(process: Process) -> int:
    """Wait until a process is gone, whatever it started; give its exit status.

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
    children: dict[int, list[ProcessID]] = {}
    for each in _all_pids():
        if stat := _stat(each):
            children.setdefault(stat[0], []).append(ProcessID(each, stat[1]))
    found: list[ProcessID] = []
    queue = [pid]
    while queue:
        born = children.get(queue.pop(), [])
        found += born
        queue += [child.pid for child in born]
    return found


def bearing(mark: str) -> list[ProcessID]:
    """Give every process that inherited `MARK` with this value, orphans included. Empty where there is no /proc."""
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
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


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
