"""Split lists of permission rules the way the CLI does: `Read, Bash(git log, status)`.

The CLI splits some rules that contain parentheses into pieces, so that a piece is allowed or the rule denies nothing.
Check a rule with `survives_splitting` before sending it in a list.
"""

from typing import Final

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


def tool_of(rule: str) -> str:
    """Return the tool name of a rule: `Bash` for `Bash(git *)`."""
    return rule.partition("(")[0]
