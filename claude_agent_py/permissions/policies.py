"""Ready-made policies for `can_use_tool`, and `first_of` to compose them.

A policy returns `Allow`, `Deny`, or None for no opinion; a call without any opinion is denied. Policies only see calls
that the CLI asks about. They do not see calls that a rule or the permission mode allows.
"""

import fnmatch
import re
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from claude_agent_py._callbacks import Callback
from claude_agent_py._errors import OptionsError, OptionsWarning
from claude_agent_py.permissions.decisions import Allow, Decision, Deny, describe
from claude_agent_py.permissions.prompts import EXIT_PLAN_MODE
from claude_agent_py.permissions.questions import ASK_USER_QUESTION
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.wire.tools.registry import STRUCTURED_OUTPUT, canonical_name, is_misspelt, suggested_tool

Opinion: TypeAlias = Decision | None
Policy: TypeAlias = Callable[[PermissionRequest, PermissionContext], Opinion | Awaitable[Opinion]]

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

    A star does not match `StructuredOutput`, which only delivers the output of `output_type`.

    Raises:
        OptionsError: No name is given, or one is not a possible tool name.

    Warns:
        OptionsWarning: A name matches no known tool, so the policy may deny nothing.
    """
    matches = _build_matcher("deny_tools", names)

    async def policy(request: PermissionRequest, context: PermissionContext) -> Opinion:
        is_output = request.tool_name == STRUCTURED_OUTPUT and STRUCTURED_OUTPUT not in names
        return Deny(message) if matches(request.tool_name) and not is_output else None

    return policy


def read_only() -> Policy:
    """Allow the built-in tools that only read (`READING_TOOLS`) on any path; no opinion on others."""
    return allow_tools(*READING_TOOLS)


def allow_unless_ask_rule(request: PermissionRequest) -> Opinion:
    """Return `Allow`, or None if a rule of the user requires asking a person."""
    asked_by_rule = request.matched_ask_rule is not None or request.decision_reason_type == "rule"
    return None if asked_by_rule else Allow()


def ask(handler: Callable[[PermissionRequest, PermissionContext], Any]) -> Policy:
    """Ask a person with `handler`. The task has the status `awaiting_user` until the answer."""
    callback = _wrap_policy(handler)

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
    callbacks = [_wrap_policy(policy) for policy in policies]

    async def composed(request: PermissionRequest, context: PermissionContext) -> Opinion:
        for callback in callbacks:
            opinion = await callback.call(request, context)
            if isinstance(opinion, Allow | Deny):
                return opinion
            if opinion is not None:
                raise ValueError(f"{callback.name} returned {describe(opinion)}")
        return None

    composed.__qualname__ = f"first_of({', '.join(callback.name for callback in callbacks)})"
    return composed


def _wrap_policy(policy: Any) -> Callback:
    if not callable(policy):
        raise OptionsError(f"a policy must be a function, not {type(policy).__name__}", option="can_use_tool")
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
