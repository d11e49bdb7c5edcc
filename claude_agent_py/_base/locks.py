"""Locks on open files and private folders, which the system releases when their process ends, however it ends.

By the lock of a private folder, other processes find those that a killed process left. Where folders cannot be locked
(Windows, some file systems), nothing is found.
"""

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def lock_file(descriptor: int) -> None:
        """Lock an open file. Raises OSError if another process or descriptor has the lock."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def unlock_file(descriptor: int) -> None:
        """Unlock an open file."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock_file(descriptor: int) -> None:
        """Lock an open file or folder. Raises OSError if another process or descriptor has the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock_file(descriptor: int) -> None:
        """Unlock an open file. Closing it is not enough: forked processes have copies of the descriptor."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


_locks: dict[Path, int] = {}
"""The locks of this process."""


def lock(folder: Path) -> None:
    """Lock a folder while this process runs, if the system and the file system support it."""
    if sys.platform == "win32" or folder in _locks:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock_file(descriptor)
    except OSError:
        os.close(descriptor)
    else:
        _locks[folder] = descriptor


def make_locked(folder: Path) -> None:
    """Create a private folder, and lock it before it has the name by which other processes find it."""
    draft = folder.with_name(f".{folder.name}")
    draft.mkdir(mode=0o700)
    lock(draft)
    draft.rename(folder)
    if draft in _locks:
        _locks[folder] = _locks.pop(draft)


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
    with contextlib.suppress(OSError):
        for path in parent.iterdir():
            with contextlib.suppress(OSError):
                if name.fullmatch(path.name) and path not in _locks and _is_own(path, min_age):
                    with _locked(path):
                        yield path


def _is_own(path: Path, min_age: float) -> bool:
    """Return whether a path is a folder of this user that did not change recently. Raises OSError if it is gone."""
    if sys.platform == "win32":
        return False
    status = path.lstat()
    is_old = time.time() - status.st_mtime >= min_age
    return is_old and stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises OSError if another process holds it."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        lock_file(descriptor)
        yield
    finally:
        os.close(descriptor)
