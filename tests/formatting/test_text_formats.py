"""How sections look, and how leniently they are read."""

from dataclasses import dataclass
from datetime import date

import pytest

from claude_agent_py.formatting import (
    JSONFormat,
    MarkdownFormat,
    Section,
    SectionSpec,
    TextFormat,
    XMLFormat,
    YAMLEncoder,
    YAMLFormat,
)


@dataclass
class Point:
    x: int
    y: int


def test_markdown_looks_like_markdown() -> None:
    text = MarkdownFormat().format_sections([("thought", "It rains.\n# no header"), ("point", Point(1, 2))])

    assert text == '# thought\nIt rains.\n\\# no header\n\n# point\n{"x": 1, "y": 2}'


def test_xml_looks_like_xml() -> None:
    text = XMLFormat(wrapper="observation").format_sections([("a", "1 < 2"), ("my notes", "two\nlines")])

    assert text == ('<observation>\n<a>1 &lt; 2</a>\n<section name="my notes">\ntwo\nlines\n</section>\n</observation>')


@pytest.mark.parametrize("text_format", [MarkdownFormat(), XMLFormat(wrapper="observation")])
def test_nothing_is_written_for_no_sections(text_format: TextFormat) -> None:
    assert text_format.format_sections([]) == ""
    assert text_format.parse("") == {}


def test_code_blocks_are_left_alone() -> None:
    code = "```python\n# a comment\n```"

    assert MarkdownFormat().format_section("code", code) == f"# code\n{code}"
    assert MarkdownFormat().parse(f"# code\n{code}\n# end\ndone") == {"code": [code], "end": ["done"]}


def test_a_fence_that_is_never_closed_swallows_nothing() -> None:
    assert MarkdownFormat().parse("# a\n```\ncode\n# b\ntext") == {"a": ["```\ncode"], "b": ["text"]}
    inner = "```\ncode\n~~~\n# in code\n~~~"
    assert MarkdownFormat().parse(f"# a\n{inner}\n# b\ntext") == {"a": [inner], "b": ["text"]}


ANSWER = "# a\n```python\n# b\n```\n\n# b\ntext"


@pytest.mark.parametrize(
    ("text", "is_registered", "after"),
    [
        (f"Sure:\n\n```markdown\n{ANSWER}\n```\nIt is done.\n", False, "It is done.\n"),
        (f"~~~~ md\n\n{ANSWER}\n\n~~~~", False, None),
        (f"\n```\n{ANSWER}\n```\n", True, None),
        (f"```markdown\n{ANSWER}", False, None),
    ],
)
def test_a_code_block_around_the_whole_answer_is_no_part_of_it(
    text: str, is_registered: bool, after: str | None
) -> None:
    text_format = MarkdownFormat()
    for name in "ab" if is_registered else "":
        text_format.register_section(name)

    whole, stream = text_format.parse(text), text_format.stream()
    for character in text:
        stream.feed(character)
    stream.finish()

    assert whole == stream.parsed == {"a": ["```python\n# b\n```"], "b": ["text"]}
    assert whole.pieces == stream.parsed.pieces
    assert whole.pieces[-1].content == (after or "text")


@pytest.mark.parametrize("text", ["```\n# a\nls\n```", "See:\n```\n# a\nls\n```", "```md\nword\n# a\n```", "```md\n\n"])
def test_any_other_code_block_before_the_sections_is_text(text: str) -> None:
    text_format = MarkdownFormat()
    if text.startswith("See"):
        text_format.register_section("a")
    assert [piece.content for piece in text_format.parse(text).pieces] == [text]


@pytest.mark.parametrize("lead", ["Sure:\n\n", "Here is my answer:\n```yaml\n", "Sure:\n\nHere it is:\n\n---\n"])
@pytest.mark.parametrize("is_registered", [True, False])
def test_a_lead_in_before_yaml_is_text(lead: str, is_registered: bool) -> None:
    text_format = YAMLFormat()
    for name in "ab" if is_registered else "":
        text_format.register_section(name)

    text = f"{lead}a: x\nb: y\n" + "```\n" * ("```" in lead)
    whole, stream = text_format.parse(text), text_format.stream()
    for character in text:
        stream.feed(character)
    stream.finish()

    assert whole == stream.parsed == {"a": ["x"], "b": ["y"]}
    assert whole.problems == ()
    assert whole.pieces == stream.parsed.pieces


def test_a_code_block_after_that_of_json_is_text() -> None:
    text = "```json\n{}\n```\nRun:\n```\nls\n```"
    whole, stream = JSONFormat().parse(text.format('{"a": "x"}')), JSONFormat().stream()
    for character in text.format('{"a": "x"}'):
        stream.feed(character)
    stream.finish()

    assert [piece.content for piece in whole.pieces] == ["x", "\nRun:\n```\nls\n```"]
    assert stream.parsed.pieces == whole.pieces


def test_an_entry_without_content_is_no_lead_in() -> None:
    text_format = YAMLFormat()
    assert text_format.parse("a:\n\n  x\n") == {"a": ["x"]}
    assert text_format.parse("a:\n\n- x\n") == {"a": ["x"]}
    assert text_format.parse("a:\nb: x\n") == {"a": [""], "b": ["x"]}
    text_format.register_section("a")
    assert text_format.parse("a:\n\nb: x\n") == {"a": [""]}


def test_text_of_a_model_is_read_leniently() -> None:
    markdown = "Let me think.\n\n# thought\n\nIt rains.\n\n#  answer \r\nyes\n"
    xml = "Let me think.\n<thought>\n\nIt rains & pours\n</thought> so <answer >if a < b: yes</answer>\n<open>"

    assert MarkdownFormat().parse(markdown, strip=True) == {"thought": ["It rains."], "answer": ["yes"]}
    assert XMLFormat().parse(xml, strip=True) == {"thought": ["It rains & pours"], "answer": ["if a < b: yes"]}


def test_a_parsed_text_is_a_mapping_of_its_sections() -> None:
    parsed = XMLFormat().parse("one <a>two</a> three <b>four</b><a>five</a>")
    assert len(parsed) == 2
    assert dict(parsed) == {"a": ["two", "five"], "b": ["four"]}
    assert repr(parsed) == "ParsedText({'a': ['two', 'five'], 'b': ['four']}, problems=[])"


def test_a_tag_in_a_section_is_text_also_if_its_end_comes_later() -> None:
    stream = XMLFormat().stream()
    for chunk in ("<a>one <b>two", " three</", "b> four</a>"):
        stream.feed(chunk)
    stream.finish()
    assert stream.parsed == {"a": ["one <b>two three</b> four"]}


def test_text_between_sections_is_kept_in_order() -> None:
    assert XMLFormat().parse_sections("one <a>two</a> three") == [
        Section("", "one "),
        Section("a", "two"),
        Section("", " three"),
    ]
    assert MarkdownFormat().parse_sections("one\n# a\ntwo") == [Section("", "one"), Section("a", "two")]


def test_repeated_sections_make_a_list() -> None:
    assert XMLFormat().parse("<a>1</a><b>2</b><a>3</a>") == {"a": ["1", "3"], "b": ["2"]}


def test_a_long_text_of_open_tags_is_read_in_reasonable_time() -> None:
    text = "".join(f"<a{index}>" for index in range(50_000)) + "</b>" * 50_000

    assert XMLFormat().parse(text) == {}


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\tb"])
@pytest.mark.parametrize("text_format", [MarkdownFormat(), XMLFormat()])
def test_a_name_that_cannot_be_read_back_is_refused(text_format: TextFormat, name: str) -> None:
    with pytest.raises(ValueError, match="invalid section name"):
        text_format.format_section(name, "text")


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="from 1 to 6"):
        MarkdownFormat(level=7)
    with pytest.raises(ValueError, match="XML name"):
        XMLFormat(wrapper="no name")


@pytest.mark.parametrize("text_format", [MarkdownFormat(), XMLFormat(wrapper="reply")])
def test_the_instructions_name_the_sections_and_show_an_example_that_parses(text_format: TextFormat) -> None:
    text_format.register_section("thought", "What you think.")
    text_format.register_section(
        SectionSpec(name="call", description="A tool.", example={"x": 1}, required=False, repeatable=True)
    )

    told = text_format.describe_structure()

    assert "- thought: What you think." in told
    assert "- call (optional, may repeat): A tool." in told
    example = told.split("For example:\n\n")[1]
    assert text_format.parse(example) == {"thought": ["..."], "call": ['{"x": 1}']}


@pytest.mark.parametrize("text_format", [MarkdownFormat(), XMLFormat(wrapper="reply"), JSONFormat(), YAMLFormat()])
def test_the_instructions_say_no_more_than_is_registered(text_format: TextFormat) -> None:
    assert "ections, in this order" not in text_format.describe()
    assert "For example" not in text_format.describe()
    text_format.register_section("thought")
    assert "\n- thought\n" in text_format.describe()
    assert "inside" not in text_format.describe()


def test_registering_twice_replaces() -> None:
    text_format = MarkdownFormat()
    text_format.register_section("a", "old")
    text_format.register_section("a", "new")

    assert [spec.description for spec in text_format.registered] == ["new"]


def test_values_are_written_in_the_notation_of_the_encoder() -> None:
    assert MarkdownFormat(encoder=YAMLEncoder()).format_section("point", Point(1, 2)) == "# point\nx: 1\ny: 2"


VALUES = {
    "map": {"x": [1, {"y": None}]},
    "list": [1, [2], "- x"],
    "number": 5,
    "nothing": None,
    "flag": True,
    "none": {},
}


@pytest.mark.parametrize("text_format", [MarkdownFormat(), XMLFormat(), JSONFormat(), YAMLFormat()], ids=repr)
def test_values_read_back_in_the_notation_of_the_encoder(text_format: TextFormat) -> None:
    for name in VALUES:
        text_format.register_section(name, anywhere=True, required=False, repeatable=name != "map")
    text = text_format.format_sections([*VALUES.items(), ("list", [3])])

    parsed = text_format.parse(text, strict=True)

    decoded = {name: text_format.encoder.decode(contents[0]) for name, contents in parsed.items()}
    assert decoded == VALUES
    assert text_format.encoder.decode(parsed["list"][1]) == [3]


def test_values_are_values_in_json_and_yaml() -> None:
    for text_format in (JSONFormat(), YAMLFormat()):
        text_format.register_section("list")
        text_format.register_section("item", repeatable=True)
        text = text_format.format_sections(
            [("list", [1, 2]), ("item", {"x": 1}), ("item", "1"), ("day", date(2024, 5, 1))]
        )

        assert text_format.encoder.decode(text) == {"list": [1, 2], "item": [{"x": 1}, "1"], "day": "2024-05-01"}
        assert text_format.parse(text)["list"] in (["[1, 2]"], ["- 1\n- 2"])


def test_json_and_yaml_look_like_it() -> None:
    sections = [("a", "1"), ("a", "two\nlines"), ("b", ""), ("a", "last")]

    assert JSONFormat().format_sections(sections) == (
        '[\n{\n  "a": ["1", "two\\nlines"],\n  "b": ""\n},\n{\n  "a": "last"\n}\n]'
    )
    assert YAMLFormat().format_sections(sections) == ('a:\n  - "1"\n  - |-\n    two\n    lines\nb: ""\n---\na: last\n')


LENIENT: list[tuple[TextFormat, str, dict[str, list[str]], list[str]]] = [
    (
        JSONFormat(),
        'Sure!\n```json\n{"thought": "a\nb", "tags": ["x", "y"], "step": "only",}\n```\nDone.',
        {"thought": ["a\nb"], "tags": ['["x", "y"]'], "step": ["only"]},
        [],
    ),
    (
        JSONFormat(),
        '{"thought": "\\ud83d\\ude00\\n\\u00e4", "tags": 1.50, "step": [1, "x", {"a": ["]", "\\""]}]}\n{"step": null}',
        {"thought": ["😀\nä"], "tags": ["1.50"], "step": ["1", "x", '{"a": ["]", "\\""]}', "null"]},
        [],
    ),
    (
        JSONFormat(),
        '{"thought": "reg \\d+", "tags": "", "step": []}',
        {"thought": ["reg \\d+"], "tags": [""]},
        ["malformed", "missing"],
    ),
    (
        JSONFormat(),
        'Use {x}: {"thought": "say "hi" now", "tags": ""}',
        {"thought": ["say "]},
        ["malformed", "missing", "missing"],
    ),
    (
        JSONFormat(),
        '[{"thought": "a"}, "tags", {"tags": "b"}]',
        {"thought": ["a"], "tags": ["b"]},
        ["malformed", "missing"],
    ),
    (JSONFormat(), '{"thought" "a"}', {}, ["malformed", "missing", "missing", "missing"]),
    (
        JSONFormat(),
        '{"thought": "a", "": [1], "tags": "b", "step": "c"}',
        {"thought": ["a"], "tags": ["b"], "step": ["c"]},
        [],
    ),
    (
        YAMLFormat(),
        "thought: a\ntags: b\nstep:\n  - one\n note\n  - two\n",
        {"thought": ["a"], "tags": ["b"], "step": ["one", "two"]},
        [],
    ),
    (
        YAMLFormat(),
        "Here it is:\n```yaml\nthought: Note: this # is\ntags: [x,\n  y]\nstep:\n- one\n- two: 2\n  x: 3\n"
        "- |\n  a\n\n  b\n```\nBye.",
        {"thought": ["Note: this"], "tags": ["[x,\ny]"], "step": ["one", "two: 2\nx: 3", "a\n\nb\n"]},
        [],
    ),
    (
        YAMLFormat(),
        "thought: \"quoted \\u0041\"\r\ntags: >-\r\n  folded\r\n  text\r\nstep: [one, 'two', {x: 1}]\r\n",
        {"thought": ["quoted A"], "tags": ["folded text"], "step": ["one", "two", "{x: 1}"]},
        [],
    ),
    (
        YAMLFormat(),
        "thought:\n  over\n  lines\n\n  more\ntags: 1.10\nstep: yes\n---\nstep: !!python/object:os.system x",
        {"thought": ["over lines\nmore"], "tags": ["1.10"], "step": ["yes", "!!python/object:os.system x"]},
        [],
    ),
    (
        YAMLFormat(),
        "thought: 'abc\ntags: x\nstep: [a, *b]\n",
        {"thought": ["'abc"], "tags": ["x"], "step": ["[a, *b]"]},
        ["malformed", "unclosed"],
    ),
    (
        YAMLFormat(),
        "thought: |+\n  a\n\ntags: {a: [1,\n  2",
        {"thought": ["a\n\n"], "tags": ["{a: [1,\n2"]},
        ["unclosed", "missing"],
    ),
    (
        YAMLFormat(),
        "thought: |-\n  \x1b[1mbold\n\n    more\ntags: |\n    x\n  y\n",
        {"thought": ["\x1b[1mbold\n\n  more\n"], "tags": ["  x\ny\n"]},
        ["malformed", "unclosed", "missing"],
    ),
    (
        YAMLFormat(),
        "tags: [[[\nstep: " + "[" * 100 + "\nthought:\n",
        {"tags": ["[[["], "step": ["[" * 100], "thought": [""]},
        ["malformed", "out_of_order"],
    ),
]


@pytest.mark.parametrize(("text_format", "text", "contents", "problems"), LENIENT)
def test_json_and_yaml_of_a_model_are_read_leniently(
    text_format: TextFormat, text: str, contents: dict[str, list[str]], problems: list[str]
) -> None:
    for name in ("thought", "tags"):
        text_format.register_section(name)
    text_format.register_section("step", repeatable=True)

    parsed = text_format.parse(text)

    assert parsed == contents
    assert [problem.kind for problem in parsed.problems] == problems


def test_aliases_are_not_followed() -> None:
    bomb = "a: [&x " + "y" * 1000 + ", " + ", ".join(["*x"] * 1000) + "]"

    assert len(YAMLFormat().parse(bomb)["a"][0]) == len(bomb) - len("a: ")
