"""The parts of a session, which load in a thread while the CLI starts: importing them on the event loop would block it.

Features load only when the options need them. One that is needed later loads with its first request.
"""

import importlib
from collections.abc import Iterable

from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.delegation import depends_on_hooks
from claude_agent_py.options.fields import is_any_given


def needs_hooks(options: ClientOptions) -> bool:
    """Return whether the options contain hooks, or need hooks of the package."""
    return bool(options.delegation_guide) or options.output_type is not None or depends_on_hooks(options)


def needs_permissions(options: ClientOptions) -> bool:
    """Return whether handlers or an inbox answer for a person."""
    handlers = (options.can_use_tool, options.on_question, options.on_plan, options.on_elicitation)
    return is_any_given(*handlers, options.on_user_dialog, options.interactions)


def needs_servers(options: ClientOptions) -> bool:
    """Return whether tools run in this process."""
    return bool(options.custom_tools or options.hosted_mcp_servers)


_loaded: set[str] = set()
"""Not `sys.modules`, which also has modules that another thread is still loading."""


def list_parts(options: ClientOptions) -> list[str]:
    """Return the modules that a start with these options imports."""
    modules = ["claude_agent_py._connection.startup"]
    if needs_hooks(options):
        modules += [f"claude_agent_py.{name}" for name in ("options.delegation_hooks", "options.output_hook")]
        modules.append("claude_agent_py.hooks.dispatcher")
    if depends_on_hooks(options):
        modules.append("claude_agent_py.hooks.live")
    if needs_permissions(options):
        modules.append("claude_agent_py.permissions.dispatcher")
    if needs_servers(options):
        modules += ["claude_agent_py.tools.host", "claude_agent_py.tools.server"]
    return modules


async def load_parts(options: ClientOptions) -> None:
    """Import the modules that these options need, in a thread unless all are loaded."""
    missing = [module for module in list_parts(options) if module not in _loaded]
    if missing:
        await run_file_work(_load, missing)


def _load(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)
        _loaded.add(module)
