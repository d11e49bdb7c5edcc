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
from typing import Any

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
END_FENCE = re.compile(rf"{SPACE}```")
CUT_END_FENCE = re.compile(rf"{SPACE}`{{0,2}}\Z")

WHITE = re.compile(r"[ \t\r\n]*")
PLAIN = re.compile(r"[^\"\\]+")
RAW = re.compile(r"(?:[^\"\\]+|\\.)+", re.DOTALL)
SCALAR = re.compile(r"[^\s\"{}\[\],:]+")
NO_BRACKETS = re.compile(r"[^\"{}\[\]]+")
ESCAPE = re.compile(r"\\(?:[\"\\/bfnrt]|u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[0-9a-fA-F]{4}))")
"""An escape sequence, or the two of a surrogate pair."""
CUT_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)

Take = Callable[[str, int], None]
"""Receives a text and its offset."""


class _TextEnded(Exception):
    """The text ended inside an object."""


class _Malformed(Exception):
    """What follows is not JSON."""


class JSONReader:
    """Reads objects in a text. Strings are passed on while they arrive, other values verbatim."""

    def __init__(self, source: TextSource, builder: SectionBuilder) -> None:
        self._source = source
        self._builder = builder

    def read(self) -> Reading:
        """Read the whole text."""
        source = self._source
        while True:
            found = START.search(source.text, source.at)
            if found is None:
                self._pass_text(self._find_cut())
                if source.is_complete:
                    return
                yield
                continue
            self._pass_text(found.start())
            source.at = found.start("start")
            offset = source.offset
            self._builder.end_text()
            try:
                yield from self._read_list() if found["start"] == "[" else self._read_object()
            except _TextEnded:
                self._end_truncated(offset)
            except _Malformed as error:
                self._give_up(str(error))
            if found["fence"]:
                yield from self._skip_closing_fence()

    def _pass_text(self, end: int) -> None:
        self._builder.text(*self._source.take(end))

    def _find_cut(self) -> int:
        text = self._source.text
        cut = None if self._source.is_complete else CUT.search(text, max(self._source.at, len(text) - LONGEST))
        return cut.start() if cut else len(text)

    def _skip_closing_fence(self) -> Reading:
        source = self._source
        while not source.is_complete and CUT_END_FENCE.match(source.text, source.at):
            yield
        found = END_FENCE.match(source.text, source.at)
        if found:
            source.at = found.end()

    def _end_truncated(self, offset: int) -> None:
        if not self._builder.depth:
            self._builder.unclosed("", offset, "the JSON has no end")
        while self._builder.depth:
            self._builder.close(is_closed=False)

    def _give_up(self, detail: str) -> None:
        self._builder.problem(ProblemKind.MALFORMED, self._builder.name, self._source.offset, detail)
        while self._builder.depth:
            self._builder.leave_open()
            self._builder.close()

    # Objects and arrays

    def _read_list(self) -> Reading:
        self._source.at += 1
        while (yield from self._peek()) != "]":
            if (yield from self._peek()) == "{":
                yield from self._read_object()
            else:
                yield from self._expect(",", "an object")
        self._source.at += 1

    def _read_object(self) -> Reading:
        self._source.at += 1
        while (char := (yield from self._peek())) != "}":
            if char == '"':
                yield from self._read_member()
            else:
                yield from self._expect(",", "a name in quotation marks")
        self._source.at += 1

    def _read_member(self) -> Reading:
        offset = self._source.offset
        parts: list[str] = []
        yield from self._read_string(lambda text, _: parts.append(text))
        name = "".join(parts)
        yield from self._expect(":", "a colon")
        char = yield from self._peek()
        spec = self._builder.find(name)
        if not name or spec is None:
            yield from self._read_text_member(name, offset, char)
        elif char == "[" and spec.repeatable:
            yield from self._read_items(spec)
        else:
            yield from self._read_section(spec, offset, char)
        if (yield from self._peek()) not in ",}":
            raise _Malformed("expected a comma or a closing brace")

    def _read_text_member(self, name: str, offset: int, char: str) -> Reading:
        """Read a member that is not a section, or the text before the sections inside one."""
        if not name and char == '"':
            yield from self._read_string(self._builder.text)
            return
        if name:
            self._builder.unknown(name, offset)
        self._builder.end_text()
        self._builder.text(f"{json.dumps(name, ensure_ascii=False)}: ", offset)
        yield from self._read_raw(char)
        self._builder.end_text()

    def _read_items(self, spec: SectionSpec) -> Reading:
        self._source.at += 1
        while (char := (yield from self._peek())) != "]":
            if char == ",":
                self._source.at += 1
            else:
                yield from self._read_section(spec, self._source.offset, char)
        self._source.at += 1

    def _read_section(self, spec: SectionSpec, offset: int, char: str) -> Reading:
        self._builder.open(spec, offset)
        if char == '"':
            yield from self._read_string(self._builder.text)
        elif char == "{" and spec.sections:
            yield from self._read_object()
        else:
            yield from self._read_raw(char)
        self._builder.close()

    # Strings and other values

    def _peek(self) -> Generator[None, None, str]:
        """Return the next character that is not white space, without reading it."""
        source = self._source
        while True:
            white = WHITE.match(source.text, source.at)
            if white:
                source.at = white.end()
            if not source.is_read:
                return source.text[source.at]
            if source.is_complete:
                raise _TextEnded
            yield

    def _expect(self, char: str, expected: str) -> Reading:
        if (yield from self._peek()) != char:
            raise _Malformed(f"expected {expected}")
        self._source.at += 1

    def _read_matching(self, pattern: "re.Pattern[str]", take: Take) -> Reading:
        """Read a match of any length, and wait for the character after it."""
        source = self._source
        while True:
            found = pattern.match(source.text, source.at)
            if found is not None:
                take(*source.take(found.end()))
            if not source.is_read:
                return
            if source.is_complete:
                raise _TextEnded
            yield

    def _read_string(self, take: Take) -> Reading:
        source = self._source
        source.at += 1
        while True:
            yield from self._read_matching(PLAIN, take)
            if source.text[source.at] == '"':
                source.at += 1
                return
            yield from self._read_escape(take)

    def _read_escape(self, take: Take) -> Reading:
        source = self._source
        while CUT_ESCAPE.match(source.text, source.at):
            if source.is_complete:
                source.at = len(source.text)
                raise _TextEnded
            yield
        found = ESCAPE.match(source.text, source.at)
        if found is None:
            wrong = source.text[source.at : source.at + 2]
            detail = f"`{wrong}` is not an escape sequence of JSON"
            self._builder.problem(ProblemKind.MALFORMED, self._builder.name, source.offset, detail)
            take(*source.take(source.at + 1))
        else:
            escaped, offset = source.take(found.end())
            take(json.loads(f'"{escaped}"'), offset)

    def _read_raw(self, char: str) -> Reading:
        """Read a value verbatim; a string includes its quotation marks."""
        take = self._builder.text
        if char not in '{["':
            if SCALAR.match(char) is None:
                raise _Malformed("expected a value")
            yield from self._read_matching(SCALAR, take)
            return
        depth = 0
        while True:
            char = self._source.text[self._source.at]
            if char == '"':
                yield from self._read_raw_string(take)
            else:
                depth += 1 if char in "{[" else -1
                take(*self._source.take(self._source.at + 1))
            if not depth:
                return
            yield from self._read_matching(NO_BRACKETS, take)

    def _read_raw_string(self, take: Take) -> Reading:
        source = self._source
        take(*source.take(source.at + 1))
        while True:
            yield from self._read_matching(RAW, take)
            if source.text[source.at] == '"':
                take(*source.take(source.at + 1))
                return
            if source.is_complete:
                source.at = len(source.text)
                raise _TextEnded
            yield  # for the character after a backslash


class JSONFormat(TextFormat):
    """Formats sections as JSON."""

    def __init__(self) -> None:
        super().__init__(encoder=JSONEncoder())

    def __repr__(self) -> str:
        return "JSONFormat()"

    @override
    def encode(self, content: Any) -> str:
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
