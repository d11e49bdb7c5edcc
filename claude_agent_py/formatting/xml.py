"""Sections as XML elements, `<name>content</name>`, with an optional outer element such as `<observation>`.

These rules make sure that parsing returns the formatted sections exactly:

- Content is escaped, so that it contains no tags. An XML parser reads it the same way, if it has only characters that
  XML allows: others, such as the escape character of terminals, have no form there, so they stay as they are.
- Content with several lines starts and ends with a line break, which is not part of it.
- A name that is not an XML name, or equals the wrapper's, becomes an attribute: `<section name="my notes">`.

Parsing is lenient, because models do not escape: an element ends at the next closing tag with its name, regardless of
the text between, and only the predefined entities and some numeric references are resolved. An element without a
closing tag ends at the next section, or at the end of the text.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence

from typing_extensions import override

from claude_agent_py.formatting.builder import Reading, SectionBuilder, TextSource
from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.sections import MAX_NAME_LENGTH, ProblemKind, Section, SectionSpec
from claude_agent_py.formatting.text_format import TextFormat

NAME = rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{MAX_NAME_LENGTH - 1}}}"
SPACE = r"[ \t\r\n]"
VALUE = rf"{{0,{6 * MAX_NAME_LENGTH}}}"
"""A name as attribute: `&quot;` takes 6 characters."""
OPENING = (
    rf"<(?P<tag>{NAME})(?:{SPACE}{{1,20}}name=(?:\"(?P<double>[^\"<>]{VALUE})\"|'(?P<single>[^'<>]{VALUE})'))?"
    rf"{SPACE}{{0,20}}(?P<empty>/)?>"
)
CLOSING = re.compile(rf"</(?P<closed>{NAME}){SPACE}{{0,20}}>")
TAG = re.compile(f"{OPENING}|{CLOSING.pattern}")
CUT = re.compile(
    rf"</?(?:{NAME})?/?|</{NAME}{SPACE}{{0,20}}|&#?[a-z0-9]{{0,4}}|"
    rf"<{NAME}{SPACE}{{1,20}}(?:n|na|nam|name|name=|name=\"[^\"<>]{VALUE}\"?{SPACE}{{0,20}}|"
    rf"name='[^'<>]{VALUE}'?{SPACE}{{0,20}})?/?"
)
"""An incomplete tag or reference, which the next chunk may complete."""
LONGEST = 7 * MAX_NAME_LENGTH + 100
"""Longer than any tag."""

REFERENCES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#13": "\r", "#39": "'", "#34": '"'}
_REFERENCE = re.compile(rf"&({'|'.join(REFERENCES)});")


def unescape(text: str) -> str:
    """Resolve the references that `escape` creates and other common ones; leave the rest unchanged."""
    return _REFERENCE.sub(lambda match: REFERENCES[match[1]], text)


class _Element:
    """An open element."""

    def __init__(self, tag: str) -> None:
        self.tag = tag.lower()
        self.is_new = True
        """Whether it has no content so far."""
        self.is_leading = True
        """Whether it contains no element so far."""
        self.has_break = False
        """Whether it starts with a line break, so that the line break at its end is not content either."""


class XMLReader:
    """Reads tags and the text between them.

    Two kinds of tags must wait for a closing tag: an unregistered element is a section only if it is closed, and a tag
    outside the open section ends it, unless that section is closed later. Everything else is passed on immediately.
    """

    def __init__(self, wrapper: str | None, generic: str, source: TextSource, builder: SectionBuilder) -> None:
        self._wrapper = wrapper
        self._generic = generic
        self._source = source
        self._builder = builder
        self._elements: list[_Element] = []
        self._wrapped_from: int | None = None
        self._is_inline = False
        self._held_break: int | None = None
        self._closings: dict[Callable[[str], str], dict[str, list[int]]] = {}
        self._registered_at = -1
        """The offset of the last tag of a registered section that was found ahead."""
        self._searched_to = 0
        """The offset up to which such tags were searched."""

    def read(self) -> Reading:
        """Read the whole text."""
        source = self._source
        while True:
            found = TAG.search(source.text, source.at)
            if found is None:
                self._pass_text(self._find_cut())
                if source.is_complete:
                    break
                yield
                continue
            self._pass_text(found.start())
            if self._elements:
                yield from self._read_inside(found)
            else:
                yield from self._read_outside(found)
        self._finish()

    def _find_cut(self) -> int:
        """Return the index up to which the text cannot be the beginning of a tag."""
        text = self._source.text
        if self._source.is_complete and self._elements:
            index = text.rfind("<", self._source.at)
            if index >= 0 and f"</{self._elements[-1].tag}>".startswith(text[index:].lower()):
                # A closing tag that is cut off.
                return index
        if not self._source.is_complete:
            for mark in "<&":
                index = text.rfind(mark, max(self._source.at, len(text) - LONGEST))
                if index >= 0 and CUT.fullmatch(text, index):
                    return index
        return len(text)

    # Tags

    def _read_outside(self, found: "re.Match[str]") -> Reading:
        tag = found["tag"]
        offset = self._source.offset
        if tag is None:
            self._read_closing_outside(found)
            return
        if tag == self._wrapper:
            self._pass_wrapper_tag(found)
            self._wrapped_from = offset if self._wrapped_from is None else self._wrapped_from
            return
        name = self._read_name(found)
        spec = self._builder.find(name)
        is_unknown = self._builder.outline().is_unknown(name)
        if spec is None or (is_unknown and self._is_inline):
            if is_unknown and not self._is_inline:
                self._builder.unknown(name, offset)
            self._pass_tag_as_text(found)
        elif is_unknown or self._builder.outline().specs is None:
            if found["empty"]:
                self._pass_tag_as_text(found)
            else:
                yield from self._read_unregistered(found, spec)
        else:
            self._open(found, spec)

    def _read_closing_outside(self, found: "re.Match[str]") -> None:
        name = found["closed"]
        if name == self._wrapper:
            self._pass_wrapper_tag(found)
            self._wrapped_from = None
            return
        outline = self._builder.outline()
        if outline.specs is not None and not outline.is_unknown(name):
            self._builder.problem(
                ProblemKind.MALFORMED, name, self._source.offset, f"`</{name}>` closes a section that is not open"
            )
        self._pass_tag_as_text(found)

    def _read_unregistered(self, found: "re.Match[str]", spec: SectionSpec) -> Reading:
        """Read a section with an unregistered name. An element that is never closed is text."""
        closing = yield from self._find_closing(found["tag"], len(found[0]))
        if closing >= 0 and self._holds_registered(len(found[0]), closing):
            self._builder.unknown(spec.name, self._source.offset)
            self._pass_tag_as_text(found)
        elif closing < 0:
            self._pass_tag_as_text(found)
        else:
            self._open(found, spec)
            self._pass_text(closing)
            self._close()

    def _holds_registered(self, skip: int, end: int) -> bool:
        """Return whether a registered section opens before `end`, so that the element is only a wrapper.

        Each part of the text is searched once, even if such elements are deeply nested.
        """
        source = self._source
        outline = self._builder.outline()
        if outline.specs is None:
            return False
        dropped = source.offset - source.at
        if self._registered_at < dropped + source.at + skip:
            start = max(source.at + skip, self._searched_to - dropped)
            tags = (found for found in TAG.finditer(source.text, start, end) if found["tag"] is not None)
            first = next((found for found in tags if not outline.is_unknown(self._read_name(found))), None)
            self._searched_to = dropped + max(end, start)
            if first is not None:
                self._registered_at = dropped + first.start()
                self._searched_to = dropped + first.end()
        return dropped + source.at + skip <= self._registered_at < dropped + end

    def _read_inside(self, found: "re.Match[str]") -> Reading:
        element = self._elements[-1]
        tag = found["tag"]
        if tag is None and found["closed"].lower() == element.tag:
            self._close()
            return
        name = self._read_name(found) if tag is not None else ""
        spec = self._builder.find(name) if name else None
        if spec is not None:
            self._open(found, spec)
        elif self._belongs_outside(found, name):
            yield from self._end_before(element)
        else:
            self._pass_tag_as_text(found)

    def _belongs_outside(self, found: "re.Match[str]", name: str) -> bool:
        """Return whether a tag belongs to an enclosing section, so that the open section may have no end."""
        if found["tag"] is None:
            closed = found["closed"]
            outer = self._wrapped_from is not None and closed == self._wrapper
            return outer or closed.lower() in {element.tag for element in self._elements[:-1]}
        if found["empty"]:
            return False
        depths = range(len(self._elements))
        return name != self._builder.name and any(not self._builder.outline(depth).is_unknown(name) for depth in depths)

    def _end_before(self, element: _Element) -> Reading:
        """Pass on everything up to the closing tag as text, or end the element here if there is none."""
        closing = yield from self._find_closing(element.tag, 1, lower=str.lower)
        if closing >= 0:
            self._pass_text(closing)
        else:
            self._end_element(is_closed=False)

    def _find_closing(self, tag: str, skip: int, lower: Callable[[str], str] = str) -> Generator[None, None, int]:
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
        places = self._index_closings(lower).get(tag, [])
        index = bisect_left(places, source.at + skip)
        return places[index] if index < len(places) else -1

    def _index_closings(self, lower: Callable[[str], str]) -> dict[str, list[int]]:
        """Return the indexes of all closing tags in the rest of the text, which is complete."""
        if lower not in self._closings:
            places = self._closings[lower] = {}
            for match in CLOSING.finditer(self._source.text, self._source.at):
                places.setdefault(lower(match["closed"]), []).append(match.start())
        return self._closings[lower]

    def _read_name(self, found: "re.Match[str]") -> str:
        given = found["double"] if found["double"] is not None else found["single"]
        return found["tag"] if given is None or found["tag"].lower() != self._generic else unescape(given)

    # Sections

    def _open(self, found: "re.Match[str]", spec: SectionSpec) -> None:
        if self._elements and self._elements[-1].is_leading:
            # The line break before the first element inside is not content.
            self._held_break = None
            self._elements[-1].is_leading = False
        self._flush_held_break()
        self._builder.open(spec, self._source.offset)
        self._elements.append(_Element(found["tag"]))
        self._source.at += len(found[0])
        if found["empty"]:
            self._end_element(is_closed=True)
            self._is_inline = False

    def _close(self) -> None:
        """End the element at its closing tag, which is next."""
        self._end_element(is_closed=True)
        self._source.at = self._source.text.index(">", self._source.at) + 1
        self._is_inline = False

    def _end_element(self, *, is_closed: bool) -> None:
        if not is_closed:
            self._flush_held_break()
        self._held_break = None
        self._builder.close(is_closed=is_closed)
        self._elements.pop()

    def _pass_wrapper_tag(self, found: "re.Match[str]") -> None:
        self._builder.end_text()
        self._source.at += len(found[0])
        self._is_inline = False

    def _finish(self) -> None:
        # The rest is a closing tag that is cut off, so the line break before it is not content.
        if not self._source.is_read:
            self._held_break = None
        while self._elements:
            self._end_element(is_closed=False)
        if self._wrapped_from is not None and self._wrapper:
            self._builder.unclosed(self._wrapper, self._wrapped_from, f"`<{self._wrapper}>` has no closing tag")

    # Text

    def _pass_tag_as_text(self, found: "re.Match[str]") -> None:
        self._pass_text(self._source.at + len(found[0]))

    def _pass_text(self, end: int) -> None:
        raw, offset = self._source.take(end)
        if not raw:
            return
        if self._elements:
            self._pass_content(raw, offset)
            return
        _, newline, line = raw.rpartition("\n")
        if line.strip():
            self._is_inline = True
        elif newline:
            self._is_inline = False
        self._builder.text(unescape(raw), offset)

    def _pass_content(self, raw: str, offset: int) -> None:
        """Pass on content without the line breaks next to its tags."""
        element = self._elements[-1]
        if element.is_new and raw[0] == "\n":
            element.has_break = True
            raw = raw[1:]
            offset += 1
        element.is_new = False
        if not raw:
            return
        self._flush_held_break()
        if element.has_break and raw[-1] == "\n":
            self._held_break = offset + len(raw) - 1
            raw = raw[:-1]
        self._builder.text(unescape(raw), offset)

    def _flush_held_break(self) -> None:
        if self._held_break is not None:
            self._builder.text("\n", self._held_break)
            self._held_break = None


ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
"""Includes the carriage return, which an XML parser would change to a line feed."""
QUOTE = "&quot;"

_TO_ESCAPE = re.compile(r"[&<>\r]")


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

    @override
    def write(self, sections: Sequence[Section]) -> str:
        return "\n".join(self._format_element(section) for section in sections)

    @override
    def wrap(self, text: str) -> str:
        return f"<{self.wrapper}>\n{text}\n</{self.wrapper}>" if self.wrapper else text

    def _format_element(self, section: Section) -> str:
        opening, closing = self._format_tags(section.name)
        content = escape(section.content)
        if section.sections:
            parts = [opening, content, self.write(section.sections), closing]
            return "\n".join(part for part in parts if part)
        if "\n" in content:
            return f"{opening}\n{content}\n{closing}"
        return f"{opening}{content}{closing}"

    def _format_tags(self, name: str) -> tuple[str, str]:
        if re.fullmatch(NAME, name) and name.lower() not in ((self.wrapper or "").lower(), self._generic):
            return f"<{name}>", f"</{name}>"
        quoted = escape(name).replace('"', QUOTE)
        return f'<{self._generic} name="{quoted}">', f"</{self._generic}>"

    @override
    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        return XMLReader(self.wrapper, self._generic, source, builder).read()

    @override
    def rules(self) -> str:
        rules = (
            "Write your answer in sections. Each section is an XML element, `<name>content</name>`. "
            "Escape `<`, `>` and `&` in its content as `&lt;`, `&gt;` and `&amp;`."
        )
        return f"{rules} Wrap all sections in one element, `<{self.wrapper}>`." if self.wrapper else rules


def escape(text: str) -> str:
    """Escape text for use in an element."""
    return _TO_ESCAPE.sub(lambda match: ESCAPES[match[0]], text)
