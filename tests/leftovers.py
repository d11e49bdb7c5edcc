"""Check that a test leaves no workers, processes or open pipes behind. Processes are checked on Linux only."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

PATIENCE = 60.0
"""Time limit for workers and processes to end, in seconds."""


LASTING: set[int] = set()
"""Processes that serve all tests."""


def workers() -> int:
    """Return the number of workers of the running event loop."""
    if "trio" in sys.modules:
        import trio

        if trio.lowlevel.in_trio_run():
            return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            return stat.read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
        except OSError:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def argument_zero(pid: int) -> str:
    """Return how a process is called in its command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""


def parent_of(pid: int) -> int | None:
    """Return the parent of a process, None if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def children() -> set[int]:
    """Return the child processes of this one, including zombies, but none that serves all tests."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        return set()
    found: set[int] = set()
    for task in tasks.iterdir():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            found.update(map(int, (task / "children").read_text().split()))
    return found - LASTING


def pipes() -> dict[str, str]:
    """Return the open pipes of this process, by descriptor."""
    folder = Path("/proc/self/fd")
    found = {}
    for entry in folder.iterdir() if folder.exists() else ():
        try:
            what = str(entry.readlink())
        except OSError:
            continue  # the descriptor that reads the folder
        if what.startswith("pipe:"):
            found[entry.name] = what
    return found


def processes_with(variable: str, argument: str = "") -> list[int]:
    """Return the processes that started with this variable (`NAME=value`), and with this in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if variable.encode() in variables.split(b"\0") and argument.encode() in words:
            found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def kill(*pids: int) -> None:
    """Kill processes; one that has ended by itself in the meantime is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def until_gone(*pids: int) -> None:
    """Wait until processes have ended. Raises TimeoutError."""
    with anyio.fail_after(PATIENCE):
        while any(is_alive(pid) for pid in pids):
            await anyio.sleep(0.01)


def gone(*pids: int) -> bool:
    """Wait for processes to end, without an event loop, and return whether they have."""
    deadline = time.monotonic() + PATIENCE
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


async def until_workers(count: int) -> None:
    """Wait until at most `count` workers are left. Raises TimeoutError."""
    with anyio.fail_after(PATIENCE):
        while workers() > count:
            await anyio.sleep(0.01)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Assert that the block leaves no worker, process or open pipe.

    On a busy machine a session may be over a moment after the time limit of its `close()`: leftovers have a while.
    """
    before = workers(), children(), pipes()
    yield
    for _ in range(3):
        await checkpoint()
    if not before[2].items() >= pipes().items():
        gc.collect()  # closes pipes that are part of a cycle
    with anyio.move_on_after(PATIENCE):
        while not (workers() <= before[0] and children() <= before[1] and pipes().items() <= before[2].items()):
            await anyio.sleep(0.01)
    assert workers() == before[0], "a worker is left"
    assert children() <= before[1], "a process is left"
    assert pipes().items() <= before[2].items(), "a pipe is left open"
