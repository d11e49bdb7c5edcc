"""Bodies of the control requests that the SDK sends to the CLI; `asks` has the other direction."""

from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from msgspec import UNSET, UnsetType

from claude_agent_py.wire.base import CamelModel, DiscreetModel, JSONObject, Number, Open, WireModel
from claude_agent_py.wire.control.asks import MCPMessageRequest
from claude_agent_py.wire.control.frames import ControlRequest, UnknownControlRequest
from claude_agent_py.wire.messages.modes import PermissionMode

# The session ----------------------------------------------------------------------------------------------------------


class HookCallbackMatcher(CamelModel):
    """Hook callbacks and the pattern of the events they are called for."""

    matcher: str | None = None
    hook_callback_ids: list[str]
    timeout: Number | None = None
    """Seconds. None waits without a limit."""
    on_failure: Open[Literal["continue", "block"]] | None = None
    """What the CLI does with the tool call if the callback fails."""


class InitializeRequest(DiscreetModel, rename="camel"):
    """The first request of a session, with all options that are not command-line flags."""

    HIDDEN: ClassVar[tuple[str, ...]] = (
        "agents",
        "sdk_mcp_server_configs",
        "mcp_servers",
        "managed_settings",
        "settings",
    )

    subtype: ClassVar[Literal["initialize"]] = "initialize"
    hooks: dict[str, list[HookCallbackMatcher]] | None = None
    """Matchers by event."""
    agents: dict[str, JSONObject] | None = None
    """Definitions by name. If one is invalid, the CLI silently drops all of them."""
    sdk_mcp_servers: list[str] | None = None
    sdk_mcp_server_configs: dict[str, JSONObject] | None = None
    sdk_mcp_server_manifests: dict[str, JSONObject] | None = None
    sdk_mcp_server_manifests_origin: Open[Literal["host_per_send"]] | None = None
    json_schema: JSONObject | None = None
    """Must be an object: the CLI exits on anything else."""
    system_prompt: str | list[str] | None = None
    append_system_prompt: str | None = None
    append_subagent_system_prompt: str | None = None
    system_prompt_snapshot: bool | None = None
    plan_mode_instructions: str | None = None
    tool_aliases: dict[str, str] | None = None
    exclude_dynamic_sections: bool | None = None
    title: str | None = None
    skills: list[str] | None = None
    prompt_suggestions: bool | None = None
    agent_progress_summaries: bool | None = None
    forward_subagent_text: bool | None = None
    forward_nested_subagent_tool_calls: bool | None = None
    supported_dialog_kinds: list[str] | None = None
    per_task_stop_affordance: bool | None = None
    plugins: list[JSONObject] | None = None
    """Requires `--await-initialize`."""
    mcp_servers: dict[str, JSONObject] | None = None
    """Requires `--await-initialize`."""
    managed_settings: JSONObject | None = None
    settings: JSONObject | None = None
    disallowed_tools: list[str] | None = None
    workspace_trust: JSONObject | None = None


class InterruptRequest(WireModel):
    """Stop the running turn and all background agents. Background shells continue."""

    subtype: ClassVar[Literal["interrupt"]] = "interrupt"
    cancel_queued: bool | None = None
    """Also drop the queued prompts."""
    reason: str | None = None
    send_now: bool | None = None
    message_uuid: str | None = None
    for_user_message_uuids: list[str] | None = None
    spare_background_tasks: bool | None = None


class EndSessionRequest(WireModel):
    """End the session and its process."""

    subtype: ClassVar[Literal["end_session"]] = "end_session"


class RenameSessionRequest(WireModel):
    """Change the title of a session."""

    subtype: ClassVar[Literal["rename_session"]] = "rename_session"
    title: str
    source: Open[Literal["remote", "host"]] | None = None
    session_id: str | None = None


class SetColorRequest(WireModel):
    """Change the color of the session."""

    subtype: ClassVar[Literal["set_color"]] = "set_color"
    color: str


class SetHasSubscribersRequest(WireModel):
    """Tell the CLI whether the stream has a viewer."""

    subtype: ClassVar[Literal["set_has_subscribers"]] = "set_has_subscribers"
    has_subscribers: bool | None


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


class ClaimSessionRequest(DiscreetModel):
    """Assign a spare process to a session."""

    HIDDEN: ClassVar[tuple[str, ...]] = (
        "env",
        "agents",
    )

    subtype: ClassVar[Literal["claim_session"]] = "claim_session"
    cwd: str
    env: dict[str, str] | None = None
    additional_directories: list[str] | None = None
    permission_mode: PermissionMode | None = None
    system_prompt: list[str] | None = None
    append_system_prompt: str | None = None
    agents: dict[str, JSONObject] | None = None
    title: str | None = None
    sdk_mcp_servers: list[str] | None = None
    include_initialize: bool | None = None
    workspace_trust: JSONObject | None = None


# Tasks ----------------------------------------------------------------------------------------------------------------


class StopTaskRequest(WireModel):
    """Stop a task. Succeeds even if the task is finished or unknown."""

    subtype: ClassVar[Literal["stop_task"]] = "stop_task"
    task_id: str


class BackgroundTasksRequest(WireModel):
    """Move a tool call, or all of them, to the background."""

    subtype: ClassVar[Literal["background_tasks"]] = "background_tasks"
    tool_use_id: str | None = None


class GetTaskOutputRequest(WireModel):
    """Read the end of the output of a shell or monitor; not supported for agents."""

    subtype: ClassVar[Literal["get_task_output"]] = "get_task_output"
    task_id: str


class StartShellTaskRequest(DiscreetModel):
    """Start a shell command as a task (cloud sessions only)."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("env",)

    subtype: ClassVar[Literal["start_shell_task"]] = "start_shell_task"
    command: str
    args: list[str] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    timeout_ms: Number | None = None
    description: str | None = None


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
    live_reply: bool | None = None


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
    live_reply: bool | None = None


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


class ListDirectoryRequest(WireModel):
    """List a directory on the machine of the CLI."""

    subtype: ClassVar[Literal["list_directory"]] = "list_directory"
    path: str


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


class ReloadConnectorsRequest(WireModel):
    """Reload the connectors."""

    subtype: ClassVar[Literal["reload_connectors"]] = "reload_connectors"


# Union ----------------------------------------------------------------------------------------------------------------

RequestToCLI: TypeAlias = (
    MCPMessageRequest
    | InitializeRequest
    | InterruptRequest
    | EndSessionRequest
    | RenameSessionRequest
    | SetColorRequest
    | SetHasSubscribersRequest
    | CancelAsyncMessageRequest
    | RewindFilesRequest
    | SideQuestionRequest
    | GenerateSessionTitleRequest
    | ExportConversationRequest
    | ClaimSessionRequest
    | StopTaskRequest
    | BackgroundTasksRequest
    | GetTaskOutputRequest
    | StartShellTaskRequest
    | SetModelRequest
    | SetPermissionModeRequest
    | SetMaxThinkingTokensRequest
    | ListModelsRequest
    | ListPermissionRulesRequest
    | ApplyFlagSettingsRequest
    | GetSettingsRequest
    | UpdateSettingsRequest
    | GetHooksListingRequest
    | SetMCPPermissionModeOverrideRequest
    | GetContextUsageRequest
    | GetSessionCostRequest
    | GetUsageRequest
    | GetBinaryVersionRequest
    | GetStatusRequest
    | GetPlanRequest
    | GetWorkspaceDiffRequest
    | MCPStatusRequest
    | MCPSetServersRequest
    | MCPReconnectRequest
    | MCPToggleRequest
    | MCPCallRequest
    | MCPReadResourceRequest
    | MCPAuthenticateRequest
    | MCPOAuthCallbackURLRequest
    | MCPClearAuthRequest
    | ReadFileRequest
    | ListDirectoryRequest
    | FileSuggestionsRequest
    | SeedReadStateRequest
    | RegisterRepoRootRequest
    | SetCwdRequest
    | ReloadPluginsRequest
    | ReloadSkillsRequest
    | ReloadOutputStylesRequest
    | ReloadConnectorsRequest
)
"""The body of a control request to the CLI."""

_OURS: Final = frozenset(model.subtype for model in get_args(RequestToCLI)) - {MCPMessageRequest.subtype}


class ControlRequestToCLI(ControlRequest):
    """A control request from the SDK, as the CLI reads it."""

    request: RequestToCLI | UnknownControlRequest  # type: ignore[assignment]


def is_ours(body: Any) -> bool:
    """Return whether the body of a request is one that the SDK sends."""
    subtype = body.get("subtype") if isinstance(body, dict) else None
    return isinstance(subtype, str) and subtype in _OURS
