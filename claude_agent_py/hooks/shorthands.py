"""Decorators for each event, such as `@hooks.pre_tool_use("Bash")`, typed by the event's input and output."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, overload

from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import OnFailure

if TYPE_CHECKING:
    from claude_agent_py.wire.hooks import inputs, outputs

Input = TypeVar("Input")
Output = TypeVar("Output")

Answer: TypeAlias = "Output | outputs.HookOutput | outputs.AsyncHookOutput | Mapping[str, Any] | None"
Handler: TypeAlias = "Callable[[Input, HookContext], Answer[Output] | Awaitable[Answer[Output]]]"


class _Registry(Protocol):
    def on(
        self,
        event: str,
        matcher: str | None = None,
        *,
        timeout: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Callable[[Any], Any]: ...


class Registrar(Generic[Input, Output]):
    """The decorator of one event, usable with or without arguments."""

    def __init__(self, hooks: _Registry, event: str) -> None:
        self._hooks = hooks
        self._event = event

    @overload
    def __call__(self, handler: "Handler[Input, Output]", /) -> "Handler[Input, Output]": ...

    @overload
    def __call__(
        self, matcher: str | None = None, *, timeout: float | None = None, on_failure: OnFailure | None = None
    ) -> "Callable[[Handler[Input, Output]], Handler[Input, Output]]": ...

    def __call__(
        self,
        matcher: Any = None,
        *,
        timeout: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Any:
        """Register the decorated function. Takes the arguments of `HookMatcher`."""
        if callable(matcher):
            return self._hooks.on(self._event)(matcher)
        return self._hooks.on(self._event, matcher, timeout=timeout, on_failure=on_failure)


class Shorthand(Generic[Input, Output]):
    """Makes the `Registrar` of one event an attribute of `Hooks`."""

    def __init__(self, event: str) -> None:
        self._event = event

    def __get__(self, hooks: _Registry, owner: type | None = None) -> Registrar[Input, Output]:
        return Registrar(hooks, self._event)


class EventDecorators:
    """One decorator per event."""

    pre_tool_use: "Shorthand[inputs.PreToolUseInput, outputs.PreToolUseOutput]" = Shorthand("PreToolUse")
    post_tool_use: "Shorthand[inputs.PostToolUseInput, outputs.PostToolUseOutput]" = Shorthand("PostToolUse")
    post_tool_use_failure: "Shorthand[inputs.PostToolUseFailureInput, outputs.PostToolUseFailureOutput]" = Shorthand(
        "PostToolUseFailure"
    )
    post_tool_batch: "Shorthand[inputs.PostToolBatchInput, outputs.PostToolBatchOutput]" = Shorthand("PostToolBatch")
    notification: "Shorthand[inputs.NotificationInput, outputs.NotificationOutput]" = Shorthand("Notification")
    user_prompt_submit: "Shorthand[inputs.UserPromptSubmitInput, outputs.UserPromptSubmitOutput]" = Shorthand(
        "UserPromptSubmit"
    )
    user_prompt_expansion: "Shorthand[inputs.UserPromptExpansionInput, outputs.UserPromptExpansionOutput]" = Shorthand(
        "UserPromptExpansion"
    )
    session_start: "Shorthand[inputs.SessionStartInput, outputs.SessionStartOutput]" = Shorthand("SessionStart")
    session_end: "Shorthand[inputs.SessionEndInput, outputs.HookOutput]" = Shorthand("SessionEnd")
    stop: "Shorthand[inputs.StopInput, outputs.StopOutput]" = Shorthand("Stop")
    stop_failure: "Shorthand[inputs.StopFailureInput, outputs.HookOutput]" = Shorthand("StopFailure")
    subagent_start: "Shorthand[inputs.SubagentStartInput, outputs.SubagentStartOutput]" = Shorthand("SubagentStart")
    subagent_stop: "Shorthand[inputs.SubagentStopInput, outputs.SubagentStopOutput]" = Shorthand("SubagentStop")
    pre_compact: "Shorthand[inputs.PreCompactInput, outputs.PreCompactOutput]" = Shorthand("PreCompact")
    post_compact: "Shorthand[inputs.PostCompactInput, outputs.HookOutput]" = Shorthand("PostCompact")
    pre_model_switch: "Shorthand[inputs.PreModelSwitchInput, outputs.PreModelSwitchOutput]" = Shorthand(
        "PreModelSwitch"
    )
    post_model_switch: "Shorthand[inputs.PostModelSwitchInput, outputs.PostModelSwitchOutput]" = Shorthand(
        "PostModelSwitch"
    )
    permission_request: "Shorthand[inputs.PermissionRequestInput, outputs.PermissionRequestOutput]" = Shorthand(
        "PermissionRequest"
    )
    permission_denied: "Shorthand[inputs.PermissionDeniedInput, outputs.PermissionDeniedOutput]" = Shorthand(
        "PermissionDenied"
    )
    setup: "Shorthand[inputs.SetupInput, outputs.SetupOutput]" = Shorthand("Setup")
    teammate_idle: "Shorthand[inputs.TeammateIdleInput, outputs.TeammateIdleOutput]" = Shorthand("TeammateIdle")
    task_created: "Shorthand[inputs.TaskCreatedInput, outputs.TaskCreatedOutput]" = Shorthand("TaskCreated")
    task_completed: "Shorthand[inputs.TaskCompletedInput, outputs.TaskCompletedOutput]" = Shorthand("TaskCompleted")
    elicitation: "Shorthand[inputs.ElicitationInput, outputs.ElicitationOutput]" = Shorthand("Elicitation")
    elicitation_result: "Shorthand[inputs.ElicitationResultInput, outputs.ElicitationResultOutput]" = Shorthand(
        "ElicitationResult"
    )
    config_change: "Shorthand[inputs.ConfigChangeInput, outputs.ConfigChangeOutput]" = Shorthand("ConfigChange")
    worktree_create: "Shorthand[inputs.WorktreeCreateInput, outputs.WorktreeCreateOutput]" = Shorthand("WorktreeCreate")
    worktree_remove: "Shorthand[inputs.WorktreeRemoveInput, outputs.HookOutput]" = Shorthand("WorktreeRemove")
    instructions_loaded: "Shorthand[inputs.InstructionsLoadedInput, outputs.HookOutput]" = Shorthand(
        "InstructionsLoaded"
    )
    cwd_changed: "Shorthand[inputs.CwdChangedInput, outputs.CwdChangedOutput]" = Shorthand("CwdChanged")
    file_changed: "Shorthand[inputs.FileChangedInput, outputs.FileChangedOutput]" = Shorthand("FileChanged")
    directory_added: "Shorthand[inputs.DirectoryAddedInput, outputs.HookOutput]" = Shorthand("DirectoryAdded")
    message_display: "Shorthand[inputs.MessageDisplayInput, outputs.MessageDisplayOutput]" = Shorthand("MessageDisplay")
