"""Messages about rate limits and about transcript entries."""

from typing import ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import JSONObject, MessageModel
from claude_agent_py.wire.messages.usage import RateLimitInfo


class RateLimitMessage(MessageModel):
    """A rate limit of the subscription changed. Not sent for API keys."""

    type: ClassVar[Literal["rate_limit_event"]] = "rate_limit_event"
    rate_limit_info: RateLimitInfo


class TranscriptMirrorMessage(MessageModel):
    """Entries that the CLI wrote to the transcript (`--session-mirror`). One more may follow the result."""

    type: ClassVar[Literal["transcript_mirror"]] = "transcript_mirror"
    file_path: str = field(name="filePath")
    entries: list[JSONObject] = field(default_factory=list)
