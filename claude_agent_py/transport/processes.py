"""Killing a process together with its descendants.

Each shell that the CLI starts leads its own process group, so the descendants are looked up while their parents
are alive (in /proc on Linux, with `ps` on other POSIX systems). Orphans of a CLI that died are found by a mark in their
environment, on Linux only. On Windows only the process itself is killed.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import anyio

from claude_agent_py._base.coalescing import SharedCall
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.private_files import find_account
from claude_agent_py._base.proc import contents, parent_and_start

GATHER: Final = 0.01
"""Seconds that a scan waits for other sessions that are closing, to share it with them."""

MARK: Final = "CLAUDE_AGENT_PY_PROCESS"
"""An environment variable that all descendants of a CLI inherit. Its value is unique to the CLI."""

LOOKS: Final = 20
"""How often a scan looks for processes that have started meanwhile."""

START_PAUSE: Final = 0.005
"""Seconds before the next look if a process is just starting its program."""

PS_TIMEOUT: Final = 2.0
"""Time limit of `ps` in seconds; it takes a few milliseconds."""


_MAKE: Final = 'umask 077; mkdir -p -- "$1" && [ -w "$1" ] && [ -x "$1" ]'
NOT_WRITABLE: Final = "its user cannot write to it"


def find_groups(user: str | int | None) -> dict[str, Any]:
    """Return the groups for a program that runs as another user. It would otherwise keep the groups of this process."""
    account = find_account(user)
    if account is None:  # an unknown name is refused with the options
        return {"group": user, "extra_groups": []} if isinstance(user, int) and sys.platform != "win32" else {}
    if account.pw_uid == os.geteuid():
        return {}
    return {"group": account.pw_gid, "extra_groups": os.getgrouplist(account.pw_name, account.pw_gid)}


def make_folder_as(user: str | int | None, folder: Path, *, cwd: Path = Path("/")) -> str | None:
    """Make a folder as another user, with its parents. Return why that user cannot make or use it, or None. Blocks.

    `cwd`, to which the folder may be relative, is entered as this user.
    """
    tried = subprocess.run(
        ["/bin/sh", "-c", _MAKE, "sh", str(folder)],
        cwd=cwd,
        env={},
        user=user,
        **find_groups(user),
        capture_output=True,
        text=True,
        check=False,
    )
    return (tried.stderr.strip() or NOT_WRITABLE) if tried.returncode else None


class ProcessID(NamedTuple):
    """A process id with the start time, which distinguishes it from a later process with the same id."""

    pid: int
    started: str
    """When it started: in kernel ticks on Linux, otherwise a date with seconds."""


Table: TypeAlias = dict[int, tuple[int, str]]
"""Every process by its id: its parent, and when it started."""


def in_proc(pids: Collection[int] | None = None) -> Table:
    """Look up these processes, or all, in /proc. Empty if it is not mounted."""
    if pids is None:
        pids = [pid for pid, _ in _folders()]
    return {pid: stat for pid in pids if (stat := parent_and_start(pid)) is not None}


def in_ps(pids: Collection[int] | None = None) -> Table:
    """Look up these processes, or all, with `ps`. Empty if it is missing."""
    return {pid: (int(row[0]), row[1].strip()) for pid, row in run_ps(pids, "ppid", "lstart").items()}


def run_ps(pids: Collection[int] | None, *columns: str) -> dict[int, list[str]]:
    """Return the columns that `ps` shows of these processes, or of all; only the last one may have spaces."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    which = ["-A"] if pids is None else ["-p", ",".join(map(str, pids))]
    argv = ["ps", *which, *(part for name in ("pid", *columns) for part in ("-o", f"{name}="))]
    try:
        output = subprocess.run(argv, env=env, capture_output=True, timeout=PS_TIMEOUT, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [line.split(maxsplit=len(columns)) for line in output.decode(errors="replace").splitlines()]
    return {int(row[0]): row[1:] for row in rows if len(row) == len(columns) + 1}


def _unknown(pids: Collection[int] | None = None) -> Table:  # pragma: no cover - on Windows
    return {}


process_table: Callable[[Collection[int] | None], Table] = {"linux": in_proc, "win32": _unknown}.get(
    sys.platform, in_ps
)
"""Looks up the processes with these ids, or all, as this system allows."""


def tells_children() -> bool:
    """Return whether the kernel lists the children of each process (CONFIG_PROC_CHILDREN)."""
    return process_table is in_proc and _has_lists_of_children()


@cache
def _has_lists_of_children() -> bool:
    return os.path.exists("/proc/thread-self/children")


def descendants(pid: int) -> list[ProcessID]:
    """Return every process that `pid` started, directly or not."""
    children = _children if tells_children() else _children_in(process_table(None))
    found: list[ProcessID] = []
    queue = [pid]
    while queue:
        born = children(queue.pop())
        found += born
        queue += [child.pid for child in born]
    return found


def _children_in(table: Table) -> Callable[[int], list[ProcessID]]:
    children: dict[int, list[ProcessID]] = {}
    for pid, (parent, started) in table.items():
        children.setdefault(parent, []).append(ProcessID(pid, started))
    return lambda parent: children.get(parent, [])


def _children(parent: int) -> list[ProcessID]:
    """Return the children of all threads of a process, as the kernel lists them."""
    born: list[ProcessID] = []
    with contextlib.suppress(OSError):  # it has exited
        for thread in os.listdir(f"/proc/{parent}/task"):
            for child in map(int, contents(f"/proc/{parent}/task/{thread}/children").split()):
                stat = parent_and_start(child)
                if stat and stat[0] == parent:  # otherwise the id has been reused
                    born.append(ProcessID(child, stat[1]))
    return born


def kill_each(processes: Collection[ProcessID]) -> None:
    """Kill these processes if they are still running."""
    running = process_table([process.pid for process in processes]) if processes else {}
    for process in processes:
        if process.pid in running and running[process.pid][1] == process.started:
            _kill(process.pid)


async def find_descendants(pid: int, within: float) -> list[ProcessID]:
    """Call `descendants`, in a thread if it is slow. Return an empty list if it takes longer than `within` seconds."""
    if tells_children():
        return descendants(pid)
    with anyio.move_on_after(within):
        return await run_file_work(descendants, pid, abandon_on_cancel=True)
    return []


async def kill_found(processes: Collection[ProcessID]) -> None:
    """Call `kill_each`; in a thread where there is no /proc, because listing processes is slow there."""
    if process_table is in_proc:
        kill_each(processes)
    else:
        await run_file_work(kill_each, processes, abandon_on_cancel=True)


def kill_marked(marks: Collection[str]) -> set[str]:
    """Kill every process that inherited `MARK` with one of these values, orphans included; return the values found.

    Call it again for processes that the killed ones started. Linux only; elsewhere it does nothing.
    """
    global _marks
    found: set[str] = set()
    known = {process: mark for process, mark in _marks.items() if mark not in marks}
    running: set[_Folder] = set()
    for _ in range(LOOKS):  # a process may fork and exit faster than one look takes
        before, running = running, set(_folders() if process_table is in_proc else ())
        if not (unread := running - before - known.keys()):
            break
        starting: set[_Folder] = set()
        for process in unread:
            mark = _read_mark(process[0])
            if mark is not None:
                known[process] = mark
                if mark in marks:
                    found.add(mark)
                    _kill(process[0])
            elif not contents(f"/proc/{process[0]}/cmdline"):  # otherwise it belongs to another user
                memory = contents(f"/proc/{process[0]}/statm")
                if memory.startswith(b"0 "):  # a kernel thread or a zombie
                    known[process] = ""
                elif memory:  # its program is just starting
                    starting.add(process)
        if starting:
            running -= starting  # the next look reads them again
            time.sleep(START_PAUSE)
    _marks = {process: known[process] for process in running & known.keys()}
    return found


_Folder: TypeAlias = tuple[int, int]
"""A process: its id and the inode of its folder in /proc, which a later process with the same id does not share."""

_marks: dict[_Folder, str] = {}
"""The marks read by the last scan: reading an environment costs more than the rest of a scan."""


programs: Final[dict[int, tuple[int, str]]] = {}
"""The running programs by process id: the process that started it, which a fork is not, and its mark."""

_killed: Final[set[_Folder]] = set()
"""The other processes that were killed, until they are gone."""


def reap_killed() -> None:
    """Reap killed processes whose parent is now this one: in a container without an init, orphans fall to it.

    Call it again for those that have not ended yet.
    """
    for pid, inode in tuple(_killed):
        try:
            is_gone = os.stat(f"/proc/{pid}").st_ino != inode or os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # its parent is another one
            continue
        except FileNotFoundError:
            is_gone = True
        if is_gone:
            _killed.discard((pid, inode))


def _folders() -> list[_Folder]:
    """Return the id and the inode of the folder in /proc of every process."""
    try:
        with os.scandir("/proc") as entries:
            return [(int(entry.name), entry.inode()) for entry in entries if entry.name.isdigit()]
    except OSError:  # some containers lack it
        return []


_MARK_ENTRY: Final = f"{MARK}=".encode()


def _read_mark(pid: int) -> str | None:
    """Return the value of `MARK` in the initial environment of a process; empty if it has none.

    None if the environment is empty or cannot be read.
    """
    environ = contents(f"/proc/{pid}/environ")
    if not environ:
        return None
    at = environ.find(_MARK_ENTRY)
    while at > 0 and environ[at - 1]:  # part of another name or of a value
        at = environ.find(_MARK_ENTRY, at + 1)
    return os.fsdecode(environ[at + len(_MARK_ENTRY) :].partition(b"\0")[0]) if at >= 0 else ""


exiting: Final[set[str]] = set()
"""The marks of programs that were asked to exit, whose sessions will call `kill_all_marked`."""


def _kill_those_of(marks: list[str]) -> list[bool]:
    """Call `kill_marked`, and return for each mark whether it was found."""
    found = kill_marked(set(marks))
    return [mark in found for mark in marks]


_scan: Final = SharedCall(_kill_those_of, gather=lambda: GATHER if exiting else 0.0)


async def kill_all_marked(mark: str, within: float = math.inf) -> None:
    """Kill every process that inherited `MARK` with this value, until there are none. Only on Linux.

    Concurrent closes share a scan. One that takes longer than `within` seconds is given up, for all of them.
    """
    exiting.discard(mark)
    if process_table is not in_proc:
        return
    while await _scan(mark, within):
        continue


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError, FileNotFoundError):
        os.kill(pid, signal.SIGKILL)
        if pid not in programs:
            _killed.add((pid, os.stat(f"/proc/{pid}").st_ino))


def kill_program(pid: int) -> None:
    """Kill a program of this process, but not those that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


def signal_group(pid: int, *, force: bool) -> None:
    """Terminate or kill the process group that `pid` leads. On Windows, only the process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)  # TerminateProcess: Windows has no graceful way here
        else:
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)
