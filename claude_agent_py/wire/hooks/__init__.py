"""Hooks on the wire: the events as data, what a hook is told, and what it may answer.

Every name of the three modules is available here; a module is imported when one of its names is first asked for, so
that the list of events costs no models.
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import loader

if TYPE_CHECKING:
    from claude_agent_py.wire.hooks.events import *  # noqa: F403
    from claude_agent_py.wire.hooks.inputs import *  # noqa: F403
    from claude_agent_py.wire.hooks.outputs import *  # noqa: F403

_NAMES = {
    "events": """
        HOOK_EVENTS HOOK_EVENT_FACTS HookEvent HookEventFacts
    """,
    "inputs": """
        BackgroundTaskSummary ConfigChangeInput CwdChangedInput DirectoryAddedInput ElicitationInput
        ElicitationResultInput FileChangedInput HOOK_INPUTS HookEffort HookInput
        InstructionsLoadedInput MessageDisplayInput NotificationInput PermissionDeniedInput
        PermissionRequestInput PostCompactInput PostModelSwitchInput PostToolBatchInput
        PostToolBatchToolCall PostToolUseFailureInput PostToolUseInput PreCompactInput PreModelSwitchInput
        PreToolUseInput SessionCronSummary SessionEndInput SessionStartInput SetupInput StopFailureInput
        StopInput SubagentStartInput SubagentStopInput TaskCompletedInput TaskCreatedInput TeammateIdleInput
        UnknownHookInput UserPromptExpansionInput UserPromptSubmitInput WorktreeCreateInput
        WorktreeRemoveInput parse_hook_input
    """,
    "outputs": """
        AsyncHookOutput ConfigChangeOutput CwdChangedOutput ElicitationOutput ElicitationResultOutput
        FileChangedOutput HOOK_OUTPUTS HookOutput MessageDisplayOutput NotificationOutput
        PermissionDeniedOutput PermissionRequestOutput PostModelSwitchOutput PostToolBatchOutput
        PostToolUseFailureOutput PostToolUseOutput PreCompactOutput PreModelSwitchOutput PreToolUseOutput
        SessionStartOutput SetupOutput StopOutput SubagentStartOutput SubagentStopOutput TaskCompletedOutput
        TaskCreatedOutput TeammateIdleOutput ToolInputValue UserPromptExpansionOutput UserPromptSubmitOutput
        WorktreeCreateOutput blocking_output parse_hook_output
    """,
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(_HOME)
