"""The unions: everything that can stand on a line.

Owns `Message` and `Frame`, the names to write in signatures, and the union that the codec validates against. A new
message model must be entered here, once. Knows nothing of decoding.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

from claude_agent_py.wire import internal, messages, notices, system, tasks
from claude_agent_py.wire.control import (
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    KeepAlive,
    UpdateEnvironmentVariables,
)
from claude_agent_py.wire.stream import StreamEventMessage
from claude_agent_py.wire.unions import tags_of
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage

SystemMessage: TypeAlias = Annotated[
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
    | system.PluginInstallMessage
    | internal.ModelFallbackMessage
    | internal.ModelConsentFallbackMessage
    | internal.SessionTitleChangedMessage
    | internal.SessionMetadataMessage
    | internal.PostTurnSummaryMessage
    | internal.TaskSummaryMessage
    | internal.TurnDurationMessage
    | internal.TurnPreemptedMessage
    | internal.AgentsKilledMessage
    | internal.ScheduledTaskFireMessage
    | internal.TaskListStatusesMessage
    | internal.PermissionCheckStatusMessage
    | internal.PermissionRetryMessage
    | internal.StopHookSummaryMessage
    | internal.MemorySavedMessage
    | internal.InstructionSizeWarningMessage
    | internal.AwaySummaryMessage
    | internal.ThinkingMessage
    | internal.APIErrorMessage
    | internal.FileSnapshotMessage
    | internal.FileAttachmentsMissingMessage
    | internal.ShellCwdMessage
    | internal.VCSStateChangedMessage
    | internal.CodeChangePublishedMessage
    | internal.PerTurnEffortChangedMessage
    | internal.PeerMessageHoldMessage
    | internal.InheritedAsksSettledMessage
    | internal.LateAllowNotRunMessage,
    Field(discriminator="subtype"),
]
"""Every message of type `system`."""

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

Message: TypeAlias = TopLevelMessage | SystemMessage | UnknownMessage
"""Every message of the conversation."""

KnownFrame: TypeAlias = Annotated[
    TopLevelMessage
    | SystemMessage
    | ControlRequest
    | ControlResponse
    | ControlCancelRequest
    | KeepAlive
    | UpdateEnvironmentVariables,
    Field(discriminator="type"),
]
"""Every frame that has a model."""

Frame: TypeAlias = (
    Message
    | ControlRequest
    | ControlResponse
    | ControlCancelRequest
    | KeepAlive
    | UpdateEnvironmentVariables
    | MalformedFrame
)
"""Everything that `decode` can give."""

KNOWN_SYSTEM_SUBTYPES = tags_of(SystemMessage, "subtype")
KNOWN_TYPES = tags_of(KnownFrame, "type")
