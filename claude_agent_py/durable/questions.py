"""`Questions`: the questions of a turn at its desk, of this process and of earlier ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import anyio

from claude_agent_py._base.log import logger
from claude_agent_py.durable.desk import Desk
from claude_agent_py.permissions import QuestionRecord


class DeskError(Exception):
    """The desk failed."""


@contextmanager
def asking_desk() -> Iterator[None]:
    """Raise DeskError for an error of the desk."""
    try:
        yield
    except Exception as error:
        raise DeskError(f"{type(error).__name__}: {error}") from error


class Questions:
    """The questions of a turn.

    Args:
        desk: Keeps them.
        patience: Seconds to wait for an answer.
        session_id: The session, for the log.
    """

    def __init__(self, desk: Desk, patience: float, session_id: str) -> None:
        self._desk = desk
        self._patience = patience
        self._session_id = session_id
        self._left: list[QuestionRecord] = []
        """The answered questions of earlier processes that this one's model has not repeated."""
        self._asking: set[str] = set()
        """The keys of the questions that wait."""
        self.wait_for_answers: anyio.CancelScope = anyio.CancelScope()
        """The wait for the answers to questions of an earlier process."""

    async def is_wanted(self) -> bool:
        """Return whether the engine still wants this call. Raises DeskError."""
        with asking_desk():
            return await self._desk.confirm()

    async def take_up(self) -> list[QuestionRecord] | None:
        """Return the questions at which an earlier process ended and that are answered; None if one is not.

        Raises DeskError.
        """
        with asking_desk():
            found = await self._desk.pending()
            was_ended = self.wait_for_answers.cancel_called
            self.wait_for_answers = anyio.CancelScope(
                deadline=0 if was_ended else anyio.current_time() + self._patience
            )
            with self.wait_for_answers:
                while unanswered := [each.question for each in found if not each.is_answered]:
                    await self._desk.wait(unanswered[0])
                    found = await self._desk.pending()
        self._left = [each.question for each in found]
        return list(self._left) if all(each.is_answered for each in found) else None

    @contextmanager
    def identify(self, question: QuestionRecord) -> Iterator[QuestionRecord]:
        """Yield a question as the one of an earlier process that it repeats, or as a new one beside those that wait."""
        left = next((each for each in self._left if replace(each, number=0).key == question.key), None)
        if left is not None:
            self._left.remove(left)
            question = replace(question, number=left.number)
        while question.key in self._asking:
            question = replace(question, number=question.number + 1)
        self._asking.add(question.key)
        try:
            yield question
        finally:
            self._asking.discard(question.key)

    async def wait_for_reply(self, question: QuestionRecord) -> object:
        """Ask a question and take its reply; None if there is none within the patience."""
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

    async def list_open(self) -> tuple[QuestionRecord, ...]:
        """Return the questions without an answer."""
        return tuple(each.question for each in await self._desk.pending() if not each.is_answered)

    async def withdraw(self, question: QuestionRecord | None = None) -> None:
        """Close a question that the CLI has withdrawn, or all that are left at the desk of a turn that has ended."""
        try:
            found = [each.question for each in await self._desk.pending()] if question is None else [question]
            for each in found:
                await self._desk.withdraw(each)
        except Exception as error:
            logger.warning("questions of session %s cannot be withdrawn: %s", self._session_id, error)
