"""Kills programs that still run when the interpreter exits, because their event loop was abandoned. POSIX only."""

import atexit
import contextlib
import os
import sys
from typing import Final

from claude_agent_py._base.streams import wait_until
from claude_agent_py.transport.processes import descendants, kill_each, kill_marked, programs, signal_group

GRACE: Final = 2.0
"""How long the programs may take after SIGTERM, together, in seconds; then they are killed."""

PAUSE: Final = 0.01
"""Seconds between two checks whether they are gone."""


def end_at_exit(pid: int, mark: str) -> None:
    """Register a program, which then does not outlive the interpreter."""
    if sys.platform != "win32":
        programs[pid] = os.getpid(), mark


def forget(pid: int) -> None:
    """Unregister a program."""
    programs.pop(pid, None)


@atexit.register
def _end_all() -> None:
    ours = {pid: mark for pid, (owner, mark) in programs.items() if owner == os.getpid()}
    live = [pid for pid in ours if _is_running(pid)]
    below = [process for pid in live for process in descendants(pid)]
    for pid in live:
        signal_group(pid, force=False)
    wait_until(lambda: not any(map(_is_running, live)), GRACE, PAUSE)
    live = [pid for pid in live if _is_running(pid)]
    for pid in live:
        signal_group(pid, force=True)
    kill_each(below)
    if ours:
        kill_marked(set(ours.values()))
    for pid in live:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _is_running(pid: int) -> bool:
    """Return whether a child process is running. Its pid cannot be reused until it is reaped."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:  # reaped elsewhere
        return False
