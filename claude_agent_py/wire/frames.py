"""The unions: everything that can stand on a line.

Owns `Message` and `Frame`, the names to write in signatures, and the union of all frames that have a model. Builds on
`usual.py`, which has those of an ordinary session. Knows nothing of decoding.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

from claude_agent_py.wire import internal
from claude_agent_py.wire.unions import tags_of
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage
from claude_agent_py.wire.usual import ControlFrame, TopLevelMessage, UsualSystemMessage

SystemMessage: TypeAlias = Annotated[
    UsualSystemMessage
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

Message: TypeAlias = TopLevelMessage | SystemMessage | UnknownMessage
"""Every message of the conversation."""

KnownFrame: TypeAlias = Annotated[TopLevelMessage | SystemMessage | ControlFrame, Field(discriminator="type")]
"""Every frame that has a model."""

Frame: TypeAlias = Message | ControlFrame | MalformedFrame
"""Everything that `decode` can give."""

KNOWN_SYSTEM_SUBTYPES = tags_of(SystemMessage, "subtype")
KNOWN_TYPES = tags_of(KnownFrame, "type")
