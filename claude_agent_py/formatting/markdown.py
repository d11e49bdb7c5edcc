r"""Sections as Markdown headers followed by their content.

These rules make sure that parsing returns the formatted sections exactly:

- A line that starts with the format's number of `#`, a space and the name of a section starts that section, except in
  a fenced code block. Each further `#` is one level deeper: sections inside sections.
- A line of content that could start a section is escaped with a backslash, as in Markdown: `\# name`. So are the
  opening of a code block that is never closed, and lines that already start with such a backslash.
- Sections are separated by a blank line, which is not part of the content.
"""

import re
from collections.abc import Sequence

from typing_extensions import override

from claude_agent_py.formatting.builder import SectionBuilder
from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.fences import find_opener, mark_code_lines
from claude_agent_py.formatting.markdown_reader import MarkdownReader, special_lines
from claude_agent_py.formatting.outline import NO_SECTIONS, Outline
from claude_agent_py.formatting.sections import Section, SectionSpec
from claude_agent_py.formatting.source import Reading, TextSource
from claude_agent_py.formatting.text_format import TextFormat

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
        spec = outline.find(section.name)
        inside = outline.inside(spec) if spec else NO_SECTIONS
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
