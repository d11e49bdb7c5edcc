"""The unions: everything that can stand on a line.

Owns `Message` and `Frame`, the names to write in signatures, the union of all frames that have a model, and which model
a frame has. Builds on `usual.py`, which has those of an ordinary session. Knows nothing of decoding.
"""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from claude_agent_py.wire import internal, occasional
from claude_agent_py.wire.control import ControlFrame
from claude_agent_py.wire.unions import members_of, tags_of
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage
from claude_agent_py.wire.usual import UsualMessage, UsualSystemMessage

SystemMessage: TypeAlias = Annotated[
    UsualSystemMessage
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
    UsualMessage
    | occasional.ToolUseSummaryMessage
    | occasional.AuthStatusMessage
    | occasional.PromptSuggestionMessage
    | occasional.ConversationResetMessage
    | occasional.ActiveGoalMessage
    | occasional.AutocompactStateMessage
)
"""Every message of a type of its own."""

Message: TypeAlias = TopLevelMessage | SystemMessage | UnknownMessage
"""Every message of the conversation."""

KnownFrame: TypeAlias = Annotated[TopLevelMessage | SystemMessage | ControlFrame, Field(discriminator="type")]
"""Every frame that has a model."""

Frame: TypeAlias = Message | ControlFrame | MalformedFrame
"""Everything that `decode` can give."""

KNOWN_SYSTEM_SUBTYPES = tags_of(SystemMessage, "subtype")
KNOWN_TYPES = tags_of(KnownFrame, "type")

_SYSTEM_MODELS: Final = members_of(SystemMessage, "subtype")
_MODELS: Final = members_of(KnownFrame, "type")


def model_of(tags: Sequence[str]) -> type:
    """Give the model of a frame by its type, and its subtype where that is `system`."""
    kind, *subtypes = tags
    return _SYSTEM_MODELS[subtypes[0]] if subtypes else _MODELS[kind]
