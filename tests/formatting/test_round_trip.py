"""`parse(format_sections(x)) == x`, for any text, and the same result for any chunks of a text."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import example, given, strategies as st

from claude_agent_py.formatting import (
    JSONFormat,
    MarkdownFormat,
    Section,
    SectionEnded,
    SectionEvent,
    SectionGrew,
    SectionSpec,
    SectionStarted,
    TextFormat,
    XMLFormat,
    YAMLFormat,
)

FORMATS = [
    MarkdownFormat(),
    MarkdownFormat(level=2),
    XMLFormat(),
    XMLFormat(wrapper="observation"),
    XMLFormat(wrapper="section"),
    JSONFormat(),
    YAMLFormat(),
]


def registered(text_format: TextFormat) -> TextFormat:
    """Register sections, two levels of them inside one."""
    inner = SectionSpec(name="a b", required=False, repeatable=True, anywhere=True)
    outer = SectionSpec(
        name="b",
        repeatable=True,
        anywhere=True,
        sections=[inner, SectionSpec(name="part", repeatable=True, sections=[inner])],
    )
    for spec in (SectionSpec(name="a"), outer, inner, SectionSpec(name="observation", required=False)):
        text_format.register_section(spec)
    return text_format


NESTED = [registered(eval(repr(text_format))) for text_format in FORMATS]

STRUCTURE = [
    *["# a", "## a", "### a b", "#", "# ", "#\t", "\\# a", "\\\\# a", "\\## a b", "   # a", "    # a", "# A"],
    *["```", "````", "```py", "``` a`b", "~~~", "\\```", "  ```", "    ```", "~~~ x", "`", "``` ", "```json"],
    *["<a>", "</a>", "<observation>", "</observation>", "</section>", '<section name="a">', "<a", "&lt;", "&amp;lt;"],
    *[
        "<b>",
        "</b>",
        '<section name="a b">',
        "<part>",
        "</part>",
        "<x>",
        "</x>",
        "</A >",
        "<a/>",
        "<part />",
        "# *A:*",
        "<Observation>",
    ],
    *['{"a": "', '{"b": {"a b": ["', '{"x": 1', '"a": [[', '"', '"}', "}", "]", "{", "[{", "\\u0041", "\\ud83d\\ude00"],
    *["a: ", "b:\n  a b: |-\n    ", "a:", "- a", "  - ", '"a": ', "a: |2", "a: >", "a: [", "---", "x: y", "'", "*a"],
    *["&", "<", ">", "\\", "\n", "\n\n", "\r\n", "\r", "\u2028", "\x85", "\x00", " ", "", "text", "\ufeff", "\ud83d"],
    *["👩‍👩‍👧", "!!t", "#"],
]

contents = st.one_of(
    st.text(),
    st.lists(st.sampled_from(STRUCTURE), max_size=12).map("\n".join),
    st.lists(st.one_of(st.sampled_from(STRUCTURE), st.text(max_size=3)), max_size=12).map("".join),
)
names = st.one_of(
    st.sampled_from(
        ["a", "b", "section", "part", "observation", "a b", "# a", "<a>", 'q"q', "a.b", "ä", "```", "\\# x", "null"]
    ),
    st.text(min_size=1, max_size=200).filter(lambda name: name == name.strip() and name.isprintable()),
)
inner = st.builds(Section, st.just("a b"), contents)
parts = st.builds(Section, st.just("part"), contents, st.lists(inner, max_size=2).map(tuple))
trees = st.one_of(
    st.builds(Section, st.sampled_from(["a", "a b", "observation", "not registered"]), contents),
    st.builds(Section, st.just("b"), contents, st.lists(st.one_of(inner, parts), max_size=3).map(tuple)),
)


@given(sections=st.dictionaries(names, st.lists(contents, min_size=1, max_size=3), max_size=4))
@example({"a": ["```\n# b\n```", "# b"], "b": ["", "\n", "\n\n"]})
@example({"a": ["```\n\\# b\n", "~~~\n```\n# a\n~~~"]})
@example({"a": ["</a><a>", "&lt;b&gt;"], "observation": ["</observation>"]})
def test_written_sections_are_parsed_back(sections: dict[str, list[str]]) -> None:
    for text_format in FORMATS:
        parsed = text_format.parse(text_format.format_sections(sections))

        assert parsed == sections, text_format
        assert parsed.problems == (), text_format


@given(pairs=st.lists(st.tuples(names, contents), max_size=6))
def test_order_reads_back_too(pairs: list[tuple[str, str]]) -> None:
    sections = [Section(*pair) for pair in pairs]
    for text_format in FORMATS:
        assert text_format.parse_sections(text_format.format_sections(sections)) == sections, text_format


@given(sections=st.lists(trees, max_size=5))
def test_sections_inside_sections_read_back(sections: list[Section]) -> None:
    sections = [section for section in sections if section.name != "not registered"]
    for text_format in NESTED:
        parsed = text_format.parse(text_format.format_sections(sections))

        assert list(parsed.pieces) == sections, text_format
        assert {problem.kind for problem in parsed.problems} <= {"missing", "repeated", "out_of_order"}, text_format


@given(text=st.one_of(st.text(), contents), only=st.one_of(st.none(), st.sets(names, max_size=2)))
def test_reading_never_fails(text: str, only: set[str] | None) -> None:
    for text_format in FORMATS:
        allowed = only if only is not None else set(text_format.parse(text))
        assert set(text_format.parse(text, names=only)) <= allowed, text_format


@given(name=names, content=contents)
def test_one_section_reads_back_where_its_name_is_asked_for(name: str, content: str) -> None:
    for text_format in FORMATS:
        written = text_format.format_section(name, content)

        assert text_format.parse(written) == text_format.parse(written, names=[name]) == {name: [content]}, text_format
        assert text_format.parse(written, names=[]) == {}, text_format


# Chunks -----------------------------------------------------------------------------------------------------------


def chunks_of(text: str, cuts: Sequence[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def add_up(events: Sequence[SectionEvent]) -> list[Section]:
    """Return the top-level sections that events tell, without a look at those that the last event brings along."""
    top: list[Section] = []
    stack: list[tuple[str, list[str], list[Section]]] = []
    for event in events:
        if isinstance(event, SectionStarted):
            stack.append((event.name, [], []))
        assert event.path == tuple(name for name, _, _ in stack)
        if isinstance(event, SectionGrew):
            assert event.text
            stack[-1][1].append(event.text)
        if isinstance(event, SectionEnded):
            name, texts, inside = stack.pop()
            made = Section(name, "".join(texts), tuple(inside), event.section.is_closed)
            assert made == event.section
            (stack[-1][2] if stack else top).append(made)
    assert stack == []
    return top


@pytest.mark.parametrize("text_format", [*FORMATS, *NESTED], ids=repr)
@given(data=st.data(), cuts=st.lists(st.integers(0, 10_000), max_size=6), strip=st.booleans(), keep=st.booleans())
def test_chunks_make_no_difference(
    text_format: TextFormat, data: st.DataObject, cuts: list[int], strip: bool, keep: bool
) -> None:
    unknown: Any = "section" if keep else "text"
    sections = data.draw(st.lists(trees, max_size=3)) if text_format in NESTED else []
    written = text_format.format_sections(sections)
    text = written[: data.draw(st.integers(0, len(written)))] + data.draw(contents)
    whole = text_format.parse(text, strip=strip, unknown=unknown)

    for chunks in (chunks_of(text, cuts), list(text)):
        stream = text_format.stream(strip=strip, unknown=unknown)
        events = [event for chunk in chunks for event in stream.feed(chunk)] + stream.finish()

        assert stream.parsed.pieces == whole.pieces
        assert stream.parsed.problems == whole.problems
        assert [piece.place for piece in stream.parsed.pieces] == [piece.place for piece in whole.pieces]
        assert add_up(events) == list(whole.pieces)


@given(text=contents)
def test_stripped_is_stripped_afterwards(text: str) -> None:
    for text_format in FORMATS:
        stripped = [
            Section(piece.name, piece.content.strip(), is_closed=piece.is_closed)
            for piece in text_format.parse(text).pieces
        ]

        assert text_format.parse_sections(text, strip=True) == stripped, text_format


# Other parsers ----------------------------------------------------------------------------------------------------


@given(
    content=st.text(
        st.characters(exclude_categories=("Cc", "Cs"), include_characters="\n\t\r", exclude_characters="\ufffe\uffff")
    )
)
@example("]]>")
def test_an_xml_parser_reads_the_same(content: str) -> None:
    written = XMLFormat(wrapper="observation").format_sections([("a", content)])

    read = ElementTree.fromstring(written).findtext("a") or ""

    assert (read[1:-1] if "\n" in content else read) == content


def test_a_character_that_xml_does_not_allow_stays_as_it_is() -> None:
    written = XMLFormat().format_sections([("a", "\x1b[31mred")])

    assert written == "<a>\x1b[31mred</a>"
    assert XMLFormat().parse_sections(written)[0].content == "\x1b[31mred"


@given(sections=st.dictionaries(names, contents, min_size=1, max_size=4))
def test_json_and_yaml_parsers_read_the_same(sections: dict[str, str]) -> None:
    for text_format, load in ((JSONFormat(), json.loads), (YAMLFormat(), yaml.safe_load)):
        written = text_format.format_sections(list(sections.items()))

        assert load(written) == sections
