"""What a hook may answer: one flat model for each event that takes more than the common fields.

On the wire an answer has two levels (`continue` and its like outside, the event's own inside `hookSpecificOutput`,
which must name the event). Here it is flat, and `to_wire` builds the two levels. Unlike the models of what arrives,
these refuse a field that they do not know: the CLI would ignore it, and a guard whose denial is misspelt is open.
The twin is `inputs`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from claude_agent_py.wire.base import JSONObject, Number, WireModel, dump
from claude_agent_py.wire.hooks.events import HOOK_EVENT_FACTS
from claude_agent_py.wire.permissions import PermissionUpdate


def _plain(value: Any) -> Any:
    if isinstance(value, WireModel):
        return dump(value)
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(value, BaseModel) else value


if TYPE_CHECKING:
    ToolInputValue: TypeAlias = Mapping[str, Any] | WireModel | BaseModel | None
else:
    ToolInputValue = Annotated[dict[str, Any] | None, BeforeValidator(_plain)]
"""A tool's input: a dict, or its model (which becomes a dict)."""


class HookOutput(BaseModel):
    """What every hook may answer. All fields are optional; an answer without any means no opinion."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, populate_by_name=True, alias_generator=to_camel
    )

    EVENT: ClassVar[str | None] = None
    """The event it belongs to; None fits every event."""

    continue_: bool | None = Field(default=None, validation_alias="continue", serialization_alias="continue")
    """False ends the turn, after what is under way. The CLI alone would still run the tool that PreToolUse is about: an
    answer that decides nothing else is sent as a denial, too."""
    stop_reason: str | None = None
    suppress_output: bool | None = None
    system_message: str | None = None
    """Shown to the user, not to the model."""
    terminal_sequence: str | None = None
    decision: Literal["approve", "block"] | None = None
    """`block` stops what the event guards; for Stop and SubagentStop it makes the agent go on, with `reason`."""
    reason: str | None = None

    def to_wire(self) -> JSONObject:
        """Give the answer as the CLI wants it."""
        values = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        outer = {name: values.pop(name) for name in _COMMON if name in values}
        if values:
            outer["hookSpecificOutput"] = {"hookEventName": self.EVENT, **self._nest(values)}
        return outer

    def _nest(self, specific: JSONObject) -> JSONObject:
        return specific


_COMMON = ("continue", "stopReason", "suppressOutput", "systemMessage", "terminalSequence", "decision", "reason")


class AsyncHookOutput(BaseModel):
    """Answer at once with no opinion: the hook goes on by itself, and the CLI waits for nothing more."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, alias_generator=to_camel
    )

    async_timeout: Number | None = None
    """In milliseconds. Without effect for callbacks in CLI 2.1.328."""

    def to_wire(self) -> JSONObject:
        """Give the answer as the CLI wants it."""
        return {"async": True, **self.model_dump(mode="json", by_alias=True, exclude_none=True)}


class _ContextOutput(HookOutput):
    additional_context: str | None = None
    """Text for the model."""


class PreToolUseOutput(_ContextOutput):
    """Decide on a tool call. Of several hooks the strictest wins: deny before ask before allow."""

    EVENT: ClassVar[str | None] = "PreToolUse"
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    """`allow` runs it without a prompt; `ask` prompts; `defer` ends the turn with the call left to you."""
    permission_decision_reason: str | None = None
    """Shown to the model when denied."""
    updated_input: ToolInputValue = None
    """Run it with this input. Without `allow` the usual permission check follows, on the new input."""


class PostToolUseOutput(_ContextOutput):
    """Comment on a tool's output, or change it."""

    EVENT: ClassVar[str | None] = "PostToolUse"
    classifier_context: str | None = None
    updated_tool_output: Any = None
    """Must have the shape of the tool's own output (text will do for Bash and Read): the CLI would ignore anything
    else, so then the output is withheld, and the failure reported."""
    updated_mcp_tool_output: Any = Field(
        default=None, validation_alias="updatedMCPToolOutput", serialization_alias="updatedMCPToolOutput"
    )


class PostToolUseFailureOutput(_ContextOutput):
    """Comment on a failure."""

    EVENT: ClassVar[str | None] = "PostToolUseFailure"


class PostToolBatchOutput(_ContextOutput):
    """Comment on a batch of calls; `decision="block"` ends the turn."""

    EVENT: ClassVar[str | None] = "PostToolBatch"


class NotificationOutput(_ContextOutput):
    """Comment on a notification."""

    EVENT: ClassVar[str | None] = "Notification"


class UserPromptSubmitOutput(_ContextOutput):
    """Add to a prompt, or block it with `decision="block"`."""

    EVENT: ClassVar[str | None] = "UserPromptSubmit"
    session_title: str | None = None
    suppress_original_prompt: bool | None = None


class UserPromptExpansionOutput(_ContextOutput):
    """Add to an expanded command, or block it with `decision="block"`."""

    EVENT: ClassVar[str | None] = "UserPromptExpansion"
    suppress_original_prompt: bool | None = None


class SessionStartOutput(_ContextOutput):
    """Prepare a session."""

    EVENT: ClassVar[str | None] = "SessionStart"
    initial_user_message: str | None = None
    session_title: str | None = None
    watch_paths: list[str] | None = None
    """Absolute paths; their changes arrive as FileChanged."""
    reload_skills: bool | None = None


class SetupOutput(_ContextOutput):
    """Comment on the preparation of a project."""

    EVENT: ClassVar[str | None] = "Setup"


class StopOutput(_ContextOutput):
    """Let the main agent stop, or make it go on (`decision="block"` with `reason`, or `additional_context`)."""

    EVENT: ClassVar[str | None] = "Stop"


class SubagentStartOutput(_ContextOutput):
    """Tell a subagent something at its start. Nothing here can keep it from starting."""

    EVENT: ClassVar[str | None] = "SubagentStart"


class SubagentStopOutput(_ContextOutput):
    """Let a subagent stop, or make it go on (`decision="block"` with `reason`, or `additional_context`)."""

    EVENT: ClassVar[str | None] = "SubagentStop"


class PreCompactOutput(HookOutput):
    """Let the conversation be compacted, or not (`decision="block"`)."""

    EVENT: ClassVar[str | None] = "PreCompact"


class PreModelSwitchOutput(HookOutput):
    """Decide on a change of the model."""

    EVENT: ClassVar[str | None] = "PreModelSwitch"
    permission_decision: Literal["allow", "deny", "ask"] | None = None
    permission_decision_reason: str | None = None


class PostModelSwitchOutput(_ContextOutput):
    """Tell the new model something."""

    EVENT: ClassVar[str | None] = "PostModelSwitch"


class PermissionRequestOutput(HookOutput):
    """Answer a permission prompt in place of the host, or leave it to the host (no `behavior`)."""

    EVENT: ClassVar[str | None] = "PermissionRequest"
    behavior: Literal["allow", "deny"] | None = None
    updated_input: ToolInputValue = None
    updated_permissions: list[PermissionUpdate] | None = None
    message: str | None = None
    """With `deny`: why."""
    interrupt: bool | None = None
    """With `deny`: also end the turn."""

    def _nest(self, specific: JSONObject) -> JSONObject:
        return {"decision": specific}


class PermissionDeniedOutput(HookOutput):
    """Have a denied call tried again."""

    EVENT: ClassVar[str | None] = "PermissionDenied"
    retry: bool | None = None


class TeammateIdleOutput(HookOutput):
    """Keep a teammate busy (`decision="block"` with `reason`)."""

    EVENT: ClassVar[str | None] = "TeammateIdle"


class TaskCreatedOutput(HookOutput):
    """Let an item be added to the to-do list, or not (`decision="block"`)."""

    EVENT: ClassVar[str | None] = "TaskCreated"


class TaskCompletedOutput(HookOutput):
    """Let an item be done, or not (`decision="block"`)."""

    EVENT: ClassVar[str | None] = "TaskCompleted"


class _ElicitationAnswer(HookOutput):
    action: Literal["accept", "decline", "cancel"] | None = None
    """CLI 2.1.328 ignores it, and `content`, from callbacks: use `decision="block"` to decline."""
    content: dict[str, Any] | None = None


class ElicitationOutput(_ElicitationAnswer):
    """Decline an MCP server's question (`decision="block"`)."""

    EVENT: ClassVar[str | None] = "Elicitation"


class ElicitationResultOutput(_ElicitationAnswer):
    """Turn an answer into a refusal (`decision="block"`)."""

    EVENT: ClassVar[str | None] = "ElicitationResult"


class ConfigChangeOutput(HookOutput):
    """Let changed settings take effect, or not (`decision="block"`)."""

    EVENT: ClassVar[str | None] = "ConfigChange"


class WorktreeCreateOutput(HookOutput):
    """Say where the worktree is that the hook made."""

    EVENT: ClassVar[str | None] = "WorktreeCreate"
    worktree_path: str


class _WatchOutput(HookOutput):
    watch_paths: list[str] | None = None
    """Absolute paths to watch from now on."""


class CwdChangedOutput(_WatchOutput):
    """Change what is watched."""

    EVENT: ClassVar[str | None] = "CwdChanged"


class FileChangedOutput(_WatchOutput):
    """Change what is watched."""

    EVENT: ClassVar[str | None] = "FileChanged"


class MessageDisplayOutput(HookOutput):
    """Change what is displayed of an answer."""

    EVENT: ClassVar[str | None] = "MessageDisplay"
    display_content: str | None = None


_ALL: tuple[type[HookOutput], ...] = (
    PreToolUseOutput,
    PostToolUseOutput,
    PostToolUseFailureOutput,
    PostToolBatchOutput,
    NotificationOutput,
    UserPromptSubmitOutput,
    UserPromptExpansionOutput,
    SessionStartOutput,
    SetupOutput,
    StopOutput,
    SubagentStartOutput,
    SubagentStopOutput,
    PreCompactOutput,
    PreModelSwitchOutput,
    PostModelSwitchOutput,
    PermissionRequestOutput,
    PermissionDeniedOutput,
    TeammateIdleOutput,
    TaskCreatedOutput,
    TaskCompletedOutput,
    ElicitationOutput,
    ElicitationResultOutput,
    ConfigChangeOutput,
    WorktreeCreateOutput,
    CwdChangedOutput,
    FileChangedOutput,
    MessageDisplayOutput,
)

HOOK_OUTPUTS: Mapping[str, type[HookOutput]] = {str(model.EVENT): model for model in _ALL}
"""The output model of each event that has one; the others take a plain `HookOutput`."""


def parse_hook_output(event: str, value: Any) -> HookOutput | AsyncHookOutput:
    """Make a typed answer of what a handler returned.

    Takes the event's model, a plain `HookOutput`, an `AsyncHookOutput`, None (no opinion), or a dict: flat with the
    names used here, or in the shape of the wire and of the official SDK (`hookSpecificOutput`, `continue_`, `async_`).

    Raises:
        ValueError: It is none of these, belongs to another event, or has a field that this event does not take.
    """
    if value is None:
        return HookOutput()
    if isinstance(value, AsyncHookOutput):
        return value
    if isinstance(value, HookOutput):
        return _stopping(event, _for_event(event, value))
    if isinstance(value, Mapping):
        return _stopping(event, _from_mapping(event, value))
    raise ValueError(f"a hook returns its output model, a dict or None, not {type(value).__name__}")


def _for_event(event: str, value: HookOutput) -> HookOutput:
    if value.EVENT not in (None, event):
        raise ValueError(f"{type(value).__name__} answers {value.EVENT}, not {event}")
    return value


def _stopping(event: str, value: HookOutput | AsyncHookOutput) -> HookOutput | AsyncHookOutput:
    """Make a tool call that is to be stopped a denied one; the CLI would run it first, and stop then."""
    if event != "PreToolUse" or not isinstance(value, HookOutput) or value.continue_ is not False or value.decision:
        return value
    if isinstance(value, PreToolUseOutput) and value.permission_decision is not None:
        return value
    fields = value.model_dump(exclude_unset=True)
    reason = fields.get("permission_decision_reason") or value.stop_reason or "Stopped by a hook."
    denial = {"permission_decision": "deny", "permission_decision_reason": reason}
    return PreToolUseOutput.model_validate({**fields, **denial})


def _from_mapping(event: str, value: Mapping[str, Any]) -> HookOutput | AsyncHookOutput:
    fields = dict(value)
    asynchronous = fields.pop("async", None) or fields.pop("async_", None)
    model: type[HookOutput] | type[AsyncHookOutput] = HOOK_OUTPUTS.get(event, HookOutput)
    if asynchronous:
        model = AsyncHookOutput
    else:
        fields = _flatten(event, fields)
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise ValueError(_explain(event, error)) from None


def _flatten(event: str, fields: dict[str, Any]) -> dict[str, Any]:
    specific = fields.pop("hookSpecificOutput", None) or fields.pop("hook_specific_output", None) or {}
    if not isinstance(specific, Mapping):
        raise ValueError(f"hookSpecificOutput is a dict, not {type(specific).__name__}")
    specific = dict(specific)
    named = specific.pop("hookEventName", event)
    if named != event:
        raise ValueError(f"hookSpecificOutput.hookEventName is {named!r}, but the event is {event}")
    if event == "PermissionRequest" and isinstance(specific.get("decision"), Mapping):
        specific = {**specific.pop("decision"), **specific}
    return {**fields, **specific}


def _explain(event: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"the answer does not fit {event}: {place}: {first['msg']}"


def blocking_output(event: str, reason: str) -> HookOutput | None:
    """Give the answer that blocks what `event` guards; None for an event that guards nothing."""
    facts = HOOK_EVENT_FACTS.get(event)
    match facts and facts.block:
        case "decision":
            return HookOutput(decision="block", reason=reason)
        case "permission_decision":
            return HOOK_OUTPUTS[event].model_validate(
                {"permission_decision": "deny", "permission_decision_reason": reason}
            )
        case "behavior":
            return PermissionRequestOutput(behavior="deny", message=reason)
    return None
