"""Locks on private folders, by which other processes find those that a killed process left.

The system releases the lock of a process that ends, however it ends. Where folders cannot be locked (Windows, some file
systems), nothing is found.
"""

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_locks: dict[Path, int] = {}
"""The locks of this process."""


def lock(folder: Path) -> None:
    """Lock a folder while this process runs, if the system and the file system support it."""
    if sys.platform == "win32" or folder in _locks:
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
    else:
        _locks[folder] = descriptor


def unlock(folder: Path) -> None:
    """Release the lock of a folder. Idempotent."""
    descriptor = _locks.pop(folder, None)
    if descriptor is not None:
        os.close(descriptor)


def leftovers(parent: Path, name: re.Pattern[str], *, min_age: float = 0.0) -> Iterator[Path]:
    """Yield the folders of this user with such names whose process has ended. Each is locked until the next.

    Folders that changed within the last `min_age` seconds are left out: their owner may be about to lock them.
    """
    if sys.platform == "win32":
        return
    import fcntl

    with contextlib.suppress(OSError):
        for path in parent.iterdir():
            if not name.fullmatch(path.name) or path in _locks:
                continue
            with contextlib.suppress(OSError):
                status = path.lstat()
                is_new = time.time() - status.st_mtime < min_age
                if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or is_new:
                    continue
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path
                finally:
                    os.close(descriptor)
