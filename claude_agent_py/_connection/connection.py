"""`Connection`: one CLI process and the conversation over its pipe.

It drives the sans-IO engine and router over a transport. A message takes this path: the engine decodes it, the router
names its runs, their mailboxes and the readers receive it, and `track` updates the tasks and facts. The workers:

* The **pump** reads, feeds the engine and acts on its events. If user code that it calls has to wait, another worker
  continues to pump.
* The **writer** writes data that the pipe does not accept immediately, so that cancelling a caller never cuts a frame.
* The **timer** ticks the engine at its deadlines until the session closes.

The pump itself answers a request of the CLI that arrives alone; several at once get a worker each. The workers belong
to the event loop rather than to a caller (`event_loop.py`), so any task may call any method. Each has a cancel scope:
a task group would take a tenth of the CPU time of closing a session.
`startup.py` initializes a session, `shutdown.py` ends it, `request_handlers.py` answers the CLI. What needs no I/O is
decided in `_journal`: `engine.py` for frames and requests, `turns.py` for runs.
"""

import contextlib
import functools
import math
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._base.callbacks import callback_name, make_handler_error
from claude_agent_py._base.errors import (
    ClaudeAgentError,
    ConnectionClosedError,
    ControlError,
    ControlRejectedError,
    ControlTimeoutError,
    LocalProtocolError,
    OptionsError,
    TaskError,
)
from claude_agent_py._base.event_loop import clock, spawn_detached
from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import LazyEvent, RepeatingEvent
from claude_agent_py._connection.answering.request_handlers import RequestHandlers
from claude_agent_py._connection.facts import SessionFacts, find_refusal
from claude_agent_py._connection.launching import Launched
from claude_agent_py._connection.resumption import Resumption
from claude_agent_py._connection.runs.prompts import close_stream, is_stream, prompt_message
from claude_agent_py._connection.runs.result import AuthenticationError, RunTimeoutError, UnreadableResultError
from claude_agent_py._connection.runs.run_state import RunState
from claude_agent_py._connection.runs.withheld import is_withheld
from claude_agent_py._connection.session_state import SessionState
from claude_agent_py._connection.shutdown import Shutdown, describe_tasks
from claude_agent_py._connection.wire_log import WireLog, wire_log
from claude_agent_py._journal.engine import Engine
from claude_agent_py._journal.events import (
    Event,
    ReplyReceived,
    RequestCancelled,
    RequestReceived,
    RequestTimedOut,
    ResultUnreadable,
    StreamEnded,
)
from claude_agent_py._journal.open_runs import DEFAULT_IDLE, RunEnded, RunLimits, RunWaits, TurnResumed, Verdict
from claude_agent_py._journal.state import State, Step
from claude_agent_py._journal.tasks.outcome import EndedBy
from claude_agent_py._journal.turns import TurnRouter
from claude_agent_py.observe.telemetry import resolve_telemetry
from claude_agent_py.options import ClientOptions
from claude_agent_py.options.conflicts import HOOKS_OFF, turns_hooks_off
from claude_agent_py.tasks import TaskManager
from claude_agent_py.tasks.intake import TRACKED
from claude_agent_py.tasks.task import check_timeout
from claude_agent_py.wire.base import dump
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import APIRetryMessage
from claude_agent_py.wire.unknown import MalformedFrame

if TYPE_CHECKING:
    from claude_agent_py._connection.store_sync import StoreSync
    from claude_agent_py._journal.tasks.events import TaskEvent
    from claude_agent_py.transport.base import Transport

END_SESSION: Final = "end_session"
"""The control request that makes the CLI exit."""

SHOWN_GARBAGE_BYTES: Final = 200
"""How much of a program's output that is not JSON an error quotes."""


class Waiter:
    """A future for the reply to a request."""

    def __init__(self) -> None:
        self._done = LazyEvent()
        self._payload: dict[str, Any] = {}
        self._error: ClaudeAgentError | None = None

    def resolve(self, payload: dict[str, Any]) -> None:
        """Set the payload."""
        self._payload = payload
        self._done.set()

    def fail(self, error: ClaudeAgentError) -> None:
        """Set the error."""
        self._error = error
        self._done.set()

    async def wait(self) -> dict[str, Any]:
        """Wait for the payload and return it, or raise the error."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._payload


class Connection(SessionState):
    """A session with one CLI process. Used once: `open`, then `close`.

    Args:
        options: The options of the client.
        parent: The parent's connection, for a child agent; otherwise None.
    """

    def __init__(self, options: ClientOptions, *, parent: "Connection | None" = None) -> None:
        super().__init__(options, parent)
        self._parent = parent
        self.default_idle: float | None = None if parent is None else DEFAULT_IDLE
        """The wait for tasks without progress unless `Timeouts.idle` is set; None means no limit."""
        self.launched: Launched | None = None
        """The CLI; None before `open`."""
        self.store_sync: StoreSync | None = None
        """The session store; None without one."""
        self._is_live = False
        """Whether workers can be started."""
        self._workers: set[anyio.CancelScope] = set()
        """The scopes of the running workers."""
        self._worker_ended = RepeatingEvent()
        self._now: Callable[[], float] = anyio.current_time
        self._log: WireLog | None = wire_log(options)
        self._is_writing = False
        """Whether a writer is running."""
        self._timer: anyio.CancelScope | None = None
        """The scope in which the timer sleeps; moving its deadline wakes it earlier."""
        self.listening: set[ListenerQueue] = set()
        """The queues of the listeners that are called."""
        if parent is None and (telemetry := resolve_telemetry(options.telemetry)) is not None:
            telemetry.observe(self)  # it also traces the child agents
        self._hides_text = not options.forward_subagent_text and resolve_telemetry(options.telemetry) is not None
        """Whether the CLI sends text of subagents only for telemetry."""
        self.tasks: TaskManager = TaskManager(self, intake=self.intake)
        if options.on_task_notification is not None:
            self.tasks.on("notification", options.on_task_notification)
        if options.on_task_event is not None:
            self.tasks.on(options.on_task_event)
        self._engine = Engine(max_line_bytes=options.limits.max_line_bytes)
        self._router = TurnRouter(self.tasks.live_ids, self.intake.ledger.causes_follow_up)
        self.handlers: RequestHandlers = RequestHandlers(
            self,
            self._engine,
            self.tasks,
            None if parent is None else parent.handlers,
            start_worker=self.start_worker,
            post=self.post,
            flush=self.flush,
        )
        self.shutdown: Shutdown = Shutdown(
            options.timeouts.close,
            self._engine,
            self._router,
            self.tasks,
            self.facts,
            lambda: self.handlers.has_output_hooks,
        )
        self.resumption: Resumption = Resumption(options, self._engine, self._router)

    def __repr__(self) -> str:
        return f"<Connection {self.state.value} over {self.transport!r}>"

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._engine.state

    @property
    def is_open(self) -> bool:
        """Whether prompts and requests can be sent."""
        return self._engine.can_send

    @property
    def transport(self) -> "Transport | None":
        """The transport; None before `open`."""
        return self.launched.transport if self.launched is not None else None

    # Opening -----------------------------------------------------------------------------------------------------

    def open(self, launched: Launched) -> None:
        """Start the workers for a running CLI.

        Raises:
            ConnectionClosedError: The session was closed before.
        """
        if self.state is not State.NEW:
            raise self.shutdown.error_now
        self._engine.advance(Step.START)
        self.launched, self._now = launched, clock()
        self.intake.paths.config_dir = self.facts.task_list.config_dir = launched.plan.config_dir
        for run in self.resumption.begin():
            self.open_run(run)
        self.act(self._router.settle(self._now()))
        self.shutdown.be_ready(launched)
        spawn_detached(lambda: self._live(launched), name="claude_agent_py session")

    async def _live(self, launched: Launched) -> None:
        """Run the workers until the session closes. When this returns, the process has exited."""
        transport, is_ended, self._is_live = launched.transport, False, True
        try:
            if transport.needs_run:
                self.start_worker(self.shutdown.run_transport)
                self.start_worker(self._watch_process)
            self._start_pump()
            if self.store_sync is not None:
                self.start_worker(self._run_logged, self.store_sync.run)
            self.intake.reconciler.work_in(functools.partial(self.start_worker, self._run_logged))
            self.intake.listeners.deliver_with(self._deliver, self.failures.report)
            if self.stderr is not None:
                self._deliver(self.stderr)
            self.flush()
            await self._keep_time()
            if not launched.is_forked:  # in a fork, the CLI belongs to the parent process
                await self._end_process()
                is_ended = True
        except Exception as error:
            self._break_off(error)
            raise
        finally:
            try:
                await self._end(launched, is_ended=is_ended)
            finally:
                self.shutdown.note_closed()

    async def _watch_process(self) -> None:
        """Detect that the process has exited, even if a grandchild keeps its pipe open."""
        if await self.shutdown.watch_process():
            self.act(self._engine.receive_eof())

    async def _end_process(self) -> None:
        """End the program; after `close(tasks="leave")` only once it is idle, or at `abort`."""
        if self.state is State.LEFT:
            self.dismiss()
            await self.shutdown.let_it_finish()
        self.intake.reconciler.stop()  # its worker ends meanwhile, which is cheaper than to cancel it
        if self.shutdown.is_requested:  # the CLI reports that it stops its shells as it ends, but not why
            self.intake.expect_end(*self._why_tasks_stop())
        await self.shutdown.end_process()
        self.act(self._engine.receive_eof())
        await self.shutdown.drain(self.store_sync, self.listening)

    def _break_off(self, error: BaseException) -> None:
        """End the session because of the exception of a worker."""
        self.shutdown.break_off(error)
        self.end_everything()

    async def _end(self, launched: Launched, *, is_ended: bool) -> None:
        if not is_ended:  # otherwise `end_process` has stopped it
            self.intake.reconciler.stop()
        if self._workers:
            await self._end_workers()
        self._is_live = False
        if not is_ended:
            self._engine.advance(Step.CLOSE)
            self._engine.advance(Step.END_OF_STREAM)
            self.end_everything()
            with anyio.CancelScope(shield=True):
                with contextlib.suppress(anyio.get_cancelled_exc_class()):  # by asyncio itself
                    await launched.transport.close(grace=0.0)
                await launched.transport.close(grace=0.0)  # continues it, or does nothing
        if self.store_sync is not None:
            with anyio.CancelScope(shield=True):
                await self.store_sync.end()
            launched.plan.clean_up()

    async def _end_workers(self) -> None:
        with anyio.CancelScope(shield=True):
            while self._workers:
                for scope in tuple(self._workers):
                    scope.cancel()
                with contextlib.suppress(anyio.get_cancelled_exc_class()):  # asyncio's own cancellation passes a shield
                    await self._worker_ended.wait()

    def start_logged(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run an async function as a worker of the session. A failure is logged, and the session goes on."""
        self.check_open()
        self.start_worker(self._run_logged, function, *args)

    def start_worker(
        self, function: Callable[..., Awaitable[None]], *args: Any, scope: anyio.CancelScope | None = None
    ) -> None:
        """Run an async function as a worker of the session, in this scope. A failure ends the session."""
        assert self._is_live  # noqa: S101 - it is open
        scope = anyio.CancelScope() if scope is None else scope
        spawn_detached(functools.partial(self._work, scope, function, *args), name=callback_name(function))

    async def _work(self, scope: anyio.CancelScope, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        if not self._is_live:  # the session has just ended
            return
        self._workers.add(scope)
        try:
            with scope:
                await function(*args)
        except GeneratorExit:  # the event loop was abandoned
            raise
        except BaseException as error:
            self._break_off(error)
            raise
        finally:
            self._workers.discard(scope)
            self._worker_ended.set()

    async def _run_logged(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        try:
            await function(*args)
        except Exception:
            logger.exception("background work %s of the session failed", callback_name(function))

    # The end -----------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise unless prompts and requests can be sent.

        Raises:
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        if not self.is_open:
            raise self.shutdown.error_now

    def _why_tasks_stop(self) -> tuple[str | None, EndedBy]:
        """Return the reason and the cause for the tasks that end because the client ends the process."""
        if self._parent is not None:
            return None, EndedBy.PARENT
        return str(self.shutdown.error).splitlines()[0], EndedBy.PROGRAM

    def end_everything(self) -> None:
        """End everything that depends on the output of the CLI. Idempotent."""
        if self.shutdown.stream_over.is_set():
            return
        self.shutdown.stream_over.set()
        self.dismiss()
        error = self.shutdown.error
        if self.shutdown.went_well:
            self.intake.process_exited(*self._why_tasks_stop())
        else:
            self.intake.process_exited(str(error).splitlines()[0])
        self.handlers.end()
        self.facts.task_list.close()
        if self.stderr is not None:
            self.stderr.end()
        self.readers.end_events()
        for journal in self.journals:
            journal.end()
        if self.launched is not None and self.store_sync is None:  # the store may still need files of a private home
            self.launched.plan.clean_up()
        if isinstance(error, ConnectionClosedError):  # the session is closed, not just the CLI gone
            self.shutdown.cancel_children()

    def dismiss(self) -> None:
        """Fail the pending requests and runs and end the readers. Idempotent."""
        self.shutdown.note()
        for waiter in self._engine.waiters:
            waiter.fail(self.shutdown.error)
        self.resumption.give_up()
        for run in self._router.open_runs:
            self.fail_run(run, self._end_error)
        self.readers.end()

    def _end_error(self) -> ClaudeAgentError:
        return self.shutdown.error

    # Workers -----------------------------------------------------------------------------------------------------

    def _start_pump(self) -> None:
        assert self.launched is not None  # noqa: S101 - it is open
        scope = anyio.CancelScope()
        self.start_worker(self._pump, self.launched.transport, scope, scope=scope)

    async def _pump(self, transport: "Transport", scope: anyio.CancelScope) -> None:
        """Read the output of the CLI and act on it until it ends, or until another worker continues.

        A request that the pump answers is cancelled with its scope.
        """
        engine, act, log = self._engine, self.act, self._log
        while data := await transport.receive():
            if log is not None:
                log.received(data)
            events = engine.receive_data(data)
            if len(events) == 1 and type(events[0]) is RequestReceived:
                if await self.handlers.answer_here(events[0], scope, self._start_pump):
                    return
            else:
                act(events)
            if self.journals:
                await self._let_journals_catch_up()
            del data, events  # otherwise up to 16 KiB, and the last messages, would stay in memory during the wait
        self.shutdown.output_over.set()
        if self.state is not State.CLOSING:  # otherwise `Shutdown.end_process` goes on
            await self.shutdown.wait_for_exit()
            act(engine.receive_eof())

    async def _let_journals_catch_up(self) -> None:
        if any(journal.is_behind for journal in self.journals):
            await checkpoint()  # readers come first
            await checkpoint()  # trio wakes workers in any order
            for journal in self.journals:
                journal.catch_up()

    async def _write(self, transport: "Transport") -> None:
        """Write the pending data, including data that is added during the writing."""
        try:
            while data := self._take_data():
                await transport.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the CLI no longer reads; the pump sees its end
        finally:
            self._is_writing = False

    async def _keep_time(self) -> None:
        """Tick the engine at its deadlines, until the session closes."""
        requested = self.shutdown.requested
        while not requested.is_set():
            with anyio.CancelScope(deadline=self._next_deadline()) as self._timer:
                await requested.wait()
            if not requested.is_set():
                self._tick(self._now())
        self._timer = None

    def _next_deadline(self) -> float:
        return min(self._engine.next_deadline(), self._router.next_deadline())

    def _tick(self, now: float) -> None:
        if self._engine.take_cli_waited():
            self._router.restart_silence(now)
        self.act([*self._engine.tick(now), *self._router.tick(now)])

    def _deliver(self, queue: ListenerQueue) -> None:
        """Call a listener until the session has ended and its queue is empty."""
        if self._is_live:
            self.listening.add(queue)
            self.start_worker(self._run_logged, self._deliver_all, queue)

    async def _deliver_all(self, queue: ListenerQueue) -> None:
        await queue.deliver()
        self.listening.discard(queue)

    # Events ------------------------------------------------------------------------------------------------------

    def act(self, events: Iterable[Event | Verdict] = ()) -> None:
        """Act on events of the engine and the router, write what the engine has to send, and set the timer."""
        self._handle(events)
        self.flush()
        if self._timer is not None:
            deadline, current = self._next_deadline(), self._timer.deadline
            # A later one is read when the timer wakes. But a loop without a timer waits for its pipes at less cost.
            if deadline != current and (deadline < current or deadline == math.inf):
                self._timer.deadline = deadline

    def _handle(self, events: Iterable[Event | Verdict]) -> None:
        handlers, now = self._ON_EVENT, self._now()
        for event in events:
            handler = handlers.get(type(event))
            if handler is None:
                self._on_message(event, now)
            else:
                handler(self, event)

    def flush(self) -> None:
        """Write what the engine has to send."""
        if self._engine.has_data_to_send and not self._is_writing and (transport := self.transport) is not None:
            if transport.can_send_nowait:
                transport.send_nowait(self._take_data())
            elif self._is_live:
                self._is_writing = True
                self.start_worker(self._write, transport)

    def _take_data(self) -> bytes:
        data = self._engine.data_to_send()
        if data and self._log is not None:
            self._log.sent(data)
        return data

    def _on_message(self, message: Any, now: float) -> None:
        if self._hides_text and self._is_extra(message):
            for journal in self.journals:
                journal.message(message)
            return
        runs, may_end = self._router.route(message, now)
        if self.store_sync is None or not self.store_sync.take(message):
            for run in runs:
                run.put(message)
            self.readers.put(message, is_of_run=bool(runs))
            for journal in self.journals:
                journal.message(message)
        self.track(message)  # its task events follow it
        if may_end:
            self._handle(self._router.settle(now))

    def _is_extra(self, message: Any) -> bool:
        """Return whether the CLI sends a message only for telemetry: by default, it keeps such texts of subagents."""
        agent_id = getattr(message, "agent_id", None)
        task = None if agent_id is None else self.tasks.get(agent_id)
        return task is not None and is_withheld(message, task, self.options.forward_nested_subagent_tool_calls)

    def track(self, message: Any) -> None:
        """Update the tasks and facts from a message."""
        handler = self._TRACKED.get(type(message))  # most messages are partial ones, which concern neither
        if handler is not None:
            handler(self, message)

    def _track(self, message: Any) -> None:
        self.intake.track(message)
        self.facts.track(message)

    def _track_answer(self, message: AssistantMessage) -> None:
        if message.agent_id is not None or message.tool_uses:  # most answers are plain text
            self._track(message)
        if message.error is not None:
            self._check_login(message)

    def _check_login(self, message: Any) -> None:
        refusal = find_refusal(message)
        if refusal is not None and self.is_open:
            self.start_logged(self._fail_login, refusal)  # after the other messages that have arrived

    def on_task_events(self, events: "list[TaskEvent]") -> None:
        """Deliver the events of tasks, if any, and end the runs that waited for the tasks."""
        super().on_task_events(events)
        if verdicts := self._router.settle(self._now()):
            self.act(verdicts)

    def _on_unreadable_result(self, event: ResultUnreadable) -> None:
        self._handle(self._router.spoil(event.frame, self._now()))

    def _on_end_of_stream(self, event: StreamEnded) -> None:
        self._handle(self._router.close())
        self.end_everything()

    def _refuse_garbage(self, frame: MalformedFrame) -> None:
        """Fail the start if the output is not JSON: such a program will never answer."""
        if self.facts.info is None and not isinstance(frame.raw, dict):
            shown = frame.line[:SHOWN_GARBAGE_BYTES].decode(errors="replace")
            for waiter in self._engine.waiters:
                waiter.fail(ControlRejectedError("initialize", f"it printed {shown!r} instead of an answer"))

    def _on_reply(self, event: ReplyReceived) -> None:
        request = event.request
        if event.error is None:
            request.waiter.resolve(event.payload)
        else:
            error = ControlRejectedError(request.subtype, event.error, event.error_code, request.request_id)
            request.waiter.fail(error)

    def _on_request_timed_out(self, event: RequestTimedOut) -> None:
        request = event.request
        request.waiter.fail(ControlTimeoutError(request.subtype, request.timeout or 0.0, request.request_id))

    # Requests to the CLI -----------------------------------------------------------------------------------------

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
        """Send a control request and return the payload of its reply. See `ControlPort.control`.

        Raises:
            OptionsError: The request would disable the hooks of the session, its fields are not JSON, or the timeout is
                invalid.
        """
        check_timeout(timeout)
        self.check_open()
        if "subtype" in fields:  # it would evade what is checked below
            raise OptionsError("the subtype is the first argument, not a field", option="subtype")
        if subtype == "apply_flag_settings" and self.handlers.has_hooks:
            settings = fields.get("settings")
            if isinstance(settings, Mapping) and turns_hooks_off(settings.get("env")):
                raise OptionsError(f"{HOOKS_OFF} in their env disables all hooks", option="settings")
        if subtype == END_SESSION:
            self._engine.advance(Step.ASK_EXIT)  # from now on the CLI may exit at any time
        try:
            reply = await self.ask(subtype, fields, self.options.timeouts.control if timeout is None else timeout)
        except ControlRejectedError:
            if subtype == END_SESSION and self.state is State.EXITING:
                self._engine.advance(Step.EXIT_REFUSED)
            raise
        if subtype == "set_permission_mode":  # the status message that says so comes later
            self.facts.permission_mode = reply.get("mode", fields.get("mode"))
        self.resumption.changes.note(subtype, fields)
        return reply

    async def ask(self, subtype: str, fields: Mapping[str, Any], timeout: float | None) -> dict[str, Any]:
        """Send a request and return the payload of its reply."""
        self.check_open()
        waiter = Waiter()
        try:
            request = self._engine.request(subtype, fields, now=self._now(), timeout=timeout, waiter=waiter)
        except (ValueError, TypeError) as error:
            problem = f"the fields of the control request {subtype!r} are not JSON: {error}"
            raise OptionsError(problem) from error
        self.act()
        try:
            return await waiter.wait()
        finally:
            self._engine.forget_request(request.request_id)

    def post(self, subtype: str, /, **fields: Any) -> None:
        """Send a request without waiting for its reply. Does nothing once the session is closed."""
        if self.is_open:
            request = self._engine.request(subtype, fields, now=self._now(), timeout=None)
            self._engine.forget_request(request.request_id)
            self.flush()

    def inject(self, message: Any) -> None:
        """Process a message made by this package, about a child agent, as if the CLI had sent it.

        Once the CLI has ended, only the tasks and facts learn of it.
        """
        if self.shutdown.stream_over.is_set():
            self.track(message)
        else:
            self.act([message])

    # Runs --------------------------------------------------------------------------------------------------------

    def start_run(self, run: RunState, prompt: UserMessage | AsyncIterable[Any]) -> None:
        """Open a run and send its prompt, or begin to send its iterable of prompts.

        Returns before the prompt is written.

        Raises:
            OptionsError: An earlier prompt had the same uuid, or the prompt is not JSON.
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        if is_stream(prompt):
            run.sending = anyio.CancelScope()
            self.start_logged(self._send_each, run, prompt, run.sending)
        else:
            self._send_prompt(run, prompt)
            run.is_sealed = True
        self.open_run(run)

    async def _send_each(self, run: RunState, prompts: AsyncIterable[Any], scope: anyio.CancelScope) -> None:
        """Send the prompts of an async iterable as they come. Its errors fail the run."""
        iterator: AsyncIterator[Any] | None = None
        try:
            with scope:
                iterator = aiter(prompts)
                async for prompt in iterator:
                    self.send_prompt(run, prompt_message(prompt, verbatim=self.options.verbatim_prompts))
                if not run.prompts:
                    raise OptionsError("the iterable yielded no prompt", option="prompt")
                self.act(self._router.seal_run(run, self._now()))
        except BaseException as error:
            failure = error if isinstance(error, Exception) else make_handler_error("the prompts", error)
            self.fail_run(run, lambda: failure)
        finally:
            await close_stream(iterator)

    def open_run(self, run: RunState) -> None:
        """Open a run. Its unanswered prompts have been sent, or will be."""
        run.connection = self
        timeouts = self.options.timeouts
        run.limits = RunLimits(
            run=timeouts.run if run.timeout is None else run.timeout,
            first_message=timeouts.first_message,
            silence=timeouts.silence,
            idle=timeouts.idle if "idle" in timeouts.model_fields_set else self.default_idle,
        )
        self._router.open_run(run, self._now(), [prompt.uuid for prompt in run.unanswered])
        self.act()

    def send_prompt(self, run: RunState, prompt: UserMessage) -> None:
        """Send another prompt of a run, unless it has ended. Returns before it is written. Raises like `start_run`."""
        if run.is_over:
            return
        self._send_prompt(run, prompt)
        self._router.add_prompt(run, prompt.uuid, self._now())
        self.act()

    def _send_prompt(self, run: RunState, prompt: UserMessage) -> None:
        if self._router.knows_prompt(prompt.uuid):  # the CLI would silently drop it
            raise OptionsError(f"an earlier prompt had the uuid {prompt.uuid}; give each its own", option="prompt")
        is_guarded = self.handlers.has_guard and "verbatim_prompts" not in self.options.model_fields_set
        try:
            if is_guarded and "@" in str(dump(prompt.message)):
                prompt = prompt.replace(client_composed=True)  # the CLI would read `@files` without asking the guard
            self._engine.send_prompt(prompt)
        except LocalProtocolError:
            raise self.shutdown.error_now from None
        except (ValueError, TypeError) as error:
            raise OptionsError(f"must be JSON: {error}", option="prompt") from error
        run.sent.append(prompt)
        for journal in self.journals:
            journal.feed(prompt, sent=True)

    def fail_run(self, run: RunState, failure: Callable[[], BaseException]) -> None:
        """End a run with an error, for example because its iterable of prompts failed."""
        self._router.drop_run(run)
        run.finish(failure=failure)

    async def _fail_login(self, why: str) -> None:
        """End the runs of the current turn with an `AuthenticationError`, and stop the turn."""
        for run in self._router.turn_runs:
            self.fail_run(run, functools.partial(AuthenticationError, why))
            self._stop_work(run, was_in_turn=True)

    def _on_run_ended(self, end: RunEnded) -> None:
        """End a run as the engine decided: answered, timed out, unreadable or closed."""
        run: RunState = end.run
        failure: Callable[[], BaseException] | None = None
        if end.reason == "timeout":
            failure = functools.partial(RunTimeoutError, end.kind or "run", end.limit or 0.0)
        elif end.reason == "unreadable" and end.frame is not None:
            problem = f"the result of the run cannot be read: {end.frame.error}"
            failure = functools.partial(UnreadableResultError, problem, raw=end.frame.raw)
        elif end.reason == "closed":
            failure = self._end_error
            self.resumption.cut_off.append(run)
        run.finish(end, failure)
        if end.reason == "timeout":
            self._stop_work(run, was_in_turn=end.was_in_turn)
        if end.late_tasks:
            self._end_late_tasks(end)

    def _on_run_waits(self, event: RunWaits) -> None:
        """Log which tasks a run waits for, because the program may look as if it hangs."""
        if names := describe_tasks(self.tasks, self.tasks.live_ids()):
            logger.warning(
                "a run has its answer and has been waiting %.0f s for background tasks: %s; limit the "
                'time with Timeouts(idle=...), or use until="result"',
                event.seconds,
                names,
            )

    def _end_late_tasks(self, end: RunEnded) -> None:
        """Stop or leave the tasks that were running when `Timeouts.idle` expired, as `late_tasks` says."""
        self.shutdown.reported_tasks |= end.late_tasks
        is_stop = self.options.late_tasks == "stop"
        logger.warning(
            "background tasks made no progress for %g s after the answer (Timeouts.idle), %s: %s",
            end.limit or 0.0,
            "they are stopped" if is_stop else "they go on",
            describe_tasks(self.tasks, end.late_tasks),
        )
        if is_stop and self.is_open:
            self.start_logged(self.stop_tasks, end.run.tasks)

    async def stop_tasks(self, task_ids: Collection[str]) -> None:
        """Stop those of these tasks that are running."""
        for task_id in self.tasks.live_ids().intersection(task_ids):
            try:
                await self.tasks.stop(task_id)
            except (TaskError, ControlError):
                continue  # it has just ended

    def _stop_work(self, run: RunState, *, was_in_turn: bool) -> None:
        """Stop the work on an abandoned run, but not a turn that it shares with other runs.

        Everything is sent now, without waiting for replies: an interrupt names no prompt, so it must precede the next
        prompt.
        """
        for prompt in run.prompts:
            self.post("cancel_async_message", message_uuid=prompt)
        if was_in_turn and not self._router.turn_runs:
            self.post("interrupt")

    def waits_for_idle(self, run: RunState) -> bool:
        """Return whether a run has its answers and only waits for the session to become idle."""
        return self._router.waits_for_idle(run)

    def queued_prompts(self, run: RunState) -> tuple[str, ...]:
        """Return the prompts of a run that the CLI has not reported as started."""
        return self._router.queued_prompts(run)

    _ON_EVENT: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        RequestReceived: lambda self, event: self.handlers.take(event),
        RequestCancelled: lambda self, event: self.handlers.withdraw(event),
        ReplyReceived: _on_reply,
        RequestTimedOut: _on_request_timed_out,
        RunEnded: _on_run_ended,
        RunWaits: _on_run_waits,
        TurnResumed: lambda self, event: self.resumption.on_turn_resumed(event),
        ResultUnreadable: _on_unreadable_result,
        StreamEnded: _on_end_of_stream,
    }
    _TRACKED: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **dict.fromkeys(TRACKED, lambda self, message: self.intake.track(message)),
        **dict.fromkeys(SessionFacts.HANDLERS, _track),
        AssistantMessage: _track_answer,
        APIRetryMessage: _check_login,
        MalformedFrame: _refuse_garbage,
    }
    """What to call for the messages that concern more than their readers."""
