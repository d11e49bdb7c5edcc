"""Files and folders that only one user can read, because they contain conversations; and who that is."""

import contextlib
import errno
import os
import stat
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

if sys.platform != "win32":
    import pwd

OTHERS: Final = 0o077
"""The permissions of other users."""
WRITERS: Final = 0o022
"""The permissions of other users to write."""


def temporary_folder() -> Path:
    """Return the folder for temporary files; `/tmp` if the CLI would look elsewhere: it composes letters (NFC)."""
    folder = Path(tempfile.gettempdir())
    for path in (folder, folder.resolve()):
        composed = unicodedata.normalize("NFC", str(path))
        if composed != str(path) and not (os.path.exists(composed) and os.path.samefile(composed, path)):
            return Path("/tmp")  # noqa: S108 - what is made there is private
    return folder


def open_private(path: str | os.PathLike[str], *, must_be_new: bool = False) -> TextIO:
    """Open a file for writing UTF-8. An existing file becomes private before it is overwritten.

    Lone surrogates, which UTF-8 cannot represent, are written as JSON escapes them.

    Raises:
        OSError: The file cannot be written, is a link to a file, belongs to another user, or exists although it must be
            new.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if must_be_new else 0)
    if not is_stream(path):
        flags |= getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        make_private(descriptor)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.truncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether a path, such as `/dev/stdout`, leads to a terminal, a pipe or a device."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def make_private(descriptor: int, *, is_trusted: bool = False) -> None:
    """Restrict an open file to this user. Does nothing for a terminal, a pipe or a device.

    Args:
        descriptor: The file.
        is_trusted: Refuse a file that others could write, because its content is acted upon.

    Raises:
        PermissionError: The file belongs to another user, who could read what is written, or others could write it.
    """
    status = os.fstat(descriptor)
    if sys.platform == "win32" or not stat.S_ISREG(status.st_mode):
        return
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, f"the file belongs to another user ({status.st_uid})")
    if is_trusted and status.st_mode & WRITERS:
        raise PermissionError(errno.EACCES, "other users can write the file; restrict it to yourself (chmod 600)")
    if status.st_mode & OTHERS:
        os.fchmod(descriptor, 0o600)


def check_private(folder: Path, *, uid: int | None = None) -> None:
    """Raise PermissionError unless only this user, or the user `uid`, can enter a folder. A link is not followed."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{folder} is not a folder")
    if os.name == "posix":
        if status.st_uid not in (os.geteuid(), uid):
            raise PermissionError(f"{folder} belongs to another user")
        if status.st_mode & OTHERS:
            mode = stat.S_IMODE(status.st_mode)
            raise PermissionError(f"{folder} is open to other users (its mode is {mode:o}): chmod 700 it")


def check_parent(folder: Path, *, writers: int = stat.S_IWOTH) -> None:
    """Raise PermissionError if other users can replace what is in a folder. The sticky bit prevents that.

    By default, a group that can write may consist of this user only, as it does for the users of many systems.
    """
    status = folder.stat()
    is_open = status.st_mode & writers and not status.st_mode & stat.S_ISVTX
    if os.name == "posix" and (is_open or status.st_uid not in (0, os.geteuid())):
        raise PermissionError(f"other users can replace what is in {folder}")


def find_account(user: str | int | None) -> "pwd.struct_passwd | None":
    """Return the account of a user; None if there is none, for None, and on Windows."""
    if user is None or sys.platform == "win32":
        return None
    try:
        return pwd.getpwnam(user) if isinstance(user, str) else pwd.getpwuid(user)
    except (KeyError, ValueError):
        return None


def find_uid(user: str | int | None) -> int | None:
    """Return the id of a user, who may have no account if it is a number; None for None, and on Windows."""
    account = find_account(user)
    if account is not None:
        return account.pw_uid
    return user if isinstance(user, int) and sys.platform != "win32" else None


def find_other(user: str | int | None) -> int | None:
    """Return the id of a user, or None for the user of this process."""
    uid = find_uid(user)
    return None if sys.platform == "win32" or uid == os.geteuid() else uid


def give_tree(folder: Path, uid: int) -> None:
    """Make another user the owner of a folder that is still private to this one, and of all that is in it. Blocks.

    By descriptors, and the folder itself last: from then on the other user can put links in the place of its names.
    """
    if sys.platform == "win32":
        return

    def fail(error: OSError) -> None:
        raise error

    for _, _, names, descriptor in os.fwalk(folder, topdown=False, onerror=fail):
        for name in names:
            os.chown(name, uid, -1, dir_fd=descriptor, follow_symlinks=False)
        os.fchown(descriptor, uid, -1)


@contextlib.contextmanager
def opened_folder(path: Path) -> Iterator[int | None]:
    """Open a folder, not a link to one, for calls with `dir_fd`; None if the system has no such calls."""
    if sys.platform == "win32":
        yield None
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def append_durably(descriptor: int, data: bytes) -> None:
    """Append data to a file and flush it to disk. Restores the file on failure.

    Nothing is buffered: closing a file whose disk was full would write the rest of its buffer later.
    """
    start = os.lseek(descriptor, 0, os.SEEK_END)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, start)
        raise
