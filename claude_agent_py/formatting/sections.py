"""Named sections of text and their descriptions, independent of the format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Section:
    """A piece of text with a name. The name is empty for text outside all sections."""

    name: str
    content: str


@dataclass(frozen=True, kw_only=True)
class SectionSpec:
    """Describes a section to a model.

    Raises:
        ValueError: The name is invalid.
    """

    name: str
    description: str = ""
    """What the section contains, in a sentence or two."""
    example: Any = None
    """Example content; values that are not text are encoded."""
    required: bool = True
    repeatable: bool = False
    """Whether the section may occur more than once."""

    def __post_init__(self) -> None:
        check_name(self.name)


LooseSections: TypeAlias = "Mapping[str, Sequence[Any]] | Iterable[Section | tuple[str, Any]]"
"""Sections in order, as `Section`s or `(name, content)` pairs, or a mapping as returned by `TextFormat.parse`."""


def check_name(name: str) -> str:
    """Return `name` if it is a valid section name: a line of printable text without surrounding white space.

    Raises:
        ValueError: The name is invalid.
    """
    if not name or name != name.strip() or not name.isprintable():
        raise ValueError(f"invalid section name {name!r}; use a line of printable text without surrounding spaces")
    return name


def in_order(sections: LooseSections) -> list[tuple[str, Any]]:
    """Convert sections to `(name, content)` pairs."""
    if isinstance(sections, Mapping):
        mapping: Any = sections
        return [(name, content) for name, contents in mapping.items() for content in contents]
    return [(item.name, item.content) if isinstance(item, Section) else item for item in sections]


def grouped(sections: Iterable[Section]) -> dict[str, list[str]]:
    """Group contents by section name, in order, without text outside sections."""
    contents: dict[str, list[str]] = {}
    for section in sections:
        if section.name:
            contents.setdefault(section.name, []).append(section.content)
    return contents
