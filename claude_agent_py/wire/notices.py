"""Messages about the session that are neither conversation nor of type `system`.

Owns the remaining top-level types of the wire. Knows nothing of what they mean for a run.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from claude_agent_py.wire.base import JSONObject, MessageModel, Number, WireModel
from claude_agent_py.wire.usage import RateLimitInfo


class ToolUseSummaryMessage(MessageModel):
    """One line about the tool calls before it."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "tool_use_summary"}

    type: Literal["tool_use_summary"] = "tool_use_summary"
    summary: str
    preceding_tool_use_ids: list[str] = Field(default_factory=list)


class AuthStatusMessage(MessageModel):
    """How far a login got."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "auth_status"}

    type: Literal["auth_status"] = "auth_status"
    is_authenticating: bool = Field(default=False, alias="isAuthenticating")
    output: list[str] = Field(default_factory=list)
    error: str | None = None


class RateLimitMessage(MessageModel):
    """The state of a subscription's limit changed. Not sent for API keys."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "rate_limit_event"}

    type: Literal["rate_limit_event"] = "rate_limit_event"
    rate_limit_info: RateLimitInfo


class PromptSuggestionMessage(MessageModel):
    """What the user might say next. It comes after the result, at most once a turn."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "prompt_suggestion"}

    type: Literal["prompt_suggestion"] = "prompt_suggestion"
    suggestion: str


class ConversationResetMessage(MessageModel):
    """The conversation began anew, for example by `/clear`. The session's id changes."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "conversation_reset"}

    type: Literal["conversation_reset"] = "conversation_reset"
    new_conversation_id: str
    trigger: Literal["clear", "plan_mode_exit", "fresh_session", "onboarding"] | str | None = None
    user_message_uuid: str | None = None
    timestamp: str | None = None
    """ISO 8601."""


class ActiveGoal(WireModel):
    """A condition that the agent works towards."""

    condition: str
    iterations: Number = 0
    set_at: Number = 0
    tokens_at_start: Number = 0
    last_reason: str | None = None


class ActiveGoalMessage(MessageModel):
    """The agent's goal changed; None when there is none any more."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "active_goal"}

    type: Literal["active_goal"] = "active_goal"
    value: ActiveGoal | None = None


class TranscriptMirrorMessage(MessageModel):
    """Entries that the CLI wrote to the session's file (`--session-mirror`). One more may follow the result."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "transcript_mirror"}

    type: Literal["transcript_mirror"] = "transcript_mirror"
    file_path: str = Field(alias="filePath")
    entries: list[JSONObject] = Field(default_factory=list)


class AutocompactStateMessage(MessageModel):
    """Whether and when the conversation is compacted by itself."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "autocompact_state"}

    type: Literal["autocompact_state"] = "autocompact_state"
    value: JSONObject
