"""Hooks: Python callbacks that the CLI calls at certain events. Their answers can change or block actions."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._journal.requests import HookRun as HookRun
    from claude_agent_py.hooks.by_event import Hook as Hook, HooksByEvent as HooksByEvent
    from claude_agent_py.hooks.context import HookContext as HookContext
    from claude_agent_py.hooks.live import LiveHooks as LiveHooks
    from claude_agent_py.hooks.matcher import HookMatcher as HookMatcher, OnFailure as OnFailure
    from claude_agent_py.hooks.registry import Hooks as Hooks, HookWarning as HookWarning
    from claude_agent_py.hooks.signatures import HookAnswer as HookAnswer, HookHandler as HookHandler
    from claude_agent_py.wire.hooks.events import (
        HOOK_EVENT_FACTS as HOOK_EVENT_FACTS,
        HOOK_EVENTS as HOOK_EVENTS,
        HookEvent as HookEvent,
        HookEventFacts as HookEventFacts,
    )
    from claude_agent_py.wire.hooks.inputs import *
    from claude_agent_py.wire.hooks.outputs import *
    from claude_agent_py.wire.hooks.outputs import ToolInputValue as ToolInputValue
    from claude_agent_py.wire.hooks.parsing import (
        parse_hook_input as parse_hook_input,
        parse_hook_output as parse_hook_output,
    )
else:
    _NAMES = {
        "claude_agent_py.hooks.context": "HookContext",
        "claude_agent_py._journal.requests": "HookRun",
        "claude_agent_py.hooks.signatures": "HookAnswer HookHandler",
        "claude_agent_py.hooks.by_event": "Hook HooksByEvent",
        "claude_agent_py.hooks.live": "LiveHooks",
        "claude_agent_py.hooks.matcher": "HookMatcher OnFailure",
        "claude_agent_py.hooks.registry": "Hooks HookWarning",
        "claude_agent_py.wire.hooks.events": "HOOK_EVENT_FACTS HOOK_EVENTS HookEvent HookEventFacts",
        "claude_agent_py.wire.hooks.inputs": "*",
        "claude_agent_py.wire.hooks.outputs": "* ToolInputValue",
        "claude_agent_py.wire.hooks.parsing": "parse_hook_input parse_hook_output",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
