"""Sections as YAML: `name: content`, with texts of several lines as literal blocks.

- Sections of one name in a row share a sequence. If a name occurs again later, a new document begins.
- Sections inside a section are a mapping; the text before them has the empty name, and a name that occurs again later
  is repeated.
- Content is text: numbers and dates are not converted. Contents that are not text are written as YAML, and read as
  their YAML text.

Parsing is line by line, and accepts common deviations of models: code fences around the YAML, colons in plain text, a
list at the indentation of its name. Tags, anchors and aliases have no meaning. PyYAML only decodes quoted and folded
text.
"""

import json
import re
from collections import deque
from collections.abc import Generator, Iterator, Sequence
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
from claude_agent_py.formatting.encoders import YAMLEncoder, plain
from claude_agent_py.formatting.sections import ProblemKind, Section, SectionSpec
from claude_agent_py.formatting.text_format import TextFormat

ENTRY = re.compile(
    r"(?P<key>\"(?:[^\"\\]|\\.)*\"[ \t]*|'(?:[^']|'')*'[ \t]*|[^\s\"'#&*!|>%@`{}\[\],?:-](?:[^:]|:(?![ \t]|$))*)"
    r":(?=[ \t]|$)(?P<rest>.*)",
    re.DOTALL,
)
WORD = re.compile(r"[A-Za-z_][\w-]*")
BLOCK = re.compile(r"[|>](?P<first>[+-]|[1-9])?(?P<second>[+-]|[1-9])?[ \t]*(?:#.*)?")
ITEM = re.compile(r"-(?:[ \t]|$)")
STRUCTURE = re.compile(r"(?:---|\.\.\.|```[A-Za-z]{0,20})[ \t]*")
LEAD_IN = re.compile(r"(?P<name>[^\s\"'#-].*?)[ \t]*:[ \t]*", re.DOTALL)
COMMENT = re.compile(r"(?:^|[ \t])#.*", re.DOTALL)

DEEPEST_FLOW = 50
"""The maximum nesting of a sequence in brackets. PyYAML takes quadratic time for deep nesting."""


class _Line(NamedTuple):
    text: str
    """Without its line break."""
    offset: int
    is_whole: bool
    """Whether it has a line break."""

    @property
    def indent(self) -> int:
        """The number of spaces it starts with."""
        return len(self.text) - len(self.text.lstrip(" "))

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def body(self) -> str:
        return self.text.strip(" \t")


class YAMLReader:
    """Reads line by line. Blocks are passed on as their lines arrive, other text when it is complete."""

    def __init__(self, source: TextSource, builder: SectionBuilder) -> None:
        import yaml

        self._yaml: Any = yaml
        self._source = source
        self._builder = builder
        self._next: _Line | None = None
        self._later: deque[_Line] = deque()
        """Lines after `_next` that were read ahead."""
        self._has_entries = False

    def read(self) -> Reading:
        """Read the whole text."""
        while (line := (yield from self._peek())) is not None:
            if STRUCTURE.fullmatch(line.text):
                self._builder.end_text()
                self._next = None
                continue
            is_text = line.text[:1] in (" ", "-", "#") or (yield from self._is_lead_in(line))
            if is_text or not (yield from self._try_entry(line)):
                self._pass_line(line)

    def _pass_line(self, line: _Line) -> None:
        self._next = None
        self._builder.text(line.text + "\n" * line.is_whole, line.offset)

    def _peek(self) -> Generator[None, None, _Line | None]:
        """Return the next line without reading it, or None at the end."""
        if self._next is None and self._later:
            self._next = self._later.popleft()
        if self._next is None:
            offset = self._source.offset
            raw = yield from self._source.line()
            if raw is not None:
                self._next = _Line(raw.removesuffix("\n").removesuffix("\r"), offset, raw.endswith("\n"))
        return self._next

    def _peek_inside(self, indent: int, *, lists: bool = False) -> Generator[None, None, _Line | None]:
        """Return the next line if it is blank or belongs to the entry with this indentation, or None."""
        line = yield from self._peek()
        if line is None or line.is_blank:
            return line
        is_item = lists and line.indent == indent and ITEM.match(line.text, indent) is not None
        return line if line.indent > indent or is_item else None

    def _is_lead_in(self, line: _Line) -> Generator[None, None, bool]:
        """Return whether a line such as `Here is my answer:` is text before the first section.

        This is so if its name is not registered, and a code fence or a blank line without indented content follows.
        """
        found = LEAD_IN.fullmatch(line.text)
        outline = self._builder.outline()
        if self._has_entries or found is None or not (outline.specs is None or outline.is_unknown(found["name"])):
            return False
        self._next = None
        lines = [line]
        while (after := (yield from self._peek())) is not None:
            self._next = None
            lines.append(after)
            if not after.is_blank:
                break
        self._next = line
        self._later.extend(lines[1:])
        if after is None:
            return False
        is_apart = len(lines) > 2 and not after.indent and not ITEM.match(after.text)
        return is_apart or after.text.startswith("```")

    # Entries

    def _try_entry(self, line: _Line) -> Generator[None, None, bool]:
        """Read an entry of a mapping if the line begins a section, and return whether it does."""
        found = ENTRY.fullmatch(line.text, line.indent)
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
        self._next = None
        self._has_entries = True
        rest = found["rest"].strip(" \t")
        if spec is None:
            # The empty name has the text before the sections inside.
            yield from self._read_content(rest or '""', line.indent, offset)
        elif rest and not COMMENT.match(rest):
            yield from self._read_inline(spec, rest, line.indent, offset)
        else:
            yield from self._read_block(spec, line.indent, offset)
        return True

    def _read_inline(self, spec: SectionSpec, rest: str, indent: int, offset: int) -> Reading:
        """Read a section whose content starts on the line of its name."""
        if rest[0] == "[" and spec.repeatable:
            yield from self._read_flow(spec, rest, indent, offset)
        else:
            self._builder.open(spec, offset)
            yield from self._read_content(rest, indent, offset)
            yield from self._close_section()

    def _read_block(self, spec: SectionSpec, indent: int, offset: int, *, is_item: bool = False) -> Reading:
        """Read a section whose content starts on the line after its name."""
        line = yield from self._peek_inside(indent, lists=not is_item)
        while line is not None and (line.is_blank or line.body.startswith("#")):
            self._next = None
            line = yield from self._peek_inside(indent, lists=not is_item)
        if line is not None and spec.repeatable and not is_item and ITEM.match(line.text, line.indent):
            yield from self._read_items(spec, line.indent)
            return
        self._builder.open(spec, offset)
        if line is not None:
            if spec.sections and ENTRY.fullmatch(line.text, line.indent):
                yield from self._read_nested(indent, line.indent)
            elif ITEM.match(line.text, line.indent) or ENTRY.fullmatch(line.text, line.indent):
                yield from self._read_raw(indent, line.indent)
            else:
                self._next = None
                yield from self._read_content(line.body, indent, line.offset + line.indent)
        yield from self._close_section()

    def _close_section(self) -> Reading:
        """End a section, unless the text ends: it may be cut off."""
        if (yield from self._peek()) is not None:
            self._builder.close()

    def _read_nested(self, outer: int, indent: int) -> Reading:
        """Read the sections inside one."""
        while (line := (yield from self._peek_inside(outer))) is not None:
            if line.is_blank or line.indent != indent or not (yield from self._try_entry(line)):
                self._pass_line(line)

    def _read_items(self, spec: SectionSpec, indent: int) -> Reading:
        """Read the items of a sequence, each a section."""
        while True:
            line = yield from self._peek()
            if line is None or not (line.is_blank or (line.indent == indent and ITEM.match(line.text, indent))):
                return
            self._next = None
            if line.is_blank:
                continue
            offset = line.offset + indent
            rest = line.text[indent + 1 :].strip(" \t")
            if not rest or ITEM.match(rest) or ENTRY.fullmatch(rest):
                if rest:
                    self._next = line._replace(text=f"{' ' * (indent + 1)}{line.text[indent + 1 :]}")
                yield from self._read_block(spec, indent, offset, is_item=True)
            else:
                self._builder.open(spec, offset)
                yield from self._read_content(rest, indent, offset)
                yield from self._close_section()

    # Content

    def _read_content(self, rest: str, indent: int, offset: int) -> Reading:
        """Read text that begins with `rest`."""
        block = BLOCK.fullmatch(rest)
        if block is not None and rest[0] == "|":
            yield from self._read_literal(block, indent)
            return
        if rest[0] in "[{":
            yield from self._read_raw_flow(rest, indent, offset)
            return
        lines = [rest]
        while (line := (yield from self._peek_inside(indent))) is not None:
            self._next = None
            lines.append(line.text)
        if block is not None or rest[0] in "\"'":
            yield from self._read_scalar("\n".join(lines), offset)
        else:
            self._builder.text(_fold_lines(lines), offset)

    def _read_literal(self, block: "re.Match[str]", parent: int) -> Reading:
        """Pass on the lines of a literal block, without their indentation."""
        marks = {block["first"], block["second"]}
        digits = [int(mark) for mark in marks if mark and mark.isdigit()]
        indent = parent + digits[0] if digits else None
        feeds = 0
        has_text = False
        while (line := (yield from self._peek_inside(parent))) is not None:
            if not line.is_blank:
                indent = line.indent if indent is None else indent
                if line.indent < indent:
                    break
            self._next = None
            text = "" if indent is None else line.text[indent:]
            if text:
                self._builder.text("\n" * feeds + text, line.offset)
                feeds = 0
                has_text = True
            feeds += line.is_whole
        if "+" not in marks:
            feeds = 0 if "-" in marks else min(feeds, has_text)
        self._builder.text("\n" * feeds, self._source.offset)

    def _read_raw(self, parent: int, indent: int) -> Reading:
        """Pass on the lines of a block verbatim, without their indentation."""
        feeds = 0
        while (line := (yield from self._peek_inside(parent, lists=indent == parent))) is not None:
            self._next = None
            if line.is_blank:
                feeds += 1
                continue
            self._builder.text("\n" * feeds + line.text[min(indent, line.indent) :], line.offset)
            feeds = 1

    def _read_raw_flow(self, rest: str, parent: int, offset: int) -> Reading:
        """Pass on a mapping or a sequence in brackets verbatim."""
        open_brackets = _count_open_brackets(rest)
        self._builder.text(rest, offset)
        while (line := (yield from self._peek_inside(parent))) is not None:
            self._next = None
            if not line.is_blank:
                open_brackets += _count_open_brackets(line.text)
                self._builder.text(f"\n{line.text.strip(' ')}", line.offset)
        if open_brackets > 0 and (yield from self._peek()) is None:
            self._builder.leave_open()
            self._builder.unclosed(self._builder.name, offset, "a bracket is not closed")

    def _read_flow(self, spec: SectionSpec, rest: str, parent: int, offset: int) -> Reading:
        """Read a sequence in brackets whose items are sections."""
        lines = [rest]
        while (line := (yield from self._peek_inside(parent))) is not None:
            self._next = None
            lines.append(line.text)
        text = "\n".join(lines)
        nodes = self._compose_items(text)
        if nodes is None:
            self._builder.open(spec, offset)
            yield from self._pass_malformed(text, offset)
            self._builder.close()
            return
        for node in nodes:
            self._builder.open(spec, offset)
            is_text = isinstance(node, self._yaml.ScalarNode)
            self._builder.text(node.value if is_text else text[node.start_mark.index : node.end_mark.index], offset)
            self._builder.close()

    def _compose_items(self, text: str) -> list[Any] | None:
        """Return the nodes of a sequence in brackets, or None if it cannot be read."""
        depth = deepest = 0
        for char in text:
            depth += (char in "[{") - (char in "]}")
            deepest = max(deepest, depth)
        node: Any = self._compose(text) if deepest <= DEEPEST_FLOW else None
        if not isinstance(node, self._yaml.SequenceNode):
            return None
        nodes: list[Any] = node.value
        # An alias is the same node again. Aliases have no meaning here, so do not resolve them.
        has_aliases = len({id(node) for node in nodes}) < len(nodes)
        return None if has_aliases else nodes

    def _read_scalar(self, text: str, offset: int) -> Reading:
        """Pass on a quoted or folded text."""
        node = self._compose(text)
        if isinstance(node, self._yaml.ScalarNode):
            self._builder.text(node.value, offset)
        else:
            yield from self._pass_malformed(text, offset)

    def _pass_malformed(self, text: str, offset: int) -> Reading:
        """Pass on a text that is not YAML verbatim, and report it."""
        self._builder.text(text, offset)
        self._builder.leave_open()
        if (yield from self._peek()) is None:
            self._builder.unclosed(self._builder.name, offset, f"the content of {self._builder.name!r} has no end")
        else:
            detail = f"the content of {self._builder.name!r} is not YAML"
            self._builder.problem(ProblemKind.MALFORMED, self._builder.name, offset, detail)

    def _decode_name(self, text: str) -> str:
        """Return a name without its quotation marks."""
        if text[0] not in "\"'":
            return text
        node = self._compose(text)
        return text if node is None else str(node.value)

    def _compose(self, text: str) -> Any:
        """Return the node of a YAML text, or None if it cannot be read."""
        try:
            return self._yaml.compose(text, Loader=self._yaml.SafeLoader)
        except (self._yaml.YAMLError, ValueError, OverflowError):
            return None


def _count_open_brackets(text: str) -> int:
    """Return the number of brackets that a text leaves open."""
    return text.count("[") + text.count("{") - text.count("]") - text.count("}")


def _fold_lines(lines: list[str]) -> str:
    """Join the lines of a plain text as YAML does: line breaks become spaces, blank lines become line breaks."""
    parts: list[str] = []
    feeds = 0
    for line in lines:
        text = COMMENT.sub("", line).strip(" \t")
        if not text:
            feeds += 1
            continue
        parts += [("\n" * feeds or " ") if parts else "", text]
        feeds = 0
    return "".join(parts)


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
    def encode(self, content: Any) -> str:
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
