"""`Workers`: the background work of a session, in tasks of the event loop.

They belong to the loop rather than to a caller, so any task may call any method. Each has a cancel scope: a task group
would take a tenth of the CPU time of closing a session.
"""

import contextlib
import functools
from collections.abc import Awaitable, Callable

import anyio

from claude_agent_py._base.callbacks import callback_name
from claude_agent_py._base.event_loop import spawn_detached
from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import RepeatingEvent


class Workers:
    """The workers of a session.

    Args:
        check_open: Raises unless the session is open.
        break_off: Ends the session because of the exception of a worker.
    """

    def __init__(self, check_open: Callable[[], None], break_off: Callable[[BaseException], None]) -> None:
        self._check_open = check_open
        self._break_off = break_off
        self.is_live: bool = False
        """Whether workers can be started."""
        self.enter: Callable[[], object] = lambda: None
        """Called in each worker, which any code may have started: makes the client of the session the current one."""
        self.listening: set[ListenerQueue] = set()
        """The queues of the listeners that are called."""
        self.awaited: set[int] = set()
        """The tasks of those that call a handler or tool which the turn of the main agent waits for."""
        self._tasks: set[int] = set()
        """The tasks of the running workers."""
        self._scopes: set[anyio.CancelScope] = set()
        """The scopes of the running workers."""
        self._one_ended = RepeatingEvent()

    def start_logged(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run an async function as a worker of the session. A failure is logged, and the session goes on."""
        self._check_open()
        self.start(self.run_logged, function, *args)

    def start(
        self, function: Callable[..., Awaitable[None]], *args: object, scope: anyio.CancelScope | None = None
    ) -> None:
        """Run an async function as a worker of the session, in this scope. A failure ends the session."""
        assert self.is_live  # noqa: S101 - it is open
        spawn_detached(functools.partial(self._work, scope, function, *args), name=callback_name(function))

    async def _work(
        self, scope: anyio.CancelScope | None, function: Callable[..., Awaitable[None]], *args: object
    ) -> None:
        if not self.is_live:  # the session has just ended
            return
        if scope is None:  # not made by `start`, which a callback of the event loop may call, outside of any task
            scope = anyio.CancelScope()
        task = anyio.get_current_task().id
        self._scopes.add(scope)
        self._tasks.add(task)
        self.enter()
        try:
            with scope:
                await function(*args)
        except GeneratorExit:  # the event loop was abandoned
            raise
        except BaseException as error:
            self._break_off(error)
            raise
        finally:
            self._scopes.discard(scope)
            self._tasks.discard(task)
            self._one_ended.set()

    @property
    def is_called_from_one(self) -> bool:
        """Whether the caller is a worker, and no task that one has started."""
        return anyio.get_current_task().id in self._tasks

    @property
    def is_called_from_awaited(self) -> bool:
        """Whether the turn waits for the caller itself, and not only for the worker that started it."""
        return bool(self.awaited) and anyio.get_current_task().id in self.awaited

    async def run_logged(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run an async function. A failure is logged."""
        try:
            await function(*args)
        except Exception:
            logger.exception("background work %s of the session failed", callback_name(function))

    def deliver(self, queue: ListenerQueue) -> None:
        """Call a listener until the session has ended and its queue is empty."""
        if self.is_live:
            self.listening.add(queue)
            self.start(self.run_logged, self._deliver_all, queue)

    async def _deliver_all(self, queue: ListenerQueue) -> None:
        await queue.deliver()
        self.listening.discard(queue)

    async def end(self) -> None:
        """Cancel the workers and wait until they have ended. From now on none can be started."""
        if self._scopes:
            with anyio.CancelScope(shield=True):
                while self._scopes:
                    for scope in tuple(self._scopes):
                        scope.cancel()
                    with contextlib.suppress(anyio.get_cancelled_exc_class()):  # asyncio's own passes a shield
                        await self._one_ended.wait()
        self.is_live = False
