"""Liveness of processes: each process locks a file for as long as it lives.

The operating system releases the lock when the process ends for any reason. (On POSIX, forks of the process without
`exec` must also have ended.) Not available on file systems without locks.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_ATTEMPTS: Final = 100

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def create_lock_file(path: Path) -> int | None:
    """Create and lock a new file. Return its descriptor, or None if the file cannot be created or locked."""
    descriptor = _create(path)
    if descriptor is not None:
        try:
            _lock(descriptor)
        except OSError:
            release_lock_file(path, descriptor)
            return None
    return descriptor


def release_lock_file(path: Path, descriptor: int) -> None:
    """Unlock the file and delete it."""
    os.close(descriptor)
    remove_lock_file(path)


def _create(path: Path) -> int | None:
    """Create a file and return its descriptor."""
    for _ in range(_ATTEMPTS):
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            # Another process has removed the empty directory since.
            continue
        except OSError:
            return None
    return None


def is_alive(path: Path) -> bool:
    """Return whether the process that locked a file is alive. A missing file means that the process has ended."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return False
    except OSError:
        # The file is unreadable, so nothing is known about the process. Do not end the tasks of a live one.
        return True
    try:
        _lock(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_lock_file(path: Path) -> None:
    """Delete the file of a process that has ended, and the directory if it is empty."""
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()
