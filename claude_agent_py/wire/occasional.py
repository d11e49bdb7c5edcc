"""Documented messages that few sessions see: of hooks, plugins, memory, mirrors, and of what a user interface shows.

Owns those of type `system` that `system` leaves out, and the types of their own that `notices` leaves out. They are
loaded when the first of them comes, and each is built when it comes first: no session's start waits for them. Knows
nothing of what they mean for a run.
"""

from typing import ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, JSONObject, MessageModel, Number, Open, WireModel
from claude_agent_py.wire.catalog import SlashCommand

# Of type system -------------------------------------------------------------------------------------------------------


class CommandsChangedMessage(MessageModel):
    """All slash commands: replace what you have by it."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["commands_changed"]] = "commands_changed"
    commands: list[SlashCommand]


class WorkerShuttingDownMessage(MessageModel):
    """The process is about to end."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["worker_shutting_down"]] = "worker_shutting_down"
    reason: str = ""


class SessionWritesLostMessage(MessageModel):
    """The disk is full: the session is not saved completely."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["session_writes_lost"]] = "session_writes_lost"
    error_code: Open[Literal["ENOSPC", "EDQUOT"]]
    lost: list[Open[Literal["transcript", "global_config"]]] = field(default_factory=list)
    transcript_session_ids: list[str] | None = None


class MirrorKey(CamelModel):
    """Which transcript could not be mirrored."""

    project_key: str = ""
    session_id: str = ""
    subpath: str | None = None


class MirrorErrorMessage(MessageModel):
    """A session store could not take a part of the transcript."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["mirror_error"]] = "mirror_error"
    error: str
    key: MirrorKey | None = None


class ModelRefusalFallbackMessage(MessageModel):
    """The model refused, and another one answers instead."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["model_refusal_fallback"]] = "model_refusal_fallback"
    trigger: Open[Literal["refusal"]] = "refusal"
    direction: Open[Literal["retry", "revert", "sticky"]]
    scope: Open[Literal["session", "local"]] | None = None
    original_model: str = ""
    fallback_model: str = ""
    request_id: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    retracted_message_uuids: list[str] | None = None
    """Messages to take off your screen."""
    refused_user_message_uuid: str | None = None
    content: str = ""


class ControlRequestProgressMessage(MessageModel):
    """A control request of yours that takes long was taken up, or waits for the API."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["control_request_progress"]] = "control_request_progress"
    request_id: str
    status: Open[Literal["started", "api_retry"]]
    attempt: Number | None = None
    max_retries: Number | None = None
    retry_delay_ms: Number | None = None
    error_status: Number | None = None


class NotificationMessage(MessageModel):
    """A short note for the user's screen."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["notification"]] = "notification"
    key: str
    text: str = ""
    priority: Open[Literal["low", "medium", "high", "immediate"]] = "low"
    color: str | None = None
    timeout_ms: Number | None = None


class LocalCommandOutputMessage(MessageModel):
    """What a slash command printed."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["local_command_output"]] = "local_command_output"
    content: str


class HookStartedMessage(MessageModel):
    """A hook of the settings began. Hooks of this library have no such messages."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["hook_started"]] = "hook_started"
    hook_id: str
    hook_name: str = ""
    hook_event: str = ""
    origin: str | None = None
    label: str | None = None
    plugin_name: str | None = None


class HookProgressMessage(MessageModel):
    """A hook of the settings printed something."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["hook_progress"]] = "hook_progress"
    hook_id: str
    hook_name: str = ""
    hook_event: str = ""
    stdout: str = ""
    stderr: str = ""
    output: str = ""
    backgrounded: bool | None = None


class HookResponseMessage(MessageModel):
    """A hook of the settings is over."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["hook_response"]] = "hook_response"
    hook_id: str
    hook_name: str = ""
    hook_event: str = ""
    output: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: Number | None = None
    outcome: Open[Literal["success", "error", "cancelled"]]


class ElicitationCompleteMessage(MessageModel):
    """A question of an MCP server, asked through a web page, was answered there."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["elicitation_complete"]] = "elicitation_complete"
    mcp_server_name: str
    elicitation_id: str


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

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["files_persisted"]] = "files_persisted"
    files: list[PersistedFile] = field(default_factory=list)
    failed: list[FailedFile] = field(default_factory=list)
    processed_at: str = ""
    """ISO 8601."""


class RecalledMemory(WireModel):
    """A memory that was put into the conversation."""

    path: str
    scope: Open[Literal["personal", "team", "organization"]]
    content: str | None = None


class MemoryRecallMessage(MessageModel):
    """Memories were put into the conversation."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["memory_recall"]] = "memory_recall"
    mode: Open[Literal["select", "synthesize"]]
    memories: list[RecalledMemory] = field(default_factory=list)


class PluginInstallMessage(MessageModel):
    """How far the installation of plugins got."""

    type: ClassVar[Literal["system"]] = "system"
    subtype: ClassVar[Literal["plugin_install"]] = "plugin_install"
    status: Open[Literal["started", "installed", "failed", "completed"]]
    name: str | None = None
    error: str | None = None


# Of a type of their own ----------------------------------------------------------------------------------------------


class ToolUseSummaryMessage(MessageModel):
    """One line about the tool calls before it."""

    type: ClassVar[Literal["tool_use_summary"]] = "tool_use_summary"
    summary: str
    preceding_tool_use_ids: list[str] = field(default_factory=list)


class AuthStatusMessage(MessageModel):
    """How far a login got."""

    type: ClassVar[Literal["auth_status"]] = "auth_status"
    is_authenticating: bool = field(default=False, name="isAuthenticating")
    output: list[str] = field(default_factory=list)
    error: str | None = None


class PromptSuggestionMessage(MessageModel):
    """What the user might say next. It comes after the result, at most once a turn."""

    type: ClassVar[Literal["prompt_suggestion"]] = "prompt_suggestion"
    suggestion: str


class ConversationResetMessage(MessageModel):
    """The conversation began anew, for example by `/clear`. The session's id changes."""

    type: ClassVar[Literal["conversation_reset"]] = "conversation_reset"
    new_conversation_id: str
    trigger: Open[Literal["clear", "plan_mode_exit", "fresh_session", "onboarding"]] | None = None
    user_message_uuid: str | None = None
    timestamp: str | None = None
    """ISO 8601."""


class ActiveGoal(WireModel):
    """A condition that the agent works towards."""

    condition: str
    iterations: Number = 0
    set_at: Number = 0
    tokens_at_start: Number = 0
    last_reason: str | None = None


class ActiveGoalMessage(MessageModel):
    """The agent's goal changed; None when there is none any more."""

    type: ClassVar[Literal["active_goal"]] = "active_goal"
    value: ActiveGoal | None = None


class AutocompactStateMessage(MessageModel):
    """Whether and when the conversation is compacted by itself."""

    type: ClassVar[Literal["autocompact_state"]] = "autocompact_state"
    value: JSONObject
