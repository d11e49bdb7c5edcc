"""`check_text_format` passes formats that keep their promises, and tells what others break."""

from collections.abc import Callable, Sequence

import pytest

from claude_agent_py.formatting import (
    JSONFormat,
    MarkdownFormat,
    Reading,
    Section,
    SectionBuilder,
    TextFormat,
    TextSource,
    XMLFormat,
    YAMLFormat,
)
from claude_agent_py.testing import check_text_format


class INIFormat(TextFormat):
    """Sections as `[name]` lines, with a backslash before lines of content that start with `[` or a backslash."""

    def write(self, sections: Sequence[Section]) -> str:
        return "\n".join(f"[{section.name}]\n{self.escaped(section.content)}" for section in sections)

    def escaped(self, content: str) -> str:
        return "\n".join(f"\\{line}" if line[:1] in ("[", "\\") else line for line in content.split("\n"))

    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        is_first, is_last = True, False
        while not is_last:
            offset = source.offset
            line = (yield from source.line()) or ""
            is_last = not line.endswith("\n")
            line = line.removesuffix("\n")
            spec = builder.find(self.named(line[1:-1]), 0) if line[:1] == "[" and line[-1:] == "]" else None
            if spec is not None:
                if builder.depth:
                    builder.close()
                builder.open(spec, offset)
            else:
                builder.text(("" if is_first else "\n") + line.removeprefix("\\"), offset)
            is_first = spec is not None

    def named(self, name: str) -> str:
        return name

    def rules(self) -> str:
        return "Start each section with a line `[name]`."


class NotEscaped(INIFormat):
    def escaped(self, content: str) -> str:
        return content


class WithCase(INIFormat):
    def named(self, name: str) -> str:
        return "?" if name.isupper() else name


class ByChunk(INIFormat):
    """Takes each chunk for a whole text."""

    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        while True:
            part = TextSource()
            part.feed(source.text[source.at :])
            part.is_complete = True
            source.at = len(source.text)
            yield from super().read(part, builder)
            if source.is_complete:
                return
            yield


class NoExample(INIFormat):
    def describe(self) -> str:
        return ", ".join(spec.name for spec in self.registered)


class LosesTheEnd(INIFormat):
    """Loses a text that is cut off in a name."""

    def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
        yield from super().read(source, builder)
        if builder.depth == 0:
            raise IndexError("there is no section")


@pytest.mark.parametrize(
    "make_format",
    [
        MarkdownFormat,
        lambda: MarkdownFormat(level=3),
        XMLFormat,
        lambda: XMLFormat("a"),
        JSONFormat,
        YAMLFormat,
        INIFormat,
    ],
)
def test_a_format_that_keeps_its_promises_passes(make_format: Callable[[], TextFormat]) -> None:
    check_text_format(make_format, rounds=60)


@pytest.mark.parametrize(
    ("make_format", "said"),
    [
        (NotEscaped, r"parse\(format_sections\(x\)\) is not x\ntext: '"),
        (WithCase, "names do not match case-insensitively"),
        (ByChunk, "change the result"),
        (NoExample, "does not show an example"),
    ],
)
def test_a_broken_promise_is_reported(make_format: Callable[[], TextFormat], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_text_format(make_format)


def test_an_error_in_parsing_is_passed_on() -> None:
    with pytest.raises(IndexError):
        check_text_format(LosesTheEnd)
