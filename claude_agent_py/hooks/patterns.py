"""The patterns of matchers, judged before the CLI sees them.

A pattern that the CLI cannot read matches nothing, without a word, and a guard that matches nothing is open; so is one
that can be read and fits no name of a tool. The CLI reads a pattern of letters, digits, `_`, `-`, blanks, `,` and `|`
as a list of exact names, with `,` and `|` between them (blanks beside these do not count), `*` and the empty one as
everything, and anything else as a JavaScript regular expression that may match anywhere in the name. Python has no
such engine: its own one judges, after what the two languages write differently was looked for.
"""

import difflib
import re
from collections.abc import Iterable

from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS
from claude_agent_py.wire.tools.registry import BUILTIN_TOOL_NAMES, LEGACY_TOOL_NAME_ALIASES, has_models

_NAMES = re.compile(r"[a-zA-Z0-9_|, -]+")

_PYTHON_ONLY: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\(\?P[<=>]"), "(?P...) is Python's; write (?<name>...)"),
    (
        re.compile(r"\(\?[aiLmsux]+\)"),
        "inline flags like (?i) are Python's; names are case-sensitive, so write [Bb]ash",
    ),
    (re.compile(r"\(\?#"), "(?#...) is Python's"),
    (re.compile(r"\(\?>"), "(?>...) is Python's"),
    (re.compile(r"\(\?\("), "(?(...)...) is Python's"),
    (re.compile(r"(?<!\\)(?:[*+?]|\{\d+(?:,\d*)?\})\+"), "possessive quantifiers like a*+ are Python's"),
    (re.compile(r"\\[pP]\{"), "\\p{...} needs the flag u, which the CLI does not set; write [A-Za-z]"),
    (re.compile(r"\\[AZ]"), "\\A and \\Z are Python's; write ^ and $"),
)
_CHARACTER_CLASS_OR_ESCAPE = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}|\(\?(?:<?[=!]|:|<\w+>)", re.DOTALL)
"""What may hold characters that no name has, and still match names."""
_IN_NO_TOOL_NAME = re.compile(r"[^A-Za-z0-9_|^$.*+?()\[\]{}\\-]")
_PERMISSION_RULE = re.compile(r"(\w+)\((?!\?).*\)", re.DOTALL)
_RULE = "it is a permission rule; name the tool only, and look at input.tool_input in the handler"
_UNLISTED_TOOLS = ("StructuredOutput",)
_JAVASCRIPT_ONLY = re.compile(r"\(\?<(?![=!])")
_NOT_AN_ERROR_THERE = ("look-behind requires fixed-width pattern", "bad escape")


def problem_of(pattern: str) -> str | None:
    """Say why the CLI could not read a pattern; None where it can."""
    if _is_plain(pattern):
        return None if pattern in ("", "*") or _names(pattern) else "it names nothing; write '*' for everything"
    for construct, reason in _PYTHON_ONLY:
        if construct.search(pattern):
            return f"the CLI reads JavaScript regular expressions, where {reason}"
    try:
        re.compile(_JAVASCRIPT_ONLY.sub("(?P<", pattern))
    except re.error as error:
        if error.msg.startswith(_NOT_AN_ERROR_THERE):
            return None
        if _is_permission_rule(pattern):
            return _RULE
        return f"it is no regular expression ({error})"
    return None


def problem_for(event: str, pattern: str) -> str | None:
    """Say why a pattern can match no name of a tool; None where it may, or where `event` compares something else."""
    if HOOK_EVENT_FACTS[event].matches != "tool_name" or pattern in ("", "*"):
        return None
    if _is_permission_rule(pattern):
        return _RULE
    literal = "".join(_names(pattern)) if _is_plain(pattern) else _CHARACTER_CLASS_OR_ESCAPE.sub("", pattern)
    foreign = _IN_NO_TOOL_NAME.search(literal)
    if foreign is not None:
        return f"no tool has {foreign[0]!r} in its name; write | between names, as in 'Bash|Write'"
    return None


def _is_permission_rule(pattern: str) -> bool:
    rule = _PERMISSION_RULE.fullmatch(pattern)
    if rule is None or rule[1] not in (*BUILTIN_TOOL_NAMES, *LEGACY_TOOL_NAME_ALIASES):
        return False
    try:
        return not any(re.search(pattern, name) for name in BUILTIN_TOOL_NAMES)
    except re.error:
        return True


def doubt_about(event: str, pattern: str) -> str | None:
    """Say why a pattern that can be read probably does not do what was meant; None where nothing is odd."""
    facts = HOOK_EVENT_FACTS[event]
    names = _names(pattern)
    if facts.sent_for and not (names and names <= facts.sent_for):
        return f"the CLI sends this event to callbacks for {_listed(facts.sent_for)} only. {facts.note}"
    if pattern in ("", "*"):
        return None
    if facts.matches is None:
        return f"the CLI ignores the matcher of {event}: the hook runs every time"
    return _misspelt(names) if facts.matches == "tool_name" else None


def _is_plain(pattern: str) -> bool:
    return pattern in ("", "*") or _NAMES.fullmatch(pattern) is not None


def _names(pattern: str) -> frozenset[str]:
    if pattern in ("", "*") or not _is_plain(pattern):
        return frozenset()
    return frozenset(name for part in re.split(r"[|,]", pattern) if (name := part.strip()))


def _listed(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in sorted(names))


def _misspelt(names: Iterable[str]) -> str | None:
    for name in sorted(names):
        if name.startswith("mcp__"):
            if "__" not in name.removeprefix("mcp__"):
                return f"{name!r} is compared as a whole name; for all tools of that server write '{name}__.*'"
        elif not _is_known(name):
            return _suggestion(name)
    return None


def _is_known(name: str) -> bool:
    return name in BUILTIN_TOOL_NAMES or name in _UNLISTED_TOOLS or has_models(name)


def _suggestion(name: str) -> str:
    known = {tool.lower(): tool for tool in (*BUILTIN_TOOL_NAMES, *LEGACY_TOOL_NAME_ALIASES)}
    if name.lower() in known:
        return f"names are case-sensitive: {name!r} is no tool, {known[name.lower()]!r} is"
    close = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {known[close[0]]!r}?" if close else "tools of an MCP server are named mcp__server__tool."
    return f"no built-in tool is named {name!r}, and the name is compared exactly; {hint}"
