"""What we ask the CLI: the bodies of control requests from us to it.

Owns one model per request. Knows neither the frame around them (`control`) nor the answers (`replies`), nor who sends
them. The twin of `asks`, which has the other direction.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from claude_agent_py.wire.base import CamelModel, JSONObject, Number, TaggedModel
from claude_agent_py.wire.modes import PermissionMode


class CamelRequest(TaggedModel):
    """A request whose fields are camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel)


# The session ----------------------------------------------------------------------------------------------------------


class HookCallbackMatcher(CamelModel):
    """Which calls of an event go to which callbacks of ours."""

    matcher: str | None = None
    hook_callback_ids: list[str]
    timeout: Number | None = None
    """Seconds. Without one, the CLI waits as long as it takes."""
    on_failure: Literal["continue", "block"] | str | None = None
    """What happens to the call when the callback fails."""


class InitializeRequest(CamelRequest):
    """The first request of a session: everything that is not a flag."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "initialize"}

    subtype: Literal["initialize"] = "initialize"
    hooks: dict[str, list[HookCallbackMatcher]] | None = None
    """By event."""
    agents: dict[str, JSONObject] | None = Field(default=None, repr=False)
    """By name. One invalid definition makes the CLI drop all of them, silently."""
    sdk_mcp_servers: list[str] | None = None
    sdk_mcp_server_configs: dict[str, JSONObject] | None = Field(default=None, repr=False)
    sdk_mcp_server_manifests: dict[str, JSONObject] | None = None
    sdk_mcp_server_manifests_origin: Literal["host_per_send"] | str | None = None
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
    mcp_servers: dict[str, JSONObject] | None = Field(default=None, repr=False)
    """Only read with `--await-initialize`."""
    managed_settings: JSONObject | None = Field(default=None, repr=False)
    settings: JSONObject | None = Field(default=None, repr=False)
    disallowed_tools: list[str] | None = None
    workspace_trust: JSONObject | None = None


class InterruptRequest(TaggedModel):
    """Stop the running turn, and all background agents with it; shells go on."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "interrupt"}

    subtype: Literal["interrupt"] = "interrupt"
    cancel_queued: bool | None = None
    """Drop the prompts that wait, too."""
    reason: str | None = None
    send_now: bool | None = None
    message_uuid: str | None = None
    for_user_message_uuids: list[str] | None = None
    spare_background_tasks: bool | None = None


class EndSessionRequest(TaggedModel):
    """End the process."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "end_session"}

    subtype: Literal["end_session"] = "end_session"


class RenameSessionRequest(TaggedModel):
    """Give a session a title."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "rename_session"}

    subtype: Literal["rename_session"] = "rename_session"
    title: str
    source: Literal["remote", "host"] | str | None = None
    session_id: str | None = None


class SetColorRequest(TaggedModel):
    """Give the session a colour."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "set_color"}

    subtype: Literal["set_color"] = "set_color"
    color: str


class SetHasSubscribersRequest(TaggedModel):
    """Say whether somebody is looking at the stream."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "set_has_subscribers"}

    subtype: Literal["set_has_subscribers"] = "set_has_subscribers"
    has_subscribers: bool | None


class CancelAsyncMessageRequest(TaggedModel):
    """Take a prompt out of the queue."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "cancel_async_message"}

    subtype: Literal["cancel_async_message"] = "cancel_async_message"
    message_uuid: str


class RewindFilesRequest(TaggedModel):
    """Put files back to where they were at a prompt."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "rewind_files"}

    subtype: Literal["rewind_files"] = "rewind_files"
    user_message_id: str
    """The uuid that the prompt was sent with."""
    dry_run: bool | None = None


class SideQuestionRequest(TaggedModel):
    """Ask the model something beside the conversation."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "side_question"}

    subtype: Literal["side_question"] = "side_question"
    question: str
    history: list[JSONObject] | None = None


class GenerateSessionTitleRequest(TaggedModel):
    """Let the model find a title."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "generate_session_title"}

    subtype: Literal["generate_session_title"] = "generate_session_title"
    description: str
    persist: bool | None = None


class ExportConversationRequest(TaggedModel):
    """Get the conversation as text."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "export_conversation"}

    subtype: Literal["export_conversation"] = "export_conversation"


class ClaimSessionRequest(TaggedModel):
    """Make a spare process the process of a session."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "claim_session"}

    subtype: Literal["claim_session"] = "claim_session"
    cwd: str
    env: dict[str, str] | None = Field(default=None, repr=False)
    additional_directories: list[str] | None = None
    permission_mode: PermissionMode | None = None
    system_prompt: list[str] | None = None
    append_system_prompt: str | None = None
    agents: dict[str, JSONObject] | None = Field(default=None, repr=False)
    title: str | None = None
    sdk_mcp_servers: list[str] | None = None
    include_initialize: bool | None = None
    workspace_trust: JSONObject | None = None


# Tasks ----------------------------------------------------------------------------------------------------------------


class StopTaskRequest(TaggedModel):
    """Stop a task. One that is over or unknown is no error."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "stop_task"}

    subtype: Literal["stop_task"] = "stop_task"
    task_id: str


class BackgroundTasksRequest(TaggedModel):
    """Move foreground work to the background: one tool call, or all."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "background_tasks"}

    subtype: Literal["background_tasks"] = "background_tasks"
    tool_use_id: str | None = None


class GetTaskOutputRequest(TaggedModel):
    """Read the end of a shell's or monitor's output. Agents are refused."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_task_output"}

    subtype: Literal["get_task_output"] = "get_task_output"
    task_id: str


class StartShellTaskRequest(TaggedModel):
    """Start a shell command as a task (cloud sessions)."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "start_shell_task"}

    subtype: Literal["start_shell_task"] = "start_shell_task"
    command: str
    args: list[str] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = Field(default=None, repr=False)
    timeout_ms: Number | None = None
    description: str | None = None


# Model, permissions, settings -----------------------------------------------------------------------------------------


class SetModelRequest(TaggedModel):
    """Use another model from the next turn on; None for the default."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "set_model"}

    subtype: Literal["set_model"] = "set_model"
    model: str | None = None


class SetPermissionModeRequest(TaggedModel):
    """Change the permission mode."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "set_permission_mode"}

    subtype: Literal["set_permission_mode"] = "set_permission_mode"
    mode: PermissionMode


class SetMaxThinkingTokensRequest(TaggedModel):
    """Change how much the model may think."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "set_max_thinking_tokens"}

    subtype: Literal["set_max_thinking_tokens"] = "set_max_thinking_tokens"
    max_thinking_tokens: Number | None = None
    thinking_display: Literal["summarized", "omitted", "highlights"] | str | None = None


class ListModelsRequest(TaggedModel):
    """Which models can be chosen."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "list_models"}

    subtype: Literal["list_models"] = "list_models"


class ListPermissionRulesRequest(TaggedModel):
    """Which permission rules apply."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "list_permission_rules"}

    subtype: Literal["list_permission_rules"] = "list_permission_rules"


class ApplyFlagSettingsRequest(TaggedModel):
    """Change settings for this session only."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "apply_flag_settings"}

    subtype: Literal["apply_flag_settings"] = "apply_flag_settings"
    settings: JSONObject = Field(repr=False)


class GetSettingsRequest(TaggedModel):
    """Which settings apply, and where they come from."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_settings"}

    subtype: Literal["get_settings"] = "get_settings"


class UpdateSettingsRequest(TaggedModel):
    """Change a settings file."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "update_settings"}

    subtype: Literal["update_settings"] = "update_settings"
    source: Literal["localSettings", "userSettings"] | str
    settings: JSONObject = Field(repr=False)


class GetHooksListingRequest(TaggedModel):
    """Which hooks the settings have."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_hooks_listing"}

    subtype: Literal["get_hooks_listing"] = "get_hooks_listing"


class SetMCPPermissionModeOverrideRequest(CamelRequest):
    """Use another permission mode for one MCP server."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "set_mcp_permission_mode_override"}

    subtype: Literal["set_mcp_permission_mode_override"] = "set_mcp_permission_mode_override"
    server_name: str
    mode: PermissionMode | None
    ask_for_tools: list[JSONObject] | None = None


# Facts ----------------------------------------------------------------------------------------------------------------


class GetContextUsageRequest(TaggedModel):
    """How full the context window is."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_context_usage"}

    subtype: Literal["get_context_usage"] = "get_context_usage"
    detail: Literal["summary", "full"] | str | None = None


class GetSessionCostRequest(TaggedModel):
    """What the session cost, as text."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_session_cost"}

    subtype: Literal["get_session_cost"] = "get_session_cost"


class GetUsageRequest(TaggedModel):
    """What the session cost, and where the subscription stands."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_usage"}

    subtype: Literal["get_usage"] = "get_usage"
    skip_behaviors: bool | None = None


class GetBinaryVersionRequest(TaggedModel):
    """Which version of the CLI this is."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_binary_version"}

    subtype: Literal["get_binary_version"] = "get_binary_version"


class GetStatusRequest(TaggedModel):
    """What `/status` shows."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_status"}

    subtype: Literal["get_status"] = "get_status"


class GetPlanRequest(TaggedModel):
    """The plan that the agent wrote."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_plan"}

    subtype: Literal["get_plan"] = "get_plan"


class GetWorkspaceDiffRequest(TaggedModel):
    """What changed in the working folder."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "get_workspace_diff"}

    subtype: Literal["get_workspace_diff"] = "get_workspace_diff"


# MCP servers ----------------------------------------------------------------------------------------------------------


class MCPStatusRequest(CamelRequest):
    """How the MCP servers are."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "mcp_status"}

    subtype: Literal["mcp_status"] = "mcp_status"
    live_reply: bool | None = None


class MCPSetServersRequest(TaggedModel):
    """Replace the MCP servers that the session was given, those declared at its start included."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "mcp_set_servers"}

    subtype: Literal["mcp_set_servers"] = "mcp_set_servers"
    servers: dict[str, JSONObject] = Field(repr=False)


class MCPReconnectRequest(CamelRequest):
    """Connect an MCP server again."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "mcp_reconnect"}

    subtype: Literal["mcp_reconnect"] = "mcp_reconnect"
    server_name: str


class MCPToggleRequest(CamelRequest):
    """Switch an MCP server on or off."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "mcp_toggle"}

    subtype: Literal["mcp_toggle"] = "mcp_toggle"
    server_name: str
    enabled: bool


class MCPCallRequest(TaggedModel):
    """Call a tool of an MCP server without the model."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "mcp_call"}

    subtype: Literal["mcp_call"] = "mcp_call"
    tool: str
    """The full name: `mcp__server__tool`."""
    arguments: JSONObject | None = None
    expires_at: str | None = None
    timeout_ms: Number | None = None
    result_not_for_model: bool | None = None
    check_permissions: bool | None = None
    input_files: list[JSONObject] | None = None
    output_files: list[JSONObject] | None = None


class MCPReadResourceRequest(CamelRequest):
    """Read a `ui://` resource of an MCP server."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "mcp_read_resource"}

    subtype: Literal["mcp_read_resource"] = "mcp_read_resource"
    server_name: str
    uri: str


class MCPAuthenticateRequest(CamelRequest):
    """Log in to an MCP server."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "mcp_authenticate"}

    subtype: Literal["mcp_authenticate"] = "mcp_authenticate"
    server_name: str


# Files, plugins, skills -----------------------------------------------------------------------------------------------


class ReadFileRequest(TaggedModel):
    """Read a file where the CLI runs."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "read_file"}

    subtype: Literal["read_file"] = "read_file"
    path: str
    max_bytes: Number | None = None
    encoding: Literal["utf-8", "base64"] | str | None = None


class ListDirectoryRequest(TaggedModel):
    """List a folder where the CLI runs."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "list_directory"}

    subtype: Literal["list_directory"] = "list_directory"
    path: str


class FileSuggestionsRequest(TaggedModel):
    """Complete a path."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "file_suggestions"}

    subtype: Literal["file_suggestions"] = "file_suggestions"
    query: str


class SeedReadStateRequest(TaggedModel):
    """Tell the CLI that the model knows a file."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "seed_read_state"}

    subtype: Literal["seed_read_state"] = "seed_read_state"
    path: str
    mtime: Number
    """Milliseconds since the epoch."""


class RegisterRepoRootRequest(TaggedModel):
    """Add a folder to the session."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "register_repo_root"}

    subtype: Literal["register_repo_root"] = "register_repo_root"
    directory: str
    reload_claude_md: bool | None = None
    reload_plugins: bool | None = None
    reload_skills: bool | None = None


class SetCwdRequest(TaggedModel):
    """Change the working folder."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "set_cwd"}

    subtype: Literal["set_cwd"] = "set_cwd"
    path: str
    trust_accepted: bool | None = None
    trusted_directory: str | None = None


class ReloadPluginsRequest(TaggedModel):
    """Read the plugins again."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "reload_plugins"}

    subtype: Literal["reload_plugins"] = "reload_plugins"
    hold_on_cache_impact: bool | None = None
    add_plugins: list[JSONObject] | None = None
    refuse_if_busy: bool | None = None


class ReloadSkillsRequest(TaggedModel):
    """Read the skills again."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "reload_skills"}

    subtype: Literal["reload_skills"] = "reload_skills"


class ReloadOutputStylesRequest(TaggedModel):
    """Read the output styles again."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "reload_output_styles"}

    subtype: Literal["reload_output_styles"] = "reload_output_styles"


class ReloadConnectorsRequest(TaggedModel):
    """Read the connectors again."""

    TAGS: ClassVar[Mapping[str, Any]] = {"subtype": "reload_connectors"}

    subtype: Literal["reload_connectors"] = "reload_connectors"
