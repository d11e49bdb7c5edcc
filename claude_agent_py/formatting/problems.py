"""What is wrong with a text in sections, and where."""

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    """What is wrong."""

    MISSING = "missing"
    """A required section is not there. The place is the end of the text, or the section that it belongs in."""
    REPEATED = "repeated"
    """A section that may occur once occurs again."""
    UNCLOSED = "unclosed"
    """The end of a section is not there: a closing tag, quotation mark, brace or code fence."""
    UNKNOWN = "unknown"
    """An unregistered section appears where a section may be."""
    OUT_OF_ORDER = "out_of_order"
    """A section first occurs after one that is registered later."""
    MALFORMED = "malformed"
    """The text does not follow the format here."""


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
    """A problem of a text. `str(problem)` is a sentence that a person or a model can act on."""

    kind: ProblemKind
    name: str
    """The section; empty if the problem is not about one."""
    place: Place
    detail: str
    """What is wrong, without the place."""

    def __str__(self) -> str:
        return f"{self.place}: {self.detail}"
