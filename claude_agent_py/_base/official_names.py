"""The names of the official SDK that are called otherwise here, as in `docs/coming-from-the-official-sdk.md`."""

from collections.abc import Iterator, Mapping
from typing import Final

OFFICIAL_NAMES: Final[Mapping[str, str]] = {
    "BaseHookInput": "HookInput",
    "CLIConnectionError": "CLIError or ConnectionClosedError",
    "CLIJSONDecodeError": "MalformedFrame, a message",
    "CanUseToolShadowedWarning": "OptionsWarning",
    "ClaudeAgentOptions": "ClientOptions",
    "ClaudeCodeOptions": "ClientOptions",
    "ClaudeSDKClient": "Client",
    "ClaudeSDKError": "ClaudeAgentError",
    "FastModeDisabledReason": "plain text (str)",
    "ForkSessionResult": "SessionInfo",
    "HookCallback": "HookHandler",
    "HookEventMessage": "HookStartedMessage, HookProgressMessage or HookResponseMessage",
    "HookJSONOutput": "HookOutput",
    "InMemorySessionStore": "MemoryStore",
    "McpHttpServerConfig": "MCPHTTPServer",
    "McpSSEServerConfig": "MCPSSEServer",
    "McpSdkServerConfig": "ToolServer",
    "McpServerConfig": "MCPStdioServer, MCPHTTPServer or ToolServer",
    "McpServerConnectionStatus": "MCPServerState",
    "McpServerInfo": "MCPServerVersion",
    "McpServerStatusConfig": "MCPServerStatus",
    "McpStatusResponse": "MCPStatusReply",
    "McpStdioServerConfig": "MCPStdioServer",
    "McpToolAnnotations": "ToolAnnotations",
    "MessageOriginKind": "plain text (str)",
    "MessageParseError": "MalformedFrame, a message",
    "ContextUsageResponse": "ContextUsageReply",
    "PermissionResult": "Decision",
    "PermissionResultAllow": "Allow",
    "PermissionResultDeny": "Deny",
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
    "SystemInitData": "the fields of InitMessage",
    "SystemInitMcpServer": "the fields of InitMessage",
    "SystemInitPlugin": "the fields of InitMessage",
    "SystemInitPluginError": "the fields of InitMessage",
    "TERMINAL_TASK_STATUSES": "TaskStatus.is_terminal",
    "TaskBudget": "an int",
    "TaskNotificationOriginSubkind": "plain text (str)",
    "TaskNotificationStatus": "TaskStatus",
    "TaskUpdatedStatus": "TaskStatus",
    "ThinkingConfigAdaptive": "ThinkingAdaptive",
    "ThinkingConfigDisabled": "ThinkingDisabled",
    "ThinkingConfigEnabled": "ThinkingEnabled",
    "ToolPermissionContext": "PermissionContext",
    "create_sdk_mcp_server": "ToolServer",
    "import_session_to_store": "import_session",
}

_PARTS: Final = {"HookSpecificOutput": "Output", "HookInput": "Input", "Mcp": "MCP"}


def translations(name: str) -> Iterator[str]:
    """Yield what may replace a name of the official SDK: names, or a description."""
    if name in OFFICIAL_NAMES:
        yield OFFICIAL_NAMES[name]
    for part, replacement in _PARTS.items():
        if part in name:
            yield name.replace(part, replacement)
