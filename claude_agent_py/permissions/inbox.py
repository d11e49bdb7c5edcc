"""Inboxes: pending questions to people, which any task or thread may read and answer."""

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import anyio

from claude_agent_py._base.event_loop import Wakeup
from claude_agent_py.permissions.contexts import PermissionContext
from claude_agent_py.permissions.decisions import Decision
from claude_agent_py.permissions.interactions import AnswerSource, Interaction, InteractionOpened, InteractionSettled
from claude_agent_py.permissions.prompts import KINDS, Kind
from claude_agent_py.permissions.requests import PermissionRequest
from claude_agent_py.wire.base import JSONObject

Question = TypeVar("Question", bound=Interaction)

TIMED_OUT: Final = "The request timed out without an answer."
CLOSED: Final = "Nobody answers: the inbox is closed."


class Inbox(ABC):
    """Holds questions until a person answers. Pass it as `interactions=` for prompts without a handler, or compose it:
    `can_use_tool=first_of(read_only(), inbox.permission)`.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Interaction]:
        """Iterate over pending questions, oldest first."""

    @abstractmethod
    async def ask(self, kind: Kind, wire: object, context: PermissionContext) -> JSONObject:
        """Wait for an answer and return the reply to the CLI. Cancelling withdraws the question."""

    @abstractmethod
    def arrivals(self) -> AsyncIterator[Interaction]:
        """Iterate over pending and future questions."""

    def get(self, interaction_id: str) -> Interaction | None:
        """Return the pending question with this id, or None."""
        return next((interaction for interaction in self if interaction.id == interaction_id), None)

    def __getitem__(self, interaction_id: str) -> Interaction:
        found = self.get(interaction_id)
        if found is None:
            raise KeyError(interaction_id)
        return found

    async def permission(self, request: PermissionRequest, context: PermissionContext) -> Decision:
        """Ask for permission. Use it as `can_use_tool` or as a policy."""
        decision: Decision = KINDS["permission"].answer(await self.ask("permission", request.wire, context))
        return decision


class WaitingInbox(Inbox, Generic[Question]):
    """An inbox that waits for a person while the question is open. A subclass keeps the questions.

    Args:
        timeout: Seconds after which a question is refused; None means never.
    """

    def __init__(self, *, timeout: float | None = None) -> None:
        self.timeout = timeout

    async def ask(self, kind: Kind, wire: object, context: PermissionContext) -> JSONObject:
        """Wait for an answer and return the reply to the CLI. Cancelling withdraws the question."""
        now = time.time()
        question = self._make(
            kind,
            wire,
            id=secrets.token_hex(4),
            created_at=now,
            deadline=None if self.timeout is None else now + self.timeout,
            session_id=context.session_id,
            agent_id=context.agent_id,
            task_description=getattr(context.task, "description", None),
            context=context,
        )
        # Report the wait before the question becomes visible and can be answered.
        with context.awaiting_user(question.id):
            await self._open(question)
            context.on_interaction(InteractionOpened(question))
            reply = source = None
            try:
                with anyio.move_on_after(self.timeout):
                    await self._wait(question)
            finally:
                try:
                    reply, source = await self._close(question)
                finally:
                    context.on_interaction(InteractionSettled(question, reply is not None, reply, source))
        return KINDS[kind].refuse(TIMED_OUT) if reply is None else reply

    @abstractmethod
    def _make(self, kind: Kind, wire: object, **about: object) -> Question:
        """Return a question. See `Interaction` for the arguments."""

    @abstractmethod
    async def _open(self, question: Question) -> None:
        """Make a question visible. If it raises, also a cancellation, the question is not."""

    @abstractmethod
    async def _wait(self, question: Question) -> None:
        """Wait until a question is settled."""

    @abstractmethod
    async def _close(self, question: Question) -> tuple[JSONObject | None, AnswerSource | None]:
        """Close a question, also if cancelled, and return its answer with its source: None if it was not answered."""


class PendingInteractions(WaitingInbox["_Waiting"]):
    """An inbox in memory.

    Args:
        timeout: Seconds after which a question is refused; None means never.
    """

    def __init__(self, *, timeout: float | None = None) -> None:
        super().__init__(timeout=timeout)
        self._lock = threading.Lock()
        self._is_closed = False
        self._waiting: dict[str, _Waiting] = {}
        self._arrivals: WeakSet[_Arrivals] = WeakSet()

    def __iter__(self) -> Iterator[Interaction]:
        with self._lock:
            return iter([interaction for interaction in self._waiting.values() if not interaction.done])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __bool__(self) -> bool:
        # An empty inbox is still an inbox, although its length is 0.
        return True

    def arrivals(self) -> AsyncIterator[Interaction]:
        """Iterate over pending and future questions until `close`. May run in another event loop or thread.

        Iterators of the inbox that a session created (`interactions=True`) also end when its CLI dies. The inbox stays
        open for `reopen` and for child agents: start new ones.
        """
        arrivals = _Arrivals()
        with self._lock:
            self._arrivals.add(arrivals)
            arrivals.put(*self._waiting.values())
            if self._is_closed:
                arrivals.end()
        return arrivals

    def close(self) -> None:
        """End `arrivals` after the pending questions, and refuse those that come later. May be called from any thread.

        A client that created its inbox (`interactions=True`) closes it at the end. An inbox of yours may serve other
        sessions, so close it yourself.
        """
        with self._lock:
            self._is_closed = True
            self._end_arrivals()

    def end_arrivals(self) -> None:
        """End the present iterators of `arrivals` after the pending questions. May be called from any thread."""
        with self._lock:
            self._end_arrivals()

    def _end_arrivals(self) -> None:
        for arrivals in self._arrivals:
            arrivals.end()
        self._arrivals.clear()

    def _make(self, kind: Kind, wire: object, **about: object) -> "_Waiting":
        return _Waiting(kind, wire, **about)

    async def _open(self, question: "_Waiting") -> None:
        with self._lock:
            self._waiting[question.id] = question
            if self._is_closed:
                question.refuse(CLOSED)
            for arrivals in self._arrivals:
                arrivals.put(question)

    async def _wait(self, question: "_Waiting") -> None:
        await question.settled.wait()

    async def _close(self, question: "_Waiting") -> tuple[JSONObject | None, AnswerSource | None]:
        was_answered = not question.refuse(TIMED_OUT)  # only a question without an answer can be refused
        with self._lock:
            del self._waiting[question.id]
        return (question.reply, question.source) if was_answered else (None, None)


class _Waiting(Interaction):
    """A question in memory."""

    def __init__(self, kind: Kind, wire: Any, **about: Any) -> None:
        super().__init__(kind, wire, **about)
        self.settled = Wakeup()
        self.reply: JSONObject = {}
        self.source: AnswerSource | None = None
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether it was answered, refused or withdrawn."""
        return bool(self.reply)

    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        with self._lock:
            if self.reply:
                return False
            self.reply = reply
            self.source = source
        self.settled.set()
        return True


class _Arrivals(AsyncIterator[Interaction]):
    """A queue that any thread fills and one event loop empties. It needs no closing."""

    def __init__(self) -> None:
        self._queue: deque[Interaction] = deque()
        self._has_ended = False
        self._wakeup: Wakeup | None = None

    def put(self, *interactions: Interaction) -> None:
        self._queue.extend(interactions)
        if self._wakeup is not None:
            self._wakeup.set()

    def end(self) -> None:
        self._has_ended = True
        self.put()

    async def __anext__(self) -> Interaction:
        while True:
            # Create the wakeup before checking the queue, so that no item is missed.
            self._wakeup = Wakeup()
            while self._queue:
                interaction = self._queue.popleft()
                if not interaction.done:
                    return interaction
            if self._has_ended:
                raise StopAsyncIteration
            await self._wakeup.wait()
