"""Programs that were written for the official Python SDK: its names, with its arguments, shapes and errors.

    import claude_agent_py.compat as claude_agent_sdk

Or, for programs that stay unchanged, before they are imported:

    claude_agent_py.compat.install()
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

__version__ = "0.2.189"
"""The version of the official SDK whose names these are."""

if TYPE_CHECKING:
    from claude_agent_py.compat import testing as testing, types as types
    from claude_agent_py.compat.client import ClaudeSDKClient as ClaudeSDKClient
    from claude_agent_py.compat.errors import (
        ClaudeSDKError as ClaudeSDKError,
        CLIConnectionError as CLIConnectionError,
        CLIJSONDecodeError as CLIJSONDecodeError,
        CLINotFoundError as CLINotFoundError,
        MessageParseError as MessageParseError,
        ProcessError as ProcessError,
        ResultError as ResultError,
    )
    from claude_agent_py.compat.hook_types import *
    from claude_agent_py.compat.installing import install as install
    from claude_agent_py.compat.mcp_server import (
        ToolAnnotations as ToolAnnotations,
        create_sdk_mcp_server as create_sdk_mcp_server,
    )
    from claude_agent_py.compat.memory_store import InMemorySessionStore as InMemorySessionStore
    from claude_agent_py.compat.message_types import *
    from claude_agent_py.compat.one_shot import query as query
    from claude_agent_py.compat.option_types import *
    from claude_agent_py.compat.sessions import *
    from claude_agent_py.compat.tools import SdkMcpTool as SdkMcpTool, tool as tool
    from claude_agent_py.compat.transport import Transport as Transport
    from claude_agent_py.compat.types import (
        CanUseToolShadowedWarning as CanUseToolShadowedWarning,
        ClaudeAgentOptions as ClaudeAgentOptions,
        SessionStore as SessionStore,
    )
    from claude_agent_py.sessions import (
        SessionKey as SessionKey,
        SessionListSubkeysKey as SessionListSubkeysKey,
        SessionStoreEntry as SessionStoreEntry,
        SessionStoreListEntry as SessionStoreListEntry,
        SessionSummaryEntry as SessionSummaryEntry,
    )
else:
    _NAMES = {
        "claude_agent_py.compat": "testing types",
        "claude_agent_py.compat.client": "ClaudeSDKClient",
        "claude_agent_py.compat.errors": """
            ClaudeSDKError CLIConnectionError CLIJSONDecodeError CLINotFoundError MessageParseError ProcessError
            ResultError
        """,
        "claude_agent_py.compat.hook_types": "*",
        "claude_agent_py.compat.installing": "install",
        "claude_agent_py.compat.mcp_server": "ToolAnnotations create_sdk_mcp_server",
        "claude_agent_py.compat.memory_store": "InMemorySessionStore",
        "claude_agent_py.compat.message_types": "*",
        "claude_agent_py.compat.one_shot": "query",
        "claude_agent_py.compat.option_types": "*",
        "claude_agent_py.compat.sessions": """
            ForkSessionResult SDKSessionInfo SessionMessage delete_session delete_session_via_store fold_session_summary
            fork_session fork_session_via_store get_session_info get_session_info_from_store get_session_messages
            get_session_messages_from_store get_subagent_messages get_subagent_messages_from_store
            import_session_to_store list_sessions list_sessions_from_store list_subagents list_subagents_from_store
            project_key_for_directory rename_session rename_session_via_store tag_session tag_session_via_store
        """,
        "claude_agent_py.compat.tools": "SdkMcpTool tool",
        "claude_agent_py.compat.transport": "Transport",
        "claude_agent_py.compat.types": """
            CanUseToolShadowedWarning ClaudeAgentOptions SessionStore
        """,
        "claude_agent_py.sessions": """
            SessionKey SessionListSubkeysKey SessionStoreEntry SessionStoreListEntry SessionSummaryEntry
        """,
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
