"""Payloads of the CLI's successful control responses.

Requests without a model here have no reply, or one without a fixed shape. The reply to `initialize` is in `initialize`.
"""

from typing import Any, ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, DiscreetModel, FrameModel, JSONObject, Number, Open, WireModel
from claude_agent_py.wire.messages.catalog import (
    AgentInfo,
    APIProvider,
    EffortLevel,
    MCPServerStatus,
    ModelInfo,
    PluginInfo,
    SettingsError,
    SlashCommand,
)
from claude_agent_py.wire.messages.modes import PermissionMode
from claude_agent_py.wire.messages.usage import ExtraUsage, SessionUsage, Usage

# The session ----------------------------------------------------------------------------------------------------------


class InterruptReply(FrameModel):
    """What happened to the queued prompts after an interrupt."""

    still_queued: list[str] = field(default_factory=list)
    """Uuids of queued prompts that will run next. Prompts sent without a uuid are not listed."""
    cancelled: list[str] | None = None
    """Uuids of prompts that were dropped."""
    put_back: list[str] | None = None
    turn: Open[Literal["stopped", "idle", "spared"]] | None = None


class CancelAsyncMessageReply(FrameModel):
    """Whether the prompt was still in the queue."""

    cancelled: bool
    message_uuid: str | None = None


class RewindFilesReply(FrameModel, rename="camel"):
    """The changes made by a rewind or, with `dry_run`, the changes it would make."""

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
    """The generated title; None if the model was not called."""

    title: str | None = None


class ExportConversationReply(FrameModel):
    """The conversation as text."""

    text: str
    default_filename: str = ""


# Model, permissions, settings -----------------------------------------------------------------------------------------


class SetModelReply(FrameModel):
    """The model in use."""

    model: str | None = None


class SetPermissionModeReply(FrameModel):
    """The permission mode in effect."""

    mode: PermissionMode | None = None


class ListModelsReply(FrameModel):
    """The available models."""

    models: list[ModelInfo]


class PermissionRuleDescription(WireModel):
    """A human-readable description of a rule."""

    prefix: str
    emphasis: str | None = None
    suffix: str | None = None


class PermissionRuleEntry(CamelModel):
    """A permission rule and its source."""

    behavior: Open[Literal["allow", "deny", "ask"]]
    source: str = ""
    rule: str = ""
    description: PermissionRuleDescription | None = None
    editability: Open[Literal["persistent", "session", "readonly"]] | None = None
    not_in_effect: bool | None = None


class WorkspaceDirectory(WireModel):
    """A directory that the session may use."""

    path: str
    source: str = ""


class PermissionRulesState(FrameModel, rename="camel"):
    """All permission rules and working directories."""

    rules: list[PermissionRuleEntry] = field(default_factory=list)
    workspace_directories: list[WorkspaceDirectory] = field(default_factory=list)
    original_cwd: str = ""
    managed_only: bool = False
    errors: list[SettingsError] | None = None
    withheld: bool | None = None


class ListPermissionRulesReply(FrameModel):
    """All permission rules."""

    state: PermissionRulesState


class SettingsOfSource(DiscreetModel):
    """The settings of one source."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("settings",)

    source: str
    settings: JSONObject = field(default_factory=dict)


class AppliedSettings(CamelModel):
    """Values that result from the settings, the environment, and what was set on the session."""

    model: str = ""
    effort: EffortLevel | None = None
    effort_auto: bool | None = None
    """Whether the effort is the model's own, because nothing sets another one."""
    advisor: str | None = None
    ultracode: bool | None = None
    """Whether ultracode is in effect."""
    ultracode_requested: bool | None = None
    """Whether it is asked for, in effect or not."""
    ultracode_available: bool | None = None
    """Whether it can be turned on for this session."""
    ultrathink_available: bool | None = None
    """Whether `ultrathink` in a prompt makes its turn run at the effort `xhigh`."""
    outside_file_tool_reads_blocked: bool | None = None
    """Whether the file tools may not read outside of the working directories."""
    outside_file_tool_writes_blocked: bool | None = None
    """Whether they may not write there."""
    outside_blocks_count_launch_folders_only: bool | None = None
    """Whether only the directories of the start count as working directories for these."""
    launch_env_left_own_files_in_place: bool | None = None
    """Whether no variable of the environment can move the CLI's own folders, which these let through."""
    api_provider: APIProvider | None = None
    """Who serves the API. CLI 2.1.333."""


class GetSettingsReply(DiscreetModel, FrameModel):
    """The effective settings and the settings of each source."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("effective",)

    effective: JSONObject = field(default_factory=dict)
    sources: list[SettingsOfSource] = field(default_factory=list)
    applied: AppliedSettings | None = None
    errors: list[SettingsError] | None = None
    withheld: bool | None = None
    served_settings_state: Open[Literal["ok", "pending", "stale_cache", "failed", "ineligible"]] | None = None
    """Where the organization's settings stand that a server manages."""


class HookEventInfo(CamelModel):
    """A hook event."""

    name: str
    summary: str = ""
    supports_matcher: bool | None = None
    hook_count: Number | None = None


class HookListing(CamelModel):
    """A hook from the settings."""

    event: str
    matcher: str | None = None
    source: str = ""
    source_label: str | None = None
    plugin_name: str | None = None
    type: str = ""
    display_text: str = ""
    command_text: str = ""
    content_label: str | None = None
    """What `command_text` is: `Command`, `Prompt`, `URL`, ..."""
    condition: str | None = None
    timeout: Number | None = None
    """Seconds."""
    status_message: str | None = None
    runs_once: bool | None = None
    runs_in_background: bool | None = None
    disabled: bool | None = None
    editable: JSONObject | None = None
    """The matcher and the configuration of a hook that settings may change."""


class HooksPolicy(CamelModel):
    """The organization's policy for hooks."""

    disabled_by_policy: bool = False
    managed_only: bool = False
    plugin_only: bool = False
    all_disabled: bool = False
    policy_hook_count: Number = 0
    policy_unreadable: bool | None = None


class GetHooksListingReply(FrameModel, rename="camel"):
    """The hooks from the settings, without those registered with this library."""

    events: list[HookEventInfo] = field(default_factory=list)
    hooks: list[HookListing] = field(default_factory=list)
    event_catalog: list[HookEventInfo] = field(default_factory=list)
    policy: HooksPolicy | None = None
    safe_mode: JSONObject | None = None
    """Set if the CLI is in safe mode."""
    bare_mode: JSONObject | None = None
    """Set if the CLI is in bare mode, in which it calls no hooks."""
    errors: list[SettingsError] | None = None


# Status and usage -----------------------------------------------------------------------------------------------------


class ContextUsageCategory(CamelModel):
    """A category of content in the context window."""

    id: str | None = None
    name: str
    tokens: Number = 0
    color: str = ""
    kind: Open[Literal["used", "free", "buffer", "deferred"]] | None = None
    is_deferred: bool | None = None


class NamedTokens(CamelModel):
    """The token count of a named item."""

    name: str
    tokens: Number = 0
    is_loaded: bool | None = None


class MCPToolTokens(CamelModel):
    """The token count of an MCP tool."""

    name: str
    server_name: str = ""
    tokens: Number = 0
    is_loaded: bool | None = None


class MCPInstructionTokens(CamelModel):
    """The token count of an MCP server's instructions."""

    server_name: str
    tokens: Number = 0


class MemoryFileTokens(CamelModel):
    """The token count of a memory file."""

    path: str
    type: str = ""
    tokens: Number = 0


class AgentTokens(CamelModel):
    """The token count of an agent definition."""

    agent_type: str
    source: str = ""
    plugin_id: str | None = None
    path: str | None = None
    tokens: Number = 0


class SlashCommandTokens(CamelModel):
    """The token count of the slash commands."""

    total_commands: Number = 0
    included_commands: Number = 0
    tokens: Number = 0


class SkillTokens(CamelModel):
    """The token count of a skill."""

    name: str
    source: str = ""
    plugin_name: str | None = None
    plugin_id: str | None = None
    path: str | None = None
    tokens: Number = 0


class SkillsTokens(CamelModel):
    """The token count of all skills."""

    total_skills: Number = 0
    included_skills: Number = 0
    tokens: Number = 0
    skill_frontmatter: list[SkillTokens] = field(default_factory=list)


class ToolCallTokens(CamelModel):
    """The token counts of a tool's calls and results."""

    name: str
    call_tokens: Number = 0
    result_tokens: Number = 0


class MessageBreakdown(CamelModel):
    """The token counts of the messages by kind."""

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
    """A detailed breakdown of the context window."""

    model: str = ""
    total_tokens: Number = 0
    max_tokens: Number = 0
    raw_max_tokens: Number = 0
    percentage: Number = 0
    """0 to 100."""
    categories: list[ContextUsageCategory] = field(default_factory=list)
    grid_rows: list[list[JSONObject]] = field(default_factory=list)
    """The squares that `/context` draws."""
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
    """The session's cost as human-readable text."""

    text: str


class UsageWindow(WireModel):
    """Usage of a subscription in one time window."""

    utilization: Number | None = None
    """0 to 100."""
    resets_at: str | None = None
    """ISO 8601."""


class ModelUsageWindow(WireModel):
    """Usage of one model in a time window."""

    display_name: str
    utilization: Number | None = None
    resets_at: str | None = None


class SubscriptionLimits(WireModel):
    """Usage of a subscription by limit."""

    five_hour: UsageWindow | None = None
    seven_day: UsageWindow | None = None
    seven_day_oauth_apps: UsageWindow | None = None
    seven_day_opus: UsageWindow | None = None
    seven_day_sonnet: UsageWindow | None = None
    model_scoped: list[ModelUsageWindow] | None = None
    extra_usage: ExtraUsage | None = None


class GetUsageReply(FrameModel):
    """The session's cost and the subscription's limits."""

    session: SessionUsage
    subscription_type: str | None = None
    rate_limits_available: bool = False
    rate_limits: SubscriptionLimits | None = None
    behaviors: JSONObject | None = None
    """What the tokens of the last day and week were spent on."""


class GetBinaryVersionReply(FrameModel, rename="camel"):
    """The CLI's version."""

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
    """The content of `/status`."""

    sections: list[StatusSection]


class GetPlanReply(FrameModel):
    """The agent's plan, if it has written one."""

    exists: bool
    content: str | None = None
    path: str | None = None


# MCP servers ----------------------------------------------------------------------------------------------------------


class MCPStatusReply(FrameModel, rename="camel"):
    """The status of the MCP servers."""

    mcp_servers: list[MCPServerStatus]


class MCPSetServersReply(FrameModel):
    """The MCP servers that were added and removed, and why others could not be."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    """Error messages by server name."""


class MCPCallReply(FrameModel, rename="camel"):
    """The result of an MCP tool."""

    is_error: bool = False
    content: Any = None
    structured_content: JSONObject | None = None
    meta: JSONObject | None = field(default=None, name="_meta")
    staging: JSONObject | None = None


class MCPAuthenticateReply(FrameModel, rename="camel"):
    """How to log in to an MCP server."""

    requires_user_action: bool = False
    """Whether the user has to open `auth_url`."""
    auth_url: str | None = None
    callback_expected: bool | None = None
    """Whether the login continues with a redirect, rather than on claude.ai."""
    redirect_scheme: Open[Literal["localhost", "custom"]] | None = None
    callback_port: Number | None = None
    """The port of the CLI's machine that the browser is redirected to."""
    state: str | None = None


class MCPResourceContent(CamelModel):
    """A part of an MCP resource."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    """Base64."""
    meta: JSONObject | None = field(default=None, name="_meta")


class MCPReadResourceReply(FrameModel):
    """The contents of an MCP resource."""

    contents: list[MCPResourceContent]


# Files, plugins, skills -----------------------------------------------------------------------------------------------


class ReadFileReply(FrameModel, rename="camel"):
    """The contents of a file, possibly truncated."""

    contents: str
    abs_path: str = ""
    truncated: bool | None = None
    encoding: Open[Literal["base64"]] | None = None
    lossy: bool | None = None
    """True if some bytes were not valid UTF-8."""


class FileSuggestion(WireModel):
    """A path that matches the query."""

    path: str
    score: Number | None = None


class FileSuggestionsReply(FrameModel):
    """The paths that match the query."""

    suggestions: list[FileSuggestion]
    cwd: str | None = None


class RegisterRepoRootReply(FrameModel):
    """The directory that was added."""

    directory: str


class SetCwdReply(FrameModel):
    """Whether the working directory was changed."""

    status: Open[Literal["ok", "needs_trust", "rejected"]]
    cwd: str | None = None
    changed: bool | None = None
    transcript_relocated: bool | None = None
    directory: str | None = None
    trust_root: str | None = None
    reason: str | None = None
    message: str | None = None


class CacheImpact(WireModel):
    """Changes of a plugin reload that invalidate the prompt cache."""

    mcp_servers_added: list[str] = field(default_factory=list)
    mcp_servers_removed: list[str] = field(default_factory=list)
    lsp_tool_change: Open[Literal["adds", "may-add", "removes", "may-remove"]] | None = None


class ReloadPluginsReply(FrameModel):
    """The commands, agents, plugins and MCP servers after the reload."""

    commands: list[SlashCommand] = field(default_factory=list)
    agents: list[AgentInfo] = field(default_factory=list)
    plugins: list[PluginInfo] = field(default_factory=list)
    mcp_servers: list[MCPServerStatus] = field(default_factory=list, name="mcpServers")
    error_count: Number = 0
    held: bool | None = None
    """True if nothing was reloaded, to keep the prompt cache valid."""
    cache_impact: CacheImpact | None = None


class ReloadSkillsReply(FrameModel):
    """The skills after the reload."""

    skills: list[SlashCommand]


class ReloadOutputStylesReply(FrameModel):
    """The output styles after the reload."""

    available_output_styles: list[str]
