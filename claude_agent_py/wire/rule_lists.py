"""Lists of tools and permission rules in one text, as the CLI reads them: `Read, Bash(git log, status)`.

Owns the CLI's way of splitting, faults included: a rule whose own text holds a parenthesis can fall into pieces, and
then a piece is allowed, or the whole is not denied. Whoever sends a rule this way has to know that it survives.
"""


def split_rules(text: str) -> list[str]:
    """Split at commas and spaces outside of parentheses. As in the CLI, parentheses do not nest (2.1.328)."""
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
    """Tell whether a rule is still the same, and one, after the CLI has split a list that holds it."""
    return split_rules(f"{rule},{rule}") == [rule, rule]  # twice: an open parenthesis swallows what follows


def tool_of(rule: str) -> str:
    """Give the tool that a rule is about: `Bash` for `Bash(git *)`."""
    return rule.partition("(")[0]
