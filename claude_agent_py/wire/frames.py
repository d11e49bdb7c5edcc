"""Unions of all messages and frames, and the tables that map a type or subtype to its model.

The tables derive from the unions: to add a message, add it to `SystemMessage` or `TopLevelMessage`.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias, get_args

from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.frames import ControlFrame
from claude_agent_py.wire.messages import conversation, occasional, system, tasks
from claude_agent_py.wire.messages.stream import StreamEventMessage
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage

SystemMessage: TypeAlias = (
    tasks.TaskMessage
    | system.InitMessage
    | system.StatusMessage
    | system.SessionStateChangedMessage
    | system.SessionTitleChangedMessage
    | system.CompactBoundaryMessage
    | system.APIRetryMessage
    | system.ThinkingTokensMessage
    | system.ModelRefusalFallbackMessage
    | system.ModelRefusalNoFallbackMessage
    | system.InformationalMessage
    | system.PermissionDeniedMessage
    | occasional.CommandsChangedMessage
    | occasional.BridgeStateMessage
    | occasional.WorkerShuttingDownMessage
    | occasional.SessionWritesLostMessage
    | occasional.MirrorErrorMessage
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
"""Every known message of type `system`."""

TopLevelMessage: TypeAlias = (
    conversation.UserMessage
    | conversation.AssistantMessage
    | conversation.ResultMessage
    | StreamEventMessage
    | conversation.CommandLifecycleMessage
    | conversation.ToolProgressMessage
    | occasional.RateLimitMessage
    | occasional.TranscriptMirrorMessage
    | occasional.ToolUseSummaryMessage
    | occasional.AuthStatusMessage
    | occasional.PromptSuggestionMessage
    | occasional.ConversationResetMessage
    | occasional.ActiveGoalMessage
)
"""Every known message of any other type."""

Message: TypeAlias = TopLevelMessage | SystemMessage | UnknownMessage
"""Every message of a conversation."""

Frame: TypeAlias = Message | ControlFrame | MalformedFrame
"""Everything that `decode` can return."""

SYSTEM_MODELS: Final[Mapping[str, type]] = {model.subtype: model for model in get_args(SystemMessage)}
MODELS: Final[Mapping[str, type]] = {model.type: model for model in get_args(TopLevelMessage | ControlFrame)}


def model_of(raw: JSONObject) -> type | None:
    """Return the model for a frame's type and subtype, or None if they are unknown."""
    if raw["type"] == "system":
        return SYSTEM_MODELS.get(raw["subtype"])
    return MODELS.get(raw["type"])
