"""Messages about the session that are neither conversation nor of type `system`.

Owns the remaining top-level types of the wire. Knows nothing of what they mean for a run.
"""

from typing import ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import JSONObject, MessageModel
from claude_agent_py.wire.usage import RateLimitInfo


class RateLimitMessage(MessageModel):
    """The state of a subscription's limit changed. Not sent for API keys."""

    type: ClassVar[Literal["rate_limit_event"]] = "rate_limit_event"
    rate_limit_info: RateLimitInfo


class TranscriptMirrorMessage(MessageModel):
    """Entries that the CLI wrote to the session's file (`--session-mirror`). One more may follow the result."""

    type: ClassVar[Literal["transcript_mirror"]] = "transcript_mirror"
    file_path: str = field(name="filePath")
    entries: list[JSONObject] = field(default_factory=list)
