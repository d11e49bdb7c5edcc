"""Base class of the formats for text in named sections, and the parsing of such text while it arrives.

A subclass defines how sections are written and read. This class implements the parts that all formats share:
registered sections, problems, events and instructions.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from claude_agent_py.formatting.builder import Outline, Reading, SectionBuilder, SectionEvent, TextSource
from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.sections import (
    LooseSections,
    ParsedText,
    Problem,
    Section,
    SectionSpec,
    TextFormatError,
    check_name,
    flatten_sections,
)

MOST_PROBLEMS = 20
"""How many problems a repair prompt lists."""
_END: Final = object()


class TextFormat(ABC):
    """Formats named sections as text and parses them.

    For any text, `parse(format_sections(x)) == x`. Text that looks like structure is escaped; contents that are not
    text are encoded with `encoder`, JSON by default.

    Without registered sections, every name is a section. Registered sections limit the names, and `parse` reports
    missing, repeated, unknown and misplaced sections. Register sections before you share an instance between threads.

    A subclass implements `write`, `read` and `rules`. `claude_agent_py.testing.check_text_format` tests it.
    """

    def __init__(self, *, encoder: Encoder | None = None) -> None:
        self.encoder: Encoder = encoder or JSONEncoder()
        self._specs: dict[str, SectionSpec] = {}

    # Writing

    def format_section(self, name: str, content: object) -> str:
        """Format a section. Same as `format_sections` without an outer wrapper.

        Raises:
            ValueError: The name is empty, too long, has several lines, or has surrounding white space.
            EncodingError: The content cannot be encoded.
        """
        return self.write([self._build_section((name, content), self._build_outline())])

    def format_sections(self, sections: LooseSections) -> str:
        """Format sections, including the outer wrapper. Returns `""` if there are none.

        The content of a section that contains sections may be a list or mapping of them.

        Args:
            sections: `Section`s, `(name, content)` pairs, or a mapping as returned by `parse`.

        Raises:
            ValueError: A name is invalid, or a section contains sections that are not registered for it.
            EncodingError: A content cannot be encoded.
        """
        written = [self._build_section(item, self._build_outline()) for item in flatten_sections(sections)]
        return self.wrap(self.write(written)) if written else ""

    def encode(self, content: object) -> str:
        """Return text unchanged and other values encoded."""
        return content if isinstance(content, str) else self.encoder.encode(content)

    def _build_section(self, item: Section | tuple[str, object], outline: Outline) -> Section:
        """Return a section with text as content, and with valid sections inside."""
        content: Any
        inside: Iterable[Section | tuple[str, Any]]
        if isinstance(item, Section):
            name, content, inside = item.name, item.content, item.sections
        else:
            name, content = item
            inside = ()
        within = outline.inside(outline.find(check_name(name)))
        if within.specs and not isinstance(content, str):
            inside = flatten_sections(content)
            content = ""
        sections = tuple(self._build_section(each, within) for each in inside)
        for section in sections:
            if within.find(section.name) is None:
                raise ValueError(f"section {section.name!r} is not registered inside {name!r}")
        return Section(name, self.encode(content), sections)

    # Reading

    def parse(
        self,
        text: str,
        *,
        names: Collection[str] | None = None,
        strip: bool = False,
        strict: bool = False,
        unknown: Literal["text", "section"] = "text",
        is_truncated: bool = False,
    ) -> ParsedText:
        """Parse a text, for example a model's answer.

        Without `strict`, any text can be parsed: everything outside sections is text. A section without an end is
        included, with `is_closed=False`.

        Args:
            text: The text.
            names: Recognize only these sections. None of them is required.
            strip: Whether to strip white space around contents, which is useful for text written by a model.
            strict: Whether to raise an error if there are problems.
            unknown: How to treat an unregistered section: `"text"` includes it in the surrounding text, `"section"`
                returns it as a section. Both report it.
            is_truncated: Whether the text is cut off, for example because the model reached its token limit. Markdown
                and YAML have no other sign that the last section is incomplete.

        Raises:
            TextFormatError: `strict` is set, and the text has problems.
        """
        stream = self.stream(names=names, strip=strip, unknown=unknown)
        stream.finish(text, is_truncated=is_truncated)
        if strict and stream.parsed.problems:
            raise TextFormatError(stream.parsed.problems)
        return stream.parsed

    def parse_sections(self, text: str, *, names: Collection[str] | None = None, strip: bool = False) -> list[Section]:
        """Parse a text and return its sections, with text outside them as sections without a name."""
        return list(self.parse(text, names=names, strip=strip).pieces)

    def stream(
        self,
        *,
        names: Collection[str] | None = None,
        strip: bool = False,
        unknown: Literal["text", "section"] = "text",
    ) -> "TextStream":
        """Parse a text while it arrives. See `parse` for the arguments."""
        return TextStream(self, SectionBuilder(self._build_outline(names, unknown == "section"), strip=strip))

    def _build_outline(self, names: Collection[str] | None = None, keeps_unknown: bool = False) -> Outline:
        if names is None:
            return Outline(self.registered or None, keeps_unknown=keeps_unknown)
        specs = []
        for name in names:
            spec = SectionSpec(name=name, required=False, repeatable=True, anywhere=True)
            registered = self._specs.get(name.casefold())
            specs.append(spec if registered is None else replace(spec, sections=registered.sections))
        return Outline(specs, keeps_unknown=keeps_unknown)

    # Sections and instructions for a model

    def register_section(self, section: "SectionSpec | str", description: str = "", **details: Any) -> SectionSpec:
        """Register a section, replacing an earlier one of the same name.

        Takes a `SectionSpec`, or a name, a description and other fields of `SectionSpec`. The sections are expected
        in the order of registration.

        Raises:
            ValueError: The name is invalid, or the format cannot nest sections that deep.
        """
        if isinstance(section, str):
            section = SectionSpec(name=section, description=description, **details)
        self.check(section)
        self._specs[section.name.casefold()] = section
        return section

    @property
    def registered(self) -> tuple[SectionSpec, ...]:
        """The registered sections in order."""
        return tuple(self._specs.values())

    def describe(self) -> str:
        """Return instructions for a model to write in this format, with the registered sections and an example."""
        lines = [self.rules()]
        if self._specs:
            fixed = [spec for spec in self.registered if not spec.anywhere]
            lines += ["", "Sections, in this order:" if len(fixed) > 1 else "Sections:"]
            lines += [line for spec in self.registered for line in _describe_section(spec, "")]
            lines += ["", "For example:", "", self.format_sections([_build_example(spec) for spec in self.registered])]
        return "\n".join(lines)

    describe_structure = describe

    def repair_prompt(self, problems: "ParsedText | Iterable[Problem]") -> str:
        """Return a prompt that asks a model to correct its answer.

        Lists at most 20 problems, and repeats the instructions.

        Args:
            problems: The parsed answer, or its problems.
        """
        found = list(problems.problems if isinstance(problems, ParsedText) else problems)
        lines = ["Your answer does not have the required form:", "", *(f"- {found}" for found in found[:MOST_PROBLEMS])]
        if len(found) > MOST_PROBLEMS:
            lines.append(f"- and {len(found) - MOST_PROBLEMS} more")
        return "\n".join([*lines, "", "Write the whole answer again, in the required form.", "", self.describe()])

    # For subclasses

    @abstractmethod
    def write(self, sections: Sequence[Section]) -> str:
        """Format sections, at least one. Names are valid, contents are text, and inner sections are registered."""

    @abstractmethod
    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        """Read the text of `source` and call `builder` for each finding. A generator that yields to get more text.

        It must accept any text, and the chunks must not affect the result. The caller ends the sections that are open
        at the end.
        """

    @abstractmethod
    def rules(self) -> str:
        """Describe the format to a model in a few sentences."""

    def wrap(self, text: str) -> str:
        """Wrap formatted sections. By default, return them unchanged."""
        return text

    def check(self, spec: SectionSpec) -> None:
        """Check a section before it is registered. By default, every section is allowed.

        Raises:
            ValueError: The format does not support this section.
        """
        return


class TextStream:
    """Parses a text while it arrives, and returns events.

    The chunks do not affect the result: the texts of a section's events add up to its content, and `parsed` equals the
    result of `parse`.
    """

    def __init__(self, text_format: TextFormat, builder: SectionBuilder) -> None:
        self._source = TextSource()
        self._builder = builder
        self._reading = text_format.read(self._source, builder)
        self._parsed: ParsedText | None = None

    def feed(self, text: str) -> list[SectionEvent]:
        """Read a chunk of the text, and return the new events.

        Raises:
            RuntimeError: The stream is finished.
        """
        if self._parsed is not None:
            raise RuntimeError("the stream is finished; parse another text with another stream")
        if text:
            self._add(text)
            next(self._reading, None)
        return self._take_events()

    def finish(self, text: str = "", *, is_truncated: bool = False) -> list[SectionEvent]:
        """Read the end of the text, and return the last events. Does nothing if the stream is finished.

        Args:
            text: The last chunk.
            is_truncated: Whether the text is cut off.
        """
        if self._parsed is None:
            self._add(text)
            self._source.is_complete = True
            if next(self._reading, _END) is not _END:
                raise RuntimeError("the format's read() asks for text after the end")
            self._parsed = self._builder.finish(is_truncated=is_truncated)
        return self._take_events()

    @property
    def parsed(self) -> ParsedText:
        """The result for the whole text.

        Raises:
            RuntimeError: The stream is not finished.
        """
        if self._parsed is None:
            raise RuntimeError("the stream is not finished; call finish() after the last chunk")
        return self._parsed

    def _add(self, text: str) -> None:
        self._source.feed(text)
        self._builder.feed(text)

    def _take_events(self) -> list[SectionEvent]:
        events = self._builder.events.copy()
        self._builder.events.clear()
        return events


def _build_example(spec: SectionSpec) -> tuple[str, object]:
    if spec.example is not None:
        return spec.name, spec.example
    if spec.sections:
        return spec.name, [_build_example(inside) for inside in spec.sections]
    return spec.name, "..."


def _describe_section(spec: SectionSpec, indent: str) -> Iterator[str]:
    may_be = {"optional": not spec.required, "may repeat": spec.repeatable, "anywhere": spec.anywhere}
    marks = [mark for mark, holds in may_be.items() if holds]
    line = f"{indent}- {spec.name}"
    if marks:
        line += f" ({', '.join(marks)})"
    if spec.description:
        line += f": {spec.description}"
    yield line
    for inside in spec.sections:
        yield from _describe_section(inside, f"{indent}  ")
