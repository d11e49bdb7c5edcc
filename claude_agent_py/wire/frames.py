"""Everything that can stand on a line.

`Message` and `Frame` are the names to write in signatures. `MODELS` and `SYSTEM_MODELS` say which model a frame has; a
new message is entered in the union that it belongs to, and the tables follow.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, get_args

from claude_agent_py.wire import messages, notices, occasional, system, tasks
from claude_agent_py.wire.control import ControlFrame, ControlRequest
from claude_agent_py.wire.stream import StreamEventMessage
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage

SystemMessage: TypeAlias = (
    tasks.TaskMessage
    | system.InitMessage
    | system.StatusMessage
    | system.SessionStateChangedMessage
    | system.CompactBoundaryMessage
    | system.APIRetryMessage
    | system.ThinkingTokensMessage
    | system.ModelRefusalNoFallbackMessage
    | system.InformationalMessage
    | system.PermissionDeniedMessage
    | occasional.CommandsChangedMessage
    | occasional.WorkerShuttingDownMessage
    | occasional.SessionWritesLostMessage
    | occasional.MirrorErrorMessage
    | occasional.ModelRefusalFallbackMessage
    | occasional.ControlRequestProgressMessage
    | occasional.NotificationMessage
    | occasional.LocalCommandOutputMessage
    | occasional.HookStartedMessage
    | occasional.HookProgressMessage
    | occasional.HookResponseMessage
    | occasional.ElicitationCompleteMessage
    | occasional.FilesPersistedMessage
    | occasional.MemoryRecallMessage
    | occasional.PluginInstallMessage
)
"""Every message of type `system` that has a model."""

TopLevelMessage: TypeAlias = (
    messages.UserMessage
    | messages.AssistantMessage
    | messages.ResultMessage
    | StreamEventMessage
    | messages.CommandLifecycleMessage
    | messages.ToolProgressMessage
    | notices.RateLimitMessage
    | notices.TranscriptMirrorMessage
    | occasional.ToolUseSummaryMessage
    | occasional.AuthStatusMessage
    | occasional.PromptSuggestionMessage
    | occasional.ConversationResetMessage
    | occasional.ActiveGoalMessage
    | occasional.AutocompactStateMessage
)
"""Every message of a type of its own that has a model."""

Message: TypeAlias = TopLevelMessage | SystemMessage | UnknownMessage
"""Every message of the conversation."""

Frame: TypeAlias = Message | ControlFrame | MalformedFrame
"""Everything that `decode` can return."""

SYSTEM_MODELS: Final[Mapping[str, type]] = {model.subtype: model for model in get_args(SystemMessage)}
MODELS: Final[Mapping[str, type]] = {model.type: model for model in get_args(TopLevelMessage | ControlFrame)}


def model_of(raw: Mapping[str, Any]) -> type | None:
    """Return the model that a frame has by its type and subtype, or None for an unknown one."""
    if raw["type"] == "system":
        return SYSTEM_MODELS.get(raw["subtype"])
    model = MODELS.get(raw["type"])
    if model is ControlRequest:
        from claude_agent_py.wire import requests  # only those that play the CLI read one of ours

        if requests.is_ours(raw.get("request")):
            return requests.ControlRequestToCLI
    return model
