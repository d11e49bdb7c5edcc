"""Less common messages: about hooks, plugins, memory and mirrors, and for user interfaces."""

from typing import ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, JSONObject, MessageModel, Number, Open, SystemModel, WireModel
from claude_agent_py.wire.messages.catalog import SlashCommand
from claude_agent_py.wire.messages.usage import RateLimitInfo

# Type `system` --------------------------------------------------------------------------------------------------------


class CommandsChangedMessage(SystemModel):
    """The slash commands changed. The list is complete and replaces earlier ones."""

    subtype: ClassVar[Literal["commands_changed"]] = "commands_changed"
    commands: list[SlashCommand]


class BridgeStateMessage(SystemModel):
    """The connection for remote control of the session changed."""

    subtype: ClassVar[Literal["bridge_state"]] = "bridge_state"
    state: Open[Literal["ready", "connected", "reconnecting", "failed"]]
    detail: str | None = None
    failure_kind: Open[Literal["terminal"]] | None = None
    recovered: bool | None = None
    bridge_epoch: Number | None = None


class WorkerShuttingDownMessage(SystemModel):
    """The CLI process is about to exit."""

    subtype: ClassVar[Literal["worker_shutting_down"]] = "worker_shutting_down"
    reason: str = ""


class SessionWritesLostMessage(SystemModel):
    """Parts of the session could not be saved because the disk is full."""

    subtype: ClassVar[Literal["session_writes_lost"]] = "session_writes_lost"
    error_code: Open[Literal["ENOSPC", "EDQUOT"]]
    lost: list[Open[Literal["transcript", "global_config"]]] = field(default_factory=list)
    transcript_session_ids: list[str] | None = None


class MirrorKey(CamelModel):
    """Identifies a transcript in a session store."""

    project_key: str = ""
    session_id: str = ""
    subpath: str | None = None


class MirrorErrorMessage(SystemModel):
    """A session store failed to save a part of the transcript."""

    subtype: ClassVar[Literal["mirror_error"]] = "mirror_error"
    error: str
    key: MirrorKey | None = None


class ControlRequestProgressMessage(SystemModel):
    """A slow control request was started or is waiting to retry an API request."""

    subtype: ClassVar[Literal["control_request_progress"]] = "control_request_progress"
    request_id: str
    status: Open[Literal["started", "api_retry"]]
    attempt: Number | None = None
    max_retries: Number | None = None
    retry_delay_ms: Number | None = None
    error_status: Number | None = None


class NotificationMessage(SystemModel):
    """A short notification for the user."""

    subtype: ClassVar[Literal["notification"]] = "notification"
    key: str
    text: str = ""
    priority: Open[Literal["low", "medium", "high", "immediate"]] = "low"
    color: str | None = None
    timeout_ms: Number | None = None


class LocalCommandOutputMessage(SystemModel):
    """The output of a slash command."""

    subtype: ClassVar[Literal["local_command_output"]] = "local_command_output"
    content: str


class _SettingsHookMessage(SystemModel):
    """A message about a hook from the settings."""

    hook_id: str
    hook_name: str = ""
    hook_event: str = ""


class HookStartedMessage(_SettingsHookMessage):
    """A hook from the settings started. Not sent for hooks registered with this library."""

    subtype: ClassVar[Literal["hook_started"]] = "hook_started"
    origin: str | None = None
    label: str | None = None
    plugin_name: str | None = None


class HookProgressMessage(_SettingsHookMessage):
    """A hook from the settings printed output."""

    subtype: ClassVar[Literal["hook_progress"]] = "hook_progress"
    stdout: str = ""
    stderr: str = ""
    output: str = ""
    backgrounded: bool | None = None


class HookResponseMessage(_SettingsHookMessage):
    """A hook from the settings finished."""

    subtype: ClassVar[Literal["hook_response"]] = "hook_response"
    output: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: Number | None = None
    outcome: Open[Literal["success", "error", "cancelled"]]


class ElicitationCompleteMessage(SystemModel):
    """The user answered an MCP server's question on a web page."""

    subtype: ClassVar[Literal["elicitation_complete"]] = "elicitation_complete"
    mcp_server_name: str
    elicitation_id: str


class PersistedFile(WireModel):
    """An uploaded file."""

    filename: str
    file_id: str


class FailedFile(WireModel):
    """A file that failed to upload."""

    filename: str
    error: str = ""


class FilesPersistedMessage(SystemModel):
    """Files were uploaded."""

    subtype: ClassVar[Literal["files_persisted"]] = "files_persisted"
    files: list[PersistedFile] = field(default_factory=list)
    failed: list[FailedFile] = field(default_factory=list)
    processed_at: str = ""
    """ISO 8601."""


class RecalledMemory(WireModel):
    """A memory added to the conversation."""

    path: str
    scope: Open[Literal["personal", "team", "organization"]]
    content: str | None = None


class MemoryRecallMessage(SystemModel):
    """Memories were added to the conversation."""

    subtype: ClassVar[Literal["memory_recall"]] = "memory_recall"
    mode: Open[Literal["select", "synthesize"]]
    memories: list[RecalledMemory] = field(default_factory=list)


class PluginInstallMessage(SystemModel):
    """Progress of the installation of plugins."""

    subtype: ClassVar[Literal["plugin_install"]] = "plugin_install"
    status: Open[Literal["started", "installed", "failed", "completed"]]
    name: str | None = None
    error: str | None = None


# Other types ---------------------------------------------------------------------------------------------------------


class ToolUseSummaryMessage(MessageModel):
    """A one-line summary of the preceding tool calls."""

    type: ClassVar[Literal["tool_use_summary"]] = "tool_use_summary"
    summary: str
    preceding_tool_use_ids: list[str] = field(default_factory=list)


class AuthStatusMessage(MessageModel):
    """Progress of a login."""

    type: ClassVar[Literal["auth_status"]] = "auth_status"
    is_authenticating: bool = field(default=False, name="isAuthenticating")
    output: list[str] = field(default_factory=list)
    error: str | None = None


class PromptSuggestionMessage(MessageModel):
    """A suggestion for the next prompt. Sent after the result, at most once a turn."""

    type: ClassVar[Literal["prompt_suggestion"]] = "prompt_suggestion"
    suggestion: str


class ConversationResetMessage(MessageModel):
    """The conversation was reset, for example by `/clear`. The session's id changes."""

    type: ClassVar[Literal["conversation_reset"]] = "conversation_reset"
    new_conversation_id: str
    trigger: Open[Literal["clear", "plan_mode_exit", "fresh_session", "onboarding"]] | None = None
    user_message_uuid: str | None = None
    timestamp: str | None = None
    """ISO 8601."""


class ActiveGoal(WireModel):
    """A condition that the agent works toward."""

    condition: str
    iterations: Number = 0
    set_at: Number = 0
    tokens_at_start: Number = 0
    last_reason: str | None = None


class ActiveGoalMessage(MessageModel):
    """The agent's goal changed or, if `value` is None, was removed."""

    type: ClassVar[Literal["active_goal"]] = "active_goal"
    value: ActiveGoal | None = None


class RateLimitMessage(MessageModel):
    """A rate limit of the subscription changed. Not sent for API keys."""

    type: ClassVar[Literal["rate_limit_event"]] = "rate_limit_event"
    rate_limit_info: RateLimitInfo


class TranscriptMirrorMessage(MessageModel):
    """Entries that the CLI wrote to the transcript (`--session-mirror`). One more may follow the result."""

    type: ClassVar[Literal["transcript_mirror"]] = "transcript_mirror"
    file_path: str = field(name="filePath")
    entries: list[JSONObject] = field(default_factory=list)
