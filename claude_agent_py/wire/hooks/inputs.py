"""Input models of the hook events.

An unknown event, or a known event with invalid fields, becomes an `UnknownHookInput`.
"""

from typing import Any, ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import FrameModel, JSONObject, Number, Open, WireModel
from claude_agent_py.wire.control.asks import MCPServerProvenance
from claude_agent_py.wire.control.permissions import PermissionUpdate
from claude_agent_py.wire.tools.registry import typed_input, typed_output


class HookEffort(WireModel):
    """The effort level of the turn, limited to what the model supports."""

    level: str


class BackgroundTaskSummary(WireModel):
    """A running background task."""

    id: str
    type: str = ""
    """`shell`, `subagent`, `monitor`, `workflow`, ..."""
    status: str = ""
    description: str = ""
    command: str | None = None
    agent_type: str | None = None
    server: str | None = None
    tool: str | None = None
    name: str | None = None


class SessionCronSummary(WireModel):
    """A scheduled prompt of the session."""

    id: str
    schedule: str = ""
    recurring: bool = False
    prompt: str = ""


class HookInput(FrameModel):
    """Base of all hook inputs."""

    hook_event_name: ClassVar[str]
    """Name of the event."""

    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    prompt_id: str | None = None
    """Id of the prompt, the same for all events until the next prompt."""
    permission_mode: str | None = None
    agent_id: str | None = None
    """Id of the subagent in which the event happened; None in the main agent."""
    agent_type: str | None = None
    effort: HookEffort | None = None


class UnknownHookInput(HookInput):
    """An unknown event, or a known event with invalid fields. All fields are in `raw`."""

    @property
    def hook_event_name(self) -> str:  # type: ignore[override]
        """Name of the event."""
        return str(self.raw.get("hook_event_name", ""))


class _ToolHookInput(HookInput):
    tool_name: str
    tool_input: Any = None
    """The input as the model wrote it; see `typed_input()`."""
    mcp_server: MCPServerProvenance | None = None
    """The MCP server that provides the tool. Rely on its `source`, not its `name`: users choose names freely."""

    def typed_input(self) -> WireModel | Any:
        """Return the tool's input as its model (`BashInput`, ...), or unchanged if no model matches it."""
        return typed_input(self.tool_name, self.tool_input)


class PreToolUseInput(_ToolHookInput):
    """A tool is about to run."""

    hook_event_name: ClassVar[Literal["PreToolUse"]] = "PreToolUse"
    tool_use_id: str = ""


class PostToolUseInput(_ToolHookInput):
    """A tool succeeded."""

    hook_event_name: ClassVar[Literal["PostToolUse"]] = "PostToolUse"
    tool_use_id: str = ""
    tool_response: Any = None
    """The tool's structured output; see `typed_output()`."""
    duration_ms: Number | None = None

    def typed_output(self) -> Any:
        """Return the tool's output as its model (`BashOutput`, ...), or unchanged if no model matches it."""
        return typed_output(self.tool_name, self.tool_response)


class PostToolUseFailureInput(_ToolHookInput):
    """A tool failed."""

    hook_event_name: ClassVar[Literal["PostToolUseFailure"]] = "PostToolUseFailure"
    tool_use_id: str = ""
    error: str = ""
    is_interrupt: bool | None = None
    duration_ms: Number | None = None


class PostToolBatchToolCall(WireModel):
    """One call of a batch."""

    tool_name: str
    tool_input: Any = None
    tool_use_id: str = ""
    tool_response: Any = None
    """The output as the model sees it, mostly text."""

    def typed_input(self) -> WireModel | Any:
        """Return the tool's input as its model, or unchanged if no model matches it."""
        return typed_input(self.tool_name, self.tool_input)


class PostToolBatchInput(HookInput):
    """All tool calls of a message finished."""

    hook_event_name: ClassVar[Literal["PostToolBatch"]] = "PostToolBatch"
    tool_calls: list[PostToolBatchToolCall] = field(default_factory=list)


class PermissionRequestInput(_ToolHookInput):
    """A permission prompt is about to be shown."""

    hook_event_name: ClassVar[Literal["PermissionRequest"]] = "PermissionRequest"
    permission_suggestions: list[PermissionUpdate] | None = None


class PermissionDeniedInput(_ToolHookInput):
    """The classifier denied a tool call."""

    hook_event_name: ClassVar[Literal["PermissionDenied"]] = "PermissionDenied"
    tool_use_id: str = ""
    reason: str = ""


class NotificationInput(HookInput):
    """The user is about to be notified."""

    hook_event_name: ClassVar[Literal["Notification"]] = "Notification"
    message: str
    title: str | None = None
    notification_type: str = ""


class UserPromptSubmitInput(HookInput):
    """A prompt is about to be sent to the model."""

    hook_event_name: ClassVar[Literal["UserPromptSubmit"]] = "UserPromptSubmit"
    prompt: str
    source: Open[Literal["user", "sdk", "system", "loop_wakeup", "schedule_wakeup", "poll_event"]] | None = None
    session_title: str | None = None


class UserPromptExpansionInput(HookInput):
    """A slash command or an MCP prompt is about to become a prompt."""

    hook_event_name: ClassVar[Literal["UserPromptExpansion"]] = "UserPromptExpansion"
    expansion_type: Open[Literal["slash_command", "mcp_prompt"]] = ""
    command_name: str
    command_args: str = ""
    command_source: str | None = None
    prompt: str = ""


class SessionStartInput(HookInput):
    """A session started."""

    hook_event_name: ClassVar[Literal["SessionStart"]] = "SessionStart"
    source: Open[Literal["startup", "resume", "clear", "compact", "fork"]]
    model: str | None = None
    session_title: str | None = None
    seconds_since_last_response: Number | None = None
    context_tokens: int | None = None
    prompt_cache_likely_expired: bool | None = None
    estimated_cache_write_usd: Number | None = None


class SessionEndInput(HookInput):
    """A session ended."""

    hook_event_name: ClassVar[Literal["SessionEnd"]] = "SessionEnd"
    reason: Open[Literal["clear", "resume", "logout", "prompt_input_exit", "other"]]


class SetupInput(HookInput):
    """A project is being prepared."""

    hook_event_name: ClassVar[Literal["Setup"]] = "Setup"
    trigger: Open[Literal["init", "maintenance"]]


class StopInput(HookInput):
    """The main agent is about to stop."""

    hook_event_name: ClassVar[Literal["Stop"]] = "Stop"
    stop_hook_active: bool = False
    """Whether a hook has already blocked this stop. Most hooks should not block it again."""
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] | None = None
    session_crons: list[SessionCronSummary] | None = None


class StopFailureInput(HookInput):
    """The main agent stopped because the API failed."""

    hook_event_name: ClassVar[Literal["StopFailure"]] = "StopFailure"
    error: str
    error_details: str | None = None
    last_assistant_message: str | None = None


class SubagentStartInput(HookInput):
    """A subagent started. `agent_id` is its task id."""

    hook_event_name: ClassVar[Literal["SubagentStart"]] = "SubagentStart"
    agent_id: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - always there
    agent_type: str = ""  # pyright: ignore[reportIncompatibleVariableOverride] - always there


class SubagentStopInput(HookInput):
    """A subagent is about to stop. `agent_id` is its task id."""

    hook_event_name: ClassVar[Literal["SubagentStop"]] = "SubagentStop"
    agent_id: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - always there
    agent_type: str = ""  # pyright: ignore[reportIncompatibleVariableOverride] - always there
    """Empty for the CLI's internal agents, for example during compaction."""
    agent_transcript_path: str = ""
    stop_hook_active: bool = False
    """Whether a hook has already blocked this stop."""
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] | None = None
    session_crons: list[SessionCronSummary] | None = None


class PreCompactInput(HookInput):
    """The conversation is about to be compacted."""

    hook_event_name: ClassVar[Literal["PreCompact"]] = "PreCompact"
    trigger: Open[Literal["manual", "auto"]]
    custom_instructions: str | None = None


class PostCompactInput(HookInput):
    """The conversation was compacted."""

    hook_event_name: ClassVar[Literal["PostCompact"]] = "PostCompact"
    trigger: Open[Literal["manual", "auto"]]
    compact_summary: str = ""


class _ModelSwitchInput(HookInput):
    from_model: str
    to_model: str
    requested_model: str | None = None
    """The requested alias or model id; None for the default."""
    source: Open[Literal["command", "picker", "sdk", "auto", "resume"]] = ""
    context_tokens: int = 0
    """Tokens that the next request sends again."""
    prompt_cache_warm: bool = False
    cache_ttl: Open[Literal["5m", "1h"]] = ""
    estimated_cache_write_usd: Number = 0
    pricing: Open[Literal["configured", "catalog", "default"]] = ""


class PreModelSwitchInput(_ModelSwitchInput):
    """The model is about to change."""

    hook_event_name: ClassVar[Literal["PreModelSwitch"]] = "PreModelSwitch"


class PostModelSwitchInput(_ModelSwitchInput):
    """The model changed."""

    hook_event_name: ClassVar[Literal["PostModelSwitch"]] = "PostModelSwitch"


class TeammateIdleInput(HookInput):
    """A member of an agent team became idle."""

    hook_event_name: ClassVar[Literal["TeammateIdle"]] = "TeammateIdle"
    teammate_name: str
    team_name: str | None = None
    """Deprecated."""


class _ListItemInput(HookInput):
    task_id: str
    """Id of the item in the to-do list, not of a background task."""
    task_subject: str = ""
    task_description: str | None = None
    teammate_name: str | None = None
    team_name: str | None = None
    """Deprecated."""


class TaskCreatedInput(_ListItemInput):
    """An item is about to be added to the to-do list."""

    hook_event_name: ClassVar[Literal["TaskCreated"]] = "TaskCreated"


class TaskCompletedInput(_ListItemInput):
    """An item of the to-do list is done."""

    hook_event_name: ClassVar[Literal["TaskCompleted"]] = "TaskCompleted"


class ElicitationInput(HookInput):
    """An MCP server's question is about to be asked."""

    hook_event_name: ClassVar[Literal["Elicitation"]] = "Elicitation"
    mcp_server_name: str
    message: str = ""
    mode: Open[Literal["form", "url"]] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema: JSONObject | None = None


class ElicitationResultInput(HookInput):
    """The answer to an MCP server's question is about to be sent."""

    hook_event_name: ClassVar[Literal["ElicitationResult"]] = "ElicitationResult"
    mcp_server_name: str
    action: Open[Literal["accept", "decline", "cancel"]]
    content: JSONObject | None = None
    mode: Open[Literal["form", "url"]] | None = None
    elicitation_id: str | None = None


class ConfigChangeInput(HookInput):
    """A settings file changed."""

    hook_event_name: ClassVar[Literal["ConfigChange"]] = "ConfigChange"
    source: Open[Literal["user_settings", "project_settings", "local_settings", "policy_settings", "skills"]]
    file_path: str | None = None


class InstructionsLoadedInput(HookInput):
    """A CLAUDE.md was read."""

    hook_event_name: ClassVar[Literal["InstructionsLoaded"]] = "InstructionsLoaded"
    file_path: str
    memory_type: Open[Literal["User", "Project", "Local", "Managed"]] = ""
    load_reason: Open[Literal["session_start", "nested_traversal", "path_glob_match", "include", "compact"]] = ""
    globs: list[str] | None = None
    trigger_file_path: str | None = None
    parent_file_path: str | None = None


class WorktreeCreateInput(HookInput):
    """The hook must create a worktree."""

    hook_event_name: ClassVar[Literal["WorktreeCreate"]] = "WorktreeCreate"
    name: str


class WorktreeRemoveInput(HookInput):
    """The hook must remove a worktree."""

    hook_event_name: ClassVar[Literal["WorktreeRemove"]] = "WorktreeRemove"
    worktree_path: str


class CwdChangedInput(HookInput):
    """The working directory changed."""

    hook_event_name: ClassVar[Literal["CwdChanged"]] = "CwdChanged"
    old_cwd: str = ""
    new_cwd: str


class FileChangedInput(HookInput):
    """A watched file changed."""

    hook_event_name: ClassVar[Literal["FileChanged"]] = "FileChanged"
    file_path: str
    event: Open[Literal["change", "add", "unlink"]] = "change"


class DirectoryAddedInput(HookInput):
    """A working directory was added."""

    hook_event_name: ClassVar[Literal["DirectoryAdded"]] = "DirectoryAdded"
    directory: str
    source: Open[Literal["slash_command", "register_repo_root"]] = ""


class MessageDisplayInput(HookInput):
    """A chunk of the reply is complete."""

    hook_event_name: ClassVar[Literal["MessageDisplay"]] = "MessageDisplay"
    turn_id: str = ""
    message_id: str = ""
    index: int = 0
    final: bool = False
    delta: str
