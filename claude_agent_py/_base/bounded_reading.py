"""Read files that any program may have written, including those that the model runs.

Only regular files are opened, sizes are limited, and JSON is parsed without deep nesting, lone surrogates or numbers
outside the standard. All calls block.
"""

import errno
import itertools
import json
import os
import re
import stat
from collections.abc import Iterator
from typing import IO, Any, Final, NoReturn

from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._base.lines import LineBuffer

MOST_BYTES: Final = 256 * 1024 * 1024
"""The largest file that is read."""
LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line; longer ones are skipped."""
MOST_LEVELS: Final = 200
"""The deepest nesting of a value, the same as for messages of the CLI."""
_CHUNK: Final = 1024 * 1024
_SURROGATES: Final = "[\ud800-\udfff]"
"""A regular expression; compiling it takes a millisecond, and few texts need it."""
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a named pipe must not block the thread
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def open_regular(path: str | os.PathLike[str], *, follow_links: bool = True, uid: int | None = None) -> int:
    """Open a regular file, of the user `uid` if given, for reading, and return its descriptor.

    Raises OSError for anything else. In a folder of another user, a name may lead to a file that only this user can
    read.
    """
    try:
        status = os.stat(path, follow_symlinks=follow_links)
    except ValueError as error:  # a NUL or a lone surrogate
        raise OSError(errno.EINVAL, "not a path", os.fspath(path)) from error
    if not stat.S_ISREG(status.st_mode):  # checked first: opening a device can have effects
        raise _not_regular(path)
    descriptor = os.open(path, _FLAGS | (0 if follow_links else getattr(os, "O_NOFOLLOW", 0)))
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):  # it was replaced after the first check
        os.close(descriptor)
        raise _not_regular(path)
    if uid not in (None, status.st_uid):
        os.close(descriptor)
        raise PermissionError(errno.EACCES, f"it is not of the user {uid}", os.fspath(path))
    return descriptor


def read_bytes(
    path: str | os.PathLike[str],
    *,
    tail_bytes: int | None = None,
    most_bytes: int = MOST_BYTES,
    uid: int | None = None,
    follow_links: bool = True,
) -> tuple[bytes, int]:
    """Read a regular file, or its last `tail_bytes`. Returns the bytes and the size of the file.

    Reads up to the size at the time of the call, so a file that keeps growing does not block. Raises OSError if more
    than `most_bytes` would be read, or if the file is of another user than `uid`.
    """
    with os.fdopen(open_regular(path, follow_links=follow_links, uid=uid), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        wanted = size if tail_bytes is None else min(size, tail_bytes)
        if wanted > most_bytes:
            raise _too_large(path, size, most_bytes)
        file.seek(size - wanted)
        data = file.read(wanted)
    return data, size - (wanted - len(data))  # it may have been truncated during the read


def read_lines(path: str | os.PathLike[str], *, uid: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a regular file, not of a link, without line ends. Lines longer than `LINE_BYTES` are skipped.

    Reads up to the size at the time of the call. Raises OSError if the file is unreadable, larger than `MOST_BYTES`, or
    of another user than `uid`.
    """
    with os.fdopen(open_regular(path, follow_links=False, uid=uid), "rb", _CHUNK) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            raise _too_large(path, size, MOST_BYTES)
        yield from (line for _, line in lines_of(file, 0, size) if line)


def lines_of(
    file: IO[bytes], start: int, end: int, *, most_bytes: int | None = None
) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line of a part of a file, without its line break, with its offset; None for one that is too long.

    A line has at most `most_bytes`, by default `LINE_BYTES`, without its line break.
    """
    limit = most_bytes or LINE_BYTES
    file.seek(start)
    while start < end and (line := file.readline(min(limit + 1, end - start))):
        content, length = line.removesuffix(b"\n"), len(line)
        is_whole = len(content) < length or start + length >= end
        while line and not is_whole:
            line = file.readline(_CHUNK)
            length += len(line)
            is_whole = line.endswith(b"\n")
        yield start, content if len(content) <= limit else None
        start += length


class Lines:
    """Splits chunks into lines. Drops empty lines and those longer than `LINE_BYTES`."""

    def __init__(self) -> None:
        self._buffer = LineBuffer(LINE_BYTES)

    def feed(self, data: bytes) -> list[bytes]:
        """Add a chunk and return the lines that it completes."""
        return [line for line in self._buffer.feed(data) if line and isinstance(line, bytes)]


def read_json(data: bytes | str) -> Any:
    """Parse JSON. Lone surrogates become U+FFFD.

    Raises ValueError if it is not JSON, not UTF-8, or nested more than `MOST_LEVELS` deep.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode() if isinstance(data, bytes) else data.removeprefix("\ufeff")
    try:
        value = _parse(text)
        if text.count("[") + text.count("{") > MOST_LEVELS:
            check_depth(value)
        if "\\ud" in text or "\\uD" in text or re.search(_SURROGATES, text):
            value = _parse(without_surrogates(json.dumps(value, ensure_ascii=False)))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def read_object(data: bytes | str) -> JSONObject | None:
    """Parse a JSON object like `read_json`. Return None for anything else."""
    try:
        value = read_json(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, with U+FFFD."""
    return text if text.isascii() else re.sub(_SURROGATES, "\ufffd", text)


_STRING: Final = rb'(?s)"(?:[^"\\]++|\\.)*+(?:"|\Z)'
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def is_too_deep(line: bytes) -> bool:
    """Return whether JSON is nested more than `MOST_LEVELS` deep, which many of its readers do not survive."""
    # Each level begins and ends with a bracket, and most lines have few.
    if len(line) <= 2 * MOST_LEVELS or len(line.translate(None, _NOT_BRACKETS)) <= 2 * MOST_LEVELS:
        return False
    brackets = re.sub(_STRING, b"", line).translate(None, _NOT_BRACKETS)
    return any(map(MOST_LEVELS.__lt__, itertools.accumulate(map(_STEP.__getitem__, brackets))))


def check_depth(value: object, most_values: int | None = None) -> None:
    """Raise ValueError if a value is nested too deeply or has too many parts, for example if it contains itself."""
    level, depth, count = [value], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MOST_LEVELS + 1 or (most_values is not None and count > most_values):
            raise ValueError("nested too deeply, or too many parts")
        level = [part for each in level for part in _parts(each)]


def _parts(value: object) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _parse(text: str) -> object:
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _too_large(path: str | os.PathLike[str], size: int, most: int) -> OSError:
    return OSError(errno.EFBIG, f"{size} bytes exceed the limit of {most}", os.fspath(path))


def _not_regular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", os.fspath(path))
