"""Sections as a JSON object: `{"name": "content", ...}`.

- Sections of one name in a row share an array. If a name occurs again later, an array of objects takes all sections.
- Sections inside a section form a nested object; the text before them has the empty name, and a name that occurs again
  later is repeated.
- Content is a string. Contents that are not text are written as JSON, and read as their JSON text.

Parsing is lenient: it finds objects in a text and in code fences, allows line breaks in strings, extra commas and
missing arrays, and keeps the available part of a truncated object.
"""

import json
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial

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
from claude_agent_py.formatting.encoders import JSONEncoder
from claude_agent_py.formatting.sections import ProblemKind, Section, SectionSpec
from claude_agent_py.formatting.text_format import TextFormat

SPACE = r"[ \t\r\n]{0,80}"
FENCE = r"```[A-Za-z]{0,20}[ \t]{0,20}"
START = re.compile(rf"(?P<fence>{FENCE}\r?\n{SPACE})?(?P<start>\{{(?={SPACE}[\"}}])|\[(?={SPACE}\{{))")
CUT = re.compile(rf"(?:`{{1,2}}|{FENCE}(?:\r?|\r?\n{SPACE}(?:[{{\[]{SPACE})?)|[{{\[]{SPACE})\Z")
"""An incomplete start, which the next chunk may complete."""
LONGEST = 250
"""Longer than any start."""
END_FENCE = re.compile(r"`*")

WHITE = re.compile(r"[ \t\r\n]*")
SCALAR = re.compile(r"[^\s\"{}\[\],:]*")
BETWEEN = re.compile(r"[^\"{}\[\]]*")
HIGH = r"u[dD][89abAB][0-9a-fA-F]{2}"
"""The first escape sequence of a surrogate pair."""
PART = re.compile(
    rf"(?:[^\"\\]++|\\(?:[^u]|(?!{HIGH})u[0-9a-fA-F]{{4}}|{HIGH}(?=[^\\]|\\[^u]|\\u.{{4}})|"
    r"u(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])))*+",
    re.DOTALL,
)
"""A part of a string that no later text changes: it does not end in an escape sequence or between surrogates."""
ESCAPE = re.compile(r"\\(?P<rest>[\"\\/bfnrt]|u[0-9a-fA-F]{4})?")

Take = Callable[[str, int], None]
"""Receives a text and its offset."""


def _ignore(text: str, offset: int) -> None:
    """Receive a text that has no meaning, such as white space."""


class JSONReader:
    """Finds objects in a text and reads their structure. Strings are passed on while they arrive.

    Reading an object raises EOFError if the text ends inside it, and ValueError if what follows is not JSON.
    """

    def __init__(self, source: TextSource, builder: SectionBuilder) -> None:
        self._source = source
        self._builder = builder

    def read(self) -> Reading:
        """Read the whole text."""
        source = self._source
        while True:
            found = START.search(source.text, source.at)
            self._builder.text(*source.take(found.start() if found else self._find_cut()))
            if found is not None:
                source.at = found.start("start")
                yield from self._read_document(found["start"])
                if found["fence"]:
                    with suppress(EOFError):
                        yield from self._pass(WHITE)
                        yield from self._pass(END_FENCE)
            elif source.is_complete:
                return
            else:
                yield

    def _find_cut(self) -> int:
        text = self._source.text
        cut = None if self._source.is_complete else CUT.search(text, max(self._source.at, len(text) - LONGEST))
        return cut.start() if cut else len(text)

    def _read_document(self, char: str) -> Reading:
        builder = self._builder
        builder.end_text()
        offset = self._source.offset
        try:
            yield from self._read_items("]", self._read_object) if char == "[" else self._read_object(char)
        except EOFError:
            if not builder.depth:
                builder.unclosed("", offset, "the JSON has no end")
            while builder.depth:
                builder.close(is_closed=False)
        except ValueError as error:
            builder.problem(ProblemKind.MALFORMED, builder.name, self._source.offset, str(error))
            while builder.depth:
                builder.leave_open()
                builder.close()

    # Objects and arrays

    def _read_items(self, end: str, read: Callable[[str], Reading]) -> Reading:
        """Read an object or an array. `read` reads an item, and receives its first character."""
        self._source.at += 1
        while (char := (yield from self._pass(WHITE))) != end:
            if char == ",":
                self._source.at += 1
            else:
                yield from read(char)
        self._source.at += 1

    def _read_object(self, char: str) -> Reading:
        if char != "{":
            raise ValueError("expected an object")
        yield from self._read_items("}", self._read_member)

    def _read_member(self, char: str) -> Reading:
        if char != '"':
            raise ValueError("expected a name in quotation marks")
        offset = self._source.offset
        parts: list[str] = []
        yield from self._read_string(partial(self._decode, lambda text, _: parts.append(text)))
        name = "".join(parts)
        if (yield from self._pass(WHITE)) != ":":
            raise ValueError("expected a colon")
        self._source.at += 1
        char = yield from self._pass(WHITE)
        spec = self._builder.find(name)
        if spec is None:
            yield from self._read_text(name, offset, char)
        elif char == "[" and spec.repeatable:
            yield from self._read_items("]", lambda char: self._read_section(spec, self._source.offset, char))
        else:
            yield from self._read_section(spec, offset, char)
        if (yield from self._pass(WHITE)) not in ",}":
            raise ValueError("expected a comma or a closing brace")

    def _read_text(self, name: str, offset: int, char: str) -> Reading:
        """Read a member that is not a section, or the text before the sections inside one."""
        if not name and char == '"':
            yield from self._read_string(partial(self._decode, self._builder.text))
            return
        if name:
            self._builder.unknown(name, offset)
        self._builder.end_text()
        self._builder.text(f"{_quote(name)}: ", offset)
        yield from self._read_raw(char)
        self._builder.end_text()

    def _read_section(self, spec: SectionSpec, offset: int, char: str) -> Reading:
        self._builder.open(spec, offset)
        if char == '"':
            yield from self._read_string(partial(self._decode, self._builder.text))
        elif char == "{" and spec.sections:
            yield from self._read_object(char)
        else:
            yield from self._read_raw(char)
        self._builder.close()

    # Strings and other values

    def _pass(self, pattern: "re.Pattern[str]", take: Take = _ignore) -> Generator[None, None, str]:
        """Read a match of any length, give it to `take`, and return the character after it without reading it."""
        source = self._source
        while True:
            found = pattern.match(source.text, source.at)
            assert found is not None  # noqa: S101 - every pattern also matches no text
            take(*source.take(found.end()))
            if not source.is_read:
                return source.text[source.at]
            if source.is_complete:
                raise EOFError
            yield

    def _read_string(self, take: Take) -> Reading:
        """Read a string, and give its contents as they are written to `take`."""
        source = self._source
        source.at += 1
        while (yield from self._pass(PART, take)) != '"':
            if source.is_complete:
                source.at = len(source.text)
                raise EOFError
            yield
        source.at += 1

    def _decode(self, take: Take, raw: str, offset: int) -> None:
        """Decode a part of a string. What is not an escape sequence is text."""

        def repair(found: "re.Match[str]") -> str:
            if found["rest"]:
                return found[0]
            detail = f"`{raw[found.start() : found.start() + 2]}` is not an escape sequence of JSON"
            self._builder.problem(ProblemKind.MALFORMED, self._builder.name, offset + found.start(), detail)
            return r"\\"

        take(json.loads(f'"{ESCAPE.sub(repair, raw)}"', strict=False) if "\\" in raw else raw, offset)

    def _read_raw(self, char: str) -> Reading:
        """Read a value verbatim; a string includes its quotation marks."""
        if char in ",:}]":
            raise ValueError("expected a value")
        take = self._builder.text
        depth = 0
        while True:
            if char == '"':
                take(char, self._source.offset)
                yield from self._read_string(take)
                take(char, self._source.offset - 1)
            elif char in "{}[]":
                depth += 1 if char in "{[" else -1
                take(*self._source.take(self._source.at + 1))
            else:
                yield from self._pass(SCALAR, take)
            if not depth:
                return
            char = yield from self._pass(BETWEEN, take)


class JSONFormat(TextFormat):
    """Formats sections as JSON."""

    def __init__(self) -> None:
        super().__init__(encoder=JSONEncoder())

    def __repr__(self) -> str:
        return "JSONFormat()"

    @override
    def encode(self, content: object) -> str:
        return content if isinstance(content, str) else Notation(self.encoder.encode(content))

    @override
    def write(self, sections: Sequence[Section]) -> str:
        outline = self._build_outline()
        objects = [
            "{\n" + ",\n".join(f"  {_format_member(entry, outline)}" for entry in entries) + "\n}"
            for entries in split_mappings(sections, outline)
        ]
        return objects[0] if len(objects) == 1 else "[\n" + ",\n".join(objects) + "\n]"

    @override
    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        return JSONReader(source, builder).read()

    @override
    def rules(self) -> str:
        rules = (
            'Write your answer as one JSON object with a member for each section, `"name": "content"`. '
            "The members of a section that may repeat are an array."
        )
        if any(spec.sections for spec in self.registered):
            rules += " A section with sections inside is an object of them."
        return rules


def _format_member(entry: Sequence[Section], outline: Outline) -> str:
    inside = outline.inside(outline.find(entry[0].name))
    values = [_format_value(section, inside) for section in entry]
    is_list = len(values) > 1 or (values[0].startswith("[") and is_repeatable(entry[0], outline))
    value = f"[{', '.join(values)}]" if is_list else values[0]
    return f"{_quote(entry[0].name)}: {value}"


def _format_value(section: Section, inside: Outline) -> str:
    if not section.sections:
        return section.content if isinstance(section.content, Notation) else _quote(section.content)
    members = [
        _format_member(entry, inside) for entries in split_mappings(section.sections, inside) for entry in entries
    ]
    text = [f'"": {_quote(section.content)}'] if section.content else []
    return f"{{{', '.join([*text, *members])}}}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
