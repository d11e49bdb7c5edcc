"""`Outline`: the sections that a text may contain. Finds missing, repeated and misplaced sections."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby

from claude_agent_py.formatting.sections import Place, Problem, ProblemKind, Section, SectionSpec, is_name

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

    def inside(self, spec: SectionSpec) -> "Outline":
        """Return the outline of a section's content."""
        if not spec.sections:
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
