"""Patterns, matchers, and what may stand in their place."""

import json
import random
import re
import shutil
import subprocess
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest

from claude_agent_py import HookContext, HookMatcher, Hooks
from claude_agent_py.errors import OptionsError
from claude_agent_py.hooks import HOOK_EVENT_FACTS, HookInput, HookWarning, StopInput
from claude_agent_py.tools import BUILTIN_TOOL_NAMES


def handler(input: HookInput, context: HookContext) -> None: ...


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "*",
        "Bash",
        "Bash|Read",
        "Bash, Read",
        "^Ba.*",
        "B.*|R.*",
        "mcp__.*",
        r"(?<name>B)ash",
        "(?<!a+)B",
        r"(a\*+|B)ash",
        "((?!R))Bash",
        r"(B|\(?!)ash",
    ],
)
def test_patterns_that_the_cli_can_read(pattern: str) -> None:
    assert HookMatcher(pattern, handler).pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("[", "escape a literal bracket"),
        ("*Bash", "not a valid regular expression"),
        ("(?i)bash", "case-sensitive"),
        ("(?i:bash)", "case-sensitive"),
        (r"(?P<n>Bash)", r"\(\?<name>"),
        (r"\ABash\Z", r"are \^ and \$"),
        ("a*+b", "possessive"),
        ("a{2}+b", "possessive"),
        (r"\p{L}+", "needs a flag"),
        ("|", "contains no name"),
        (" ", "contains no name"),
        ("Bash(*)", "permission rule"),
        ("(?>a)b", "Python is allowed"),
        ("(a)?(?(1)b|c)", "Python is allowed"),
        ("(?#x)Bash", "Python is allowed"),
        ("(?!)", "never matches"),
        ("Ba(?:s(?<!)|t)h", "never matches"),
    ],
)
def test_a_pattern_that_would_match_nothing_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(OptionsError, match=says) as caught:
        HookMatcher(pattern, handler)
    assert caught.value.option == "hooks"
    assert repr(pattern) in str(caught.value)


ONE_LANGUAGE_ONLY = [
    "Bash\\",
    "[]B]ash",
    "[^]B]ash",
    "[]",
    "[^]",
    r"\U00000042ash",
    r"\N{LATIN CAPITAL LETTER B}ash",
    r"\ABash",
    r"Bash\Z",
    r"Bash\z",
    r"\aBash",
    r"\eash",
    r"\cBash",
    r"\x4",
    r"\u42ash",
    r"\u{42}ash",
    r"\102ash",
    r"\0",
    r"[\b]",
    r"(B)?\1ash",
    r"(?<b>B)\k<b>",
    "(?<1>B)ash",
    "(?<é>B)ash",
    "(?P<b>B)(?P=b)",
    "(?i:bash)",
    "(?-i:Bash)",
    "(?=B)*ash",
    "(?<!R)?Bash",
    "(?!R){2}Bash",
    "Ba{,3}sh",
    r"B\Bash",
    "Ba{1",
    "Ba}sh",
    "Ba{1}{2}sh",
    "Ba++sh",
    "Ba?+sh",
    "B]ash",
    "[[:alpha:]]ash",
    "[A-Z&&[B]]ash",
    "[A--B]ash",
    "[a||b]ash",
    "[\\w-z]ash",
    "[\U0001f600B]ash",
    "(?|B)ash",
    "(?<=(a+)+",
    "(?~B)ash",
    "(Bash",
    "Bash)",
    "**",
]


@pytest.mark.parametrize("pattern", ONE_LANGUAGE_ONLY)
def test_a_pattern_that_means_the_same_in_one_language_only_is_refused(pattern: str) -> None:
    with pytest.raises(OptionsError, match="would match nothing"):
        HookMatcher(pattern, handler)


NAMES = [*BUILTIN_TOOL_NAMES, "mcp__a__b", "mcp__files__read_file", "", ".env", "a b.txt", "é", "Ba-sh", "bash}", "B]"]
PIECES = [
    *(
        "B",
        "a",
        "s",
        "h",
        "_",
        "-",
        " ",
        "é",
        ".",
        "^",
        "$",
        "|",
        "(",
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "(?<n>",
        ")",
    ),
    *(
        "[",
        "[^",
        "]",
        "{",
        "}",
        "{2}",
        "{1,}",
        "{,2}",
        "{0,3}",
        "*",
        "+",
        "?",
        "??",
        "*?",
        ",",
        "<",
        ">",
        "&&",
        "--",
        "~~",
    ),
    *("\\", "\\\\", "\\.", "\\]", "\\-", "\\/", "\\<", "\\b", "\\B", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\n"),
    *("\\A", "\\Z", "\\z", "\\a", "\\1", "\\0", "\\e", "\\k<n>", "\\x42", "\\x4", "\\u0042", "\\u004", "\\U00000042"),
    *(
        "(?i)",
        "(?i:",
        "(?#",
        "(?>",
        "(?P<n>",
        "(?P=n)",
        "[a-z]",
        "[A-Z_]",
        "[^ ]",
        "[]B]",
        "[[:w:]]",
        "\U0001f600",
        "1",
    ),
]
NODE = shutil.which("node")
ASK_NODE = """
const {patterns, names} = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(patterns.map((pattern) => {
  try { return names.filter((name) => new RegExp(pattern).test(name)); } catch (error) { return String(error); }
})));
"""


@cache
def accepted_patterns() -> list[str]:
    """Return what is accepted of very many patterns, most of which are broken."""
    dice = random.Random(18)
    made = {"".join(dice.choices(PIECES, k=dice.randint(1, 7))) for _ in range(60_000)}
    return sorted(pattern for pattern in made if is_accepted(pattern) and not PLAIN.fullmatch(pattern))


def is_accepted(pattern: str) -> bool:
    try:
        HookMatcher(pattern, handler)
    except OptionsError:
        return False
    return True


PLAIN = re.compile(r"[a-zA-Z0-9_|, -]*|\*")
"""What the CLI takes for names."""


@cache
def matched_by_python(pattern: str) -> list[str] | None:
    """Return the names that match; None for a look-behind of any length, which Python does not have."""
    try:
        compiled = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.ASCII)
    except re.error as error:
        if "look-behind" not in str(error):
            raise
        return None
    return [name for name in NAMES if compiled.search(name)]


def test_accepted_patterns_compile_in_python() -> None:
    patterns = accepted_patterns()
    assert len(patterns) > 2000
    assert sum(bool(matched_by_python(pattern)) for pattern in patterns) > 500


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["Agent", "Bash", "AgentX"]),
        ("*", ["Agent", "Bash", "AgentX"]),
        ("Agent", ["Agent"]),
        ("Bash, Agent", ["Agent", "Bash"]),
        ("Agent.*", ["Agent", "AgentX"]),
        ("^(?<name>Bash|Agent)$", ["Agent", "Bash"]),
        ("(?<=Agent)X", ["AgentX"]),
        ("agent", []),
        ("(?<=A.*)X", ["Agent", "Bash", "AgentX"]),  # Python cannot tell
    ],
)
def test_which_names_a_pattern_matches(pattern: str | None, names: list[str]) -> None:
    matcher = HookMatcher(pattern, handler)
    assert [name for name in ("Agent", "Bash", "AgentX") if matcher.matches(name)] == names


@pytest.mark.skipif(NODE is None, reason="there is no JavaScript to ask")
def test_accepted_patterns_match_the_same_in_javascript() -> None:
    patterns = accepted_patterns()
    asked = json.dumps({"patterns": patterns, "names": NAMES})
    done = subprocess.run([str(NODE), "-e", ASK_NODE], input=asked, capture_output=True, text=True, check=True)
    for pattern, found in zip(patterns, json.loads(done.stdout), strict=True):
        expected = matched_by_python(pattern)
        assert (pattern, found) == (pattern, found if expected is None and isinstance(found, list) else expected)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("Bash(rm *)", "permission rule"),
        ("Bash(rm)", "permission rule"),
        ("Read(.env)", "permission rule"),
        ("Bash;Write", "no tool name contains ';'"),
        ("Bash Write", "no tool name contains ' '"),
        ("Bash, Wri.*", "no tool name contains ','"),
        ("/Bash/", "no tool name contains '/'"),
        ("!Bash", "no tool name contains '!'"),
        ("Bash\n", r"no tool name contains '\\n'"),
        (r"\<Bash\>", "no tool name contains"),
        (r"\/Bash\/", "no tool name contains"),
        ("[;,]Bash", "no tool name contains"),
        (r"Bash\s", "no tool name contains"),
        (r"Bash\x20", "no tool name contains"),
    ],
)
def test_a_pattern_that_fits_no_tool_is_refused(pattern: str, says: str) -> None:
    matcher = HookMatcher(pattern, handler)
    with pytest.raises(OptionsError, match=says):
        Hooks({"PreToolUse": [matcher]})
    assert len(Hooks({"FileChanged": [matcher]})) == 1


@pytest.mark.parametrize(
    "pattern", ["Task(Output|Create)", "mcp__(a|b)__.*", "[^ ]+", r"\w{2,3}", "(?!Bash)^.*$", "(?<x>B)ash", r"Ba\x73h"]
)
def test_a_pattern_that_may_fit_a_tool_is_not_refused(pattern: str) -> None:
    assert len(Hooks({"PreToolUse": [HookMatcher(pattern, handler)]})) == 1


@pytest.mark.parametrize(
    ("event", "pattern", "says"),
    [
        ("PreToolUse", "Bsah", "did you mean 'Bash'"),
        ("PreToolUse", "Bash|MyTool", "no built-in tool is named 'MyTool'"),
        ("PreToolUse", "mcp__github", r"use 'mcp__github__\.\*'"),
        ("PreToolUse", "bash", "did you mean 'Bash'"),
        ("PreToolUse", "Read| write", "did you mean 'Write'"),
        ("PermissionRequest", "todowrite", "did you mean 'TodoWrite'"),
        ("Stop", "x", "ignores the matcher"),
        ("UserPromptSubmit", "x", "ignores the matcher"),
        ("SessionStart", "", "'clear' and 'compact' only"),
        ("SessionStart", "startup", "only"),
        ("SessionEnd", ".*", "'clear' only"),
    ],
)
def test_a_pattern_that_means_something_else_is_doubted(event: str, pattern: str, says: str) -> None:
    with pytest.warns(HookWarning, match=says):
        Hooks({event: [HookMatcher(pattern, handler)]})


@pytest.mark.parametrize(
    ("event", "pattern"),
    [
        ("PreToolUse", ""),
        ("PreToolUse", "Bash|Task|mcp__a__b|TaskOutput"),
        ("PreToolUse", "^bash$"),
        ("Stop", "*"),
        ("SubagentStop", "reviewer"),
        ("SessionStart", "clear|compact"),
        ("SessionEnd", "clear"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_pattern_that_the_cli_compares_is_not_doubted(event: str, pattern: str) -> None:
    assert len(Hooks({event: [HookMatcher(pattern, handler)]})) == 1


# Matchers --------------------------------------------------------------------------------------------------------


def test_a_matcher_has_its_arguments_as_attributes() -> None:
    matcher = HookMatcher("Bash", handler, timeout=30, on_failure="continue")
    assert (matcher.pattern, matcher.handlers, matcher.timeout) == ("Bash", (handler,), 30)
    assert not matcher.blocks("PreToolUse")
    assert "Bash" in repr(matcher)
    assert "handler" in repr(matcher)


def test_guards_block_by_default_and_nothing_else_does() -> None:
    matcher = HookMatcher(None, [handler, handler])
    blocking = {event for event in HOOK_EVENT_FACTS if matcher.blocks(event)}
    assert blocking == {"PreToolUse", "PermissionRequest", "UserPromptSubmit", "PreSkillShellCommand"}
    assert len(matcher.handlers) == 2
    assert all(HOOK_EVENT_FACTS[event].block for event in blocking)


def test_blocking_on_failure_is_refused_where_there_is_nothing_to_block() -> None:
    with pytest.raises(OptionsError, match=r"SubagentStop.*PreToolUse"):
        Hooks({"SubagentStop": [HookMatcher(None, handler, on_failure="block")]})
    assert len(Hooks({"PreCompact": [HookMatcher(None, handler, on_failure="block")]})) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((None,), "needs a handler"),
        ((None, []), "needs a handler"),
        ((handler,), "string or None"),
        ((None, "handler"), "must be a function"),
        ((None, [handler, 3]), "not int"),
        ((None, lambda: None), "two arguments"),
        ((None, lambda input: None), "two arguments"),
        ((None, lambda a, b, c: None), "two arguments"),
        ((None, lambda *, input, context: None), "two arguments"),
    ],
)
def test_a_wrong_matcher_is_refused(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(OptionsError, match=says):
        HookMatcher(*arguments)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
def test_a_wrong_timeout_is_refused(timeout: Any) -> None:
    with pytest.raises(OptionsError, match="timeout"):
        HookMatcher(None, handler, timeout=timeout)


def test_a_wrong_failure_rule_is_refused() -> None:
    with pytest.raises(OptionsError, match="on_failure"):
        HookMatcher(None, handler, on_failure="ignore")  # type: ignore[arg-type]


def test_a_matcher_in_the_official_form_names_the_form_here() -> None:
    loose: Any = HookMatcher

    with pytest.raises(OptionsError, match=r"no matcher; the pattern comes first.* as a dict: \{'matcher': 'Bash', "):
        loose(matcher="Bash", hooks=[print])
    with pytest.raises(OptionsError, match=r"HookMatcher has no hooks; handlers come second"):
        loose("Bash", hooks=[print])
    with pytest.raises(OptionsError, match=r"HookMatcher has no onFailure$"):
        loose("Bash", print, onFailure="block")


async def half_ported(input_data: Any, tool_use_id: Any = None, context: Any = None) -> None: ...


@pytest.mark.parametrize(
    "handler",
    [
        half_ported,
        partial(half_ported, context=None),
        lambda input, tool_use_id: None,
        lambda input, context, more=None: None,
        lambda event, tool_use_id=None, *rest: None,
        SimpleNamespace(on=half_ported).on,
    ],
)
def test_a_half_ported_callback_is_refused(handler: Any) -> None:
    says = r"must take two arguments: the input and the context, but '(tool_use_id|more)' .*works unchanged as"
    with pytest.raises(OptionsError, match=says):
        HookMatcher("Bash", handler)
    with pytest.raises(OptionsError, match=says):
        Hooks({"PreToolUse": [handler]})


@pytest.mark.parametrize(
    "function",
    [lambda *args: None, lambda a, b=1, *c: None, print, lambda input_data, context, *, tool_use_id=None: None],
)
def test_a_handler_that_can_take_two_arguments_will_do(function: Any) -> None:
    assert HookMatcher(None, function).handlers == (function,)


def test_a_handler_written_in_c_has_no_signature_to_check() -> None:
    function: Any = max
    assert HookMatcher(None, function).handlers == (function,)


def matcher_of(value: Any) -> HookMatcher:
    """Return the matcher that stands for a hook in any of its shapes."""
    [(_, matcher)] = Hooks({"PostToolUse": [value]})
    return matcher


# The official SDK ------------------------------------------------------------------------------------------------


def test_a_handler_alone_is_a_matcher_for_everything() -> None:
    assert matcher_of(handler).pattern is None


@pytest.mark.parametrize("shape", [dict, SimpleNamespace])
def test_a_matcher_of_the_official_sdk_works(shape: Any) -> None:
    matcher = matcher_of(shape(matcher="Bash", hooks=[handler], timeout=5))
    assert (matcher.pattern, matcher.handlers, matcher.timeout) == ("Bash", (handler,), 5)


@pytest.mark.anyio
async def test_a_callback_of_the_official_sdk_gets_the_official_arguments() -> None:
    seen: list[Any] = []

    async def callback(input_data: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        seen.extend((input_data, tool_use_id, context))
        return {}

    matcher = matcher_of({"hooks": [callback]})
    context = HookContext(request_id="r", event="Stop", tool_use_id="t")
    handler: Any = matcher.handlers[0]
    assert await handler(StopInput(session_id="s"), context) == {}
    assert seen == [{"hook_event_name": "Stop", "session_id": "s"}, "t", {"signal": None}]
    assert f"{callback.__qualname__}, " in repr(matcher)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"matcher": "Bash"},
        {"matcher": "Bash", "handler": handler},
        {"hooks": [handler], "pattern": "Bash"},
        {"hooks": []},
        {"hooks": [{"type": "command", "command": "ls"}]},
        "handler",
        None,
        3,
    ],
)
def test_an_invalid_matcher_is_refused(value: Any) -> None:
    with pytest.raises(OptionsError):
        matcher_of(value)
