"""Sections as YAML: `name: content`, with texts of several lines as literal blocks.

- Sections of one name in a row share a sequence. If a name occurs again later, a new document begins.
- Sections inside a section are a mapping; the text before them has the empty name, and a name that occurs again later
  is repeated.
- Content is text: numbers and dates are not converted. Contents that are not text are written as YAML, and read as
  their YAML text.

Parsing begins at the end of the text. It finds the entries by their indentation and decodes their contents with PyYAML,
so that an error affects one entry. It accepts common deviations of models: code fences around the YAML, colons in plain
text, a list at the indentation of its name. Tags, anchors and aliases have no meaning.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, dropwhile
from textwrap import dedent
from typing import Any, NamedTuple

from typing_extensions import override

from claude_agent_py.formatting.builder import (
    Notation,
    Outline,
    Reading,
    SectionBuilder,
    TextSource,
    is_repeatable,
    split_mappings,
)
from claude_agent_py.formatting.encoders import YAMLEncoder, import_yaml, plain
from claude_agent_py.formatting.sections import ProblemKind, Section, SectionSpec
from claude_agent_py.formatting.text_format import TextFormat

LINE = re.compile(r"[^\n]*\n|[^\n]+")
ENTRY = re.compile(
    r"(?P<key>\"(?:[^\"\\]|\\.)*\"[ \t]*|'(?:[^']|'')*'[ \t]*|[^\s\"'#&*!|>%@`{}\[\],?:-](?:[^:]|:(?![ \t\r\n]|$))*)"
    r":(?=[ \t\r\n]|$)(?P<rest>.*)",
    re.DOTALL,
)
WORD = re.compile(r"[A-Za-z_][\w-]*")
BLOCK = re.compile(r"[|>](?:[+-]?[1-9]?|[1-9][+-])[ \t]*(?:#.*)?")
ITEM = re.compile(r"-(?:[ \t\r\n]|$)")
STRUCTURE = re.compile(r"(?:---|\.\.\.|```[A-Za-z]{0,20})[ \t\r\n]*")
LEAD_IN = re.compile(
    r"(?P<name>[^\s\"'#-].*):[ \t\r]*\n(?:(?:[ \t\r]*\n)*+```|(?:[ \t\r]*\n)++(?! |-(?:[ \t\r\n]|\Z)|\Z))"
)
"""A line such as `Here is my answer:`, followed by a code fence, or by a blank line without indented content."""
COMMENT = re.compile(r"(?:^|[ \t])#.*", re.MULTILINE)
BREAKS = re.compile(r"[ \t\r]*\n[ \t\r\n]*")

DEEPEST_FLOW = 50
"""The maximum nesting of a sequence in brackets. PyYAML takes quadratic time for deep nesting."""


class _Line(NamedTuple):
    text: str
    """With its line break."""
    offset: int

    @property
    def indent(self) -> int:
        """The number of spaces it starts with."""
        return len(self.text) - len(self.text.lstrip(" "))

    @property
    def body(self) -> str:
        return self.text.strip(" \t\r\n")

    def is_entry(self) -> bool:
        return ENTRY.match(self.text, self.indent) is not None

    def is_item(self) -> bool:
        return ITEM.match(self.text, self.indent) is not None


class YAMLReader:
    """Reads a text when it is complete: finds the entries by their indentation, and decodes contents with PyYAML."""

    def __init__(self, source: TextSource, builder: SectionBuilder) -> None:
        self._yaml = import_yaml()
        self._source = source
        self._builder = builder
        self._end = 0
        self._has_entries = False

    def read(self) -> Reading:
        """Read the whole text."""
        while not self._source.is_complete:
            yield
        text, _ = self._source.take(len(self._source.text))
        self._end = len(text)
        lines = deque(_Line(found[0], found.start()) for found in LINE.finditer(text))
        fence: int | None = None
        while lines:
            line = lines[0]
            if STRUCTURE.fullmatch(line.text):
                if line.text.startswith("```"):
                    fence = line.offset if fence is None else None
                self._builder.end_text()
                lines.popleft()
            elif line.text[0] in " -#" or self._is_lead_in(text, line.offset) or not self._try_entry(lines):
                self._builder.text(*lines.popleft())
        if fence is not None:
            self._builder.unclosed("", fence, "the code block around the sections has no end")

    def _is_lead_in(self, text: str, at: int) -> bool:
        """Return whether the line is text before the first section: its name is not registered."""
        found = None if self._has_entries else LEAD_IN.match(text, at)
        outline = self._builder.outline()
        return found is not None and (outline.specs is None or outline.is_unknown(found["name"].rstrip()))

    # Entries

    def _try_entry(self, lines: deque[_Line]) -> bool:
        """Read an entry of a mapping if the first line begins a section, and return whether it does."""
        line = lines[0]
        found = ENTRY.match(line.text, line.indent)
        if found is None:
            return False
        name = self._decode_name(found["key"].strip(" \t"))
        offset = line.offset + line.indent
        spec = self._builder.find(name)
        if spec is None and (name or not self._builder.depth):
            outline = self._builder.outline()
            if outline.is_unknown(name) and (WORD.fullmatch(name) or outline.nearest(name)):
                self._builder.unknown(name, offset)
            return False
        lines.popleft()
        self._has_entries = True
        rest = _Line(found["rest"], line.offset + found.start("rest"))
        has_items = not COMMENT.sub("", rest.text).strip()
        content = [rest, *_take_block(lines, line.indent, has_items=has_items)]
        if spec is None:
            # The empty name has the text before the sections inside.
            self._read_text(content, line.indent, offset)
        else:
            self._read_value(spec, content, line.indent, offset)
        return True

    def _read_value(self, spec: SectionSpec, lines: list[_Line], indent: int, offset: int) -> None:
        """Read what follows a name: a section, or a sequence of sections."""
        content = _skip_blank(lines)
        is_block = len(content) < len(lines)
        if spec.repeatable and content and is_block and content[0].is_item():
            self._read_items(spec, deque(content), content[0].indent)
        elif spec.repeatable and content and content[0].body[0] == "[":
            self._read_flow(spec, content, offset)
        else:
            self._read_section(spec, lines, indent, offset, is_block=is_block)

    def _read_items(self, spec: SectionSpec, lines: deque[_Line], indent: int) -> None:
        """Read the items of a sequence, each a section."""
        while lines:
            line = lines.popleft()
            if line.indent == indent and line.is_item():
                # The content of an item may begin on its line.
                first = _Line(" " * (indent + 1) + line.text[indent + 1 :], line.offset)
                item = [first, *_take_block(lines, indent)]
                is_block = first.is_item() or first.is_entry() or not first.body
                self._read_section(spec, item, indent, line.offset + indent, is_block=is_block)
            else:
                self._builder.text(*line)

    def _read_section(self, spec: SectionSpec, lines: list[_Line], indent: int, offset: int, *, is_block: bool) -> None:
        self._builder.open(spec, offset)
        content = _skip_blank(lines)
        if is_block and content and spec.sections and content[0].is_entry():
            self._read_entries(deque(content), content[0].indent)
        elif is_block and content and (content[0].is_item() or content[0].is_entry()):
            self._builder.text(_dedent(content, content[0].indent).strip("\n"), offset)
        elif content:
            self._read_text(content, indent, offset)
        if not self._is_last(lines):
            # The last section may be cut off.
            self._builder.close()

    def _read_entries(self, lines: deque[_Line], indent: int) -> None:
        """Read the sections inside one."""
        while lines:
            if not lines[0].body or lines[0].indent != indent or not self._try_entry(lines):
                self._builder.text(*lines.popleft())

    def _is_last(self, lines: list[_Line]) -> bool:
        """Return whether the text ends after these lines, so that it may be cut off there."""
        return lines[-1].offset + len(lines[-1].text) >= self._end

    # Content

    def _read_text(self, lines: list[_Line], indent: int, offset: int) -> None:
        """Read a text: in brackets, quoted, as a block, or plain."""
        text = (lines[0].text + _dedent(lines[1:], indent)).lstrip(" \t")
        if text[:1] in ("[", "{"):
            is_cut = self._is_last(lines) and deque(_count_open_brackets(text), 1)[0] > 0
            self._add(BREAKS.sub("\n", text.strip()), lines, offset, is_readable=not is_cut)
        elif text[:1] in ("'", '"') or BLOCK.fullmatch(lines[0].body):
            node = self._compose(text)
            is_readable = isinstance(node, self._yaml.ScalarNode)
            content = text.strip() if text[0] in "'\"" else dedent(text.partition("\n")[2])
            self._add(node.value if is_readable else content, lines, offset, is_readable=is_readable)
        else:
            text = COMMENT.sub("", text).strip(" \t\r\n")
            self._builder.text(BREAKS.sub(lambda breaks: "\n" * (breaks[0].count("\n") - 1) or " ", text), offset)

    def _read_flow(self, spec: SectionSpec, lines: list[_Line], offset: int) -> None:
        """Read a sequence in brackets whose items are sections."""
        text = "".join(line.text for line in lines).strip()
        contents = self._list_items(text)
        for content in [text] if contents is None else contents:
            self._builder.open(spec, offset)
            self._add(content, lines, offset, is_readable=contents is not None)
            self._builder.close()

    def _list_items(self, text: str) -> list[str] | None:
        """Return the items of a sequence in brackets, or None if it cannot be read."""
        node: Any = self._compose(text) if max(_count_open_brackets(text)) <= DEEPEST_FLOW else None
        # An alias is the same node again. Aliases have no meaning here, so do not resolve them.
        if not isinstance(node, self._yaml.SequenceNode) or len(set(map(id, node.value))) < len(node.value):
            return None
        return [
            item.value if isinstance(item, self._yaml.ScalarNode) else text[item.start_mark.index : item.end_mark.index]
            for item in node.value
        ]

    def _add(self, text: str, lines: list[_Line], offset: int, *, is_readable: bool) -> None:
        """Add content, and report it if it is not YAML."""
        name = self._builder.name
        self._builder.text(text, offset)
        if not is_readable:
            self._builder.leave_open()
            if self._is_last(lines):
                self._builder.unclosed(name, offset, f"the content of {name!r} has no end")
            else:
                self._builder.problem(ProblemKind.MALFORMED, name, offset, f"the content of {name!r} is not YAML")

    def _decode_name(self, text: str) -> str:
        """Return a name without its quotation marks."""
        node = self._compose(text) if text[0] in "\"'" else None
        return text if node is None else str(node.value)

    def _compose(self, text: str) -> Any:
        """Return the node of a YAML text, or None if it cannot be read."""
        try:
            return self._yaml.compose(text, Loader=self._yaml.SafeLoader)
        except (self._yaml.YAMLError, ValueError, OverflowError):
            return None


def _take_block(lines: deque[_Line], indent: int, *, has_items: bool = False) -> Iterator[_Line]:
    """Remove the lines that belong to an entry with this indentation: blank or indented, or items beside it."""
    while lines and (
        not lines[0].body
        or lines[0].indent > indent
        or (has_items and lines[0].indent == indent and lines[0].is_item())
    ):
        yield lines.popleft()


def _skip_blank(lines: list[_Line]) -> list[_Line]:
    """Return the lines from the first that is neither blank nor a comment."""
    return list(dropwhile(lambda line: line.body[:1] in ("", "#"), lines))


def _dedent(lines: Iterable[_Line], indent: int) -> str:
    """Return the text of lines without this indentation."""
    return "".join(line.text[min(indent, line.indent) :] if line.body else "\n" for line in lines)


def _count_open_brackets(text: str) -> Iterator[int]:
    """Yield the number of open brackets after each character."""
    return accumulate((char in "[{") - (char in "]}") for char in text)


SIMPLE = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,.!/()' -]*[A-Za-z0-9.!)])?")
"""A text that needs no quotation marks."""
NOT_TEXT = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}
"""Words that YAML does not read as text."""
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
    def encode(self, content: object) -> str:
        value = content if isinstance(content, str) else plain(content)
        return value if isinstance(value, str) else Notation(self.encoder.encode(value))

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
        inside = outline.inside(outline.find(entry[0].name))
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
        if len(lines) == 1 and not (ENTRY.match(text) or ITEM.match(text)):
            yield text
        else:
            yield ""
            yield from lines
    else:
        yield from _format_text(text)


def _format_text(text: str) -> Iterator[str]:
    body = text.rstrip("\n")
    lines = text.split("\n")
    if _is_simple(text):
        yield text
    elif not body or len(lines) == 1 or any(line.isspace() or not line.isprintable() for line in lines):
        yield _quote(text)
    else:
        indent = "2" if text[0] in " \n" else ""
        chomping = {0: "-", 1: ""}.get(len(text) - len(body), "+")
        yield f"|{indent}{chomping}"
        yield from text.removesuffix("\n").split("\n")


def _format_key(name: str) -> str:
    return name if _is_simple(name) else _quote(name)


def _is_simple(text: str) -> bool:
    return SIMPLE.fullmatch(text) is not None and text.lower() not in NOT_TEXT


def _quote(text: str) -> str:
    """Return a text in quotation marks. The escapes of JSON are also YAML's, except those of surrogate pairs."""
    return "".join(_escape(char) for char in json.dumps(text, ensure_ascii=False))


def _escape(char: str) -> str:
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"
