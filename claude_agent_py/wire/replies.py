"""What the CLI answers: the payloads of successful control responses.

Owns one model per answer. Requests that are not named here are answered with
nothing, or with something of no fixed shape. Knows neither the requests (`requests`) nor the frame (`control`). The
first answer of a session is in `initialize`: it is the only one that every session needs.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Number, Open, WireModel
from claude_agent_py.wire.catalog import (
    AgentInfo,
    EffortLevel,
    MCPServerStatus,
    ModelInfo,
    PluginInfo,
    SettingsError,
    SlashCommand,
)
from claude_agent_py.wire.initialize import InitializeReply
from claude_agent_py.wire.modes import PermissionMode
from claude_agent_py.wire.usage import Usage
from claude_agent_py.wire.usage_reports import ExtraUsage, SessionUsage

# The session ----------------------------------------------------------------------------------------------------------


class InterruptReply(FrameModel):
    """What an interrupt left."""

    still_queued: list[str] = field(default_factory=list)
    """Prompts, by uuid, that wait and will run now. Those sent without a uuid are not named."""
    cancelled: list[str] | None = None
    """Prompts, by uuid, that were dropped."""
    put_back: list[str] | None = None
    turn: Open[Literal["stopped", "idle", "spared"]] | None = None


class CancelAsyncMessageReply(FrameModel):
    """Whether the prompt was still in the queue."""

    cancelled: bool
    message_uuid: str | None = None


class RewindFilesReply(FrameModel, rename="camel"):
    """What a rewind did, or (`dry_run`) would do."""

    can_rewind: bool
    error: str | None = None
    files_changed: list[str] | None = None
    insertions: Number | None = None
    deletions: Number | None = None
    skipped_links: Number | None = None


class SideQuestionReply(FrameModel):
    """The answer to a side question."""

    response: str | None = None
    synthetic: bool | None = None


class GenerateSessionTitleReply(FrameModel):
    """The title that the model found; None when it was not asked."""

    title: str | None = None


class ExportConversationReply(FrameModel):
    """The conversation as text."""

    text: str
    default_filename: str = ""


# Tasks ----------------------------------------------------------------------------------------------------------------


class BackgroundTasksReply(FrameModel):
    """Whether the tool call was moved; None when all were asked for."""

    backgrounded: bool | None = None


class GetTaskOutputReply(FrameModel):
    """The end of a task's output, 8 KiB at most."""

    output: str
    total_bytes: Number = 0
    truncated: bool = False


class StartShellTaskReply(FrameModel):
    """The task that was started, or why none was."""

    status: Open[Literal["started", "denied"]]
    task_id: str | None = None
    message: str | None = None


# Model, permissions, settings -----------------------------------------------------------------------------------------


class SetModelReply(FrameModel):
    """The model that is used now."""

    model: str | None = None


class SetPermissionModeReply(FrameModel):
    """The mode that applies now."""

    mode: PermissionMode | None = None


class ListModelsReply(FrameModel):
    """The models that can be chosen."""

    models: list[ModelInfo]


class PermissionRuleDescription(WireModel):
    """A rule in words."""

    prefix: str
    emphasis: str | None = None
    suffix: str | None = None


class PermissionRuleEntry(CamelModel):
    """A permission rule and where it comes from."""

    behavior: Open[Literal["allow", "deny", "ask"]]
    source: str = ""
    rule: str = ""
    description: PermissionRuleDescription | None = None
    editability: Open[Literal["persistent", "session", "readonly"]] | None = None
    not_in_effect: bool | None = None


class WorkspaceDirectory(WireModel):
    """A folder that the session may use."""

    path: str
    source: str = ""


class PermissionRulesState(FrameModel, rename="camel"):
    """All permission rules."""

    rules: list[PermissionRuleEntry] = field(default_factory=list)
    workspace_directories: list[WorkspaceDirectory] = field(default_factory=list)
    original_cwd: str = ""
    managed_only: bool = False
    errors: list[SettingsError] | None = None
    withheld: bool | None = None


class ListPermissionRulesReply(FrameModel):
    """All permission rules."""

    state: PermissionRulesState


class SettingsOfSource(WireModel):
    """The settings of one source."""

    source: str
    settings: JSONObject = field(default_factory=dict)


class AppliedSettings(WireModel):
    """What became of the settings."""

    model: str = ""
    effort: EffortLevel | None = None
    advisor: str | None = None


class GetSettingsReply(FrameModel):
    """The settings that apply, and where they come from."""

    effective: JSONObject = field(default_factory=dict)
    sources: list[SettingsOfSource] = field(default_factory=list)
    applied: AppliedSettings | None = None
    errors: list[SettingsError] | None = None
    withheld: bool | None = None


class HookEventInfo(CamelModel):
    """An event that hooks can have."""

    name: str
    summary: str = ""
    supports_matcher: bool | None = None
    hook_count: Number | None = None


class HookListing(CamelModel):
    """A hook of the settings."""

    event: str
    matcher: str | None = None
    source: str = ""
    source_label: str | None = None
    plugin_name: str | None = None
    type: str = ""
    display_text: str = ""
    command_text: str = ""
    condition: str | None = None
    timeout: Number | None = None
    """Seconds."""
    disabled: bool | None = None


class HooksPolicy(CamelModel):
    """What an organisation says about hooks."""

    disabled_by_policy: bool = False
    managed_only: bool = False
    plugin_only: bool = False
    all_disabled: bool = False
    policy_hook_count: Number = 0


class GetHooksListingReply(FrameModel, rename="camel"):
    """The hooks of the settings. Those of this library are not among them."""

    events: list[HookEventInfo] = field(default_factory=list)
    hooks: list[HookListing] = field(default_factory=list)
    event_catalog: list[HookEventInfo] = field(default_factory=list)
    policy: HooksPolicy | None = None
    errors: list[SettingsError] | None = None


# Facts ----------------------------------------------------------------------------------------------------------------


class ContextUsageCategory(CamelModel):
    """One part of the context window."""

    id: str | None = None
    name: str
    tokens: Number = 0
    color: str = ""
    kind: Open[Literal["used", "free", "buffer", "deferred"]] | None = None
    is_deferred: bool | None = None


class GridSquare(CamelModel):
    """One square of the picture that `/context` draws."""

    color: str = ""
    is_filled: bool = False
    category_name: str = ""
    tokens: Number = 0
    percentage: Number = 0
    square_fullness: Number = 0


class NamedTokens(CamelModel):
    """Something, by name, and its tokens."""

    name: str
    tokens: Number = 0
    is_loaded: bool | None = None


class MCPToolTokens(CamelModel):
    """An MCP tool and its tokens."""

    name: str
    server_name: str = ""
    tokens: Number = 0
    is_loaded: bool | None = None


class MCPInstructionTokens(CamelModel):
    """The instructions of an MCP server and their tokens."""

    server_name: str
    tokens: Number = 0


class MemoryFileTokens(CamelModel):
    """A memory file and its tokens."""

    path: str
    type: str = ""
    tokens: Number = 0


class AgentTokens(CamelModel):
    """An agent definition and its tokens."""

    agent_type: str
    source: str = ""
    plugin_id: str | None = None
    path: str | None = None
    tokens: Number = 0


class SlashCommandTokens(CamelModel):
    """The slash commands and their tokens."""

    total_commands: Number = 0
    included_commands: Number = 0
    tokens: Number = 0


class SkillTokens(CamelModel):
    """A skill and its tokens."""

    name: str
    source: str = ""
    plugin_name: str | None = None
    plugin_id: str | None = None
    path: str | None = None
    tokens: Number = 0


class SkillsTokens(CamelModel):
    """The skills and their tokens."""

    total_skills: Number = 0
    included_skills: Number = 0
    tokens: Number = 0
    skill_frontmatter: list[SkillTokens] = field(default_factory=list)


class ToolCallTokens(CamelModel):
    """The calls of one tool and their tokens."""

    name: str
    call_tokens: Number = 0
    result_tokens: Number = 0


class MessageBreakdown(CamelModel):
    """What the tokens of the messages went to."""

    tool_call_tokens: Number = 0
    tool_result_tokens: Number = 0
    attachment_tokens: Number = 0
    assistant_message_tokens: Number = 0
    user_message_tokens: Number = 0
    redirected_context_tokens: Number = 0
    unattributed_tokens: Number = 0
    tool_calls_by_type: list[ToolCallTokens] = field(default_factory=list)
    attachments_by_type: list[NamedTokens] = field(default_factory=list)


class ContextUsageReply(FrameModel, rename="camel"):
    """How full the context window is, in detail."""

    model: str = ""
    total_tokens: Number = 0
    max_tokens: Number = 0
    raw_max_tokens: Number = 0
    percentage: Number = 0
    """0 to 100."""
    categories: list[ContextUsageCategory] = field(default_factory=list)
    grid_rows: list[list[GridSquare]] = field(default_factory=list)
    memory_files: list[MemoryFileTokens] = field(default_factory=list)
    mcp_tools: list[MCPToolTokens] = field(default_factory=list)
    mcp_instructions: list[MCPInstructionTokens] | None = None
    deferred_builtin_tools: list[NamedTokens] | None = None
    system_tools: list[NamedTokens] | None = None
    system_prompt_sections: list[NamedTokens] | None = None
    agents: list[AgentTokens] = field(default_factory=list)
    slash_commands: SlashCommandTokens | None = None
    skills: SkillsTokens | None = None
    auto_compact_threshold: Number | None = None
    is_auto_compact_enabled: bool | None = None
    message_breakdown: MessageBreakdown | None = None
    api_usage: Usage | None = None


class GetSessionCostReply(FrameModel):
    """What the session cost, as text for people."""

    text: str


class UsageWindow(WireModel):
    """One window of a subscription's limits."""

    utilization: Number | None = None
    """0 to 100."""
    resets_at: str | None = None
    """ISO 8601."""


class ModelUsageWindow(WireModel):
    """A limit of one model."""

    display_name: str
    utilization: Number | None = None
    resets_at: str | None = None


class SubscriptionLimits(WireModel):
    """Where a subscription stands with its limits."""

    five_hour: UsageWindow | None = None
    seven_day: UsageWindow | None = None
    seven_day_oauth_apps: UsageWindow | None = None
    seven_day_opus: UsageWindow | None = None
    seven_day_sonnet: UsageWindow | None = None
    model_scoped: list[ModelUsageWindow] | None = None
    extra_usage: ExtraUsage | None = None


class GetUsageReply(FrameModel):
    """What the session cost, and where the subscription stands."""

    session: SessionUsage
    subscription_type: str | None = None
    rate_limits_available: bool = False
    rate_limits: SubscriptionLimits | None = None
    behaviors: JSONObject | None = None
    """What the tokens of the last day and week went to."""


class GetBinaryVersionReply(FrameModel, rename="camel"):
    """Which version of the CLI this is."""

    version: str
    build_time: str | None = None


class StatusRow(WireModel):
    """A line of `/status`."""

    value: str
    label: str | None = None


class StatusSection(WireModel):
    """A section of `/status`."""

    title: str
    rows: list[StatusRow] = field(default_factory=list)


class GetStatusReply(FrameModel):
    """What `/status` shows."""

    sections: list[StatusSection]


class GetPlanReply(FrameModel):
    """The plan that the agent wrote."""

    exists: bool
    content: str | None = None
    path: str | None = None


# MCP servers ----------------------------------------------------------------------------------------------------------


class MCPStatusReply(FrameModel, rename="camel"):
    """How the MCP servers are."""

    mcp_servers: list[MCPServerStatus]


class MCPSetServersReply(FrameModel):
    """What became of the servers."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    """By server."""


class MCPCallReply(FrameModel, rename="camel"):
    """What the tool gave."""

    content: Any = None
    structured_content: JSONObject | None = None
    meta: JSONObject | None = field(default=None, name="_meta")
    staging: JSONObject | None = None


class MCPResourceContent(CamelModel):
    """A part of a resource."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    """Base64."""
    meta: JSONObject | None = field(default=None, name="_meta")


class MCPReadResourceReply(FrameModel):
    """A resource of an MCP server."""

    contents: list[MCPResourceContent]


# Files, plugins, skills -----------------------------------------------------------------------------------------------


class ReadFileReply(FrameModel, rename="camel"):
    """A file, or its head."""

    contents: str
    abs_path: str = ""
    truncated: bool | None = None
    encoding: Open[Literal["base64"]] | None = None
    lossy: bool | None = None
    """Some bytes were no UTF-8."""


class DirectoryEntry(CamelModel):
    """A file or folder."""

    name: str
    is_directory: bool = False
    is_symlink: bool | None = None


class ListDirectoryReply(FrameModel, rename="camel"):
    """What is in a folder."""

    abs_path: str = ""
    entries: list[DirectoryEntry]
    truncated: bool = False


class FileSuggestion(WireModel):
    """A path that fits."""

    path: str
    score: Number | None = None


class FileSuggestionsReply(FrameModel):
    """Paths that fit."""

    suggestions: list[FileSuggestion]
    cwd: str | None = None


class RegisterRepoRootReply(FrameModel):
    """The folder that was added."""

    directory: str


class SetCwdReply(FrameModel):
    """Whether the working folder was changed."""

    status: Open[Literal["ok", "needs_trust", "rejected"]]
    cwd: str | None = None
    changed: bool | None = None
    transcript_relocated: bool | None = None
    directory: str | None = None
    trust_root: str | None = None
    reason: str | None = None
    message: str | None = None


class CacheImpact(WireModel):
    """What a reload of the plugins would cost."""

    mcp_servers_added: list[str] = field(default_factory=list)
    mcp_servers_removed: list[str] = field(default_factory=list)
    lsp_tool_change: Open[Literal["adds", "may-add", "removes", "may-remove"]] | None = None


class ReloadPluginsReply(FrameModel):
    """What is there after the reload."""

    commands: list[SlashCommand] = field(default_factory=list)
    agents: list[AgentInfo] = field(default_factory=list)
    plugins: list[PluginInfo] = field(default_factory=list)
    mcp_servers: list[MCPServerStatus] = field(default_factory=list, name="mcpServers")
    error_count: Number = 0
    held: bool | None = None
    """Nothing was reloaded, because it would have cost the prompt cache."""
    cache_impact: CacheImpact | None = None


class ReloadSkillsReply(FrameModel):
    """The skills after the reload."""

    skills: list[SlashCommand]


class ReloadOutputStylesReply(FrameModel):
    """The output styles after the reload."""

    available_output_styles: list[str]


# Which answer belongs to which request --------------------------------------------------------------------------------

REPLIES: Final[Mapping[str, type[FrameModel]]] = {
    "initialize": InitializeReply,
    "interrupt": InterruptReply,
    "cancel_async_message": CancelAsyncMessageReply,
    "rewind_files": RewindFilesReply,
    "side_question": SideQuestionReply,
    "generate_session_title": GenerateSessionTitleReply,
    "export_conversation": ExportConversationReply,
    "background_tasks": BackgroundTasksReply,
    "get_task_output": GetTaskOutputReply,
    "start_shell_task": StartShellTaskReply,
    "set_model": SetModelReply,
    "set_permission_mode": SetPermissionModeReply,
    "list_models": ListModelsReply,
    "list_permission_rules": ListPermissionRulesReply,
    "get_settings": GetSettingsReply,
    "get_hooks_listing": GetHooksListingReply,
    "get_context_usage": ContextUsageReply,
    "get_session_cost": GetSessionCostReply,
    "get_usage": GetUsageReply,
    "get_binary_version": GetBinaryVersionReply,
    "get_status": GetStatusReply,
    "get_plan": GetPlanReply,
    "mcp_status": MCPStatusReply,
    "mcp_set_servers": MCPSetServersReply,
    "mcp_call": MCPCallReply,
    "mcp_read_resource": MCPReadResourceReply,
    "read_file": ReadFileReply,
    "list_directory": ListDirectoryReply,
    "file_suggestions": FileSuggestionsReply,
    "register_repo_root": RegisterRepoRootReply,
    "set_cwd": SetCwdReply,
    "reload_plugins": ReloadPluginsReply,
    "reload_skills": ReloadSkillsReply,
    "reload_output_styles": ReloadOutputStylesReply,
}
