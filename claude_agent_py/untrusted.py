"""Reading files that any program may have written: what the model runs writes where it likes.

Owns how such a file is opened (without blocking, and nothing but a regular one), how much of it is read, and how JSON
in it becomes values that the rest of the package can handle: no deep nesting, no half characters, no numbers that JSON
does not know. Plain blocking calls.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, Final, NoReturn

MOST_BYTES: Final = 256 * 1024 * 1024
"""How much is read of one file."""
LINE_BYTES: Final = 16 * 1024 * 1024
"""How long a line may be; longer ones are skipped."""
MOST_LEVELS: Final = 200
"""How deep values may be nested: as deep as the messages of the CLI may be."""
_CHUNK: Final = 1024 * 1024
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a named pipe must not block the thread
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading and give its descriptor. Raises OSError for anything else."""
    try:
        status = os.stat(path)
    except ValueError as error:  # a NUL, or half a character
        raise OSError(errno.EINVAL, "not a path", os.fspath(path)) from error
    if not stat.S_ISREG(status.st_mode):  # opening a device can have effects: do not even try
        raise _not_regular(path)
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # replaced in between
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def read_bytes(
    path: str | os.PathLike[str], *, tail_bytes: int | None = None, most_bytes: int = MOST_BYTES
) -> tuple[bytes, int]:
    """Read a regular file, or its end. Gives the bytes and the size of the whole.

    What is written meanwhile is not read: a file that grows for ever has an end all the same. Raises OSError where it
    is larger than `most_bytes` and no tail is asked for.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        wanted = size if tail_bytes is None else min(size, tail_bytes)
        if wanted > most_bytes:
            raise _too_large(path, size, most_bytes)
        file.seek(size - wanted)
        data = file.read(wanted)
    return data, size - (wanted - len(data))  # it may have been cut meanwhile


def read_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Return the lines of a regular file, without their ends. Lines of more than `LINE_BYTES` are skipped.

    What is written meanwhile is not read. Raises OSError where it cannot be read, or has more than `MOST_BYTES`.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        left = os.fstat(file.fileno()).st_size
        if left > MOST_BYTES:
            raise _too_large(path, left, MOST_BYTES)
        lines = Lines()
        while left > 0 and (data := file.read(min(left, _CHUNK))):
            left -= len(data)
            yield from lines.feed(data)
        yield from lines.feed(b"\n")


class Lines:
    """Cuts pieces into lines. A line longer than `max_bytes` is dropped, not kept."""

    def __init__(self, max_bytes: int = LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take a piece and give the lines that it completes."""
        *complete, rest = data.split(b"\n")
        lines = [line for line in map(self._finish, complete) if line is not None]
        self._keep(rest)
        return lines

    def reset(self) -> None:
        """Forget the line that is not complete."""
        self._parts.clear()
        self._size, self._skipping = 0, False

    def _finish(self, end: bytes) -> bytes | None:
        self._keep(end)
        line = None if self._skipping else b"".join(self._parts)
        self.reset()
        return line or None

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            self._parts.clear()
            self._skipping = True
        elif part:
            self._parts.append(part)


def read_json(data: bytes | str) -> Any:
    """Read JSON. Lone surrogates become U+FFFD.

    Raises:
        ValueError: It is not JSON, not UTF-8, or nested more than `MOST_LEVELS` deep.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode() if isinstance(data, bytes) else data.removeprefix("\ufeff")
    try:
        value = _parse(text)
        if text.count("[") + text.count("{") > MOST_LEVELS:
            check_depth(value)
        if "\\ud" in text or "\\uD" in text or _SURROGATES.search(text):
            value = _parse(without_surrogates(json.dumps(value, ensure_ascii=False)))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def without_surrogates(text: str) -> str:
    """Return a text with U+FFFD in place of half characters, which no file can hold."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def check_depth(value: Any, most_values: int | None = None) -> None:
    """Raise ValueError where a value is nested too deeply, or has too many parts (as one that contains itself has)."""
    level, depth, count = [value], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MOST_LEVELS + 1 or (most_values is not None and count > most_values):
            raise ValueError("it is nested too deeply, or has too many parts")
        level = [part for each in level for part in _parts(each)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _parse(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _too_large(path: str | os.PathLike[str], size: int, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it has {size} bytes, more than the {most} that are read at once", os.fspath(path))


def _not_regular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", os.fspath(path))
