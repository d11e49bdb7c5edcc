"""Change files that other programs read and write. All calls block."""

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from claude_agent_py._base.bounded_reading import read_bytes, read_object
from claude_agent_py._base.streams import wait_until

_COMPLETES_WITHIN: Final = 1.0
"""Seconds to wait for another program to complete its line."""
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def write_atomically(path: str, parts: Iterable[bytes], *, replace: bool = False) -> None:
    """Write a file atomically, readable by this user only.

    Raises:
        OSError: The file cannot be written, or exists already.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(draft, path)
        else:
            rename_new(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def rename_new(draft: str, path: str) -> None:
    """Rename a file to a name that does not exist yet. Raises FileExistsError if it does, or another OSError."""
    try:
        os.link(draft, path)  # unlike a rename, it never replaces a file
    except FileExistsError:
        raise
    except OSError:  # the file system has no links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
        os.rename(draft, path)
    else:
        os.unlink(draft)


def delete_transcript(path: str) -> None:
    """Delete a transcript, and the folder of its subagents. A link is deleted: its target is not the session's."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    folder = path.removesuffix(".jsonl")
    if os.path.islink(folder):
        os.unlink(folder)
    elif os.path.isdir(folder):
        shutil.rmtree(folder)


def append_line(path: str, line: bytes, *, has_writer: bool) -> None:
    """Append a line in one write, after a line break if the file does not end with one. Others may append concurrently.

    Args:
        path: The file.
        line: The line, with its line break.
        has_writer: Another program may be writing a line. Wait until that line is complete.

    Raises:
        OSError: The file is missing, empty, a link or not writable.
        TimeoutError: The other program did not complete its line.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | _FLAGS)
    try:
        if has_writer and not wait_until(lambda: _ends_with_break(descriptor), _COMPLETES_WITHIN, 0.005):
            raise TimeoutError("another program did not complete its line")
        start = os.fstat(descriptor).st_size
        data = line if _ends_with_break(descriptor) else b"\n" + line
        written = os.write(descriptor, data)
        if written != len(data):
            # The disk is full. A concurrent writer may have appended since, so truncate only without one.
            if not has_writer:
                os.ftruncate(descriptor, start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(descriptor)


def _ends_with_break(descriptor: int) -> bool:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if not size:
        raise FileNotFoundError(errno.ENOENT, "the file is empty")
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) == b"\n"


_NAME: Final = "archived.json"
_MOST_BYTES: Final = 4096


def is_archived(transcript: str) -> bool:
    """Return whether a session is archived.

    The CLI reads and writes the same record; a prompt to an archived session unarchives it.
    """
    try:
        record = read_object(read_bytes(_record_path(transcript), most_bytes=_MOST_BYTES)[0])
    except OSError:
        return False
    return record is not None and record.get("archived") is True


def set_archived(transcript: str, archived: bool) -> None:
    """Write the record. Raises OSError if the record cannot be written or the session's folder is a link."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    path = _record_path(transcript)
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.islink(folder):
        raise NotADirectoryError(errno.ENOTDIR, "the session's folder is a link", folder)
    write_atomically(path, [json.dumps({"archived": archived, "at": now, "by": "sdk"}).encode()], replace=True)


def _record_path(transcript: str) -> str:
    return os.path.join(transcript.removesuffix(".jsonl"), _NAME)
