"""Read the output files of tasks: their text, its tail, and a shell's end marker.

All calls block and may raise OSError.
"""

import re
from typing import Final

from msgspec import Struct

from claude_agent_py.tasks.files.task_file import TaskFile

_MARKER: Final = re.compile(rb"\n\[(?:exited with code (?P<code>-?\d{1,10})|killed)\]\n\Z")
_PARTIAL_MARKER: Final = re.compile(rb"\n\[[a-z]{0,6}(?: [a-z]{0,4}){0,2}(?: -?\d{0,10})?\]?\Z")
MARKER_BYTES: Final = 64
"""At least the length of an end marker."""


class EndMarker(Struct, frozen=True):
    """The line that the CLI writes after a shell's output. `exit_code` is None for a killed shell."""

    exit_code: int | None


class ShellText(Struct, frozen=True):
    """The output of a shell."""

    text: str
    marker: EndMarker | None
    """None while the shell runs."""
    total_bytes: int
    """The size of the whole output, without the marker."""
    is_truncated: bool
    """Whether `text` is only the end of the output."""


def split_marker(data: bytes) -> tuple[bytes, EndMarker | None]:
    """Separate a shell's output from its end marker."""
    found = _MARKER.search(data, max(0, len(data) - MARKER_BYTES))
    if found is None:
        return data, None
    code = found["code"]
    return data[: found.start()], EndMarker(None if code is None else int(code))


def partial_marker_length(data: bytes) -> int:
    """Return the number of bytes at the end that may be the start of an end marker, and must be held back."""
    start = max(0, len(data) - MARKER_BYTES)
    found = _MARKER.search(data, start) or _PARTIAL_MARKER.search(data, start)
    return len(data) - found.start() if found else 0


def read_shell(file: TaskFile, tail_bytes: int | None = None) -> ShellText:
    """Read a shell's output, or the last `tail_bytes` of it."""
    most = None if tail_bytes is None else max(0, tail_bytes) + MARKER_BYTES
    data, size = file.read(tail_bytes=most)
    text, marker = split_marker(data)
    return cut_text(text, marker, size - (len(data) - len(text)), tail_bytes)


def cut_text(text: bytes, marker: EndMarker | None, total_bytes: int, tail_bytes: int | None) -> ShellText:
    """Return a text, or the last `tail_bytes` of it. `total_bytes` is the size of the whole output."""
    shown = text if tail_bytes is None else last_bytes(text, max(0, tail_bytes))
    return ShellText(shown.decode("utf-8", "replace"), marker, total_bytes, len(shown) < total_bytes)


def read_marker(file: TaskFile) -> EndMarker | None:
    """Read only the end marker."""
    return split_marker(file.read(tail_bytes=MARKER_BYTES)[0])[1]


def last_bytes(data: bytes, count: int) -> bytes:
    """Return the last bytes, without a partial character at the start."""
    if count >= len(data):
        return data
    tail = data[len(data) - count :] if count else b""
    cut = 0
    # Skip continuation bytes of UTF-8.
    while cut < min(3, len(tail)) and tail[cut] & 0xC0 == 0x80:
        cut += 1
    return tail[cut:]
