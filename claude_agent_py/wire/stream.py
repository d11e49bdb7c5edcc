"""The model's answer while it is being written, piece by piece (`include_partial_messages`).

Owns `StreamEventMessage` and the events of the Messages API inside it. Knows nothing of putting pieces together.

A retried API stream sends its text again: the events of the failed attempt end with a `message_stop` that carries
`abandoned_blocks`. Whoever joins deltas must drop those blocks, or the text appears twice.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, field_validator

from claude_agent_py.wire.base import JSONObject, Number, TaggedModel, WireModel, dump
from claude_agent_py.wire.content import Citation, ContentBlock
from claude_agent_py.wire.messages import AnswerModel, AssistantContent, StopReason
from claude_agent_py.wire.unions import refuse_known, tags_of
from claude_agent_py.wire.usage import Usage

# Deltas ----------------------------------------------------------------------------------------------------------


class TextDelta(TaggedModel):
    """More text."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "text_delta"}

    type: Literal["text_delta"] = "text_delta"
    text: str


class InputJSONDelta(TaggedModel):
    """More of a tool call's input, as a piece of JSON text."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "input_json_delta"}

    type: Literal["input_json_delta"] = "input_json_delta"
    partial_json: str


class ThinkingDelta(TaggedModel):
    """More thinking."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "thinking_delta"}

    type: Literal["thinking_delta"] = "thinking_delta"
    thinking: str
    estimated_tokens: Number | None = None


class SignatureDelta(TaggedModel):
    """The signature of a thinking block."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "signature_delta"}

    type: Literal["signature_delta"] = "signature_delta"
    signature: str


class CitationsDelta(TaggedModel):
    """Where the text before it comes from."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "citations_delta"}

    type: Literal["citations_delta"] = "citations_delta"
    citation: Citation


class CompactionDelta(TaggedModel):
    """More of a compaction summary."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "compaction_delta"}

    type: Literal["compaction_delta"] = "compaction_delta"
    content: str | None = None


KnownDelta: TypeAlias = Annotated[
    TextDelta | InputJSONDelta | ThinkingDelta | SignatureDelta | CitationsDelta | CompactionDelta,
    Field(discriminator="type"),
]
KNOWN_DELTAS = tags_of(KnownDelta, "type")


class UnknownDelta(WireModel):
    """A delta of a type that this version does not know."""

    type: str

    @field_validator("type")
    @classmethod
    def _only_unknown(cls, tag: str) -> str:
        return refuse_known(tag, KNOWN_DELTAS)

    @property
    def raw(self) -> JSONObject:
        """The delta as it came."""
        return dump(self)


Delta: TypeAlias = Annotated[KnownDelta | UnknownDelta, Field(union_mode="left_to_right")]

# Events ----------------------------------------------------------------------------------------------------------


class MessageStartEvent(TaggedModel):
    """An API message begins; its content is still empty."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "message_start"}

    type: Literal["message_start"] = "message_start"
    message: AssistantContent


class ContentBlockStartEvent(TaggedModel):
    """A content block begins."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "content_block_start"}

    type: Literal["content_block_start"] = "content_block_start"
    index: int
    content_block: ContentBlock


class ContentBlockDeltaEvent(TaggedModel):
    """A content block goes on."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "content_block_delta"}

    type: Literal["content_block_delta"] = "content_block_delta"
    index: int
    delta: Delta


class ContentBlockStopEvent(TaggedModel):
    """A content block is complete."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "content_block_stop"}

    type: Literal["content_block_stop"] = "content_block_stop"
    index: int


class MessageDelta(WireModel):
    """What is known of an API message only at its end."""

    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    stop_details: JSONObject | None = None
    container: JSONObject | None = None


class MessageDeltaEvent(TaggedModel):
    """An API message is about to end."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "message_delta"}

    type: Literal["message_delta"] = "message_delta"
    delta: MessageDelta
    usage: Usage | None = None
    context_management: JSONObject | None = None


class MessageStopEvent(TaggedModel):
    """An API message, or a failed attempt at one, is over."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "message_stop"}

    type: Literal["message_stop"] = "message_stop"


class PingEvent(TaggedModel):
    """The API stream is alive."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "ping"}

    type: Literal["ping"] = "ping"


class StreamErrorEvent(TaggedModel):
    """The API stream failed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "error"}

    type: Literal["error"] = "error"
    error: JSONObject


KnownStreamEvent: TypeAlias = Annotated[
    MessageStartEvent
    | ContentBlockStartEvent
    | ContentBlockDeltaEvent
    | ContentBlockStopEvent
    | MessageDeltaEvent
    | MessageStopEvent
    | PingEvent
    | StreamErrorEvent,
    Field(discriminator="type"),
]
KNOWN_STREAM_EVENTS = tags_of(KnownStreamEvent, "type")


class UnknownStreamEvent(WireModel):
    """A stream event of a type that this version does not know."""

    type: str

    @field_validator("type")
    @classmethod
    def _only_unknown(cls, tag: str) -> str:
        return refuse_known(tag, KNOWN_STREAM_EVENTS)

    @property
    def raw(self) -> JSONObject:
        """The event as it came."""
        return dump(self)


StreamEvent: TypeAlias = Annotated[KnownStreamEvent | UnknownStreamEvent, Field(union_mode="left_to_right")]

# The message -----------------------------------------------------------------------------------------------------


class AbandonedBlocks(WireModel):
    """Blocks whose deltas were sent and are void: drop every block of that API message from the index on."""

    api_message_id: str
    from_block_index: int


class StreamEventMessage(AnswerModel):
    """One event of the API stream. Only the main conversation has them, never a subagent's."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "stream_event"}

    type: Literal["stream_event"] = "stream_event"
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
