"""A session: one CLI process, and everything that goes on over its pipe.

Drives the sans-IO engine over a transport, with a few workers:

* the **pump** reads, feeds the engine and acts on its events; it awaits the transport and never user code;
* the **writer** writes what the engine has to send, so that cancelling a caller never cuts a frame in two;
* the **timer** ticks the engine when a deadline comes;
* one worker for each question of the CLI that a handler answers.

They live in a task group that belongs to the event loop and not to a caller (`detached.py`), so any method may be
called from any worker. How a session comes up is in `startup.py`, what answers the CLI in `answers.py`. Twin:
`protocol/engine.py`, which decides everything that can be decided without I/O.
"""

import itertools
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from claude_agent_py.agents import AgentDefinition, validate_agents
from claude_agent_py.callbacks import callback_name
from claude_agent_py.errors import (
    ClaudeAgentError,
    CLIExitError,
    ConnectionClosedError,
    ControlRejectedError,
    HandlerError,
    OptionsError,
    RunTimeoutError,
    UnreadableResultError,
)
from claude_agent_py.launch.environment import config_directory, environment
from claude_agent_py.options import ClientOptions
from claude_agent_py.protocol.engine import Engine
from claude_agent_py.protocol.events import (
    Event,
    MessageReceived,
    ReplyReceived,
    RequestCancelled,
    RequestReceived,
    RequestTimedOut,
    RunEnded,
    StrayReply,
    StreamEnded,
)
from claude_agent_py.protocol.handlers import Cancellation
from claude_agent_py.protocol.state import State, Step
from claude_agent_py.protocol.turns import RunLimits, Until
from claude_agent_py.runtime.answers import Answers, UnsupportedRequestError
from claude_agent_py.runtime.detached import Wakeup, spawn_detached
from claude_agent_py.runtime.listeners import FailureLog, HandlerFailed
from claude_agent_py.runtime.mailbox import Mailbox, RunMailbox
from claude_agent_py.runtime.waiter import Waiter
from claude_agent_py.tasks import TaskList, TaskManager
from claude_agent_py.wire.unknown import MalformedFrame

if TYPE_CHECKING:
    from claude_agent_py.runtime.above import Above
    from claude_agent_py.runtime.launching import Launched
    from claude_agent_py.transport.base import Transport
    from claude_agent_py.wire.initialize import InitializeReply
    from claude_agent_py.wire.messages import UserMessage

logger = logging.getLogger("claude_agent_py")

TasksAtClose: TypeAlias = Literal["stop", "wait", "leave"]

END_SESSION: Final = "end_session"
"""The control request after which the CLI ends by itself."""

NOT_CONNECTED: Final = "the client is not connected; use `async with`, or call connect() first"
CLOSED: Final = "the client is closed; open a new one to go on"
DROPPED: Final = "its client was dropped without being closed, and the session ended with it"

LOOK_EVERY: Final = 0.1
"""How often to look whether a CLI that was left alone has nothing more to do, in seconds."""

LISTENER_GRACE: Final = 2.0
"""How long listeners may take at the end to hear what came before it, in seconds."""

DRAIN_GRACE: Final = 1.0
"""How long stdout and stderr may take to end after the process did, in seconds: a grandchild may hold them open."""

QUIET_GRACE: Final = 5.0
"""How long an idle CLI gets to end by itself at least, in seconds, where the limit allows it."""

BUSY_GRACE: Final = 0.5
"""How long a CLI at work gets to end by itself, in seconds: it would finish its turn first."""

FORCE_RESERVE: Final = 5.0
"""How much of the limit is kept for ending the process by force, in seconds."""

PIECE_BYTES: Final = 12 * 1024
"""How much to take in before readers have their turn. Messages that live for a moment cost the least: a few dozen at a
time do not even set off the garbage collector."""

SHOWN_GARBAGE_BYTES: Final = 200
"""How much of what a CLI printed instead of frames an error shows."""


@dataclass(slots=True, eq=False)
class _Question:
    """A handler at work on a question of the CLI."""

    cancellation: Cancellation
    scope: anyio.CancelScope

    def cancel(self) -> None:
        self.cancellation.set()
        self.scope.cancel()


@dataclass(frozen=True, slots=True)
class _End:
    """How a session ended."""

    is_well: bool
    error: Callable[[], ClaudeAgentError]
    """Makes the error of whoever still uses it."""


class Session:
    """One CLI process and everything around it. Used once: `open`, then `close`.

    Args:
        options: Checked already, as `ClientOptions` checks itself.
        above: What a child agent's session has above it; None for one that is nobody's child.
    """

    def __init__(self, options: ClientOptions, *, above: "Above | None" = None) -> None:
        self.options = options
        env = environment(options, os.environ)
        config_dir = config_directory(env)
        self.tasks = TaskManager(control=self, config_dir=config_dir)
        self.task_list = TaskList(config_dir, list_id=env.get("CLAUDE_CODE_TASK_LIST_ID"))
        self.failures = FailureLog(self.announce_failure, above=above.note_failure if above is not None else None)
        self.answers = Answers(self, above)
        self.agents: dict[str, AgentDefinition] = validate_agents(options.agents or {})
        """The definitions of agents that are known, by name; those of child agents come in as they start."""
        self.children: set[Callable[[], None]] = set()
        """Cancel, each, a child agent."""
        self.info: InitializeReply | None = None
        """What the CLI answered to `initialize`."""
        self._launched: Launched | None = None
        self._engine = Engine(self.answers, max_line_bytes=options.limits.max_line_bytes)
        self._group: TaskGroup | None = None
        self._numbers = itertools.count(1)
        self._runs: dict[int, RunMailbox] = {}
        self._replies: dict[str, Waiter] = {}
        self._questions: dict[str, _Question] = {}
        self._readers: tuple[Mailbox, ...] = ()
        """Replaced, never changed: a reader may be dropped at any time, in any thread, while these are gone through."""
        self._changing_readers = threading.RLock()
        self._unclaimed: deque[tuple[Any, bytes]] = deque()
        """What belongs to no run and came before the first reader of all messages."""
        self._to_write = anyio.Event()
        self._timer = anyio.Event()
        self._timer_at = math.inf
        self._is_unsettled = False
        self._close_requested: Wakeup | None = None
        self._grace = 0.0
        self._why = CLOSED
        self._stream_over = anyio.Event()
        self._over = anyio.Event()
        self._broken_by: Exception | None = None
        """What a worker failed with: a mistake of this package, or of a transport."""
        self._end: _End | None = None
        self._on_event: dict[type, Callable[[Any], None]] = {
            MessageReceived: self._on_message,
            RequestReceived: self._on_request,
            RequestCancelled: self._on_cancelled,
            ReplyReceived: self._on_reply,
            RequestTimedOut: self._on_reply_late,
            RunEnded: self._on_run_ended,
            StrayReply: lambda event: logger.debug("stray reply: %r", event),
            StreamEnded: self._on_stream_ended,
        }

    def __repr__(self) -> str:
        return f"<Session {self._engine.state.value}>"

    @property
    def state(self) -> State:
        """Where the session stands."""
        return self._engine.state

    @property
    def is_open(self) -> bool:
        """Whether prompts and requests can be sent."""
        return self._engine.can_send

    @property
    def transport(self) -> "Transport | None":
        """What moves the bytes; None before `open`."""
        return None if self._launched is None else self._launched.transport

    @property
    def version(self) -> str | None:
        """The version of the CLI, as it says itself."""
        return self.info.claude_code_version if self.info else None

    # Life --------------------------------------------------------------------------------------------------------

    async def open(self, launched: "Launched") -> None:
        """Start the workers over a CLI that was started. After an error or a cancellation nothing is left behind."""
        self._launched = launched
        requested, ready = Wakeup(), anyio.Event()
        if self.state is State.NEW:
            self._engine.advance(Step.START)
        spawn_detached(lambda: self._live(launched.transport, ready, requested), name="claude_agent_py session")
        self._close_requested = requested  # only now is there a worker to wait for
        if self.state is not State.OPEN:
            requested.set()  # it was closed meanwhile
        try:
            await ready.wait()
        except BaseException:
            self.abort()
            raise

    async def _live(self, transport: "Transport", ready: anyio.Event, close_requested: Wakeup) -> None:
        """Run the workers until the session is to end; the process is gone when this returns."""
        stderr_over, deliveries = anyio.Event(), anyio.Event()
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                self.answers.attach(group)
                group.start_soon(self._run_transport, transport, stderr_over)
                group.start_soon(self._pump, transport, stderr_over)
                group.start_soon(self._write, transport)
                group.start_soon(self._keep_time)
                group.start_soon(self._watch_process, transport)
                group.start_soon(self.run_guarded, self.tasks.reconcile_forever)
                group.start_soon(self._deliver, deliveries)
                ready.set()
                await close_requested.wait()
                if self.state is State.LEFT:
                    await self._finish_alone(transport)
                await transport.close(grace=self._grace)
                with anyio.move_on_after(DRAIN_GRACE):
                    await self._stream_over.wait()  # what it wrote on its way out is read to the end
                self._end_everything()
                with anyio.move_on_after(LISTENER_GRACE):
                    await deliveries.wait()
                group.cancel_scope.cancel()
        except Exception as error:
            self._broken_by = error
            raise
        finally:
            self._engine.advance(Step.CLOSE)
            ready.set()
            self._end_everything()
            with anyio.CancelScope(shield=True):
                await transport.close(grace=0.0)
            self._over.set()

    async def _finish_alone(self, transport: "Transport") -> None:
        """Wait until the CLI has nothing more to do, or has ended. What it asks meanwhile is answered as ever."""
        self._dismiss()
        while not self._stream_over.is_set() and not self._engine.turns.is_idle(anyio.current_time()):
            with anyio.move_on_after(LOOK_EVERY):
                await self._stream_over.wait()
        await transport.end_input()
        await self._stream_over.wait()

    def request_close(self, *, grace: float, leave: bool = False, why: str = CLOSED) -> None:
        """Ask for the end; returns at once. May be called from any thread; the first call counts.

        Args:
            grace: How long the CLI may take to end by itself, in seconds.
            leave: Let it finish what it has to do first, however long that takes.
            why: What those are told who still use the session.
        """
        if self.state in (State.NEW, State.OPEN, State.EXITING):
            self._grace, self._why = grace, why
        self._engine.advance(Step.LEAVE if leave and self.state is not State.NEW else Step.CLOSE)
        if self._close_requested is not None:
            self._close_requested.set()

    def abort(self, why: str = CLOSED) -> None:
        """End the session soon, by force; returns at once. May be called from any thread, and by a finalizer."""
        self.request_close(grace=0.0, why=why)

    async def close(self, *, tasks: TasksAtClose = "stop", wait: bool = True) -> None:
        """End the session. Idempotent, and bounded by `Timeouts.close`; after it no process and no worker is left.

        Args:
            tasks: What becomes of background tasks that run: `stop` ends them; `wait` waits for them, at most as long
                as the bound; `leave` returns at once and lets them finish, as long as the event loop runs.
            wait: Whether to return only when the end is over.

        Cancelling stops the waiting, not the end of the session.
        """
        if self._launched is None or self.state is State.LEFT:
            self._engine.advance(Step.CLOSE if self.state is not State.LEFT else Step.LEAVE)
            return
        budget = self.options.timeouts.close
        patience = max(min(budget, QUIET_GRACE), budget - FORCE_RESERVE)
        started = anyio.current_time()
        try:
            if tasks != "leave" and self.tasks.live_ids():  # child agents may be, also when the CLI is gone
                await self._end_tasks(tasks, patience)
        finally:
            left = max(BUSY_GRACE, patience - (anyio.current_time() - started))
            is_idle = not self._engine.turns.open_runs and not self.tasks.live_ids()
            self.request_close(grace=left if is_idle else min(left, BUSY_GRACE), leave=tasks == "leave")
        if wait and tasks != "leave":
            await self._over.wait()

    async def _end_tasks(self, tasks: TasksAtClose, limit: float) -> None:
        with anyio.move_on_after(limit):
            try:
                if tasks == "stop":
                    self._warn_of_unfinished()
                    await self.tasks.stop_all()
                else:
                    await self.tasks.wait_all()
            except ClaudeAgentError:
                return  # what cannot be stopped politely is ended with the process

    def _warn_of_unfinished(self) -> None:
        names = ", ".join(repr(self.tasks[task_id].description) for task_id in sorted(self.tasks.live_ids()))
        logger.warning(
            'closing ends background tasks that run: %s; await them before, run until="idle", or close(tasks="wait")',
            names,
        )

    def cancel_children(self) -> None:
        """Cancel the child agents; returns at once."""
        for cancel in list(self.children):
            cancel()

    # Why it is over ----------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise unless prompts and requests can be sent.

        Raises:
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        if not self.is_open:
            raise self._failure()

    @property
    def ended_well(self) -> bool:
        """Whether the session ended because that was asked for, and not because the CLI died, say."""
        return self._end is not None and self._end.is_well

    def end_error(self) -> ClaudeAgentError:
        """Return the error of whoever still uses a session that is over."""
        return self._end.error() if self._end is not None else self._failure()

    def _failure(self) -> ClaudeAgentError:
        """Return why nothing can be sent."""
        if self._broken_by is not None:
            return _broken(self._broken_by)
        if self.state in (State.DIED, State.EXITED):
            return self._exit_error()
        return ConnectionClosedError(NOT_CONNECTED if self.state is State.NEW else self._why)

    def _exit_error(self) -> CLIExitError:
        transport = self.transport
        assert self._launched is not None and transport is not None  # noqa: S101 - it has run
        cli_path = self._launched.cli_path
        return CLIExitError(
            "the CLI ended while the session was in use",
            exit_code=transport.exit_code,
            stderr_tail=transport.stderr_tail,
            cli_path=str(cli_path) if cli_path else None,
            version=self.version,
        )

    def _end_everything(self) -> None:
        """Tell everybody who waits that nothing more will come. Idempotent."""
        if self._end is not None and self._end.error is not self._failure:
            return
        if self._end is None:
            self._dismiss()
        ended = self._end
        for question in self._questions.values():
            question.cancel()
        reason = self.end_error()
        self.tasks.process_exited(str(reason).splitlines()[0])
        self.answers.end()
        if self._launched is not None:
            self._launched.plan.clean_up()
        if isinstance(reason, ConnectionClosedError):  # closed, and not just without its CLI
            self.cancel_children()

    def _dismiss(self) -> None:
        """Tell everybody who uses the session that it is over for them. Idempotent."""
        raise NotImplementedError
