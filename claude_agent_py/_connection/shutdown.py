"""`Shutdown`: how a session ends, whether the client closes it, the CLI dies or a worker fails.

A close begins with `close` or `abort`, and `Connection` goes on with `end_process` and `finish`. The end of the CLI
begins with `end_output`, or with the watch for its exit. Both end everything that depends on the output, once.
`Session` remembers the cause.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio

from claude_agent_py._base.errors import CLOSED, ClaudeAgentError, ConnectionClosedError
from claude_agent_py._base.event_loop import from_any_thread
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import LazyEvent, RepeatingEvent
from claude_agent_py._connection.answering.request_handlers import RequestHandlers
from claude_agent_py._connection.launching import Launched
from claude_agent_py._connection.resumption import Resumption
from claude_agent_py._connection.session import Session
from claude_agent_py._journal.state import State, Step
from claude_agent_py._journal.tasks.outcome import EndedBy
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.tasks import TaskManager
from claude_agent_py.transport.base import DRAIN_GRACE
from claude_agent_py.transport.launch_plan import LaunchPlan

TasksAtClose: TypeAlias = Literal["stop", "wait", "leave"]

ADVICE: Final = 'await them first (client.tasks.wait_all()), or close(tasks="wait")'

LOOK_EVERY: Final = 0.1
"""Seconds between checks whether a CLI closed with `tasks="leave"` is idle."""

LISTENER_GRACE: Final = 2.0
"""Seconds that listeners get at the end to empty their queues."""

CHILD_GRACE: Final = 2.0
"""Seconds that child agents, whose processes are killed, get to report their end."""

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


class Shutdown:
    """The end of one session.

    Args:
        session: The session.
        handlers: Answer the CLI.
        resumption: The work of its earlier processes.
        act: Acts on events of the engine, and writes what it has to send.
    """

    def __init__(
        self, session: Session, handlers: RequestHandlers, resumption: Resumption, act: Callable[..., None]
    ) -> None:
        self._session = session
        self._handlers = handlers
        self._resumption = resumption
        self._act = act
        self.children: set[Callable[[EndedBy], None]] = set()
        """Functions that each cancel a child agent."""
        self.child_ended: RepeatingEvent = RepeatingEvent()
        """Set when one of them has been taken out."""
        self._abort_soon: Callable[[], object] | None = None
        """Calls `_on_abort` in the event loop, from any thread; None before the session is open."""
        self._grace = 0.0
        """Seconds that the CLI gets to exit on its own."""
        self._deadline = math.inf
        """When closing must be complete, on the clock of the event loop."""
        self._client: object = None
        """Kept alive until the session is closed."""
        self._transport_over = LazyEvent()
        """Set when `_run_transport` has ended."""
        self._has_ended = False
        """Whether `end_process` has ended the process and its output."""
        self._over = LazyEvent()
        """Set when the session is closed."""
        self.released: LazyEvent = LazyEvent()
        """Set when the session is closed, or when its client is, so that no other process goes on with it."""
        self._hands_over = False
        """Whether another process goes on with the session, in the same private home."""
        self._earlier_plans: tuple[LaunchPlan, ...] = ()
        """The plans of earlier processes of the session, whose private home this one is in."""
        self.advice: str = ADVICE
        """How to wait for the background tasks that `close` would stop, for the warning."""
        self.reported_tasks: frozenset[str] = frozenset()
        """The tasks already reported as running after their run ended."""

    # Closing -----------------------------------------------------------------------------------------------------

    def be_ready(self) -> None:
        """Enable `close` and `abort`, because the session is open in this event loop."""
        self._abort_soon = from_any_thread(self._on_abort)

    @property
    def is_requested(self) -> bool:
        """Whether the client ends or has ended the session."""
        return self._session.state in REQUESTED

    async def close(self, *, tasks: TasksAtClose = "stop", wait: bool = True, client: object = None) -> None:
        """Close the session. Idempotent; takes at most `Timeouts.close` and leaves no process and no worker behind.

        Args:
            tasks: What to do with running background tasks: `stop` stops them; `wait` waits for them within the time
                limit; `leave` returns immediately and lets them finish while the event loop runs.
            wait: Whether to wait until the session is closed.
            client: Kept alive until the session is closed, because handlers may use it.

        Cancelling stops the waiting, not the closing. Does nothing in a process made by `os.fork`.
        """
        session = self._session
        if client is not None:
            self.released.set()
        launched, now, budget = session.launched, session.now, session.options.timeouts.close
        if session.state is State.NEW:
            session.engine.advance(Step.CLOSE)
        if launched is None or session.state is State.LEFT or launched.is_forked:
            return
        # A busy CLI gets this long. Its tasks, and one that is idle, get what is left before an end by force.
        busy = min(BUSY_GRACE, budget * BUSY_SHARE)
        patience = budget - launched.plan.force - busy
        started = now()
        try:
            # Unless `abort` has cancelled the child agents: they may outlive the CLI.
            # At the end of its input, the CLI waits for shells without a limit (2.1.328), so it would be killed.
            if tasks != "leave" and not self.is_requested and session.tasks.live_ids():
                await self._end_tasks(tasks, patience)
        finally:
            grace = busy
            # An idle CLI exits by itself at the end of its input, after it has noted what the session cost.
            if not session.router.open_runs and session.router.is_idle(now()):
                grace = max(busy, started + patience - now())
            elif session.hooks is not None and session.hooks.may_replace_output:
                grace = 0.0  # what a tool has put out since would reach the model without its hooks
            deadline = started + budget - min(CANCEL_RESERVE, budget * BUSY_SHARE)
            self._request(Step.LEAVE if tasks == "leave" else Step.CLOSE, grace, deadline, client=client)
            session.requested.set()
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
        self._request(Step.CLOSE, why=why)
        if self._abort_soon is not None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._abort_soon()

    def _on_abort(self) -> None:
        self._session.requested.set()
        self.released.set()
        self.cancel_children()  # they may outlive a CLI that has died

    @property
    def kept_home(self) -> Path | None:
        """The private home that the next process goes on in; None if that has a home of its own, or the user's."""
        if not self._hands_over or self._session.store_sync is not None:  # a store has the session
            return None
        return next((plan.home for plan in self._plans if plan.is_new_home), None)

    def hand_over(self, options: ClientOptions[Output]) -> ClientOptions[Output]:
        """Keep a private home for the next process of the session, and return options that name it."""
        self._hands_over = True
        return options if self.kept_home is None else options.replace(home=self.kept_home)

    @property
    def _plans(self) -> Sequence[LaunchPlan]:
        launched = self._session.launched
        return self._earlier_plans if launched is None else (launched.plan, *self._earlier_plans)

    def clean_up(self) -> None:
        """Remove the files of the session, and a private home."""
        for plan in self._plans:
            plan.clean_up()

    def follow(self, last: "Shutdown") -> None:
        """Go on in the private home of the last process, if it keeps one, and remove it at the end."""
        if last.kept_home is not None:
            self._earlier_plans = tuple(last._plans)

    def cancel_children(self) -> None:
        """Cancel the child agents without waiting."""
        _, by = _why_tasks_end(self._session, is_asked=True)
        for cancel in list(self.children):
            cancel(by)

    def _request(
        self, step: Step, grace: float = 0.0, deadline: float = math.inf, *, why: str = CLOSED, client: object = None
    ) -> None:
        """Take a step to the end of the session. One that closes already keeps the way in which it does."""
        if self._session.state not in (State.CLOSING, State.CLOSED):  # otherwise it is already closing
            self._grace, self._deadline, self._client = grace, deadline, client
            self._session.why_closed = why
        self._session.engine.advance(step)

    async def _end_tasks(self, how: TasksAtClose, limit: float) -> None:
        tasks = self._session.tasks
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

    def watch(self) -> None:
        """Start the workers of a transport that `needs_run`: its background work, and a watch for its exit."""
        if self._session.transport.needs_run:
            self._session.workers.start(self._run_transport)
            self._session.workers.start(self._watch_process)

    async def _run_transport(self) -> None:
        try:
            await self._session.transport.run()
        finally:
            self._transport_over.set()

    async def _watch_process(self) -> None:
        """Detect that the process has exited, even if a grandchild keeps its pipe open."""
        session = self._session
        if await session.transport.wait() is not None:
            _note_end_of_stream(session)
            await self._wait_for_stream(DRAIN_GRACE)
            if not session.stream_over.is_set():
                await self._end_stream()

    async def end_output(self) -> None:
        """Note that the pump has read all output, and end what depends on it, unless `end_process` does."""
        session = self._session
        session.output_over.set()
        if session.state is not State.CLOSING:
            await self._wait_for_exit()
            await self._end_stream()

    async def _end_stream(self) -> None:
        """End what depends on the output, after the last count of what the subagents have used."""
        session = self._session
        if not session.stream_over.is_set():
            await session.intake.reconciler.count_last(self._at_most(DRAIN_GRACE))
        self._act(session.engine.receive_eof())

    async def _wait_for_exit(self) -> None:
        """Wait for the exit status and the end of stderr, which errors show."""
        transport = self._session.transport
        _note_end_of_stream(self._session)
        with anyio.move_on_after(EXIT_GRACE) as scope:
            await transport.wait()
            scope.deadline = min(scope.deadline, anyio.current_time() + DRAIN_GRACE)
            if transport.needs_run:
                await self._transport_over.wait()
            else:
                await transport.run()

    def end_everything(self) -> None:
        """End everything that depends on the output of the CLI. Idempotent."""
        session = self._session
        if session.stream_over.is_set():
            return
        session.stream_over.set()
        # The tasks and the requests end before the journal, which gets their ends.
        self._dismiss()
        why, by = _why_tasks_end(session, is_asked=session.went_well)
        session.intake.process_exited(why, by)
        self._handlers.end()
        session.reported.task_list.close()
        if session.stderr is not None:
            session.stderr.end()
        if session.journal is not None:
            session.journal.end(why if by is EndedBy.PROCESS else None)
        session.readers.end_events()
        # The store may still need files of a private home.
        if session.launched is not None and session.store_sync is None and session.state is not State.DIED:
            session.launched.plan.clean_up()
        if isinstance(session.error, ConnectionClosedError):  # the session is closed, not just the CLI gone
            self.cancel_children()

    def _dismiss(self) -> None:
        """Fail the pending requests and runs and end the readers. Idempotent."""
        session = self._session
        session.note_end()
        for waiter in session.engine.waiters:
            waiter.fail(session.error)
        self._resumption.give_up()
        for end in session.router.close():
            end.run.finish(failure=lambda: session.error)
        session.readers.end()

    # Ending the process ------------------------------------------------------------------------------------------

    async def end_process(self) -> None:
        """End the program, and act on the rest of its output; after `close(tasks="leave")`, once it is idle."""
        session = self._session
        if session.is_broken:
            self.end_everything()
        if session.state is State.LEFT:
            self._dismiss()
            await self._let_it_finish()
        session.intake.reconciler.stop()  # its worker ends meanwhile, which is cheaper than to cancel it
        # The CLI reports that it stops its shells as it ends, but not why.
        session.intake.expect_end(*_why_tasks_end(session, is_asked=True))
        self.cancel_children()
        transport, output_over = session.transport, session.output_over
        await transport.close(grace=self._grace)
        for event in (output_over, self._transport_over) if transport.needs_run else (output_over,):
            if not event.is_set():
                await event.wait(self._at_most(DRAIN_GRACE))
        deadline = self._at_most(CHILD_GRACE)
        while self.children and (left := deadline - anyio.current_time()) > 0:
            await self.child_ended.wait(left)
        await self._end_stream()
        await self._drain()
        self._has_ended = True

    async def _drain(self) -> None:
        """Let the store and the listeners take the rest."""
        session = self._session
        store_sync = session.store_sync
        if store_sync is not None:
            if session.transport.exit_code == 0:  # otherwise it may have been cut off
                lost = store_sync.find_lost_at_end(session.reported.session_id or "")
                if lost is not None:
                    await store_sync.report_lost(lost)
            await store_sync.drain(self._deadline)
        deadline = self._at_most(LISTENER_GRACE)
        for queue in list(session.workers.listening):
            await queue.over.wait(deadline)

    async def finish(self, launched: Launched) -> None:
        """End the workers, and whatever `end_process` has not ended. Then the session is closed."""
        session = self._session
        try:
            if not self._has_ended:
                session.intake.reconciler.stop()
            await session.workers.end()
            if not self._has_ended:
                session.engine.advance(Step.CLOSE)
                session.engine.advance(Step.END_OF_STREAM)
                self.end_everything()
                with anyio.CancelScope(shield=True):
                    with contextlib.suppress(anyio.get_cancelled_exc_class()):  # by asyncio itself
                        await launched.transport.close(grace=0.0)
                    await launched.transport.close(grace=0.0)  # continues it, or does nothing
        finally:
            try:
                if session.store_sync is not None:
                    with anyio.CancelScope(shield=True):
                        await session.store_sync.end()
            finally:
                if self.kept_home is None:
                    self.clean_up()
                self._over.set()
                self.released.set()

    async def _let_it_finish(self) -> None:
        """After `close(tasks="leave")`, wait until the program is idle and exits, or until `abort`."""
        session = self._session
        # Without input, the CLI (2.1.328) skips hooks and refuses what needs permission: its work goes first.
        while self._is_left() and not session.router.is_idle(session.now()):
            await self._wait_for_stream(LOOK_EVERY)
        if self._is_left():
            await session.transport.end_input()
        while self._is_left():
            await self._wait_for_stream(LOOK_EVERY)
        if _is_gone(self._session):
            await self._wait_for_stream(DRAIN_GRACE)

    def _is_left(self) -> bool:
        """Return whether the CLI is finishing its tasks after `close(tasks="leave")`."""
        return self._session.state is State.LEFT and not _is_gone(self._session)

    async def _wait_for_stream(self, seconds: float) -> None:
        """Wait for the end of the output, at most this long."""
        await self._session.stream_over.wait(anyio.current_time() + seconds)

    def _at_most(self, seconds: float) -> float:
        """Return the time after so many seconds, or the deadline of `close` if that is earlier."""
        return min(anyio.current_time() + seconds, self._deadline)

    async def wait_closed(self) -> None:
        """Wait until the session is closed: its process has exited and its workers have ended."""
        if self._abort_soon is not None:
            await self._over.wait()


def describe_tasks(tasks: TaskManager, task_ids: Iterable[str]) -> str:
    """Return the descriptions of tasks, for the log."""
    return ", ".join(repr(tasks[task_id].description) for task_id in sorted(task_ids))


def _why_tasks_end(session: Session, *, is_asked: bool) -> tuple[str | None, EndedBy]:
    """Return the reason and the cause for tasks that end with the process, which was asked to end or was not."""
    if is_asked and len(session.lineage) > 1:
        return None, EndedBy.PARENT
    return str(session.error).splitlines()[0], EndedBy.PROGRAM if is_asked else EndedBy.PROCESS


def _note_end_of_stream(session: Session) -> None:
    """Note that the output or the process of the CLI has ended."""
    session.engine.advance(Step.END_OF_STREAM)
    session.note_end()


def _is_gone(session: Session) -> bool:
    """Return whether the output or the process has ended. A grandchild may keep the pipe open after the process."""
    return session.stream_over.is_set() or session.transport.exit_code is not None
