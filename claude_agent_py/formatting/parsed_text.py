"""The result of parsing a text: a mapping of names to contents, the sections themselves, and the problems."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from claude_agent_py.formatting.problems import Problem
from claude_agent_py.formatting.sections import Section


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
