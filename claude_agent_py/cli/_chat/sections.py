"""`Sections`: a Markdown text that grows, cut into parts that never change again and one that still does.

So a long answer costs no more to draw than its last part.
"""

import re
from typing import Final

SECTION_CHARS: Final = 4000
"""A part of this length ends at the next blank line outside of a code block."""
MOST_CHARS: Final = 16_000
"""A part ends here at the latest: at a line, or else anywhere."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[^\n]*")


class Sections:
    """The parts of a text.

    Attributes:
        done: The parts that are complete. Each is Markdown of its own: a code block that is cut is closed and reopened.
        tail: The last part, which grows.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tail = ""
        self._read = 0
        """How much of the tail has been looked at: complete lines."""
        self._fence = ""
        """The line that opened the code block there; empty outside of one."""
        self._blank = 0
        """The end of the last blank line outside of a code block."""

    def feed(self, text: str) -> None:
        """Add text."""
        for start in range(0, len(text), SECTION_CHARS):
            self.tail += text[start : start + SECTION_CHARS]
            self._look()
            if len(self.tail) > SECTION_CHARS and self._blank:
                self._cut(self._blank, "")
            elif len(self.tail) > MOST_CHARS:
                self._cut(self._read or len(self.tail), self._fence)

    def _look(self) -> None:
        """Find code blocks and blank lines in the lines that are complete now."""
        while (end := self.tail.find("\n", self._read)) >= 0:
            line, self._read = self.tail[self._read : end], end + 1
            found = _FENCE.fullmatch(line)
            if not self._fence:
                self._fence = line[:200] if found else ""
                if not line.strip():
                    self._blank = self._read
            elif found and line.strip() == found[1] and found[1].startswith(_mark(self._fence)):
                self._fence = ""

    def _cut(self, end: int, fence: str) -> None:
        """Complete a part, in a code block if `fence` opened one."""
        head, rest = self.tail[:end], self.tail[end:]
        self._read, self._blank = max(0, self._read - end), 0
        if fence:
            head = f"{head.rstrip()}\n{_mark(fence)}"
            rest = f"{fence}\n{rest}"
            self._read += len(fence) + 1
        self.done.append(head)
        self.tail = rest


def _mark(fence: str) -> str:
    """Return the marks of the line that opens a code block, which also close it."""
    stripped = fence.strip()
    return stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
