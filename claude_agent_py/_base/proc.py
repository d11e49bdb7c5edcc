"""Process information of Linux, from /proc."""

import os
from typing import Final

_READ_BYTES: Final = 64 * 1024
_PARENT: Final = 1
_STARTED: Final = 19
"""The places in `/proc/<pid>/stat`, after the name."""


def parent_and_start(pid: int) -> tuple[int, str] | None:
    """Return the parent of a process and its start time in kernel ticks; None if it has exited or there is no /proc."""
    fields = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()  # the name before it may contain anything
    if len(fields) <= _STARTED:
        return None
    return int(fields[_PARENT]), fields[_STARTED].decode()


def contents(path: str) -> bytes:
    """Return the contents of a file in /proc; empty if the process has exited or belongs to another user."""
    read = b""
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            while part := os.read(file, _READ_BYTES):
                read += part
        finally:
            os.close(file)
    except OSError:
        return b""
    return read
