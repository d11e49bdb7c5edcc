"""A running session on asyncio or trio: it moves bytes between a transport and the engine of `_journal`.

Read `connection.py` first, then `runs/run.py` (the user's view of a prompt) and `answering/request_handlers.py`
(requests of the CLI). The names below are those that `Client` uses, on first use: they load while the CLI starts.
"""

from claude_agent_py._base.lazy_names import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claude_agent_py._connection.budget import subtract_spent as subtract_spent
    from claude_agent_py._connection.connection import Connection as Connection, CurrentConnection as CurrentConnection
    from claude_agent_py._connection.controls.conversation import ConversationControls as ConversationControls
    from claude_agent_py._connection.controls.files import FileControls as FileControls
    from claude_agent_py._connection.controls.mcp import MCPControls as MCPControls
    from claude_agent_py._connection.controls.settings import SettingsControls as SettingsControls
    from claude_agent_py._connection.controls.usage import UsageControls as UsageControls
    from claude_agent_py._connection.runs.prompts import (
        check_run_arguments as check_run_arguments,
        prepare_prompt as prepare_prompt,
    )
    from claude_agent_py._connection.runs.run import InterruptReceipt as InterruptReceipt, Run as Run
    from claude_agent_py._connection.runs.run_state import RunState as RunState
    from claude_agent_py._connection.runs.subagents import Subagent as Subagent, find_subagents as find_subagents
    from claude_agent_py._connection.session import Session as Session
    from claude_agent_py._connection.session_messages import SessionMessages as SessionMessages
    from claude_agent_py._connection.shutdown import TasksAtClose as TasksAtClose
    from claude_agent_py._connection.startup import open_session as open_session
    from claude_agent_py._connection.store_sync import StoreSync as StoreSync
    from claude_agent_py._journal.open_runs import Until as Until
    from claude_agent_py.hooks.live import LiveHooks as LiveHooks
    from claude_agent_py.observe.watching import FactStream as FactStream, put_facts as put_facts
else:
    _NAMES = {
        "claude_agent_py._connection.budget": "subtract_spent",
        "claude_agent_py._connection.connection": "Connection CurrentConnection",
        "claude_agent_py._connection.controls.conversation": "ConversationControls",
        "claude_agent_py._connection.controls.files": "FileControls",
        "claude_agent_py._connection.controls.mcp": "MCPControls",
        "claude_agent_py._connection.controls.settings": "SettingsControls",
        "claude_agent_py._connection.controls.usage": "UsageControls",
        "claude_agent_py._connection.runs.prompts": "check_run_arguments prepare_prompt",
        "claude_agent_py._connection.runs.run": "InterruptReceipt Run",
        "claude_agent_py._connection.runs.run_state": "RunState",
        "claude_agent_py._connection.runs.subagents": "Subagent find_subagents",
        "claude_agent_py._connection.session": "Session",
        "claude_agent_py._connection.session_messages": "SessionMessages",
        "claude_agent_py._connection.shutdown": "TasksAtClose",
        "claude_agent_py._connection.startup": "open_session",
        "claude_agent_py._connection.store_sync": "StoreSync",
        "claude_agent_py._journal.open_runs": "Until",
        "claude_agent_py.hooks.live": "LiveHooks",
        "claude_agent_py.observe.watching": "FactStream put_facts",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
