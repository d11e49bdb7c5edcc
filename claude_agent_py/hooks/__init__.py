"""Hooks: functions of yours that the CLI calls at certain events, and that may change what happens.

`matcher` is what users write (a handler with its pattern, time limit and failure rule), `registry` collects them, and
`dispatcher` runs them for one session. The models of inputs and outputs are in `wire.hooks`; the names that users need
are available here, and the models are loaded when they are first asked for.
"""

from typing import TYPE_CHECKING, Any

from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import HookHandler, HookMatcher, OnFailure
from claude_agent_py.hooks.registry import Hooks, HookWarning

if TYPE_CHECKING:
    from claude_agent_py.hooks.dispatcher import HookDispatcher, HookRun

__all__ = [
    "HookContext",
    "HookDispatcher",
    "HookHandler",
    "HookMatcher",
    "HookRun",
    "HookWarning",
    "Hooks",
    "OnFailure",
]


def __getattr__(name: str) -> Any:
    if name in ("HookDispatcher", "HookRun"):
        from claude_agent_py.hooks import dispatcher

        return getattr(dispatcher, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
