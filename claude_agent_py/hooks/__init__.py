"""Hooks: Python callbacks that the CLI calls at certain events. Their answers can change or block actions."""

from typing import TYPE_CHECKING

from claude_agent_py._lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.hooks.context import HookContext as HookContext
    from claude_agent_py.hooks.dispatcher import HookRun as HookRun
    from claude_agent_py.hooks.handler import (
        HookAnswer as HookAnswer,
        HookHandler as HookHandler,
    )
    from claude_agent_py.hooks.handler_types import (
        Hook as Hook,
        HooksByEvent as HooksByEvent,
    )
    from claude_agent_py.hooks.live import LiveHooks as LiveHooks
    from claude_agent_py.hooks.matcher import HookMatcher as HookMatcher, OnFailure as OnFailure
    from claude_agent_py.hooks.registry import Hooks as Hooks, HookWarning as HookWarning
    from claude_agent_py.wire.hooks.events import (
        HOOK_EVENT_FACTS as HOOK_EVENT_FACTS,
        HOOK_EVENTS as HOOK_EVENTS,
        HookEvent as HookEvent,
        HookEventFacts as HookEventFacts,
    )
    from claude_agent_py.wire.hooks.inputs import (
        BackgroundTaskSummary as BackgroundTaskSummary,
        ConfigChangeInput as ConfigChangeInput,
        CwdChangedInput as CwdChangedInput,
        DirectoryAddedInput as DirectoryAddedInput,
        ElicitationInput as ElicitationInput,
        ElicitationResultInput as ElicitationResultInput,
        FileChangedInput as FileChangedInput,
        HookEffort as HookEffort,
        HookInput as HookInput,
        InstructionsLoadedInput as InstructionsLoadedInput,
        MessageDisplayInput as MessageDisplayInput,
        NotificationInput as NotificationInput,
        PermissionDeniedInput as PermissionDeniedInput,
        PermissionRequestInput as PermissionRequestInput,
        PostCompactInput as PostCompactInput,
        PostModelSwitchInput as PostModelSwitchInput,
        PostToolBatchInput as PostToolBatchInput,
        PostToolBatchToolCall as PostToolBatchToolCall,
        PostToolUseFailureInput as PostToolUseFailureInput,
        PostToolUseInput as PostToolUseInput,
        PreCompactInput as PreCompactInput,
        PreModelSwitchInput as PreModelSwitchInput,
        PreToolUseInput as PreToolUseInput,
        SessionCronSummary as SessionCronSummary,
        SessionEndInput as SessionEndInput,
        SessionStartInput as SessionStartInput,
        SetupInput as SetupInput,
        StopFailureInput as StopFailureInput,
        StopInput as StopInput,
        SubagentStartInput as SubagentStartInput,
        SubagentStopInput as SubagentStopInput,
        TaskCompletedInput as TaskCompletedInput,
        TaskCreatedInput as TaskCreatedInput,
        TeammateIdleInput as TeammateIdleInput,
        UnknownHookInput as UnknownHookInput,
        UserPromptExpansionInput as UserPromptExpansionInput,
        UserPromptSubmitInput as UserPromptSubmitInput,
        WorktreeCreateInput as WorktreeCreateInput,
        WorktreeRemoveInput as WorktreeRemoveInput,
    )
    from claude_agent_py.wire.hooks.outputs import (
        AsyncHookOutput as AsyncHookOutput,
        ConfigChangeOutput as ConfigChangeOutput,
        CwdChangedOutput as CwdChangedOutput,
        ElicitationOutput as ElicitationOutput,
        ElicitationResultOutput as ElicitationResultOutput,
        FileChangedOutput as FileChangedOutput,
        HookOutput as HookOutput,
        MessageDisplayOutput as MessageDisplayOutput,
        NotificationOutput as NotificationOutput,
        PermissionDeniedOutput as PermissionDeniedOutput,
        PermissionRequestOutput as PermissionRequestOutput,
        PostModelSwitchOutput as PostModelSwitchOutput,
        PostToolBatchOutput as PostToolBatchOutput,
        PostToolUseFailureOutput as PostToolUseFailureOutput,
        PostToolUseOutput as PostToolUseOutput,
        PreCompactOutput as PreCompactOutput,
        PreModelSwitchOutput as PreModelSwitchOutput,
        PreToolUseOutput as PreToolUseOutput,
        SessionStartOutput as SessionStartOutput,
        SetupOutput as SetupOutput,
        StopOutput as StopOutput,
        SubagentStartOutput as SubagentStartOutput,
        SubagentStopOutput as SubagentStopOutput,
        TaskCompletedOutput as TaskCompletedOutput,
        TaskCreatedOutput as TaskCreatedOutput,
        TeammateIdleOutput as TeammateIdleOutput,
        ToolInputValue as ToolInputValue,
        UserPromptExpansionOutput as UserPromptExpansionOutput,
        UserPromptSubmitOutput as UserPromptSubmitOutput,
        WorktreeCreateOutput as WorktreeCreateOutput,
    )
else:
    __getattr__, __dir__ = attach(__name__)
