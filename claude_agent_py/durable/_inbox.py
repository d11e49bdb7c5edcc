"""`DeskInbox`: lets a turn ask the questions of its process."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from claude_agent_py._base.json_object import JSONObject
from claude_agent_py.permissions import Inbox, Interaction, PermissionContext


class DeskInbox(Inbox):
    """The inbox of one process. The engine's desk has its questions.

    Args:
        ask: Asks a question and returns the reply to the CLI. Cancelled if the CLI withdraws the question.
    """

    def __init__(self, ask: Callable[[Any, object, PermissionContext], Awaitable[JSONObject]]) -> None:
        self._ask = ask

    def __iter__(self) -> Iterator[Interaction]:
        return iter(())

    def arrivals(self) -> AsyncIterator[Interaction]:
        """Not supported: the desk has the questions."""
        raise NotImplementedError("the desk of a durable turn has its questions")

    async def ask(self, kind: Any, wire: object, context: PermissionContext) -> JSONObject:
        """Ask the question."""
        return await self._ask(kind, wire, context)
