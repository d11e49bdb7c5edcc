"""A sign of life: a file that is locked as long as its process lives.

The operating system releases the lock when the process ends, however it ends (on POSIX, once its forks without `exec`
have ended, too). Not available where files cannot be locked.
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


def give_sign(path: Path) -> int | None:
    """Create and lock a new file. Return its descriptor, or None if that is impossible."""
    descriptor = _created(path)
    if descriptor is not None:
        try:
            _lock(descriptor)
        except OSError:
            end_sign(path, descriptor)
            return None
    return descriptor


def end_sign(path: Path, descriptor: int) -> None:
    """Unlock the file and delete it."""
    os.close(descriptor)
    remove(path)


def _created(path: Path) -> int | None:
    """Create a file and return its descriptor."""
    for _ in range(_ATTEMPTS):
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:  # another process removed the directory, which was empty
            continue
        except OSError:
            return None
    return None


def is_alive(path: Path) -> bool:
    """Return whether the process that locked a file is alive. A missing file was deleted after its process ended."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return False
    except OSError:  # unreadable: nothing is known about the process
        return True
    try:
        _lock(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove(path: Path) -> None:
    """Delete the file of a process that has ended, and the directory with the last one."""
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()
