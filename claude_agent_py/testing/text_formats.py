"""`check_text_format`: check a text format against the contract of `TextFormat`."""

from collections.abc import Callable, Sequence
from random import Random

from claude_agent_py.formatting import (
    ParsedText,
    ProblemKind,
    Section,
    SectionEnded,
    SectionEvent,
    SectionGrew,
    SectionSpec,
    SectionStarted,
    TextFormat,
)

NAMES = ("answer", "my notes", "q\"'&<#:>", "ä", "Yes")
PIECES = (
    *["", " ", "\n", "\n\n", "\t", "\r\n", "\r", "\x00", "\x85", "\u2028", "\ufeff", "\ud800"],
    *["👩‍👩‍👧", "ä", "text", "a b"],
    *["# answer", "## answer", "\\# answer", "```", "~~~~", "````py", "\\```", "---", "...", "[answer]", "answer:"],
    *["<answer>", "</answer>", "<section name='answer'>", "</section>", "<", "&", "&lt;", "&amp;lt;", "]]>"],
    *['{"answer": "', '"', "\\", "\\u0041", "}", "[", "]", ",", "null"],
    *["answer: |2", "- answer", "'", "#", "%", "yes", "1.0"],
)
"""The parts of random contents, including the syntax of each format."""


def check_text_format(make_format: Callable[[], TextFormat], *, rounds: int = 200, seed: int = 0) -> None:
    """Check that a text format keeps the promises of `TextFormat`. Call it in a test of your format.

    Texts, sections and chunks are random, but the same for the same seed. The checks:

    - `parse(format_sections(x)) == x`, with and without registered sections, whatever the contents.
    - Any text can be parsed, in any chunks, with the same result, and the events add up to it.
    - Registered names match case-insensitively. Missing and repeated sections are reported.
    - The example in `describe()` has no problems. A text cut off at any position can be parsed.

    Args:
        make_format: Returns a new format without registered sections.
        rounds: The number of random texts.
        seed: Seed of the random numbers.

    Raises:
        AssertionError: The format breaks a promise. The message shows the text.
    """
    random = Random(seed)  # noqa: S311 (nothing is secret here)
    any_name = make_format()
    registered = _register_names(make_format())
    _check_registered(registered)
    for _ in range(rounds):
        sections = [Section(random.choice(NAMES), _make_content(random)) for _ in range(random.randrange(1, 4))]
        for text_format in (any_name, registered):
            text = text_format.format_sections(sections)
            parsed = text_format.parse(text)
            _require(list(parsed.pieces) == sections, "parse(format_sections(x)) is not x", text, parsed, sections)
            cut = text[: random.randrange(len(text) + 1)]
            for each in (text, cut, cut + _make_content(random), _make_content(random)):
                _check_chunks(text_format, each, random)


def _register_names(text_format: TextFormat) -> TextFormat:
    for name in NAMES:
        text_format.register_section(name, f"About {name}.", required=False, repeatable=True, anywhere=True)
    return text_format


def _make_content(random: Random) -> str:
    joint = random.choice(("", "\n", " "))
    return joint.join(random.choice(PIECES) for _ in range(random.randrange(6)))


def _check_registered(text_format: TextFormat) -> None:
    described = text_format.describe()
    for spec in text_format.registered:
        text = text_format.format_section(spec.name.upper(), "x")
        parsed = text_format.parse(text)
        _require(parsed == {spec.name: ["x"]}, "names do not match case-insensitively", text, parsed, spec.name)
        if spec.name not in described:
            raise AssertionError(f"describe() does not name {spec.name!r}:\n{described}")
    example = text_format.format_sections([(spec.name, "...") for spec in text_format.registered])
    if example not in described:
        raise AssertionError(f"describe() does not show an example:\n{described}")
    parsed = text_format.parse(example, strict=True)
    _require(not parsed.problems, "a formatted text has problems", example, parsed.problems, ())
    text_format.register_section(SectionSpec(name="answer", repeatable=False))
    for contents, kind in (([], ProblemKind.MISSING), (["x", "y"], ProblemKind.REPEATED)):
        text = text_format.format_sections([("ä", "x"), *(("answer", content) for content in contents)])
        found = [problem.kind for problem in text_format.parse(text).problems]
        _require(found == [kind], "the problems are wrong", text, found, [kind])
    text_format.register_section(SectionSpec(name="answer", required=False, repeatable=True, anywhere=True))


def _check_chunks(text_format: TextFormat, text: str, random: Random) -> None:
    whole = text_format.parse(text)
    for chunks in (list(text), _split_randomly(text, random)):
        stream = text_format.stream()
        events = [event for chunk in chunks for event in stream.feed(chunk)] + stream.finish()
        parsed = stream.parsed
        same = (parsed.pieces, parsed.problems) == (whole.pieces, whole.problems)
        _require(same, f"the chunks {chunks!r} change the result", text, parsed, whole)
        _check_events(events, text, parsed)


def _split_randomly(text: str, random: Random) -> list[str]:
    cuts = sorted(random.randrange(len(text) + 1) for _ in range(3))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _check_events(events: Sequence[SectionEvent], text: str, parsed: ParsedText) -> None:
    open_paths: list[tuple[str, ...]] = []
    grown: list[str] = []
    ended: list[Section] = []
    for event in events:
        if isinstance(event, SectionStarted):
            open_paths.append(event.path)
            grown.append("")
        _require(open_paths[-1:] == [event.path], "an event is not about the open section", text, event, open_paths)
        if isinstance(event, SectionGrew):
            grown[-1] += event.text
        if isinstance(event, SectionEnded):
            content = grown.pop()
            _require(content == event.section.content, "growth is not the content", text, content, event.section)
            open_paths.pop()
            if len(event.path) == 1:
                ended.append(event.section)
    _require(tuple(ended) == parsed.pieces, "the events are not the sections", text, ended, parsed.pieces)


def _require(holds: bool, said: str, text: str, found: object, expected: object) -> None:
    if not holds:
        raise AssertionError(f"{said}\ntext: {text!r}\nfound: {found!r}\nexpected: {expected!r}")
