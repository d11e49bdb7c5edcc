"""Which process of the CLI is at work on a session, by the records that the CLI keeps of its processes.

`<config>/sessions/<pid>.json` is there while a process runs (measured with CLI 2.1.328). It names the session, and when
the process started in the kernel's clock, so that another process with the same id is not taken for it. All calls
block.
"""

import contextlib
import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Final

from claude_agent_py._proc import parent_and_start
from claude_agent_py._untrusted import read_bytes, read_json

_RECORD: Final = re.compile(r"\d{1,10}\.json")
_MOST_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of the CLI."""

    pid: int
    status: str | None
    """What it says it does: `busy` or `idle`; None if it does not say."""


def process_on(config: str, session_id: str) -> RunningProcess | None:
    """Return the process that is at work on a session, or None.

    A process in another container counts as running while its record is there: nobody here can tell.
    """
    folder = os.path.join(config, "sessions")
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        record = _record(os.path.join(folder, name)) if _RECORD.fullmatch(name) else {}
        if str(record.get("sessionId", "")).lower() == session_id.lower() and _is_running(record):
            status = record.get("status")
            return RunningProcess(record["pid"], status if isinstance(status, str) else None)
    return None


def _record(path: str) -> dict[str, Any]:
    try:
        record = read_json(read_bytes(path, most_bytes=_MOST_BYTES)[0])
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("pid"), int) else {}


def _is_running(record: dict[str, Any]) -> bool:
    domain = record.get("pidDomain")
    if isinstance(domain, str) and _is_elsewhere(domain):
        return True
    pid = record["pid"]
    if pid <= 0 or not _exists(pid):
        return False
    found, known = parent_and_start(pid), record.get("procStart")
    return found is None or not isinstance(known, str) or found[1] == known


def _is_elsewhere(domain: str) -> bool:
    """Return whether a process counts its ids in another namespace than this one: `linux:<machine>:pid:[<number>]`."""
    if not domain.startswith("linux:") or sys.platform != "linux":
        return False
    with contextlib.suppress(OSError):
        return not domain.endswith(f":{os.readlink('/proc/self/ns/pid')}")
    return False


def _exists(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # the record is removed at the end; signal 0 would end the process
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
