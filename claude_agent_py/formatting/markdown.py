r"""Sections as Markdown headers followed by their content.

These rules make sure that parsing returns the formatted sections exactly:

- A line that starts with the format's number of `#`, a space and the name of a section starts that section, except in
  a fenced code block. Each further `#` is one level deeper: sections inside sections.
- A line of content that could start a section is escaped with a backslash, as in Markdown: `\# name`. So are the
  opening of a code block that is never closed, and lines that already start with such a backslash.
- Sections are separated by a blank line, which is not part of the content.
"""

import re
from collections.abc import Generator, Iterator, Sequence

from typing_extensions import override

from claude_agent_py.formatting.builder import Outline, Reading, SectionBuilder, TextSource
from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.sections import Section, SectionSpec
from claude_agent_py.formatting.text_format import TextFormat

FENCE = re.compile(r" {0,3}(?P<run>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)


def mark_code_lines(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it is part of a fenced code block. Fences that are never closed are ignored."""
    closable = _longest_closers(lines)
    fence: str | None = None
    for index, line in enumerate(lines):
        if fence is not None:
            yield line, True
            if closes(line, fence):
                fence = None
            continue
        opener = find_opener(line)
        if opener is not None and closable[index].get(opener[0], 0) >= len(opener):
            fence = opener
        yield line, fence is not None


def find_opener(line: str) -> str | None:
    """Return the backticks or tildes that open a code block at this line, or None."""
    match = FENCE.fullmatch(line)
    if match is None or (match["run"][0] == "`" and "`" in match["info"]):
        return None
    return match["run"]


def closes(line: str, fence: str) -> bool:
    """Return whether a line closes the code block that `fence` opened."""
    run = _match_closer(line)
    return run is not None and run[0] == fence[0] and len(run) >= len(fence)


def _match_closer(line: str) -> str | None:
    match = FENCE.fullmatch(line)
    return match["run"] if match and not match["info"].strip(" \t") else None


def _longest_closers(lines: list[str]) -> list[dict[str, int]]:
    """Return, for each line, the lengths of the longest closing fences after it, by fence character."""
    after: list[dict[str, int]] = []
    longest: dict[str, int] = {}
    for line in reversed(lines):
        after.append(longest)
        run = _match_closer(line)
        if run is not None and len(run) > longest.get(run[0], 0):
            longest = {**longest, run[0]: len(run)}
    return after[::-1]


HEADER = re.compile(r" {0,3}(?P<marks>#{1,6})[ \t]+(?P<name>.*)", re.DOTALL)
START = re.compile(r" {0,3}[^ ]| {4}")
"""The shortest part of a line that shows whether the line is special."""
DECORATION = "*_:# \t"
"""Characters that models add around the name in a header, as in `# **Answer:**`."""
SPECIAL = re.compile(r" {0,3}[#\\`~]")
"""The start of a line that is a header, a fence, or escaped."""


class MarkdownReader:
    """Reads lines. A line that cannot be structure is passed on before it is complete.

    An opening fence only counts if it is closed. Until then, lines that would be read differently without the fence,
    and all lines after them, are held back.
    """

    def __init__(self, level: int, source: TextSource, builder: SectionBuilder) -> None:
        self._level = level
        self._source = source
        self._builder = builder
        self._fence: str | None = None
        self._fence_offset = 0
        self._held_lines: list[tuple[int, str]] = []
        self._has_line = False
        self._held_blank: int | None = None
        self._wrapper_fence: str | None = None
        self._wrapper_offset = 0
        self._wrapper_candidate: list[tuple[int, str]] = []
        self._has_sections = False
        self._has_text = False

    def read(self) -> Reading:
        """Read the whole text."""
        is_last = False
        while not is_last:
            while not (START.match(self._source.text, self._source.at) or self._source.is_complete):
                yield
            start = self._source.text[self._source.at : self._source.at + 4]
            if self._held_lines or self._wrapper_candidate or start[:1] in ("", "\n") or SPECIAL.match(start):
                offset = self._source.offset
                line = (yield from self._source.line()) or ""
                self._read_line(offset, line.removesuffix("\n"))
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

    def _read_line(self, offset: int, line: str) -> None:
        if self._wrapper_candidate:
            self._read_after_fence(offset, line)
        elif self._fence is None:
            if self._wrapper_fence is not None and closes(line, self._wrapper_fence):
                self._end_wrapper()
            elif self._may_wrap_sections(line):
                self._wrapper_candidate = [(offset, line)]
            elif not self._try_header(offset, line):
                self._read_text_line(offset, line)
        elif closes(line, self._fence):
            for held_offset, held in [*self._held_lines, (offset, line)]:
                self._push(held_offset, held)
            self._fence = None
            self._held_lines = []
        elif self._held_lines or self._find_spec(line) or self._unescape(line) != line or FENCE.fullmatch(line):
            self._held_lines.append((offset, line))
        else:
            self._push(offset, line)

    def _read_text_line(self, offset: int, line: str) -> None:
        self._fence = find_opener(line)
        if self._fence is not None:
            self._fence_offset = offset
        self._push(offset, self._unescape(line))

    def _finish(self) -> None:
        self._flush_fence()
        if self._fence is not None:
            if self._builder.depth:
                name = self._builder.name
                self._builder.leave_open()
                self._builder.unclosed(name, self._fence_offset, f"a code block in section {name!r} has no end")
            lines = [line for _, line in self._held_lines]
            for (offset, line), (_, in_code) in zip(self._held_lines, mark_code_lines(lines), strict=True):
                if in_code:
                    self._push(offset, line)
                elif not self._try_header(offset, line):
                    self._push(offset, self._unescape(line))
        self._flush_blank()
        if self._wrapper_fence is not None:
            self._builder.unclosed("", self._wrapper_offset, "the code block around the sections has no end")

    # A code block around all sections

    def _may_wrap_sections(self, line: str) -> bool:
        """Return whether a line opens a code block that may be around all sections.

        Its language is Markdown; or it has none, nothing precedes it, and the sections are registered.
        """
        run = None if self._has_sections else find_opener(line)
        if run is None:
            return False
        language = line.strip().removeprefix(run).strip().lower()
        if language or self._has_text:
            return language in ("markdown", "md")
        return self._builder.outline().specs is not None

    def _read_after_fence(self, offset: int, line: str) -> None:
        """Read a line after a fence: if it is the header of a section, the code block wraps the sections."""
        if not line.strip():
            self._wrapper_candidate.append((offset, line))
            return
        run = find_opener(self._wrapper_candidate[0][1])
        if self._find_spec(line) is not None:
            self._wrapper_fence = run
            self._wrapper_offset = self._wrapper_candidate[0][0]
            self._wrapper_candidate = []
        else:
            self._flush_fence()
        self._read_line(offset, line)

    def _flush_fence(self) -> None:
        """Read the held lines as an ordinary code block."""
        lines, self._wrapper_candidate = self._wrapper_candidate, []
        for index, (offset, line) in enumerate(lines):
            if index:
                self._read_line(offset, line)
            else:
                self._read_text_line(offset, line)

    def _end_wrapper(self) -> None:
        """End the code block around all sections, and with it the sections."""
        self._wrapper_fence = None
        self._held_blank = None
        self._has_line = False
        while self._builder.depth:
            self._builder.close()

    # Headers

    def _try_header(self, offset: int, line: str) -> bool:
        """Begin a section if the line is its header, and return whether it is."""
        match = HEADER.fullmatch(line)
        if match is None:
            return False
        spec = self._find_spec(line)
        if spec is None:
            if len(match["marks"]) == self._level:
                self._report_unknown(match["name"].strip(), offset)
            return False
        # The blank line before a header is a separator, not content.
        self._held_blank = None
        while self._builder.depth > len(match["marks"]) - self._level:
            self._builder.close()
        self._builder.open(spec, offset)
        self._has_line = False
        self._has_sections = True
        return True

    def _find_spec(self, line: str) -> SectionSpec | None:
        match = HEADER.fullmatch(line)
        depth = len(match["marks"]) - self._level if match else -1
        if match is None or not 0 <= depth <= self._builder.depth:
            return None
        name = match["name"].strip()
        outline = self._builder.outline(depth)
        bare = name.strip(DECORATION)
        if outline.is_unknown(name) and not outline.is_unknown(bare):
            name = bare
        return outline.find(name)

    def _report_unknown(self, name: str, offset: int) -> None:
        """Report a header with an unknown name.

        Inside a section, a header is reported only if its name looks misspelled, because it may be content.
        """
        outline = self._builder.outline(0)
        if outline.is_unknown(name) and (not self._builder.depth or outline.nearest(name)):
            self._builder.unknown(name, offset)

    # Content

    def _unescape(self, line: str) -> str:
        below = self._builder.depth > 0 and bool(self._builder.outline().specs)
        match = special_lines(self._level, self._level + max(self._builder.depth - 1, 0) + below).match(line)
        if match is None or not match["slashes"]:
            return line
        slash = match.end("indent")
        return line[:slash] + line[slash + 1 :]

    def _push(self, offset: int, line: str) -> None:
        """Add a line. A blank line is held back, because it is not content if a header follows."""
        if not line and self._has_line and self._builder.depth:
            self._flush_blank()
            self._held_blank = offset
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
        if self._held_blank is not None:
            self._builder.text("\n", self._held_blank - 1)
            self._held_blank = None


def special_lines(level: int, deepest: int) -> "re.Pattern[str]":
    """Return a pattern of the lines that are escaped, or may have to be."""
    return re.compile(rf"(?P<indent> {{0,3}})(?P<slashes>\\*)(?:(?P<header>#{{{level},{deepest}}}[ \t])|`{{3}}|~{{3}})")


MAX_LEVEL = 6
"""The last level of headers in Markdown."""


class MarkdownFormat(TextFormat):
    """Formats sections as Markdown.

    Args:
        level: The level of the section headers, 1 to 6. Sections inside sections have the next level.
        encoder: Encodes contents that are not text; JSON by default.

    Raises:
        ValueError: `level` is out of range.
    """

    def __init__(self, *, level: int = 1, encoder: Encoder | None = None) -> None:
        if not 1 <= level <= MAX_LEVEL:
            raise ValueError(f"level must be from 1 to {MAX_LEVEL}, not {level}")
        super().__init__(encoder=encoder)
        self.level = level

    def __repr__(self) -> str:
        return f"MarkdownFormat(level={self.level})"

    @override
    def check(self, spec: SectionSpec) -> None:
        if self.level + _count_levels(spec) > MAX_LEVEL:
            raise ValueError(f"Markdown has {MAX_LEVEL} levels of headers; {spec.name!r} needs more")

    @override
    def write(self, sections: Sequence[Section]) -> str:
        return self._write(sections, self._build_outline(), 0)

    def _write(self, sections: Sequence[Section], outline: Outline, depth: int) -> str:
        return "\n\n".join(self._format_section(section, outline, depth) for section in sections)

    def _format_section(self, section: Section, outline: Outline, depth: int) -> str:
        inside = outline.inside(outline.find(section.name))
        header = "#" * (self.level + depth) + f" {section.name}"
        content = _escape(section.content, self.level, self.level + depth + bool(inside.specs))
        if not section.sections:
            return f"{header}\n{content}"
        before = f"{header}\n{content}" if content else header
        return f"{before}\n\n{self._write(section.sections, inside, depth + 1)}"

    @override
    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        return MarkdownReader(self.level, source, builder).read()

    @override
    def rules(self) -> str:
        mark = "#" * self.level
        rules = (
            f"Write your answer in sections. Start each section with a header line, `{mark} name`. If a line of "
            f"content outside a fenced code block starts with `{mark} `, escape it: `\\{mark} `."
        )
        if any(spec.sections for spec in self.registered):
            rules += f" A section inside another one has one more `#`: `{mark}# name`."
        return rules


def _count_levels(spec: SectionSpec) -> int:
    """Return how many levels of sections are inside a section."""
    return max((1 + _count_levels(inside) for inside in spec.sections), default=0)


def _escape(content: str, level: int, deepest: int) -> str:
    special = special_lines(level, deepest)
    lines = mark_code_lines(content.split("\n"))
    return "\n".join(line if in_code else _escape_line(line, special.match(line)) for line, in_code in lines)


def _escape_line(line: str, match: "re.Match[str] | None") -> str:
    if match is None or not (match["slashes"] or match["header"] or find_opener(line)):
        return line
    return f"{line[: match.end('indent')]}\\{line[match.end('indent') :]}"
