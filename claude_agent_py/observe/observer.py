"""`LiveJournal`, the journal of a running session, and its observers.

The session feeds its journal with the messages it reads, the prompts it sends, the requests it answers, and the events
of its tasks. Sessions that nobody observes have no journal.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.log import Drops
from claude_agent_py._journal.facts import Fact
from claude_agent_py._journal.fold import RECEIVED, Journal
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py.tasks.intake import TaskIntake
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.frames import (
    ControlCancelRequest,
    ControlFailure,
    ControlRequest,
    ControlResponse,
    ControlSuccess,
)
from claude_agent_py.wire.messages.conversation import ResultMessage, UserMessage
from claude_agent_py.wire.messages.stream import MessageDeltaEvent, StreamEventMessage


class Observer:
    """Gets the facts of a running session, starting with what was open when it began to observe."""

    is_prompt: bool = False
    """Whether it needs the facts of a frame before the next one."""

    def sent(self, prompt: UserMessage) -> None:
        """Called when a prompt is sent, in the context of the sender and before its fact."""

    def add(self, facts: Sequence[Fact]) -> None:
        """Called with new facts."""

    def finish(self, at: float | None = None) -> None:
        """Called at the end of the session, or when the observer is removed. `at` is in seconds since the epoch."""


class LiveJournal:
    """Folds a running session for its observers. Frames are queued with their times and folded by `catch_up`.

    The queue keeps folding out of the way of readers that wait for messages; only an event of a task is folded at once.
    Never raises: a fact with which an observer fails is logged and dropped for it.

    Args:
        tasks: The tasks of the session, whose events become facts. Without it, the journal has a ledger of its own.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(self, tasks: TaskIntake | None = None, clock: Callable[[], float] = time.time) -> None:
        self.observers: tuple[Observer, ...] = ()
        """Replaced, never mutated."""
        self.limit: int = 1000
        """The length of the queue at which it is folded immediately."""
        self.is_prompt: bool = False
        """Whether to fold each frame at once; a message after the ledger, which knows the tasks that it is about."""
        self._journal = Journal()
        self._clock = clock
        self._pending: list[tuple[Any, float, bool, str]] = []
        self._retained: deque[Fact] | None = None
        self._drops = Drops("an observer of the session")
        self._tasks = tasks
        if tasks is not None:
            self._journal.follow(tasks.ledger)
            tasks.watchers[self] = self._on_tasks

    @classmethod
    def of(cls, session: Any) -> "LiveJournal":
        """Return the journal of a session. It begins now if nobody observed the session."""
        if not session.journals:
            session.journals = (cls(session.intake),)
        journal: LiveJournal = session.journals[0]
        return journal

    @staticmethod
    def release(session: Any, observer: Observer) -> None:
        """Remove an observer of a session. The journal ends with its last observer, unless it retains facts."""
        for journal in session.journals:
            journal.remove(observer)
            if not journal.observers and journal._retained is None:
                journal._forget_tasks()
                session.journals = ()

    def observe(self, observer: Observer, after: int | None = None) -> None:
        """Add an observer, which begins with what is open, or with the retained facts after a number.

        Raises:
            OptionsError: These facts are not retained.
        """
        self.catch_up()
        facts = self._journal.open if after is None else self.facts_after(after)
        self.observers = (*self.observers, observer)
        self.is_prompt = self.is_prompt or observer.is_prompt
        self._show(observer, facts)

    def retain(self, count: int) -> None:
        """Keep the latest facts from now on; 0 stops."""
        self.catch_up()
        self._retained = deque(self._retained or (), maxlen=count) if count else None

    def facts_after(self, number: int) -> list[Fact]:
        """Return the retained facts after the one with this number.

        Raises:
            OptionsError: A fact after it is not retained, or the journal has no such number.
        """
        last = self._journal.number
        if self._retained is None:
            raise OptionsError("the session retains no facts; call journal(retain=...) first", option="after")
        first = self._retained[0].number if self._retained else last + 1
        if not first - 1 <= number <= last:
            problem = f"must be from {first - 1} to {last}, because the facts {first} to {last} are retained"
            raise OptionsError(problem, option="after")
        return [fact for fact in self._retained if fact.number > number]

    def remove(self, observer: Observer) -> None:
        """Remove an observer."""
        self.catch_up()
        if observer in self.observers:
            self.observers = tuple(other for other in self.observers if other is not observer)
            self.is_prompt = any(other.is_prompt for other in self.observers)
            self._call(observer.finish, self._clock())

    def message(self, message: Any) -> None:
        """Record a message. The queue is folded when the result of a turn arrives."""
        kind = type(message)
        if kind in RECEIVED and (kind is not StreamEventMessage or type(message.event) is MessageDeltaEvent):
            self._add(message)
            if kind is ResultMessage:
                self.catch_up()

    def feed(self, frame: Any, *, sent: bool = False, agent: str = "") -> None:
        """Record a frame."""
        if sent and isinstance(frame, UserMessage):
            for observer in self.observers:
                self._call(observer.sent, frame)
        self._add(frame, sent=sent, agent=agent)
        if self.is_prompt:
            self.catch_up()

    def _add(self, frame: Any, *, sent: bool = False, agent: str = "") -> None:
        self._pending.append((frame, self._clock(), sent, agent))
        if len(self._pending) >= self.limit:
            self.catch_up()

    def asked(self, request_id: str, request: Any, agent: str = "") -> None:
        """Record a request of the CLI; `agent` is the child agent whose CLI sent it."""
        self.feed(ControlRequest(request_id=request_id, request=request), agent=agent)

    def answered(self, request_id: str, reply: JSONObject | None, *, failed: bool) -> None:
        """Record the answer to a request; None if it was withdrawn or its handler failed."""
        answer: ControlSuccess | ControlFailure = ControlSuccess(request_id=request_id, response=reply)
        if failed:
            answer = ControlFailure(request_id=request_id, error="")
        elif reply is None:
            return self.feed(ControlCancelRequest(request_id=request_id))
        return self.feed(ControlResponse(response=answer), sent=True)

    def _on_tasks(self, touched: set[str], changes: list[TaskEvent]) -> None:
        """Fold events of tasks immediately, while the records have the state of that moment."""
        if changes:
            self._pending.append((changes, self._clock(), False, ""))
            self.catch_up()

    def _forget_tasks(self) -> None:
        if self._tasks is not None:
            self._tasks.watchers.pop(self, None)

    def end(self) -> None:
        """Record the end of the session."""
        self.catch_up()
        self._forget_tasks()
        self._tell(self._journal.finish())
        for observer in self.observers:
            self.remove(observer)

    @property
    def is_behind(self) -> bool:
        """Whether frames are queued."""
        return bool(self._pending)

    def catch_up(self) -> None:
        """Fold the queued frames."""
        pending, self._pending = self._pending, []
        for frame, at, sent, agent in pending:
            self._tell(self._journal.feed(frame, at, sent=sent, agent=agent))

    def _tell(self, facts: Sequence[Fact]) -> None:
        if facts:
            if self._retained is not None:
                self._retained.extend(facts)
            for observer in self.observers:
                self._show(observer, facts)

    def _show(self, observer: Observer, facts: Sequence[Fact]) -> None:
        """Show each fact on its own, so that one with which the observer fails costs only itself."""
        for fact in facts:
            self._call(observer.add, (fact,), fact)

    def _call(self, method: Callable[[Any], object], argument: object, item: object = None) -> None:
        try:
            method(argument)
        except Exception:
            self._drops.note(argument if item is None else item)
