"""Code shared by the formats that use a data notation, JSON and YAML."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from claude_agent_py.formatting.outline import Outline
from claude_agent_py.formatting.sections import Section


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
