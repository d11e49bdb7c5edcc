"""User, assistant and result messages, and the progress of prompts and tool calls.

An API message arrives as one `AssistantMessage` **per content block**, all with the same `message.id`. A result may
answer several prompts, listed in `prompt_uuids`.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import SYNTHETIC_MODEL, AnswerModel, JSONObject, MessageModel, Number, Open, WireModel
from claude_agent_py.wire.fitting import read
from claude_agent_py.wire.messages.content import ContentBlock, ToolResultBlock, ToolUseBlock, text_of
from claude_agent_py.wire.messages.origin import MessageOrigin
from claude_agent_py.wire.messages.usage import (
    ContextUsage,
    DeferredToolUse,
    FastModeState,
    ModelUsage,
    PermissionDenial,
    RateLimitInfo,
    SubagentStats,
    Usage,
    UsageReport,
)
from claude_agent_py.wire.tools.registry import typed_output

AssistantError: TypeAlias = Open[
    Literal[
        "authentication_failed",
        "oauth_org_not_allowed",
        "account_on_hold",
        "verification_required",
        "billing_error",
        "rate_limit",
        "overloaded",
        "invalid_request",
        "model_not_found",
        "server_error",
        "unknown",
        "max_output_tokens",
        "cloud_credential_error",
    ]
]
"""Why an API request failed."""

StopReason: TypeAlias = Open[
    Literal[
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
        "tool_deferred",
    ]
]
"""Why the model stopped."""

ResultSubtype: TypeAlias = Open[
    Literal[
        "success",
        "error_during_execution",
        "error_max_turns",
        "error_max_budget_usd",
        "error_max_structured_output_retries",
    ]
]
"""How a turn ended."""

TerminalReason: TypeAlias = Open[
    Literal[
        "completed",
        "max_turns",
        "budget_exhausted",
        "structured_output_retry_exhausted",
        "api_error",
        "model_error",
        "image_error",
        "prompt_too_long",
        "blocking_limit",
        "rapid_refill_breaker",
        "malformed_tool_use_exhausted",
        "aborted_streaming",
        "aborted_tools",
        "stop_hook_prevented",
        "hook_stopped",
        "tool_deferred",
        "tool_deferred_unavailable",
        "background_requested",
        "turn_setup_failed",
    ]
]
"""Why a turn ended, in more detail than the subtype."""

PostQueue: TypeAlias = Open[Literal["durable_post", "ephemeral_post", "retry_backoff", "hold", "none"]]
"""The queue behind which a post of the CLI waited."""
StartupFailureReason: TypeAlias = Open[
    Literal[
        "org_pin_api_key_conflict",
        "provider_not_allowed",
        "org_verify_failed",
        "org_pin_mismatch",
        "managed_settings_invalid",
        "remote_settings_required_unavailable",
        "gateway_signin_required",
        "gateway_access_denied",
        "proxy_invalid",
        "temp_dir_unusable",
        "cwd_unavailable",
        "shell_tool_missing",
        "session_held_by_background",
        "worktree_resume_refused",
        "worktree_unverified",
        "cli_version_too_old",
        "bypass_root",
        "org_config_required_unavailable",
        "org_config_refused",
        "sandbox_required_unavailable",
        "sideload_flags_disabled",
        "initialize_not_first",
        "config_file_invalid",
        "managed_settings_not_delivered",
        "initialize_fields_not_delivered",
    ]
]
"""Why the CLI did not start."""


# User messages ----------------------------------------------------------------------------------------------------


class UserContent(WireModel):
    """The role and content of a user message."""

    role: Literal["user"]
    content: str | list[ContentBlock]


class PermissionDecision(WireModel):
    """How a tool call was allowed or rejected, and by whom."""

    decision: Open[Literal["accept", "reject", "cancelled"]]
    source: str = ""
    """For example `config`, `hook`, `user_temporary`, `user_permanent`, `user_reject`."""
    reason_type: str | None = None


class ToolResultMeta(WireModel):
    """Details of a tool call that are not part of its result."""

    id: str
    """Id of the tool call."""
    non_execution_kind: (
        Open[
            Literal[
                "user-rejected",
                "permission-rule",
                "automode-blocked",
                "automode-unavailable",
                "automode-parsing-error",
                "interrupted",
                "cancelled",
            ]
        ]
        | None
    ) = None
    """Why the tool did not run; None if it ran."""
    user_feedback: str | None = None
    permission_decision: PermissionDecision | None = None


class UserMessage(MessageModel):
    """A prompt, the results of tools, or text added by the CLI.

    To send one, use `UserMessage(message=UserContent(role="user", content="..."), uuid=...)`. If it has a uuid, the
    result that answers it names it.
    """

    type: ClassVar[Literal["user"]] = "user"
    message: UserContent
    parent_tool_use_id: str | None = None
    """In a subagent's conversation: the tool call that first launched the subagent."""
    is_synthetic: bool | None = field(default=None, name="isSynthetic")
    """True if the CLI wrote the message."""
    is_replay: bool | None = field(default=None, name="isReplay")
    """True for the echo of a prompt and for the output of a slash command."""
    tool_use_result: Any = None
    """The structured result of the tool, which depends on the tool; a string for an error."""
    tool_result_meta: list[ToolResultMeta] | None = None
    priority: Open[Literal["now", "next", "later"]] | None = None
    """How a prompt that arrives during a turn is queued."""
    should_query: bool | None = field(default=None, name="shouldQuery")
    """False adds the message to the conversation without calling the model."""
    origin: MessageOrigin | None = None
    timestamp: str | None = None
    """ISO 8601."""
    client_composed: bool | None = None
    pasted_content: list[str | list[ContentBlock]] | None = None
    inline_pastes: list[str] | None = None
    file_attachments: list[Any] | None = None
    agent_id: str | None = None
    """In a subagent's conversation: the subagent's task id."""
    subagent_type: str | None = None
    task_description: str | None = None

    @property
    def content(self) -> str | list[ContentBlock]:
        """The content of `message`."""
        return self.message.content

    @property
    def text(self) -> str:
        """The text of the message without tool results; text blocks are joined by line breaks."""
        return text_of(self.message.content)

    @property
    def tool_results(self) -> list[ToolResultBlock]:
        """The tool results in the message, usually one."""
        content = self.message.content
        return [] if isinstance(content, str) else [block for block in content if isinstance(block, ToolResultBlock)]

    @property
    def is_subagent(self) -> bool:
        """Whether the message belongs to a subagent's conversation."""
        return self.parent_tool_use_id is not None or self.agent_id is not None

    def typed_result(self, tool_name: str) -> Any:
        """Return `tool_use_result` as a built-in tool's output model, or unchanged if no model matches it.

        Error texts do not match a model.
        """
        return typed_output(tool_name, self.tool_use_result)


# Assistant messages ----------------------------------------------------------------------------------------------


class AssistantContent(WireModel):
    """An API message, or the part of it that one frame carries."""

    role: Literal["assistant"]
    content: list[ContentBlock]
    id: str = ""
    """The same for all frames of one API message."""
    type: Open[Literal["message"]] | None = None
    model: str = ""
    """The model's name; `<synthetic>` for messages written by the CLI, for example about an API error."""
    stop_reason: StopReason | None = None
    """None until the API message is complete."""
    stop_sequence: str | None = None
    stop_details: JSONObject | None = None
    usage: Usage | None = None
    container: JSONObject | None = None
    context_management: JSONObject | None = None
    diagnostics: JSONObject | None = None


class ToolUseMeta(WireModel):
    """How to display a tool call."""

    id: str
    """Id of the tool call."""
    display_name: str = ""
    server_display_name: str | None = None
    tool_name: str | None = None
    icon_url: str | None = None


class LocalCommandRun(WireModel):
    """A slash command that the CLI ran without the model."""

    command: str
    args: str = ""


class LocalCommandOutcome(WireModel):
    """What became of a slash command that the CLI did not run, or that failed."""

    kind: Open[Literal["unavailable_headless", "unknown", "failed", "restart_required"]]
    suggestion: str | None = None
    """A command with a similar name."""


class AssistantMessage(AnswerModel):
    """A content block of the model's answer."""

    type: ClassVar[Literal["assistant"]] = "assistant"
    message: AssistantContent
    parent_tool_use_id: str | None = None
    """In a subagent's conversation: the tool call that first launched the subagent."""
    error: AssistantError | None = None
    """Set if the text reports an API error instead of an answer of the model."""
    api_error: str | None = None
    api_error_status: Number | None = None
    """The HTTP status."""
    api_error_type: str | None = None
    api_error_params: JSONObject | None = None
    is_api_error_message: bool | None = None
    request_id: str | None = None
    """The API's request id."""
    resume_reason: str | None = None
    resumed_from_incomplete_thinking: bool | None = None
    supersedes: list[str] | None = None
    """Uuids of messages that this one replaces and that should no longer be displayed."""
    aborted: bool | None = None
    """True if the turn was interrupted, so the text is incomplete."""
    agent_id: str | None = None
    """In a subagent's conversation: the subagent's task id."""
    subagent_type: str | None = None
    task_description: str | None = None
    timestamp: str | None = None
    """ISO 8601."""
    context_usage: ContextUsage | None = None
    usage_report: UsageReport | None = None
    tool_use_meta: list[ToolUseMeta] | None = None
    thinking_duration_ms: Number | None = None
    """How long the thinking block took to stream, for display."""
    thinking_display: str | None = None
    local_command_run: LocalCommandRun | None = None
    """The slash command whose output this message is."""
    local_command_outcome: LocalCommandOutcome | None = None
    local_command_source: str | None = None

    @property
    def failure(self) -> str | None:
        """The kind of the API error that the text reports; None if it is an answer of the model."""
        return (self.error or "unknown") if self.error is not None or self.is_api_error_message else None

    @property
    def content(self) -> list[ContentBlock]:
        """The content blocks of `message`."""
        return self.message.content

    @property
    def is_synthetic(self) -> bool:
        """Whether the CLI wrote the message, without the model."""
        return self.message.model == SYNTHETIC_MODEL

    @property
    def text(self) -> str:
        """The text of the message; text blocks are joined by line breaks."""
        return text_of(self.message.content)

    @property
    def model(self) -> str:
        """The model's name; `<synthetic>` for messages written by the CLI."""
        return self.message.model or ""

    @property
    def usage(self) -> Usage | None:
        """Token usage of the API message; the same for all of its blocks."""
        return self.message.usage

    @property
    def message_id(self) -> str:
        """Id of the API message; the same for all of its blocks."""
        return self.message.id or ""

    @property
    def tool_uses(self) -> list[ToolUseBlock]:
        """The tool calls in the message."""
        return [block for block in self.message.content if isinstance(block, ToolUseBlock)]

    @property
    def is_subagent(self) -> bool:
        """Whether the message belongs to a subagent's conversation."""
        return self.parent_tool_use_id is not None or self.agent_id is not None

    @property
    def rate_limit_info(self) -> RateLimitInfo | None:
        """The rate limit that was hit, if `error` is due to one and the CLI reports it."""
        return read(RateLimitInfo, (self.api_error_params or {}).get("rate_limit_info"))


# Results ---------------------------------------------------------------------------------------------------------


class InvalidConfigFile(WireModel):
    """The invalid configuration file that kept the CLI from starting."""

    path: str
    is_global: bool = False
    backup_searched: bool = False
    backup_path: str | None = None


class ResultMessage(AnswerModel):
    """The end of a turn.

    Check `is_error` rather than the subtype: an API error arrives as `success` with `is_error` set. Costs and
    `model_usage` are running totals of the session; `usage` covers only the main loop of this turn.
    """

    type: ClassVar[Literal["result"]] = "result"
    subtype: ResultSubtype
    is_error: bool = False
    result: str | None = None
    """The last answer, or the text of an API error. Other errors are in `errors`."""
    errors: list[str] | None = None
    stop_reason: StopReason | None = None
    terminal_reason: TerminalReason | None = None
    num_turns: Number = 0
    """Counts every tool result, not API round trips."""
    duration_ms: Number = 0
    duration_api_ms: Number = 0
    total_cost_usd: Number = 0
    usage: Usage | None = None
    model_usage: dict[str, ModelUsage] = field(default_factory=dict, name="modelUsage")
    model_usage_since_last_result: dict[str, ModelUsage] | None = None
    permission_denials: list[PermissionDenial] = field(default_factory=list)
    structured_output: Any = None
    """The structured output, which may be null; `has_structured_output` tells whether there is one."""
    deferred_tool_use: DeferredToolUse | None = None
    origin: MessageOrigin | None = None
    """What started the turn if it was not a prompt from this SDK, for example a finished task."""
    result_index: Number | None = None
    """Running number of the result; a gap means that a result was lost."""
    queued_turn_count: Number | None = None
    resume_reason: str | None = None
    local_command: str | None = None
    """The slash command, if the CLI answered it without the model."""
    subagent_stats: SubagentStats | None = None
    safety_stops: Number | None = None
    api_error: str | None = None
    api_error_status: Number | None = None
    """The HTTP status of the API error."""
    api_error_type: str | None = None
    startup_failure_reason: StartupFailureReason | None = None
    invalid_config_file: InvalidConfigFile | None = None
    credential_expires_at: str | None = None
    """ISO 8601."""
    fast_mode_state: FastModeState | None = None
    fast_mode_disabled_reason: str | None = None
    ttft_ms: Number | None = None
    """Milliseconds from the request to the first token."""
    ttft_stream_ms: Number | None = None
    time_to_request_ms: Number | None = None
    time_to_request_from_spawn_ms: Number | None = None
    request_sent_wall_ms: Number | None = None
    """When the request was sent, in milliseconds since 1970."""
    time_origin_ms: Number | None = None
    """When the CLI's process started, in milliseconds since 1970."""
    first_content_frame_ms: Number | None = None
    first_stream_post_ms: Number | None = None
    first_stream_post_ack_ms: Number | None = None
    first_stream_post_queue_wait_ms: Number | None = None
    first_stream_post_queued_behind: PostQueue | None = None
    first_stream_post_wall_ms: Number | None = None
    first_text_post_ms: Number | None = None
    first_text_post_queue_wait_ms: Number | None = None
    first_text_post_queued_behind: PostQueue | None = None
    first_text_post_wall_ms: Number | None = None
    warm_spare_claimed: bool | None = None
    first_request_input_tokens: Number | None = None
    first_request_cache_read_input_tokens: Number | None = None
    begun_message_ids: list[str] | None = None
    """The API messages of the turn that began."""

    @property
    def is_success(self) -> bool:
        """Whether the turn ended without an error."""
        return not self.is_error

    @property
    def text(self) -> str:
        """The last answer or the text of an API error; empty if there is none."""
        return self.result or ""

    @property
    def error_text(self) -> str:
        """The CLI's error messages, one per line; empty if the turn succeeded."""
        return ("\n".join(self.errors or ()) or self.text) if self.is_error else ""

    @property
    def has_structured_output(self) -> bool:
        """Whether the result has a structured output; it may be null."""
        return "structured_output" in self.raw

    @property
    def was_interrupted(self) -> bool:
        """Whether the turn was interrupted."""
        return self.terminal_reason in ("aborted_streaming", "aborted_tools")

    @property
    def is_injected(self) -> bool:
        """Whether the turn was started by something other than a prompt from this SDK."""
        return self.origin is not None and not self.origin.is_human


# Progress --------------------------------------------------------------------------------------------------------


class CommandLifecycleMessage(MessageModel):
    """A prompt sent with a uuid was queued, started or finished."""

    type: ClassVar[Literal["command_lifecycle"]] = "command_lifecycle"
    command_uuid: str
    """Uuid of the prompt."""
    state: Open[Literal["queued", "started", "completed", "cancelled", "discarded", "refused"]]
    wakeup_source: Open[Literal["loop_wakeup", "schedule_wakeup"]] | None = None
    scheduled_for: Number | None = None
    ran_ahead: bool | None = None

    @property
    def is_withdrawn(self) -> bool:
        """Whether the prompt will get no turn."""
        return self.state in ("cancelled", "discarded", "refused")

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will be reported of the prompt. It may have had no turn of its own."""
        return self.state == "completed" or self.is_withdrawn


class SubagentRetry(WireModel):
    """A subagent's pending retry of an API request."""

    agent_id: str
    attempt: Number = 0
    max_retries: Number = 0
    retry_delay_ms: Number = 0
    error_status: Number | None = None
    error_category: str = ""


class ToolProgressMessage(MessageModel):
    """A tool call is still running.

    A slow call has a `heartbeat` every 30 seconds: `parent_tool_use_id` is the call, `tool_use_id` an id of its own.
    So has a slow hook; then `tool_name` is the hook's event, and `parent_tool_use_id` the call that the hook is for.
    """

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"
    tool_use_id: str
    tool_name: str = ""
    parent_tool_use_id: str | None = None
    elapsed_time_seconds: Number = 0
    task_id: str | None = None
    heartbeat: bool | None = None
    description: str | None = None
    """What the call of a heartbeat does, in at most 200 characters. CLI 2.1.333."""
    subagent_type: str | None = None
    subagent_retry: SubagentRetry | None = None

    @property
    def call_id(self) -> str:
        """The id of the call that is running; no call's if a hook is slow, before or after the call."""
        call = self.parent_tool_use_id
        return call if call and self.tool_use_id.startswith(f"{call}-heartbeat-") else self.tool_use_id
