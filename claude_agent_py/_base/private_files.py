"""Files that only this user can read, because they contain conversations."""

import errno
import os
import stat
import sys
from typing import TextIO


def open_private(path: str | os.PathLike[str], *, must_be_new: bool = False) -> TextIO:
    """Open a file for writing UTF-8. An existing file becomes private before it is overwritten.

    Raises:
        OSError: The file cannot be written, belongs to another user, or exists although it must be new.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if must_be_new else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        make_private(descriptor)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.truncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "w", encoding="utf-8")


def make_private(descriptor: int) -> None:
    """Restrict an open file to this user. Does nothing for a terminal, a pipe or a device.

    Raises:
        PermissionError: The file belongs to another user, who could read what is written.
    """
    status = os.fstat(descriptor)
    if sys.platform == "win32" or not stat.S_ISREG(status.st_mode):
        return
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, f"the file belongs to another user ({status.st_uid})")
    if status.st_mode & 0o077:
        os.fchmod(descriptor, 0o600)
