"""Split lists of permission rules the way the CLI does: `Read, Bash(git log, status)`.

The CLI splits some rules that contain parentheses into pieces, so that a piece is allowed or the rule denies nothing.
Check a rule with `survives_splitting` before sending it in a list.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from claude_agent_py._base.errors import OptionsError

AGENT_TOOLS: Final = frozenset({"Agent", "Task"})
"""The names of the tool that starts subagents. `Task` is the old name, which rules and hooks may still use."""


def split_rules(text: str) -> list[str]:
    """Split a list at commas and spaces outside parentheses. As in CLI 2.1.328, parentheses do not nest."""
    rules = [""]
    inside = False
    for char in text:
        if char in "()":
            inside = char == "("
        if char in ", " and not inside:
            rules.append("")
        elif rules[-1] or not char.isspace():
            rules[-1] += char
    return [rule.strip() for rule in rules if rule.strip()]


def survives_splitting(rule: str) -> bool:
    """Return whether the CLI reads a rule in a list as this one rule, unchanged."""
    return split_rules(f"{rule},{rule}") == [rule, rule]  # twice, because an unclosed parenthesis hides what follows


def describe_whole_tools(tools: Sequence[str]) -> str:
    """Return a text about entries of an agent's `tools` that look like rules and give the whole tool; empty if none do.

    Measured on CLI 2.1.332.
    """
    wider = [rule for rule in tools if "(" in rule and tool_of(rule) not in AGENT_TOOLS]
    if not wider:
        return ""
    names = ", ".join(dict.fromkeys(map(tool_of, wider)))
    return (
        f"{', '.join(wider)} in tools gives it the whole {names}: the CLI ignores what is in parentheses (to restrict "
        "calls, use disallowed_tools of the options, or a guard)"
    )


def check_rules_kept(settings: object, reply: Mapping[str, object], option: str) -> None:
    """Refuse settings with a rule to deny or ask that the CLI has left out, because it cannot read it.

    Measured on CLI 2.1.332: it does so without a word, for example if the tool is `bash`. In managed settings it also
    leaves out a value that is no list. `reply` is its reply to `get_settings`; one without sources passes.

    Raises:
        OptionsError: It has left out a rule.
    """
    sources = reply.get("sources")
    if not isinstance(sources, list):
        return
    for behavior in ("deny", "ask"):
        kept = [rule for source in sources for rule in _read_rules(_get(source, "settings"), behavior)]
        for rule in _read_rules(settings, behavior):
            if rule not in kept:
                raise OptionsError(f"the CLI ignores the {behavior} rule {rule!r}, which it cannot read", option=option)


def _read_rules(settings: object, behavior: str) -> Sequence[object]:
    rules = _get(_get(settings, "permissions"), behavior)
    if rules is None:
        return []
    return rules if isinstance(rules, Sequence) and not isinstance(rules, str) else [rules]


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def tool_of(rule: str) -> str:
    """Return the tool name of a rule: `Bash` for `Bash(git *)`."""
    return rule.partition("(")[0]
