"""`Desk`: where an engine keeps the questions of a turn to a person, and `MemoryDesk`, in memory.

A question is open until its answer is taken. An answer is taken once, before the CLI gets it, so that a call that a
person approved does not run twice after a crash.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from claude_agent_py._base.event_loop import Wakeup
from claude_agent_py.permissions import QuestionRecord
from claude_agent_py.wire import JSONObject


class PendingQuestion(NamedTuple):
    """A question at a desk."""

    question: QuestionRecord
    is_answered: bool
    """Whether its answer can be taken."""


class Desk(Protocol):
    """Keeps the questions of one prompt. An engine implements it; a failure of a method ends the call as `Later`."""

    async def confirm(self) -> bool:
        """Return whether this call is still the one that the engine wants.

        Asked before the call takes the store's lease, and again before it reads the store. False makes the outcome
        `Lost`.
        """
        ...

    async def ask(self, question: QuestionRecord) -> JSONObject | None:
        """Store a question unless it is open, and take its answer if it has one.

        Two questions with the same `key` are the same. The answer is durably marked as taken before it is returned. The
        same question is a new one afterwards. The call is not cancelled.

        Returns:
            The reply: a result of `QuestionRecord.reply`. None if there is no answer yet.
        """
        ...

    async def wait(self, question: QuestionRecord) -> None:
        """Wait until an open question may have been answered. Cancelled once the patience of the turn is used up."""
        ...

    async def pending(self) -> Sequence[PendingQuestion]:
        """Return the open questions, oldest first, including those whose answer was not taken."""
        ...

    async def withdraw(self, question: QuestionRecord) -> None:
        """Close a question that needs no answer any more, because the CLI withdrew it or the turn has ended."""
        ...


class MemoryDesk:
    """A desk in memory, for tests and for programs that lose their questions when they end."""

    def __init__(self) -> None:
        self._open: dict[str, QuestionRecord] = {}
        self._replies: dict[str, JSONObject] = {}
        self._answered: Wakeup | None = None

    def answer(self, key: str, value: object) -> bool:
        """Answer the question with a key. Return False if it is not open, or is answered already.

        Raises:
            ValueError: The value does not answer the question.
        """
        question = self._open.get(key)
        if question is None or key in self._replies:
            return False
        self._replies[key] = question.reply(value)
        if self._answered is not None:
            self._answered.set()
        return True

    async def confirm(self) -> bool:
        """Return True."""
        return True

    async def ask(self, question: QuestionRecord) -> JSONObject | None:
        """Keep the question, or take its answer."""
        self._open.setdefault(question.key, question)
        reply = self._replies.pop(question.key, None)
        if reply is not None:
            del self._open[question.key]
        return reply

    async def wait(self, question: QuestionRecord) -> None:
        """Wait until the question is answered."""
        while question.key not in self._replies:
            if self._answered is None or self._answered.is_set():
                self._answered = Wakeup()
                continue  # it may have been answered in another thread meanwhile
            await self._answered.wait()

    async def pending(self) -> Sequence[PendingQuestion]:
        """Return the open questions."""
        return [PendingQuestion(question, key in self._replies) for key, question in self._open.items()]

    async def withdraw(self, question: QuestionRecord) -> None:
        """Forget the question."""
        self._open.pop(question.key, None)
        self._replies.pop(question.key, None)
