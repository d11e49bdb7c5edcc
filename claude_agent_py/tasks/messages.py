"""Store the messages of subagents by task, up to a common limit.

Beyond the limit, the oldest messages are dropped, and a reader receives a `MessageGap` instead. The transcript on disk
still contains them. Messages are stored as their lines, which take a tenth of the memory.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias, cast

from anyio.lowlevel import checkpoint
from msgspec import Struct, field

from claude_agent_py.wire.codec import decode, line_of
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import InitMessage, PermissionDeniedMessage

MESSAGE_LIMIT: Final = 20_000

SubagentMessage: TypeAlias = AssistantMessage | UserMessage | PermissionDeniedMessage | InitMessage


class MessageGap(Struct, frozen=True):
    """Stands for messages that were dropped."""

    task_id: str
    missed: int
    """The number of missing messages."""


class _TaskMessages(Struct, gc=False):
    first: int = 0
    """The position of the oldest stored message, counted from the first message of the task."""
    messages: deque[bytes] = field(default_factory=deque)


class SubagentMessages:
    """The messages of all subagents, at most `limit` of them."""

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._limit = limit
        self._by_task: dict[str, _TaskMessages] = {}
        self._order: deque[_TaskMessages] | None = None
        """The task of each message, in order of arrival. None before the first message: an empty deque takes 600
        bytes."""

    def add(self, task_id: str, message: SubagentMessage) -> None:
        """Store a message."""
        if self._limit <= 0:
            return
        stored = self._by_task.get(task_id)
        if stored is None:
            stored = self._by_task[task_id] = _TaskMessages()
        stored.messages.append(line_of(message))
        if self._order is None:
            self._order = deque()
        self._order.append(stored)
        if len(self._order) > self._limit:
            oldest = self._order.popleft()
            oldest.messages.popleft()
            oldest.first += 1

    def get(self, task_id: str) -> list[SubagentMessage]:
        """Return the stored messages of a task."""
        stored = self._by_task.get(task_id)
        return [_decode(line) for line in stored.messages] if stored else []

    def read(self, task_id: str, position: int) -> tuple[SubagentMessage | MessageGap | None, int]:
        """Return the message at a position (a gap if dropped, None if not received yet) and the next position."""
        stored = self._by_task.get(task_id)
        if stored is None:
            return None, position
        if position < stored.first:
            return MessageGap(task_id, stored.first - position), stored.first
        index = position - stored.first
        if index < len(stored.messages):
            return _decode(stored.messages[index]), position + 1
        return None, position


def _decode(line: bytes) -> SubagentMessage:
    return cast(SubagentMessage, decode(line, report=False))


class SubagentConversation(AsyncIterator[SubagentMessage | MessageGap]):
    """The messages of a subagent so far, then new ones as they arrive. Iterate it with `async for`."""

    def __init__(
        self, task_id: str, log: SubagentMessages, has_ended: Callable[[], bool], wait: Callable[[], Awaitable[None]]
    ) -> None:
        self._task_id = task_id
        self._log = log
        self._has_ended = has_ended
        self._wait = wait
        self._position = 0

    async def __anext__(self) -> SubagentMessage | MessageGap:
        await checkpoint()
        while True:
            message, self._position = self._log.read(self._task_id, self._position)
            if message is not None:
                return message
            if self._has_ended():
                raise StopAsyncIteration
            await self._wait()
