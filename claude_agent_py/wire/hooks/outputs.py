"""Output models of the hook events.

The models are flat; `to_wire` moves the fields of an event into `hookSpecificOutput`. Unknown fields raise an error:
the CLI would ignore them, so that a misspelled denial would allow the call.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from claude_agent_py.wire.base import JSONObject, Number, WireModel, dump
from claude_agent_py.wire.control.permissions import PermissionUpdate


def _plain(value: object) -> object:
    if isinstance(value, WireModel):
        return dump(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return value


if TYPE_CHECKING:
    ToolInputValue: TypeAlias = Mapping[str, object] | WireModel | BaseModel | None
    """A tool's input as a dict or as its model, which is converted to a dict."""
else:
    ToolInputValue = Annotated[JSONObject | None, BeforeValidator(_plain)]


class HookOutput(BaseModel):
    """Base of all hook outputs, with the fields common to all events. An empty output changes nothing."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, populate_by_name=True, alias_generator=to_camel
    )

    EVENT: ClassVar[str | None] = None
    """The event that the output belongs to; None for any event."""

    continue_: bool | None = Field(default=None, validation_alias="continue", serialization_alias="continue")
    """False ends the turn. The CLI would still run the tool of a PreToolUse event, so an output without a permission
    decision also denies it."""
    stop_reason: str | None = None
    suppress_output: bool | None = None
    system_message: str | None = None
    """Shown to the user, not to the model."""
    terminal_sequence: str | None = None
    decision: Literal["approve", "block"] | None = None
    """`block` blocks the operation; for Stop and SubagentStop it makes the agent continue with `reason`."""
    reason: str | None = None

    def __init_subclass__(cls, event: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.EVENT = event or cls.EVENT

    def to_wire(self) -> JSONObject:
        """Return the output as the CLI expects it."""
        outer: JSONObject = {}
        specific: JSONObject = {}
        serializer = self.__pydantic_serializer__  # `model_dump` takes twice as long
        for name, value in serializer.to_python(self, mode="json", by_alias=True, exclude_none=True).items():
            (outer if name in _COMMON else specific)[name] = value
        if specific:
            outer["hookSpecificOutput"] = {"hookEventName": self.EVENT, **self._nest(specific)}
        return outer

    def _nest(self, specific: JSONObject) -> JSONObject:
        return specific


_COMMON = frozenset(to_camel(name.removesuffix("_")) for name in HookOutput.model_fields)
"""The fields that stand outside of `hookSpecificOutput`."""


class AsyncHookOutput(BaseModel):
    """An output for hooks that continue in the background: the CLI proceeds without waiting."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, alias_generator=to_camel
    )

    async_timeout: Number | None = None
    """Milliseconds. Has no effect on callbacks in CLI 2.1.328."""

    def to_wire(self) -> JSONObject:
        """Return the output as the CLI expects it."""
        return {"async": True, **self.model_dump(mode="json", by_alias=True, exclude_none=True)}


class _ContextOutput(HookOutput):
    additional_context: str | None = None
    """Text to add to the model's context."""


class PreToolUseOutput(_ContextOutput, event="PreToolUse"):
    """Allow, deny or modify a tool call. The strictest of several hooks wins: deny, then ask, then allow."""

    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    """`allow` runs the tool without a prompt; `ask` prompts; `defer` ends the turn and leaves the call to the host."""
    permission_decision_reason: str | None = None
    """Shown to the model if the call is denied."""
    updated_input: ToolInputValue = None
    """Replaces the tool's input. Unless the decision is `allow`, the permission check uses the new input."""


class PostToolUseOutput(_ContextOutput, event="PostToolUse"):
    """Add context to a tool's output or replace it."""

    classifier_context: str | None = None
    updated_tool_output: Any = None
    """Must have the structure of the tool's output; Bash and Read also accept text. The CLI would ignore anything else,
    so in that case the output is withheld and the error reported."""
    updated_mcp_tool_output: Any = Field(
        default=None, validation_alias="updatedMCPToolOutput", serialization_alias="updatedMCPToolOutput"
    )


class PostToolUseFailureOutput(_ContextOutput, event="PostToolUseFailure"):
    """Add context to a tool's failure."""


class PostToolBatchOutput(_ContextOutput, event="PostToolBatch"):
    """Add context to a batch of tool calls; `decision="block"` ends the turn."""


class NotificationOutput(_ContextOutput, event="Notification"):
    """Add context to a notification."""


class UserPromptSubmitOutput(_ContextOutput, event="UserPromptSubmit"):
    """Add context to a prompt, or block it with `decision="block"`."""

    session_title: str | None = None
    suppress_original_prompt: bool | None = None


class UserPromptExpansionOutput(_ContextOutput, event="UserPromptExpansion"):
    """Add context to an expanded command, or block it with `decision="block"`."""

    suppress_original_prompt: bool | None = None


class SessionStartOutput(_ContextOutput, event="SessionStart"):
    """Set up a new session."""

    initial_user_message: str | None = None
    session_title: str | None = None
    watch_paths: list[str] | None = None
    """Absolute paths to watch; changes are sent as FileChanged."""
    reload_skills: bool | None = None


class SetupOutput(_ContextOutput, event="Setup"):
    """Add context when a project is prepared."""


class StopOutput(_ContextOutput, event="Stop"):
    """Let the main agent stop, or make it continue (`decision="block"` with `reason`, or `additional_context`)."""


class SubagentStartOutput(_ContextOutput, event="SubagentStart"):
    """Add context when a subagent starts. This cannot prevent the start."""


class SubagentStopOutput(_ContextOutput, event="SubagentStop"):
    """Let a subagent stop, or make it continue (`decision="block"` with `reason`, or `additional_context`)."""


class PreCompactOutput(HookOutput, event="PreCompact"):
    """Allow or block (`decision="block"`) a compaction."""


class PreModelSwitchOutput(HookOutput, event="PreModelSwitch"):
    """Allow or deny a change of the model."""

    permission_decision: Literal["allow", "deny", "ask"] | None = None
    permission_decision_reason: str | None = None


class PostModelSwitchOutput(_ContextOutput, event="PostModelSwitch"):
    """Add context for the new model."""


class PermissionRequestOutput(HookOutput, event="PermissionRequest"):
    """Answer a permission prompt, or leave it to the host (`behavior=None`)."""

    behavior: Literal["allow", "deny"] | None = None
    updated_input: ToolInputValue = None
    updated_permissions: list[PermissionUpdate] | None = None
    message: str | None = None
    """The reason for `deny`."""
    interrupt: bool | None = None
    """With `deny`, also ends the turn."""

    def _nest(self, specific: JSONObject) -> JSONObject:
        return {"decision": specific}


class PermissionDeniedOutput(HookOutput, event="PermissionDenied"):
    """Retry a denied call."""

    retry: bool | None = None


class TeammateIdleOutput(HookOutput, event="TeammateIdle"):
    """Keep a teammate busy (`decision="block"` with `reason`)."""


class TaskCreatedOutput(HookOutput, event="TaskCreated"):
    """Allow or block (`decision="block"`) a new item of the to-do list."""


class TaskCompletedOutput(HookOutput, event="TaskCompleted"):
    """Allow or block (`decision="block"`) the completion of a to-do item."""


class _ElicitationAnswer(HookOutput):
    action: Literal["accept", "decline", "cancel"] | None = None
    """CLI 2.1.328 ignores this field and `content` for callbacks: decline with `decision="block"`."""
    content: JSONObject | None = None


class ElicitationOutput(_ElicitationAnswer, event="Elicitation"):
    """Decline an MCP server's question (`decision="block"`)."""


class ElicitationResultOutput(_ElicitationAnswer, event="ElicitationResult"):
    """Replace the user's answer by a refusal (`decision="block"`)."""


class ConfigChangeOutput(HookOutput, event="ConfigChange"):
    """Allow or block (`decision="block"`) changed settings."""


class WorktreeCreateOutput(HookOutput, event="WorktreeCreate"):
    """Return the path of the worktree that the hook created."""

    worktree_path: str


class _WatchOutput(HookOutput):
    watch_paths: list[str] | None = None
    """Absolute paths to watch from now on."""


class CwdChangedOutput(_WatchOutput, event="CwdChanged"):
    """Change the watched paths."""


class FileChangedOutput(_WatchOutput, event="FileChanged"):
    """Change the watched paths."""


class MessageDisplayOutput(HookOutput, event="MessageDisplay"):
    """Change the displayed text of an answer."""

    display_content: str | None = None


class PreSkillShellCommandOutput(HookOutput, event="PreSkillShellCommand"):
    """Keep a shell command in the text of a skill from running.

    A hook cannot change the command: with CLI 2.1.332, any `updated_input` keeps it from running.
    """

    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    """`deny`, `ask` and `defer` all keep the command from running; `allow` adds nothing."""
    permission_decision_reason: str | None = None
    """Replaces the output of the command in the text of the skill."""
