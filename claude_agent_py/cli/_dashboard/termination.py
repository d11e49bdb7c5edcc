"""End the process of a session and everything it started, from another process.

Only a process of the same user is ended, and only the shown one. The start time distinguishes it from a later process
with the same id. All functions block.
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
"""The time for a process to exit after SIGTERM. The CLI needs it to end its shells and to record the cost."""
_POLL_INTERVAL: Final = 0.05


class CannotStopError(ClaudeAgentError):
    """The process cannot be ended from here."""


def terminate_tree(process: ProcessID, grace: float = GRACE_SECONDS) -> bool:
    """Send SIGTERM to a process. After the grace period in seconds, kill it and its descendants.

    Returns:
        False if the process had already exited, otherwise True.

    Raises:
        CannotStopError: The process belongs to another user, or does not exit.
    """
    if not _is_running(process):
        return False
    if _get_owner(process.pid) != os.geteuid():
        raise CannotStopError(f"process {process.pid} belongs to another user")
    # Descendants of a process that has exited cannot be found any more.
    started = descendants(process.pid)
    if not _send_sigterm(process):
        return False
    if not _wait_for_exit(grace, process):
        started += descendants(process.pid)
    kill_each([process, *started])
    if not _wait_for_exit(grace, process):
        raise CannotStopError(f"process {process.pid} does not exit")
    return True


def _wait_for_exit(seconds: float, process: ProcessID) -> bool:
    deadline = time.monotonic() + seconds
    while _is_running(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_INTERVAL)
    return True


def _is_running(process: ProcessID) -> bool:
    found = process_table([process.pid]).get(process.pid)
    return found is not None and found[1] == process.started and not _is_zombie(process.pid)


def _is_zombie(pid: int) -> bool:
    """Return whether a process is a zombie: it has exited, and its parent has not reaped it. Linux only."""
    return contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"Z"]


def _send_sigterm(process: ProcessID) -> bool:
    """Send SIGTERM to a process. Return False if it has exited, even if another process has its id now."""
    descriptor = _open_pidfd(process.pid)
    try:
        if not _is_running(process):
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


def _open_pidfd(pid: int) -> int | None:
    """Return a descriptor that always refers to this process, even if its id is reused; None except on Linux."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        # The process has exited, or the kernel is too old.
        return None


def _get_owner(pid: int) -> int | None:
    """Return the id of the user that a process runs as, or None if it is unknown."""
    try:
        return os.stat(f"/proc/{pid}").st_uid if sys.platform == "linux" else _get_owner_from_ps(pid)
    except OSError:
        return None


def _get_owner_from_ps(pid: int) -> int | None:
    command = ["ps", "-p", str(pid), "-o", "uid="]
    try:
        return int(subprocess.run(command, capture_output=True, timeout=PS_TIMEOUT, check=True).stdout)
    except (ValueError, subprocess.SubprocessError):
        return None
