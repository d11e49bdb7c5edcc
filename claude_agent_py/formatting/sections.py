"""Named pieces of text, and what a model is told about them.

Owns the two values that every `TextFormat` works with: a `Section` (a piece of text and its name) and a `SectionSpec`
(what a section is for). Knows nothing of Markdown or XML.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Section:
    """A piece of text with a name. The empty name stands for text that is in no section."""

    name: str
    content: str


@dataclass(frozen=True, kw_only=True)
class SectionSpec:
    """What a section is for: the part that a model is told."""

    name: str
    description: str = ""
    """What belongs in it, in a sentence or two."""
    example: Any = None
    """A content to show; a value that is no text is encoded."""
    required: bool = True
    repeatable: bool = False
    """Whether it may come several times."""

    def __post_init__(self) -> None:
        check_name(self.name)


LooseSections: TypeAlias = "Mapping[str, Sequence[Any]] | Iterable[Section | tuple[str, Any]]"
"""Sections in order, as values or `(name, content)` pairs; or a mapping as `TextFormat.parse` gives it."""


def check_name(name: str) -> str:
    """Give the name back if a section can have it: one line of printable text, no white space around it.

    Raises:
        ValueError: It cannot; the text says why.
    """
    if not name or name != name.strip() or not name.isprintable():
        raise ValueError(f"a section's name is one line of printable text with no space around it; not {name!r}")
    return name


def in_order(sections: LooseSections) -> list[tuple[str, Any]]:
    """Give `(name, content)` pairs of whatever form the sections have."""
    if isinstance(sections, Mapping):
        mapping: Any = sections
        return [(name, content) for name, contents in mapping.items() for content in contents]
    return [(item.name, item.content) if isinstance(item, Section) else item for item in sections]


def grouped(sections: Iterable[Section]) -> dict[str, list[str]]:
    """Give the contents of each name, in order; text outside of sections is left out."""
    contents: dict[str, list[str]] = {}
    for section in sections:
        if section.name:
            contents.setdefault(section.name, []).append(section.content)
    return contents
