"""Stream events of the Messages API, sent with `include_partial_messages`.

A retried API stream sends its text again. The failed attempt ends with a `message_stop` that has `abandoned_blocks`:
drop those blocks when joining deltas, or their text appears twice.
"""

from typing import ClassVar, Literal, TypeAlias

from claude_agent_py.wire.base import AnswerModel, JSONObject, Number, UnknownModel, WireModel
from claude_agent_py.wire.messages.content import Citation, ContentBlock
from claude_agent_py.wire.messages.conversation import AssistantContent, StopReason
from claude_agent_py.wire.messages.usage import Usage

# Deltas ----------------------------------------------------------------------------------------------------------


class TextDelta(WireModel):
    """A piece of text."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    text: str


class InputJSONDelta(WireModel):
    """A piece of the JSON text of a tool call's input."""

    type: ClassVar[Literal["input_json_delta"]] = "input_json_delta"
    partial_json: str


class ThinkingDelta(WireModel):
    """A piece of thinking."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    thinking: str
    estimated_tokens: Number | None = None


class SignatureDelta(WireModel):
    """The signature of a thinking block."""

    type: ClassVar[Literal["signature_delta"]] = "signature_delta"
    signature: str


class CitationsDelta(WireModel):
    """A citation for the preceding text."""

    type: ClassVar[Literal["citations_delta"]] = "citations_delta"
    citation: Citation


class CompactionDelta(WireModel):
    """A piece of a compaction summary."""

    type: ClassVar[Literal["compaction_delta"]] = "compaction_delta"
    content: str | None = None


class UnknownDelta(UnknownModel, tag_field="type"):
    """A delta of a type unknown to this version."""


Delta: TypeAlias = (
    TextDelta | InputJSONDelta | ThinkingDelta | SignatureDelta | CitationsDelta | CompactionDelta | UnknownDelta
)
"""A piece of a streamed block."""

# Events ----------------------------------------------------------------------------------------------------------


class MessageStartEvent(WireModel):
    """An API message starts; its content is still empty."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: AssistantContent


class ContentBlockStartEvent(WireModel):
    """A content block starts."""

    type: ClassVar[Literal["content_block_start"]] = "content_block_start"
    index: int
    content_block: ContentBlock


class ContentBlockDeltaEvent(WireModel):
    """A content block continues."""

    type: ClassVar[Literal["content_block_delta"]] = "content_block_delta"
    index: int
    delta: Delta


class ContentBlockStopEvent(WireModel):
    """A content block is complete."""

    type: ClassVar[Literal["content_block_stop"]] = "content_block_stop"
    index: int


class MessageDelta(WireModel):
    """Fields of an API message that are known only at its end."""

    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    stop_details: JSONObject | None = None
    container: JSONObject | None = None


class MessageDeltaEvent(WireModel):
    """An API message is about to end."""

    type: ClassVar[Literal["message_delta"]] = "message_delta"
    delta: MessageDelta
    usage: Usage | None = None
    context_management: JSONObject | None = None


class MessageStopEvent(WireModel):
    """An API message, or a failed attempt at one, has ended."""

    type: ClassVar[Literal["message_stop"]] = "message_stop"


class PingEvent(WireModel):
    """Keeps the API stream alive."""

    type: ClassVar[Literal["ping"]] = "ping"


class StreamErrorEvent(WireModel):
    """The API stream failed."""

    type: ClassVar[Literal["error"]] = "error"
    error: JSONObject


class UnknownStreamEvent(UnknownModel, tag_field="type"):
    """A stream event of a type unknown to this version."""


StreamEvent: TypeAlias = (
    MessageStartEvent
    | ContentBlockStartEvent
    | ContentBlockDeltaEvent
    | ContentBlockStopEvent
    | MessageDeltaEvent
    | MessageStopEvent
    | PingEvent
    | StreamErrorEvent
    | UnknownStreamEvent
)
"""An event of a streamed answer."""

# The message -----------------------------------------------------------------------------------------------------


class AbandonedBlocks(WireModel):
    """Blocks of a failed attempt: drop all blocks of the API message from `from_block_index` on."""

    api_message_id: str
    from_block_index: int


class StreamEventMessage(AnswerModel):
    """An event of the API stream. Subagents send none."""

    type: ClassVar[Literal["stream_event"]] = "stream_event"
    event: StreamEvent
    parent_tool_use_id: str | None = None
    api_message_id: str | None = None
    """The `message_id` of the assistant messages that the event is a part of."""
    abandoned_blocks: AbandonedBlocks | None = None
    ttft_ms: Number | None = None
    """Milliseconds from the request to the first token; set on `message_start`."""
    thinking_display: str | None = None
    resume_reason: str | None = None
    owed_rows: list[str] | None = None

    @property
    def text_delta(self) -> str:
        """The text of a text delta; empty for all other events."""
        event = self.event
        if isinstance(event, ContentBlockDeltaEvent) and isinstance(event.delta, TextDelta):
            return event.delta.text
        return ""
