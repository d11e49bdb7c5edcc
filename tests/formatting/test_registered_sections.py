"""Registered sections drive parsing: names, problems and their places, truncation, nesting, events and repairs."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from claude_agent_py.errors import ClaudeAgentError, TextFormatError
from claude_agent_py.formatting import (
    JSONFormat,
    MarkdownFormat,
    ParsedText,
    Place,
    Reading,
    Section,
    SectionBuilder,
    SectionEnded,
    SectionGrew,
    SectionSpec,
    SectionStarted,
    TextFormat,
    TextSource,
    XMLFormat,
    YAMLFormat,
)

KINDS: dict[str, Callable[[], TextFormat]] = {
    "markdown": MarkdownFormat,
    "xml": lambda: XMLFormat(wrapper="reply"),
    "json": JSONFormat,
    "yaml": YAMLFormat,
}


def made(kind: str) -> TextFormat:
    """Return a format with sections: thought, plan (optional, with steps), answer."""
    text_format = KINDS[kind]()
    text_format.register_section("thought", "What you think.")
    step = SectionSpec(name="step", description="One step.", repeatable=True)
    text_format.register_section(SectionSpec(name="plan", description="What to do.", required=False, sections=[step]))
    text_format.register_section("answer", "For the user.", example="42")
    return text_format


def found(parsed: ParsedText) -> list[tuple[str, str, int, int]]:
    return [(problem.kind, problem.name, problem.place.line, problem.place.column) for problem in parsed.problems]


every_kind = pytest.mark.parametrize("kind", KINDS)


# Names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("markdown", "# Thought\nx\n# ANSWER\nSee:\n# Details\n## More\n<thought>"),
        ("markdown", "# Thought:\nx\n# **ANSWER** #\nSee:\n# Details\n## More\n<thought>"),
        ("xml", "<Thought>x</thought>\n<ANSWER>\nSee:\n# Details\n## More\n<thought></Answer>"),
        ("json", '{"Thought": "x", "ANSWER": "See:\\n# Details\\n## More\\n<thought>"}'),
        ("yaml", "Thought: x\nANSWER: |-\n  See:\n  # Details\n  ## More\n  <thought>"),
    ],
)
def test_only_registered_names_are_sections_whatever_their_case(kind: str, text: str) -> None:
    parsed = made(kind).parse(text)

    assert parsed == {"thought": ["x"], "answer": ["See:\n# Details\n## More\n<thought>"]}
    assert parsed.problems == ()


def test_a_tag_in_an_open_section_is_text_if_the_section_is_closed_later() -> None:
    parsed = made("xml").parse("<thought>I write <answer> and <plan><step> next</thought><answer>42</answer>")

    assert parsed == {"thought": ["I write <answer> and <plan><step> next"], "answer": ["42"]}
    assert parsed.problems == ()


def test_an_element_may_be_empty() -> None:
    parsed = made("xml").parse(
        "<thought/><plan><step /></plan><answer>a <b/> <thought/></answer> and <br/>", strict=True
    )

    assert parsed["answer"] == ["a <b/> <thought/>"]
    assert parsed.sections[:2] == (Section("thought", ""), Section("plan", "", (Section("step", ""),)))
    assert XMLFormat().parse("<br/><a>x<br/></a>") == {"a": ["x<br/>"]}


# Problems ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "problems"),
    [
        ("markdown", "# thought\nx", [("missing", "answer", 2, 2)]),
        ("xml", "<thought>x</thought>\n", [("missing", "answer", 2, 1)]),
        ("json", '{"thought": "x"}', [("missing", "answer", 1, 17)]),
        ("yaml", "thought: x", [("missing", "answer", 1, 11)]),
        ("markdown", "# thought\n# answer\n# answer", [("repeated", "answer", 3, 1)]),
        ("xml", "<thought/><answer>1</answer> <answer>2</answer>", [("repeated", "answer", 1, 30)]),
        ("json", '{"thought": "x", "answer": 1,\n "answer": 2}', [("repeated", "answer", 2, 2)]),
        ("yaml", "thought: x\nanswer: 1\nanswer: 2\n", [("repeated", "answer", 3, 1)]),
        ("markdown", "# answer\nx\n\n# thought\ny", [("out_of_order", "thought", 4, 1)]),
        ("xml", "<answer>x</answer>\n<thought>y</thought>", [("out_of_order", "thought", 2, 1)]),
        ("json", '{"answer": "x",\n"thought": "y"}', [("out_of_order", "thought", 2, 1)]),
        ("yaml", "answer: x\nthought: y", [("out_of_order", "thought", 2, 1)]),
        ("markdown", "# notes\nx\n# thought\n# answer", [("unknown", "notes", 1, 1)]),
        ("xml", "<notes>x</notes> <thought></thought><answer></answer>", [("unknown", "notes", 1, 1)]),
        ("json", '{"notes": [1], "thought": "", "answer": ""}', [("unknown", "notes", 1, 2)]),
        ("yaml", "notes: x\nthought:\nanswer:", [("unknown", "notes", 1, 1)]),
        ("xml", "<thought>x\n<answer>y</answer>", [("unclosed", "thought", 1, 1)]),
        ("markdown", "# thought\n```py\nx\n# answer\n42", [("unclosed", "thought", 2, 1)]),
        ("xml", "<reply><thought>x</thought><answer>y</answer>", [("unclosed", "reply", 1, 1)]),
        ("xml", "<thought>a</thought>b</thought><answer></answer>", [("malformed", "thought", 1, 22)]),
        ("json", '{"thought": "x" "answer": "y"}', [("malformed", "", 1, 17), ("missing", "answer", 1, 31)]),
        ("yaml", "thought: 'x' y\nanswer: z", [("malformed", "thought", 1, 1)]),
    ],
)
def test_a_problem_has_its_kind_section_and_place(
    kind: str, text: str, problems: list[tuple[str, str, int, int]]
) -> None:
    parsed = made(kind).parse(text)

    assert found(parsed) == problems
    with pytest.raises(TextFormatError) as raised:
        made(kind).parse(text, strict=True)
    assert isinstance(raised.value, ClaudeAgentError)
    assert raised.value.problems == list(parsed.problems)
    assert all(str(problem) in str(raised.value) for problem in parsed.problems)


def test_a_place_has_the_offset() -> None:
    [problem] = made("markdown").parse("# thought\nü👩\n# answer\n# answer").problems

    assert problem.place == Place(offset=22, line=4, column=1)
    assert str(problem) == "line 4, column 1: section 'answer' occurs again, but may occur only once"


@every_kind
def test_correct_text_passes_strict_parsing(kind: str) -> None:
    text_format = made(kind)
    sections = [Section("thought", "x\n"), Section("answer", "")]

    assert text_format.parse(text_format.format_sections(sections), strict=True).sections == tuple(sections)


def test_an_element_without_end_ends_where_the_next_section_begins() -> None:
    parsed = made("xml").parse("<thought>x\n<answer>y</answer>")

    assert parsed.sections == (Section("thought", "x\n", is_closed=False), Section("answer", "y"))


@pytest.mark.parametrize("kind", ["markdown", "xml"])
def test_a_misspelled_section_is_reported_with_the_right_name(kind: str) -> None:
    text = {"markdown": "# thought\nx\n# anwser\n42", "xml": "<thought>x</thought>\n<anwser>42</anwser>"}[kind]

    unknown, missing = made(kind).parse(text).problems

    assert (unknown.name, unknown.place.line) == ("anwser", 3 if kind == "markdown" else 2)
    assert unknown.detail == "'anwser' is not one of the sections; did you mean 'answer'?"
    assert (missing.kind, missing.name) == ("missing", "answer")


def test_an_element_in_a_line_of_text_is_no_unknown_section() -> None:
    parsed = made("xml").parse("Use <b>this</b>:\n<thought></thought> and <b>that</b> <answer></answer>")

    assert parsed.problems == ()


@every_kind
def test_unknown_sections_can_be_kept_as_sections(kind: str) -> None:
    text_format = made(kind)
    text = text_format.format_sections([("thought", "x"), ("notes", "my notes"), ("answer", "42")])

    parsed = text_format.parse(text, unknown="section")

    assert parsed == {"thought": ["x"], "notes": ["my notes"], "answer": ["42"]}
    assert [(problem.kind, problem.name) for problem in parsed.problems] == [("unknown", "notes")]


@pytest.mark.parametrize("unknown", ["text", "section"])
def test_an_element_around_registered_sections_is_text(unknown: Any) -> None:
    text = "<root>\n<thought>x</thought>\n<part>\n<inner>\n<answer>42</answer></inner></part></root>"

    parsed = made("xml").parse(text, unknown=unknown)

    assert parsed == {"thought": ["x"], "answer": ["42"]}
    assert {(problem.kind, problem.name) for problem in parsed.problems} == {
        ("unknown", name) for name in ("root", "part", "inner")
    }


@every_kind
def test_names_that_are_asked_for_are_neither_required_nor_in_order(kind: str) -> None:
    text = KINDS[kind]().format_sections([("b", "1"), ("a", "2"), ("b", "3")])

    for text_format in (KINDS[kind](), made(kind)):
        parsed = text_format.parse(text, names=["a", "b", "c"])
        assert parsed == {"b": ["1", "3"], "a": ["2"]}
        assert parsed.problems == ()


@every_kind
def test_order_is_that_of_first_occurrences_except_anywhere(kind: str) -> None:
    text_format = KINDS[kind]()
    text_format.register_section("thought", repeatable=True)
    text_format.register_section("call", repeatable=True)
    text_format.register_section("note", anywhere=True, required=False)

    for order in ("thought call thought call", "note thought call", "thought call note"):
        text = text_format.format_sections([(name, "x") for name in order.split()])
        assert text_format.parse(text).problems == ()
    text = text_format.format_sections([("call", "x"), ("thought", "y")])
    assert [str(problem.kind) for problem in text_format.parse(text).problems] == ["out_of_order"]


# Truncation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("xml", "<reply><thought>x</thought>\n<answer>It is 4"),
        ("json", '{"thought": "x", "answer": "It is 4'),
        ("json", '[{"thought": "x"}, {"answer": "It is 4'),
        ("markdown", "# thought\nx\n\n# answer\nIt is 4"),
        ("yaml", "thought: x\nanswer: |-\n  It is 4"),
    ],
)
def test_a_last_section_that_is_cut_off_is_kept_and_marked(kind: str, text: str) -> None:
    parsed = made(kind).parse(text, is_truncated=True)

    assert parsed.sections == (Section("thought", "x"), Section("answer", "It is 4", is_closed=False))
    assert ("unclosed", "answer") in [(problem.kind, problem.name) for problem in parsed.problems]
    if kind in ("xml", "json"):  # in which the text itself shows it
        assert made(kind).parse(text).sections == parsed.sections


@pytest.mark.parametrize(
    ("kind", "text"), [("xml", "<thought></thought><answer>4</answer>"), ("json", '{"answer": "4"')]
)
def test_a_section_that_is_complete_is_not_marked_when_the_text_is_cut_off(kind: str, text: str) -> None:
    assert made(kind).parse(text, is_truncated=True).sections[-1] == Section("answer", "4")


def test_a_code_block_that_is_cut_off_marks_its_section() -> None:
    parsed = made("markdown").parse("# thought\nx\n# answer\n```py\nprint(")

    assert parsed.sections[-1] == Section("answer", "```py\nprint(", is_closed=False)
    assert found(parsed) == [("unclosed", "answer", 4, 1)]


@every_kind
def test_every_beginning_of_a_text_is_read(kind: str) -> None:
    text_format = made(kind)
    text = text_format.format_sections([("thought", "a\nb <c>"), ("plan", {"step": ["x"]}), ("answer", "d\n\ne")])

    for end in range(len(text)):
        parsed = text_format.parse(text[:end], is_truncated=True)
        if "answer" in parsed:
            assert "d\n\ne".startswith(parsed["answer"][0].rstrip("\n")) or parsed["answer"] == ["|"]


# Nesting ----------------------------------------------------------------------------------------------------------


@every_kind
def test_nested_sections_belong_to_their_section(kind: str) -> None:
    text_format = made(kind)
    plan = Section("plan", "First:\n## step\n# x", (Section("step", "one\n## step"), Section("step", "two")))
    sections = (Section("thought", "## step\n<step>x</step>"), plan, Section("answer", "42"))

    parsed = text_format.parse(text_format.format_sections(sections), strict=True)

    assert parsed.sections == sections
    assert parsed["plan"] == ["First:\n## step\n# x"]


@every_kind
def test_a_section_inside_a_section_can_be_missing(kind: str) -> None:
    text_format = made(kind)
    text = text_format.format_sections([("thought", "x"), ("plan", "none"), ("answer", "42")])

    [problem] = text_format.parse(text).problems

    plan = text_format.parse(text).sections[1]
    assert (problem.kind, problem.name, problem.place) == ("missing", "step", plan.place)


def test_a_line_between_sections_inside_one_is_kept() -> None:
    [plan] = made("yaml").parse("plan:\n  step: one\n then\n  step: two\n").sections

    assert plan.sections == (Section("step", "one"), Section("", " then\n"), Section("step", "two"))


@every_kind
def test_contents_with_sections_may_be_pairs_or_mappings(kind: str) -> None:
    text_format = made(kind)

    as_mapping = text_format.format_section("plan", {"step": ["one", 2]})

    assert as_mapping == text_format.format_section("plan", [("step", "one"), ("step", 2)])
    assert text_format.format_sections({"thought": "a b"}) == text_format.format_sections([("thought", "a b")])
    assert text_format.parse(as_mapping).sections == (
        Section("plan", "", (Section("step", "one"), Section("step", "2"))),
    )


@every_kind
def test_sections_that_may_not_be_inside_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="'other' is not registered inside 'plan'"):
        made(kind).format_sections([Section("plan", "", (Section("other", "x"),))])
    with pytest.raises(ValueError, match="same name"):
        SectionSpec(name="a", sections=[SectionSpec(name="b"), SectionSpec(name="B")])


def test_markdown_has_six_levels() -> None:
    text_format = MarkdownFormat(level=5)
    inner = SectionSpec(name="a", sections=[SectionSpec(name="b")])
    text_format.register_section(inner)
    with pytest.raises(ValueError, match="6 levels"):
        text_format.register_section(SectionSpec(name="c", sections=[inner]))


# Events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "chunks"),
    [
        ("markdown", ["# thought\nI", " think", "\n\n# answer\n4", "2"]),
        ("xml", ["<reply><thought>I", " think", "</thought><answer>4", "2"]),
        ("json", ['{"thought": "I', " think", '", "answer": "4', "2"]),
    ],
)
def test_text_is_told_as_soon_as_it_is_there(kind: str, chunks: list[str]) -> None:
    stream = made(kind).stream()
    place = Place(7, 1, 8) if kind == "xml" else Place(1, 1, 2) if kind == "json" else Place(0, 1, 1)

    assert stream.feed(chunks[0]) == [
        SectionStarted(("thought",), place),
        SectionGrew(("thought",), "I"),
    ]
    [grew] = stream.feed(chunks[1])
    assert grew == SectionGrew(("thought",), " think")
    ended, started, grew = stream.feed(chunks[2])
    assert isinstance(ended, SectionEnded)
    assert (ended.name, ended.section.is_closed, started.name) == ("thought", True, "answer")
    assert grew == SectionGrew(("answer",), "4")
    last = stream.feed(chunks[3]) + stream.finish(is_truncated=True)
    assert isinstance(last[-1], SectionEnded)
    assert last[-1].section.is_closed is False
    assert stream.parsed.sections[-1].content == "42"
    assert stream.finish() == []


def test_yaml_is_parsed_at_its_end() -> None:
    stream = made("yaml").stream()

    assert [stream.feed(chunk) for chunk in ("Sure:\n\nthought: |-\n  I", " think\n", "answer: 42\n")] == [[], [], []]
    events = stream.finish()

    assert [piece.content for piece in stream.parsed.pieces] == ["Sure:\n\n", "I think", "42"]
    assert [event.place.offset for event in events if isinstance(event, SectionStarted)] == [0, 7, 29]


def test_a_stream_is_used_in_order() -> None:
    stream = made("xml").stream()
    with pytest.raises(RuntimeError, match="not finished"):
        _ = stream.parsed
    stream.finish()
    with pytest.raises(RuntimeError, match="is finished"):
        stream.feed("x")


def test_a_format_that_reads_on_after_the_end_is_told() -> None:
    class Endless(XMLFormat):
        def read(self, source: TextSource, builder: SectionBuilder) -> Reading:
            while True:
                yield

    with pytest.raises(RuntimeError, match="asks for text after the end"):
        Endless().parse("x")


# Prompts ----------------------------------------------------------------------------------------------------------


@every_kind
def test_the_instructions_show_an_example_without_problems(kind: str) -> None:
    text_format = made(kind)

    told = text_format.describe()

    assert "- thought: What you think.\n- plan (optional): What to do.\n  - step (may repeat): One step.\n" in told
    example = told.split("For example:\n\n")[1]
    assert text_format.parse(example, strict=True).sections[-1] == Section("answer", "42")
    assert text_format.describe_structure() == told


@every_kind
def test_a_repair_prompt_contains_the_problems_and_the_format(kind: str) -> None:
    text_format = made(kind)
    parsed = text_format.parse(text_format.format_section("answer", "x"))

    told = text_format.repair_prompt(parsed)

    assert f"- {parsed.problems[0]}\n" in told
    assert "section 'thought' is missing" in told
    assert told.endswith(text_format.describe())
    assert "- and 5 more\n" in text_format.repair_prompt([parsed.problems[0]] * 25)


# Hostile texts ----------------------------------------------------------------------------------------------------

SIZE = 24_000
HOSTILE = [
    *["<", "<a ", "<answer>", "</thought>", "<x>\n", '<section name="', "&", "<plan><step>", "<thought><answer>"],
    *["# x\n", "# answer\n", "## step\n", "```\n", "~~~\n```\n", "\\", "#", "\n", " ", "\t", "`"],
    *["[", "{", '{"answer":', '{"answer": "\\', '"', "[{", '{"plan": {"step": ['],
    *["answer: |\n", "answer: >\n", "plan:\n  step:\n", "- ", "answer: [", "x: y\n", ": ", "'", "- a: "],
]


@pytest.mark.parametrize("pattern", HOSTILE)
@every_kind
def test_time_is_linear_in_the_length_of_the_text(kind: str, pattern: str) -> None:
    text_format = made(kind)
    begun = {"markdown": "# thought\n", "xml": "<thought>", "json": '{"thought": ', "yaml": "plan:\n  step: "}[kind]

    def parse(size: int) -> float:
        text = f"{begun}{pattern * (size // len(pattern))}"
        before = time.thread_time()
        stream = text_format.stream()
        for start in range(0, len(text), 1000):
            stream.feed(text[start : start + 1000])
        stream.finish()
        assert stream.parsed.problems
        return time.thread_time() - before

    # 0.01 s for all of it. If it were quadratic, it would take 0.9 s and more, 16 times what a quarter takes. What else
    # the machine does can slow down any one of the parses, so that one pair in five is enough.
    assert any(parse(SIZE) < 9 * parse(SIZE // 4) + 0.1 for _ in range(5))
