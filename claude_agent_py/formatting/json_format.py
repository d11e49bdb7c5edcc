"""Sections as a JSON object: `{"name": "content", ...}`.

- Sections of one name in a row share an array. If a name occurs again later, an array of objects takes all sections.
- Sections inside a section form a nested object; the text before them has the empty name, and a name that occurs again
  later is repeated.
- Content is a string. Contents that are not text are written as JSON, and read as their JSON text.

`json_reader` reads them.
"""

import json
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from claude_agent_py.formatting.builder import SectionBuilder
from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.json_reader import JSONReader
from claude_agent_py.formatting.notation import Notation, is_repeatable, split_mappings
from claude_agent_py.formatting.outline import NO_SECTIONS, Outline
from claude_agent_py.formatting.sections import Section
from claude_agent_py.formatting.source import Reading, TextSource
from claude_agent_py.formatting.text_format import TextFormat


class JSONFormat(TextFormat):
    """Formats sections as JSON."""

    def __init__(self) -> None:
        super().__init__(encoder=JSONEncoder())

    def __repr__(self) -> str:
        return "JSONFormat()"

    @override
    def encode(self, content: Any, encoder: Encoder | None = None) -> str:
        return content if isinstance(content, str) else Notation((encoder or self.encoder).encode(content))

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
    spec = outline.find(entry[0].name)
    inside = outline.inside(spec) if spec else NO_SECTIONS
    values = [_format_value(section, inside) for section in entry]
    is_list = len(values) > 1 or (values[0].startswith("[") and is_repeatable(entry[0], outline))
    return f"{_quote(entry[0].name)}: " + (f"[{', '.join(values)}]" if is_list else values[0])


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
