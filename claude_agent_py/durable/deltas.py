"""`Delta`: what the model writes, while it writes it. `DeltaReader` finds it in the messages of a session."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from claude_agent_py._base.log import logger
from claude_agent_py.errors import ClaudeAgentError
from claude_agent_py.journal import Fact
from claude_agent_py.messages import StreamEventMessage

DeltaKind: TypeAlias = Literal["text", "reasoning", "call", "arguments"]
"""What a delta is a piece of: a text, a thought, the beginning of a tool call, or its arguments."""

_TEXTS: Final[dict[str, tuple[DeltaKind, str]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("reasoning", "thinking"),
}


class Delta(NamedTuple):
    """A piece of what the main agent writes, before the fact that has all of it."""

    kind: DeltaKind
    """`text` or `reasoning` of a message, the beginning of a `call`, or a piece of its `arguments`."""
    id: str
    """That of the message, as in `MessageAdded`, or of the call, as in `CallStarted`."""
    text: str
    """The further text, or JSON of the arguments; of a `call` the name of the tool."""


class DeltaReader:
    """Reads the deltas of one session from its messages, which the option `include_partial_messages` asks for."""

    def __init__(self) -> None:
        self._message = ""
        """The id of the message that arrives."""
        self._calls: dict[int, str] = {}
        """The calls of that message, by the index of their block."""

    def read(self, message: StreamEventMessage) -> Delta | None:
        """Return the delta of a message; None if it has none, or is of a subagent."""
        event: Any = message.event
        if message.parent_tool_use_id is not None:
            return None
        if event.type == "message_start":
            self._message, self._calls = event.message.id or message.uuid, {}
        elif event.type == "content_block_start" and event.content_block.type == "tool_use":
            self._calls[event.index] = event.content_block.id
            return Delta("call", event.content_block.id, event.content_block.name)
        elif event.type == "content_block_delta":
            kind = event.delta.type
            if kind in _TEXTS and self._message:
                name, field = _TEXTS[kind]
                return Delta(name, self._message, getattr(event.delta, field))
            if kind == "input_json_delta" and event.index in self._calls:
                return Delta("arguments", self._calls[event.index], event.delta.partial_json)
        return None


async def read_with_deltas(
    facts: AsyncIterator[Fact], find_events: Callable[[], AsyncIterator[object] | None]
) -> AsyncIterator[Fact | Delta]:
    """Yield the facts of a stream, which ends when there are events that go on with its facts, and then those.

    Args:
        facts: The facts of a session since before it was connected.
        find_events: Returns what the session tells since then, with facts. None if there is nothing else.
    """
    last = 0
    async for fact in facts:
        last = fact.number
        yield fact
    events, reader = find_events(), DeltaReader()
    if events is None:
        return
    try:
        async for event in events:
            if isinstance(event, Fact) and event.number > last:
                yield event
            elif isinstance(event, StreamEventMessage) and (delta := reader.read(event)) is not None:
                yield delta
    except ClaudeAgentError as error:
        logger.debug("the events of a session ended: %s", error)
