"""The model's answer while it is being written, piece by piece (`include_partial_messages`).

Owns `StreamEventMessage` and the events of the Messages API inside it. Knows nothing of putting pieces together.

A retried API stream sends its text again: the events of the failed attempt end with a `message_stop` that carries
`abandoned_blocks`. Whoever joins deltas must drop those blocks, or the text appears twice.
"""

from typing import ClassVar, Literal, TypeAlias

from claude_agent_py.wire.base import JSONObject, Number, UnknownModel, WireModel
from claude_agent_py.wire.content import Citation, ContentBlock
from claude_agent_py.wire.messages import AnswerModel, AssistantContent, StopReason
from claude_agent_py.wire.usage import Usage

# Deltas ----------------------------------------------------------------------------------------------------------


class TextDelta(WireModel):
    """More text."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    text: str


class InputJSONDelta(WireModel):
    """More of a tool call's input, as a piece of JSON text."""

    type: ClassVar[Literal["input_json_delta"]] = "input_json_delta"
    partial_json: str


class ThinkingDelta(WireModel):
    """More thinking."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    thinking: str
    estimated_tokens: Number | None = None


class SignatureDelta(WireModel):
    """The signature of a thinking block."""

    type: ClassVar[Literal["signature_delta"]] = "signature_delta"
    signature: str


class CitationsDelta(WireModel):
    """Where the text before it comes from."""

    type: ClassVar[Literal["citations_delta"]] = "citations_delta"
    citation: Citation


class CompactionDelta(WireModel):
    """More of a compaction summary."""

    type: ClassVar[Literal["compaction_delta"]] = "compaction_delta"
    content: str | None = None


class UnknownDelta(UnknownModel, tag_field="type"):
    """A delta of a type that this version does not know."""

    @property
    def type(self) -> str:
        """The delta's type."""
        return str(self.raw.get("type", ""))


Delta: TypeAlias = (
    TextDelta | InputJSONDelta | ThinkingDelta | SignatureDelta | CitationsDelta | CompactionDelta | UnknownDelta
)

# Events ----------------------------------------------------------------------------------------------------------


class MessageStartEvent(WireModel):
    """An API message begins; its content is still empty."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: AssistantContent


class ContentBlockStartEvent(WireModel):
    """A content block begins."""

    type: ClassVar[Literal["content_block_start"]] = "content_block_start"
    index: int
    content_block: ContentBlock


class ContentBlockDeltaEvent(WireModel):
    """A content block goes on."""

    type: ClassVar[Literal["content_block_delta"]] = "content_block_delta"
    index: int
    delta: Delta


class ContentBlockStopEvent(WireModel):
    """A content block is complete."""

    type: ClassVar[Literal["content_block_stop"]] = "content_block_stop"
    index: int


class MessageDelta(WireModel):
    """What is known of an API message only at its end."""

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
    """An API message, or a failed attempt at one, is over."""

    type: ClassVar[Literal["message_stop"]] = "message_stop"


class PingEvent(WireModel):
    """The API stream is alive."""

    type: ClassVar[Literal["ping"]] = "ping"


class StreamErrorEvent(WireModel):
    """The API stream failed."""

    type: ClassVar[Literal["error"]] = "error"
    error: JSONObject


class UnknownStreamEvent(UnknownModel, tag_field="type"):
    """A stream event of a type that this version does not know."""

    @property
    def type(self) -> str:
        """The event's type."""
        return str(self.raw.get("type", ""))


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

# The message -----------------------------------------------------------------------------------------------------


class AbandonedBlocks(WireModel):
    """Blocks whose deltas were sent and are void: drop every block of that API message from the index on."""

    api_message_id: str
    from_block_index: int


class StreamEventMessage(AnswerModel):
    """One event of the API stream. Only the main conversation has them, never a subagent's."""

    type: ClassVar[Literal["stream_event"]] = "stream_event"
    event: StreamEvent
    parent_tool_use_id: str | None = None
    api_message_id: str | None = None
    """The `message.id` of the assistant messages that the event is a part of."""
    abandoned_blocks: AbandonedBlocks | None = None
    ttft_ms: Number | None = None
    """From the request to the first token, in milliseconds; on `message_start`."""
    thinking_display: str | None = None
    resume_reason: str | None = None

    @property
    def text_delta(self) -> str:
        """The text that this event adds; empty for all other events."""
        event = self.event
        if isinstance(event, ContentBlockDeltaEvent) and isinstance(event.delta, TextDelta):
            return event.delta.text
        return ""
