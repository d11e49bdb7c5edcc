"""The parts of a session, which load in a thread while the CLI starts: importing them on the event loop would block it.

Features load only when the options need them. One that is needed later loads with its first request.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from claude_agent_py._event_loop import run_file_work
from claude_agent_py.options.client_options import ClientOptions, is_any_given
from claude_agent_py.options.delegation import depends_on_hooks


def needs_session(options: ClientOptions) -> bool:
    """Return True: there is always a session."""
    return True


def needs_hooks(options: ClientOptions) -> bool:
    """Return whether the options have hooks, or are hooks themselves."""
    return bool(options.delegation_guide) or depends_on_hooks(options)


def needs_permissions(options: ClientOptions) -> bool:
    """Return whether handlers or an inbox answer for a person."""
    handlers = (options.can_use_tool, options.on_question, options.on_plan, options.on_elicitation)
    return is_any_given(*handlers, options.on_user_dialog, options.interactions)


def needs_servers(options: ClientOptions) -> bool:
    """Return whether tools run in this process."""
    return bool(options.custom_tools or options.hosted_mcp_servers)


PARTS: Final[Mapping[Callable[[ClientOptions], bool], tuple[str, ...]]] = {
    needs_session: ("claude_agent_py._runtime.session.startup",),
    needs_hooks: ("claude_agent_py._runtime.answering.delegating", "claude_agent_py.hooks.dispatcher"),
    depends_on_hooks: ("claude_agent_py.hooks.live",),
    needs_permissions: ("claude_agent_py.permissions.dispatcher",),
    needs_servers: ("claude_agent_py.tools.host", "claude_agent_py.tools.server"),
}
"""The modules that a start imports, by the function that says whether the options need them."""

_loaded: set[str] = set()
"""Not `sys.modules`, which also has modules that another thread is still loading."""


async def load_parts(options: ClientOptions) -> None:
    """Import what these options need, in a thread unless it is loaded."""
    missing = [
        module
        for is_needed, modules in PARTS.items()
        if not _loaded.issuperset(modules) and is_needed(options)
        for module in modules
    ]
    if missing:
        await run_file_work(_load, missing)


def _load(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)
        _loaded.add(module)
