"""The messages of subagents, kept by task.

Owns which messages are still there, and the gap that a reader sees where some are not. Bounded by their number over all
tasks: the oldest go first. What is gone can still be read from the transcript on disk (`Task.transcript`). Where a
message has a line, that is kept, and decoded for whoever looks: it takes a tenth of the memory.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages import AssistantMessage, UserMessage
from claude_agent_py.wire.system import PermissionDeniedMessage

MESSAGE_LIMIT: Final = 20_000

SubagentMessage: TypeAlias = AssistantMessage | UserMessage | PermissionDeniedMessage
"""What is kept of a subagent."""


@dataclass(frozen=True, slots=True)
class MessageGap:
    """In place of messages that are no longer kept."""

    task_id: str
    missed: int
    """How many they were."""


@dataclass(slots=True)
class _Kept:
    first: int = 0
    """The number of the oldest message that is still there, counted from the task's first."""
    messages: deque[SubagentMessage | bytes] = field(default_factory=deque)


class MessageLog:
    """The messages of all subagents, at most `limit` of them."""

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._limit = limit
        self._by_task: dict[str, _Kept] = {}
        self._order: deque[_Kept] = deque()

    def add(self, task_id: str, message: SubagentMessage, line: bytes = b"") -> None:
        """Keep a message, or its line where decoding that gives it again."""
        if self._limit <= 0:
            return
        kept = self._by_task.get(task_id)
        if kept is None:
            kept = self._by_task[task_id] = _Kept()
        kept.messages.append(line or message)
        self._order.append(kept)
        if len(self._order) > self._limit:
            oldest = self._order.popleft()
            oldest.messages.popleft()
            oldest.first += 1

    def all_of(self, task_id: str) -> list[SubagentMessage]:
        """Give the messages of a task that are still there."""
        kept = self._by_task.get(task_id)
        return [_message(each) for each in kept.messages] if kept else []

    def read(self, task_id: str, position: int) -> tuple[SubagentMessage | MessageGap | None, int]:
        """Give the message at a position (a gap where it is gone, None where it has not come yet), and the next one."""
        kept = self._by_task.get(task_id)
        if kept is None:
            return None, position
        if position < kept.first:
            return MessageGap(task_id, kept.first - position), kept.first
        index = position - kept.first
        return (_message(kept.messages[index]), position + 1) if index < len(kept.messages) else (None, position)


def _message(kept: SubagentMessage | bytes) -> SubagentMessage:
    return cast(SubagentMessage, decode(kept)) if isinstance(kept, bytes) else kept
