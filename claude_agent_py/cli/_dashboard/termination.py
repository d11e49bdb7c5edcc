"""End the process of a session and everything it started, from another process.

Only a process of the same user is ended, and only the shown one. The start time distinguishes it from a later process
with the same id. All functions block.
"""

import os
import signal
from typing import Final

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._base.proc import contents
from claude_agent_py._base.streams import wait_until
from claude_agent_py.transport.processes import ProcessID, descendants, in_proc, kill_each, process_table, run_ps

GRACE_SECONDS: Final = 5.0
"""The time for a process to exit after SIGTERM. The CLI needs it to end its shells and to record the cost."""
_POLL_INTERVAL: Final = 0.05


def terminate_tree(process: ProcessID, grace: float = GRACE_SECONDS) -> bool:
    """Send SIGTERM to a process. After the grace period in seconds, kill it and its descendants.

    Returns:
        False if the process had already exited, otherwise True.

    Raises:
        ClaudeAgentError: The process belongs to another user, or does not exit.
    """
    # Descendants of a process that has exited cannot be found any more.
    started = descendants(process.pid)
    owner = _get_owner(process.pid)
    # Checked last, so that no later process with the same id gets the signal.
    if not _is_running(process):
        return False
    if owner != os.geteuid():
        raise ClaudeAgentError(f"process {process.pid} belongs to another user")
    try:
        os.kill(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise ClaudeAgentError(f"process {process.pid} may not be ended from here: {error.strerror}") from None
    if not _wait_for_exit(grace, process):
        started += descendants(process.pid)
    kill_each([process, *started])
    if not _wait_for_exit(grace, process):
        raise ClaudeAgentError(f"process {process.pid} does not exit")
    return True


def _wait_for_exit(seconds: float, process: ProcessID) -> bool:
    return wait_until(lambda: not _is_running(process), seconds, _POLL_INTERVAL)


def _is_running(process: ProcessID) -> bool:
    found = process_table([process.pid]).get(process.pid)
    return found is not None and found[1] == process.started and not _is_zombie(process.pid)


def _is_zombie(pid: int) -> bool:
    """Return whether a process is a zombie: it has exited, and its parent has not reaped it. Linux only."""
    return contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] == [b"Z"]


def _get_owner(pid: int) -> int | None:
    """Return the id of the user that a process runs as, or None if it is unknown."""
    try:
        if process_table is in_proc:
            return os.stat(f"/proc/{pid}").st_uid
        return int(run_ps([pid], "uid")[pid][0])
    except (OSError, KeyError, ValueError):  # it has exited
        return None
