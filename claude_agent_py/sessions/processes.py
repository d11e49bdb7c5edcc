"""Find the CLI process that has a session open, from the CLI's process records.

`<config>/sessions/<pid>.json` exists while a process runs (measured with CLI 2.1.328). It contains the id of the
session and the process's start time on the kernel's clock, which differs from the start time of a later process with
the same pid. All calls block.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from claude_agent_py._base.blocking_calls import blocking
from claude_agent_py._base.bounded_reading import read_bytes, read_object
from claude_agent_py._base.proc import parent_and_start
from claude_agent_py.sessions.folders import AnyPath, config_folder
from claude_agent_py.wire.base import JSONObject

_RECORD: Final = re.compile(r"\d{1,10}\.json")
_MOST_BYTES: Final = 64 * 1024
_MOST_PID: Final = 2**31 - 1
_LATEST: Final = 253_402_300_799_000
"""The end of the year 9999, in milliseconds: the latest time that Python and databases can show."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of the CLI."""

    pid: int
    status: str | None
    """The reported state: `busy`, `idle` or `waiting`; None if the process reports none."""
    waiting_for: str | None = None
    """The reason for the state `waiting`, such as `permission prompt`."""
    started: str | None = None
    """The start time in kernel ticks, which differs from the start time of a later process with the same pid. None if
    unknown: for a process in another container, or on a system other than Linux."""


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session that a process of the CLI has open."""

    session_id: str
    process: RunningProcess
    cwd: str
    started_at: float
    """When the process started, in seconds since the epoch."""
    program: str
    """The program that started the CLI, as reported by the CLI: `cli`, `sdk-py`, ..."""


@blocking
def running_sessions(config_dir: AnyPath | None = None) -> list[RunningSession]:
    """Return the sessions that CLI processes on this machine have open, latest start first.

    `config_dir` is the CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
    """
    return sorted(_iter_sessions(config_dir), key=lambda session: (-session.started_at, session.process.pid))


def find_process(config_dir: AnyPath | None, session_id: str) -> RunningProcess | None:
    """Return the process that has a session open, or None.

    A process in another container counts as running while its record exists, because it cannot be checked.
    """
    sessions = _iter_sessions(config_dir)
    return next((each.process for each in sessions if each.session_id.lower() == session_id.lower()), None)


def _iter_sessions(config_dir: AnyPath | None) -> Iterator[RunningSession]:
    folder = os.path.join(config_folder(config_dir), "sessions")
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        record = _read_record(os.path.join(folder, name)) if _RECORD.fullmatch(name) else {}
        if record.get("sessionId") and _is_running(record):
            yield _parse_session(record)


def _parse_session(record: JSONObject) -> RunningSession:
    started = record.get("startedAt")
    return RunningSession(
        session_id=str(record.get("sessionId", "")),
        process=_parse_process(record),
        cwd=str(record.get("cwd", "")),
        started_at=started / 1000 if isinstance(started, int | float) and 0 <= started <= _LATEST else 0.0,
        program=str(record.get("entrypoint", "")),
    )


def _parse_process(record: JSONObject) -> RunningProcess:
    fields = (record.get(name) for name in ("status", "waitingFor", "procStart"))
    status, waiting_for, started = (value if isinstance(value, str) else None for value in fields)
    # Start times are comparable on one Linux kernel only.
    if sys.platform != "linux" or _is_in_other_namespace(record):
        started = None
    return RunningProcess(record["pid"], status, waiting_for, started)


def _read_record(path: str) -> JSONObject:
    try:
        record = read_object(read_bytes(path, most_bytes=_MOST_BYTES)[0])
    except OSError:
        return {}
    pid = None if record is None else record.get("pid")
    return record or {} if type(pid) is int and 0 < pid <= _MOST_PID else {}


def _is_running(record: JSONObject) -> bool:
    if _is_in_other_namespace(record):
        return True
    pid = record["pid"]
    if not _exists(pid):
        return False
    found = parent_and_start(pid)
    known = record.get("procStart")
    return found is None or not isinstance(known, str) or found[1] == known


def _is_in_other_namespace(record: JSONObject) -> bool:
    """Return whether a process is in another pid namespace. Records name it as `linux:<machine>:pid:[<number>]`."""
    domain = record.get("pidDomain")
    if not isinstance(domain, str) or not domain.startswith("linux:") or sys.platform != "linux":
        return False
    with contextlib.suppress(OSError):
        return not domain.endswith(f":{os.readlink('/proc/self/ns/pid')}")
    return False


def _exists(pid: int) -> bool:
    if sys.platform == "win32":
        # Signal 0 would end the process. The CLI removes the record when it exits.
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
