"""The policy `bash_commands`, which allows selected shell commands.

Only a single plain command is allowed: operators (`;`, `|`, `&&`, `>`, ...) outside quotes, substitutions (`$`,
backticks) and newlines never pass. This is not a sandbox: arguments are not interpreted, and an allowed program keeps
all its abilities (`git` runs hooks, `find` deletes, `make` runs anything).
"""

import shlex
from collections.abc import Iterable

from claude_agent_py._errors import OptionsError
from claude_agent_py.permissions.policies import Opinion, Policy, allow_unless_ask_rule
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest

_ALWAYS_REFUSED = frozenset("$`\n\r\0")
_OPERATORS = frozenset("();<>|&")


def bash_commands(allow: Iterable[str]) -> Policy:
    """Allow these Bash commands; no opinion on others.

    Commands are compared word by word: a program name such as `"ls"` allows any arguments, `"git status"` allows only
    that command, and `"npm test *"` allows any further words. Calls outside the CLI's sandbox are not allowed.

    Raises:
        OptionsError: A command is empty or not a plain command.
    """
    if isinstance(allow, str):
        raise OptionsError("bash_commands: allow must be a list of commands, not a string", option="can_use_tool")
    allowed = tuple(map(_parse_pattern, allow))

    async def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        if request.tool_name != "Bash" or request.raw_input.get("dangerouslyDisableSandbox"):
            return None
        words = plain_words(request.raw_input.get("command"))
        return (
            allow_unless_ask_rule(request) if words and any(_matches(words, pattern) for pattern in allowed) else None
        )

    return policy


def plain_words(command: object) -> list[str] | None:
    """Return the words of a single plain command, or None for anything else."""
    if not isinstance(command, str) or not _ALWAYS_REFUSED.isdisjoint(command) or _has_operator(command):
        return None
    try:
        return shlex.split(command) or None
    except ValueError:
        # The command has an unclosed quote.
        return None


def _has_operator(command: str) -> bool:
    """Return whether an operator occurs outside quotes. Backslashes escape, except in single quotes."""
    quote = ""
    characters = iter(command)
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


def _matches(words: list[str], pattern: list[str]) -> bool:
    return words[: len(pattern) - 1] == pattern[:-1] if pattern[-1] == "*" else words == pattern


def _parse_pattern(text: str) -> list[str]:
    words = plain_words(text)
    if not words or words == ["*"]:
        raise OptionsError(f"bash_commands: {text!r} is not a plain command", option="can_use_tool")
    return [*words, "*"] if len(words) == 1 else words
