"""`Questions`: the requests of the CLI that are being answered.

`Answers` says what to answer; this module runs it, withdraws what the CLI cancels, and writes the answer.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import anyio

from claude_agent_py._cancellation import Cancellation
from claude_agent_py._event_loop import run_until_wait
from claude_agent_py._protocol.engine import UNSUPPORTED, Engine
from claude_agent_py._protocol.events import RequestCancelled, RequestReceived

if TYPE_CHECKING:
    from claude_agent_py._runtime.answering.answers import Answers
    from claude_agent_py._runtime.answering.parent import ParentSession
    from claude_agent_py.observe.observer import Observer

logger: logging.Logger = logging.getLogger("claude_agent_py")


class SessionPort(Protocol):
    """The session, as the CLI's questions use it."""

    answers: "Answers"
    observers: "tuple[Observer, ...]"

    @property
    def request_observers(self) -> "tuple[Observer, ...]":
        """The observers of this session and, for a child agent, of its ancestors."""
        ...

    @property
    def has_workers(self) -> bool:
        """Whether workers can be started."""
        ...

    def start_worker(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Run an async function as a worker."""
        ...

    def flush(self) -> None:
        """Write what the engine has to send."""
        ...


class _Question(NamedTuple):
    """A request that is being answered."""

    cancellation: Cancellation
    scope: anyio.CancelScope

    def cancel(self) -> None:
        self.cancellation.set()
        self.scope.cancel()


class Questions:
    """The pending questions of one session.

    Args:
        session: The session.
        engine: Its engine, which knows the ids.
        parent: The parent's session, for a child agent; otherwise None.
    """

    def __init__(self, session: SessionPort, engine: Engine, parent: "ParentSession | None") -> None:
        self._session = session
        self._engine = engine
        self._parent = parent
        self._pending: dict[str, _Question] = {}

    def take(self, event: RequestReceived) -> None:
        """Answer a request in a separate worker."""
        if self._refuse_unsupported(event):
            return
        question = self._pending[event.request_id] = _Question(Cancellation(), anyio.CancelScope())
        self._session.start_worker(self._answer, event, question)

    async def answer_here(
        self, event: RequestReceived, scope: anyio.CancelScope, successor: Callable[..., Coroutine[Any, Any, None]]
    ) -> bool:
        """Answer a request in the pump, which has read it, and which is cancelled by `scope`.

        Many handlers finish without waiting. Once one has to wait, a successor continues to pump; return whether one
        does.
        """
        if self._refuse_unsupported(event):
            return False
        question = self._pending[event.request_id] = _Question(Cancellation(), scope)
        is_replaced = False

        def replace() -> None:
            nonlocal is_replaced
            is_replaced = True
            self._session.start_worker(successor)

        await run_until_wait(self._reply(event, question), replace)
        return is_replaced

    def _refuse_unsupported(self, event: RequestReceived) -> bool:
        """Refuse an unsupported request. Return whether it was refused."""
        if self._session.has_workers and self._session.answers.can_answer(event.request):
            return False
        problem = f"Unsupported control request subtype: {event.request.subtype}"
        self._engine.answer_error(event.request_id, problem, UNSUPPORTED)
        self._session.flush()
        return True

    def withdraw(self, event: RequestCancelled) -> None:
        """Cancel the handler of a request that the CLI has cancelled."""
        question = self._pending.pop(event.request_id, None)
        if question is not None:
            question.cancel()

    def cancel_all(self) -> None:
        """Cancel all handlers, because the CLI reads no more answers."""
        for question in self._pending.values():
            question.cancel()

    async def _answer(self, event: RequestReceived, question: _Question) -> None:
        with question.scope:
            await self._reply(event, question)

    async def _reply(self, event: RequestReceived, question: _Question) -> None:
        request_id, payload, failed = event.request_id, None, False
        for observer in self._session.observers:
            observer.asked(request_id, event.request)
        if (parent := self._parent) is not None:
            for observer in parent.observers:
                observer.asked(request_id, event.request, parent.agent_id)
        try:
            payload = await self._session.answers.answer(event, question.cancellation)
            self._engine.answer(request_id, payload)
        except Exception as error:
            failed = True
            logger.exception("answering %s failed", type(event.request).__name__)
            self._engine.answer_error(request_id, f"{type(error).__name__}: {error}")
        finally:
            self._pending.pop(request_id, None)
            self._session.flush()
            for observer in self._session.request_observers:
                observer.answered(request_id, payload, failed)
