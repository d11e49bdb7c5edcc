"""Named sections of text, their descriptions, and the result of parsing a text, independent of the format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from claude_agent_py._base.errors import ClaudeAgentError


class ProblemKind(StrEnum):
    """The kind of a problem."""

    MISSING = "missing"
    """A required section is missing. The place is the end of the text, or the start of the enclosing section."""
    REPEATED = "repeated"
    """A section that may occur once occurs again."""
    UNCLOSED = "unclosed"
    """The end of a section is missing: a closing tag, quotation mark, brace or code fence."""
    UNKNOWN = "unknown"
    """An unregistered section appears in the position of a section."""
    OUT_OF_ORDER = "out_of_order"
    """A section first occurs after one that is registered later."""
    MALFORMED = "malformed"
    """The text violates the format at this place."""


@dataclass(frozen=True, order=True)
class Place:
    """A place in a text."""

    offset: int
    """The number of characters before it."""
    line: int
    """The line, from 1."""
    column: int
    """The character in the line, from 1."""

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem of a text. `str(problem)` is a sentence for a person or a model."""

    kind: ProblemKind
    name: str
    """The section; empty if the problem is not about one."""
    place: Place
    detail: str
    """A description, without the place."""

    def __str__(self) -> str:
        return f"{self.place}: {self.detail}"


class TextFormatError(ClaudeAgentError):
    """A text is not in the required form. Raised by `TextFormat.parse(..., strict=True)`."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: list[Problem] = list(problems)
        """The problems with their places, in text order. `TextFormat.repair_prompt` makes a prompt of them."""
        lines = "".join(f"\n- {problem}" for problem in self.problems)
        super().__init__(f"the text is not in the required form:{lines}")


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


@dataclass(frozen=True, eq=False, repr=False)
class ParsedText(Mapping[str, list[str]]):
    """A parsed text. As a mapping, it has the contents of each top-level section by name: `{name: [content, ...]}`.

    It equals a dict with the same contents.
    """

    pieces: tuple[Section, ...]
    """The sections and the text between them, in order. Text outside sections has the name `""`."""
    problems: tuple[Problem, ...]
    """The problems, in the order of the text."""

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The top-level sections, in order."""
        return tuple(piece for piece in self.pieces if piece.name)

    @cached_property
    def _contents(self) -> dict[str, list[str]]:
        contents: dict[str, list[str]] = {}
        for section in self.sections:
            contents.setdefault(section.name, []).append(section.content)
        return contents

    def __getitem__(self, name: str) -> list[str]:
        return self._contents[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)

    def __repr__(self) -> str:
        return f"ParsedText({self._contents}, problems={[str(problem) for problem in self.problems]})"
