"""Bodies of the control requests that methods of `Client` send; `asks` has the other direction.

They check the arguments and name the fields of the wire. Requests without arguments from users need no model.
"""

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from claude_agent_py.wire.base import CamelModel, DiscreetModel, JSONObject, Number, Open, WireModel
from claude_agent_py.wire.messages.modes import PermissionMode

# The session ----------------------------------------------------------------------------------------------------------


class InterruptRequest(WireModel):
    """Stop the running turn and all background agents. Background shells continue."""

    subtype: ClassVar[Literal["interrupt"]] = "interrupt"
    cancel_queued: bool | None = None
    """Also drop the queued prompts."""


class EndSessionRequest(WireModel):
    """End the session and its process."""

    subtype: ClassVar[Literal["end_session"]] = "end_session"


class RenameSessionRequest(WireModel):
    """Change the title of a session."""

    subtype: ClassVar[Literal["rename_session"]] = "rename_session"
    title: str
    source: Open[Literal["remote", "host"]] | None = None
    session_id: str | None = None


class CancelAsyncMessageRequest(WireModel):
    """Remove a prompt from the queue."""

    subtype: ClassVar[Literal["cancel_async_message"]] = "cancel_async_message"
    message_uuid: str


class RewindFilesRequest(WireModel):
    """Restore files to their state at a prompt."""

    subtype: ClassVar[Literal["rewind_files"]] = "rewind_files"
    user_message_id: str
    """Uuid of the prompt."""
    dry_run: bool | None = None


class SideQuestionRequest(WireModel):
    """Ask the model a question outside the conversation."""

    subtype: ClassVar[Literal["side_question"]] = "side_question"
    question: str
    history: list[JSONObject] | None = None


class GenerateSessionTitleRequest(WireModel):
    """Generate a title with the model."""

    subtype: ClassVar[Literal["generate_session_title"]] = "generate_session_title"
    description: str
    persist: bool | None = None


class ExportConversationRequest(WireModel):
    """Export the conversation as text."""

    subtype: ClassVar[Literal["export_conversation"]] = "export_conversation"


# Model, permissions, settings -----------------------------------------------------------------------------------------


class SetModelRequest(WireModel):
    """Change the model from the next turn on; None selects the default."""

    subtype: ClassVar[Literal["set_model"]] = "set_model"
    model: str | UnsetType | None = UNSET


class SetPermissionModeRequest(WireModel):
    """Change the permission mode."""

    subtype: ClassVar[Literal["set_permission_mode"]] = "set_permission_mode"
    mode: PermissionMode


class SetMaxThinkingTokensRequest(WireModel):
    """Change the thinking budget."""

    subtype: ClassVar[Literal["set_max_thinking_tokens"]] = "set_max_thinking_tokens"
    max_thinking_tokens: Number | UnsetType | None = UNSET
    thinking_display: Open[Literal["summarized", "omitted", "highlights"]] | UnsetType | None = UNSET
    """None selects the default; unset keeps the current value."""


class ListModelsRequest(WireModel):
    """Get the available models."""

    subtype: ClassVar[Literal["list_models"]] = "list_models"


class ListPermissionRulesRequest(WireModel):
    """Get the permission rules."""

    subtype: ClassVar[Literal["list_permission_rules"]] = "list_permission_rules"


class ApplyFlagSettingsRequest(DiscreetModel):
    """Change settings of this session only."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("settings",)

    subtype: ClassVar[Literal["apply_flag_settings"]] = "apply_flag_settings"
    settings: JSONObject


class GetSettingsRequest(WireModel):
    """Get the effective settings and their sources."""

    subtype: ClassVar[Literal["get_settings"]] = "get_settings"


class UpdateSettingsRequest(DiscreetModel):
    """Change a settings file."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("settings",)

    subtype: ClassVar[Literal["update_settings"]] = "update_settings"
    source: Open[Literal["localSettings", "userSettings"]]
    settings: JSONObject


class GetHooksListingRequest(WireModel):
    """Get the hooks from the settings."""

    subtype: ClassVar[Literal["get_hooks_listing"]] = "get_hooks_listing"


class SetMCPPermissionModeOverrideRequest(CamelModel):
    """Override the permission mode for one MCP server."""

    subtype: ClassVar[Literal["set_mcp_permission_mode_override"]] = "set_mcp_permission_mode_override"
    server_name: str
    mode: PermissionMode | None
    ask_for_tools: list[JSONObject] | None = None


# Status and usage -----------------------------------------------------------------------------------------------------


class GetContextUsageRequest(WireModel):
    """Get the contents of the context window."""

    subtype: ClassVar[Literal["get_context_usage"]] = "get_context_usage"
    detail: Open[Literal["summary", "full"]] | None = None


class GetSessionCostRequest(WireModel):
    """Get the session's cost as text."""

    subtype: ClassVar[Literal["get_session_cost"]] = "get_session_cost"


class GetUsageRequest(WireModel):
    """Get the session's cost and the subscription's limits."""

    subtype: ClassVar[Literal["get_usage"]] = "get_usage"
    skip_behaviors: bool | None = None


class GetBinaryVersionRequest(WireModel):
    """Get the CLI's version."""

    subtype: ClassVar[Literal["get_binary_version"]] = "get_binary_version"


class GetStatusRequest(WireModel):
    """Get the content of `/status`."""

    subtype: ClassVar[Literal["get_status"]] = "get_status"


class GetPlanRequest(WireModel):
    """Get the agent's plan."""

    subtype: ClassVar[Literal["get_plan"]] = "get_plan"


class GetWorkspaceDiffRequest(WireModel):
    """Get the changes in the working directory."""

    subtype: ClassVar[Literal["get_workspace_diff"]] = "get_workspace_diff"


# MCP servers ----------------------------------------------------------------------------------------------------------


class MCPStatusRequest(CamelModel):
    """Get the status of the MCP servers."""

    subtype: ClassVar[Literal["mcp_status"]] = "mcp_status"


class MCPSetServersRequest(DiscreetModel):
    """Replace the session's MCP servers, including those declared at its start."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("servers",)

    subtype: ClassVar[Literal["mcp_set_servers"]] = "mcp_set_servers"
    servers: dict[str, JSONObject]


class MCPReconnectRequest(CamelModel):
    """Reconnect an MCP server."""

    subtype: ClassVar[Literal["mcp_reconnect"]] = "mcp_reconnect"
    server_name: str


class MCPToggleRequest(CamelModel):
    """Enable or disable an MCP server."""

    subtype: ClassVar[Literal["mcp_toggle"]] = "mcp_toggle"
    server_name: str
    enabled: bool


class MCPCallRequest(WireModel):
    """Call a tool of an MCP server without the model."""

    subtype: ClassVar[Literal["mcp_call"]] = "mcp_call"
    tool: str
    """The full name, `mcp__server__tool`."""
    arguments: JSONObject | None = None
    expires_at: str | None = None
    timeout_ms: Number | None = None
    result_not_for_model: bool | None = None
    check_permissions: bool | None = None
    input_files: list[JSONObject] | None = None
    output_files: list[JSONObject] | None = None


class MCPReadResourceRequest(CamelModel):
    """Read a `ui://` resource of an MCP server."""

    subtype: ClassVar[Literal["mcp_read_resource"]] = "mcp_read_resource"
    server_name: str
    uri: str


class MCPAuthenticateRequest(CamelModel):
    """Log in to an MCP server."""

    subtype: ClassVar[Literal["mcp_authenticate"]] = "mcp_authenticate"
    server_name: str
    redirect_uri: str | None = None
    redirect_uri_only: bool | None = None


class MCPOAuthCallbackURLRequest(CamelModel):
    """Complete the login to an MCP server with the URL that the browser was redirected to."""

    subtype: ClassVar[Literal["mcp_oauth_callback_url"]] = "mcp_oauth_callback_url"
    server_name: str
    callback_url: str


class MCPClearAuthRequest(CamelModel):
    """Log out of an MCP server."""

    subtype: ClassVar[Literal["mcp_clear_auth"]] = "mcp_clear_auth"
    server_name: str


# Files, plugins, skills -----------------------------------------------------------------------------------------------


class ReadFileRequest(WireModel):
    """Read a file on the machine of the CLI."""

    subtype: ClassVar[Literal["read_file"]] = "read_file"
    path: str
    max_bytes: Number | None = None
    encoding: Open[Literal["utf-8", "base64"]] | None = None


class FileSuggestionsRequest(WireModel):
    """Complete a path."""

    subtype: ClassVar[Literal["file_suggestions"]] = "file_suggestions"
    query: str


class SeedReadStateRequest(WireModel):
    """Mark a file as read by the model."""

    subtype: ClassVar[Literal["seed_read_state"]] = "seed_read_state"
    path: str
    mtime: Number
    """Milliseconds since the epoch."""


class RegisterRepoRootRequest(WireModel):
    """Add a directory to the session."""

    subtype: ClassVar[Literal["register_repo_root"]] = "register_repo_root"
    directory: str
    reload_claude_md: bool | None = None
    reload_plugins: bool | None = None
    reload_skills: bool | None = None


class SetCwdRequest(WireModel):
    """Change the working directory."""

    subtype: ClassVar[Literal["set_cwd"]] = "set_cwd"
    path: str
    trust_accepted: bool | None = None
    trusted_directory: str | None = None


class ReloadPluginsRequest(WireModel):
    """Reload the plugins."""

    subtype: ClassVar[Literal["reload_plugins"]] = "reload_plugins"
    hold_on_cache_impact: bool | None = None
    add_plugins: list[JSONObject] | None = None
    refuse_if_busy: bool | None = None


class ReloadSkillsRequest(WireModel):
    """Reload the skills."""

    subtype: ClassVar[Literal["reload_skills"]] = "reload_skills"


class ReloadOutputStylesRequest(WireModel):
    """Reload the output styles."""

    subtype: ClassVar[Literal["reload_output_styles"]] = "reload_output_styles"
