"""`TextFold`: the text of a run as it arrives, each piece once.

The same text is sent up to three times: as deltas, as a block of an `assistant` message, and in the result. If the
API's stream breaks, the CLI sends `abandoned_blocks`, and the next attempt repeats the text.
"""

from collections.abc import Iterator
from typing import Any, Final

from claude_agent_py.wire.messages.content import TextBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage
from claude_agent_py.wire.messages.stream import (
    AbandonedBlocks,
    ContentBlockDeltaEvent,
    MessageStartEvent,
    MessageStopEvent,
    StreamEventMessage,
    TextDelta,
)

RESTART: Final = "\n\n"
"""Separates an abandoned answer from its replacement, if they differ."""


class TextFold:
    """Extracts the main agent's text from messages, each piece once, without subagents."""

    def __init__(self) -> None:
        self._message_id = ""
        self._streamed: dict[str, dict[int, list[str]]] = {}
        """The text of the messages of this turn that came as deltas, by block; empty for a message that is complete."""
        self._abandoned = ""
        """The text of an abandoned attempt that the next one has not repeated yet."""
        self._repeated: list[str] = []

    def feed(self, message: Any) -> Iterator[str]:
        """Yield the new text of a message."""
        kind = type(message)
        if kind is StreamEventMessage:
            if message.parent_tool_use_id is None:
                yield from self._on_event(message)
        elif kind is AssistantMessage:
            if not message.is_subagent:
                yield from self._on_blocks(message)
        elif kind is ResultMessage:
            self._abandoned = ""
            self._streamed.clear()  # nothing of the turn follows

    def _on_event(self, message: StreamEventMessage) -> Iterator[str]:
        event = message.event
        if isinstance(event, ContentBlockDeltaEvent):
            if isinstance(event.delta, TextDelta):
                blocks = self._streamed.setdefault(message.api_message_id or self._message_id, {})
                blocks.setdefault(event.index, []).append(event.delta.text)
                yield from self._skip_repeated(event.delta.text)
        elif isinstance(event, MessageStartEvent):
            self._message_id = event.message.id
        elif message.abandoned_blocks is not None:
            self._abandon(message.abandoned_blocks)
        elif isinstance(event, MessageStopEvent):
            self._abandoned = ""  # the new attempt is complete
            self._streamed.get(message.api_message_id or self._message_id, {}).clear()

    def _abandon(self, abandoned: AbandonedBlocks) -> None:
        """Remember the text of the abandoned attempt, which the next one will probably repeat."""
        blocks = self._streamed.pop(abandoned.api_message_id, {})
        kept = {index: parts for index, parts in blocks.items() if index < abandoned.from_block_index}
        if kept:
            self._streamed[abandoned.api_message_id] = kept
        said, stays = _text(blocks), _text(kept)
        if self._abandoned:  # it broke before it had repeated the attempt before it
            said = "".join(self._repeated) + self._abandoned
        self._abandoned = said[len(stays) :]
        self._repeated = []

    def _on_blocks(self, message: AssistantMessage) -> Iterator[str]:
        if message.message.id in self._streamed or message.error is not None:
            return  # already received as deltas, or an error report instead of an answer
        for block in message.content:
            if isinstance(block, TextBlock) and block.text:
                yield from self._skip_repeated(block.text)

    def _skip_repeated(self, text: str) -> Iterator[str]:
        """Yield text, except for what repeats an abandoned attempt."""
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
