"""The text that a parser reads, which may arrive in chunks.

A parser is a generator that yields when it needs more text, so that the same code parses a whole text and a stream.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias

Reading: TypeAlias = Generator[None, None, None]
"""A parser that yields when it needs more text."""


class TextSource:
    """A text that arrives in chunks.

    Parsers look at `text` from `at` on, move `at` forward, and `yield` if they need more text. After a `yield`,
    indexes into `text` are no longer valid.
    """

    def __init__(self) -> None:
        self.at: int = 0
        """The index in `text` of the next character to read."""
        self.is_complete = False
        """Whether no more text will come."""
        self._text = ""
        self._later: list[str] = []
        self._dropped = 0

    def feed(self, chunk: str) -> None:
        """Add text at the end."""
        self._later.append(chunk)

    @property
    def text(self) -> str:
        """The text that has arrived, without parts that were read before the last chunk."""
        if self._later:
            self._dropped += self.at
            self._text = self._text[self.at :] + "".join(self._later)
            self._later.clear()
            self.at = 0
        return self._text

    @property
    def offset(self) -> int:
        """The number of characters of the whole text before `at`."""
        # Reading `text` may change `at`.
        text = self.text
        return self._dropped + min(self.at, len(text))

    @property
    def is_read(self) -> bool:
        """Whether everything that has arrived was read."""
        text = self.text
        return self.at >= len(text)

    def wait_for(self, find: Callable[[str, int], int], *, longest: int, skip: int = 0) -> Generator[None, None, int]:
        """Wait until something is in the text, and return its index in `text`, or -1 if it never comes.

        Does not move `at`. While it waits, each chunk is searched once, which keeps parsing linear.

        Args:
            find: Returns the index of the first match in a text at or after an index, or -1. A match must not depend
                on the surrounding text.
            longest: The length of the longest possible match, in characters.
            skip: The number of characters after `at` that are not searched.
        """
        text = self.text
        found = find(text, self.at + skip)
        if found >= 0:
            return found
        window = text[max(self.at + skip, len(text) - longest + 1) :]
        # The number of characters between `at` and the window.
        before = len(text) - self.at - len(window)
        while not self.is_complete:
            count = len(self._later)
            yield
            drop = max(0, len(window) - longest + 1)
            before += drop
            window = window[drop:] + "".join(self._later[count:])
            found = find(window, 0)
            if found >= 0:
                # Reading `text` joins the chunks and moves `at` accordingly.
                _ = self.text
                return self.at + before + found
        return -1

    def line(self) -> "Generator[None, None, str | None]":
        """Read a line, including its line feed. Returns None at the end."""
        index = yield from self.wait_for(lambda text, start: text.find("\n", start), longest=1)
        text, start = self.text, self.at
        self.at = len(text) if index < 0 else index + 1
        return text[start : self.at] or None
