"""Messages of type `system`: what the session does besides talking.

Owns every documented subtype but those about tasks (`tasks`) and those that the CLI marks as internal (`internal`).
Knows nothing of what they mean for a run.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from claude_agent_py.wire.base import CamelModel, JSONObject, MessageModel, Number, WireModel
from claude_agent_py.wire.catalog import (
    APIKeySource,
    EffortLevel,
    MCPServerSummary,
    PluginError,
    PluginInfo,
    SlashCommand,
)
from claude_agent_py.wire.messages import AnswerModel, AssistantError
from claude_agent_py.wire.permissions import PermissionMode
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


class CommandsChangedMessage(MessageModel):
    """All slash commands: replace what you have by it."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "commands_changed"}

    type: Literal["system"] = "system"
    subtype: Literal["commands_changed"] = "commands_changed"
    commands: list[SlashCommand]


class WorkerShuttingDownMessage(MessageModel):
    """The process is about to end."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "worker_shutting_down"}

    type: Literal["system"] = "system"
    subtype: Literal["worker_shutting_down"] = "worker_shutting_down"
    reason: str = ""


class SessionWritesLostMessage(MessageModel):
    """The disk is full: the session is not saved completely."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "session_writes_lost"}

    type: Literal["system"] = "system"
    subtype: Literal["session_writes_lost"] = "session_writes_lost"
    error_code: Literal["ENOSPC", "EDQUOT"] | str
    lost: list[Literal["transcript", "global_config"] | str] = Field(default_factory=list)
    transcript_session_ids: list[str] | None = None


class MirrorKey(CamelModel):
    """Which transcript could not be mirrored."""

    project_key: str = ""
    session_id: str = ""
    subpath: str | None = None


class MirrorErrorMessage(MessageModel):
    """A session store could not take a part of the transcript."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "mirror_error"}

    type: Literal["system"] = "system"
    subtype: Literal["mirror_error"] = "mirror_error"
    error: str
    key: MirrorKey | None = None


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


class ModelRefusalFallbackMessage(MessageModel):
    """The model refused, and another one answers instead."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "model_refusal_fallback"}

    type: Literal["system"] = "system"
    subtype: Literal["model_refusal_fallback"] = "model_refusal_fallback"
    trigger: Literal["refusal"] | str = "refusal"
    direction: Literal["retry", "revert", "sticky"] | str
    scope: Literal["session", "local"] | str | None = None
    original_model: str = ""
    fallback_model: str = ""
    request_id: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    retracted_message_uuids: list[str] | None = None
    """Messages to take off your screen."""
    refused_user_message_uuid: str | None = None
    content: str = ""


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


class ControlRequestProgressMessage(MessageModel):
    """A control request of yours that takes long was taken up, or waits for the API."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "control_request_progress"}

    type: Literal["system"] = "system"
    subtype: Literal["control_request_progress"] = "control_request_progress"
    request_id: str
    status: Literal["started", "api_retry"] | str
    attempt: Number | None = None
    max_retries: Number | None = None
    retry_delay_ms: Number | None = None
    error_status: Number | None = None


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


class NotificationMessage(MessageModel):
    """A short note for the user's screen."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "notification"}

    type: Literal["system"] = "system"
    subtype: Literal["notification"] = "notification"
    key: str
    text: str = ""
    priority: Literal["low", "medium", "high", "immediate"] | str = "low"
    color: str | None = None
    timeout_ms: Number | None = None


class LocalCommandOutputMessage(MessageModel):
    """What a slash command printed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "local_command_output"}

    type: Literal["system"] = "system"
    subtype: Literal["local_command_output"] = "local_command_output"
    content: str


# Hooks and permissions ------------------------------------------------------------------------------------------------


class HookStartedMessage(MessageModel):
    """A hook of the settings began. Hooks of this library have no such messages."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "hook_started"}

    type: Literal["system"] = "system"
    subtype: Literal["hook_started"] = "hook_started"
    hook_id: str
    hook_name: str = ""
    hook_event: str = ""
    origin: str | None = None
    label: str | None = None
    plugin_name: str | None = None


class HookProgressMessage(MessageModel):
    """A hook of the settings printed something."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "hook_progress"}

    type: Literal["system"] = "system"
    subtype: Literal["hook_progress"] = "hook_progress"
    hook_id: str
    hook_name: str = ""
    hook_event: str = ""
    stdout: str = ""
    stderr: str = ""
    output: str = ""
    backgrounded: bool | None = None


class HookResponseMessage(MessageModel):
    """A hook of the settings is over."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "hook_response"}

    type: Literal["system"] = "system"
    subtype: Literal["hook_response"] = "hook_response"
    hook_id: str
    hook_name: str = ""
    hook_event: str = ""
    output: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: Number | None = None
    outcome: Literal["success", "error", "cancelled"] | str


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


class ElicitationCompleteMessage(MessageModel):
    """A question of an MCP server, asked through a web page, was answered there."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "elicitation_complete"}

    type: Literal["system"] = "system"
    subtype: Literal["elicitation_complete"] = "elicitation_complete"
    mcp_server_name: str
    elicitation_id: str


# Files, memory, plugins -----------------------------------------------------------------------------------------------


class PersistedFile(WireModel):
    """A file that was uploaded."""

    filename: str
    file_id: str


class FailedFile(WireModel):
    """A file that could not be uploaded."""

    filename: str
    error: str = ""


class FilesPersistedMessage(MessageModel):
    """Files were uploaded."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "files_persisted"}

    type: Literal["system"] = "system"
    subtype: Literal["files_persisted"] = "files_persisted"
    files: list[PersistedFile] = Field(default_factory=list)
    failed: list[FailedFile] = Field(default_factory=list)
    processed_at: str = ""
    """ISO 8601."""


class RecalledMemory(WireModel):
    """A memory that was put into the conversation."""

    path: str
    scope: Literal["personal", "team", "organization"] | str
    content: str | None = None


class MemoryRecallMessage(MessageModel):
    """Memories were put into the conversation."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "memory_recall"}

    type: Literal["system"] = "system"
    subtype: Literal["memory_recall"] = "memory_recall"
    mode: Literal["select", "synthesize"] | str
    memories: list[RecalledMemory] = Field(default_factory=list)


class PluginInstallMessage(MessageModel):
    """How far the installation of plugins got."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "plugin_install"}

    type: Literal["system"] = "system"
    subtype: Literal["plugin_install"] = "plugin_install"
    status: Literal["started", "installed", "failed", "completed"] | str
    name: str | None = None
    error: str | None = None
