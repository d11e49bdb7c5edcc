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

    def feed(self, text: str) -> None:
        """Add text."""
        for start in range(0, len(text), SECTION_CHARS):
            self.tail += text[start : start + SECTION_CHARS]
            if len(self.tail) > SECTION_CHARS:
                self._cut()

    def _cut(self) -> None:
        end = self.tail.rfind("\n\n") + 1
        while end > 0 and _open_fence(self.tail[:end]):
            end = self.tail.rfind("\n\n", 0, end - 1) + 1
        if end > 0:
            self._finish(end)
        elif len(self.tail) > MOST_CHARS:
            self._finish(self.tail.rfind("\n") + 1 or len(self.tail))

    def _finish(self, end: int) -> None:
        head, rest = self.tail[:end], self.tail[end:]
        fence = _open_fence(head)
        if fence:
            head = f"{head.rstrip()}\n{fence.strip()[:3]}"
            rest = f"{fence}\n{rest}"
        self.done.append(head)
        self.tail = rest


def _open_fence(text: str) -> str:
    """Return the line that opens the code block in which a text ends; empty if it ends outside of one."""
    fence = mark = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        if not fence:
            fence, mark = line[:200], found[1]
        elif found[1].startswith(mark) and line.strip() == found[1]:
            fence = ""
    return fence
