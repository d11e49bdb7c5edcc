"""Reads sections of Markdown. `markdown` writes them."""

import re
from collections.abc import Generator
from functools import lru_cache

from claude_agent_py.formatting.builder import SectionBuilder
from claude_agent_py.formatting.fences import FENCE, closes, opener_of, with_code
from claude_agent_py.formatting.sections import SectionSpec
from claude_agent_py.formatting.source import Reading, TextSource

HEADER = re.compile(r" {0,3}(?P<marks>#{1,6})[ \t]+(?P<name>.*)", re.DOTALL)
START = re.compile(r" {0,3}[^ ]| {4}")
"""As much of a line as it takes to tell whether it is special."""
DECORATION = "*_:# \t"
"""What models write around the name in a header, as in `# **Answer:**`."""
SPECIAL = re.compile(r" {0,3}[#\\`~]")
"""How a line starts that is a header, a fence, or escaped."""


class MarkdownReader:
    """Reads lines. A line that cannot be structure is passed on before it is complete.

    Whether an opening fence counts depends on whether it is closed. Until then, the lines that would be read
    differently, and those after them, are held back.
    """

    def __init__(self, level: int, source: TextSource, builder: SectionBuilder) -> None:
        self._level = level
        self._source = source
        self._builder = builder
        self._fence: str | None = None
        self._fence_offset = 0
        self._held: list[tuple[int, str]] = []
        self._has_line = False
        self._blank: int | None = None
        self._around: str | None = None
        self._may_be_around: list[tuple[int, str]] = []
        self._has_sections = False
        self._has_text = False

    def read(self) -> Reading:
        """Read the whole text."""
        is_last = False
        while not is_last:
            while not (START.match(self._source.text, self._source.at) or self._source.is_complete):
                yield
            start = self._source.text[self._source.at : self._source.at + 4]
            if self._held or self._may_be_around or start[:1] in ("", "\n") or SPECIAL.match(start):
                offset = self._source.offset
                line = (yield from self._source.line()) or ""
                self._line(offset, line.removesuffix("\n"))
                is_last = not line.endswith("\n")
            else:
                is_last = yield from self._plain_line()
        self._finish()

    def _plain_line(self) -> Generator[None, None, bool]:
        """Pass on a line as it arrives. Returns whether it is the last one."""
        source = self._source
        self._begin_line(source.offset)
        self._has_text = True
        while True:
            text = source.text
            end = text.find("\n", source.at)
            self._builder.text(text[source.at : None if end < 0 else end], source.offset)
            source.at = len(text) if end < 0 else end + 1
            if end >= 0 or source.is_complete:
                return end < 0
            yield

    def _line(self, offset: int, line: str) -> None:
        if self._may_be_around:
            self._after_fence(offset, line)
        elif self._fence is None:
            if self._around is not None and closes(line, self._around):
                self._end_around()
            elif self._begins_around(line):
                self._may_be_around = [(offset, line)]
            elif not self._header(offset, line):
                self._text_line(offset, line)
        elif closes(line, self._fence):
            for held_offset, held in [*self._held, (offset, line)]:
                self._push(held_offset, held)
            self._fence, self._held = None, []
        elif self._held or self._spec(line) or self._unescaped(line) != line or FENCE.fullmatch(line):
            self._held.append((offset, line))
        else:
            self._push(offset, line)

    def _text_line(self, offset: int, line: str) -> None:
        self._fence = opener_of(line)
        if self._fence is not None:
            self._fence_offset = offset
        self._push(offset, self._unescaped(line))

    def _finish(self) -> None:
        self._flush_fence()
        if self._fence is not None:
            if self._builder.depth:
                name = self._builder.name
                self._builder.leave_open()
                self._builder.unclosed(name, self._fence_offset, f"a code block in section {name!r} has no end")
            lines = [line for _, line in self._held]
            for (offset, line), (_, in_code) in zip(self._held, with_code(lines), strict=True):
                if in_code:
                    self._push(offset, line)
                elif not self._header(offset, line):
                    self._push(offset, self._unescaped(line))
        self._flush_blank()

    # A code block around all sections

    def _begins_around(self, line: str) -> bool:
        """Return whether a line opens a code block that may be around all sections.

        Its language is Markdown; or it has none, nothing precedes it, and the sections are registered.
        """
        run = None if self._has_sections else opener_of(line)
        if run is None:
            return False
        language = line.strip().removeprefix(run).strip().lower()
        if language or self._has_text:
            return language in ("markdown", "md")
        return self._builder.outline().specs is not None

    def _after_fence(self, offset: int, line: str) -> None:
        """Read a line after a fence: if it is the header of a section, the code block is around the sections."""
        if not line.strip():
            self._may_be_around.append((offset, line))
            return
        run = opener_of(self._may_be_around[0][1])
        if self._spec(line) is not None:
            self._around, self._may_be_around = run, []
        else:
            self._flush_fence()
        self._line(offset, line)

    def _flush_fence(self) -> None:
        """Read the lines as those of any other code block."""
        lines, self._may_be_around = self._may_be_around, []
        for index, (offset, line) in enumerate(lines):
            self._line(offset, line) if index else self._text_line(offset, line)

    def _end_around(self) -> None:
        """End the code block around all sections, and with it the sections."""
        self._around, self._blank, self._has_line = None, None, False
        while self._builder.depth:
            self._builder.close()

    # Headers

    def _header(self, offset: int, line: str) -> bool:
        """Begin a section if the line is the header of one."""
        match = HEADER.fullmatch(line)
        if match is None:
            return False
        spec = self._spec(line)
        if spec is None:
            if len(match["marks"]) == self._level:
                self._report(match["name"].strip(), offset)
            return False
        self._blank = None  # the one before a header
        while self._builder.depth > len(match["marks"]) - self._level:
            self._builder.close()
        self._builder.open(spec, offset)
        self._has_line, self._has_sections = False, True
        return True

    def _spec(self, line: str) -> SectionSpec | None:
        match = HEADER.fullmatch(line)
        depth = len(match["marks"]) - self._level if match else -1
        if match is None or not 0 <= depth <= self._builder.depth:
            return None
        name, outline = match["name"].strip(), self._builder.outline(depth)
        bare = name.strip(DECORATION)
        return outline.find(bare if outline.is_unknown(name) and not outline.is_unknown(bare) else name)

    def _report(self, name: str, offset: int) -> None:
        """Report a header that is not a section's.

        Inside a section, only if it looks misspelled, because it may be text.
        """
        outline = self._builder.outline(0)
        if outline.is_unknown(name) and (not self._builder.depth or outline.nearest(name)):
            self._builder.unknown(name, offset)

    # Content

    def _unescaped(self, line: str) -> str:
        below = self._builder.depth > 0 and bool(self._builder.outline().specs)
        match = special_lines(self._level, self._level + max(self._builder.depth - 1, 0) + below).match(line)
        return line[: match.end("indent")] + line[match.end("indent") + 1 :] if match and match["slashes"] else line

    def _push(self, offset: int, line: str) -> None:
        """Add a line. A blank one is held back, as it is not content if a header follows."""
        if not line and self._has_line and self._builder.depth:
            self._flush_blank()
            self._blank = offset
        else:
            self._begin_line(offset)
            self._builder.text(line, offset)
            self._has_text = self._has_text or bool(line.strip())

    def _begin_line(self, offset: int) -> None:
        self._flush_blank()
        if self._has_line:
            self._builder.text("\n", offset - 1)
        self._has_line = True

    def _flush_blank(self) -> None:
        if self._blank is not None:
            self._builder.text("\n", self._blank - 1)
            self._blank = None


@lru_cache(maxsize=64)
def special_lines(level: int, deepest: int) -> "re.Pattern[str]":
    """Return a pattern of the lines that are escaped, or may have to be."""
    return re.compile(rf"(?P<indent> {{0,3}})(?P<slashes>\\*)(?:(?P<header>#{{{level},{deepest}}}[ \t])|`{{3}}|~{{3}})")
