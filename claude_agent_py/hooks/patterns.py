"""Validate matcher patterns before the CLI sees them.

A pattern that the CLI cannot parse silently matches nothing, which leaves a guard open. So does a pattern that cannot
match any tool name. The CLI treats a pattern of letters, digits, `_`, `-`, spaces, `,` and `|` as a list of exact names
separated by `,` or `|` (ignoring spaces around them), `*` and the empty pattern as matching everything, and anything
else as a JavaScript regular expression that may match anywhere in the name. Python has no JavaScript engine, so only
syntax that means the same in both languages is accepted.
"""

import re
import string
from collections.abc import Iterable

from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS
from claude_agent_py.wire.tools.registry import (
    BUILTIN_TOOL_NAMES,
    LEGACY_TOOL_NAME_ALIASES,
    is_misspelt,
    suggested_tool,
)

_NAMES = re.compile(r"[a-zA-Z0-9_|, -]+")

_CHARACTER = r"\\[dDwWsStnrfv]|\\x[0-9A-Fa-f]{2}|\\u(?![dD][89A-Fa-f])[0-9A-Fa-f]{4}|\\[ -/:-@\[-`{-~]"
"""Character escapes, inside and outside a class. Both languages have more, with different meanings."""
_PAIRS = r"\ud800-\udfff\U00010000-\U0010ffff"
"""Characters outside the BMP, which are two code units in JavaScript, and surrogates."""
_TOKEN = re.compile(
    rf"""
      (?P<character> {_CHARACTER} | [^\\\[\](){{}}*+?|^${_PAIRS}]
                   | \[\^?+(?:{_CHARACTER}|(?!--|&&|\|\||~~)[^\[\]\\{_PAIRS}])+\] )
    | (?P<place> [\^$|] | \\b )
    | (?P<look> \(\?<?[=!] )
    | (?P<group> \((?:\?:|\?<[A-Za-z_][A-Za-z0-9_]*>|(?!\?)) )
    | (?P<end> \) )
    | (?P<times> (?:[*+?]|\{{[0-9]+(?:,[0-9]*)?\}})\?? )
    """,
    re.VERBOSE,
)
"""Syntax with the same meaning in JavaScript, without flags, and in Python."""
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\(\?P"), "named groups are written (?<name>...)"),
    (re.compile(r"\(\?[a-zA-Z-]+[:)]"), "flags are not supported; names are case-sensitive, so write [Bb]ash"),
    (re.compile(r"\\[AZz]"), "the start and the end are ^ and $"),
    (re.compile(r"\\[pP]"), "\\p needs a flag that the CLI does not set; write [A-Za-z]"),
    (re.compile(r"[*+?}]\+"), "possessive quantifiers are not supported"),
    (re.compile(r"\[\^?\]|[{}\[\]]"), "escape a literal bracket as \\] (or \\[, \\{, \\})"),
    (re.compile(r"\\\Z"), "escape a backslash as \\\\"),
    (re.compile(r"\\[1-9k]"), "back references differ"),
)
_TOOL_NAME_CHARACTERS = string.ascii_letters + string.digits + "_-"
_PERMISSION_RULE = re.compile(r"(\w+)\((?!\?).*\)", re.DOTALL)
_RULE = "the pattern is a permission rule; match only the tool name and check input.tool_input in the handler"


def find_syntax_problem(pattern: str) -> str | None:
    """Return why the CLI would misread a pattern, or None if the pattern is valid."""
    if _is_plain(pattern):
        if pattern in ("", "*") or _split_names(pattern):
            return None
        return "the pattern contains no name; use '*' to match everything"
    problem = _check_syntax(pattern)
    if problem is not None and _is_permission_rule(pattern):
        return _RULE
    return problem


def matches(pattern: str | None, name: str) -> bool:
    """Return whether a valid pattern matches a name, by the CLI's rules."""
    if pattern in (None, "", "*"):
        return True
    if _is_plain(pattern):
        return name in _split_names(pattern)
    try:
        return re.search(_translate_to_python(pattern), name, re.ASCII) is not None
    except re.error:
        # Python lacks look-behinds of variable width, so assume a match.
        return True


def _translate_to_python(pattern: str) -> str:
    """Translate a JavaScript pattern to Python, which writes named groups differently."""
    return pattern.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")


def _check_syntax(pattern: str) -> str | None:
    at = 0
    kind: str | None = None
    before = ""
    opened: list[str | None] = []
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None or (token.lastgroup == "times" and kind in ("times", "look")):
            return _describe_unsupported_syntax(pattern, at)
        kind = token.lastgroup
        if kind == "end":
            if before in ("(?!", "(?<!"):
                return f"{before}) never matches"
            kind = opened.pop() if opened else kind  # what follows repeats the whole group
        elif kind in ("look", "group"):
            opened.append(kind)
        before, at = token[0], token.end()
    try:
        re.compile(_translate_to_python(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        # JavaScript allows look-behinds of variable width.
        if not str(error).startswith("look-behind requires fixed-width"):
            return f"the pattern is not a valid regular expression ({error})"
    return None


def _describe_unsupported_syntax(pattern: str, at: int) -> str:
    return (
        "the CLI uses JavaScript regular expressions; only syntax that means the same in Python is allowed, "
        f"not {pattern[at : at + 8]!r} at character {at + 1}{_find_hint(pattern, at)}"
    )


def _find_hint(pattern: str, at: int) -> str:
    """Return how to write the unsupported syntax instead, after a colon; empty if unknown."""
    for sign, text in _HINTS:
        found = sign.search(pattern)
        if found is not None and found.end() > at:
            return f": {text}"
    return ""


def find_name_problem(event: str, pattern: str) -> str | None:
    """Return why a pattern cannot match any tool name, or None if it can or `event` matches another field."""
    facts = HOOK_EVENT_FACTS.get(event)
    if facts is None or facts.matches != "tool_name" or pattern in ("", "*"):
        return None
    if _is_permission_rule(pattern):
        return _RULE
    if _is_plain(pattern):
        wanted: Iterable[str] = "".join(_split_names(pattern))
    else:
        wanted = (token["character"] for token in _TOKEN.finditer(pattern) if token["character"])
    for character in wanted:
        if not any(re.fullmatch(character, possible, re.ASCII) for possible in _TOOL_NAME_CHARACTERS):
            return f"no tool name contains {character!r}; separate names with |, as in 'Bash|Write'"
    return None


def _is_permission_rule(pattern: str) -> bool:
    rule = _PERMISSION_RULE.fullmatch(pattern)
    if rule is None or rule[1] not in (*BUILTIN_TOOL_NAMES, *LEGACY_TOOL_NAME_ALIASES):
        return False
    try:
        return not any(re.search(pattern, name) for name in BUILTIN_TOOL_NAMES)
    except re.error:
        return True


def find_likely_mistake(event: str, pattern: str) -> str | None:
    """Return the probable mistake in a valid pattern of a known event, or None."""
    facts = HOOK_EVENT_FACTS[event]
    names = _split_names(pattern)
    if facts.sent_for and not (names and names <= facts.sent_for):
        return f"the CLI sends this event to callbacks for {_join_names(facts.sent_for)} only. {facts.note}"
    if pattern in ("", "*"):
        return None
    if facts.matches is None:
        return f"the CLI ignores the matcher of {event}: the hook runs every time"
    return _find_misspelling(names) if facts.matches == "tool_name" else None


def _is_plain(pattern: str) -> bool:
    return pattern in ("", "*") or _NAMES.fullmatch(pattern) is not None


def _split_names(pattern: str) -> frozenset[str]:
    if pattern in ("", "*") or not _is_plain(pattern):
        return frozenset()
    names = {part.strip() for part in re.split(r"[|,]", pattern)}
    return frozenset(names - {""})


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in sorted(names))


def _find_misspelling(names: Iterable[str]) -> str | None:
    for name in sorted(names):
        if name.startswith("mcp__"):
            if "__" not in name.removeprefix("mcp__"):
                return f"{name!r} matches only that exact name; for all tools of the server use '{name}__.*'"
        elif is_misspelt(name):
            return f"no built-in tool is named {name!r}, and names match exactly{suggested_tool(name)}"
    return None
