"""What we ask the CLI: the bodies of control requests from us to it.

Owns one model per request. Knows neither the frame around them (`control`) nor the answers (`replies`), nor who sends
them. The twin of `asks`, which has the other direction.
"""

from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from msgspec import UNSET, UnsetType

from claude_agent_py.wire.asks import MCPMessageRequest
from claude_agent_py.wire.base import CamelModel, DiscreetModel, JSONObject, Number, Open, WireModel
from claude_agent_py.wire.control import ControlRequest, UnknownControlRequest
from claude_agent_py.wire.modes import PermissionMode

# The session ----------------------------------------------------------------------------------------------------------


class HookCallbackMatcher(CamelModel):
    """Which calls of an event go to which callbacks of ours."""

    matcher: str | None = None
    hook_callback_ids: list[str]
    timeout: Number | None = None
    """Seconds. Without one, the CLI waits as long as it takes."""
    on_failure: Open[Literal["continue", "block"]] | None = None
    """What happens to the call when the callback fails."""


class InitializeRequest(DiscreetModel, rename="camel"):
    """The first request of a session: everything that is not a flag."""

    HIDDEN: ClassVar[tuple[str, ...]] = (
        "agents",
        "sdk_mcp_server_configs",
        "mcp_servers",
        "managed_settings",
        "settings",
    )

    subtype: ClassVar[Literal["initialize"]] = "initialize"
    hooks: dict[str, list[HookCallbackMatcher]] | None = None
    """By event."""
    agents: dict[str, JSONObject] | None = None
    """By name. One invalid definition makes the CLI drop all of them, silently."""
    sdk_mcp_servers: list[str] | None = None
    sdk_mcp_server_configs: dict[str, JSONObject] | None = None
    sdk_mcp_server_manifests: dict[str, JSONObject] | None = None
    sdk_mcp_server_manifests_origin: Open[Literal["host_per_send"]] | None = None
    json_schema: JSONObject | None = None
    """Anything but an object ends the CLI."""
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
    """Only read with `--await-initialize`."""
    mcp_servers: dict[str, JSONObject] | None = None
    """Only read with `--await-initialize`."""
    managed_settings: JSONObject | None = None
    settings: JSONObject | None = None
    disallowed_tools: list[str] | None = None
    workspace_trust: JSONObject | None = None


class InterruptRequest(WireModel):
    """Stop the running turn, and all background agents with it; shells go on."""

    subtype: ClassVar[Literal["interrupt"]] = "interrupt"
    cancel_queued: bool | None = None
    """Drop the prompts that wait, too."""
    reason: str | None = None
    send_now: bool | None = None
    message_uuid: str | None = None
    for_user_message_uuids: list[str] | None = None
    spare_background_tasks: bool | None = None


class EndSessionRequest(WireModel):
    """End the process."""

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
    """Say whether somebody is looking at the stream."""

    subtype: ClassVar[Literal["set_has_subscribers"]] = "set_has_subscribers"
    has_subscribers: bool | None


class CancelAsyncMessageRequest(WireModel):
    """Take a prompt out of the queue."""

    subtype: ClassVar[Literal["cancel_async_message"]] = "cancel_async_message"
    message_uuid: str


class RewindFilesRequest(WireModel):
    """Put files back to where they were at a prompt."""

    subtype: ClassVar[Literal["rewind_files"]] = "rewind_files"
    user_message_id: str
    """The uuid that the prompt was sent with."""
    dry_run: bool | None = None


class SideQuestionRequest(WireModel):
    """Ask the model something beside the conversation."""

    subtype: ClassVar[Literal["side_question"]] = "side_question"
    question: str
    history: list[JSONObject] | None = None


class GenerateSessionTitleRequest(WireModel):
    """Let the model find a title."""

    subtype: ClassVar[Literal["generate_session_title"]] = "generate_session_title"
    description: str
    persist: bool | None = None


class ExportConversationRequest(WireModel):
    """Get the conversation as text."""

    subtype: ClassVar[Literal["export_conversation"]] = "export_conversation"


class ClaimSessionRequest(DiscreetModel):
    """Make a spare process the process of a session."""

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
    """Stop a task. Stopping one that is over or unknown succeeds."""

    subtype: ClassVar[Literal["stop_task"]] = "stop_task"
    task_id: str


class BackgroundTasksRequest(WireModel):
    """Move foreground work to the background: one tool call, or all."""

    subtype: ClassVar[Literal["background_tasks"]] = "background_tasks"
    tool_use_id: str | None = None


class GetTaskOutputRequest(WireModel):
    """Read the end of a shell's or monitor's output. Agents are refused."""

    subtype: ClassVar[Literal["get_task_output"]] = "get_task_output"
    task_id: str


class StartShellTaskRequest(DiscreetModel):
    """Start a shell command as a task (cloud sessions)."""

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
    """Use another model from the next turn on; None for the default."""

    subtype: ClassVar[Literal["set_model"]] = "set_model"
    model: str | UnsetType | None = UNSET


class SetPermissionModeRequest(WireModel):
    """Change the permission mode."""

    subtype: ClassVar[Literal["set_permission_mode"]] = "set_permission_mode"
    mode: PermissionMode


class SetMaxThinkingTokensRequest(WireModel):
    """Change how much the model may think."""

    subtype: ClassVar[Literal["set_max_thinking_tokens"]] = "set_max_thinking_tokens"
    max_thinking_tokens: Number | UnsetType | None = UNSET
    thinking_display: Open[Literal["summarized", "omitted", "highlights"]] | UnsetType | None = UNSET
    """None goes back to the default; without one it stays as it is."""


class ListModelsRequest(WireModel):
    """Which models can be chosen."""

    subtype: ClassVar[Literal["list_models"]] = "list_models"


class ListPermissionRulesRequest(WireModel):
    """Which permission rules apply."""

    subtype: ClassVar[Literal["list_permission_rules"]] = "list_permission_rules"


class ApplyFlagSettingsRequest(DiscreetModel):
    """Change settings for this session only."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("settings",)

    subtype: ClassVar[Literal["apply_flag_settings"]] = "apply_flag_settings"
    settings: JSONObject


class GetSettingsRequest(WireModel):
    """Which settings apply, and where they come from."""

    subtype: ClassVar[Literal["get_settings"]] = "get_settings"


class UpdateSettingsRequest(DiscreetModel):
    """Change a settings file."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("settings",)

    subtype: ClassVar[Literal["update_settings"]] = "update_settings"
    source: Open[Literal["localSettings", "userSettings"]]
    settings: JSONObject


class GetHooksListingRequest(WireModel):
    """Which hooks the settings have."""

    subtype: ClassVar[Literal["get_hooks_listing"]] = "get_hooks_listing"


class SetMCPPermissionModeOverrideRequest(CamelModel):
    """Use another permission mode for one MCP server."""

    subtype: ClassVar[Literal["set_mcp_permission_mode_override"]] = "set_mcp_permission_mode_override"
    server_name: str
    mode: PermissionMode | None
    ask_for_tools: list[JSONObject] | None = None


# Facts ----------------------------------------------------------------------------------------------------------------


class GetContextUsageRequest(WireModel):
    """How full the context window is."""

    subtype: ClassVar[Literal["get_context_usage"]] = "get_context_usage"
    detail: Open[Literal["summary", "full"]] | None = None


class GetSessionCostRequest(WireModel):
    """What the session cost, as text."""

    subtype: ClassVar[Literal["get_session_cost"]] = "get_session_cost"


class GetUsageRequest(WireModel):
    """What the session cost, and where the subscription stands."""

    subtype: ClassVar[Literal["get_usage"]] = "get_usage"
    skip_behaviors: bool | None = None


class GetBinaryVersionRequest(WireModel):
    """Which version of the CLI this is."""

    subtype: ClassVar[Literal["get_binary_version"]] = "get_binary_version"


class GetStatusRequest(WireModel):
    """What `/status` shows."""

    subtype: ClassVar[Literal["get_status"]] = "get_status"


class GetPlanRequest(WireModel):
    """The plan that the agent wrote."""

    subtype: ClassVar[Literal["get_plan"]] = "get_plan"


class GetWorkspaceDiffRequest(WireModel):
    """What changed in the working folder."""

    subtype: ClassVar[Literal["get_workspace_diff"]] = "get_workspace_diff"


# MCP servers ----------------------------------------------------------------------------------------------------------


class MCPStatusRequest(CamelModel):
    """How the MCP servers are."""

    subtype: ClassVar[Literal["mcp_status"]] = "mcp_status"
    live_reply: bool | None = None


class MCPSetServersRequest(DiscreetModel):
    """Replace the MCP servers that the session was given, those declared at its start included."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("servers",)

    subtype: ClassVar[Literal["mcp_set_servers"]] = "mcp_set_servers"
    servers: dict[str, JSONObject]


class MCPReconnectRequest(CamelModel):
    """Connect an MCP server again."""

    subtype: ClassVar[Literal["mcp_reconnect"]] = "mcp_reconnect"
    server_name: str


class MCPToggleRequest(CamelModel):
    """Switch an MCP server on or off."""

    subtype: ClassVar[Literal["mcp_toggle"]] = "mcp_toggle"
    server_name: str
    enabled: bool


class MCPCallRequest(WireModel):
    """Call a tool of an MCP server without the model."""

    subtype: ClassVar[Literal["mcp_call"]] = "mcp_call"
    tool: str
    """The full name: `mcp__server__tool`."""
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


# Files, plugins, skills -----------------------------------------------------------------------------------------------


class ReadFileRequest(WireModel):
    """Read a file where the CLI runs."""

    subtype: ClassVar[Literal["read_file"]] = "read_file"
    path: str
    max_bytes: Number | None = None
    encoding: Open[Literal["utf-8", "base64"]] | None = None


class ListDirectoryRequest(WireModel):
    """List a folder where the CLI runs."""

    subtype: ClassVar[Literal["list_directory"]] = "list_directory"
    path: str


class FileSuggestionsRequest(WireModel):
    """Complete a path."""

    subtype: ClassVar[Literal["file_suggestions"]] = "file_suggestions"
    query: str


class SeedReadStateRequest(WireModel):
    """Tell the CLI that the model knows a file."""

    subtype: ClassVar[Literal["seed_read_state"]] = "seed_read_state"
    path: str
    mtime: Number
    """Milliseconds since the epoch."""


class RegisterRepoRootRequest(WireModel):
    """Add a folder to the session."""

    subtype: ClassVar[Literal["register_repo_root"]] = "register_repo_root"
    directory: str
    reload_claude_md: bool | None = None
    reload_plugins: bool | None = None
    reload_skills: bool | None = None


class SetCwdRequest(WireModel):
    """Change the working folder."""

    subtype: ClassVar[Literal["set_cwd"]] = "set_cwd"
    path: str
    trust_accepted: bool | None = None
    trusted_directory: str | None = None


class ReloadPluginsRequest(WireModel):
    """Read the plugins again."""

    subtype: ClassVar[Literal["reload_plugins"]] = "reload_plugins"
    hold_on_cache_impact: bool | None = None
    add_plugins: list[JSONObject] | None = None
    refuse_if_busy: bool | None = None


class ReloadSkillsRequest(WireModel):
    """Read the skills again."""

    subtype: ClassVar[Literal["reload_skills"]] = "reload_skills"


class ReloadOutputStylesRequest(WireModel):
    """Read the output styles again."""

    subtype: ClassVar[Literal["reload_output_styles"]] = "reload_output_styles"


class ReloadConnectorsRequest(WireModel):
    """Read the connectors again."""

    subtype: ClassVar[Literal["reload_connectors"]] = "reload_connectors"


# All of them ----------------------------------------------------------------------------------------------------------

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
"""What this side asks the CLI."""

_OURS: Final = frozenset(model.subtype for model in get_args(RequestToCLI)) - {MCPMessageRequest.subtype}


class ControlRequestToCLI(ControlRequest):
    """A request of ours, as the CLI reads it."""

    request: RequestToCLI | UnknownControlRequest  # type: ignore[assignment]


def is_ours(body: Any) -> bool:
    """Return whether the body of a request is one of those that this side sends."""
    subtype = body.get("subtype") if isinstance(body, dict) else None
    return isinstance(subtype, str) and subtype in _OURS
