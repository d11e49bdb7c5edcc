"""Bodies of the control requests that methods of `Client` send; `asks` has the other direction.

They check the arguments and name the fields of the wire. Requests without arguments from users need no model.
"""

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from claude_agent_py.wire.base import DiscreetModel, JSONObject, Number, Open, RequestModel
from claude_agent_py.wire.messages.modes import PermissionMode

# The session ----------------------------------------------------------------------------------------------------------


class InterruptRequest(RequestModel, tag="interrupt"):
    """Stop the running turn and all background agents. Background shells continue."""

    cancel_queued: bool | None = None
    """Also drop the queued prompts."""


class EndSessionRequest(RequestModel, tag="end_session"):
    """End the session and its process."""


class RenameSessionRequest(RequestModel, tag="rename_session"):
    """Change the title of a session."""

    title: str
    source: Open[Literal["remote", "host"]] | None = None
    session_id: str | None = None


class CancelAsyncMessageRequest(RequestModel, tag="cancel_async_message"):
    """Remove a prompt from the queue."""

    message_uuid: str


class RewindFilesRequest(RequestModel, tag="rewind_files"):
    """Restore files to their state at a prompt."""

    user_message_id: str
    """Uuid of the prompt."""
    dry_run: bool | None = None


class SideQuestionRequest(RequestModel, tag="side_question"):
    """Ask the model a question outside the conversation."""

    question: str
    history: list[JSONObject] | None = None


class GenerateSessionTitleRequest(RequestModel, tag="generate_session_title"):
    """Generate a title with the model."""

    description: str
    persist: bool | None = None


class ExportConversationRequest(RequestModel, tag="export_conversation"):
    """Export the conversation as text."""


# Model, permissions, settings -----------------------------------------------------------------------------------------


class SetModelRequest(RequestModel, tag="set_model"):
    """Change the model from the next turn on; None selects the default."""

    model: str | UnsetType | None = UNSET


class SetPermissionModeRequest(RequestModel, tag="set_permission_mode"):
    """Change the permission mode."""

    mode: PermissionMode


class SetMaxThinkingTokensRequest(RequestModel, tag="set_max_thinking_tokens"):
    """Change the thinking budget."""

    max_thinking_tokens: Number | UnsetType | None = UNSET
    thinking_display: Open[Literal["summarized", "omitted", "highlights"]] | UnsetType | None = UNSET
    """None selects the default; unset keeps the current value."""


class ListModelsRequest(RequestModel, tag="list_models"):
    """Get the available models."""


class ListPermissionRulesRequest(RequestModel, tag="list_permission_rules"):
    """Get the permission rules."""


class ApplyFlagSettingsRequest(RequestModel, DiscreetModel, tag="apply_flag_settings"):
    """Change settings of this session only."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("settings",)

    settings: JSONObject


class GetSettingsRequest(RequestModel, tag="get_settings"):
    """Get the effective settings and their sources."""


class UpdateSettingsRequest(RequestModel, DiscreetModel, tag="update_settings"):
    """Change a settings file."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("settings",)

    source: Open[Literal["localSettings", "userSettings"]]
    settings: JSONObject


class GetHooksListingRequest(RequestModel, tag="get_hooks_listing"):
    """Get the hooks from the settings."""


class SetMCPPermissionModeOverrideRequest(RequestModel, tag="set_mcp_permission_mode_override", rename="camel"):
    """Override the permission mode for one MCP server."""

    server_name: str
    mode: PermissionMode | None
    ask_for_tools: list[JSONObject] | None = None


# Status and usage -----------------------------------------------------------------------------------------------------


class GetContextUsageRequest(RequestModel, tag="get_context_usage"):
    """Get the contents of the context window."""

    detail: Open[Literal["summary", "full"]] | None = None


class GetSessionCostRequest(RequestModel, tag="get_session_cost"):
    """Get the session's cost as text."""


class GetUsageRequest(RequestModel, tag="get_usage"):
    """Get the session's cost and the subscription's limits."""

    skip_behaviors: bool | None = None


class GetBinaryVersionRequest(RequestModel, tag="get_binary_version"):
    """Get the CLI's version."""


class GetStatusRequest(RequestModel, tag="get_status"):
    """Get the content of `/status`."""


class GetPlanRequest(RequestModel, tag="get_plan"):
    """Get the agent's plan."""


class GetWorkspaceDiffRequest(RequestModel, tag="get_workspace_diff"):
    """Get the changes in the working directory."""


# MCP servers ----------------------------------------------------------------------------------------------------------


class MCPStatusRequest(RequestModel, tag="mcp_status", rename="camel"):
    """Get the status of the MCP servers."""

    live_reply: bool | None = None


class MCPSetServersRequest(RequestModel, DiscreetModel, tag="mcp_set_servers"):
    """Replace the session's MCP servers, including those declared at its start."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("servers",)

    servers: dict[str, JSONObject]


class MCPReconnectRequest(RequestModel, tag="mcp_reconnect", rename="camel"):
    """Reconnect an MCP server."""

    server_name: str


class MCPToggleRequest(RequestModel, tag="mcp_toggle", rename="camel"):
    """Enable or disable an MCP server."""

    server_name: str
    enabled: bool


class MCPCallRequest(RequestModel, tag="mcp_call"):
    """Call a tool of an MCP server without the model."""

    tool: str
    """The full name, `mcp__server__tool`."""
    arguments: JSONObject | None = None
    expires_at: str | None = None
    timeout_ms: Number | None = None
    result_not_for_model: bool | None = None
    soft_error_result: bool | None = None
    check_permissions: bool | None = None
    input_files: list[JSONObject] | None = None
    output_files: list[JSONObject] | None = None


class MCPReadResourceRequest(RequestModel, tag="mcp_read_resource", rename="camel"):
    """Read a `ui://` resource of an MCP server."""

    server_name: str
    uri: str


class MCPAuthenticateRequest(RequestModel, tag="mcp_authenticate", rename="camel"):
    """Log in to an MCP server."""

    server_name: str
    redirect_uri: str | None = None
    redirect_uri_only: bool | None = None


class MCPOAuthCallbackURLRequest(RequestModel, DiscreetModel, tag="mcp_oauth_callback_url", rename="camel"):
    """Complete the login to an MCP server with the URL that the browser was redirected to."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("callback_url",)

    server_name: str
    callback_url: str


class MCPClearAuthRequest(RequestModel, tag="mcp_clear_auth", rename="camel"):
    """Log out of an MCP server."""

    server_name: str


# Files, plugins, skills -----------------------------------------------------------------------------------------------


class ReadFileRequest(RequestModel, tag="read_file"):
    """Read a file on the machine of the CLI."""

    path: str
    max_bytes: Number | None = None
    encoding: Open[Literal["utf-8", "base64"]] | None = None


class FileSuggestionsRequest(RequestModel, tag="file_suggestions"):
    """Complete a path."""

    query: str


class SeedReadStateRequest(RequestModel, tag="seed_read_state"):
    """Mark a file as read by the model."""

    path: str
    mtime: Number
    """Milliseconds since the epoch."""


class RegisterRepoRootRequest(RequestModel, tag="register_repo_root"):
    """Add a directory to the session."""

    directory: str
    reload_claude_md: bool | None = None
    reload_plugins: bool | None = None
    reload_skills: bool | None = None


class SetCwdRequest(RequestModel, tag="set_cwd"):
    """Change the working directory."""

    path: str
    trust_accepted: bool | None = None
    trusted_directory: str | None = None


class ReloadPluginsRequest(RequestModel, tag="reload_plugins"):
    """Reload the plugins."""

    hold_on_cache_impact: bool | None = None
    add_plugins: list[JSONObject] | None = None
    refuse_if_busy: bool | None = None


class ReloadSkillsRequest(RequestModel, tag="reload_skills"):
    """Reload the skills."""


class ReloadOutputStylesRequest(RequestModel, tag="reload_output_styles"):
    """Reload the output styles."""
