"""Hooks: functions of yours that the CLI calls at certain events, and that may change what happens.

`matcher` is what users write (a handler with its pattern, time limit and failure rule), `registry` collects them,
`dispatcher` runs them for one session, and `live` changes them while it runs. The models of inputs and outputs are in
`wire.hooks`. Names are available here; what a session needs is loaded when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import HookHandler, HookMatcher, OnFailure
from claude_agent_py.hooks.registry import Hooks, HookWarning

if TYPE_CHECKING:
    from claude_agent_py.hooks.dispatcher import HookDispatcher, HookRun
    from claude_agent_py.hooks.live import LiveHooks

__all__ = [
    "HookContext",
    "HookDispatcher",
    "HookHandler",
    "HookMatcher",
    "HookRun",
    "HookWarning",
    "Hooks",
    "LiveHooks",
    "OnFailure",
]

_HOME = {"HookDispatcher": "dispatcher", "HookRun": "dispatcher", "LiveHooks": "live"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
