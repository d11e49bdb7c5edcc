"""Answering the requests of the CLI. The features that answer load when a session needs them."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.hooks.dispatcher import HookDispatcher as HookDispatcher
    from claude_agent_py.hooks.live import put_in_force as put_in_force
    from claude_agent_py.options.delegation_hooks import DelegationHooks as DelegationHooks
    from claude_agent_py.options.output_hook import output_hooks as output_hooks
    from claude_agent_py.permissions.contexts import PermissionContext as PermissionContext
    from claude_agent_py.permissions.dispatcher import (
        HANDLERS as HANDLERS,
        PermissionDispatcher as PermissionDispatcher,
    )
    from claude_agent_py.permissions.inbox import Inbox as Inbox, PendingInteractions as PendingInteractions
    from claude_agent_py.permissions.prompts import WireRequest as WireRequest
    from claude_agent_py.tools.asking import ServerRequest as ServerRequest, sample as sample
    from claude_agent_py.tools.host import MCPHost as MCPHost, is_hosted as is_hosted
    from claude_agent_py.tools.server import ToolServer as ToolServer
else:
    _NAMES = {
        "claude_agent_py.hooks.dispatcher": "HookDispatcher",
        "claude_agent_py.hooks.live": "put_in_force",
        "claude_agent_py.options.delegation_hooks": "DelegationHooks",
        "claude_agent_py.options.output_hook": "output_hooks",
        "claude_agent_py.permissions.contexts": "PermissionContext",
        "claude_agent_py.permissions.dispatcher": "HANDLERS PermissionDispatcher",
        "claude_agent_py.permissions.inbox": "Inbox PendingInteractions",
        "claude_agent_py.permissions.prompts": "WireRequest",
        "claude_agent_py.tools.asking": "ServerRequest sample",
        "claude_agent_py.tools.host": "MCPHost is_hosted",
        "claude_agent_py.tools.server": "ToolServer",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
