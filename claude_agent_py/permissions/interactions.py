"""Inboxes: pending questions to people, which any task or thread may read and answer.

A question is answered once; later answers return False.
"""

import getpass
import os
import platform
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import anyio

from claude_agent_py._base.display import displayable
from claude_agent_py._base.event_loop import Wakeup, run_file_work
from claude_agent_py.permissions.decisions import Decision
from claude_agent_py.permissions.prompts import KINDS, Kind, Subject
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest
from claude_agent_py.tasks import Task
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.wire.base import JSONObject, dump

Question = TypeVar("Question", bound="Interaction")

TIMED_OUT: Final = "The request timed out without an answer."
CLOSED: Final = "Nobody answers: the inbox is closed."


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """The source of an answer."""

    by: str
    """The name of the answering person."""
    origin: str
    """The process and its machine."""

    @classmethod
    def here(cls, by: str = "") -> "AnswerSource":
        """Return the source of answers from this process."""
        return cls(by or _get_user_name(), f"process {os.getpid()} on {platform.node()}")


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        # The user has no name, for example in a container.
        return ""


class Interaction(ABC):
    """A question that waits for a person.

    Attributes:
        id: A short id, suitable for typing.
        kind: `permission`, `question`, `plan`, `elicitation` or `dialog`.
        subject: The question, as a handler of that kind receives it: a `PermissionRequest`, a tuple of `Question`s, a
            `Plan`, an `ElicitationRequest`, or the request for a dialog.
        wire: The request as received.
        session_id: The asking session, for a child agent the session that started it; None if unknown.
        agent_id: The asking subagent, which is also the id of its task; None for the main agent.
        task: The `Task` of that subagent; only set in the process that runs it.
        task_description: The description of that task.
        created_at: The time of the question, in seconds since the epoch.
        deadline: The time of an automatic refusal, in seconds since the epoch; None means never.
    """

    def __init__(
        self,
        kind: Kind,
        wire: Any,
        *,
        id: str,  # noqa: A002
        created_at: float,
        deadline: float | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        task_description: str | None = None,
        context: HandlerContext | None = None,
    ) -> None:
        self.id = id
        self.kind: Kind = kind
        self.wire = wire
        self.created_at = created_at
        self.deadline = deadline
        self.session_id = session_id
        self.agent_id = agent_id
        self.task: Task | None = None if context is None else context.task
        self.task_description = task_description
        self.subject: Subject = KINDS[kind].subject(wire, context)

    def __repr__(self) -> str:
        return f"<Interaction {self.id} {self.kind}{', done' if self.done else ''}>"

    @property
    def summary(self) -> str:
        """The question in one line that is safe to print in a terminal."""
        return summarize(self.kind, self.subject)

    def to_dict(self) -> JSONObject:
        """Return the question as JSON."""
        return {
            "id": self.id,
            "session_id": self.session_id,
            "kind": self.kind,
            "summary": self.summary,
            "agent_id": self.agent_id,
            "created_at": self.created_at,
            "request": dump(self.wire),
        }

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the question was answered, refused or withdrawn."""

    @abstractmethod
    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        """Record the first reply. Return False for later ones."""

    def resolve(self, value: object, *, by: str = "") -> bool:
        """Answer the question. May be called from any thread.

        Args:
            value: A return value of handlers of this kind: `Allow` or `Deny`, answers, `Accept`, ...
            by: The name of the answering person, for records. Empty means the user of this process.

        Returns:
            False if the question was already answered or withdrawn.

        Raises:
            ValueError: The value does not answer this question, which stays pending.
        """
        return self._settle(KINDS[self.kind].read(self.wire, value), AnswerSource.here(by))

    def refuse(self, message: str = "", *, by: str = "") -> bool:
        """Refuse the question: deny, leave unanswered, cancel or dismiss. `by` and the result are as for `resolve`."""
        return self._settle(KINDS[self.kind].refuse(message), AnswerSource.here(by))

    async def answer(self, value: object, *, by: str = "") -> bool:
        """Answer without blocking the event loop. See `resolve`."""
        return await run_file_work(partial(self.resolve, value, by=by))

    async def deny(self, message: str = "", *, by: str = "") -> bool:
        """Refuse without blocking the event loop. See `refuse`."""
        return await run_file_work(partial(self.refuse, message, by=by))


@dataclass(frozen=True, slots=True)
class InteractionOpened:
    """An event of `Client.events()`: a question waits for a person."""

    interaction: Interaction


@dataclass(frozen=True, slots=True)
class InteractionSettled:
    """An event of `Client.events()`: a question no longer waits."""

    interaction: Interaction
    was_answered: bool
    """False if it timed out, the CLI withdrew it, or the session ended."""
    answer: JSONObject | None = None
    """The reply to the CLI; None if the question was not answered."""
    source: AnswerSource | None = None
    """The person and the process that answered; None if unknown."""


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
            # Shielded, because a question that is visible must also be closed.
            with anyio.CancelScope(shield=True):
                await self._open(question)
            context.on_interaction(InteractionOpened(question))
            reply = source = None
            try:
                with anyio.move_on_after(self.timeout):
                    await self._wait(question)
            finally:
                with anyio.CancelScope(shield=True):
                    reply, source = await self._close(question)
                context.on_interaction(InteractionSettled(question, reply is not None, reply, source))
        return KINDS[kind].refuse(TIMED_OUT) if reply is None else reply

    @abstractmethod
    def _make(self, kind: Kind, wire: object, **about: object) -> Question:
        """Return a question. See `Interaction` for the arguments."""

    @abstractmethod
    async def _open(self, question: Question) -> None:
        """Make a question visible."""

    @abstractmethod
    async def _wait(self, question: Question) -> None:
        """Wait until a question is settled."""

    @abstractmethod
    async def _close(self, question: Question) -> tuple[JSONObject | None, AnswerSource | None]:
        """Close a question and return its answer with its source. Both are None if it was not answered."""


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
        """Iterate over pending and future questions until `close`. May run in another event loop or thread."""
        arrivals = _Arrivals()
        with self._lock:
            self._arrivals.add(arrivals)
            arrivals.put(*self._waiting.values())
            if self._is_closed:
                arrivals.end()
        return arrivals

    def close(self) -> None:
        """End `arrivals` after the pending questions, and refuse those that come later. May be called from any thread.

        A session that created its inbox (`interactions=True`) closes it at the end. An inbox of yours may serve other
        sessions, so close it yourself.
        """
        with self._lock:
            self._is_closed = True
            for arrivals in self._arrivals:
                arrivals.end()

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


def summarize(kind: Kind, subject: object) -> str:
    """Summarize a question in one line that is safe to print in a terminal."""
    return displayable(_SUMMARIES[kind](subject), 200).replace("\n", " ")


def _summarize_permission(request: PermissionRequest) -> str:
    shown = (request.raw_input.get(key) for key in ("command", "file_path", "notebook_path", "path", "url", "query"))
    what = next((str(value) for value in shown if value), None) or request.description or request.title or ""
    return f"{request.tool_name}: {what}" if what else request.tool_name


_SUMMARIES: Final[dict[str, Any]] = {
    "permission": _summarize_permission,
    "question": lambda questions: " / ".join(question.question for question in questions) or "a question",
    "plan": lambda plan: next((line for line in plan.text.splitlines() if line.strip()), "a plan without text"),
    "elicitation": lambda request: f"{request.server_name}: {request.message or request.url or 'a question'}",
    "dialog": lambda request: f"dialog {request.dialog_kind}",
}
