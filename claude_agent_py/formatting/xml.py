"""Sections as XML elements, `<name>content</name>`, with an optional outer element such as `<observation>`.

These rules make sure that parsing returns the formatted sections exactly:

- Content is escaped, so that it contains no tags. An XML parser reads it the same way.
- Content with several lines starts and ends with a line break, which is not part of it.
- A name that is not an XML name, or equals the wrapper's, becomes an attribute: `<section name="my notes">`.

Parsing is lenient, because models do not escape: an element ends at the next closing tag of its name, regardless of
what is between, and only the predefined entities and some numeric references are resolved.
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


def _closings(text: str) -> dict[str, list[int]]:
    """Return the positions of the closing tags by name."""
    places: dict[str, list[int]] = {}
    for match in CLOSING.finditer(text):
        places.setdefault(match["tag"], []).append(match.start())
    return places


def _next(places: list[int], at: int) -> int | None:
    index = bisect_left(places, at)
    return places[index] if index < len(places) else None


def _unpadded(content: str) -> str:
    return content[1:-1] if len(content) > 1 and content[0] == content[-1] == "\n" else content
