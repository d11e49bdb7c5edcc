"""The unions of what an ordinary session brings: all of `frames.py` but `occasional` and `internal` messages.

The codec tries these first, and most sessions need no others: loading and building the rest takes time that a session's
start has not. A new message model must be entered here or in `frames.py`, once. Knows nothing of decoding.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

from claude_agent_py.wire import messages, notices, system, tasks
from claude_agent_py.wire.control import ControlFrame
from claude_agent_py.wire.stream import StreamEventMessage

UsualSystemMessage: TypeAlias = Annotated[
    tasks.TaskMessage
    | system.InitMessage
    | system.StatusMessage
    | system.SessionStateChangedMessage
    | system.CompactBoundaryMessage
    | system.APIRetryMessage
    | system.ThinkingTokensMessage
    | system.ModelRefusalNoFallbackMessage
    | system.InformationalMessage
    | system.PermissionDeniedMessage,
    Field(discriminator="subtype"),
]
"""The messages of type `system` that most sessions see."""

UsualMessage: TypeAlias = (
    messages.UserMessage  # first: prompts have it built already, and what follows then shares its parts
    | messages.AssistantMessage
    | messages.ResultMessage
    | StreamEventMessage
    | messages.CommandLifecycleMessage
    | messages.ToolProgressMessage
    | notices.RateLimitMessage
    | notices.TranscriptMirrorMessage
)
"""The messages of a type of their own that most sessions see."""

UsualFrame: TypeAlias = Annotated[UsualMessage | UsualSystemMessage | ControlFrame, Field(discriminator="type")]
"""Every frame of an ordinary session."""
