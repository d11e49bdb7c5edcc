r"""Sections as Markdown headers followed by their content.

These rules make sure that parsing returns the formatted sections exactly:

- A line that starts with the format's number of `#` and a space starts a section, except in a fenced code block.
- A line of content that would start a section is escaped with a backslash, as in Markdown: `\# name`. So are the
  opening of a code block that is never closed, and lines that already start with such a backslash.
- Sections are separated by a blank line, which is not part of the content.
"""

import re
from collections.abc import Iterator

from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.sections import Section
from claude_agent_py.formatting.text_format import TextFormat

FENCE = re.compile(r" {0,3}(?P<run>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)


class MarkdownFormat(TextFormat):
    """Formats sections as Markdown.

    Args:
        level: The level of the section headers, 1 to 6.
        encoder: Encodes contents that are not text; JSON by default.

    Raises:
        ValueError: `level` is out of range.
    """

    def __init__(self, *, level: int = 1, encoder: Encoder | None = None) -> None:
        if not 1 <= level <= 6:
            raise ValueError(f"level must be from 1 to 6, not {level}")
        super().__init__(encoder=encoder)
        self.level = level
        mark = "#" * level
        self._mark = mark
        self._header = re.compile(rf" {{0,3}}{mark}[ \t]+(?P<name>.*)", re.DOTALL)
        self._special = re.compile(rf"(?P<indent> {{0,3}})(?P<slashes>\\*)(?:{mark}[ \t]|`{{3}}|~{{3}})")

    def __repr__(self) -> str:
        return f"MarkdownFormat(level={self.level})"

    def _write(self, name: str, content: str) -> str:
        return f"{self._mark} {name}\n{self._escape(content)}"

    def _join(self, written: list[str]) -> str:
        return "\n\n".join(written)

    def _read(self, text: str, names: frozenset[str] | None) -> list[Section]:
        sections: list[Section] = []
        name, lines = "", list[str]()
        for line, in_code in _with_code(text.split("\n")):
            found = None if in_code else self._name(line, names)
            if found is None:
                lines.append(line if in_code else self._unescape(line))
                continue
            sections.append(Section(name, _before_header(lines, named=bool(name))))
            name, lines = found, []
        return [*sections, Section(name, "\n".join(lines))]

    def _name(self, line: str, names: frozenset[str] | None) -> str | None:
        match = self._header.fullmatch(line)
        name = match["name"].strip() if match else ""
        return name if name and (names is None or name in names) else None

    def _escape(self, content: str) -> str:
        return "\n".join(
            line if in_code or not self._needs_slash(line) else self._special.sub(_add_slash, line, count=1)
            for line, in_code in _with_code(content.split("\n"))
        )

    def _needs_slash(self, line: str) -> bool:
        match = self._special.match(line)
        if match is None:
            return False
        return bool(match["slashes"]) or self._header.match(line) is not None or _opener(line) is not None

    def _unescape(self, line: str) -> str:
        match = self._special.match(line)
        return line[: match.end("indent")] + line[match.end("indent") + 1 :] if match and match["slashes"] else line

    def _rules(self) -> str:
        return (
            f"Write your answer in sections. Start each section with a header line, `{self._mark} name`. If a line of "
            f"content outside a fenced code block starts with `{self._mark} `, escape it: `\\{self._mark} `."
        )


def _add_slash(match: "re.Match[str]") -> str:
    at = match.end("indent") - match.start()
    return f"{match[0][:at]}\\{match[0][at:]}"


def _before_header(lines: list[str], *, named: bool) -> str:
    """Join content lines, without the blank line before the next header."""
    if named and len(lines) > 1 and not lines[-1]:
        lines = lines[:-1]
    return "\n".join(lines)


def _with_code(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it is part of a fenced code block. Fences that are never closed are ignored."""
    closable = _longest_closers(lines)
    fence: str | None = None
    for index, line in enumerate(lines):
        if fence is not None:
            yield line, True
            if _closes(line, fence):
                fence = None
            continue
        opener = _opener(line)
        if opener is not None and closable[index].get(opener[0], 0) >= len(opener):
            fence = opener
        yield line, fence is not None


def _opener(line: str) -> str | None:
    """Return the backticks or tildes that open a code block at this line, or None."""
    match = FENCE.fullmatch(line)
    if match is None or (match["run"][0] == "`" and "`" in match["info"]):
        return None
    return match["run"]


def _closes(line: str, fence: str) -> bool:
    run = _closer(line)
    return run is not None and run[0] == fence[0] and len(run) >= len(fence)


def _closer(line: str) -> str | None:
    match = FENCE.fullmatch(line)
    return match["run"] if match and not match["info"].strip(" \t") else None


def _longest_closers(lines: list[str]) -> list[dict[str, int]]:
    """Return, for each line, the lengths of the longest closing fences after it, by fence character."""
    after: list[dict[str, int]] = []
    longest: dict[str, int] = {}
    for line in reversed(lines):
        after.append(longest)
        run = _closer(line)
        if run is not None and len(run) > longest.get(run[0], 0):
            longest = {**longest, run[0]: len(run)}
    return after[::-1]
