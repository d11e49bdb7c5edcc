"""The conversation itself: what you say, what the model says, how a turn ended.

Owns the user, assistant and result messages, which is all that most programs look at, and the two that say how far a
prompt or a tool call got. Knows neither other messages (`system`, `tasks`, `stream`, `notices`) nor which result
answers which prompt (`claude_agent_py.protocol`).

Two rules of the wire to know: one API message arrives as one `AssistantMessage` **per content block**, all with the
same `message.id`; and one result may answer several prompts, which `prompt_uuids` names.
"""

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import field

from claude_agent_py.wire.base import JSONObject, MessageModel, Number, Open, WireModel
from claude_agent_py.wire.content import ContentBlock, ToolResultBlock, ToolUseBlock, text_of
from claude_agent_py.wire.origin import MessageOrigin
from claude_agent_py.wire.usage import (
    DeferredToolUse,
    FastModeState,
    ModelUsage,
    PermissionDenial,
    RateLimitInfo,
    SubagentStats,
    Usage,
)
from claude_agent_py.wire.usage_reports import ContextUsage, UsageReport

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
"""Why the API did not answer."""

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

ResultSubtype: TypeAlias = Open[
    Literal[
        "success",
        "error_during_execution",
        "error_max_turns",
        "error_max_budget_usd",
        "error_max_structured_output_retries",
    ]
]

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
"""Why a turn ended, more exactly than the subtype says."""

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
        "initialize_not_first",
        "config_file_invalid",
        "managed_settings_not_delivered",
        "initialize_fields_not_delivered",
    ]
]


class AnswerModel(MessageModel):
    """A message of a turn that may name the prompts which the turn answers."""

    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None
    """Every prompt that the turn took in, at most 64. Only prompts that were sent with a uuid are named."""

    @property
    def prompt_uuids(self) -> tuple[str, ...]:
        """The prompts that the turn answers, each once, in their order."""
        last = () if self.user_message_uuid is None else (self.user_message_uuid,)
        return tuple(dict.fromkeys((*(self.user_message_uuids or ()), *last)))


# What you say, and what tools give back ---------------------------------------------------------------------------


class UserContent(WireModel):
    """Role and content of a user message."""

    role: Literal["user"]
    content: str | list[ContentBlock]


class PermissionDecision(WireModel):
    """Who decided whether a tool call may run, and how."""

    decision: Open[Literal["accept", "reject", "cancelled"]]
    source: str = ""
    """For example `config`, `hook`, `user_temporary`, `user_permanent`, `user_reject`."""
    reason_type: str | None = None


class ToolResultMeta(WireModel):
    """What happened to a tool call besides its result."""

    id: str
    """The tool call."""
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
    """Why the tool did not run; None when it ran."""
    user_feedback: str | None = None
    permission_decision: PermissionDecision | None = None


class UserMessage(MessageModel):
    """A prompt (either way), or the results of tools, or text that the CLI put in.

    To send one: `UserMessage(message=UserContent(role="user", content="..."), uuid=...)`. With a uuid the CLI names
    it on the result that answers it.
    """

    type: ClassVar[Literal["user"]] = "user"
    message: UserContent
    parent_tool_use_id: str | None = None
    """In a subagent's conversation: the tool call that first launched the subagent."""
    is_synthetic: bool | None = field(default=None, name="isSynthetic")
    """The CLI wrote it, not a person."""
    is_replay: bool | None = field(default=None, name="isReplay")
    """The echo of a prompt, or the output of a slash command."""
    tool_use_result: Any = None
    """The structured result of the tool; its shape depends on the tool, and an error is a string."""
    tool_result_meta: list[ToolResultMeta] | None = None
    priority: Open[Literal["now", "next", "later"]] | None = None
    """How a prompt that arrives during a turn is queued."""
    should_query: bool | None = field(default=None, name="shouldQuery")
    """False adds the text to the conversation without a model call."""
    origin: MessageOrigin | None = None
    timestamp: str | None = None
    """ISO 8601."""
    client_composed: bool | None = None
    pasted_content: list[str | list[ContentBlock]] | None = None
    inline_pastes: list[str] | None = None
    file_attachments: list[Any] | None = None
    agent_id: str | None = None
    """In a subagent's conversation: its task id."""
    subagent_type: str | None = None
    task_description: str | None = None

    @property
    def content(self) -> str | list[ContentBlock]:
        """The content, as it stands in `message`."""
        return self.message.content

    @property
    def text(self) -> str:
        """All text, blocks joined by line breaks; results of tools are not text."""
        return text_of(self.message.content)

    @property
    def tool_results(self) -> list[ToolResultBlock]:
        """The results of tools in it, usually one."""
        content = self.message.content
        return [] if isinstance(content, str) else [block for block in content if isinstance(block, ToolResultBlock)]

    @property
    def is_subagent(self) -> bool:
        """Whether it belongs to a subagent's conversation."""
        return self.parent_tool_use_id is not None or self.agent_id is not None

    def typed_result(self, tool_name: str) -> Any:
        """Return `tool_use_result` as the output model of a built-in tool.

        For another tool, an error text, or a shape of another CLI version, it is the plain value. Never raises for
        content.
        """
        from claude_agent_py.wire.tools.registry import typed_output  # loads some hundred models: only on demand

        return typed_output(tool_name, self.tool_use_result)


# What the model says ---------------------------------------------------------------------------------------------


class AssistantContent(WireModel):
    """The API message, or as much of it as this frame carries."""

    role: Literal["assistant"]
    content: list[ContentBlock]
    id: str = ""
    """Shared by all frames of one API message."""
    type: Open[Literal["message"]] | None = None
    model: str = ""
    """`<synthetic>` where the CLI itself speaks, for example about an API error."""
    stop_reason: StopReason | None = None
    """None while the API message is not complete."""
    stop_sequence: str | None = None
    stop_details: JSONObject | None = None
    usage: Usage | None = None
    container: JSONObject | None = None
    context_management: JSONObject | None = None


class ToolUseMeta(WireModel):
    """How to show a tool call to a person."""

    id: str
    """The tool call."""
    display_name: str = ""
    server_display_name: str | None = None
    tool_name: str | None = None
    icon_url: str | None = None


class AssistantMessage(AnswerModel):
    """What the model said: one content block of it while it streams."""

    type: ClassVar[Literal["assistant"]] = "assistant"
    message: AssistantContent
    parent_tool_use_id: str | None = None
    """In a subagent's conversation: the tool call that first launched the subagent."""
    error: AssistantError | None = None
    """Set when the text is not the model's but reports an API failure."""
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
    """Messages, by uuid, that this one replaces: take them off your screen."""
    aborted: bool | None = None
    """The turn was interrupted here; the text is cut."""
    agent_id: str | None = None
    """In a subagent's conversation: its task id."""
    subagent_type: str | None = None
    task_description: str | None = None
    timestamp: str | None = None
    """ISO 8601."""
    context_usage: ContextUsage | None = None
    usage_report: UsageReport | None = None
    tool_use_meta: list[ToolUseMeta] | None = None

    @property
    def content(self) -> list[ContentBlock]:
        """The blocks, as they stand in `message`."""
        return self.message.content

    @property
    def text(self) -> str:
        """All text, blocks joined by line breaks."""
        return text_of(self.message.content)

    @property
    def model(self) -> str:
        """The model that said it; `<synthetic>` for text of the CLI's."""
        return self.message.model or ""

    @property
    def usage(self) -> Usage | None:
        """The tokens of the API call so far; the same for all blocks of one answer."""
        return self.message.usage

    @property
    def message_id(self) -> str:
        """The API's id of the answer; all its blocks share it."""
        return self.message.id or ""

    @property
    def tool_uses(self) -> list[ToolUseBlock]:
        """The tool calls in it."""
        return [block for block in self.message.content if isinstance(block, ToolUseBlock)]

    @property
    def is_subagent(self) -> bool:
        """Whether it belongs to a subagent's conversation."""
        return self.parent_tool_use_id is not None or self.agent_id is not None

    @property
    def rate_limit_info(self) -> RateLimitInfo | None:
        """The limit that was hit, where the failure is one and the CLI says which."""
        info = (self.api_error_params or {}).get("rate_limit_info")
        try:
            return msgspec.convert(info, RateLimitInfo)
        except msgspec.ValidationError:
            return None


# How a turn ended ------------------------------------------------------------------------------------------------


class InvalidConfigFile(WireModel):
    """The configuration file because of which the CLI did not start."""

    path: str
    is_global: bool = False
    backup_searched: bool = False
    backup_path: str | None = None


class ResultMessage(AnswerModel):
    """The end of a turn, successful or not.

    Look at `is_error`, not at the subtype: an API failure arrives as `success` with `is_error` true. Costs and
    `model_usage` are running totals of the session; `usage` is the main loop of this turn only.
    """

    type: ClassVar[Literal["result"]] = "result"
    subtype: ResultSubtype
    is_error: bool = False
    result: str | None = None
    """The last answer, or the text of the failure. Errors of the other subtypes have `errors` instead."""
    errors: list[str] | None = None
    stop_reason: StopReason | None = None
    terminal_reason: TerminalReason | None = None
    num_turns: Number = 0
    """Not API round trips: it counts every result of a tool."""
    duration_ms: Number = 0
    duration_api_ms: Number = 0
    total_cost_usd: Number = 0
    usage: Usage | None = None
    model_usage: dict[str, ModelUsage] = field(default_factory=dict, name="modelUsage")
    model_usage_since_last_result: dict[str, ModelUsage] | None = None
    permission_denials: list[PermissionDenial] = field(default_factory=list)
    structured_output: Any = None
    """The structured output; see `has_structured_output` for whether there is one."""
    deferred_tool_use: DeferredToolUse | None = None
    origin: MessageOrigin | None = None
    """What caused the turn when it was not a prompt of yours, for example a finished task."""
    result_index: Number | None = None
    """Running number of results; a gap means that one was lost."""
    queued_turn_count: Number | None = None
    resume_reason: str | None = None
    local_command: str | None = None
    """The slash command that the CLI answered without the model."""
    subagent_stats: SubagentStats | None = None
    safety_stops: Number | None = None
    api_error: str | None = None
    api_error_status: Number | None = None
    """The HTTP status of the failure."""
    api_error_type: str | None = None
    startup_failure_reason: StartupFailureReason | None = None
    invalid_config_file: InvalidConfigFile | None = None
    credential_expires_at: str | None = None
    """ISO 8601."""
    fast_mode_state: FastModeState | None = None
    fast_mode_disabled_reason: str | None = None
    ttft_ms: Number | None = None
    """From the request to the first token, in milliseconds."""
    ttft_stream_ms: Number | None = None
    time_to_request_ms: Number | None = None
    time_to_request_from_spawn_ms: Number | None = None
    time_origin_ms: Number | None = None
    request_sent_wall_ms: Number | None = None
    first_content_frame_ms: Number | None = None
    first_stream_post_ms: Number | None = None
    first_stream_post_ack_ms: Number | None = None
    first_stream_post_queue_wait_ms: Number | None = None
    first_stream_post_queued_behind: str | None = None
    first_stream_post_wall_ms: Number | None = None
    first_text_post_ms: Number | None = None
    first_text_post_queue_wait_ms: Number | None = None
    first_text_post_queued_behind: str | None = None
    first_text_post_wall_ms: Number | None = None
    warm_spare_claimed: bool | None = None

    @property
    def is_success(self) -> bool:
        """Whether the turn ended well."""
        return not self.is_error

    @property
    def text(self) -> str:
        """The last answer, or the text of the failure."""
        return self.result or ""

    @property
    def error_text(self) -> str:
        """What went wrong, in the CLI's words; empty for a success."""
        return ("\n".join(self.errors or ()) or self.text) if self.is_error else ""

    @property
    def has_structured_output(self) -> bool:
        """Whether there is a structured output, be it null."""
        return "structured_output" in self.raw

    @property
    def is_injected(self) -> bool:
        """Whether something else than a prompt of yours caused the turn."""
        return self.origin is not None and not self.origin.is_human


# How far a prompt or a tool call got -----------------------------------------------------------------------------


class CommandLifecycleMessage(MessageModel):
    """A prompt that was sent with a uuid was queued, started, or came to its end."""

    type: ClassVar[Literal["command_lifecycle"]] = "command_lifecycle"
    command_uuid: str
    """The uuid of the prompt."""
    state: Open[Literal["queued", "started", "completed", "cancelled", "discarded", "refused"]]
    wakeup_source: Open[Literal["loop_wakeup", "schedule_wakeup"]] | None = None
    scheduled_for: Number | None = None
    ran_ahead: bool | None = None


class SubagentRetry(WireModel):
    """A subagent waits to try its API request again."""

    agent_id: str
    attempt: Number = 0
    max_retries: Number = 0
    retry_delay_ms: Number = 0
    error_status: Number | None = None
    error_category: str = ""


class ToolProgressMessage(MessageModel):
    """A tool call is still running.

    The CLI sends it for hooks that take long, too: then `tool_name` is the hook's event, `heartbeat` is set, and
    `parent_tool_use_id` is the tool call that the hook looks at, not a subagent.
    """

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"
    tool_use_id: str
    tool_name: str = ""
    parent_tool_use_id: str | None = None
    elapsed_time_seconds: Number = 0
    task_id: str | None = None
    heartbeat: bool | None = None
    subagent_type: str | None = None
    subagent_retry: SubagentRetry | None = None
