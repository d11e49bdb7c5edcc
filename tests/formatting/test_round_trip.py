"""`parse(format_sections(x)) == x`, for any text."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import example, given, strategies as st

from claude_agent_py.formatting import MarkdownFormat, Section, TextFormat, XMLFormat

FORMATS = [
    MarkdownFormat(),
    MarkdownFormat(level=2),
    XMLFormat(),
    XMLFormat(wrapper="observation"),
    XMLFormat(wrapper="section"),
]

STRUCTURE = [
    *["# a", "## a", "#", "# ", "#\t", "\\# a", "\\\\# a", "   # a", "    # a"],
    *["```", "````", "```py", "``` a`b", "~~~", "\\```", "  ```", "    ```", "~~~ x", "`", "``` "],
    *["<a>", "</a>", "<observation>", "</observation>", "</section>", '<section name="a">', "<a", "&lt;", "&amp;lt;"],
    *["&", "<", ">", "\\", "\n", "\n\n", "\r\n", "\r", "\u2028", "\x00", " ", "", "text", "\ufeff", "👩‍👩‍👧", "'", '"'],
]

contents = st.one_of(
    st.text(),
    st.lists(st.sampled_from(STRUCTURE), max_size=12).map("\n".join),
    st.lists(st.one_of(st.sampled_from(STRUCTURE), st.text(max_size=3)), max_size=12).map("".join),
)
names = st.one_of(
    st.sampled_from(
        ["a", "b", "section", "part", "observation", "a b", "# a", "<a>", 'q"q', "a.b", "ä", "```", "\\# x"]
    ),
    st.text(min_size=1).filter(lambda name: name == name.strip() and name.isprintable()),
)


@pytest.mark.parametrize("text_format", FORMATS, ids=repr)
@given(sections=st.dictionaries(names, st.lists(contents, min_size=1, max_size=3), max_size=4))
@example({"a": ["```\n# b\n```", "# b"], "b": ["", "\n", "\n\n"]})
@example({"a": ["```\n\\# b\n", "~~~\n```\n# a\n~~~"]})
@example({"a": ["</a><a>", "&lt;b&gt;"], "observation": ["</observation>"]})
def test_what_is_written_reads_back(text_format: TextFormat, sections: dict[str, list[str]]) -> None:
    assert text_format.parse(text_format.format_sections(sections)) == sections


@pytest.mark.parametrize("text_format", FORMATS, ids=repr)
@given(pairs=st.lists(st.tuples(names, contents), max_size=6))
def test_order_reads_back_too(text_format: TextFormat, pairs: list[tuple[str, str]]) -> None:
    sections = [Section(*pair) for pair in pairs]

    assert text_format.parse_sections(text_format.format_sections(sections)) == sections


@pytest.mark.parametrize("text_format", FORMATS, ids=repr)
@given(name=names, content=contents)
def test_one_section_reads_back(text_format: TextFormat, name: str, content: str) -> None:
    assert text_format.parse(text_format.format_section(name, content)) == {name: [content]}


@pytest.mark.parametrize("text_format", FORMATS, ids=repr)
@given(text=st.one_of(st.text(), contents), only=st.one_of(st.none(), st.sets(names, max_size=2)))
def test_reading_never_fails(text_format: TextFormat, text: str, only: set[str] | None) -> None:
    assert set(text_format.parse(text, names=only)) <= (only if only is not None else set(text_format.parse(text)))


@pytest.mark.parametrize("text_format", FORMATS, ids=repr)
@given(name=names, content=contents)
def test_only_the_names_asked_for_are_sections(text_format: TextFormat, name: str, content: str) -> None:
    written = text_format.format_section(name, content)

    assert text_format.parse(written, names=[name]) == {name: [content]}
    assert text_format.parse(written, names=[]) == {}


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
