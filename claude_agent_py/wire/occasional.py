"""Documented messages that few sessions see: of hooks, plugins, memory, mirrors, and of what a user interface shows.

Owns those of type `system` that `system` leaves out, and the types of their own that `notices` leaves out. They are
loaded when the first of them comes, and each is built when it comes first: no session's start waits for them. Knows
nothing of what they mean for a run.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from claude_agent_py.wire.base import CamelModel, JSONObject, MessageModel, Number, WireModel
from claude_agent_py.wire.catalog import SlashCommand

# Of type system -------------------------------------------------------------------------------------------------------


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


class ElicitationCompleteMessage(MessageModel):
    """A question of an MCP server, asked through a web page, was answered there."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "elicitation_complete"}

    type: Literal["system"] = "system"
    subtype: Literal["elicitation_complete"] = "elicitation_complete"
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


# Of a type of their own ----------------------------------------------------------------------------------------------


class ToolUseSummaryMessage(MessageModel):
    """One line about the tool calls before it."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "tool_use_summary"}

    type: Literal["tool_use_summary"] = "tool_use_summary"
    summary: str
    preceding_tool_use_ids: list[str] = Field(default_factory=list)


class AuthStatusMessage(MessageModel):
    """How far a login got."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "auth_status"}

    type: Literal["auth_status"] = "auth_status"
    is_authenticating: bool = Field(default=False, alias="isAuthenticating")
    output: list[str] = Field(default_factory=list)
    error: str | None = None


class PromptSuggestionMessage(MessageModel):
    """What the user might say next. It comes after the result, at most once a turn."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "prompt_suggestion"}

    type: Literal["prompt_suggestion"] = "prompt_suggestion"
    suggestion: str


class ConversationResetMessage(MessageModel):
    """The conversation began anew, for example by `/clear`. The session's id changes."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "conversation_reset"}

    type: Literal["conversation_reset"] = "conversation_reset"
    new_conversation_id: str
    trigger: Literal["clear", "plan_mode_exit", "fresh_session", "onboarding"] | str | None = None
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

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "active_goal"}

    type: Literal["active_goal"] = "active_goal"
    value: ActiveGoal | None = None


class AutocompactStateMessage(MessageModel):
    """Whether and when the conversation is compacted by itself."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "autocompact_state"}

    type: Literal["autocompact_state"] = "autocompact_state"
    value: JSONObject
