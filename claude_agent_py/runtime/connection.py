"""A running session: drives the sans-IO engine over a transport.

Owns the workers of a session and nothing else of it:

* the **pump** reads, feeds the engine and acts on its events; it awaits the transport and never user code;
* the **writer** writes what the engine has to send, so that cancelling a caller never cuts a frame in two;
* the **timer** ticks the engine when a deadline comes;
* one worker for each request of the CLI that a handler answers;
* whatever background work the features bring (`background`).

They live in a task group that belongs to the event loop and not to a caller (`event_loop.py`): any method may be called
from any worker. Twin: `protocol/engine.py`, which decides everything that can be decided without I/O.
"""

import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from claude_agent_py.callbacks import callback_name
from claude_agent_py.errors import (
    ClaudeAgentError,
    CLIExitError,
    ConnectionClosedError,
    ControlRejectedError,
    HandlerError,
    OptionsError,
)
from claude_agent_py.event_loop import Wakeup, spawn_detached
from claude_agent_py.protocol.engine import Engine
from claude_agent_py.protocol.events import (
    Event,
    MessageReceived,
    ReplyReceived,
    RequestCancelled,
    RequestReceived,
    RequestTimedOut,
    RunEnded,
    RunWaits,
    StrayReply,
    StreamEnded,
)
from claude_agent_py.protocol.handlers import Cancellation
from claude_agent_py.protocol.ports import TaskSink
from claude_agent_py.protocol.state import State
from claude_agent_py.runtime.answering import Answering, UnsupportedRequestError
from claude_agent_py.runtime.listeners import HandlerFailed
from claude_agent_py.runtime.open_runs import OpenRuns
from claude_agent_py.runtime.readers import Readers
from claude_agent_py.runtime.waiters import Waiter, Waiters
from claude_agent_py.runtime.wire_log import wire_log
from claude_agent_py.transport.base import Transport
from claude_agent_py.wire.unknown import MalformedFrame

logger: logging.Logger = logging.getLogger("claude_agent_py")

END_SESSION: Final = "end_session"
"""The control request after which the CLI ends by itself."""

LOOK_EVERY: Final = 0.1
"""How often to look whether a CLI that was left alone has nothing more to do, in seconds."""

LISTENER_GRACE: Final = 2.0
"""How long listeners may take at the end to hear what came before it, in seconds."""

CLOSED: Final = "the client is closed; open a new one to go on"

DRAIN_GRACE: Final = 1.0
"""How long stdout and stderr may take to end after the process did, in seconds: a grandchild may hold them open."""

PIECE_BYTES: Final = 12 * 1024
"""How much to take in before readers have their turn. Messages that live for a moment cost the least: a few dozen at a
time do not even set off the garbage collector."""

SHOWN_GARBAGE_BYTES: Final = 200
"""How much of what a CLI printed instead of frames an error shows."""


@dataclass(slots=True, eq=False)
class _Answer:
    """A handler at work on a request of the CLI."""

    cancellation: Cancellation = field(default_factory=Cancellation)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class Connection:
    """Drives one session from its start to its end. Used once.

    Args:
        transport: Started already.
        tasks: Is told every message, before anybody else.
        answering: Answers what the CLI asks.
        max_line_bytes: A longer line is dropped and reported.
        mailbox_bytes: How much may wait in memory for each reader.
        unclaimed_messages: How many messages that belong to no run are kept for the first `subscribe`.
        control_timeout: Seconds that a control request may take where the caller does not say.
        on_live: Called with the session's task group before anything is read.
        background: Async functions to run for as long as the session lives; one that fails is logged.
        deliveries: The same, but they return by themselves, soon after `on_over` was called.
        describe: Facts about the program for errors (`cli_path`, `version`).
        on_over: Called once, with the reason, when nothing more will come.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        tasks: TaskSink,
        answering: Answering,
        max_line_bytes: int,
        mailbox_bytes: int,
        unclaimed_messages: int,
        control_timeout: float | None,
        on_live: Callable[[TaskGroup], None] = lambda workers: None,
        background: Sequence[Callable[[], Awaitable[None]]] = (),
        deliveries: Sequence[Callable[[], Awaitable[None]]] = (),
        describe: Callable[[], Mapping[str, str | None]] = dict,
        on_over: Callable[[ClaudeAgentError], None] = lambda reason: None,
    ) -> None:
        self._transport = transport
        self._engine = Engine(tasks, max_line_bytes=max_line_bytes)
        self._answering = answering
        self._control_timeout = control_timeout
        self._on_live = on_live
        self._background = background
        self._deliveries = deliveries
        self._undelivered = len(deliveries)
        self._delivered = anyio.Event()
        self._describe = describe
        self._on_over = on_over
        self._close_requested: Wakeup | None = None
        self._grace, self._leave, self._why, self._deadline = 0.0, False, CLOSED, math.inf
        self._owner = os.getpid()
        self._settle = False
        self._wire_log = wire_log()
        self._initialize: Waiter | None = Waiter()
        """Who waits for the session to be up, until it is."""
        self._group: TaskGroup | None = None
        self._waiters = Waiters()
        self._answers: dict[str, _Answer] = {}
        self.readers: Readers = Readers(mailbox_bytes, unclaimed_messages)
        self.runs: OpenRuns = OpenRuns(self._engine, self, mailbox_bytes)
        self._to_write = anyio.Event()
        self._timer, self._timer_at = anyio.Event(), math.inf
        self._stream_over = anyio.Event()
        self._stderr_over = anyio.Event()
        self._over = anyio.Event()
        self._closing = self._ended = False
        self._exit_requested = False
        """Whether the CLI was told to end, and did not refuse."""
        self._died = False
        """Whether the CLI ended before anybody had asked for it."""
        self._broken_by: Exception | None = None
        """What a worker failed with: a mistake of this package, or of a transport."""
        self._handlers: dict[type, Callable[[Any], None]] = {
            MessageReceived: self._on_message,
            RequestReceived: self._on_request,
            RequestCancelled: self._on_cancelled,
            ReplyReceived: self._waiters.on_reply,
            RequestTimedOut: self._waiters.on_timed_out,
            RunEnded: self.runs.on_ended,
            RunWaits: self.runs.on_waits,
            StrayReply: lambda event: logger.debug("stray reply: %r", event),
            StreamEnded: self._on_stream_ended,
        }

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closing" if not self._over.is_set() else "closed"
        return f"<Connection {state} over {self._transport!r}>"

    # Life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the workers. After an error or a cancellation nothing is left behind."""
        requested, ready = Wakeup(), anyio.Event()
        spawn_detached(lambda: self._live(ready, requested), name="claude_agent_py session")
        self._close_requested = requested  # only now is there a worker to wait for
        try:
            await ready.wait()
        except BaseException:
            self.request_close(grace=0.0)
            raise

    async def _live(self, ready: anyio.Event, close_requested: Wakeup) -> None:
        """Run the workers until the session is to end; the process is gone when this returns."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                self._on_live(group)
                for worker in (self._pump, self._write, self._keep_time, self._watch_process, self._run_transport):
                    group.start_soon(worker)
                for function in self._background:
                    group.start_soon(self._run_background, function)
                for function in self._deliveries:
                    group.start_soon(self._run_delivery, function)
                ready.set()
                await close_requested.wait()
                await self._end()
                group.cancel_scope.cancel()
        except Exception as error:
            self._broken_by = error
            raise
        finally:
            self._closing = True
            ready.set()
            self._end_everything()
            with anyio.CancelScope(shield=True):
                await self._transport.close(grace=0.0)
            self._over.set()

    async def _end(self) -> None:
        """Bring the program to its end; with `leave`, once it has nothing more to do."""
        if self.is_forked:
            return  # it goes on in the process that we are a copy of
        if self._leave:
            self._dismiss()
            await self._wait_until_idle()
            await self._transport.end_input()
            await self._stream_over.wait()
        await self._transport.close(grace=self._grace)
        with self._at_most(DRAIN_GRACE):
            await self._stream_over.wait()  # what it wrote on its way out is read to the end
        self._end_everything()
        if self._undelivered:
            with self._at_most(LISTENER_GRACE):
                await self._delivered.wait()

    def _at_most(self, seconds: float) -> anyio.CancelScope:
        """Make a scope that ends after so many seconds, or when `close` has to be over."""
        return anyio.CancelScope(deadline=min(anyio.current_time() + seconds, self._deadline))

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy, made by `os.fork`, of the process that the session belongs to."""
        return self._owner != os.getpid()

    async def _wait_until_idle(self) -> None:
        """Wait until the CLI has nothing more to do, or has ended. Whatever it asks meanwhile is answered as ever."""
        while not self._stream_over.is_set() and not self._engine.turns.is_idle(anyio.current_time()):
            with anyio.move_on_after(LOOK_EVERY):
                await self._stream_over.wait()

    def request_close(
        self, *, grace: float, leave: bool = False, why: str = CLOSED, deadline: float = math.inf
    ) -> None:
        """Ask for the end; returns at once. May be called from any thread; the first call counts.

        `grace` is how long the CLI may take to end by itself, in seconds. With `leave` it first finishes what it has to
        do, however long that takes. `why` is what those are told who still use the session. `deadline` is when the end
        has to be over, by the clock of the event loop.
        """
        if not self._closing:
            self._grace, self._leave, self._why, self._deadline = grace, leave, why, deadline
        self._closing = True
        if self._close_requested is not None:
            self._close_requested.set()

    async def close(self, *, grace: float | None) -> None:
        """End the session and wait until its process and its workers are gone.

        Cancelling stops the waiting, not the end.
        """
        self.request_close(grace=grace or 0.0)
        if self._close_requested is not None:
            await self._over.wait()

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._group is not None and not self._closing and self._engine.state is State.OPEN

    def check_open(self) -> None:
        """Raise where nothing can be sent.

        Raises:
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        if not self.is_open:
            raise self.failure()

    @property
    def has_turn(self) -> bool:
        """Whether the CLI is at work, as far as it said: on a prompt, or on a run that ended before its turn did."""
        turns = self._engine.turns
        return bool(turns.open_runs) or not turns.is_idle(anyio.current_time())

    @property
    def transport(self) -> Transport:
        """What moves the bytes."""
        return self._transport

    @property
    def ended_well(self) -> bool:
        """Whether the session ended, or is to end, because that was asked for; and not because the CLI died, say."""
        if self._died:
            return self._exit_requested and self._transport.exit_code == 0
        return self._closing and self._broken_by is None

    def end_reason(self) -> ClaudeAgentError:
        """Say what ended that which was open, whatever became of the session after that."""
        return self._exit_error() if self._died and self._broken_by is None else self.failure()

    def failure(self) -> ClaudeAgentError:
        """Say why nothing can be sent."""
        if self._broken_by is not None:
            return _broken(self._broken_by)
        if self._closing:
            return ConnectionClosedError(self._why)
        return self._exit_error()

    def _exit_error(self) -> CLIExitError:
        return CLIExitError(
            "the CLI ended while the session was in use",
            exit_code=self._transport.exit_code,
            stderr_tail=self._transport.stderr_tail,
            **self._describe(),
        )

    # Workers -----------------------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        receive, engine, act = self._transport.receive, self._engine, self.act
        while data := await receive():
            if self._wire_log is not None:
                self._wire_log.received(data)
            act(engine.receive_data(data[:PIECE_BYTES], anyio.current_time()))
            for start in range(PIECE_BYTES, len(data), PIECE_BYTES):
                await checkpoint()  # readers take what is there, so that it need not wait
                act(engine.receive_data(data[start : start + PIECE_BYTES], anyio.current_time()))
        self._note_end()
        await self._learn_how_it_ended()
        act(engine.receive_eof(anyio.current_time()))

    def _note_end(self) -> None:
        """The CLI has ended: by itself, unless it was asked to."""
        self._died = self._died or not self._closing

    async def _learn_how_it_ended(self) -> None:
        """Wait a little for the exit status and the last of stderr: errors are to show them."""
        with anyio.move_on_after(DRAIN_GRACE):
            await self._transport.wait()
            await self._stderr_over.wait()

    async def _write(self) -> None:
        while True:
            data = self._engine.data_to_send()
            if data:
                if self._wire_log is not None:
                    self._wire_log.sent(data)
                try:
                    await self._transport.send(data)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return  # the CLI no longer reads; the pump sees its end
            else:
                self._to_write = anyio.Event()
                await self._to_write.wait()

    async def _keep_time(self) -> None:
        while True:
            deadline = self._engine.next_deadline()
            self._timer_at = math.inf if deadline is None else deadline
            self._timer = anyio.Event()
            with anyio.CancelScope(deadline=self._timer_at):
                await self._timer.wait()
            now = anyio.current_time()
            self.act(self._engine.tick(now))
            if self._settle:
                self._settle = False
                self.act(self._engine.settle(now))

    async def _watch_process(self) -> None:
        """Notice an end that the pipe does not show: a grandchild may keep it open."""
        if await self._transport.wait() is None:
            return
        self._note_end()
        with anyio.move_on_after(DRAIN_GRACE):
            await self._stream_over.wait()
        if not self._stream_over.is_set() and self._engine.state is not State.CLOSED:
            self.act(self._engine.receive_eof(anyio.current_time()))

    async def _run_transport(self) -> None:
        try:
            await self._transport.run()
        finally:
            self._stderr_over.set()

    async def _run_background(self, function: Callable[[], Awaitable[None]]) -> None:
        try:
            await function()
        except Exception:
            logger.exception("background work %s of the session failed", callback_name(function))

    async def _run_delivery(self, function: Callable[[], Awaitable[None]]) -> None:
        await self._run_background(function)
        self._undelivered -= 1
        if not self._undelivered:
            self._delivered.set()

    # What the engine reports -------------------------------------------------------------------------------------

    def act(self, events: Iterable[Event]) -> None:
        """Act on what the engine reports, and have written what it wants to send."""
        handlers = self._handlers
        for event in events:
            handlers[type(event)](event)
        self._flush()

    def _flush(self) -> None:
        """Wake the writer if there is something to write, and the timer if a deadline has moved closer."""
        if self._engine.has_data_to_send:
            self._to_write.set()
        deadline = self._engine.next_deadline()
        if deadline is not None and deadline < self._timer_at:
            self._timer.set()

    def _on_message(self, event: MessageReceived) -> None:
        if self._initialize is not None and type(event.message) is MalformedFrame:
            self._refuse_garbage(self._initialize, event.message)
        if event.runs:
            self.runs.put(event)
        self.readers.put(event)

    def _refuse_garbage(self, starting: Waiter, frame: MalformedFrame) -> None:
        """Fail the start at once: what says something else than frames now will hardly answer later."""
        if not isinstance(frame.raw, dict):
            shown = frame.line[:SHOWN_GARBAGE_BYTES].decode(errors="replace")
            starting.fail(lambda: ControlRejectedError("initialize", f"it printed {shown!r} instead of an answer"))

    def announce_failure(self, error: HandlerError) -> None:
        """Show the failure of a handler to who reads all messages of the session."""
        self.readers.announce(HandlerFailed(error.handler, error.reason))

    def _on_request(self, event: RequestReceived) -> None:
        if self._group is not None:
            answer = self._answers[event.request_id] = _Answer()
            self._group.start_soon(self._answer, event, answer)

    def _on_cancelled(self, event: RequestCancelled) -> None:
        answer = self._answers.pop(event.request_id, None)
        if answer is not None:
            answer.cancellation.set()
            answer.scope.cancel()

    def _on_stream_ended(self, event: StreamEnded) -> None:
        self._end_everything()
        self._stream_over.set()

    def _end_everything(self) -> None:
        """Tell everybody who waits that nothing more will come. Idempotent."""
        if self._ended:
            return
        self._ended = True
        self._dismiss()
        for answer in self._answers.values():
            answer.cancellation.set()
            answer.scope.cancel()
        self._on_over(self.end_reason())
        self.readers.end_events()

    def _dismiss(self) -> None:
        """Tell everybody who uses the session that it is over for them. Idempotent."""
        self._waiters.fail_all(self.end_reason)
        self.runs.end_all()
        self.readers.end()

    # Answering ---------------------------------------------------------------------------------------------------

    async def _answer(self, event: RequestReceived, answer: _Answer) -> None:
        request_id = event.request_id
        with answer.scope:
            try:
                payload = await self._answering.answer(request_id, event.request, answer.cancellation)
                self._engine.answer(request_id, payload)
            except UnsupportedRequestError as error:
                self._engine.answer_error(request_id, str(error), error.error_code)
            except Exception as error:
                logger.exception("answering %s failed", type(event.request).__name__)
                self._engine.answer_error(request_id, f"{type(error).__name__}: {error}")
        self._answers.pop(request_id, None)
        self._flush()

    # Intents -----------------------------------------------------------------------------------------------------

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
        """Send a control request and give the payload of its reply. See `ControlPort.control`."""
        self.check_open()
        limit = self._control_timeout if timeout is None else timeout
        waiter = Waiter()
        request_id = self._ask(subtype, fields, limit, waiter)
        if subtype != END_SESSION:
            return await self._reply(request_id, waiter)
        self._exit_requested = True  # from now on it may end at any time, also where nobody waits for the reply
        try:
            return await self._reply(request_id, waiter)
        except ControlRejectedError:
            self._exit_requested = False
            raise

    async def initialize(
        self, fields: Mapping[str, Any], *, timeout: float | None, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Send the first request of a session, which fails at once where the CLI prints garbage instead.

        `meanwhile` is called once it is on its way: the CLI needs some time to answer.
        """
        self.check_open()
        starting = self._initialize or Waiter()
        try:
            request_id = self._ask("initialize", fields, timeout, starting)
            for _ in range(2):  # the writer's turn
                await checkpoint()
            meanwhile()
            return await self._reply(request_id, starting)
        finally:
            self._initialize = None

    def _ask(self, subtype: str, fields: Mapping[str, Any], timeout: float | None, waiter: Waiter) -> str:
        try:
            request = self._engine.request(subtype, fields, now=anyio.current_time(), timeout=timeout)
        except (ValueError, TypeError) as error:
            raise OptionsError(f"the fields of the control request {subtype!r} are no JSON: {error}") from error
        self._waiters.add(request.request_id, waiter)
        self._flush()
        return request.request_id

    async def _reply(self, request_id: str, waiter: Waiter) -> dict[str, Any]:
        try:
            return await waiter.wait()
        finally:
            if self._waiters.remove(request_id):
                self._engine.forget_request(request_id)

    def send(self, frame: Any) -> None:
        """Send any frame; returns before it is written."""
        self.check_open()
        self._engine.send(frame)
        self._flush()

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run an async function as a worker of the session; a failure is logged."""
        self.check_open()
        assert self._group is not None  # noqa: S101 - it is open
        self._group.start_soon(self._run_background, _bound(function, args))

    def post(self, subtype: str, /, **fields: Any) -> None:
        """Send a control request whose reply nobody waits for; does nothing once the session is closed."""
        if self.is_open:
            request = self._engine.request(subtype, fields, now=anyio.current_time(), timeout=None)
            self._engine.forget_request(request.request_id)
            self._flush()

    def inject(self, message: Any) -> None:
        """Take a message that this side made up (about a child agent) as if the CLI had sent it."""
        if not self._ended:
            self.act(self._engine.inject(message, anyio.current_time()))

    def settle_soon(self) -> None:
        """Look, once the present message is dealt with, for runs that are over because tasks ended."""
        self._settle = True
        self._timer.set()


def _broken(error: BaseException) -> ConnectionClosedError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    failure = ConnectionClosedError(f"the session broke: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _bound(function: Callable[..., Awaitable[None]], args: tuple[Any, ...]) -> Callable[[], Awaitable[None]]:
    async def call() -> None:
        await function(*args)

    call.__qualname__ = callback_name(function)
    return call
