"""Sections as XML elements, `<name>content</name>`, with an optional outer element such as `<observation>`.

These rules make sure that parsing returns the formatted sections exactly:

- Content is escaped, so that it contains no tags. An XML parser reads it the same way.
- Content with several lines starts and ends with a line break, which is not part of it.
- A name that is not an XML name, or equals the wrapper's, becomes an attribute: `<section name="my notes">`.

`xml_reader` reads them.
"""

import re
from collections.abc import Sequence

from typing_extensions import override

from claude_agent_py.formatting.builder import SectionBuilder
from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.formatting.sections import Section
from claude_agent_py.formatting.source import Reading, TextSource
from claude_agent_py.formatting.text_format import TextFormat
from claude_agent_py.formatting.xml_reader import NAME, XMLReader

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
            inner = self.write(section.sections)
            return "\n".join([opening, *([content] if content else []), inner, closing])
        return f"{opening}\n{content}\n{closing}" if "\n" in content else f"{opening}{content}{closing}"

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
