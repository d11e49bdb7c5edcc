"""Base class of the formats for text in named sections."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.sections import LooseSections, Section, SectionSpec, check_name, grouped, in_order


class TextFormat(ABC):
    """Formats named sections as text and parses them.

    For any text, `parse(format_sections(x)) == x`. Text that looks like structure is escaped; contents that are not
    text are encoded with `encoder`, JSON by default. Instances are thread-safe while no sections are registered.
    """

    def __init__(self, *, encoder: Encoder | None = None) -> None:
        self.encoder: Encoder = encoder or JSONEncoder()
        self._specs: dict[str, SectionSpec] = {}

    # Writing

    def format_section(self, name: str, content: Any) -> str:
        """Format a section.

        Raises:
            ValueError: The name is empty, has several lines, or has surrounding white space.
            EncodingError: The content cannot be encoded.
        """
        return self._write(check_name(name), self.encode(content))

    def format_sections(self, sections: LooseSections) -> str:
        """Format sections, including the outer wrapper. Returns `""` if there are none.

        Args:
            sections: `Section`s, `(name, content)` pairs, or a mapping as returned by `parse`.

        Raises:
            ValueError: A name is invalid.
            EncodingError: A content cannot be encoded.
        """
        written = [self.format_section(name, content) for name, content in in_order(sections)]
        return self._join(written) if written else ""

    def encode(self, content: Any, encoder: Encoder | None = None) -> str:
        """Return text unchanged and other values encoded."""
        return content if isinstance(content, str) else (encoder or self.encoder).encode(content)

    # Reading

    def parse(self, text: str, *, names: Collection[str] | None = None, strip: bool = False) -> dict[str, list[str]]:
        """Parse text and return the contents of each section in order, without text outside sections.

        Never raises: anything that is not a section is treated as text.

        Args:
            text: The text, for example a model's answer.
            names: If given, only these sections are recognized.
            strip: Whether to strip white space around contents, which is useful for text written by a model.
        """
        return grouped(self.parse_sections(text, names=names, strip=strip))

    def parse_sections(self, text: str, *, names: Collection[str] | None = None, strip: bool = False) -> list[Section]:
        """Parse text like `parse` and return a list, with text outside sections as sections without a name."""
        sections = self._read(text, frozenset(names) if names is not None else None)
        if strip:
            sections = [Section(section.name, section.content.strip()) for section in sections]
        return [section for section in sections if section.name or section.content.strip()]

    # Instructions for a model

    def register_section(self, section: "SectionSpec | str", description: str = "", **details: Any) -> SectionSpec:
        """Describe a section for the model, replacing an earlier description of the same name.

        Takes a `SectionSpec`, or a name, a description and other fields of `SectionSpec`.
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
        """The registered sections in order."""
        return tuple(self._specs.values())

    def describe_structure(self) -> str:
        """Return instructions that tell a model to write in this format, with the registered sections."""
        lines = [self._rules()]
        if self._specs:
            lines += ["", "Sections:", *(_bullet(spec) for spec in self.registered)]
            lines += ["", "For example:", "", self._join([self._example(spec) for spec in self.registered])]
        return "\n".join(lines)

    def _example(self, spec: SectionSpec) -> str:
        shown = spec.example if spec.example is not None else "..."
        return self.format_section(spec.name, shown)

    # To be implemented by subclasses

    @abstractmethod
    def _write(self, name: str, content: str) -> str:
        """Format a section with a valid name."""

    @abstractmethod
    def _join(self, written: list[str]) -> str:
        """Join formatted sections, at least one, and add the outer wrapper."""

    @abstractmethod
    def _read(self, text: str, names: frozenset[str] | None) -> list[Section]:
        """Parse all sections and the text between them."""

    @abstractmethod
    def _rules(self) -> str:
        """Describe the format to a model in a few sentences."""


def _bullet(spec: SectionSpec) -> str:
    marks = [mark for mark, holds in (("optional", not spec.required), ("may repeat", spec.repeatable)) if holds]
    told = f" ({', '.join(marks)})" if marks else ""
    return f"- {spec.name}{told}: {spec.description}" if spec.description else f"- {spec.name}{told}"
