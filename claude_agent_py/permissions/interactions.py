"""An inbox for people: what waits for an answer, as objects that any worker or thread can look at and answer.

Owns the rule that a question is answered once: of two that answer, one is told that it came too late. The inbox here
keeps the questions in memory; the one that another process can read is in `inbox_sqlite`.
"""

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import anyio

from claude_agent_py.event_loop import Wakeup, run_file_work
from claude_agent_py.handler_context import HandlerContext
from claude_agent_py.permissions.decisions import Decision
from claude_agent_py.permissions.prompts import KINDS, Kind
from claude_agent_py.permissions.requests import PermissionContext, PermissionRequest, displayable
from claude_agent_py.wire.base import JSONObject

if TYPE_CHECKING:
    from claude_agent_py.tasks.task import Task

TIMED_OUT: Final = "Nobody answered in time."


class Interaction(ABC):
    """One question that waits for a person."""

    def __init__(
        self,
        kind: Kind,
        wire: Any,
        *,
        id: str,  # noqa: A002 - what it is
        created_at: float,
        deadline: float | None = None,
        agent_id: str | None = None,
        task_description: str | None = None,
        context: HandlerContext | None = None,
    ) -> None:
        self.id = id
        """Short enough to be typed."""
        self.kind: Kind = kind
        self.wire = wire
        """The request as it came."""
        self.created_at = created_at
        """In seconds since the epoch, as is `deadline`."""
        self.deadline = deadline
        """When it is refused by itself; None means never."""
        self.agent_id = agent_id
        """The subagent that asks, which is also the id of its task; None for the main agent."""
        self.task: Task | None = None if context is None else context.task
        """The `Task` of that subagent, in the process that runs it."""
        self.task_description = task_description
        self.subject: Any = KINDS[kind].subject(wire, context)
        """What is asked: a `PermissionRequest`, the `Question`s, a `Plan`, an `ElicitationRequest`, or a dialog."""

    def __repr__(self) -> str:
        return f"<Interaction {self.id} {self.kind}{', done' if self.done else ''}>"

    @property
    def summary(self) -> str:
        """One line that says what is asked, safe to show in a terminal."""
        return displayable(_SUMMARIES[self.kind](self.subject), 200).replace("\n", " ")

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether it was answered, refused or withdrawn."""

    @abstractmethod
    def _settle(self, reply: JSONObject) -> bool:
        """Record the reply, if it is the first."""

    def resolve(self, value: Any) -> bool:
        """Answer it. May be called from any thread.

        Args:
            value: What the handler of this kind would return: `Allow` or `Deny`, answers, `Accept`, ...

        Returns:
            False if it came too late: somebody else answered, or the question was withdrawn.

        Raises:
            ValueError: The value is no answer to this question; it waits on.
        """
        return self._settle(KINDS[self.kind].read(self.wire, value))

    def refuse(self, message: str = "") -> bool:
        """Refuse it: deny, leave unanswered, cancel or dismiss. Otherwise as `resolve`."""
        return self._settle(KINDS[self.kind].refuse(message))

    async def answer(self, value: Any) -> bool:
        """Answer it, without blocking the event loop. See `resolve`."""
        return await run_file_work(self.resolve, value)

    async def deny(self, message: str = "") -> bool:
        """Refuse it, without blocking the event loop. See `refuse`."""
        return await run_file_work(self.refuse, message)


@dataclass(frozen=True, slots=True)
class InteractionOpened:
    """An event among `Client.events()`: a question waits for a person."""

    interaction: Interaction


@dataclass(frozen=True, slots=True)
class InteractionSettled:
    """An event among `Client.events()`: a question waits no more."""

    interaction: Interaction
    was_answered: bool
    """False: nobody answered in time, the CLI withdrew it, or the session ended."""


class Inbox(ABC):
    """Where questions wait for people. Give it as `interactions=`, for all that no handler answers; or compose it:
    `can_use_tool=first_of(read_only(), inbox.permission)`.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Interaction]:
        """Iterate what waits, the oldest first."""

    @abstractmethod
    async def ask(self, kind: Kind, wire: Any, context: PermissionContext) -> JSONObject:
        """Wait until somebody answers, and give the wire reply. Cancelling withdraws the question."""

    @abstractmethod
    def arrivals(self) -> AsyncIterator[Interaction]:
        """Iterate what waits and then what comes."""

    def get(self, interaction_id: str) -> Interaction | None:
        """Give what waits under this id; None where nothing does."""
        return next((one for one in self if one.id == interaction_id), None)

    def __getitem__(self, interaction_id: str) -> Interaction:
        found = self.get(interaction_id)
        if found is None:
            raise KeyError(interaction_id)
        return found

    async def permission(self, request: PermissionRequest, context: PermissionContext) -> Decision:
        """Ask for permission: a handler for `can_use_tool`, and a policy."""
        decision: Decision = KINDS["permission"].answer(await self.ask("permission", request.wire, context))
        return decision


class PendingInteractions(Inbox):
    """An inbox in memory.

    Args:
        timeout: After how many seconds a question is refused; None means never.
    """

    def __init__(self, *, timeout: float | None = None) -> None:
        self.timeout = timeout
        self._lock = threading.Lock()
        self._is_closed = False
        self._waiting: dict[str, _Waiting] = {}
        self._arrivals: WeakSet[_Arrivals] = WeakSet()

    def __iter__(self) -> Iterator[Interaction]:
        with self._lock:
            return iter([one for one in self._waiting.values() if not one.done])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __bool__(self) -> bool:
        return True  # an inbox is something, also when it is empty

    def arrivals(self) -> AsyncIterator[Interaction]:
        """Iterate what waits and then what comes, until `close`. May run in another event loop or thread."""
        arrivals = _Arrivals()
        with self._lock:
            self._arrivals.add(arrivals)
            arrivals.put(*self._waiting.values())
            if self._is_closed:
                arrivals.end()
        return arrivals

    def close(self) -> None:
        """Say that nothing more will come: `arrivals` ends after what waits. May be called from any thread.

        A session closes the inbox that it made itself (`interactions=True`) when it ends; one that was given to it may
        serve further sessions, and is yours to close.
        """
        with self._lock:
            self._is_closed = True
            for arrivals in self._arrivals:
                arrivals.end()

    async def ask(self, kind: Kind, wire: Any, context: PermissionContext) -> JSONObject:
        """Wait until somebody answers, and give the wire reply. Cancelling withdraws the question."""
        interaction = _Waiting(kind, wire, timeout=self.timeout, context=context)
        with context.awaiting_user():  # before anybody can see the question
            self._publish(interaction)
            context.on_interaction(InteractionOpened(interaction))
            try:
                with anyio.move_on_after(self.timeout):
                    await interaction.settled.wait()
            finally:
                was_answered = not interaction.refuse(TIMED_OUT)  # which does nothing where it was answered
                with self._lock:
                    del self._waiting[interaction.id]
                context.on_interaction(InteractionSettled(interaction, was_answered))
        return interaction.reply

    def _publish(self, interaction: "_Waiting") -> None:
        with self._lock:
            self._waiting[interaction.id] = interaction
            for arrivals in self._arrivals:
                arrivals.put(interaction)


class _Waiting(Interaction):
    """A question in memory."""

    def __init__(self, kind: Kind, wire: Any, *, timeout: float | None, context: PermissionContext) -> None:
        now = time.time()
        super().__init__(
            kind,
            wire,
            id=secrets.token_hex(4),
            created_at=now,
            deadline=None if timeout is None else now + timeout,
            agent_id=context.agent_id,
            task_description=getattr(context.task, "description", None),
            context=context,
        )
        self.settled = Wakeup()
        self.reply: JSONObject = {}
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether it was answered, refused or withdrawn."""
        return bool(self.reply)

    def _settle(self, reply: JSONObject) -> bool:
        with self._lock:
            if self.reply:
                return False
            self.reply = reply
        self.settled.set()
        return True


class _Arrivals(AsyncIterator[Interaction]):
    """A queue that any thread fills and one event loop empties. Whoever stops iterating just drops it."""

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
            self._wakeup = Wakeup()  # before the look into the queue, so that nothing comes unheard
            while self._queue:
                interaction = self._queue.popleft()
                if not interaction.done:
                    return interaction
            if self._has_ended:
                raise StopAsyncIteration
            await self._wakeup.wait()


def _permission_summary(request: PermissionRequest) -> str:
    shown = (request.raw_input.get(key) for key in ("command", "file_path", "notebook_path", "path", "url", "query"))
    what = next((str(value) for value in shown if value), None) or request.description or request.title or ""
    return f"{request.tool_name}: {what}" if what else request.tool_name


_SUMMARIES: Final[dict[str, Any]] = {
    "permission": _permission_summary,
    "question": lambda questions: " / ".join(question.question for question in questions) or "a question",
    "plan": lambda plan: next((line for line in plan.text.splitlines() if line.strip()), "a plan without text"),
    "elicitation": lambda request: f"{request.server_name}: {request.message or request.url or 'a question'}",
    "dialog": lambda request: f"dialog {request.dialog_kind}",
}
