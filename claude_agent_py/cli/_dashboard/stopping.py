"""End the process of a session with all that it started, from another process.

Only a process of the same user is ended, and only the one that was shown: a later process with the same id is told
apart by its start. All calls block.
"""

import os
import signal
import subprocess
import sys
import time
from typing import Final

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._proc import contents
from claude_agent_py.transport.processes import PS_TIMEOUT, ProcessID, descendants, kill_each, process_table

GRACE_SECONDS: Final = 5.0
"""How long a process may take to end by itself: the CLI ends its shells, and notes the cost."""
_LOOK_EVERY: Final = 0.05


class CannotStopError(ClaudeAgentError):
    """The process is not to be ended from here."""


def end_tree(process: ProcessID, grace: float = GRACE_SECONDS) -> bool:
    """End a process: ask it to, and kill what is left of it and its descendants after the grace, in seconds.

    Returns:
        Whether it ran; False if it had ended before.

    Raises:
        CannotStopError: It belongs to another user, or does not end.
    """
    if not _runs(process):
        return False
    if _owner(process.pid) != os.geteuid():
        raise CannotStopError(f"process {process.pid} belongs to another user")
    below = descendants(process.pid)
    if not _ask(process):
        return False
    if not _ends_within(grace, process):
        below += descendants(process.pid)
    kill_each([process, *below])
    if not _ends_within(grace, process):
        raise CannotStopError(f"process {process.pid} does not end")
    return True


def _ends_within(seconds: float, process: ProcessID) -> bool:
    deadline = time.monotonic() + seconds
    while _runs(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY)
    return True


def _runs(process: ProcessID) -> bool:
    found = process_table([process.pid]).get(process.pid)
    return found is not None and found[1] == process.started and not _is_dead(process.pid)


def _is_dead(pid: int) -> bool:
    """Return whether a process has ended and only waits for its parent to notice (Linux)."""
    return contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"Z"]


def _ask(process: ProcessID) -> bool:
    """Ask a process to end. Return False if it has ended meanwhile, whatever has its id now."""
    descriptor = _opened(process.pid)
    try:
        if not _runs(process):
            return False
        if descriptor is None:
            os.kill(process.pid, signal.SIGTERM)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise CannotStopError(f"process {process.pid} belongs to another user") from None
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def _opened(pid: int) -> int | None:
    """Return a descriptor of a process, which stays with it however its id is used later. Linux only."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # it has ended, or the kernel is too old
        return None


def _owner(pid: int) -> int | None:
    """Return the user that a process runs as, or None if that is unknown."""
    try:
        return os.stat(f"/proc/{pid}").st_uid if sys.platform == "linux" else _owner_by_ps(pid)
    except OSError:
        return None


def _owner_by_ps(pid: int) -> int | None:
    command = ["ps", "-p", str(pid), "-o", "uid="]
    try:
        return int(subprocess.run(command, capture_output=True, timeout=PS_TIMEOUT, check=True).stdout)
    except (ValueError, subprocess.SubprocessError):
        return None
