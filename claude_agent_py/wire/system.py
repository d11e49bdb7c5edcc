"""Messages of type `system`: what the session does besides talking.

Owns every documented subtype but those about tasks (`tasks`) and those that the CLI marks as internal (`internal`).
Knows nothing of what they mean for a run.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from claude_agent_py.wire.base import JSONObject, MessageModel, Number, WireModel
from claude_agent_py.wire.catalog import (
    APIKeySource,
    EffortLevel,
    MCPServerSummary,
    PluginError,
    PluginInfo,
)
from claude_agent_py.wire.messages import AnswerModel, AssistantError
from claude_agent_py.wire.modes import PermissionMode
from claude_agent_py.wire.usage import FastModeState

# The session ----------------------------------------------------------------------------------------------------------


class InitMessage(AnswerModel):
    """What the session works with. It comes at the start of **every turn**, so never before the first prompt."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "init"}

    type: Literal["system"] = "system"
    subtype: Literal["init"] = "init"
    cwd: str = ""
    model: str = ""
    tools: list[str] = Field(default_factory=list)
    """Names of the tools; the subagent tool is called `Task` here and `Agent` everywhere else."""
    mcp_servers: list[MCPServerSummary] = Field(default_factory=list)
    permission_mode: PermissionMode | None = Field(default=None, alias="permissionMode")
    slash_commands: list[str] = Field(default_factory=list)
    terminal_slash_commands: list[str] | None = None
    agents: list[str] | None = None
    skills: list[str] = Field(default_factory=list)
    plugins: list[PluginInfo] = Field(default_factory=list)
    plugin_errors: list[PluginError] | None = None
    output_style: str = ""
    api_key_source: APIKeySource | None = Field(default=None, alias="apiKeySource")
    claude_code_version: str = ""
    betas: list[str] | None = None
    capabilities: list[str] | None = None
    """What this CLI can do, by name, for example `interrupt_receipt_v1`."""
    effort: EffortLevel | None = None
    fast_mode_state: FastModeState | None = None
    fast_mode_disabled_reason: str | None = None
    view_mode: Literal["focus", "default"] | str | None = None
    original_cwd: str | None = None
    additional_directories: list[str] | None = None
    memory_paths: JSONObject | None = None


class StatusMessage(MessageModel):
    """What the session does now, or a new permission mode."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "status"}

    type: Literal["system"] = "system"
    subtype: Literal["status"] = "status"
    status: Literal["compacting", "requesting"] | str | None = None
    """None when that is over. `requesting` needs `include_partial_messages`."""
    permission_mode: PermissionMode | None = Field(default=None, alias="permissionMode")
    compact_result: Literal["success", "failed"] | str | None = None
    compact_error: str | None = None
    compact_output_chars: Number | None = None
    resume_held_for_plan: bool | None = None


class SessionStateChangedMessage(MessageModel):
    """The session works, waits for you, or is idle.

    `idle` comes when the turn and everything held back by background agents is over; background shells do not delay it.
    It is sent only where the environment asks for it.
    """

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "session_state_changed"}

    type: Literal["system"] = "system"
    subtype: Literal["session_state_changed"] = "session_state_changed"
    state: Literal["idle", "running", "requires_action"] | str
    sdk_host_only: bool | None = None


class PreservedSegment(WireModel):
    """The messages that a compaction kept, as a chain."""

    head_uuid: str
    anchor_uuid: str = ""
    tail_uuid: str = ""


class PreservedMessages(WireModel):
    """The messages that a compaction kept, one by one."""

    anchor_uuid: str = ""
    uuids: list[str] = Field(default_factory=list)


class CompactMetadata(WireModel):
    """What a compaction did."""

    trigger: Literal["manual", "auto"] | str
    pre_tokens: Number = 0
    post_tokens: Number | None = None
    duration_ms: Number | None = None
    preserved_segment: PreservedSegment | None = None
    preserved_messages: PreservedMessages | None = None


class CompactBoundaryMessage(MessageModel):
    """What came before was replaced by a summary."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "compact_boundary"}

    type: Literal["system"] = "system"
    subtype: Literal["compact_boundary"] = "compact_boundary"
    compact_metadata: CompactMetadata
    logical_parent_uuid: str | None = None


# The API --------------------------------------------------------------------------------------------------------------


class NoResponse(WireModel):
    """The API did not answer in time."""

    waited_ms: Number = 0
    retry_wait_ms: Number = 0


class APIRetryMessage(MessageModel):
    """A request to the API failed and is tried again."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "api_retry"}

    type: Literal["system"] = "system"
    subtype: Literal["api_retry"] = "api_retry"
    attempt: Number
    max_retries: Number = 0
    retry_delay_ms: Number = 0
    error_status: Number | None = None
    """The HTTP status; None when there was no connection."""
    error: AssistantError = "unknown"
    no_response: NoResponse | None = None


class ThinkingTokensMessage(AnswerModel):
    """How much the model has thought so far, as an estimate."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "thinking_tokens"}

    type: Literal["system"] = "system"
    subtype: Literal["thinking_tokens"] = "thinking_tokens"
    estimated_tokens: Number = 0
    estimated_tokens_delta: Number = 0


class ModelRefusalNoFallbackMessage(MessageModel):
    """The model refused, and no other one answers instead."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "model_refusal_no_fallback"}

    type: Literal["system"] = "system"
    subtype: Literal["model_refusal_no_fallback"] = "model_refusal_no_fallback"
    original_model: str = ""
    request_id: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    refused_user_message_uuid: str | None = None
    content: str = ""


# Words for the user ---------------------------------------------------------------------------------------------------


class PromptSubmitOutcome(WireModel):
    """What a hook did to a prompt."""

    kind: (
        Literal["blocked_by_hook", "stopped_by_hook", "dropped_by_hook", "not_passed_on", "no_verdict"] | str | None
    ) = None
    no_verdict_kind: str | None = None
    prompt_kept: bool | None = None
    reason: str | None = None


class InformationalMessage(MessageModel):
    """Something that the user should read."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "informational"}

    type: Literal["system"] = "system"
    subtype: Literal["informational"] = "informational"
    content: str = ""
    level: Literal["info", "notice", "suggestion", "warning"] | str
    tool_use_id: str | None = None
    prevent_continuation: bool | None = None
    tag: str | None = None
    """For example `hook_callback_failed`."""
    prompt_submit_outcome: PromptSubmitOutcome | None = None


# Hooks and permissions ------------------------------------------------------------------------------------------------


class PermissionDeniedMessage(MessageModel):
    """A tool call was refused without asking you. The result's `permission_denials` has the last word."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "permission_denied"}

    type: Literal["system"] = "system"
    subtype: Literal["permission_denied"] = "permission_denied"
    tool_name: str = ""
    tool_use_id: str
    agent_id: str | None = None
    decision_reason_type: str | None = None
    decision_reason_code: str | None = None
    decision_reason: str | None = None
    message: str = ""


# Files, memory, plugins -----------------------------------------------------------------------------------------------
