"""`Shutdown`: how a session ends, whether the client closes it, the CLI dies or a worker fails.

`Connection` ends its parts in the order of these steps. This module limits the time of each step, and remembers the
cause for the errors of later calls.
"""

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import anyio

from claude_agent_py._base.errors import CLOSED, NOT_CONNECTED, ClaudeAgentError, CLIExitError, ConnectionClosedError
from claude_agent_py._base.event_loop import clock, from_any_thread
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py._journal.engine import Engine
from claude_agent_py._journal.state import State, Step
from claude_agent_py._journal.turns import TurnRouter
from claude_agent_py.transport.base import DRAIN_GRACE

if TYPE_CHECKING:
    from claude_agent_py._base.listeners import ListenerQueue
    from claude_agent_py._connection.facts import SessionFacts
    from claude_agent_py._connection.launching import Launched
    from claude_agent_py._connection.store_sync import StoreSync
    from claude_agent_py.tasks import TaskManager
    from claude_agent_py.transport.base import Transport

TasksAtClose: TypeAlias = Literal["stop", "wait", "leave"]

ADVICE: Final = 'await them first (client.tasks.wait_all()), or close(tasks="wait")'

LOOK_EVERY: Final = 0.1
"""Seconds between checks whether a CLI closed with `tasks="leave"` is idle."""

LISTENER_GRACE: Final = 2.0
"""Seconds that listeners get at the end to empty their queues."""

EXIT_GRACE: Final = 3.0
"""How long a CLI may take to exit after the end of its output, in seconds. Then it counts as gone without an exit
status."""

BUSY_GRACE: Final = 0.3
"""Seconds that a busy CLI gets to exit on its own. It would first finish its turn and its tasks."""

BUSY_SHARE: Final = 0.1
"""The largest share of `Timeouts.close` that `BUSY_GRACE` may use."""

CANCEL_RESERVE: Final = 0.05
"""Seconds of `Timeouts.close` reserved for cancelling the workers."""

REQUESTED: Final = frozenset({State.LEFT, State.CLOSING, State.CLOSED})
"""The states of a session that the client ends or has ended."""


class _Closing(NamedTuple):
    """How the session closes."""

    grace: float = 0.0
    """Seconds that the CLI gets to exit on its own."""
    deadline: float = math.inf
    """When closing must be complete, on the clock of the event loop."""
    why: str = CLOSED
    """The text of the error for later calls."""
    client: object = None
    """Kept alive until the session is closed."""


class Shutdown:
    """The end of one session.

    Args:
        budget: `Timeouts.close`.
        engine: The engine of the session, which knows the state.
        router: Its router, which knows whether the CLI is idle.
        tasks: Its tasks.
        facts: Its facts, which name the version of the CLI in errors.
        has_output_hooks: Returns whether a hook may replace or withhold the output of tools.
    """

    def __init__(
        self,
        budget: float,
        engine: Engine,
        router: TurnRouter,
        tasks: "TaskManager",
        facts: "SessionFacts",
        has_output_hooks: Callable[[], bool],
    ) -> None:
        self._budget = budget
        self._engine = engine
        self._router = router
        self._tasks = tasks
        self._facts = facts
        self._has_output_hooks = has_output_hooks
        self.children: set[Callable[[], None]] = set()
        """Functions that each cancel a child agent."""
        self._launched: Launched | None = None
        """The CLI; None before the session opens."""
        self._transport: Transport
        """Set when the session opens."""
        self._closing = _Closing()
        self.requested: LazyEvent = LazyEvent()
        """Set when the client ends the session."""
        self._abort_soon: Callable[[], object] | None = None
        """Calls `_on_abort` in the event loop, from any thread; None before the session is open."""
        self._cause: State | Exception | None = None
        """DIED, EXITED or CLOSED, as which the session ended for its users; or the exception of a worker, which is a
        bug in this package or in a transport. None before the end."""
        self.output_over: LazyEvent = LazyEvent()
        """Set when the pump has acted on all output of the CLI."""
        self.stream_over: LazyEvent = LazyEvent()
        """Set once everything that depends on the output has ended, too."""
        self._over = LazyEvent()
        self._transport_over = LazyEvent()
        """Set when `run_transport` has ended."""
        self.advice: str = ADVICE
        """How to wait for the background tasks that `close` would stop, for the warning."""
        self.reported_tasks: frozenset[str] = frozenset()
        """The tasks already reported as running after their run ended."""

    # Closing -----------------------------------------------------------------------------------------------------

    def be_ready(self, launched: "Launched") -> None:
        """Enable `close` and `abort`, because the session is open in this event loop."""
        self._launched, self._transport = launched, launched.transport
        self._abort_soon = from_any_thread(self._on_abort)

    @property
    def is_requested(self) -> bool:
        """Whether the client ends or has ended the session."""
        return self._engine.state in REQUESTED

    async def close(self, *, tasks: TasksAtClose = "stop", wait: bool = True, client: object = None) -> None:
        """Close the session. Idempotent; takes at most `Timeouts.close` and leaves no process and no worker behind.

        Args:
            tasks: What to do with running background tasks: `stop` stops them; `wait` waits for them within the time
                limit; `leave` returns immediately and lets them finish while the event loop runs.
            wait: Whether to wait until the session is closed.
            client: Kept alive until the session is closed, because handlers may use it.

        Cancelling stops the waiting, not the closing. Does nothing in a process made by `os.fork`.
        """
        if self._engine.state is State.NEW:
            self._engine.advance(Step.CLOSE)
        if self._launched is None or self._engine.state is State.LEFT or self._launched.is_forked:
            return
        budget = self._budget
        busy = min(BUSY_GRACE, budget * BUSY_SHARE)
        patience = budget - self._launched.plan.force - busy
        now = clock()
        started = now()
        try:
            # Child agents may outlive the CLI; `abort` has ended them already.
            if tasks != "leave" and not self.is_requested and self._tasks.live_ids():
                await self._end_tasks(tasks, patience)
        finally:
            if self._is_idle(now()):
                grace = max(busy, started + patience - now())
            else:  # what a tool has put out since would reach the model without its hooks
                grace = 0.0 if self._has_output_hooks() else busy
            deadline = started + budget - min(CANCEL_RESERVE, budget * BUSY_SHARE)
            closing = _Closing(grace, deadline, client=client)
            self._request(Step.LEAVE if tasks == "leave" else Step.CLOSE, closing)
            self.requested.set()
        if not wait or tasks == "leave":
            return
        await self._over.wait(started + budget)
        if not self._over.is_set():
            logger.warning(
                "close() stops waiting after %g s (Timeouts.close): a handler, listener or tool does not end when it "
                "is cancelled",
                budget,
            )

    def abort(self, why: str = CLOSED) -> None:
        """Kill the session without waiting. May be called from any thread and from a finalizer."""
        self._request(Step.CLOSE, _Closing(why=why))
        if self._abort_soon is not None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._abort_soon()

    def _on_abort(self) -> None:
        self.requested.set()
        self.cancel_children()  # they may outlive a CLI that has died

    def cancel_children(self) -> None:
        """Cancel the child agents without waiting."""
        for cancel in list(self.children):
            cancel()

    def _request(self, step: Step, closing: _Closing) -> None:
        if self._engine.state not in (State.CLOSING, State.CLOSED):  # otherwise it is already closing
            self._closing = closing
        self._engine.advance(step)

    def _is_idle(self, now: float) -> bool:
        """Return whether the CLI has reported that it is idle."""
        return not self._router.open_runs and self._router.is_idle(now)

    async def _end_tasks(self, how: TasksAtClose, limit: float) -> None:
        tasks = self._tasks
        with anyio.move_on_after(limit):
            try:
                if how == "wait":
                    await tasks.wait_all()
                    return
                if names := describe_tasks(tasks, tasks.live_ids() - self.reported_tasks):
                    logger.warning("closing stops running background tasks: %s; %s", names, self.advice)
                await tasks.stop_all()
            except ClaudeAgentError:
                return  # the end of the process stops the rest

    # The end of the output ---------------------------------------------------------------------------------------

    async def run_transport(self) -> None:
        """Do the background work of a transport that `needs_run`."""
        try:
            await self._transport.run()
        finally:
            self._transport_over.set()

    async def wait_for_exit(self) -> None:
        """After the end of the output, wait for the exit status and the end of stderr, which errors show."""
        self._engine.advance(Step.END_OF_STREAM)
        self.note()
        with anyio.move_on_after(EXIT_GRACE) as scope:
            await self._transport.wait()
            scope.deadline = min(scope.deadline, anyio.current_time() + DRAIN_GRACE)
            if self._transport.needs_run:
                await self._transport_over.wait()
            else:
                await self._transport.run()

    async def watch_process(self) -> bool:
        """Wait for the exit of the process, and return whether a grandchild keeps its pipe open."""
        if await self._transport.wait() is None:
            return False
        self._engine.advance(Step.END_OF_STREAM)
        self.note()
        await self.wait_for_stream(DRAIN_GRACE)
        return not self.stream_over.is_set()

    # Ending the process ------------------------------------------------------------------------------------------

    async def end_process(self) -> None:
        """End the program, and wait until other workers have read its output and its stderr."""
        await self._transport.close(grace=self._closing.grace)
        waited_for = [self.output_over]
        if self._transport.needs_run:
            waited_for.append(self._transport_over)
        for event in waited_for:
            if not event.is_set():
                await event.wait(self._at_most(DRAIN_GRACE))

    async def drain(self, store_sync: "StoreSync | None", listening: "Iterable[ListenerQueue]") -> None:
        """Let the store and the listeners take the rest."""
        if store_sync is not None:
            await store_sync.drain(self._closing.deadline)
        deadline = self._at_most(LISTENER_GRACE)
        for queue in list(listening):
            await queue.over.wait(deadline)

    async def let_it_finish(self) -> None:
        """After `close(tasks="leave")`, wait until the program is idle and exits, or until `abort`."""
        while self._is_left() and not self._router.is_idle(anyio.current_time()):
            await self.wait_for_stream(LOOK_EVERY)
        if self._is_left():
            await self._transport.end_input()
        while self._is_left():
            await self.wait_for_stream(LOOK_EVERY)
        if self._is_gone():
            await self.wait_for_stream(DRAIN_GRACE)

    def _is_left(self) -> bool:
        """Return whether the CLI is finishing its tasks after `close(tasks="leave")`."""
        return self._engine.state is State.LEFT and not self._is_gone()

    def _is_gone(self) -> bool:
        """Return whether the output or the process has ended. A grandchild may keep the pipe open after the process."""
        return self.stream_over.is_set() or self._transport.exit_code is not None

    async def wait_for_stream(self, seconds: float) -> None:
        """Wait for the end of the output, at most this long."""
        await self.stream_over.wait(anyio.current_time() + seconds)

    def _at_most(self, seconds: float) -> float:
        """Return the time after so many seconds, or the deadline of `close` if that is earlier."""
        return min(anyio.current_time() + seconds, self._closing.deadline)

    # How it ended ------------------------------------------------------------------------------------------------

    def note(self) -> None:
        """Note that the session has ended for its users, and in which state. Only the first call has an effect."""
        if self._cause is None:
            state = self._engine.state
            self._cause = state if state in (State.DIED, State.EXITED) else State.CLOSED

    def break_off(self, error: BaseException) -> None:
        """Note that the session ends because of the exception of a worker."""
        if isinstance(error, Exception):
            self._cause = error
        self._request(Step.CLOSE, _Closing())
        self.output_over.set()  # the worker may have been the pump
        self.requested.set()

    def note_closed(self) -> None:
        """Note that the process has exited and the workers have ended."""
        self._over.set()

    async def wait_closed(self) -> None:
        """Wait until the session is closed: its process has exited and its workers have ended."""
        if self._abort_soon is not None:
            await self._over.wait()

    @property
    def went_well(self) -> bool:
        """Whether the session ended on request, not because the CLI died or a worker failed."""
        if self._cause is State.EXITED:
            return self._transport.exit_code == 0
        return self._cause is State.CLOSED

    @property
    def error(self) -> ClaudeAgentError:
        """The error for what the end cut off."""
        return self._exit_error() if self._cause in (State.DIED, State.EXITED) else self.error_now

    @property
    def error_now(self) -> ClaudeAgentError:
        """The error for what cannot be sent in the current state."""
        state = self._engine.state
        if isinstance(self._cause, Exception):
            return _make_broken_error(self._cause)
        if state in (State.DIED, State.EXITED):
            return self._exit_error()
        return ConnectionClosedError(NOT_CONNECTED if state is State.NEW else self._closing.why)

    def _exit_error(self) -> CLIExitError:
        launched, info = self._launched, self._facts.info
        assert launched is not None  # noqa: S101 - it has run
        return CLIExitError(
            "the CLI ended while the session was in use",
            exit_code=self._transport.exit_code,
            stderr_tail=self._transport.stderr_tail,
            cli_path=str(launched.cli_path) if launched.cli_path else None,
            version=info.claude_code_version if info else None,
        )


def describe_tasks(tasks: "TaskManager", task_ids: Iterable[str]) -> str:
    """Return the descriptions of tasks, for the log."""
    return ", ".join(repr(tasks[task_id].description) for task_id in sorted(task_ids))


def _make_broken_error(error: BaseException) -> ConnectionClosedError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    failure = ConnectionClosedError(f"the session broke: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
