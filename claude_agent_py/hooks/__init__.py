"""Hooks: functions of yours that the CLI calls at certain events, and that may change what happens.

`matcher` is what users write (a handler with its pattern, time limit and failure rule), `registry` collects them,
`dispatcher` runs them for one session, and `live` changes them while it runs. The models of inputs and outputs are in
`wire.hooks`. Names are available here; what a session needs is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING

from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import HookHandler, HookMatcher, OnFailure
from claude_agent_py.hooks.registry import Hooks, HookWarning
from claude_agent_py.lazy_names import loader

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
__getattr__ = loader(__name__, _HOME)
