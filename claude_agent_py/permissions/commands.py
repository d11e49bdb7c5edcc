"""The policy `bash_commands`: some shell commands, and nothing that a shell could make of them.

Owns the reading of a command. Only one plain command passes: operators (`;`, `|`, `&&`, `>`, ...), substitutions (`$`,
backticks) and several lines are refused; operators may stand in quotes, substitutions nowhere. This is no sandbox: a
program that is allowed can do all that it can do (`git` runs hooks, `find` deletes, `make` runs anything), and its
arguments are not understood here.
"""

import shlex
from collections.abc import Iterable, Sequence

from claude_agent_py.errors import OptionsError
from claude_agent_py.permissions.policies import Opinion, Policy, approved
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest

_ALWAYS_REFUSED = frozenset("$`\n\r\0")
_OPERATORS = frozenset("();<>|&")


def bash_commands(allow: Iterable[str]) -> Policy:
    """Allow these commands of the tool Bash; no opinion on others.

    Each is compared word by word: `"ls"`, a program alone, allows it with any arguments; `"git status"` allows exactly
    that; `"npm test *"` also allows any words after it. A call that asks to run outside of the CLI's sandbox is not
    allowed.

    Raises:
        OptionsError: One of them is empty, or no plain command itself.
    """
    allowed = tuple(_pattern(one) for one in _several(allow))

    async def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        if request.tool_name != "Bash" or request.raw_input.get("dangerouslyDisableSandbox"):
            return None
        words = plain_words(request.raw_input.get("command"))
        return approved(request) if words and any(_matches(words, pattern) for pattern in allowed) else None

    return policy


def plain_words(command: object) -> list[str] | None:
    """Give the words of one plain command; None where it is anything else."""
    if not isinstance(command, str) or not _ALWAYS_REFUSED.isdisjoint(command) or _has_operator(command):
        return None
    try:
        return shlex.split(command) or None
    except ValueError:  # a quote that is never closed
        return None


def _has_operator(command: str) -> bool:
    """Tell whether an operator stands outside of quotes. Backslashes escape, but not in single quotes."""
    quote, characters = "", iter(command)
    for char in characters:
        if char == "\\" and quote != "'":
            next(characters, None)
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _OPERATORS:
            return True
    return False


def _matches(words: Sequence[str], pattern: Sequence[str]) -> bool:
    if pattern[-1] == "*":
        return list(words[: len(pattern) - 1]) == list(pattern[:-1])
    return list(words) == list(pattern)


def _pattern(text: str) -> list[str]:
    words = plain_words(text)
    if not words or words == ["*"]:
        raise OptionsError(f"bash_commands: {text!r} is no plain command", option="can_use_tool")
    return [*words, "*"] if len(words) == 1 else words


def _several(allow: Iterable[str]) -> Iterable[str]:
    if isinstance(allow, str):
        raise OptionsError("bash_commands: allow is a list of commands, not one text", option="can_use_tool")
    return allow
