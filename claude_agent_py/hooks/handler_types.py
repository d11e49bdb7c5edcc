"""Types of hook handlers and of the `hooks` option.

Handlers are typed by event, so a type checker rejects a handler whose input belongs to another event.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from typing_extensions import TypeVar

from claude_agent_py.hooks.handler import HookHandler
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.wire.hooks.inputs import (
    ConfigChangeInput,
    CwdChangedInput,
    DirectoryAddedInput,
    ElicitationInput,
    ElicitationResultInput,
    FileChangedInput,
    InstructionsLoadedInput,
    MessageDisplayInput,
    NotificationInput,
    PermissionDeniedInput,
    PermissionRequestInput,
    PostCompactInput,
    PostModelSwitchInput,
    PostToolBatchInput,
    PostToolUseFailureInput,
    PostToolUseInput,
    PreCompactInput,
    PreModelSwitchInput,
    PreToolUseInput,
    SessionEndInput,
    SessionStartInput,
    SetupInput,
    StopFailureInput,
    StopInput,
    SubagentStartInput,
    SubagentStopInput,
    TaskCompletedInput,
    TaskCreatedInput,
    TeammateIdleInput,
    UserPromptExpansionInput,
    UserPromptSubmitInput,
    WorktreeCreateInput,
    WorktreeRemoveInput,
)

Input = TypeVar("Input", default=Any)

Hook: TypeAlias = HookHandler[Input] | HookMatcher[Input] | Mapping[str, Any]
"""A handler, a `HookMatcher`, or a matcher of the official SDK as a dict."""


class HooksByEvent(TypedDict, total=False):
    """The `hooks` option: hooks by event name."""

    PreToolUse: Sequence[Hook[PreToolUseInput]]
    PostToolUse: Sequence[Hook[PostToolUseInput]]
    PostToolUseFailure: Sequence[Hook[PostToolUseFailureInput]]
    PostToolBatch: Sequence[Hook[PostToolBatchInput]]
    Notification: Sequence[Hook[NotificationInput]]
    UserPromptSubmit: Sequence[Hook[UserPromptSubmitInput]]
    UserPromptExpansion: Sequence[Hook[UserPromptExpansionInput]]
    SessionStart: Sequence[Hook[SessionStartInput]]
    SessionEnd: Sequence[Hook[SessionEndInput]]
    Stop: Sequence[Hook[StopInput]]
    StopFailure: Sequence[Hook[StopFailureInput]]
    SubagentStart: Sequence[Hook[SubagentStartInput]]
    SubagentStop: Sequence[Hook[SubagentStopInput]]
    PreCompact: Sequence[Hook[PreCompactInput]]
    PostCompact: Sequence[Hook[PostCompactInput]]
    PreModelSwitch: Sequence[Hook[PreModelSwitchInput]]
    PostModelSwitch: Sequence[Hook[PostModelSwitchInput]]
    PermissionRequest: Sequence[Hook[PermissionRequestInput]]
    PermissionDenied: Sequence[Hook[PermissionDeniedInput]]
    Setup: Sequence[Hook[SetupInput]]
    TeammateIdle: Sequence[Hook[TeammateIdleInput]]
    TaskCreated: Sequence[Hook[TaskCreatedInput]]
    TaskCompleted: Sequence[Hook[TaskCompletedInput]]
    Elicitation: Sequence[Hook[ElicitationInput]]
    ElicitationResult: Sequence[Hook[ElicitationResultInput]]
    ConfigChange: Sequence[Hook[ConfigChangeInput]]
    WorktreeCreate: Sequence[Hook[WorktreeCreateInput]]
    WorktreeRemove: Sequence[Hook[WorktreeRemoveInput]]
    InstructionsLoaded: Sequence[Hook[InstructionsLoadedInput]]
    CwdChanged: Sequence[Hook[CwdChangedInput]]
    FileChanged: Sequence[Hook[FileChangedInput]]
    DirectoryAdded: Sequence[Hook[DirectoryAddedInput]]
    MessageDisplay: Sequence[Hook[MessageDisplayInput]]
