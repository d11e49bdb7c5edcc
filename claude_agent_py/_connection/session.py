"""`Session`: the state of one session, its workers, its requests to the CLI, and how it ended. `Connection` drives it.

The parts of a connection (`Runs`, `RequestHandlers`, `Shutdown`, `Resumption`) work on it and know nothing of
`Connection`.
"""

import contextlib
import math
import os
import threading
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import lowlevel

from claude_agent_py import agents as agents_room
from claude_agent_py._base.callbacks import log_failure
from claude_agent_py._base.errors import (
    CLOSED,
    NOT_CONNECTED,
    ClaudeAgentError,
    CLIExitError,
    ConnectionClosedError,
    ControlRejectedError,
    HandlerError,
    LocalProtocolError,
    OptionsError,
    first_error,
)
from claude_agent_py._base.event_loop import clock
from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py._connection.failures import HandlerFailed
from claude_agent_py._connection.launching import Launched
from claude_agent_py._connection.live_changes import LiveChanges
from claude_agent_py._connection.reported import Reported
from claude_agent_py._connection.runs.readers import Readers
from claude_agent_py._connection.wire_log import WireLog, wire_log
from claude_agent_py._connection.workers import Workers
from claude_agent_py._journal.engine import END_SESSION, Engine
from claude_agent_py._journal.events import ReplyReceived
from claude_agent_py._journal.live import LiveJournal, OpenRequest
from claude_agent_py._journal.router import TurnRouter
from claude_agent_py._journal.state import State, Step
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py._journal.views import View
from claude_agent_py.options import ClientOptions
from claude_agent_py.options.conflicts import HOOKS_OFF, turns_hooks_off
from claude_agent_py.options.delegation import definitions
from claude_agent_py.options.output_shape import Output
from claude_agent_py.options.secrets import find_secrets
from claude_agent_py.tasks import TaskIntake, TaskManager
from claude_agent_py.tasks.intake import concerns_tasks
from claude_agent_py.tasks.task import check_timeout
from claude_agent_py.transport import Transport
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.frames import ControlCancelRequest, ControlRequest, ControlResponse
from claude_agent_py.wire.messages.occasional import HookResponseMessage, HookStartedMessage

if TYPE_CHECKING:
    from claude_agent_py._connection.store_sync import StoreSync
    from claude_agent_py.hooks.dispatcher import HookDispatcher

_OF_REQUESTS: Final = frozenset(
    {ControlRequest, ControlResponse, ControlCancelRequest, HookStartedMessage, HookResponseMessage}
)
ELSEWHERE: Final = (
    "the client belongs to the event loop of another thread; call it there, for example with anyio.from_thread.run or "
    "asyncio.run_coroutine_threadsafe"
)

KEPT_ERRORS: Final = 1000
"""How many errors of handlers and listeners are kept."""


class ReplyWaiter:
    """A future for the reply to a request with these fields."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.fields = fields
        self._done = LazyEvent()
        self._payload: JSONObject = {}
        self._error: ClaudeAgentError | None = None

    def resolve(self, payload: JSONObject) -> None:
        """Set the payload."""
        self._payload = payload
        self._done.set()

    def fail(self, error: ClaudeAgentError) -> None:
        """Set the error."""
        self._error = error
        self._done.set()

    async def wait(self) -> JSONObject:
        """Wait for the payload and return it, or raise the error."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._payload


@dataclass(frozen=True, kw_only=True)
class ChildLink:
    """What links the session of a child agent to its parent's."""

    parent: "Session"
    agent_id: str
    """The id of the child agent in the parent's session."""
    take: Callable[[object], None]
    """Called with each message of the child, once its session has tracked it."""
    take_events: Callable[[list[TaskEvent]], None]
    """Called with the events of the child's tasks, before any reader gets them."""
    wanted: Collection[type[TaskEvent]]
    """The kinds of events that it uses."""
    answer: Callable[..., Awaitable[JSONObject]] | None
    """Answers the child's questions with the handlers of its parent, as `PermissionDispatcher.answer`; None if it has
    handlers of its own."""
    changes: LiveChanges
    """The changes of its parent's session that its own begins with."""


class Session:
    """The state of a session.

    Args:
        options: The options of the client.
        link: What links a child agent to its parent; otherwise None.
        earlier: The session of the client's last process. This one goes on with its tasks, errors, agents, to-do list
            and changes.
    """

    def __init__(self, options: ClientOptions, link: ChildLink | None, earlier: "Session | None" = None) -> None:
        self.use_options(options)
        self.lineage: tuple[Session, ...] = (self, *(() if link is None else link.parent.lineage))
        """This session and, for a child agent, its ancestors."""
        self.agent_id: str = "" if link is None else link.agent_id
        """The id of the main agent in the parent's session, for a child agent; otherwise empty."""
        self.agents: dict[str, agents_room.AgentDefinition] = (
            definitions(options) if earlier is None else earlier.agents
        )
        """The known agent definitions by name. Those of child agents are added when they start."""
        self.journal: LiveJournal | None = None
        """Gets every message, prompt, request and answer; None before anybody observes the session."""
        self.open_requests: dict[str, OpenRequest] = {}
        """What waits for an answer, by id: what a journal that begins later takes up."""
        self.reported: Reported = Reported(options, None if earlier is None else earlier.reported)
        self.readers: Readers = Readers(options.limits.mailbox_bytes, options.limits.unclaimed_messages)
        self.errors: deque[HandlerError] = deque(maxlen=KEPT_ERRORS) if earlier is None else earlier.errors
        """The errors of handlers and listeners, also those of child agents."""
        self.stderr: ListenerQueue | None = None
        """Calls `on_stderr`; None without it."""
        if options.on_stderr is not None:
            self.stderr = ListenerQueue(options.on_stderr, self.report)
        self.intake: TaskIntake = TaskIntake() if earlier is None else earlier.intake
        """Feeds messages and hooks to the tasks."""
        self.tasks: TaskManager = TaskManager(self, intake=self.intake) if earlier is None else earlier.tasks
        self.intake.control = self
        self.engine: Engine = Engine(max_line_bytes=options.limits.max_line_bytes)
        self.router: TurnRouter = TurnRouter(
            self.tasks.live_ids, self.intake.ledger.causes_follow_up, self.intake.clock
        )
        self.hooks: HookDispatcher | None = None
        """Answers the hooks of the session; None without any."""
        begins_with = None if link is None else link.changes
        self.changes: LiveChanges = LiveChanges(begins_with if earlier is None else earlier.changes)
        """The changes made to the running session, which its next process and child agents repeat."""
        self.late_reports: list[Callable[[], None]] = [] if earlier is None else earlier.late_reports
        """Each hands over the report of a child agent that ended while no CLI ran."""
        self.launched: Launched | None = None
        """The CLI; None before `Connection.open`."""
        self._thread: int = threading.get_ident()
        """The thread of the event loop."""
        self.store_sync: StoreSync | None = None
        """The session store; None without one."""
        self.now: Callable[[], float] = anyio.current_time
        self.log: WireLog | None = wire_log(options)
        self.workers: Workers = Workers(self.check_open, self.break_off)
        self._is_writing = False
        """Whether a writer is running."""
        self._timer: anyio.CancelScope | None = None
        """The scope in which the timer sleeps; moving its deadline wakes it earlier."""
        self.requested: LazyEvent = LazyEvent()
        """Set when the client ends the session, or a worker has failed."""
        self.output_over: LazyEvent = LazyEvent()
        """Set when the pump has acted on all output of the CLI, or a worker has failed."""
        self.stream_over: LazyEvent = LazyEvent()
        """Set when `Shutdown.end_everything` ends what depends on the output of the CLI."""
        self.why_closed: str = CLOSED
        """The text of the error for calls after closing."""
        self._cause: State | Exception | None = None
        """DIED, EXITED or CLOSED, as which the session ended for its users; or the exception of a worker, which is a
        bug in this package or in a transport. None before the end."""

    def use_options(self, options: ClientOptions) -> None:
        """Set the options; also those of a running session, which was changed to match them."""
        self.options = options
        self.cwd: str | None = None
        """The directory in which the CLI works; None if it is unknown because ours was removed."""
        with contextlib.suppress(FileNotFoundError):
            self.cwd = os.path.abspath(options.cwd or os.curdir)

    def begin(self, launched: Launched) -> None:
        """Begin with a CLI that runs.

        Raises:
            ConnectionClosedError: The session was closed before.
        """
        if self.state is not State.NEW:
            raise self.error_now
        self.engine.advance(Step.START)
        self.launched, self.now, self._thread = launched, clock(), threading.get_ident()

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self.engine.state

    @property
    def is_open(self) -> bool:
        """Whether prompts and requests can be sent."""
        return self.engine.can_send

    def check_open(self) -> None:
        """Raise unless prompts and requests can be sent, from here.

        Raises:
            LocalProtocolError: The caller is in another thread than the event loop.
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        if not self.is_open:
            raise self.error_now
        if self._thread != threading.get_ident():
            raise LocalProtocolError(ELSEWHERE)

    def options_in_effect(self, options: ClientOptions[Output]) -> ClientOptions[Output]:
        """Return options of its client with the model, the permission mode and the hooks that are now in effect."""
        options = self.changes.apply_to(options, self.reported.permission_mode or self.options.permission_mode)
        if self.hooks is None:
            return options
        with warnings.catch_warnings():  # of hooks that have already warned
            warnings.simplefilter("ignore")
            return options.replace(hooks=self.hooks.by_event or None)

    @property
    def transport(self) -> Transport:
        """The transport of an opened session."""
        assert self.launched is not None  # noqa: S101 - it is open
        return self.launched.transport

    def report(self, error: HandlerError) -> None:
        """Log and record an error of a handler or listener, here and in the sessions above. Never raises."""
        log_failure(error)
        for session in self.lineage:
            session.errors.append(error)
            session.readers.put(HandlerFailed(error.handler, error.reason))

    def observe(self, view: View, after: int | None = None) -> None:
        """Show a view the facts from now on, beginning with what is open, or with the retained ones after a number.

        Raises:
            OptionsError: These facts are not retained.
        """
        self.open_journal().observe(view, after)

    def open_journal(self) -> LiveJournal:
        """Return the journal. It begins now if nobody observed the session."""
        if self.journal is None:
            turns = self.router.turns
            self.journal = LiveJournal(self.intake.ledger, turns, self.reported.tools, clock=self.intake.clock)
            self.journal.take_up(turns.queued, self.open_requests.values())
        return self.journal

    def release(self, view: View) -> None:
        """Remove a view. The journal ends with its last view, unless it retains facts."""
        if self.journal is not None:
            self.journal.remove(view)
            if not self.journal.is_needed:
                self.journal = None

    def tell(self, happening: object, *, sent: bool = False, agent: str = "", is_about_tasks: bool = True) -> None:
        """Tell the tasks, then the journal if there is one, of a message or of what happens to a request.

        The events of the tasks follow. `agent` is the child agent whose CLI sent it, as for `LiveJournal.feed`.
        """
        if type(happening) in _OF_REQUESTS:
            _note_request(self, happening, sent, agent)
        is_about_tasks = is_about_tasks and concerns_tasks(happening)
        if is_about_tasks:
            self.intake.update(happening)
        if self.journal is not None:
            self.journal.feed(happening, sent=sent, agent=agent)
        if is_about_tasks:
            self.intake.publish()

    # Writing -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what the engine has to send, and set the timer."""
        self.write()
        if self._timer is not None:
            deadline, current = _next_deadline(self), self._timer.deadline
            # A later one is read when the timer wakes. But a loop without a timer waits for its pipes at less cost.
            if deadline != current and (deadline < current or deadline == math.inf):
                self._timer.deadline = deadline

    def write(self) -> None:
        """Write what the engine has to send. An answer changes no deadline."""
        if self.engine.has_data_to_send and not self._is_writing and self.launched is not None:
            transport = self.launched.transport
            if transport.can_send_nowait:
                transport.send_nowait(self._take_data())
            elif self.workers.is_live:
                self._is_writing = True
                self.workers.start(self._write, transport)

    async def _write(self, transport: Transport) -> None:
        """Write the pending data, including data that is added during the writing."""
        try:
            while data := self._take_data():
                await transport.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the CLI no longer reads; the pump sees its end
        finally:
            self._is_writing = False

    def _take_data(self) -> bytes:
        data = self.engine.data_to_send()
        if data and self.log is not None:
            self.log.sent(data)
        return data

    async def keep_time(self, tick: Callable[[float], object]) -> None:
        """Call a function at the deadlines of the engine and the router, until the session closes."""
        while not self.requested.is_set():
            with anyio.CancelScope(deadline=_next_deadline(self)) as self._timer:
                await self.requested.wait()
            # If the program was stopped, or a callback held the loop up, the pump acts first on what came meanwhile.
            await lowlevel.checkpoint()
            if not self.requested.is_set():
                tick(self.now())
        self._timer = None

    # Requests to the CLI -----------------------------------------------------------------------------------------

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: object) -> JSONObject:
        """Send a control request and return the payload of its reply. See `ControlPort.control`.

        Raises:
            OptionsError: The request would disable the hooks of the session, its fields are not JSON, or the timeout is
                invalid.
        """
        check_timeout(timeout)
        self.check_open()
        if "subtype" in fields:  # it would evade what is checked below
            raise OptionsError("the subtype is the first argument, not a field", option="subtype")
        if subtype == "apply_flag_settings" and self.hooks:
            settings = fields.get("settings")
            if isinstance(settings, Mapping) and turns_hooks_off(settings.get("env")):
                raise OptionsError(f"{HOOKS_OFF} in their env disables all hooks", option="settings")
        return await self.request(subtype, fields, self.options.timeouts.control if timeout is None else timeout)

    async def request(self, subtype: str, fields: Mapping[str, object], timeout: float | None) -> JSONObject:
        """Send a request as it is, and return the payload of its reply. `control` also checks it."""
        self.check_open()
        waiter = ReplyWaiter(fields)
        try:
            request = self.engine.request(subtype, fields, now=self.now(), timeout=timeout, waiter=waiter)
        except (ValueError, TypeError) as error:
            problem = f"the fields of the control request {subtype!r} are not JSON: {error}"
            raise OptionsError(problem) from error
        self.flush()
        try:
            return await waiter.wait()
        finally:
            self.engine.forget_request(request.request_id)

    def note_reply(self, event: ReplyReceived) -> None:
        """Note what a reply changes, in the order of the replies, whether or not anybody still waits for it."""
        request, waiter = event.request, event.request.waiter
        if waiter is None:
            return
        if event.error is not None:
            if request.subtype == END_SESSION and self.state is State.EXITING:
                self.engine.advance(Step.EXIT_REFUSED)
            waiter.fail(ControlRejectedError(request.subtype, event.error, event.error_code, request.request_id))
            return
        self.reported.take_reply(request.subtype, waiter.fields, event.payload)
        self.changes.note(request.subtype, waiter.fields)
        if request.subtype == "set_cwd" and isinstance(cwd := event.payload.get("cwd"), str):
            self.cwd = cwd
        waiter.resolve(event.payload)

    def post(self, subtype: str, /, **fields: object) -> None:
        """Send a request without waiting for its reply. Does nothing once the session is closed."""
        if self.is_open:
            request = self.engine.request(subtype, fields, now=self.now(), timeout=None)
            self.engine.forget_request(request.request_id)
            self.flush()

    # How it ended ------------------------------------------------------------------------------------------------

    def break_off(self, error: BaseException) -> None:
        """End the session because of the exception of a worker. The first one is its error."""
        if isinstance(error, Exception) and not self.is_broken:
            self._cause = error
        self.engine.advance(Step.CLOSE)
        self.output_over.set()  # the worker may have been the pump
        self.requested.set()

    def note_end(self) -> None:
        """Note that the session has ended for its users, and in which state. Only the first call has an effect."""
        if self._cause is None:
            self._cause = self.state if self.state in (State.DIED, State.EXITED) else State.CLOSED

    @property
    def is_broken(self) -> bool:
        """Whether a worker has failed."""
        return isinstance(self._cause, Exception)

    @property
    def is_lost(self) -> bool:
        """Whether the CLI ended unexpectedly. Its client may start another one."""
        return self._cause is State.DIED

    @property
    def went_well(self) -> bool:
        """Whether the session ended on request, not because the CLI died or a worker failed."""
        if self._cause is State.EXITED:
            return self.transport.exit_code == 0
        return self._cause is State.CLOSED

    @property
    def error(self) -> ClaudeAgentError:
        """The error for what the end cut off."""
        return _make_exit_error(self) if self._cause in (State.DIED, State.EXITED) else self.error_now

    @property
    def error_now(self) -> ClaudeAgentError:
        """The error for what cannot be sent in the current state."""
        if isinstance(self._cause, Exception):
            return _make_broken_error(self._cause)
        if self.state in (State.DIED, State.EXITED):
            return _make_exit_error(self)
        return ConnectionClosedError(NOT_CONNECTED if self.state is State.NEW else self.why_closed)

    def find_secrets(self) -> Mapping[str, str]:
        """Return the secrets that the CLI gets, with what to show instead of each."""
        return find_secrets(self.options)


def _note_request(session: Session, happening: Any, sent: bool, agent: str) -> None:
    """Keep the requests and hooks that wait for an answer, for a journal that begins later."""
    if isinstance(happening, HookStartedMessage):
        session.open_requests[happening.hook_id] = OpenRequest(happening, session.intake.clock())
    elif isinstance(happening, HookResponseMessage):
        session.open_requests.pop(happening.hook_id, None)
    elif isinstance(happening, ControlRequest):
        if not sent:
            session.open_requests[happening.request_id] = OpenRequest(happening, session.intake.clock(), agent)
    else:
        session.open_requests.pop(happening.request_id, None)


def _next_deadline(session: Session) -> float:
    return min(session.engine.next_deadline(), session.router.next_deadline())


def _make_exit_error(session: Session) -> CLIExitError:
    launched, info = session.launched, session.reported.info
    assert launched is not None  # noqa: S101 - it has run
    return CLIExitError(
        "the CLI ended while the session was in use",
        exit_code=launched.transport.exit_code,
        stderr_tail=launched.transport.stderr_tail,
        cli_path=str(launched.cli_path) if launched.cli_path else None,
        version=info.claude_code_version if info else None,
        secrets=session.find_secrets,
    )


def _make_broken_error(error: BaseException) -> ConnectionClosedError:
    error = first_error(error)
    failure = ConnectionClosedError(f"the session broke: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
