"""`Sections`: a growing Markdown text, cut into complete parts and a last part that still grows.

Only the last part of a long answer is rendered again when text is added.
"""

import re
from typing import Final

SECTION_CHARS: Final = 4000
"""A part of this length ends at the next blank line outside a code block."""
MAX_CHARS: Final = 16_000
"""A longer part is cut at the end of a line, or anywhere if it has no line end."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[^\n]*")


class Sections:
    """The parts of a text.

    Attributes:
        done: The complete parts. Each is valid Markdown: a cut code block is closed, and reopened in the next part.
        tail: The last part, which still grows.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tail = ""
        self._scanned = 0
        """The length of the scanned part of the tail, which ends with a line."""
        self._fence = ""
        """The line that opened the code block at this position; empty outside a code block."""
        self._blank = 0
        """The end of the last blank line outside a code block."""

    def feed(self, text: str) -> None:
        """Add text at the end."""
        for start in range(0, len(text), SECTION_CHARS):
            self.tail += text[start : start + SECTION_CHARS]
            self._scan()
            if len(self.tail) > SECTION_CHARS and self._blank:
                self._cut(self._blank, "")
            elif len(self.tail) > MAX_CHARS:
                self._cut(self._scanned or len(self.tail), self._fence)

    def _scan(self) -> None:
        """Find code blocks and blank lines in the new complete lines."""
        while (end := self.tail.find("\n", self._scanned)) >= 0:
            line = self.tail[self._scanned : end]
            self._scanned = end + 1
            found = _FENCE.fullmatch(line)
            if not self._fence:
                self._fence = line[:200] if found else ""
                if not line.strip():
                    self._blank = self._scanned
            elif found and line.strip() == found[1] and found[1].startswith(_get_marker(self._fence)):
                self._fence = ""

    def _cut(self, end: int, fence: str) -> None:
        """Complete the part up to `end`. If `fence` is not empty, close its code block and reopen it."""
        head = self.tail[:end]
        rest = self.tail[end:]
        self._scanned = max(0, self._scanned - end)
        self._blank = 0
        if fence:
            head = f"{head.rstrip()}\n{_get_marker(fence)}"
            rest = f"{fence}\n{rest}"
            self._scanned += len(fence) + 1
        self.done.append(head)
        self.tail = rest


def _get_marker(fence: str) -> str:
    """Return the backticks or tildes of the line that opens a code block. They also close it."""
    stripped = fence.strip()
    return stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
