"""`Connection`: one CLI process and the conversation over its pipe.

It drives the sans-IO engine and router over a transport. A message takes this path: the engine decodes it, the router
names its runs, their mailboxes and the readers receive it, and `track` updates the tasks and facts. The workers:

* The **pump** reads, feeds the engine and acts on its events. If user code that it calls has to wait, another worker
  continues to pump.
* The **writer** writes data that the pipe does not accept immediately, so that cancelling a caller never cuts a frame.
* The **timer** (`_live`, which starts the others) ticks the engine and the router at their deadlines until the session
  closes, and then ends the process.

The pump itself answers a request of the CLI that arrives alone; several at once get a worker each (`workers.py`).
`startup.py` initializes a session, `running.py` has its open runs, `shutdown.py` ends it, `request_handlers.py` answers
the CLI. What needs no I/O is decided in `_journal`: `engine.py` for frames and requests, `router.py` for runs.
"""

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio

from claude_agent_py._base.errors import ControlTimeoutError, StoreError
from claude_agent_py._base.event_loop import spawn_detached
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._base.log import logger
from claude_agent_py._base.private_files import find_other
from claude_agent_py._connection import answering
from claude_agent_py._connection.answering.request_handlers import RequestHandlers
from claude_agent_py._connection.current import keep_current
from claude_agent_py._connection.launching import Launched
from claude_agent_py._connection.reported import PATIENCE, OwnTaskList, Reported, describe_retry, find_refusal
from claude_agent_py._connection.resumption import Resumption
from claude_agent_py._connection.running import Runs
from claude_agent_py._connection.runs.withheld import is_withheld
from claude_agent_py._connection.session import ChildLink, Session
from claude_agent_py._connection.shutdown import Shutdown
from claude_agent_py._journal.events import Event, ReplyReceived, RequestTimedOut, RequestUnreadable, StreamEnded
from claude_agent_py._journal.open_runs import RunEnded, RunWaits, TurnResumed, Verdict
from claude_agent_py._journal.routes import route
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py.observe.telemetry import resolve_telemetry
from claude_agent_py.options import ClientOptions
from claude_agent_py.tasks.task_list import calls_task_list
from claude_agent_py.transport.base import Transport
from claude_agent_py.wire.control.frames import ControlCancelRequest, ControlRequest
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage
from claude_agent_py.wire.messages.stream import StreamEventMessage
from claude_agent_py.wire.messages.system import APIRetryMessage
from claude_agent_py.wire.unknown import MalformedFrame

if TYPE_CHECKING:
    from claude_agent_py.observe.tracing import Tracer

KEPT_GARBAGE: Final = 10_000
"""How many characters of a program's output that is not JSON are kept for an error."""


class Connection:
    """What drives a session with one CLI process. Used once: `open`, then `shutdown.close`.

    Args:
        options: The options of the client.
        link: What links a child agent to its parent; otherwise None.
        earlier: The connection of the client's last process, whose work this one goes on with.
    """

    def __init__(
        self, options: ClientOptions, *, link: ChildLink | None = None, earlier: "Connection | None" = None
    ) -> None:
        earlier_session = None if earlier is None else earlier.session
        self.session: Session = Session(options, link, earlier_session)
        """What is known of the session, its requests to the CLI, and how it ended."""
        self.session.intake.host = self
        self._link = link
        self.tracer: Tracer | None = None
        """Traces the session and its child agents; None without telemetry."""
        if link is None and (telemetry := resolve_telemetry(options.telemetry)) is not None:
            secrets = self.session.find_secrets() if telemetry.records_content else None
            self.tracer = telemetry.observer(secrets, None if earlier is None else earlier.tracer)
            self.session.observe(self.tracer)
        self._hides_text = not options.forward_subagent_text and resolve_telemetry(options.telemetry) is not None
        """Whether the CLI sends text of subagents only for telemetry."""
        if options.on_task_notification is not None and earlier is None:
            self.session.tasks.on("notification", options.on_task_notification)
        if options.on_task_event is not None and earlier is None:
            self.session.tasks.on(options.on_task_event)
        self.printed: str = ""
        """The beginning of what the program printed, before it answered, that is not JSON. It may have secrets."""
        self._has_task_list = False
        """Whether the model has used its to-do list."""
        self.handlers: RequestHandlers = RequestHandlers(
            self.session, link, None if earlier is None else earlier.handlers
        )
        self.resumption: Resumption = Resumption(self.session)
        self.shutdown: Shutdown = Shutdown(self.session, self.handlers, self.resumption, self.act)
        self.runs: Runs = Runs(self.session, self.shutdown, self.resumption, self.act)
        if earlier is not None:
            self.resumption.follow(earlier.resumption)
            self.shutdown.follow(earlier.shutdown)

    def __repr__(self) -> str:
        session = self.session
        return f"<Connection {session.state.value} over {session.launched and session.launched.transport!r}>"

    # Opening -----------------------------------------------------------------------------------------------------

    def open(self, launched: Launched) -> None:
        """Start the workers for a running CLI.

        Raises:
            ConnectionClosedError: The session was closed before.
        """
        session = self.session
        session.begin(launched)
        session.intake.paths.config_dir = launched.plan.config_dir
        session.intake.paths.uid = find_other(session.options.user)
        for run in self.resumption.begin():
            self.runs.open(run, [prompt.uuid for prompt in run.unanswered])
        self.act(session.router.settle(session.now()))
        self.shutdown.be_ready()
        spawn_detached(lambda: self._live(launched), name="claude_agent_py session")

    async def _live(self, launched: Launched) -> None:
        """Run the workers until the session closes. When this returns, the process has exited."""
        session = self.session
        session.workers.is_live = True
        session.workers.enter = keep_current()
        try:
            self.shutdown.watch()
            self._start_pump()
            if session.store_sync is not None:
                session.workers.start(session.workers.run_logged, session.store_sync.mirror.run)
            session.intake.reconciler.work_in(functools.partial(session.workers.start, session.workers.run_logged))
            session.intake.home.enter()
            session.intake.listeners.deliver_with(session.workers.deliver, session.report)
            if session.stderr is not None:
                session.workers.deliver(session.stderr)
            session.flush()
            await session.keep_time(self._tick)
            if not launched.is_forked:  # in a fork, the CLI belongs to the parent process
                await self.shutdown.end_process()
        except Exception as error:
            session.break_off(error)
            raise
        finally:
            await self.shutdown.finish(launched)

    # Workers -----------------------------------------------------------------------------------------------------

    def _start_pump(self) -> None:
        scope = anyio.CancelScope()
        self.session.workers.start(self._pump, self.session.transport, scope, scope=scope)

    async def _pump(self, transport: Transport, scope: anyio.CancelScope) -> None:
        """Read the output of the CLI and act on it until it ends, or until another worker continues.

        A request that the pump answers is cancelled with its scope.
        """
        session = self.session
        engine, act, log = session.engine, self.act, session.log
        while data := await transport.receive():
            if log is not None:
                log.received(data)
            events = engine.receive_data(data)
            if len(events) == 1 and type(events[0]) is ControlRequest:
                if await self.handlers.answer_here(events[0], scope, self._start_pump):
                    return
            else:
                act(events)
            del data, events  # otherwise up to 16 KiB, and the last messages, would stay in memory during the wait
        await self.shutdown.end_output()

    def _tick(self, now: float) -> None:
        session = self.session
        if session.engine.take_cli_waited():
            session.router.restart_silence(now)
        self.act([*session.engine.tick(now), *session.router.tick(now)])

    # Events ------------------------------------------------------------------------------------------------------

    def act(self, events: Iterable[Event | Verdict] = ()) -> None:
        """Act on events of the engine and the router, write what the engine has to send, and set the timer."""
        self._handle(events)
        self.session.flush()

    def _handle(self, events: Iterable[Event | Verdict]) -> None:
        handlers, now = self._ON_EVENT, self.session.now()
        for event in events:
            handler = handlers.get(type(event))
            if handler is None:
                self._on_message(event, now)
            else:
                handler(self, event)

    def _on_message(self, message: Any, now: float) -> None:
        session = self.session
        if self._hides_text and self._is_extra(message):
            self._tell_observers(message)
            return
        kind = type(message)
        lost = self._find_lost(message) if kind is ResultMessage else None
        runs = route(session.router, message, now)
        for run in runs if kind is ResultMessage else ():
            run.results.append(message)
            if lost is not None:
                run.store_errors.append(copy.copy(lost))  # each gets the result of its run
        if session.store_sync is None or not session.store_sync.take(message):
            is_recorded = kind is not StreamEventMessage  # a message repeats its deltas
            for run in runs:
                run.mailbox.put(message, is_recorded=is_recorded, at=now)
            if session.readers.mailboxes or not runs:
                session.readers.put(message, is_of_run=bool(runs))
        self.track(message)  # its facts and task events follow it
        if kind is StreamEventMessage:
            return  # most messages: none ends a run
        if verdicts := session.router.settle(now):
            self._handle(verdicts)

    def _find_lost(self, result: ResultMessage) -> StoreError | None:
        """Return the error of a turn that the session store lacks a part of, or None. A message tells of it first."""
        sync, workers = self.session.store_sync, self.session.workers
        if sync is None or (lost := sync.find_lost(result)) is None:
            return None
        self._on_message(sync.make_message(lost), self.session.now())
        workers.start(workers.run_logged, sync.report_lost, lost)
        return lost

    def _is_extra(self, message: Any) -> bool:
        """Return whether the CLI sends a message only for telemetry: by default, it keeps such texts of subagents."""
        session = self.session
        agent_id = getattr(message, "agent_id", None)
        task = None if agent_id is None else session.tasks.get(agent_id)
        return task is not None and is_withheld(message, task, session.options.forward_nested_subagent_tool_calls)

    def _tell_observers(self, message: object) -> None:
        """Tell those who observe this session or one above it: the telemetry of a parent traces child agents, too."""
        for session in self.session.lineage:
            if session.journal is not None:
                session.journal.feed(message)

    def track(self, message: object) -> None:
        """Update what is known of the session and its tasks from a message, and the journal if it is observed."""
        handler = self._NOTED.get(type(message))
        if handler is not None:
            handler(self, message)
        self.session.tell(message)
        if self._link is not None:
            self._link.take(message)

    def _note_answer(self, message: AssistantMessage) -> None:
        session = self.session
        if not self._has_task_list and calls_task_list(message):
            self._has_task_list = True
            session.observe(OwnTaskList(session.reported.task_list, session.intake.ledger))
        if message.error is not None:
            self._check_login(message)

    def _note_retry(self, message: APIRetryMessage) -> None:
        log = logger.warning if message.attempt == PATIENCE else logger.info
        log("the API %s; the run waits", describe_retry(message))
        self._check_login(message)

    def _check_login(self, message: APIRetryMessage | AssistantMessage) -> None:
        session = self.session
        refusal = find_refusal(message)
        if refusal is not None and session.is_open:
            session.workers.start_logged(self.runs.fail_login, refusal)  # after the other messages that have arrived

    # The host of the tasks ---------------------------------------------------------------------------------------

    def wants_event(self, kind: type[TaskEvent], /) -> bool:
        """Return whether the journal, a reader or the parent of a child agent receives events of a kind."""
        session, link = self.session, self._link
        is_observed = session.journal is not None or session.readers.has_event_readers
        return is_observed or (link is not None and kind in link.wanted)

    def number_events(self, events: list[TaskEvent], /) -> None:
        """Replace events of tasks by facts of the journal, if the session is observed."""
        if self.session.journal is not None:
            self.session.journal.feed(events)

    def take_events(self, events: list[TaskEvent], /) -> None:
        """Deliver the events of tasks, if any, and end the runs that waited for the tasks."""
        session = self.session
        if self._link is not None:
            self._link.take_events(events)
        session.readers.put_events(events)
        if verdicts := session.router.settle(session.now()):
            self.act(verdicts)

    # The end of the output, and requests to the CLI ----------------------------------------------------------------

    def _on_end_of_stream(self, event: StreamEnded) -> None:
        self._handle(self.session.router.close())
        self.shutdown.end_everything()

    def _note_garbage(self, frame: MalformedFrame) -> None:
        """Keep what a wrapper of the CLI, or another program, prints before it answers, for an error of the start."""
        if not self.session.reported.has_info and not isinstance(frame.raw, dict):
            line = frame.line[:KEPT_GARBAGE].decode(errors="replace").strip()
            self.printed = f"{self.printed}\n{line}".strip()[:KEPT_GARBAGE]

    def _on_request_timed_out(self, event: RequestTimedOut) -> None:
        request = event.request
        request.waiter.fail(ControlTimeoutError(request.subtype, request.timeout or 0.0, request.request_id))

    def inject(self, message: Any) -> None:
        """Process a message made by this package, about a child agent, as if the CLI had sent it.

        Once the CLI has ended, only the tasks learn of it.
        """
        if self.session.stream_over.is_set():
            self.track(message)
        else:
            self.act([message])

    _ON_EVENT: ClassVar[Mapping[type, Callable[..., None]]] = {
        ControlRequest: lambda self, event: self.handlers.take(event),
        RequestUnreadable: lambda self, event: self.handlers.answer_unreadable(event),
        ControlCancelRequest: lambda self, event: self.handlers.withdraw(event),
        ReplyReceived: lambda self, event: self.session.note_reply(event),
        RequestTimedOut: _on_request_timed_out,
        RunEnded: lambda self, event: self.runs.on_ended(event),
        RunWaits: lambda self, event: self.runs.on_waits(event),
        TurnResumed: lambda self, event: self.resumption.on_turn_resumed(event),
        StreamEnded: _on_end_of_stream,
    }
    _NOTED: ClassVar[Mapping[type, Callable[..., None]]] = {
        **dict.fromkeys(Reported.HANDLERS, lambda self, message: self.session.reported.track(message)),
        AssistantMessage: _note_answer,
        APIRetryMessage: _note_retry,
        MalformedFrame: _note_garbage,
    }
    """What to call for the messages that concern more than their readers and the tasks."""


class CurrentConnection:
    """The connection of a client to its present process.

    The groups of requests hold it: not the client, which they would keep alive, and not the connection, which `reopen`
    replaces.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: object) -> JSONObject:
        """Send a control request. See `ControlPort.control`."""
        return await self.connection.session.control(subtype, timeout=timeout, **fields)

    @property
    def hooks(self) -> "answering.HookDispatcher":
        """Answers the hooks of the session."""
        return self.connection.handlers.hooks
