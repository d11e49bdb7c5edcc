"""The option `hooks`: hooks by event.

Handlers are typed by event, so a type checker rejects a handler whose input belongs to another event.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from typing_extensions import TypeVar

from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.hooks.signatures import HookHandler
from claude_agent_py.wire.hooks import inputs

Input = TypeVar("Input", default=Any)

Hook: TypeAlias = HookHandler[Input] | HookMatcher[Input] | Mapping[str, object]
"""A handler, a `HookMatcher`, or a matcher of the official SDK as a dict."""


class HooksByEvent(TypedDict, total=False):
    """The `hooks` option: hooks by event name."""

    PreToolUse: Sequence[Hook[inputs.PreToolUseInput]]
    PostToolUse: Sequence[Hook[inputs.PostToolUseInput]]
    PostToolUseFailure: Sequence[Hook[inputs.PostToolUseFailureInput]]
    PostToolBatch: Sequence[Hook[inputs.PostToolBatchInput]]
    Notification: Sequence[Hook[inputs.NotificationInput]]
    UserPromptSubmit: Sequence[Hook[inputs.UserPromptSubmitInput]]
    UserPromptExpansion: Sequence[Hook[inputs.UserPromptExpansionInput]]
    SessionStart: Sequence[Hook[inputs.SessionStartInput]]
    SessionEnd: Sequence[Hook[inputs.SessionEndInput]]
    Stop: Sequence[Hook[inputs.StopInput]]
    StopFailure: Sequence[Hook[inputs.StopFailureInput]]
    SubagentStart: Sequence[Hook[inputs.SubagentStartInput]]
    SubagentStop: Sequence[Hook[inputs.SubagentStopInput]]
    PreCompact: Sequence[Hook[inputs.PreCompactInput]]
    PostCompact: Sequence[Hook[inputs.PostCompactInput]]
    PreModelSwitch: Sequence[Hook[inputs.PreModelSwitchInput]]
    PostModelSwitch: Sequence[Hook[inputs.PostModelSwitchInput]]
    PermissionRequest: Sequence[Hook[inputs.PermissionRequestInput]]
    PermissionDenied: Sequence[Hook[inputs.PermissionDeniedInput]]
    Setup: Sequence[Hook[inputs.SetupInput]]
    TeammateIdle: Sequence[Hook[inputs.TeammateIdleInput]]
    TaskCreated: Sequence[Hook[inputs.TaskCreatedInput]]
    TaskCompleted: Sequence[Hook[inputs.TaskCompletedInput]]
    Elicitation: Sequence[Hook[inputs.ElicitationInput]]
    ElicitationResult: Sequence[Hook[inputs.ElicitationResultInput]]
    ConfigChange: Sequence[Hook[inputs.ConfigChangeInput]]
    WorktreeCreate: Sequence[Hook[inputs.WorktreeCreateInput]]
    WorktreeRemove: Sequence[Hook[inputs.WorktreeRemoveInput]]
    InstructionsLoaded: Sequence[Hook[inputs.InstructionsLoadedInput]]
    CwdChanged: Sequence[Hook[inputs.CwdChangedInput]]
    FileChanged: Sequence[Hook[inputs.FileChangedInput]]
    DirectoryAdded: Sequence[Hook[inputs.DirectoryAddedInput]]
    MessageDisplay: Sequence[Hook[inputs.MessageDisplayInput]]
    PreSkillShellCommand: Sequence[Hook[inputs.PreSkillShellCommandInput]]
