"""Named sections of text and their descriptions, independent of the format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from claude_agent_py.formatting.problems import Place

MAX_NAME_LENGTH = 200
"""The longest name of a section, in characters. It bounds how much text a parser has to hold back."""


@dataclass(frozen=True)
class Section:
    """A piece of text with a name. The name is empty for text outside all sections."""

    name: str
    content: str
    """The text. If the section contains sections, the text before the first one."""
    sections: "tuple[Section, ...]" = ()
    """The sections inside it, and the text between them."""
    is_closed: bool = True
    """False if its end is missing, for example because the text was truncated."""
    place: Place | None = field(default=None, compare=False, repr=False)
    """Where it starts in the parsed text; None for a section that was not parsed."""


@dataclass(frozen=True, kw_only=True)
class SectionSpec:
    """Describes a section to a model and to the parser.

    Raises:
        ValueError: The name is invalid, or two of `sections` have the same name.
    """

    name: str
    """Matched case-insensitively."""
    description: str = ""
    """A description of the content, in a sentence or two."""
    example: Any = None
    """Example content; values that are not text are encoded."""
    required: bool = True
    repeatable: bool = False
    """Whether the section may occur more than once."""
    anywhere: bool = False
    """Whether the section may occur at any position, regardless of the order of registration."""
    sections: "Sequence[SectionSpec]" = ()
    """The sections that may occur inside this one, in order."""

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "sections", tuple(self.sections))
        if len({spec.name.casefold() for spec in self.sections}) < len(self.sections):
            raise ValueError(f"two sections inside {self.name!r} have the same name")


LooseSections: TypeAlias = "Mapping[str, Any] | Iterable[Section | tuple[str, Any]]"
"""Sections in order, as `Section`s or `(name, content)` pairs, or a mapping: of names to lists of contents, as returned
by `TextFormat.parse`, or to single contents."""


def check_name(name: str) -> str:
    """Return `name` if it is a valid section name: a line of printable text without surrounding white space.

    Raises:
        ValueError: The name is invalid, or longer than 200 characters.
    """
    if not is_name(name):
        raise ValueError(
            f"invalid section name {name[:MAX_NAME_LENGTH]!r}; use a line of printable text without surrounding "
            f"spaces, of at most {MAX_NAME_LENGTH} characters"
        )
    return name


def is_name(text: str) -> bool:
    """Return whether `text` is a valid section name."""
    return 0 < len(text) <= MAX_NAME_LENGTH and text == text.strip() and text.isprintable()


def flatten_sections(sections: LooseSections) -> "list[Section | tuple[str, Any]]":
    """Return sections as a list. A mapping may map names to contents or to lists of contents."""
    if isinstance(sections, Mapping):
        mapping: Any = sections
        return [
            (name, content)
            for name, contents in mapping.items()
            for content in (contents if isinstance(contents, list | tuple) else [contents])
        ]
    return list(sections)
