"""Ready-made policies for `can_use_tool`, and `first_of` to compose them.

A policy returns `Allow`, `Deny`, or None for no opinion; a call without any opinion is denied. Policies only see calls
that the CLI asks about. They do not see calls that a rule or the permission mode allows.
"""

import fnmatch
import os
import re
import shlex
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from claude_agent_py._base.callbacks import PORT_PERMISSIONS, Callback, check_two_arguments
from claude_agent_py._base.errors import OptionsError, OptionsWarning
from claude_agent_py.permissions.contexts import PermissionContext
from claude_agent_py.permissions.decisions import Allow, Decision, Deny, describe
from claude_agent_py.permissions.prompts import EXIT_PLAN_MODE
from claude_agent_py.permissions.questions import ASK_USER_QUESTION
from claude_agent_py.permissions.requests import PermissionRequest
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.tools.registry import STRUCTURED_OUTPUT, canonical_name, is_misspelt, suggested_tool

Opinion: TypeAlias = Decision | None
Policy: TypeAlias = Callable[[PermissionRequest, PermissionContext], Opinion | Awaitable[Opinion]]
"""Decides on a request, or leaves it to the next policy with None."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_*-]+")
_SERVER_ALONE = re.compile(r"mcp__((?!__)[^*])+")

READING_TOOLS = frozenset(
    {
        "Glob",
        "Grep",
        "ListAgents",
        "ListMcpResourcesTool",
        "LSP",
        "Read",
        "ReadMcpResourceDirTool",
        "ReadMcpResourceTool",
        "ReadNotifications",
        "TaskGet",
        "TaskList",
        "ToolSearch",
        "WebSearch",
    }
)
"""Built-in tools that only read. WebFetch is excluded because a URL can leak data."""


def allow_tools(*names: str) -> Policy:
    """Allow these tools; no opinion on others. `*` in a name matches anything, as in `mcp__files__*`.

    A star does not match tools that ask a person (plans, questions). Like all ready-made policies, this one does not
    allow calls that match an ask rule of the user.

    Raises:
        OptionsError: No name is given, or one is not a possible tool name.

    Warns:
        OptionsWarning: A name matches no known tool.
    """
    matches = _build_matcher("allow_tools", names)

    async def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        tool = request.tool_name
        needs_person = request.requires_user_interaction or tool in (ASK_USER_QUESTION, EXIT_PLAN_MODE)
        # A star must not match a tool that only a person may answer.
        if not matches(tool) or (needs_person and tool not in names):
            return None
        return allow_unless_ask_rule(request)

    return policy


def deny_tools(*names: str, message: str = "This tool is not allowed here.") -> Policy:
    """Deny these tools; no opinion on others. `*` in a name matches anything, as in `mcp__*`.

    `Bash` includes `Monitor`, which also runs shell commands, as in the CLI's rules. A star does not match
    `StructuredOutput`, which only delivers the output of `output_type`.

    Raises:
        OptionsError: No name is given, or one is not a possible tool name.

    Warns:
        OptionsWarning: A name matches no known tool, so the policy may deny nothing.
    """
    matches = _build_matcher("deny_tools", names)

    async def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        tool = request.tool_name
        is_output = tool == STRUCTURED_OUTPUT and STRUCTURED_OUTPUT not in names
        is_denied = matches(tool) or (tool == "Monitor" and matches("Bash"))
        return Deny(message) if is_denied and not is_output else None

    return policy


def read_only() -> Policy:
    """Allow the built-in tools that only read (`READING_TOOLS`) on any path; no opinion on others."""
    return allow_tools(*READING_TOOLS)


def allow_unless_ask_rule(request: PermissionRequest) -> Opinion:
    """Return `Allow`, or None if a rule of the user requires asking a person."""
    asked_by_rule = request.matched_ask_rule is not None or request.decision_reason_type == "rule"
    return None if asked_by_rule else Allow()


def ask(handler: Callable[[PermissionRequest, PermissionContext], object]) -> Policy:
    """Ask a person with `handler`. The task has the status `awaiting_user` until the answer."""
    callback = wrap_policy(handler)

    async def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        with context.awaiting_user():
            opinion: Opinion = await callback.call(request, context)
        return opinion

    return policy


def first_of(*policies: Policy) -> Policy:
    """Return the first opinion.

    If a policy raises or returns anything else, the call is denied, and later policies are not asked.

    Raises:
        OptionsError: A policy is not a function, or no policy is given.
    """
    if not policies:
        raise OptionsError("first_of needs at least one policy", option="can_use_tool")
    callbacks = [wrap_policy(policy) for policy in policies]

    async def composed(request: PermissionRequest, context: PermissionContext) -> Opinion:
        for callback in callbacks:
            opinion = await callback.call(request, context)
            if isinstance(opinion, Allow | Deny):
                return opinion
            if opinion is not None:
                raise ValueError(f"{callback.name} must return Allow, Deny or None, not {describe(opinion)}")
        return None

    composed.__qualname__ = f"first_of({', '.join(callback.name for callback in callbacks)})"
    return composed


def wrap_policy(policy: object, *, option: str = "can_use_tool") -> Callback:
    """Return a policy as a `Callback`. Raises OptionsError if it is not a function of a request and a context."""
    if not callable(policy):
        raise OptionsError(f"a policy must be a function, not {type(policy).__name__}", option=option)
    try:
        check_two_arguments(policy, "the request and the context", port=PORT_PERMISSIONS)
    except ValueError as error:
        raise OptionsError(str(error), option=option) from None
    return Callback(policy)


def _build_matcher(policy: str, names: tuple[Any, ...]) -> Callable[[str], bool]:
    """Return a function that checks tool names against the patterns, resolving legacy names."""
    if not names:
        raise OptionsError(f"{policy} needs at least one tool name", option="can_use_tool")
    for name in names:
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise OptionsError(
                f"{policy} needs tool names, not {name!r} (use bash_commands for commands; in names of MCP servers "
                "and their tools, the CLI replaces all but letters, digits, '_' and '-' with '_')",
                option="can_use_tool",
            )
        if is_misspelt(name):
            doubt = f"is not a known tool, so it may match nothing{suggested_tool(name)}"
            warnings.warn(f"{policy}: {name!r} {doubt}", OptionsWarning, stacklevel=3)
        elif _SERVER_ALONE.fullmatch(name):
            doubt = f"matches only that exact name; for all tools of the server use '{name}__*'"
            warnings.warn(f"{policy}: {name!r} {doubt}", OptionsWarning, stacklevel=3)
    patterns = [canonical_name(name) for name in names]

    def matches(tool: str) -> bool:
        return any(fnmatch.fnmatchcase(canonical_name(tool), pattern) for pattern in patterns)

    return matches


_ALWAYS_REFUSED = frozenset("$`\n\r\0")
_OPERATORS = frozenset("();<>|&")


def bash_commands(allow: Iterable[str]) -> Policy:
    """Allow these Bash commands; no opinion on others.

    Commands are compared word by word: a program name such as `"ls"` allows any arguments, `"git status"` allows only
    that command, and `"npm test *"` allows any further words. Calls outside the CLI's sandbox are not allowed.

    Only a single plain command is allowed: operators (`;`, `|`, `&&`, `>`, ...) outside quotes, substitutions (`$`,
    backticks) and newlines never pass. This is not a sandbox: arguments are not interpreted, and an allowed program
    keeps all its abilities (`git` runs hooks, `find` deletes, `make` runs anything).

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


def within(directory: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Policy:
    """Allow file tools in these directories and deny them elsewhere; no opinion on other tools.

    File tools are Read, Write, Edit, NotebookEdit, Glob, Grep and LSP. Relative paths are denied because the working
    directory may have changed; paths that end with white space are denied because the CLI may strip it. A search
    without a path starts in `PermissionContext.cwd`, which the policy adds by `Allow.updated_input`.

    Paths are resolved, including links and `..`, before they are compared. The check runs before the tool, so a link
    that is created in between is missed: this is not a sandbox. Paths through `/proc` or `/dev` are denied because they
    mean different files in each process.

    Raises:
        OptionsError: A directory does not exist.
    """
    # A tool may open another path than the written one. With CLI 2.1.328, policies see the final paths of Read, Write,
    # Edit and NotebookEdit. The paths of Grep and Glob come as written, and the CLI strips white space around them and
    # around the directory that starts a pattern. Read tries a screenshot's alternative name if the file is missing. A
    # search without a path starts in the directory of the last `cd`. Every path that the tool may open must be inside.
    roots = tuple(_resolve_root(path) for path in (directory, *more))

    def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        tool = canonical_name(request.tool_name)
        if tool not in _PATH_READERS:
            return None
        starts_nowhere = tool in _SEARCHES and not request.raw_input.get("path")
        data = {**request.raw_input, "path": context.cwd} if starts_nowhere else request.raw_input
        try:
            paths = _PATH_READERS[tool](data)
        except (OSError, RuntimeError, ValueError, TypeError, KeyError) as problem:
            return Deny(f"Path not allowed: {problem}.")
        if not all(any(path.is_relative_to(root) for root in roots) for path in paths):
            return Deny(f"Only files in {', '.join(map(str, roots))} are allowed.")
        opinion = allow_unless_ask_rule(request)
        return Allow(updated_input=data) if starts_nowhere and opinion else opinion

    return policy


def _resolve_root(directory: str | os.PathLike[str]) -> Path:
    path = Path(os.path.expanduser(directory))
    if not path.is_dir():
        raise OptionsError(f"within: no such directory: {str(path)!r}", option="can_use_tool")
    return path.resolve()


def _resolve(path: object) -> Path:
    # On Windows, this also refuses a path without a drive, which is ambiguous.
    if not isinstance(path, str) or not Path(path).is_absolute():
        raise ValueError("the path must be absolute")
    # The CLI strips white space with JavaScript's trim(). This check is stricter.
    if path[-1] == " " or not path[-1].isprintable():
        raise ValueError("the path must not end with white space")
    _check_steps(path)
    resolved = Path(path).resolve()
    # Programs disagree about `..` after a link: its target's parent, or the directory with the link.
    if Path(os.path.normpath(path)).resolve() != resolved:
        raise ValueError("'..' must not follow a link")
    return resolved


_PER_PROCESS = (Path("/proc"), Path("/dev"))
_MOST_LINKS = 40


def _check_steps(path: str) -> None:
    """Raise ValueError for a path through `/proc` or `/dev`, directly or by links, or through too many links."""
    reached = Path("/")
    steps = deque(Path(path).parts)
    links = 0
    while steps:
        step = steps.popleft()
        # `//` at the start of a path is the same root as `/`.
        reached = reached.parent if step == ".." else reached / step.replace("//", "/")
        if any(reached.is_relative_to(root) for root in _PER_PROCESS):
            raise ValueError("the path must not lead through /proc or /dev")
        if reached.is_symlink():
            links += 1
            steps.extendleft(reversed(Path(os.readlink(reached)).parts))
            reached = reached.parent
        if links > _MOST_LINKS:
            raise ValueError("the path leads through too many links")


_Paths: TypeAlias = tuple[Path, ...]


def _read_named_path(field: str) -> Callable[[JSONObject], _Paths]:
    return lambda data: (_resolve(data[field]),)


_SPACE_IN_SCREENSHOT = re.compile(r"[ \u202f](?=(?:AM|PM)\.png\Z)")


def _read_read_paths(data: JSONObject) -> _Paths:
    path = data["file_path"]
    named = _resolve(path)
    other = _SPACE_IN_SCREENSHOT.sub(lambda space: "\u202f" if space[0] == " " else " ", path)
    return named, _resolve(other)


def _read_glob_paths(data: JSONObject) -> _Paths:
    root = _resolve(data["path"])
    pattern = data["pattern"]
    if ".." in re.split(r"[/\\{},]", pattern):
        raise ValueError("a pattern must not contain '..'")
    fixed = os.path.join(data["path"], re.split(r"[*?\[{]", pattern, maxsplit=1)[0])
    return root, _resolve(os.path.dirname(fixed)), _resolve(fixed.rstrip())


_PATH_READERS: Mapping[str, Callable[[JSONObject], _Paths]] = {
    "Read": _read_read_paths,
    "Write": _read_named_path("file_path"),
    "Edit": _read_named_path("file_path"),
    "NotebookEdit": _read_named_path("notebook_path"),
    "LSP": _read_named_path("filePath"),
    "Grep": _read_named_path("path"),
    "Glob": _read_glob_paths,
}
_SEARCHES = frozenset({"Grep", "Glob"})
