"""The unions of what an ordinary session brings: everything of `frames.py` but the CLI's internal messages.

The codec tries these first, and most sessions need no others: loading and building the rest takes time that a session's
start has not. A new message model must be entered here or in `frames.py`, once. Knows nothing of decoding.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

from claude_agent_py.wire import messages, notices, system, tasks
from claude_agent_py.wire.control import (
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    KeepAlive,
    UpdateEnvironmentVariables,
)
from claude_agent_py.wire.stream import StreamEventMessage

UsualSystemMessage: TypeAlias = Annotated[
    tasks.TaskMessage
    | system.InitMessage
    | system.StatusMessage
    | system.SessionStateChangedMessage
    | system.CompactBoundaryMessage
    | system.CommandsChangedMessage
    | system.WorkerShuttingDownMessage
    | system.SessionWritesLostMessage
    | system.MirrorErrorMessage
    | system.APIRetryMessage
    | system.ThinkingTokensMessage
    | system.ModelRefusalFallbackMessage
    | system.ModelRefusalNoFallbackMessage
    | system.ControlRequestProgressMessage
    | system.InformationalMessage
    | system.NotificationMessage
    | system.LocalCommandOutputMessage
    | system.HookStartedMessage
    | system.HookProgressMessage
    | system.HookResponseMessage
    | system.PermissionDeniedMessage
    | system.ElicitationCompleteMessage
    | system.FilesPersistedMessage
    | system.MemoryRecallMessage
    | system.PluginInstallMessage,
    Field(discriminator="subtype"),
]
"""Every documented message of type `system`."""

TopLevelMessage: TypeAlias = (
    messages.AssistantMessage
    | messages.UserMessage
    | messages.ResultMessage
    | StreamEventMessage
    | messages.CommandLifecycleMessage
    | messages.ToolProgressMessage
    | notices.ToolUseSummaryMessage
    | notices.AuthStatusMessage
    | notices.RateLimitMessage
    | notices.PromptSuggestionMessage
    | notices.ConversationResetMessage
    | notices.ActiveGoalMessage
    | notices.TranscriptMirrorMessage
    | notices.AutocompactStateMessage
)
"""Every message of a type of its own."""

ControlFrame: TypeAlias = (
    ControlRequest | ControlResponse | ControlCancelRequest | KeepAlive | UpdateEnvironmentVariables
)
"""Every frame that is no part of the conversation."""

UsualFrame: TypeAlias = Annotated[TopLevelMessage | UsualSystemMessage | ControlFrame, Field(discriminator="type")]
"""Every frame of an ordinary session."""
