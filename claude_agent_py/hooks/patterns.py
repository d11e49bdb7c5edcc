"""The patterns of matchers, judged before the CLI sees them.

A pattern that the CLI cannot read matches nothing, without a word, and a guard that matches nothing is open. The CLI
reads a pattern of letters, digits, `_`, `-`, blanks, `,` and `|` as a list of exact names, `*` and the empty one as
everything, and anything else as a JavaScript regular expression that may match anywhere in the name. Python has no
such engine: its own one judges, after what the two languages write differently was looked for.
"""

import re
from collections.abc import Iterable

from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS
from claude_agent_py.wire.tools.registry import BUILTIN_TOOL_NAMES, LEGACY_TOOL_NAME_ALIASES

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
    (re.compile(r"[*+?}]\+"), "possessive quantifiers like a*+ are Python's"),
    (re.compile(r"\\[AZ]"), "\\A and \\Z are Python's; write ^ and $"),
)
_JAVASCRIPT_ONLY = re.compile(r"\(\?<(?![=!])")
_NOT_AN_ERROR_THERE = ("look-behind requires fixed-width pattern", "bad escape")


def problem_of(pattern: str) -> str | None:
    """Say why the CLI could not read a pattern; None where it can."""
    if _is_plain(pattern):
        return None
    for construct, reason in _PYTHON_ONLY:
        if construct.search(pattern):
            return f"the CLI reads JavaScript regular expressions, where {reason}"
    try:
        re.compile(_JAVASCRIPT_ONLY.sub("(?P<", pattern))
    except re.error as error:
        if error.msg.startswith(_NOT_AN_ERROR_THERE):
            return None
        return f"it is no regular expression ({error})"
    return None


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
    known = {name.lower(): name for name in (*BUILTIN_TOOL_NAMES, *LEGACY_TOOL_NAME_ALIASES)}
    for name in sorted(names):
        right = known.get(name.lower())
        if right is not None and right != name:
            return f"names are case-sensitive: {name!r} is no tool, {right!r} is"
    return None
