"""What a hook is told: one model for each event, and `parse_hook_input`, which never fails.

An event that this version does not know, or a known one of another shape, becomes an `UnknownHookInput` with all its
fields. The twin is `outputs`, what a hook may answer.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, ValidationError

from claude_agent_py.wire.asks import MCPServerProvenance
from claude_agent_py.wire.base import Number, TaggedModel, WireModel
from claude_agent_py.wire.permissions import PermissionUpdate
from claude_agent_py.wire.tools.registry import typed_input, typed_output


class HookEffort(WireModel):
    """The effort of the turn, as it is after what the model supports was considered."""

    level: str


class BackgroundTaskSummary(WireModel):
    """A background task that is under way."""

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
    """A prompt that will wake the session by the clock."""

    id: str
    schedule: str = ""
    recurring: bool = False
    prompt: str = ""


class HookInput(TaggedModel):
    """What every hook is told."""

    hook_event_name: Any = ""
    """The name of the event; the models of the events say which."""
    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    prompt_id: str | None = None
    """The prompt that all events until the next prompt belong to."""
    permission_mode: str | None = None
    agent_id: str | None = None
    """The subagent that it happens in; None in the main agent."""
    agent_type: str | None = None
    effort: HookEffort | None = None


class UnknownHookInput(HookInput):
    """An event, or a shape of one, that this version does not know. Its other fields are in `model_extra`."""

    hook_event_name: str = ""


class _ToolHookInput(HookInput):
    tool_name: str
    tool_input: Any = None
    """As the model wrote it; `typed_input()` gives it typed."""
    mcp_server: MCPServerProvenance | None = None
    """Which MCP server it belongs to. Trust its `source`: the name of a configured server is anyone's text."""

    def typed_input(self) -> BaseModel | Any:
        """Give the tool's input as its model (`BashInput`, ...); as it is where there is none that it fits."""
        return typed_input(self.tool_name, self.tool_input)


class PreToolUseInput(_ToolHookInput):
    """A tool is about to run."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PreToolUse"}
    hook_event_name: Literal["PreToolUse"] = "PreToolUse"
    tool_use_id: str = ""


class PostToolUseInput(_ToolHookInput):
    """A tool has succeeded."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PostToolUse"}
    hook_event_name: Literal["PostToolUse"] = "PostToolUse"
    tool_use_id: str = ""
    tool_response: Any = None
    """The tool's output, structured; `typed_output()` gives it typed."""
    duration_ms: Number | None = None

    def typed_output(self) -> Any:
        """Give the tool's output as its model (`BashOutput`, ...); as it is where there is none that it fits."""
        return typed_output(self.tool_name, self.tool_response)


class PostToolUseFailureInput(_ToolHookInput):
    """A tool has failed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PostToolUseFailure"}
    hook_event_name: Literal["PostToolUseFailure"] = "PostToolUseFailure"
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
    """What the model sees of the output: text, mostly."""

    def typed_input(self) -> BaseModel | Any:
        """Give the tool's input as its model; as it is where there is none that it fits."""
        return typed_input(self.tool_name, self.tool_input)


class PostToolBatchInput(HookInput):
    """All tool calls of one message are over."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PostToolBatch"}
    hook_event_name: Literal["PostToolBatch"] = "PostToolBatch"
    tool_calls: list[PostToolBatchToolCall] = Field(default_factory=list)


class PermissionRequestInput(_ToolHookInput):
    """A permission prompt is due."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PermissionRequest"}
    hook_event_name: Literal["PermissionRequest"] = "PermissionRequest"
    permission_suggestions: list[PermissionUpdate] | None = None


class PermissionDeniedInput(_ToolHookInput):
    """The classifier has denied a call."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PermissionDenied"}
    hook_event_name: Literal["PermissionDenied"] = "PermissionDenied"
    tool_use_id: str = ""
    reason: str = ""


class NotificationInput(HookInput):
    """The user would be notified."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "Notification"}
    hook_event_name: Literal["Notification"] = "Notification"
    message: str
    title: str | None = None
    notification_type: str = ""


class UserPromptSubmitInput(HookInput):
    """A prompt is about to be sent."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "UserPromptSubmit"}
    hook_event_name: Literal["UserPromptSubmit"] = "UserPromptSubmit"
    prompt: str
    source: Literal["user", "sdk", "system", "loop_wakeup", "schedule_wakeup", "poll_event"] | str | None = None
    session_title: str | None = None


class UserPromptExpansionInput(HookInput):
    """A slash command or an MCP prompt is about to become a prompt."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "UserPromptExpansion"}
    hook_event_name: Literal["UserPromptExpansion"] = "UserPromptExpansion"
    expansion_type: Literal["slash_command", "mcp_prompt"] | str = ""
    command_name: str
    command_args: str = ""
    command_source: str | None = None
    prompt: str = ""


class SessionStartInput(HookInput):
    """A session has begun."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "SessionStart"}
    hook_event_name: Literal["SessionStart"] = "SessionStart"
    source: Literal["startup", "resume", "clear", "compact", "fork"] | str
    model: str | None = None
    session_title: str | None = None
    seconds_since_last_response: Number | None = None
    context_tokens: int | None = None
    prompt_cache_likely_expired: bool | None = None
    estimated_cache_write_usd: Number | None = None


class SessionEndInput(HookInput):
    """A session is over."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "SessionEnd"}
    hook_event_name: Literal["SessionEnd"] = "SessionEnd"
    reason: Literal["clear", "resume", "logout", "prompt_input_exit", "other"] | str


class SetupInput(HookInput):
    """A project is being prepared."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "Setup"}
    hook_event_name: Literal["Setup"] = "Setup"
    trigger: Literal["init", "maintenance"] | str


class StopInput(HookInput):
    """The main agent would stop."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "Stop"}
    hook_event_name: Literal["Stop"] = "Stop"
    stop_hook_active: bool = False
    """Whether it goes on only because a hook blocked it before: stop blocking then, in most cases."""
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] | None = None
    session_crons: list[SessionCronSummary] | None = None


class StopFailureInput(HookInput):
    """The main agent stopped because the API failed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "StopFailure"}
    hook_event_name: Literal["StopFailure"] = "StopFailure"
    error: str
    error_details: str | None = None
    last_assistant_message: str | None = None


class SubagentStartInput(HookInput):
    """A subagent has begun. `agent_id` is the id of its task."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "SubagentStart"}
    hook_event_name: Literal["SubagentStart"] = "SubagentStart"
    agent_id: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - always there
    agent_type: str = ""  # pyright: ignore[reportIncompatibleVariableOverride] - always there


class SubagentStopInput(HookInput):
    """A subagent would stop. `agent_id` is the id of its task."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "SubagentStop"}
    hook_event_name: Literal["SubagentStop"] = "SubagentStop"
    agent_id: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - always there
    agent_type: str = ""  # pyright: ignore[reportIncompatibleVariableOverride] - always there
    """Empty for the CLI's own helpers, during compaction for example."""
    agent_transcript_path: str = ""
    stop_hook_active: bool = False
    """Whether it goes on only because a hook blocked it before."""
    last_assistant_message: str | None = None
    background_tasks: list[BackgroundTaskSummary] | None = None
    session_crons: list[SessionCronSummary] | None = None


class PreCompactInput(HookInput):
    """The conversation is about to be compacted."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PreCompact"}
    hook_event_name: Literal["PreCompact"] = "PreCompact"
    trigger: Literal["manual", "auto"] | str
    custom_instructions: str | None = None


class PostCompactInput(HookInput):
    """The conversation was compacted."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PostCompact"}
    hook_event_name: Literal["PostCompact"] = "PostCompact"
    trigger: Literal["manual", "auto"] | str
    compact_summary: str = ""


class _ModelSwitchInput(HookInput):
    from_model: str
    to_model: str
    requested_model: str | None = None
    """What was asked for: an alias, an id, or None for the default."""
    source: Literal["command", "picker", "sdk", "auto", "resume"] | str = ""
    context_tokens: int = 0
    """How many tokens the next request sends again."""
    prompt_cache_warm: bool = False
    cache_ttl: Literal["5m", "1h"] | str = ""
    estimated_cache_write_usd: Number = 0
    pricing: Literal["configured", "catalog", "default"] | str = ""


class PreModelSwitchInput(_ModelSwitchInput):
    """Another model is about to be used."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PreModelSwitch"}
    hook_event_name: Literal["PreModelSwitch"] = "PreModelSwitch"


class PostModelSwitchInput(_ModelSwitchInput):
    """Another model is used."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "PostModelSwitch"}
    hook_event_name: Literal["PostModelSwitch"] = "PostModelSwitch"


class TeammateIdleInput(HookInput):
    """A member of an agent team has nothing to do."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "TeammateIdle"}
    hook_event_name: Literal["TeammateIdle"] = "TeammateIdle"
    teammate_name: str
    team_name: str | None = None
    """Deprecated."""


class _ListItemInput(HookInput):
    task_id: str
    """The number of the item in the to-do list; no background task."""
    task_subject: str = ""
    task_description: str | None = None
    teammate_name: str | None = None
    team_name: str | None = None
    """Deprecated."""


class TaskCreatedInput(_ListItemInput):
    """An item is about to be added to the to-do list."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "TaskCreated"}
    hook_event_name: Literal["TaskCreated"] = "TaskCreated"


class TaskCompletedInput(_ListItemInput):
    """An item of the to-do list is done."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "TaskCompleted"}
    hook_event_name: Literal["TaskCompleted"] = "TaskCompleted"


class ElicitationInput(HookInput):
    """An MCP server asks something."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "Elicitation"}
    hook_event_name: Literal["Elicitation"] = "Elicitation"
    mcp_server_name: str
    message: str = ""
    mode: Literal["form", "url"] | str | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema: dict[str, Any] | None = None


class ElicitationResultInput(HookInput):
    """The answer to an MCP server is known."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "ElicitationResult"}
    hook_event_name: Literal["ElicitationResult"] = "ElicitationResult"
    mcp_server_name: str
    action: Literal["accept", "decline", "cancel"] | str
    content: dict[str, Any] | None = None
    mode: Literal["form", "url"] | str | None = None
    elicitation_id: str | None = None


class ConfigChangeInput(HookInput):
    """A settings file has changed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "ConfigChange"}
    hook_event_name: Literal["ConfigChange"] = "ConfigChange"
    source: Literal["user_settings", "project_settings", "local_settings", "policy_settings", "skills"] | str
    file_path: str | None = None


class InstructionsLoadedInput(HookInput):
    """A CLAUDE.md was read."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "InstructionsLoaded"}
    hook_event_name: Literal["InstructionsLoaded"] = "InstructionsLoaded"
    file_path: str
    memory_type: Literal["User", "Project", "Local", "Managed"] | str = ""
    load_reason: Literal["session_start", "nested_traversal", "path_glob_match", "include", "compact"] | str = ""
    globs: list[str] | None = None
    trigger_file_path: str | None = None
    parent_file_path: str | None = None


class WorktreeCreateInput(HookInput):
    """A worktree is to be created, by the hook."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "WorktreeCreate"}
    hook_event_name: Literal["WorktreeCreate"] = "WorktreeCreate"
    name: str


class WorktreeRemoveInput(HookInput):
    """A worktree is to be removed, by the hook."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "WorktreeRemove"}
    hook_event_name: Literal["WorktreeRemove"] = "WorktreeRemove"
    worktree_path: str


class CwdChangedInput(HookInput):
    """The working directory has changed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "CwdChanged"}
    hook_event_name: Literal["CwdChanged"] = "CwdChanged"
    old_cwd: str = ""
    new_cwd: str


class FileChangedInput(HookInput):
    """A watched file has changed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "FileChanged"}
    hook_event_name: Literal["FileChanged"] = "FileChanged"
    file_path: str
    event: Literal["change", "add", "unlink"] | str = "change"


class DirectoryAddedInput(HookInput):
    """A working directory was added."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "DirectoryAdded"}
    hook_event_name: Literal["DirectoryAdded"] = "DirectoryAdded"
    directory: str
    source: Literal["slash_command", "register_repo_root"] | str = ""


class MessageDisplayInput(HookInput):
    """A piece of an answer's text is complete."""

    TAGS: ClassVar[Mapping[str, Any]] = {"hook_event_name": "MessageDisplay"}
    hook_event_name: Literal["MessageDisplay"] = "MessageDisplay"
    turn_id: str = ""
    message_id: str = ""
    index: int = 0
    final: bool = False
    delta: str


_ALL: tuple[type[HookInput], ...] = (
    PreToolUseInput,
    PostToolUseInput,
    PostToolUseFailureInput,
    PostToolBatchInput,
    NotificationInput,
    UserPromptSubmitInput,
    UserPromptExpansionInput,
    SessionStartInput,
    SessionEndInput,
    StopInput,
    StopFailureInput,
    SubagentStartInput,
    SubagentStopInput,
    PreCompactInput,
    PostCompactInput,
    PreModelSwitchInput,
    PostModelSwitchInput,
    PermissionRequestInput,
    PermissionDeniedInput,
    SetupInput,
    TeammateIdleInput,
    TaskCreatedInput,
    TaskCompletedInput,
    ElicitationInput,
    ElicitationResultInput,
    ConfigChangeInput,
    WorktreeCreateInput,
    WorktreeRemoveInput,
    InstructionsLoadedInput,
    CwdChangedInput,
    FileChangedInput,
    DirectoryAddedInput,
    MessageDisplayInput,
)

HOOK_INPUTS: Mapping[str, type[HookInput]] = {str(model.TAGS["hook_event_name"]): model for model in _ALL}
"""The input model of each event."""


def parse_hook_input(data: Mapping[str, Any]) -> HookInput:
    """Give the typed input of a hook. Never fails: what fits no model becomes an `UnknownHookInput`."""
    model = HOOK_INPUTS.get(str(data.get("hook_event_name")), UnknownHookInput)
    try:
        return model.model_validate(data)
    except ValidationError:
        return _unknown(data)


def _unknown(data: Mapping[str, Any]) -> UnknownHookInput:
    try:
        return UnknownHookInput.model_validate(data)
    except ValidationError:  # a common field has another type: keep it all the same
        return UnknownHookInput.model_construct(_fields_set=set(data), **data)
