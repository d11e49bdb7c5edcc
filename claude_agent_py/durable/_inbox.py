"""`DeskInbox`: asks the questions of a turn at the engine's desk."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import anyio

from claude_agent_py.durable.desk import Desk
from claude_agent_py.permissions import Inbox, Interaction, PermissionContext, QuestionRecord


class DeskInbox(Inbox):
    """The inbox of one process.

    Args:
        desk: Keeps the questions.
        session_id: The session.
        patience: Seconds to wait for an answer.
        leave: Ends the process because an answer takes longer, which cancels the question.
        fail: Ends the process because the desk failed.
        is_open: Returns whether the CLI runs and the turn goes on.
    """

    def __init__(
        self,
        desk: Desk,
        session_id: str,
        patience: float,
        leave: Callable[[str | None], Awaitable[None]],
        fail: Callable[[Exception], Awaitable[None]],
        is_open: Callable[[], bool],
    ) -> None:
        self._desk = desk
        self._session_id = session_id
        self._patience = patience
        self._leave = leave
        self._fail = fail
        self._is_open = is_open

    def __iter__(self) -> Iterator[Interaction]:
        # The questions are at the desk.
        return iter(())

    def arrivals(self) -> AsyncIterator[Interaction]:
        """Not supported: the desk has the questions."""
        raise NotImplementedError("the desk of a durable turn has its questions")

    async def ask(self, kind: Any, wire: object, context: PermissionContext) -> dict[str, Any]:
        """Ask at the desk, wait for the answer, and return the reply to the CLI."""
        question = QuestionRecord.of(kind, wire, session_id=self._session_id, agent_id=context.agent_id)
        try:
            with context.awaiting_user(question.key[:12]):
                reply = await self._wait_for_reply(question)
                if reply is None:
                    await self._leave(context.tool_use_id)
                return question.check(reply)
        except Exception as error:
            await self._fail(error)
        except BaseException:
            # If the process ends, the question stays open; otherwise the CLI has withdrawn it.
            if self._is_open():
                with anyio.CancelScope(shield=True):
                    await self._desk.withdraw(question)
            raise
        return question.refusal()

    async def _wait_for_reply(self, question: QuestionRecord) -> object:
        reply = await self._take(question)
        with anyio.move_on_after(self._patience):
            while reply is None:
                await self._desk.wait(question)
                reply = await self._take(question)
        return reply

    async def _take(self, question: QuestionRecord) -> object:
        # An answer that was taken must not be lost.
        reply: object = None
        with anyio.CancelScope(shield=True):
            reply = await self._desk.ask(question)
        return reply  # noqa: RET504 - the scope may have been cancelled
