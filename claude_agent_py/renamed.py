"""What to use in place of names that are known from the official SDKs.

Owns the words of two errors: a name that the package does not have, and an attribute that `Client` does not have.
Loaded when such an error is raised, and by nothing else. Options have a table of their own (`options/checks.py`).
"""

import re
from collections.abc import Mapping
from typing import Final

NAMES: Final[Mapping[str, str]] = {
    # The session
    "ClaudeSDKClient": "Client",
    "ClaudeAgentOptions": "ClientOptions",
    "ClaudeCodeOptions": "ClientOptions",
    "create_sdk_mcp_server": "ToolServer, or the option custom_tools",
    "SdkMcpTool": "Tool",
    "CanUseTool": "a function (request, context) -> Allow | Deny",
    "CanUseToolShadowedWarning": "options.OptionsWarning",
    "ToolPermissionContext": "PermissionRequest, and PermissionContext",
    "PermissionResult": "Decision",
    "PermissionResultAllow": "Allow",
    "PermissionResultDeny": "Deny",
    "HookCallback": "a function (input, context) -> output",
    "HookJSONOutput": "HookOutput, and a class for each event",
    "BaseHookInput": "HookInput",
    "ThinkingConfig": "ThinkingAdaptive, ThinkingEnabled or ThinkingDisabled",
    "ThinkingConfigAdaptive": "ThinkingAdaptive",
    "ThinkingConfigEnabled": "ThinkingEnabled",
    "ThinkingConfigDisabled": "ThinkingDisabled",
    "SdkPluginConfig": "PluginConfig",
    "SandboxNetworkConfig": "a dict in SandboxSettings(network=...)",
    "McpServerConfig": "MCPStdioServer, MCPHTTPServer, MCPSSEServer or ToolServer",
    "McpSdkServerConfig": "ToolServer",
    "McpServerStatus": "wire.MCPServerStatus",
    "McpStatusResponse": "wire.MCPStatusReply",
    "ContextUsageResponse": "wire.ContextUsageReply",
    # Messages
    "ContentBlock": "wire.ContentBlock",
    "SystemMessage": "a class for each subtype: InitMessage, StatusMessage, ...",
    "SystemInitData": "InitMessage",
    "StreamEvent": "StreamEventMessage",
    "RateLimitEvent": "RateLimitMessage",
    "RateLimitInfo": "wire.RateLimitInfo",
    "HookEventMessage": "HookStartedMessage and HookResponseMessage; for handlers of yours, HookRun",
    "ServerToolResultBlock": "a class for each tool: WebSearchToolResultBlock, AdvisorToolResultBlock, ...",
    "ModelUsage": "wire.ModelUsage",
    "MessageOrigin": "wire.MessageOrigin",
    "DeferredToolUse": "wire.DeferredToolUse",
    "TERMINAL_TASK_STATUSES": "TaskStatus.is_terminal",
    "TaskNotificationStatus": "TaskStatus",
    "TaskUpdatedStatus": "TaskStatus",
    # Errors
    "ClaudeSDKError": "ClaudeAgentError",
    "CLIConnectionError": "CLIStartError at the start, ConnectionClosedError or CLIExitError later",
    "ProcessError": "CLIExitError",
    "ResultError": "RunError",
    "CLIJSONDecodeError": "MalformedFrame, which is a message and no error",
    "MessageParseError": "MalformedFrame, which is a message and no error",
}
"""Names of the package that are there and not here, and what to use."""

_NOT_READ: Final = "sessions on disk are not read or changed here; the option resume goes on with one"
_NO_STORE: Final = "there are no session stores here; the option session_mirror gives you the entries"

ABSENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        [
            *("list_sessions", "get_session_info", "get_session_messages", "list_subagents", "get_subagent_messages"),
            *("rename_session", "tag_session", "delete_session", "fork_session", "archive_session"),
            *("SDKSessionInfo", "SessionMessage", "ForkSessionResult", "project_key_for_directory"),
        ],
        _NOT_READ,
    ),
    **dict.fromkeys(
        [
            *("SessionStore", "InMemorySessionStore", "SessionKey", "SessionStoreEntry", "SessionStoreFlushMode"),
            *("SessionStoreListEntry", "SessionSummaryEntry", "SessionListSubkeysKey", "fold_session_summary"),
            *("import_session_to_store", "list_sessions_from_store", "get_session_info_from_store"),
            *("get_session_messages_from_store", "list_subagents_from_store", "get_subagent_messages_from_store"),
            *("rename_session_via_store", "tag_session_via_store", "delete_session_via_store"),
            "fork_session_via_store",
        ],
        _NO_STORE,
    ),
}
"""Names of the package that have no counterpart here, and why."""

CLIENT: Final[Mapping[str, str]] = {
    "disconnect": "close()",
    "receive_response": "what query() gives: `async for message in client.query(prompt)`",
    "receive_messages": "messages()",
    "get_server_info": "info",
    "get_mcp_status": "mcp.status()",
    "mcp_server_status": "mcp.status()",
    "initialization_result": "info",
    "reinitialize": 'control("initialize")',
    "stream_input": "query(), which takes an async iterable of prompts",
}
"""Attributes of their clients that are there and not here, and what to use."""

_PAGE: Final = "see docs/coming-from-the-official-sdk.md"


def instead_of(name: str) -> str | None:
    """Say what to use in place of a name of the official SDKs; None where it is no such name that is known."""
    hook = re.fullmatch(r"(\w+)Hook(?:Specific)?(Input|Output)", name)
    for known in (name, _snake_case(name)):
        if known in ABSENT:
            return f"{ABSENT[known]}; {_PAGE}"
        if known in NAMES:
            return f"use {NAMES[known]}; {_PAGE}"
    return f"use {''.join(hook.groups())}; {_PAGE}" if hook else None


def instead_of_attribute(name: str, owner: type) -> str | None:
    """Say what a client has in place of an attribute of theirs; None where it is no such name that is known."""
    instead = CLIENT.get(_snake_case(name)) or (_snake_case(name) if hasattr(owner, _snake_case(name)) else None)
    return f"use {instead}; {_PAGE}" if instead else None


def _snake_case(name: str) -> str:
    """Give the Python form of a camelCase name. Its own, so that a wrong name loads nothing else."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
