"""What a missing name stands for: a name of the official SDK (`docs/coming-from-the-official-sdk.md`), or a slip."""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

OFFICIAL_NAMES: Final[Mapping[str, str]] = {
    "AssistantMessageError": "AssistantError",
    "AsyncHookJSONOutput": "AsyncHookOutput",
    "BaseHookInput": "HookInput",
    "CLIConnectionError": "CLIStartError, ConnectionClosedError or CLIExitError",
    "CLIJSONDecodeError": "MalformedFrame, a message",
    "CanUseToolShadowedWarning": "OptionsWarning",
    "ClaudeAgentOptions": "ClientOptions",
    "ClaudeCodeOptions": "ClientOptions",
    "ClaudeSDKClient": "Client",
    "ClaudeSDKError": "ClaudeAgentError",
    "ContextUsageResponse": "ContextUsageReply",
    "FastModeDisabledReason": "plain text (str)",
    "ForkSessionResult": "SessionInfo",
    "HookCallback": "HookHandler",
    "HookEventMessage": "HookStartedMessage, HookProgressMessage or HookResponseMessage",
    "HookJSONOutput": "HookOutput",
    "HookSpecificOutput": "the output model of each event, such as PreToolUseOutput",
    "InMemorySessionStore": "MemoryStore",
    "McpClaudeAIProxyServerConfig": "MCPServerStatus",
    "McpHttpServerConfig": "MCPHTTPServer",
    "McpSSEServerConfig": "MCPSSEServer",
    "McpSdkServerConfig": "ToolServer",
    "McpSdkServerConfigStatus": "MCPServerStatus",
    "McpServerConfig": "MCPStdioServer, MCPHTTPServer or ToolServer",
    "McpServerConnectionStatus": "MCPServerState",
    "McpServerInfo": "MCPServerVersion",
    "McpServerStatusConfig": "MCPServerStatus",
    "McpStatusResponse": "MCPStatusReply",
    "McpStdioServerConfig": "MCPStdioServer",
    "McpToolAnnotations": "ToolAnnotations",
    "MessageOriginKind": "plain text (str)",
    "MessageParseError": "MalformedFrame, a message",
    "PermissionBehavior": "plain text (str)",
    "PermissionResult": "Decision",
    "PermissionResultAllow": "Allow",
    "PermissionResultDeny": "Deny",
    "PermissionUpdateDestination": "plain text (str)",
    "ProcessError": "CLIExitError",
    "RateLimitEvent": "RateLimitMessage",
    "ResultError": "RunError",
    "SDKSessionInfo": "SessionInfo",
    "SandboxIgnoreViolations": "the fields of SandboxSettings",
    "SandboxNetworkConfig": "the fields of SandboxSettings",
    "SdkBeta": "plain text (str)",
    "SdkMcpTool": "Tool",
    "SdkPluginConfig": "PluginConfig",
    "ServerToolName": "plain text (str)",
    "ServerToolResultBlock": "a class for each tool, such as WebSearchToolResultBlock",
    "SessionStoreFlushMode": 'the words "batched" and "eager"',
    "StreamEvent": "StreamEventMessage",
    "SyncHookJSONOutput": "HookOutput",
    "SystemInitData": "the fields of InitMessage",
    "SystemInitMcpServer": "the fields of InitMessage",
    "SystemInitPlugin": "the fields of InitMessage",
    "SystemInitPluginError": "the fields of InitMessage",
    "SystemPromptCustom": "SystemPromptText",
    "TERMINAL_TASK_STATUSES": "TaskStatus.is_terminal",
    "TaskBudget": "an int",
    "TaskNotificationOriginSubkind": "plain text (str)",
    "TaskNotificationStatus": "TaskStatus",
    "TaskUpdatedStatus": "TaskStatus",
    "ThinkingConfigAdaptive": "ThinkingAdaptive",
    "ThinkingConfigDisabled": "ThinkingDisabled",
    "ThinkingConfigEnabled": "ThinkingEnabled",
    "ThinkingDisplay": "plain text (str)",
    "ToolPermissionContext": "PermissionContext",
    "ToolsPreset": "a list of names, or None for the CLI's default tools",
    "create_sdk_mcp_server": "ToolServer",
    "import_session_to_store": "import_session",
    "delete_session_via_store": "StoredSessions(store).delete()",
    "fork_session_via_store": "StoredSessions(store).fork()",
    "get_session_info_from_store": "StoredSessions(store).get_info()",
    "get_session_messages_from_store": "StoredSessions(store).get(), whose messages you slice",
    "get_subagent_messages_from_store": "StoredSessions(store).get(), which has subagents",
    "list_sessions_from_store": "StoredSessions(store).list()",
    "list_subagents_from_store": "StoredSessions(store).get(), which has subagents",
    "rename_session_via_store": "StoredSessions(store).rename()",
    "tag_session_via_store": "StoredSessions(store).tag()",
}

OFFICIAL_METHODS: Final[Mapping[str, str]] = {
    "account_info": "client.info.account",
    "apply_flag_settings": "client.settings.apply()",
    "ask_side_question": "client.side_question()",
    "background_tasks": "client.tasks.move_all_to_background()",
    "disconnect": "client.close()",
    "generate_session_title": "client.conversation.generate_title()",
    "get_context_usage": "client.usage.context()",
    "get_mcp_status": "client.mcp.status()",
    "get_server_info": "client.info",
    "get_settings": "client.settings.get()",
    "initialization_result": "client.info",
    "mcp_authenticate": "client.mcp.authenticate()",
    "mcp_clear_auth": "client.mcp.clear_auth()",
    "mcp_server_status": "client.mcp.status()",
    "mcp_submit_oauth_callback_url": "client.mcp.submit_oauth_callback()",
    "read_file": "client.files.read()",
    "read_mcp_resource": "client.mcp.read_resource()",
    "receive_messages": "client.messages()",
    "receive_response": "client.query(...), which you iterate for the messages or await for the result",
    "reconnect_mcp_server": "client.mcp.reconnect()",
    "register_repo_root": "client.files.add_root()",
    "reinitialize": 'client.control("initialize")',
    "reload_plugins": "client.settings.reload_plugins()",
    "rename_session": "client.conversation.rename()",
    "rewind_files": "client.files.rewind()",
    "seed_read_state": "client.files.seed_read_state()",
    "set_cwd": "client.files.set_cwd()",
    "set_mcp_permission_mode_override": "client.mcp.set_permission_mode()",
    "set_mcp_servers": "client.mcp.set_servers()",
    "stop_task": "client.tasks.stop()",
    "stream_input": "client.query(stream)",
    "supported_agents": "client.info.agents",
    "supported_commands": "client.info.commands",
    "supported_models": "client.info.models",
    "toggle_mcp_server": "client.mcp.toggle()",
    "update_settings": "client.settings.update()",
}
"""The methods of the official clients, in snake_case, that a `Client` has elsewhere."""

_PARTS: Final = {"HookSpecificOutput": "Output", "HookInput": "Input", "Mcp": "MCP"}


def translations(name: str) -> Iterator[str]:
    """Yield what may replace a name of the official SDK: names, or a description."""
    if name in OFFICIAL_NAMES:
        yield OFFICIAL_NAMES[name]
    for part, replacement in _PARTS.items():
        if part in name:
            yield name.replace(part, replacement)


def find_close(name: str, known: Collection[str]) -> list[str]:
    """Return up to two of the known names that are spelt almost like this one."""
    return get_close_matches(name, known, n=2, cutoff=0.8)
