"""Sections as YAML: `name: content`, with texts of several lines as literal blocks.

- Sections of one name in a row share a sequence. If a name occurs again later, a new document begins.
- Sections inside a section are a mapping; the text before them has the empty name, and a name that occurs again later
  is repeated.
- Content is text: numbers and dates are not converted. Contents that are not text are written as YAML, and read as
  their YAML text.

`yaml_reader` reads them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from claude_agent_py.formatting.builder import SectionBuilder
from claude_agent_py.formatting.encoders import Encoder, YAMLEncoder, plain
from claude_agent_py.formatting.notation import Notation, is_repeatable, split_mappings
from claude_agent_py.formatting.outline import NO_SECTIONS, Outline
from claude_agent_py.formatting.sections import Section
from claude_agent_py.formatting.source import Reading, TextSource
from claude_agent_py.formatting.text_format import TextFormat
from claude_agent_py.formatting.yaml_reader import ENTRY, ITEM, YAMLReader

SIMPLE = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,.!/()' -]*[A-Za-z0-9.!)])?")
"""A text that needs no quotation marks."""
NOT_TEXT = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}
"""Words that YAML does not read as text."""
ESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
STEP = "  "


class YAMLFormat(TextFormat):
    """Formats sections as YAML. Requires PyYAML (extra `tools`).

    Raises:
        ImportError: PyYAML is not installed.
    """

    def __init__(self) -> None:
        super().__init__(encoder=YAMLEncoder())

    def __repr__(self) -> str:
        return "YAMLFormat()"

    @override
    def encode(self, content: Any, encoder: Encoder | None = None) -> str:
        value = content if isinstance(content, str) else plain(content)
        return value if isinstance(value, str) else Notation((encoder or self.encoder).encode(value))

    @override
    def write(self, sections: Sequence[Section]) -> str:
        outline = self._build_outline()
        documents = ["\n".join(_format_entries(entries, outline)) for entries in split_mappings(sections, outline)]
        return "\n---\n".join(documents) + "\n"

    @override
    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        return YAMLReader(source, builder).read()

    @override
    def rules(self) -> str:
        rules = (
            "Write your answer as YAML: a mapping with an entry for each section. Write a text of several lines as a "
            "literal block, `name: |-`, and indent its lines. The entries of a section that may repeat are a sequence."
        )
        if any(spec.sections for spec in self.registered):
            rules += " A section with sections inside is a mapping of them."
        return rules


# Writing


def _format_entries(entries: Sequence[Sequence[Section]], outline: Outline) -> Iterator[str]:
    """Yield the lines of entries, without the indentation of the mapping."""
    for entry in entries:
        spec = outline.find(entry[0].name)
        inside = outline.inside(spec) if spec else NO_SECTIONS
        key = f"{_format_key(entry[0].name)}:"
        values = [list(_format_value(section, inside)) for section in entry]
        if len(values) == 1 and not (_is_list(values[0]) and is_repeatable(entry[0], outline)):
            yield f"{key} {values[0][0]}" if values[0][0] else key
            yield from (f"{STEP}{line}" if line else "" for line in values[0][1:])
        else:
            yield key
            for value in values:
                yield from _format_item(value)


def _format_item(value: list[str]) -> Iterator[str]:
    """Yield the lines of an item of a sequence."""
    first, *rest = value if value[0] else value[1:]
    yield f"{STEP}- {first}"
    yield from (f"{STEP}{STEP}{line}" if line else "" for line in rest)


def _is_list(value: list[str]) -> bool:
    return value[0].startswith("[") or (not value[0] and value[1].startswith("- "))


def _format_value(section: Section, inside: Outline) -> Iterator[str]:
    """Yield the text after the name, then the lines of a block."""
    text = section.content
    if section.sections:
        yield ""
        before = [[Section("", text)]] if text else []
        for entries in split_mappings(section.sections, inside):
            yield from _format_entries([*before, *entries], inside)
            before = []
    elif isinstance(text, Notation):
        lines = text.split("\n")
        yield from [text] if len(lines) == 1 and not (ENTRY.match(text) or ITEM.match(text)) else ["", *lines]
    else:
        yield from _format_text(text)


def _format_text(text: str) -> Iterator[str]:
    if _is_simple(text):
        yield text
    elif "\n" in text and all(line.isprintable() and (line.strip() or not line) for line in text.split("\n")):
        ends = len(text) - len(text.rstrip("\n"))
        body = text.rstrip("\n") or None
        if body is None:
            yield _quote(text)
            return
        indent = "2" if text[0] in " \n" else ""
        chomping = {0: "-", 1: ""}.get(ends, "+")
        yield f"|{indent}{chomping}"
        yield from (text[:-1] if ends else text).split("\n")
    else:
        yield _quote(text)


def _format_key(name: str) -> str:
    return name if _is_simple(name) else _quote(name)


def _is_simple(text: str) -> bool:
    return SIMPLE.fullmatch(text) is not None and text.lower() not in NOT_TEXT


def _quote(text: str) -> str:
    return f'"{"".join(_escape(char) for char in text)}"'


def _escape(char: str) -> str:
    if char in ESCAPED:
        return ESCAPED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"
