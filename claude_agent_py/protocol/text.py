"""The text of a run as it arrives, each piece once.

The same text comes up to three times over the wire: as deltas (with partial messages), as a finished block in an
`assistant` message, and in the result. And where the API's stream breaks, the CLI starts the answer again: it closes
the broken attempt with `abandoned_blocks`, and the new attempt repeats what was said. Pure: messages in, text out.
"""

from collections.abc import Iterator
from typing import Any, Final

from claude_agent_py.wire.content import TextBlock
from claude_agent_py.wire.messages import AssistantMessage, ResultMessage
from claude_agent_py.wire.stream import (
    AbandonedBlocks,
    ContentBlockDeltaEvent,
    MessageStartEvent,
    MessageStopEvent,
    StreamEventMessage,
    TextDelta,
)

RESTART: Final = "\n\n"
"""What stands between a broken-off answer and the one that replaces it, where the two differ."""


class TextFold:
    """Gives the main agent's text, each piece once. Subagents and what a result repeats are left out."""

    def __init__(self) -> None:
        self._message_id = ""
        self._streamed: dict[str, dict[int, list[str]]] = {}
        """By message, by block: the text that came as deltas."""
        self._abandoned = ""
        """What a broken attempt said, as far as the next attempt has not repeated it yet."""
        self._repeated: list[str] = []

    def feed(self, message: Any) -> Iterator[str]:
        """Return the new text that a message brings."""
        kind = type(message)
        if kind is StreamEventMessage:
            if message.parent_tool_use_id is None:
                yield from self._on_event(message)
        elif kind is AssistantMessage:
            if not message.is_subagent:
                yield from self._on_blocks(message)
        elif kind is ResultMessage:
            self._abandoned = ""

    def _on_event(self, message: StreamEventMessage) -> Iterator[str]:
        event = message.event
        if isinstance(event, ContentBlockDeltaEvent):
            if isinstance(event.delta, TextDelta):
                blocks = self._streamed.setdefault(message.api_message_id or self._message_id, {})
                blocks.setdefault(event.index, []).append(event.delta.text)
                yield from self._new(event.delta.text)
        elif isinstance(event, MessageStartEvent):
            self._message_id = event.message.id
        elif message.abandoned_blocks is not None:
            self._abandon(message.abandoned_blocks)
        elif isinstance(event, MessageStopEvent):
            self._abandoned = ""  # the new attempt is through, whatever it did not repeat

    def _abandon(self, abandoned: AbandonedBlocks) -> None:
        """Remember what the broken attempt said: the next one will most likely say it again."""
        blocks = self._streamed.pop(abandoned.api_message_id, {})
        kept = {index: parts for index, parts in blocks.items() if index < abandoned.from_block_index}
        if kept:
            self._streamed[abandoned.api_message_id] = kept
        said, stays = _text(blocks), _text(kept)
        if self._abandoned:  # it broke before it had said again all of what the attempt before it had said
            said = "".join(self._repeated) + self._abandoned
        self._abandoned = said[len(stays) :]
        self._repeated = []

    def _on_blocks(self, message: AssistantMessage) -> Iterator[str]:
        if message.message.id in self._streamed or message.error is not None:
            return  # the deltas gave it already; or it is no answer but reports a failure of the API
        for block in message.content:
            if isinstance(block, TextBlock) and block.text:
                yield from self._new(block.text)

    def _new(self, text: str) -> Iterator[str]:
        """Return text, except for what repeats a broken attempt."""
        if not self._abandoned:
            if text:
                yield text
            return
        if self._abandoned.startswith(text):
            self._abandoned = self._abandoned[len(text) :]
            self._repeated.append(text)
        elif text.startswith(self._abandoned):
            rest, self._abandoned = text[len(self._abandoned) :], ""
            yield rest
        else:
            self._abandoned = ""
            yield RESTART + "".join(self._repeated) + text


def _text(blocks: dict[int, list[str]]) -> str:
    return "".join("".join(parts) for _, parts in sorted(blocks.items()))
