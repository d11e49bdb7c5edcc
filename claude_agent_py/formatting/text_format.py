"""Text in named sections, written for a model and read back: what all formats share.

Owns the contract of `TextFormat`: encoding of values, the registry of sections, grouping, and the promise that
`parse(format_sections(x)) == x` for any text. How a section looks is the business of `markdown` and `xml`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.sections import LooseSections, Section, SectionSpec, check_name, grouped, in_order


class TextFormat(ABC):
    """Writes named sections as text, and reads them back.

    Contents that are text stand as they are (escaped where they look like structure); other values are encoded with
    `encoder`, JSON unless told otherwise. Formats are cheap; one may be used from several threads at once as long as
    no section is registered meanwhile.
    """

    def __init__(self, *, encoder: Encoder | None = None) -> None:
        self.encoder: Encoder = encoder or JSONEncoder()
        self._specs: dict[str, SectionSpec] = {}

    # Writing

    def format_section(self, name: str, content: Any) -> str:
        """Write one section.

        Raises:
            ValueError: The name is empty, has several lines, or white space around it.
            EncodingError: The content is no text and has no form in the encoder's notation.
        """
        return self._write(check_name(name), self.encode(content))

    def format_sections(self, sections: LooseSections) -> str:
        """Write sections in order, the outer wrapper included; `""` where there are none.

        Takes `Section`s, `(name, content)` pairs, or a mapping as `parse` gives it.
        """
        written = [self.format_section(name, content) for name, content in in_order(sections)]
        return self._join(written) if written else ""

    def encode(self, content: Any, encoder: Encoder | None = None) -> str:
        """Give a content as text: text as it is, anything else encoded."""
        return content if isinstance(content, str) else (encoder or self.encoder).encode(content)

    # Reading

    def parse(self, text: str, *, names: Collection[str] | None = None, strip: bool = False) -> dict[str, list[str]]:
        """Give the contents of each section, in order. Text outside of sections is left out.

        `names` limits what is a section; what looks like another one is text then. `strip` removes the white space
        around each content, which suits what a model wrote. Never raises: what cannot be read as a section is text.
        """
        return grouped(self.parse_sections(text, names=names, strip=strip))

    def parse_sections(self, text: str, *, names: Collection[str] | None = None, strip: bool = False) -> list[Section]:
        """Give the sections in the order in which they stand, text outside of them as sections without a name."""
        sections = self._read(text, frozenset(names) if names is not None else None)
        if strip:
            sections = [Section(section.name, section.content.strip()) for section in sections]
        return [section for section in sections if section.name or section.content.strip()]

    # What a model is told

    def register_section(self, section: "SectionSpec | str", description: str = "", **details: Any) -> SectionSpec:
        """Say what a section is for. It replaces one of the same name.

        Takes a `SectionSpec`, or a name, a description and the other fields of one.
        """
        spec = (
            section
            if isinstance(section, SectionSpec)
            else SectionSpec(name=section, description=description, **details)
        )
        self._specs[spec.name] = spec
        return spec

    @property
    def registered(self) -> tuple[SectionSpec, ...]:
        """The registered sections, in order."""
        return tuple(self._specs.values())

    def describe_structure(self) -> str:
        """Give the instructions for a model that shall write in this format, registered sections included."""
        lines = [self._rules()]
        if self._specs:
            lines += ["", "Sections:", *(_bullet(spec) for spec in self.registered)]
            lines += ["", "For example:", "", self._join([self._example(spec) for spec in self.registered])]
        return "\n".join(lines)

    def _example(self, spec: SectionSpec) -> str:
        shown = spec.example if spec.example is not None else "..."
        return self.format_section(spec.name, shown)

    # What a format must say

    @abstractmethod
    def _write(self, name: str, content: str) -> str:
        """Write one section whose name and content are checked."""

    @abstractmethod
    def _join(self, written: list[str]) -> str:
        """Put written sections together, at least one, with whatever stands around all of them."""

    @abstractmethod
    def _read(self, text: str, names: frozenset[str] | None) -> list[Section]:
        """Give all sections and all text between them."""

    @abstractmethod
    def _rules(self) -> str:
        """Say how a section is written, in a few sentences."""


def _bullet(spec: SectionSpec) -> str:
    marks = [mark for mark, holds in (("optional", not spec.required), ("may repeat", spec.repeatable)) if holds]
    told = f" ({', '.join(marks)})" if marks else ""
    return f"- {spec.name}{told}: {spec.description}" if spec.description else f"- {spec.name}{told}"
