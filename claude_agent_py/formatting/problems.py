"""Problems of a text in sections, and their places."""

from dataclasses import dataclass
from enum import StrEnum


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
