"""`SectionBuilder`: builds sections from the calls of a parser, and records events while they grow.

The `Outline`, the sections that the text may contain, tells which are missing, repeated or misplaced.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import TypeAlias

from claude_agent_py.formatting.sections import ParsedText, Place, Problem, ProblemKind, Section, SectionSpec, is_name

SIMILARITY = 0.8
"""The similarity from which a name counts as a misspelling of a registered one; 1.0 means equal."""
MOST_COMPARED = 100
"""The maximum number of names that are compared with the registered ones, because comparing is slow."""


class Outline:
    """The sections that may occur at one level.

    Args:
        specs: The sections in order; None means that every name is a section.
        keeps_unknown: Whether names that are not in `specs` are also sections.
    """

    def __init__(self, specs: Iterable[SectionSpec] | None, *, keeps_unknown: bool = False) -> None:
        self.specs: tuple[SectionSpec, ...] | None = None if specs is None else tuple(specs)
        self._takes_any = specs is None or keeps_unknown
        self._exact = {spec.name: spec for spec in self.specs or ()}
        self._folded = {spec.name.casefold(): spec for spec in reversed(self.specs or ())}
        self._inside: dict[str, Outline] = {}
        self._nearest: dict[str, str | None] = {}

    def find(self, name: str) -> SectionSpec | None:
        """Return the section with this name, or None."""
        found = self._exact.get(name) or self._folded.get(name.casefold())
        if found is None and self._takes_any and is_name(name):
            return SectionSpec(name=name, required=False, repeatable=True)
        return found

    def is_unknown(self, name: str) -> bool:
        """Return whether there are registered sections and the name is not one of them."""
        return self.specs is not None and name.casefold() not in self._folded

    def inside(self, spec: SectionSpec | None) -> "Outline":
        """Return the outline of a section's content; nothing may occur inside None."""
        if spec is None or not spec.sections:
            return NO_SECTIONS
        if spec.name not in self._inside:
            self._inside[spec.name] = Outline(spec.sections)
        return self._inside[spec.name]

    def nearest(self, name: str) -> str | None:
        """Return the registered name that `name` may misspell, or None."""
        if name not in self._nearest:
            if not is_name(name) or len(self._nearest) >= MOST_COMPARED:
                return None
            found = get_close_matches(name.casefold(), list(self._folded), n=1, cutoff=SIMILARITY)
            self._nearest[name] = self._folded[found[0]].name if found else None
        return self._nearest[name]

    def problems(self, sections: Iterable[Section], end: Place) -> Iterator[Problem]:
        """Yield a problem for each missing, repeated or misplaced section.

        Args:
            sections: The parsed sections of this level.
            end: The place that is reported for missing sections.
        """
        if self.specs is None:
            return
        rank = {spec.name: index for index, spec in enumerate(self.specs) if not spec.anywhere}
        seen: dict[str, Section] = {}
        for section in sections:
            spec = self._exact.get(section.name)
            if spec is None:
                continue
            if section.name not in seen:
                yield from self._check_order(section, seen, rank, end)
            elif not spec.repeatable:
                yield _problem(ProblemKind.REPEATED, section, "occurs again, but may occur only once", end)
            seen.setdefault(section.name, section)
            yield from self.inside(spec).problems(section.sections, section.place or end)
        for spec in self.specs:
            if spec.required and spec.name not in seen:
                yield _problem(ProblemKind.MISSING, Section(spec.name, "", place=end), "is missing", end)

    def _check_order(
        self, section: Section, seen: Iterable[str], rank: dict[str, int], end: Place
    ) -> Iterator[Problem]:
        at = rank.get(section.name)
        later = [name for name in seen if at is not None and rank.get(name, -1) > at]
        if later:
            first = min(later, key=rank.__getitem__)
            yield _problem(ProblemKind.OUT_OF_ORDER, section, f"belongs before {first!r}", end)


def _problem(kind: ProblemKind, section: Section, text: str, end: Place) -> Problem:
    return Problem(kind=kind, name=section.name, place=section.place or end, detail=f"section {section.name!r} {text}")


NO_SECTIONS = Outline(())
"""The outline of a section without sections inside."""


class Notation(str):
    """Text in the notation of the format, such as `{"x": 1}`. It is written unchanged, not as a string."""

    __slots__ = ()


def split_mappings(sections: Sequence[Section], outline: Outline) -> Iterator[list[list[Section]]]:
    """Split sections into mappings without repeated names. Sections of the same name in a row share an entry.

    A section that is not repeatable gets a separate entry, because a list under its name is its content.
    """
    entries: list[list[Section]] = []
    names: set[str] = set()
    for _, run in groupby(sections, key=lambda section: section.name):
        same = list(run)
        for entry in [same] if is_repeatable(same[0], outline) else [[section] for section in same]:
            if entry[0].name in names:
                yield entries
                entries = []
                names = set()
            entries.append(entry)
            names.add(entry[0].name)
    yield entries


def is_repeatable(section: Section, outline: Outline) -> bool:
    """Return whether a list under the name of a section means several sections."""
    spec = outline.find(section.name)
    return spec is None or spec.repeatable


Reading: TypeAlias = Generator[None, None, None]
"""A parser that yields when it needs more text."""


class TextSource:
    """A text that arrives in chunks.

    Parsers look at `text` from `at` on, move `at` forward, and `yield` if they need more text. After a `yield`,
    indexes into `text` are no longer valid.
    """

    def __init__(self) -> None:
        self.at: int = 0
        """The index in `text` of the next character to read."""
        self.is_complete = False
        """Whether no more text will come."""
        self._text = ""
        self._later: list[str] = []
        self._dropped = 0

    def feed(self, chunk: str) -> None:
        """Add text at the end."""
        self._later.append(chunk)

    @property
    def text(self) -> str:
        """The text that has arrived, without parts that were read before the last chunk."""
        if self._later:
            self._dropped += self.at
            self._text = self._text[self.at :] + "".join(self._later)
            self._later.clear()
            self.at = 0
        return self._text

    @property
    def offset(self) -> int:
        """The number of characters of the whole text before `at`."""
        return self._dropped + self.at

    @property
    def is_read(self) -> bool:
        """Whether everything that has arrived was read."""
        text = self.text
        return self.at >= len(text)

    def take(self, end: int) -> tuple[str, int]:
        """Read the text up to the index `end`, and return it with its offset."""
        offset = self.offset
        start, self.at = self.at, end
        return self.text[start:end], offset

    def wait_for(self, find: Callable[[str, int], int], *, longest: int, skip: int = 0) -> Generator[None, None, int]:
        """Wait until something is in the text, and return its index in `text`, or -1 if it never comes.

        Does not move `at`. While it waits, each chunk is searched once, which keeps parsing linear.

        Args:
            find: Returns the index of the first match in a text at or after an index, or -1. A match must not depend
                on the surrounding text.
            longest: The length of the longest possible match, in characters.
            skip: The number of characters after `at` that are not searched.
        """
        text = self.text
        found = find(text, self.at + skip)
        if found >= 0:
            return found
        window = text[max(self.at + skip, len(text) - longest + 1) :]
        # The number of characters between `at` and the window.
        before = len(text) - self.at - len(window)
        while not self.is_complete:
            count = len(self._later)
            yield
            drop = max(0, len(window) - longest + 1)
            before += drop
            window = window[drop:] + "".join(self._later[count:])
            found = find(window, 0)
            if found >= 0:
                # Reading `text` joins the chunks and moves `at` accordingly.
                _ = self.text
                return self.at + before + found
        return -1

    def line(self) -> "Generator[None, None, str | None]":
        """Read a line, including its line feed. Returns None at the end."""
        index = yield from self.wait_for(lambda text, start: text.find("\n", start), longest=1)
        return self.take(len(self.text) if index < 0 else index + 1)[0] or None


@dataclass(frozen=True)
class _Event:
    path: tuple[str, ...]
    """The names of the sections around it, then its own."""

    @property
    def name(self) -> str:
        """The section's name; empty for text outside sections."""
        return self.path[-1]


@dataclass(frozen=True)
class SectionStarted(_Event):
    """A section began, or, with an empty name, text outside sections."""

    place: Place


@dataclass(frozen=True)
class SectionGrew(_Event):
    """Text was added to a section. The texts of all these events together are its content."""

    text: str


@dataclass(frozen=True)
class SectionEnded(_Event):
    """A section is complete."""

    section: Section


SectionEvent: TypeAlias = SectionStarted | SectionGrew | SectionEnded
"""What a parser of streamed sections reports."""


class SectionBuilder:
    """Receives the findings of a parser: starts and ends of sections, text, and problems.

    Args:
        outline: The sections that may occur.
        strip: Whether to strip white space around contents.
    """

    def __init__(self, outline: Outline, *, strip: bool = False) -> None:
        self.events: list[SectionEvent] = []
        """The events since the list was last emptied."""
        self._outline = outline
        self._strip = strip
        self._open: list[_Piece] = []
        self._text_piece: _Piece | None = None
        self._pieces: list[Section] = []
        self._problems: list[Problem] = []
        self._line_feeds: list[int] = []
        self._length = 0

    # State, for the parser

    @property
    def depth(self) -> int:
        """The number of open sections."""
        return len(self._open)

    @property
    def name(self) -> str:
        """The name of the innermost open section; empty outside sections."""
        return self._open[-1].path[-1] if self._open else ""

    def outline(self, depth: int | None = None) -> Outline:
        """Return the outline of the sections that may occur inside the first `depth` open sections, or inside all."""
        inside = self.depth if depth is None else depth
        return self._open[inside - 1].outline if inside else self._outline

    def find(self, name: str, depth: int | None = None) -> SectionSpec | None:
        """Return the section of that name that may occur inside the first `depth` open sections, or inside all."""
        return self.outline(depth).find(name)

    # Findings of the parser

    def open(self, spec: SectionSpec, offset: int) -> None:
        """Begin a section inside the open ones."""
        self.end_text()
        if self.outline().is_unknown(spec.name):
            self.unknown(spec.name, offset)
        path = (*self._path, spec.name)
        self._open.append(_Piece(path, self.place(offset), self._strip, self.outline().inside(spec)))
        self.events.append(SectionStarted(path, self.place(offset)))

    def text(self, text: str, offset: int) -> None:
        """Add text to the open section, or to the text outside sections."""
        if not text:
            return
        if self._open and not self._open[-1].sections:
            self._add_text(self._open[-1], text)
            return
        if self._text_piece is None:
            self._text_piece = _Piece((*self._path, ""), self.place(offset), self._strip, self._outline)
        piece = self._text_piece
        if not piece.is_started:
            piece.waiting.append(text)
            if text.isspace():
                return
            self.events.append(SectionStarted(piece.path, piece.place))
            text = "".join(piece.waiting)
            piece.is_started = True
        self._add_text(piece, text)

    def close(self, *, is_closed: bool = True) -> None:
        """End the innermost open section.

        Args:
            is_closed: Whether the text contains its end.
        """
        self.end_text()
        piece = self._open.pop()
        if not is_closed:
            piece.is_closed = False
            self.unclosed(piece.path[-1], piece.place.offset)
        self._add_section(piece)

    def end_text(self) -> None:
        """End the text outside sections, so that text that follows becomes another piece."""
        piece, self._text_piece = self._text_piece, None
        if piece is not None and piece.is_started:
            self._add_section(piece)

    def leave_open(self) -> None:
        """Mark the innermost open section as unclosed: its end is missing."""
        self._open[-1].is_closed = False

    # Problems

    def unclosed(self, name: str, offset: int, detail: str = "") -> None:
        """Report that the end of something is missing."""
        self.problem(ProblemKind.UNCLOSED, name, offset, detail or f"section {name!r} has no end")

    def unknown(self, name: str, offset: int) -> None:
        """Report a section that is not registered."""
        nearest = self.outline().nearest(name) or self._outline.nearest(name)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        self.problem(ProblemKind.UNKNOWN, name, offset, f"{name!r} is not one of the sections{hint}")

    def problem(self, kind: ProblemKind, name: str, offset: int, detail: str) -> None:
        """Report any problem."""
        self._problems.append(Problem(kind=kind, name=name, place=self.place(offset), detail=detail))

    # Input and result, for the stream

    def feed(self, chunk: str) -> None:
        """Record the line breaks of a chunk, from which `place` computes lines and columns."""
        at = chunk.find("\n")
        while at >= 0:
            self._line_feeds.append(self._length + at)
            at = chunk.find("\n", at + 1)
        self._length += len(chunk)

    def place(self, offset: int) -> Place:
        """Return the place after the first `offset` characters."""
        before = bisect_left(self._line_feeds, offset)
        start = self._line_feeds[before - 1] + 1 if before else 0
        return Place(offset, before + 1, offset - start + 1)

    def finish(self, *, is_truncated: bool = False) -> ParsedText:
        """End everything that is open, check the sections, and return the result.

        Args:
            is_truncated: Whether the text is cut off, so that the ends of open sections are missing.
        """
        while self._open:
            self.close(is_closed=not is_truncated)
        self.end_text()
        end = self.place(self._length)
        problems = [*self._problems, *self._outline.problems(self._pieces, end)]
        return ParsedText(tuple(self._pieces), tuple(sorted(problems, key=lambda problem: problem.place)))

    @property
    def _path(self) -> tuple[str, ...]:
        return self._open[-1].path if self._open else ()

    def _add_text(self, piece: "_Piece", text: str) -> None:
        added = piece.add(text)
        if added:
            self.events.append(SectionGrew(piece.path, added))

    def _add_section(self, piece: "_Piece") -> None:
        section = piece.build_section()
        (self._open[-1].sections if self._open else self._pieces).append(section)
        self.events.append(SectionEnded(piece.path, section))


class _Piece:
    """A section, or a piece of text outside sections, that is being read."""

    def __init__(self, path: tuple[str, ...], place: Place, strip: bool, outline: Outline) -> None:
        self.path = path
        self.place = place
        self.outline = outline
        self.sections: list[Section] = []
        self.is_closed = True
        self.is_started = False
        self.waiting: list[str] = []
        self._strip = strip
        self._parts: list[str] = []
        self._held_space: list[str] = []

    def add(self, text: str) -> str:
        """Add text, and return the part that certainly belongs to the content."""
        if self._strip:
            text = self._strip_text(text)
        if text:
            self._parts.append(text)
        return text

    def _strip_text(self, text: str) -> str:
        """Remove leading white space, and hold trailing white space back until more text follows."""
        kept = text if self._parts else text.lstrip()
        body = kept.rstrip()
        if not body:
            if self._parts:
                self._held_space.append(kept)
            return ""
        before = "".join(self._held_space)
        self._held_space = [kept[len(body) :]]
        return before + body

    def build_section(self) -> Section:
        return Section(self.path[-1], "".join(self._parts), tuple(self.sections), self.is_closed, self.place)
