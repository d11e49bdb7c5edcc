"""Sections as XML elements, `<name>content</name>`, with an optional outer element such as `<observation>`.

These rules make sure that parsing returns the formatted sections exactly:

- Content is escaped, so that it contains no tags. An XML parser reads it the same way.
- Content with several lines starts and ends with a line break, which is not part of it.
- A name that is not an XML name, or equals the wrapper's, becomes an attribute: `<section name="my notes">`.

Parsing is lenient, because models do not escape: an element ends at the next closing tag of its name, whatever is
between, and only the predefined entities and some numeric references are resolved. An element without closing tag ends
where the next section begins, or at the end of the text.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence

from claude_agent_py.formatting.builder import SectionBuilder
from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.problems import ProblemKind
from claude_agent_py.formatting.sections import MAX_NAME_LENGTH, Section, SectionSpec
from claude_agent_py.formatting.source import Reading, TextSource
from claude_agent_py.formatting.text_format import TextFormat

NAME = rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{MAX_NAME_LENGTH - 1}}}"
SPACE = r"[ \t\r\n]"
VALUE = rf"{{0,{6 * MAX_NAME_LENGTH}}}"
"""A name as attribute: `&quot;` takes 6 characters."""
OPENING = (
    rf"<(?P<tag>{NAME})(?:{SPACE}{{1,20}}name=(?:\"(?P<double>[^\"<>]{VALUE})\"|'(?P<single>[^'<>]{VALUE})'))?"
    rf"{SPACE}{{0,20}}>"
)
CLOSING = re.compile(rf"</(?P<closed>{NAME}){SPACE}{{0,20}}>")
TAG = re.compile(f"{OPENING}|{CLOSING.pattern}")
CUT = re.compile(
    rf"</?(?:{NAME})?|</{NAME}{SPACE}{{0,20}}|&#?[a-z0-9]{{0,4}}|"
    rf"<{NAME}{SPACE}{{1,20}}(?:n|na|nam|name|name=|name=\"[^\"<>]{VALUE}\"?{SPACE}{{0,20}}|"
    rf"name='[^'<>]{VALUE}'?{SPACE}{{0,20}})?"
)
"""The beginning of a tag or of a reference, of which the rest may follow."""
LONGEST = 7 * MAX_NAME_LENGTH + 100
"""Longer than any tag."""

ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
"""Includes the carriage return, which an XML parser would change to a line feed."""
QUOTE = "&quot;"
REFERENCES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#13": "\r", "#39": "'", "#34": '"'}

_TO_ESCAPE = re.compile(r"[&<>\r]")
_REFERENCE = re.compile(rf"&({'|'.join(REFERENCES)});")


class XMLFormat(TextFormat):
    """Formats sections as XML.

    Args:
        wrapper: Name of an element around all sections, or None.
        encoder: Encodes contents that are not text; JSON by default.

    Raises:
        ValueError: `wrapper` is not an XML name.
    """

    def __init__(self, wrapper: str | None = None, *, encoder: Encoder | None = None) -> None:
        if wrapper is not None and not re.fullmatch(NAME, wrapper):
            raise ValueError(f"wrapper must be an XML name, not {wrapper!r}")
        super().__init__(encoder=encoder)
        self.wrapper = wrapper
        self._generic = "section" if wrapper is None or wrapper.lower() != "section" else "part"

    def __repr__(self) -> str:
        return f"XMLFormat(wrapper={self.wrapper!r})"

    def write(self, sections: Sequence[Section]) -> str:
        return "\n".join(self._element(section) for section in sections)

    def wrap(self, text: str) -> str:
        return f"<{self.wrapper}>\n{text}\n</{self.wrapper}>" if self.wrapper else text

    def _element(self, section: Section) -> str:
        opening, closing = self._tags(section.name)
        content = escape(section.content)
        if section.sections:
            inner = self.write(section.sections)
            return "\n".join([opening, *([content] if content else []), inner, closing])
        return f"{opening}\n{content}\n{closing}" if "\n" in content else f"{opening}{content}{closing}"

    def _tags(self, name: str) -> tuple[str, str]:
        if re.fullmatch(NAME, name) and name.lower() not in ((self.wrapper or "").lower(), self._generic):
            return f"<{name}>", f"</{name}>"
        quoted = escape(name).replace('"', QUOTE)
        return f'<{self._generic} name="{quoted}">', f"</{self._generic}>"

    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        return _Reader(self.wrapper, self._generic, source, builder).read()

    def rules(self) -> str:
        rules = (
            "Write your answer in sections. Each section is an XML element, `<name>content</name>`. "
            "Escape `<`, `>` and `&` in its content as `&lt;`, `&gt;` and `&amp;`."
        )
        return f"{rules} Wrap all sections in one element, `<{self.wrapper}>`." if self.wrapper else rules


def escape(text: str) -> str:
    """Escape text for use in an element."""
    return _TO_ESCAPE.sub(lambda match: ESCAPES[match[0]], text)


def unescape(text: str) -> str:
    """Resolve the references that `escape` creates and other common ones; leave the rest unchanged."""
    return _REFERENCE.sub(lambda match: REFERENCES[match[1]], text)


class _Element:
    """An open element."""

    def __init__(self, tag: str) -> None:
        self.tag = tag.lower()
        self.is_new = True
        """Whether no content was found yet."""
        self.is_leading = True
        """Whether no element inside it was found yet."""
        self.has_break = False
        """Whether it starts with a line break, so that the one at its end is not content either."""


class _Reader:
    """Reads tags and the text between them.

    A tag that is a section only if it is closed, or that ends the section it is in unless that one is closed, has to
    wait until the closing tag arrives. Everything else is passed on at once.
    """

    def __init__(self, wrapper: str | None, generic: str, source: TextSource, builder: SectionBuilder) -> None:
        self._wrapper = wrapper
        self._generic = generic
        self._source = source
        self._builder = builder
        self._elements: list[_Element] = []
        self._wrapped_from: int | None = None
        self._is_inline = False
        self._break: int | None = None
        self._closings: dict[Callable[[str], str], dict[str, list[int]]] = {}

    def read(self) -> Reading:
        source = self._source
        while True:
            found = TAG.search(source.text, source.at)
            if found is None:
                self._text(self._cut())
                if source.is_complete:
                    break
                yield
                continue
            self._text(found.start())
            if self._elements:
                yield from self._inside(found)
            else:
                yield from self._outside(found)
        self._finish()

    def _cut(self) -> int:
        """Return the index up to which the text cannot be the beginning of a tag."""
        text = self._source.text
        if self._source.is_complete and self._elements:
            index = text.rfind("<", self._source.at)
            if index >= 0 and f"</{self._elements[-1].tag}>".startswith(text[index:].lower()):
                return index  # a closing tag that is cut off
        if not self._source.is_complete:
            for mark in "<&":
                index = text.rfind(mark, max(self._source.at, len(text) - LONGEST))
                if index >= 0 and CUT.fullmatch(text, index):
                    return index
        return len(text)

    # Tags

    def _outside(self, found: "re.Match[str]") -> Reading:
        tag, offset = found["tag"], self._source.offset
        if tag is None:
            self._closing_outside(found)
            return
        if tag == self._wrapper:
            self._boundary(found)
            self._wrapped_from = offset if self._wrapped_from is None else self._wrapped_from
            return
        name = self._name(found)
        spec = self._builder.find(name)
        is_unknown = self._builder.outline().is_unknown(name)
        if spec is None or (is_unknown and self._is_inline):
            if is_unknown and not self._is_inline:
                self._builder.unknown(name, offset)
            self._literally(found)
        elif is_unknown or self._builder.outline().specs is None:
            yield from self._if_closed(found, spec)
        else:
            self._open(found, spec)

    def _closing_outside(self, found: "re.Match[str]") -> None:
        name = found["closed"]
        if name == self._wrapper:
            self._boundary(found)
            self._wrapped_from = None
            return
        outline = self._builder.outline()
        if outline.specs is not None and not outline.is_unknown(name):
            self._builder.problem(
                ProblemKind.MALFORMED, name, self._source.offset, f"`</{name}>` closes a section that is not open"
            )
        self._literally(found)

    def _if_closed(self, found: "re.Match[str]", spec: SectionSpec) -> Reading:
        """Read a section whose name is not registered: an element that is never closed is text."""
        closing = yield from self._next_closing(found["tag"], len(found[0]))
        if closing < 0:
            self._literally(found)
        else:
            self._open(found, spec)
            self._text(closing)
            self._close()

    def _inside(self, found: "re.Match[str]") -> Reading:
        element = self._elements[-1]
        tag = found["tag"]
        if tag is None and found["closed"].lower() == element.tag:
            self._close()
            return
        name = self._name(found) if tag is not None else ""
        spec = self._builder.find(name) if name else None
        if spec is not None:
            self._open(found, spec)
        elif self._belongs_outside(found, name):
            yield from self._end_before(element)
        else:
            self._literally(found)

    def _belongs_outside(self, found: "re.Match[str]", name: str) -> bool:
        """Return whether a tag is one of a section around the open one, so that the open one may have no end."""
        if found["tag"] is None:
            closed = found["closed"]
            outer = self._wrapped_from is not None and closed == self._wrapper
            return outer or closed.lower() in {element.tag for element in self._elements[:-1]}
        depths = range(len(self._elements))
        return name != self._builder.name and any(not self._builder.outline(depth).is_unknown(name) for depth in depths)

    def _end_before(self, element: _Element) -> Reading:
        """Pass on everything up to the closing tag as text, or end the element here if there is none."""
        closing = yield from self._next_closing(element.tag, 1, lower=str.lower)
        if closing >= 0:
            self._text(closing)
        else:
            self._end_element(is_closed=False)

    def _next_closing(self, tag: str, skip: int, lower: Callable[[str], str] = str) -> Generator[None, None, int]:
        """Return the index of the next closing tag, or -1 if there is none in the whole text.

        Args:
            tag: The name of the element.
            skip: The number of characters that are not searched.
            lower: Changes the names that are compared with it.
        """

        def find(text: str, start: int) -> int:
            found = (match for match in CLOSING.finditer(text, start) if lower(match["closed"]) == tag)
            match = next(found, None)
            return -1 if match is None else match.start()

        source = self._source
        if not source.is_complete:
            index = yield from source.wait_for(find, longest=LONGEST, skip=skip)
            if index >= 0:
                return index
        places = self._all_closings(lower).get(tag, [])
        index = bisect_left(places, source.at + skip)
        return places[index] if index < len(places) else -1

    def _all_closings(self, lower: Callable[[str], str]) -> dict[str, list[int]]:
        """Return the indexes of all closing tags in the rest of the text, which is complete."""
        if lower not in self._closings:
            places = self._closings[lower] = {}
            for match in CLOSING.finditer(self._source.text, self._source.at):
                places.setdefault(lower(match["closed"]), []).append(match.start())
        return self._closings[lower]

    def _name(self, found: "re.Match[str]") -> str:
        given = found["double"] if found["double"] is not None else found["single"]
        return found["tag"] if given is None or found["tag"].lower() != self._generic else unescape(given)

    # Sections

    def _open(self, found: "re.Match[str]", spec: SectionSpec) -> None:
        if self._elements and self._elements[-1].is_leading:
            self._break = None  # the one before the first element inside
            self._elements[-1].is_leading = False
        self._flush_break()
        self._builder.open(spec, self._source.offset)
        self._elements.append(_Element(found["tag"]))
        self._source.at += len(found[0])

    def _close(self) -> None:
        found = CLOSING.match(self._source.text, self._source.at)
        assert found is not None
        self._end_element(is_closed=True)
        self._source.at = found.end()
        self._is_inline = False

    def _end_element(self, *, is_closed: bool) -> None:
        if not is_closed:
            self._flush_break()
        self._break = None
        self._builder.close(is_closed=is_closed)
        self._elements.pop()

    def _boundary(self, found: "re.Match[str]") -> None:
        self._builder.end_text()
        self._source.at += len(found[0])
        self._is_inline = False

    def _finish(self) -> None:
        if not self._source.is_read:  # a closing tag that is cut off
            self._break = None
        while self._elements:
            self._end_element(is_closed=False)
        if self._wrapped_from is not None and self._wrapper:
            self._builder.unclosed(self._wrapper, self._wrapped_from, f"`<{self._wrapper}>` has no closing tag")

    # Text

    def _literally(self, found: "re.Match[str]") -> None:
        """Pass on a tag as text."""
        self._text(self._source.at + len(found[0]))

    def _text(self, end: int) -> None:
        """Pass on the text up to an index."""
        source = self._source
        raw, offset = source.text[source.at : end], source.offset
        if not raw:
            return
        source.at = end
        if self._elements:
            self._content(raw, offset)
            return
        last = raw.rpartition("\n")[2].strip()
        self._is_inline = bool(last) or (self._is_inline and "\n" not in raw)
        self._builder.text(unescape(raw), offset)

    def _content(self, raw: str, offset: int) -> None:
        """Pass on content, without the line breaks next to the tags."""
        element = self._elements[-1]
        if element.is_new and raw[0] == "\n":
            element.has_break = True
            raw, offset = raw[1:], offset + 1
        element.is_new = False
        if not raw:
            return
        self._flush_break()
        if element.has_break and raw[-1] == "\n":
            self._break = offset + len(raw) - 1
            raw = raw[:-1]
        self._builder.text(unescape(raw), offset)

    def _flush_break(self) -> None:
        if self._break is not None:
            self._builder.text("\n", self._break)
            self._break = None
