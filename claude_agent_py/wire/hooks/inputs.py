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


class HookInput(FrameModel, tag_field="hook_event_name"):
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


class UnknownHookInput(HookInput, tag=False):
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


class PreToolUseInput(_ToolHookInput, tag="PreToolUse"):
    """A tool is about to run."""

    tool_use_id: str = ""


class PostToolUseInput(_ToolHookInput, tag="PostToolUse"):
    """A tool succeeded."""

    tool_use_id: str = ""
    tool_response: Any = None
    """The tool's structured output; see `typed_output()`."""
    duration_ms: Number | None = None

    def typed_output(self) -> Any:
        """Return the tool's output as its model (`BashOutput`, ...), or unchanged if no model matches it."""
        return typed_output(self.tool_name, self.tool_response)


class PostToolUseFailureInput(_ToolHookInput, tag="PostToolUseFailure"):
    """A tool failed."""

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


class PostToolBatchInput(HookInput, tag="PostToolBatch"):
    """All tool calls of a message finished."""

    tool_calls: list[PostToolBatchToolCall] = field(default_factory=list)


class PermissionRequestInput(_ToolHookInput, tag="PermissionRequest"):
    """A permission prompt is about to be shown."""

    permission_suggestions: list[PermissionUpdate] | None = None


class PermissionDeniedInput(_ToolHookInput, tag="PermissionDenied"):
    """The classifier denied a tool call."""

    tool_use_id: str = ""
    reason: str = ""


class NotificationInput(HookInput, tag="Notification"):
    """The user is about to be notified."""

    message: str
    title: str | None = None
    notification_type: str = ""


class UserPromptSubmitInput(HookInput, tag="UserPromptSubmit"):
    """A prompt is about to be sent to the model."""

    prompt: str
    source: Open[Literal["user", "sdk", "system", "loop_wakeup", "schedule_wakeup", "poll_event"]] | None = None
    session_title: str | None = None


class UserPromptExpansionInput(HookInput, tag="UserPromptExpansion"):
    """A slash command or an MCP prompt is about to become a prompt."""

    expansion_type: Open[Literal["slash_command", "mcp_prompt"]] = ""
    command_name: str
    command_args: str = ""
    command_source: str | None = None
    prompt: str = ""


class SessionStartInput(HookInput, tag="SessionStart"):
    """A session started."""

    source: Open[Literal["startup", "resume", "clear", "compact", "fork"]]
    model: str | None = None
    session_title: str | None = None
    seconds_since_last_response: Number | None = None
    context_tokens: int | None = None
    prompt_cache_likely_expired: bool | None = None
    estimated_cache_write_usd: Number | None = None


class SessionEndInput(HookInput, tag="SessionEnd"):
    """A session ended."""

    reason: Open[Literal["clear", "resume", "logout", "prompt_input_exit", "other"]]


class SetupInput(HookInput, tag="Setup"):
    """A project is being prepared."""

    trigger: Open[Literal["init", "maintenance"]]


class _StopInput(HookInput):
    stop_hook_active: bool = False
    """Whether a hook has already blocked this stop. Most hooks should not block it again."""
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] | None = None
    session_crons: list[SessionCronSummary] | None = None


class StopInput(_StopInput, tag="Stop"):
    """The main agent is about to stop."""


class StopFailureInput(HookInput, tag="StopFailure"):
    """The main agent stopped because the API failed."""

    error: str
    error_details: str | None = None
    last_assistant_message: str | None = None


class SubagentStartInput(HookInput, tag="SubagentStart"):
    """A subagent started. `agent_id` is its task id."""

    agent_id: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - always there
    agent_type: str = ""  # pyright: ignore[reportIncompatibleVariableOverride] - always there


class SubagentStopInput(_StopInput, tag="SubagentStop"):
    """A subagent is about to stop. `agent_id` is its task id."""

    agent_id: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - always there
    agent_type: str = ""  # pyright: ignore[reportIncompatibleVariableOverride] - always there
    """Empty for the CLI's internal agents, for example during compaction."""
    agent_transcript_path: str = ""


class PreCompactInput(HookInput, tag="PreCompact"):
    """The conversation is about to be compacted."""

    trigger: Open[Literal["manual", "auto"]]
    custom_instructions: str | None = None


class PostCompactInput(HookInput, tag="PostCompact"):
    """The conversation was compacted."""

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


class PreModelSwitchInput(_ModelSwitchInput, tag="PreModelSwitch"):
    """The model is about to change."""


class PostModelSwitchInput(_ModelSwitchInput, tag="PostModelSwitch"):
    """The model changed."""


class TeammateIdleInput(HookInput, tag="TeammateIdle"):
    """A member of an agent team became idle."""

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


class TaskCreatedInput(_ListItemInput, tag="TaskCreated"):
    """An item is about to be added to the to-do list."""


class TaskCompletedInput(_ListItemInput, tag="TaskCompleted"):
    """An item of the to-do list is done."""


class ElicitationInput(HookInput, tag="Elicitation"):
    """An MCP server's question is about to be asked."""

    mcp_server_name: str
    message: str = ""
    mode: Open[Literal["form", "url"]] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema: JSONObject | None = None


class ElicitationResultInput(HookInput, tag="ElicitationResult"):
    """The answer to an MCP server's question is about to be sent."""

    mcp_server_name: str
    action: Open[Literal["accept", "decline", "cancel"]]
    content: JSONObject | None = None
    mode: Open[Literal["form", "url"]] | None = None
    elicitation_id: str | None = None


class ConfigChangeInput(HookInput, tag="ConfigChange"):
    """A settings file changed."""

    source: Open[Literal["user_settings", "project_settings", "local_settings", "policy_settings", "skills"]]
    file_path: str | None = None


class InstructionsLoadedInput(HookInput, tag="InstructionsLoaded"):
    """A CLAUDE.md was read."""

    file_path: str
    memory_type: Open[Literal["User", "Project", "Local", "Managed"]] = ""
    load_reason: Open[Literal["session_start", "nested_traversal", "path_glob_match", "include", "compact"]] = ""
    globs: list[str] | None = None
    trigger_file_path: str | None = None
    parent_file_path: str | None = None


class WorktreeCreateInput(HookInput, tag="WorktreeCreate"):
    """The hook must create a worktree."""

    name: str


class WorktreeRemoveInput(HookInput, tag="WorktreeRemove"):
    """The hook must remove a worktree."""

    worktree_path: str


class CwdChangedInput(HookInput, tag="CwdChanged"):
    """The working directory changed."""

    old_cwd: str = ""
    new_cwd: str


class FileChangedInput(HookInput, tag="FileChanged"):
    """A watched file changed."""

    file_path: str
    event: Open[Literal["change", "add", "unlink"]] = "change"


class DirectoryAddedInput(HookInput, tag="DirectoryAdded"):
    """A working directory was added."""

    directory: str
    source: Open[Literal["slash_command", "register_repo_root"]] = ""


class MessageDisplayInput(HookInput, tag="MessageDisplay"):
    """A chunk of the reply is complete."""

    turn_id: str = ""
    message_id: str = ""
    index: int = 0
    final: bool = False
    delta: str


class PreSkillShellCommandInput(_ToolHookInput, tag="PreSkillShellCommand"):
    """A shell command in the text of a skill or command is about to run.

    `tool_name` is `Bash` or `PowerShell`, and `tool_input` has one key, `command`, with the arguments filled in.
    """

    tool_use_id: str = ""
    """Identifies the command; it is not a tool call of the conversation."""
    command_name: str = ""
    """The skill or command whose text contains the shell command."""
    command_source: str | None = None
    invoked_by: Open[Literal["user", "claude", "other"]] = ""
    """`user`: a prompt. `claude`: the model, by the tool Skill. `other`: for example a subagent's preloaded skill."""
