"""Messages of type `system` about the session, the API and permissions; `tasks` and `occasional` have the others."""

from typing import ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import AnswerModel, JSONObject, Number, Open, SystemModel, WireModel
from claude_agent_py.wire.messages.catalog import APIKeySource, EffortLevel, MCPServerSummary, PluginError, PluginInfo
from claude_agent_py.wire.messages.conversation import AssistantError
from claude_agent_py.wire.messages.modes import PermissionMode
from claude_agent_py.wire.messages.usage import FastModeState

# The session ----------------------------------------------------------------------------------------------------------


class InitMessage(AnswerModel):
    """The session's configuration. Sent at the start of **every turn**, so not before the first prompt."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["init"]] = "init"
    cwd: str = ""
    model: str = ""
    tools: list[str] = field(default_factory=list)
    """Names of the tools. The subagent tool is called `Task` here and `Agent` everywhere else."""
    mcp_servers: list[MCPServerSummary] = field(default_factory=list)
    permission_mode: PermissionMode | None = field(default=None, name="permissionMode")
    slash_commands: list[str] = field(default_factory=list)
    terminal_slash_commands: list[str] | None = None
    agents: list[str] | None = None
    skills: list[str] = field(default_factory=list)
    plugins: list[PluginInfo] = field(default_factory=list)
    plugin_errors: list[PluginError] | None = None
    output_style: str = ""
    api_key_source: APIKeySource | None = field(default=None, name="apiKeySource")
    claude_code_version: str = ""
    betas: list[str] | None = None
    capabilities: list[str] | None = None
    """Names of features that this CLI supports, for example `interrupt_receipt_v1`."""
    effort: EffortLevel | None = None
    fast_mode_state: FastModeState | None = None
    fast_mode_disabled_reason: str | None = None
    view_mode: Open[Literal["focus", "default"]] | None = None
    original_cwd: str | None = None
    additional_directories: list[str] | None = None
    memory_paths: JSONObject | None = None
    messaging_socket_path: str | None = None
    """The socket on which the CLI takes messages of other sessions on this machine."""
    sandbox_enabled: bool | None = None
    served_by_anthropic: bool | None = None
    """Whether the API is Anthropic's, and not another provider's or a gateway."""
    analytics_disabled: bool | None = None
    product_feedback_disabled: bool | None = None
    per_turn_effort_active: bool | None = None
    ultrathink_available: bool | None = None
    ultrathink_typed_raises: bool | None = None
    agent_id: str | None = None
    """The id of a child agent's task, set by this package in `Task.messages()`; None otherwise."""


class StatusMessage(SystemModel):
    """The session's activity or permission mode changed."""

    subtype: ClassVar[Literal["status"]] = "status"
    status: Open[Literal["compacting", "requesting"]] | None = None
    """None when the activity has ended. `requesting` is sent only with `include_partial_messages`."""
    permission_mode: PermissionMode | None = field(default=None, name="permissionMode")
    compact_result: Open[Literal["success", "failed"]] | None = None
    compact_error: str | None = None
    compact_output_chars: Number | None = None
    resume_held_for_plan: bool | None = None
    user_message_uuids: list[str] | None = None
    """The prompts of the turn."""


class SessionStateChangedMessage(SystemModel):
    """The session became idle, started running, or requires an action of the user.

    `idle` is sent when the turn and its background agents are done; background shells do not delay it. The message is
    sent only if the CLI's environment enables it.
    """

    subtype: ClassVar[Literal["session_state_changed"]] = "session_state_changed"
    state: Open[Literal["idle", "running", "requires_action"]]
    sdk_host_only: bool | None = None


class SessionTitleChangedMessage(SystemModel):
    """The session was given a title."""

    subtype: ClassVar[Literal["session_title_changed"]] = "session_title_changed"
    title: str
    given_by: Open[Literal["user", "other"]] | None = None


class PreservedSegment(WireModel):
    """The messages kept by a compaction, given by the ends of their chain."""

    head_uuid: str
    anchor_uuid: str = ""
    tail_uuid: str = ""


class PreservedMessages(WireModel):
    """The messages kept by a compaction, given by their uuids."""

    anchor_uuid: str = ""
    uuids: list[str] = field(default_factory=list)
    all_uuids: list[str] | None = None


class CompactMetadata(WireModel):
    """Details of a compaction."""

    trigger: Open[Literal["manual", "auto"]]
    pre_tokens: Number = 0
    post_tokens: Number | None = None
    cumulative_dropped_tokens: Number | None = None
    """The tokens that all compactions of the session have removed."""
    duration_ms: Number | None = None
    preserved_segment: PreservedSegment | None = None
    preserved_messages: PreservedMessages | None = None


class CompactBoundaryMessage(SystemModel):
    """The conversation before this message was replaced by a summary."""

    subtype: ClassVar[Literal["compact_boundary"]] = "compact_boundary"
    compact_metadata: CompactMetadata
    logical_parent_uuid: str | None = None


# The API --------------------------------------------------------------------------------------------------------------


class NoResponse(WireModel):
    """Details of an API request that timed out."""

    waited_ms: Number = 0
    retry_wait_ms: Number = 0


class APIRetryMessage(SystemModel):
    """An API request failed and will be retried."""

    subtype: ClassVar[Literal["api_retry"]] = "api_retry"
    attempt: Number
    max_retries: Number = 0
    retry_delay_ms: Number = 0
    error_status: Number | None = None
    """The HTTP status; None if the connection failed."""
    error: AssistantError = "unknown"
    no_response: NoResponse | None = None


class ThinkingTokensMessage(AnswerModel):
    """An estimate of the thinking tokens so far."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["thinking_tokens"]] = "thinking_tokens"
    estimated_tokens: Number = 0
    estimated_tokens_delta: Number = 0


class _ModelRefusalMessage(SystemModel):
    """The model refused."""

    original_model: str = ""
    request_id: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    refused_user_message_uuid: str | None = None
    content: str = ""


class ModelRefusalFallbackMessage(_ModelRefusalMessage):
    """The model refused, and another model answers instead."""

    subtype: ClassVar[Literal["model_refusal_fallback"]] = "model_refusal_fallback"
    trigger: Open[Literal["refusal"]] = "refusal"
    direction: Open[Literal["retry", "revert", "sticky"]]
    scope: Open[Literal["session", "local"]] | None = None
    fallback_model: str = ""
    retracted_message_uuids: list[str] | None = None
    """Uuids of messages that should no longer be displayed."""


class ModelRefusalNoFallbackMessage(_ModelRefusalMessage):
    """The model refused, and there is no fallback model."""

    subtype: ClassVar[Literal["model_refusal_no_fallback"]] = "model_refusal_no_fallback"


# User messages --------------------------------------------------------------------------------------------------------


class PromptSubmitOutcome(WireModel):
    """The effect of a hook on a prompt."""

    kind: (
        Open[Literal["blocked_by_hook", "stopped_by_hook", "dropped_by_hook", "not_passed_on", "no_verdict"]] | None
    ) = None
    no_verdict_kind: str | None = None
    prompt_kept: bool | None = None
    reason: str | None = None


class InformationalMessage(SystemModel):
    """Information for the user."""

    subtype: ClassVar[Literal["informational"]] = "informational"
    content: str = ""
    level: Open[Literal["info", "notice", "suggestion", "warning"]]
    tool_use_id: str | None = None
    prevent_continuation: bool | None = None
    tag: str | None = None
    """For example `hook_callback_failed`."""
    prompt_submit_outcome: PromptSubmitOutcome | None = None


# Permissions ----------------------------------------------------------------------------------------------------------


class PermissionDeniedMessage(SystemModel):
    """A tool call was denied without asking. `ResultMessage.permission_denials` has the final list."""

    subtype: ClassVar[Literal["permission_denied"]] = "permission_denied"
    tool_name: str = ""
    tool_use_id: str
    agent_id: str | None = None
    decision_reason_type: str | None = None
    decision_reason_code: str | None = None
    decision_reason: str | None = None
    message: str = ""
