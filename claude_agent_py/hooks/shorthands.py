"""Decorators for each event, such as `@hooks.pre_tool_use("Bash")`, typed by the event's input and output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Self, TypeAlias, TypeVar, overload

from claude_agent_py.hooks.context import HookContext
from claude_agent_py.hooks.matcher import OnFailure
from claude_agent_py.wire.hooks import inputs, outputs

Input = TypeVar("Input")
Output = TypeVar("Output")

Answer: TypeAlias = "Output | outputs.HookOutput | outputs.AsyncHookOutput | Mapping[str, object] | None"
Handler: TypeAlias = "Callable[[Input, HookContext], Answer[Output] | Awaitable[Answer[Output]]]"


class Shorthand(Generic[Input, Output]):
    """The decorator of the event that the attribute is named after, usable with or without arguments."""

    def __init__(self, event: str = "", hooks: Any = None) -> None:
        self._event = event
        self._hooks = hooks

    def __set_name__(self, owner: type, name: str) -> None:
        self._event = name.title().replace("_", "")

    def __get__(self, hooks: object, owner: type | None = None) -> Self:
        return type(self)(self._event, hooks)

    @overload
    def __call__(self, handler: Handler[Input, Output], /) -> Handler[Input, Output]: ...

    @overload
    def __call__(
        self, matcher: str | None = None, *, timeout: float | None = None, on_failure: OnFailure | None = None
    ) -> Callable[[Handler[Input, Output]], Handler[Input, Output]]: ...

    def __call__(self, matcher: Any = None, **more: Any) -> Any:
        """Register the decorated function. Takes the arguments of `HookMatcher`."""
        if callable(matcher):
            return self._hooks.on(self._event)(matcher)
        return self._hooks.on(self._event, matcher, **more)


class EventDecorators:
    """One decorator per event."""

    pre_tool_use: Shorthand[inputs.PreToolUseInput, outputs.PreToolUseOutput] = Shorthand()
    post_tool_use: Shorthand[inputs.PostToolUseInput, outputs.PostToolUseOutput] = Shorthand()
    post_tool_use_failure: Shorthand[inputs.PostToolUseFailureInput, outputs.PostToolUseFailureOutput] = Shorthand()
    post_tool_batch: Shorthand[inputs.PostToolBatchInput, outputs.PostToolBatchOutput] = Shorthand()
    notification: Shorthand[inputs.NotificationInput, outputs.NotificationOutput] = Shorthand()
    user_prompt_submit: Shorthand[inputs.UserPromptSubmitInput, outputs.UserPromptSubmitOutput] = Shorthand()
    user_prompt_expansion: Shorthand[inputs.UserPromptExpansionInput, outputs.UserPromptExpansionOutput] = Shorthand()
    session_start: Shorthand[inputs.SessionStartInput, outputs.SessionStartOutput] = Shorthand()
    session_end: Shorthand[inputs.SessionEndInput, outputs.HookOutput] = Shorthand()
    stop: Shorthand[inputs.StopInput, outputs.StopOutput] = Shorthand()
    stop_failure: Shorthand[inputs.StopFailureInput, outputs.HookOutput] = Shorthand()
    subagent_start: Shorthand[inputs.SubagentStartInput, outputs.SubagentStartOutput] = Shorthand()
    subagent_stop: Shorthand[inputs.SubagentStopInput, outputs.SubagentStopOutput] = Shorthand()
    pre_compact: Shorthand[inputs.PreCompactInput, outputs.PreCompactOutput] = Shorthand()
    post_compact: Shorthand[inputs.PostCompactInput, outputs.HookOutput] = Shorthand()
    pre_model_switch: Shorthand[inputs.PreModelSwitchInput, outputs.PreModelSwitchOutput] = Shorthand()
    post_model_switch: Shorthand[inputs.PostModelSwitchInput, outputs.PostModelSwitchOutput] = Shorthand()
    permission_request: Shorthand[inputs.PermissionRequestInput, outputs.PermissionRequestOutput] = Shorthand()
    permission_denied: Shorthand[inputs.PermissionDeniedInput, outputs.PermissionDeniedOutput] = Shorthand()
    setup: Shorthand[inputs.SetupInput, outputs.SetupOutput] = Shorthand()
    teammate_idle: Shorthand[inputs.TeammateIdleInput, outputs.TeammateIdleOutput] = Shorthand()
    task_created: Shorthand[inputs.TaskCreatedInput, outputs.TaskCreatedOutput] = Shorthand()
    task_completed: Shorthand[inputs.TaskCompletedInput, outputs.TaskCompletedOutput] = Shorthand()
    elicitation: Shorthand[inputs.ElicitationInput, outputs.ElicitationOutput] = Shorthand()
    elicitation_result: Shorthand[inputs.ElicitationResultInput, outputs.ElicitationResultOutput] = Shorthand()
    config_change: Shorthand[inputs.ConfigChangeInput, outputs.ConfigChangeOutput] = Shorthand()
    worktree_create: Shorthand[inputs.WorktreeCreateInput, outputs.WorktreeCreateOutput] = Shorthand()
    worktree_remove: Shorthand[inputs.WorktreeRemoveInput, outputs.HookOutput] = Shorthand()
    instructions_loaded: Shorthand[inputs.InstructionsLoadedInput, outputs.HookOutput] = Shorthand()
    cwd_changed: Shorthand[inputs.CwdChangedInput, outputs.CwdChangedOutput] = Shorthand()
    file_changed: Shorthand[inputs.FileChangedInput, outputs.FileChangedOutput] = Shorthand()
    directory_added: Shorthand[inputs.DirectoryAddedInput, outputs.HookOutput] = Shorthand()
    message_display: Shorthand[inputs.MessageDisplayInput, outputs.MessageDisplayOutput] = Shorthand()
    pre_skill_shell_command: Shorthand[inputs.PreSkillShellCommandInput, outputs.PreSkillShellCommandOutput] = (
        Shorthand()
    )
