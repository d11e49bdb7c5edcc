"""Sections as XML elements: `<name>content</name>`, with an outer wrapper such as `<observation>` if wanted.

Owns the rules that make it exact both ways:

- Content is escaped, so that it holds no tag: what looks like one is text. A real XML parser reads the same.
- Content of several lines stands on lines of its own; the line break after the first tag and the one before the last
  belong to the tags.
- A name that is no XML name (it has a space, say), or is taken by the wrapper, goes into an attribute:
  `<section name="my notes">`.

Reading is lenient, for models do not escape: an element ends at the next closing tag of its name, whatever stands
between, and only the five named references and numeric ones are resolved.
"""

import re
from bisect import bisect_left

from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.sections import Section
from claude_agent_py.formatting.text_format import TextFormat

NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
OPENING = re.compile(
    rf"<(?P<tag>{NAME})(?:[ \t\r\n]+name=(?:\"(?P<double>[^\"<]*)\"|'(?P<single>[^'<]*)'))?[ \t\r\n]*>"
)
CLOSING = re.compile(rf"</(?P<tag>{NAME})>")

ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
"""A carriage return would become a line feed in any XML parser."""
QUOTE = "&quot;"
REFERENCES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#13": "\r", "#39": "'", "#34": '"'}

_TO_ESCAPE = re.compile(r"[&<>\r]")
_REFERENCE = re.compile(rf"&({'|'.join(REFERENCES)});")


class XMLFormat(TextFormat):
    """Sections that are XML elements. `wrapper` names the element around all of them; None means none."""

    def __init__(self, wrapper: str | None = None, *, encoder: Encoder | None = None) -> None:
        if wrapper is not None and not re.fullmatch(NAME, wrapper):
            raise ValueError(f"the wrapper is not an XML name: {wrapper!r}")
        super().__init__(encoder=encoder)
        self.wrapper = wrapper
        self._generic = "section" if wrapper != "section" else "part"

    def __repr__(self) -> str:
        return f"XMLFormat(wrapper={self.wrapper!r})"

    def _write(self, name: str, content: str) -> str:
        opening, closing = self._tags(name)
        escaped = escape(content)
        return f"{opening}\n{escaped}\n{closing}" if "\n" in content else f"{opening}{escaped}{closing}"

    def _tags(self, name: str) -> tuple[str, str]:
        if re.fullmatch(NAME, name) and name not in (self.wrapper, self._generic):
            return f"<{name}>", f"</{name}>"
        quoted = escape(name).replace('"', QUOTE)
        return f'<{self._generic} name="{quoted}">', f"</{self._generic}>"

    def _join(self, written: list[str]) -> str:
        lines = [f"<{self.wrapper}>", *written, f"</{self.wrapper}>"] if self.wrapper else written
        return "\n".join(lines)

    def _read(self, text: str, names: frozenset[str] | None) -> list[Section]:
        sections: list[Section] = []
        closings = _closings(text)
        at = begin = 0
        while (found := OPENING.search(text, at)) is not None:
            at = found.end()
            tag, name = found["tag"], self._name(found)
            end = _next(closings.get(tag, []), at)
            is_wrapper = tag == self.wrapper
            if end is None or not (is_wrapper or names is None or name in names):
                continue
            sections.append(Section("", unescape(text[begin : found.start()])))
            inner = text[at:end]
            sections += self._read(inner, names) if is_wrapper else [Section(name, unescape(_unpadded(inner)))]
            at = begin = end + len(f"</{tag}>")
        return [*sections, Section("", unescape(text[begin:]))]

    def _name(self, opening: "re.Match[str]") -> str:
        given = opening["double"] if opening["double"] is not None else opening["single"]
        return opening["tag"] if given is None or opening["tag"] != self._generic else unescape(given)

    def _rules(self) -> str:
        rules = (
            "Write your answer in sections. A section is an XML element, `<name>content</name>`; "
            "in its content, `<`, `>` and `&` are written `&lt;`, `&gt;` and `&amp;`."
        )
        return f"{rules} One element `<{self.wrapper}>` stands around all of them." if self.wrapper else rules


def escape(text: str) -> str:
    """Escape text for the content of an element."""
    return _TO_ESCAPE.sub(lambda match: ESCAPES[match[0]], text)


def unescape(text: str) -> str:
    """Resolve the references that `escape` makes, and the other usual ones; anything else stays."""
    return _REFERENCE.sub(lambda match: REFERENCES[match[1]], text)


def _closings(text: str) -> dict[str, list[int]]:
    """Give where the closing tags of each name begin."""
    places: dict[str, list[int]] = {}
    for match in CLOSING.finditer(text):
        places.setdefault(match["tag"], []).append(match.start())
    return places


def _next(places: list[int], at: int) -> int | None:
    index = bisect_left(places, at)
    return places[index] if index < len(places) else None


def _unpadded(content: str) -> str:
    return content[1:-1] if len(content) > 1 and content[0] == content[-1] == "\n" else content
