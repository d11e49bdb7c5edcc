"""Store the messages of subagents by task, up to a common limit.

Beyond the limit the oldest are dropped, and a reader sees a `MessageGap` in their place. The transcript on disk still
has them. Messages are stored as their lines if possible, which takes a tenth of the memory.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from anyio.lowlevel import checkpoint

from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import PermissionDeniedMessage

MESSAGE_LIMIT: Final = 20_000

SubagentMessage: TypeAlias = AssistantMessage | UserMessage | PermissionDeniedMessage


@dataclass(frozen=True, slots=True)
class MessageGap:
    """Takes the place of messages that were dropped."""

    task_id: str
    missed: int
    """How many messages are missing."""


@dataclass(slots=True)
class _Kept:
    first: int = 0
    """The number of the oldest message kept, counted from the task's first."""
    messages: deque[SubagentMessage | bytes] = field(default_factory=deque)


class MessageLog:
    """The messages of all subagents, at most `limit` of them."""

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._limit = limit
        self._by_task: dict[str, _Kept] = {}
        self._order: deque[_Kept] | None = None
        """The order in which messages came; None before the first one, because an empty deque takes 600 bytes."""

    def add(self, task_id: str, message: SubagentMessage, line: bytes = b"") -> None:
        """Store a message, or the line it was decoded from."""
        if self._limit <= 0:
            return
        kept = self._by_task.get(task_id)
        if kept is None:
            kept = self._by_task[task_id] = _Kept()
        kept.messages.append(line or message)
        order = self._order = deque() if self._order is None else self._order
        order.append(kept)
        if len(order) > self._limit:
            oldest = order.popleft()
            oldest.messages.popleft()
            oldest.first += 1

    def of(self, task_id: str) -> list[SubagentMessage]:
        """Return the messages of a task that are kept."""
        kept = self._by_task.get(task_id)
        return [_message(each) for each in kept.messages] if kept else []

    def read(self, task_id: str, position: int) -> tuple[SubagentMessage | MessageGap | None, int]:
        """Return the message at a position (a gap if dropped, None if not received yet) and the next position."""
        kept = self._by_task.get(task_id)
        if kept is None:
            return None, position
        if position < kept.first:
            return MessageGap(task_id, kept.first - position), kept.first
        index = position - kept.first
        return (_message(kept.messages[index]), position + 1) if index < len(kept.messages) else (None, position)


def _message(kept: SubagentMessage | bytes) -> SubagentMessage:
    return cast(SubagentMessage, decode(kept)) if isinstance(kept, bytes) else kept


class Conversation(AsyncIterator[SubagentMessage | MessageGap]):
    """The messages of a subagent, those so far and then live: iterate it with `async for`."""

    def __init__(
        self, task_id: str, log: MessageLog, is_over: Callable[[], bool], wait: Callable[[], Awaitable[None]]
    ) -> None:
        self._task_id = task_id
        self._log = log
        self._is_over = is_over
        self._wait = wait
        self._position = 0

    async def __anext__(self) -> SubagentMessage | MessageGap:
        await checkpoint()
        while True:
            message, self._position = self._log.read(self._task_id, self._position)
            if message is not None:
                return message
            if self._is_over():
                raise StopAsyncIteration
            await self._wait()
