"""`Client`: a session with the CLI that stays open for any number of prompts.

The control requests are in `_connection/controls/`; `runs.py` runs a single prompt in a separate process.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Protocol, Self, overload

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py import _connection, permissions  # load on first use, to keep the import of the client fast
from claude_agent_py._base.configuration import snake_case
from claude_agent_py._base.errors import (
    CLOSED,
    NOT_CONNECTED,
    ConnectionClosedError,
    HandlerError,
    LocalProtocolError,
    OptionsError,
)
from claude_agent_py._base.event_loop import run_to_its_end
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py._connection.answering.preloading import load_parts
from claude_agent_py._connection.controls.session_controls import SessionControls
from claude_agent_py._connection.current import current, running_client
from claude_agent_py._connection.launching import check_ready_made, check_transport, find_config_dir, launch
from claude_agent_py._journal.state import State
from claude_agent_py.options.client_options import ClientOptions, options_or_defaults, refuse_options
from claude_agent_py.options.output_shape import Output
from claude_agent_py.transport import Transport
from claude_agent_py.transport.processes import kill_program

if TYPE_CHECKING:
    from pathlib import Path

    from claude_agent_py._connection import (
        Connection,
        CurrentConnection,
        LiveHooks,
        MCPControls,
        Run,
        Session,
        StoreSync,
        Subagent,
        TasksAtClose,
        Until,
        UsageControls,
    )
    from claude_agent_py.control import InitializeReply
    from claude_agent_py.journal import Fact, FactStream
    from claude_agent_py.messages import Prompt, SessionEvent, SessionMessage
    from claude_agent_py.tasks import Task, TaskManager
    from claude_agent_py.tasks.task_list import TaskList


class Spawnable(Protocol):
    """What `Client.spawn` takes: a `ChildAgent`."""

    @property
    def spawn(self) -> Callable[..., Awaitable[Task]]:
        """Starts the agent under a client. Takes the client, and the arguments of `Client.spawn`."""
        ...


def current_client() -> Client | None:
    """Return the client whose handler, listener or tool is running, or None."""
    client: Client | None = current()
    return client


class Client(SessionControls, Generic[Output]):
    """A session with the Claude Code CLI.

    Use it as `async with Client(options) as client`, or call `connect()` and `close()` yourself. All methods, these
    too, may be called concurrently, on asyncio and trio.

    A client that is garbage-collected without being closed emits a `ResourceWarning`, and its session is killed. Runs
    and `messages()` iterators keep their client alive; tasks do not.

    Args:
        options: The session's options; None means `ClientOptions()`.
        transport: A connection to a program that is started without these options, for tests. To start the `claude`
            program elsewhere, use `ClientOptions(spawn=...)`.

    Raises:
        OptionsError: `options` or `transport` has the wrong type, or an option can have no effect over `transport`.
    """

    _warns = False
    """Whether the session is open. A class attribute because `__del__` also runs when `__init__` fails."""

    def __init__(
        self,
        options: ClientOptions[Output] | None = None,
        *,
        transport: Transport | None = None,
        **misplaced: Never,
    ) -> None:
        refuse_options("Client", misplaced)
        self._options: ClientOptions[Output] = options_or_defaults(options)
        if transport is not None:
            check_ready_made(self._options, check_transport(transport, option="transport"))
        self._transport = transport
        self._connection: Connection | None = None
        self._current: CurrentConnection | None = None
        """What the groups of requests hold; None before the first one."""
        self._hooks: LiveHooks | None = None
        self._connected: LazyEvent | None = None
        """Set once `connect` or `reopen` has succeeded or failed; None before `connect`."""
        self._start: anyio.CancelScope | None = None
        """The scope of `connect` or `reopen`; None before and afterwards, because it refers to the caller."""
        self._is_closed = False
        """Whether `close` or `abort` was called."""

    @property
    def connection(self) -> Connection:
        """The session behind the client. Internal to this package, and not covered by semantic versioning."""
        if self._connection is None:
            self._connection = self._make_connection(self._options)
        return self._connection

    @property
    def session(self) -> Session:
        """What is known of the session. Internal to this package, and not covered by semantic versioning."""
        return self.connection.session

    def _make_connection(self, options: ClientOptions[Output], earlier: Connection | None = None) -> Connection:
        return _connection.Connection(options, earlier=earlier)

    def __repr__(self) -> str:
        connection = self._connection
        if connection is None or connection.session.state is State.NEW:
            return "<Client not connected>"
        return f"<Client {connection.session.state.value}, {len(connection.session.tasks)} tasks>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from claude_agent_py._base.official_names import OFFICIAL_METHODS  # only for a missing name

            instead = OFFICIAL_METHODS.get(snake_case(name))
            hint = f": instead of the official SDK's {name}, use {instead}" if instead else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    # Lifecycle --------------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Start the CLI and initialize the session. An error or a cancellation leaves no process behind.

        Raises:
            OptionsError: An option cannot be applied.
            CLINotFoundError: The `claude` program was not found.
            SessionNotFoundError: The session to `resume` does not exist.
            SessionInUseError: A session with this `session_id` already exists.
            CLIStartError: The CLI did not start, exited, or did not answer within `Timeouts.connect`.
            CLIVersionError: The CLI is too old.
            StoreError: The session to resume cannot be loaded from the `session_store`.
            SessionLeasedError: Another process writes that session.
            BudgetExceededError: The session to resume has spent `max_budget_usd`.
            ConnectionClosedError: The client was closed before or during the call.
            LocalProtocolError: `connect` was called before; a client connects once.
        """
        if self._connected is not None:
            raise LocalProtocolError("connect() was called already; a client is used once, make a new one")
        self._check_not_closed()
        with self._starting():
            await checkpoint()  # building the first options of a process is slow
            self._check_not_closed()
            with running_client(self):
                await self._connect(self._options)
            self._warns = self.is_open

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """Connect or reopen in the block, which `close` cancels."""
        self._connected, self._start = LazyEvent(), anyio.CancelScope()
        try:
            with self._start as scope:
                yield
            if scope.cancelled_caught:
                raise ConnectionClosedError(CLOSED)
        finally:
            self._start = None
            self._connected.set()

    async def _connect(self, given: ClientOptions[Output], last: Session | None = None) -> None:
        """Connect; after `last`, whose process has ended."""
        store_sync = await self._prepare_store(given)
        try:
            options = given if store_sync is None else store_sync.options
            config_dir = None if store_sync is None else store_sync.config_dir
            if options.max_budget_usd is not None and (options.resume or options.continue_conversation or last):
                options = await _connection.subtract_spent(options, config_dir, self.session, last)
            launched = await launch(options, self._transport, on_stderr=self._on_stderr_line, config_dir=config_dir)
            try:
                await load_parts(options)
                connection = self.connection
                self._check_not_closed()
                if store_sync is not None:
                    store_sync.report_to(connection.inject, connection.session.report)
                    connection.session.store_sync = store_sync
            except BaseException:
                await launched.discard()
                raise
            await _connection.open_session(connection, launched)
        except BaseException:
            if store_sync is not None:
                await run_to_its_end(store_sync.end, name="claude_agent_py store")
            raise

    async def _prepare_store(self, options: ClientOptions[Output]) -> StoreSync | None:
        if options.session_store is None:
            return None
        store_sync = _connection.StoreSync(options)
        await store_sync.prepare(self._transport)
        return store_sync

    def _check_not_closed(self) -> None:
        if self._is_closed or (self._connection is not None and self._connection.session.state is not State.NEW):
            raise ConnectionClosedError(CLOSED)

    @property
    def _on_stderr_line(self) -> Callable[[str], None]:
        """The callback for lines of stderr. It holds only a weak reference to the client."""
        reference = weakref.ref(self)

        def take(line: str) -> None:
            client = reference()
            if client is not None and (stderr := client.session.stderr) is not None:
                stderr.put(line)

        return take

    async def reopen(self) -> None:
        """Start a new process on the session, after the CLI ended unexpectedly.

        Runs interrupted by the crash continue: await or iterate them again. The CLI resumes the turn that it was
        working on; the model sees the outcome of interrupted tool calls as unknown. Only prompts that the CLI had not
        written to disk are sent again: a run whose turn had ended raises `CLIExitError` again. A run whose async
        iterable of prompts was still being sent does not continue, nor does one that was interrupted after the crash.

        Waits until the old process and the handlers, listeners and tools of its session have ended.

        The options of the client apply again. Changes to the model, the permission mode, the thinking budget and the
        settings of the running session are kept, and its hooks, the restrictions of MCP servers
        (`mcp.set_permission_mode`, `mcp.toggle`) and the rules of answers that deny or ask (`updated_permissions`, as
        `managed_settings`); servers, the directory (`files.set_cwd`) and rules that allow are reset to the options. A
        session of a store is loaded from there, including everything that the old process wrote. Background tasks of
        the CLI failed with it. They stay in `tasks`, which is the same object for the life of the client, with its
        listeners, as are `task_list`, `interactions` and the groups of requests such as `mcp`. Child agents are
        cancelled; the model is sent the reports of those that continued after their call had ended. Iterators of
        `messages()` and `events()`, and of questions and changes, have ended; start new ones. After an error or a
        cancellation the client is closed.

        Raises:
            LocalProtocolError: The CLI did not end unexpectedly, is used through a transport, or does not save
                the session (`persist_session`); or the caller is a handler, listener or tool of the session.
            ConnectionClosedError: The client was closed before or during the call.
            CLIStartError: As in `connect`, or the CLI refuses settings that it accepted before.
            CLINotFoundError, SessionNotFoundError, StoreError, SessionLeasedError: As in `connect`.
            BudgetExceededError: As in `connect`.
        """
        earlier = self.connection
        old = earlier.session
        if self._connected is None or not self._connected.is_set() or old.state in (State.OPEN, State.EXITED):
            raise LocalProtocolError("reopen() is for a session whose CLI ended unexpectedly")
        config_dir = None if old.launched is None else old.launched.plan.config_dir
        if old.state is not State.DIED:
            raise ConnectionClosedError(CLOSED)
        if self._transport is not None or config_dir is None or not self._options.persist_session:
            raise LocalProtocolError("a session that is not on this machine's disk cannot be reopened")
        if old.workers.is_called_from_one:
            raise LocalProtocolError("reopen() waits for the handlers and listeners of the session: call it elsewhere")
        with self._starting():
            try:
                now = earlier.shutdown.hand_over(old.options_in_effect(self._options))
                options = await earlier.resumption.prepare_next(now, config_dir)
                await earlier.shutdown.close()
                await earlier.shutdown.released.wait()
                if self._is_closed:
                    raise ConnectionClosedError(CLOSED)
                options = earlier.resumption.leave_withdrawn(options)
                connection = self._make_connection(options, earlier=earlier)
                self._connection = connection
                if self._current is not None:
                    self._current.connection = connection
                with running_client(self):
                    await self._connect(options, old)
                reports, old.late_reports[:] = old.late_reports[:], []
                for hand_over in reports:
                    hand_over()
                self._warns = self.is_open
            except BaseException:
                self.abort()
                earlier.shutdown.clean_up()
                raise

    async def close(self, *, tasks: TasksAtClose = "stop") -> None:
        """Close the session and wait until its process has exited. Idempotent; takes at most `Timeouts.close`.

        Args:
            tasks: What to do with running background tasks. `stop` stops them. `wait` waits for them, up to
                `Timeouts.close`. `leave` returns immediately and lets them finish while the event loop runs: hooks,
                permissions and tools still answer, listeners are still called, and tasks can still be awaited.

        Cancelling stops the waiting, not the closing. Open runs end with `ConnectionClosedError`. Called in a handler,
        listener or tool of the session, it returns once closing has begun, because closing waits for them.

        Raises:
            OptionsError: `tasks` has another value.
        """
        if tasks not in ("stop", "wait", "leave"):
            raise OptionsError(f"must be 'stop', 'wait' or 'leave', not {tasks!r}", option="tasks")
        was_closed, self._warns, self._is_closed = self._is_closed, False, True
        self.connection.handlers.close_inbox()
        from_within = current() is self
        await self.connection.shutdown.close(tasks=tasks, wait=not from_within, client=self)
        if self._start is not None and self._connected is not None and not from_within:
            self._start.cancel()
            await self._connected.wait()
        if not was_closed:
            self.connection.resumption.warn_forgotten()

    async def wait_closed(self) -> None:
        """Wait until the client is closed and its process has ended. Returns at once if it was never connected.

        A CLI that ended by itself can be reopened, so that is not the end.
        """
        while True:
            if self._connected is not None:
                await self._connected.wait()  # a start, or a reopening
            connection = self.connection
            await connection.shutdown.wait_closed()
            if self._connected is None or (self._connected.is_set() and self.connection is connection):
                return

    async def sync_store(self) -> None:
        """Wait until the `session_store` has what the CLI has written so far, or has refused it.

        A transcript that the store refuses is sent again later; see `on_store_error`. Does nothing without a store.
        """
        store_sync = self.session.store_sync
        if store_sync is not None:
            await store_sync.mirror.sync()

    def abort(self) -> None:
        """Kill the session without waiting. May be called from any thread.

        Child agents are cancelled. To wait for the end, `await close()`.
        """
        self._warns, self._is_closed = False, True
        if self._connection is not None:
            self._connection.handlers.close_inbox()
            self._connection.shutdown.abort()
            self._connection.resumption.warn_forgotten()

    def kill(self) -> None:
        """Kill the CLI at once, as if it had crashed, so that it writes nothing more about open calls.

        Then await `close()`, which also ends the processes that it started. Another process may resume the session, and
        the turn with `resume_interrupted_turn`. Does nothing if the CLI does not run. A CLI on another machine is ended
        as by `abort`.
        """
        launched = self.session.launched
        if launched is None or launched.is_forked or launched.transport.exit_code is not None:
            return
        if launched.transport.pid is None:
            self.abort()
        else:
            kill_program(launched.transport.pid)

    def __del__(self) -> None:
        if self._warns and (launched := self.session.launched) is not None and not launched.is_forked:
            what = repr(launched.transport)
            self._warns = False
            self.connection.shutdown.abort("its client was dropped without being closed, and the session ended with it")
            warnings.warn(
                f"unclosed Client over {what}: use `async with Client(...)`, or `await client.close()`",
                ResourceWarning,
                stacklevel=2,  # the line that dropped it
                source=self,
            )

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Prompting ---------------------------------------------------------------------------------------------------

    def query(
        self, prompt: Prompt, *, until: Until = "result", timeout: float | None = None, uuid: str | None = None
    ) -> Run[Output]:
        """Send a prompt and return its run: iterate it for messages, await it for the `RunResult`.

        The prompt is sent whether or not the run is awaited, but closing the client cuts the run off. Several runs may
        be open: the CLI works on one turn at a time and queues other prompts or folds them into the turn. Each run
        receives its own messages.

        Args:
            prompt: Text, a list of content blocks, a `UserMessage`, or an async iterable of these.
            until: With `result` the run ends with its own result; with `idle`, once no background task is running and
                the follow-up turns of finished tasks are over.
            timeout: Seconds for the whole run; None means `Timeouts.run`. On expiry the run is interrupted and raises
                `RunTimeoutError`.
            uuid: The uuid of the prompt, for one that is not an iterable. The CLI answers a uuid once in a session.

        Raises:
            OptionsError: The prompt is empty or has the wrong type, or the uuid is not one.
            ConnectionClosedError: The client is not connected.
            CLIExitError: The CLI has ended.
        """
        _connection.check_run_arguments(until, timeout)
        state = _connection.RunState(self._options.limits.mailbox_bytes, until, timeout)
        run = _connection.Run(self, state)  # loaded before the prompt is sent
        prepared = _connection.prepare_prompt(prompt, verbatim=self._options.verbatim_prompts, uuid=uuid)
        self.connection.runs.start(state, prepared)
        return run

    @property
    def resumed_run(self) -> Run[Output] | None:
        """The run of the interrupted turn of the session's last process, if the CLI resumed it.

        Known once the client is connected with `resume_interrupted_turn`. None if there was no such turn, and after
        `reopen` if the turn belongs to a run of this client, which then continues. Its result names the original prompt
        and covers only this process.
        """
        run = self.connection.resumption.run
        return None if run is None else _connection.Run(self, run)

    async def spawn(
        self,
        agent: Spawnable,
        prompt: str,
        *,
        title: str | None = None,
        parent: Task | str | None = None,
        author: str | None = None,
        artifacts: Sequence[str] = (),
        priority: str | int = "normal",
    ) -> Task:
        """Start a child agent, which has its own CLI process, and return its task.

        Args:
            agent: A `ChildAgent`.
            prompt: The instructions for the agent.
            title: The task's description; None uses the first line of the prompt.
            parent: The task that the child belongs to, or its id. None means, in a tool, the subagent that called the
                tool, and otherwise the main agent.
            author: The name of the agent or person that starts it, for events and records. None means the agent of
                `parent`, or the main agent.
            artifacts: Files or links that the agent needs; they are added to the prompt.
            priority: `low`, `normal`, `high` or an integer: which waiting child starts first. Added to the prompt
                unless it is `normal`.

        Raises:
            OptionsError: The prompt or the title is blank, a limit for child agents is reached, `priority` is another
                word, or `agent` or `artifacts` has the wrong type.
            TaskNotFoundError: `parent` is not a task of this client.
            ConnectionClosedError: The client is not open.
        """
        if not hasattr(agent, "spawn"):
            raise OptionsError(f"must be a ChildAgent, not {type(agent).__name__}", option="agent")
        return await agent.spawn(
            self, prompt, title=title, parent=parent, author=author, artifacts=artifacts, priority=priority
        )

    def messages(self) -> AsyncIterator[SessionMessage]:
        """Iterate over every message of the session from now on, including all runs and injected turns.

        The first iterator also yields up to `Limits.unclaimed_messages` earlier messages that belonged to no run, such
        as notifications of tasks of an earlier process. Any number of iterators may be open.

        The iterator ends when the client is closed or the CLI exits after `request_exit`. Cancelling loses no message.

        Raises:
            ConnectionClosedError: The client is not connected, or (while iterating) the session broke.
            CLIExitError: While iterating, after the last message: the CLI exited unexpectedly.
            LocalProtocolError: While iterating: another coroutine is using the same iterator.
        """
        return _connection.SessionMessages(self, self.session)

    @overload
    def events(self, *, facts: Literal[False] = False) -> AsyncIterator[SessionEvent]: ...
    @overload
    def events(self, *, facts: Literal[True]) -> AsyncIterator[SessionEvent | Fact]: ...
    def events(self, *, facts: bool = False) -> AsyncIterator[Any]:
        """Iterate over everything that happens in the session from now on, in order, for a user interface for example.

        Yields every message, as `messages()` does; every `TaskEvent`, after the message that caused it; and
        `InteractionOpened` and `InteractionSettled` for the inbox (the option `interactions`). Any number of iterators
        may be open. Messages that a slow reader has not taken go to a temporary file. Events stay in memory; when more
        than 10 000 items are waiting, `TaskProgressed` events are dropped.

        With `facts` it also yields the facts of the session's journal, each after the message that it is from, and at
        first those that started what is open. They stay in memory like events.

        It ends, cancels and raises as `messages()` does, after the final events: tasks that failed with the session
        and questions that will not be answered. After `close(tasks="leave")` it continues until the tasks are over.
        """
        stream = _connection.SessionMessages(self, self.session, events=True)
        if facts:
            _connection.put_facts(self.session, stream.mailbox)
        return stream

    def journal(self, *, after: int | None = None, retain: int | None = None) -> FactStream:
        """Iterate over the facts of the session from now on, after those that started what is open now.

        Facts that a slow reader has not taken stay in memory, so close the stream to stop early. It ends with the
        session. May be called before `connect`, to miss nothing.

        Args:
            after: Begin with the retained facts after the one with this number instead, without a gap.
            retain: How many of the latest facts the session keeps from now on, for `after`, also while nobody reads
                them and after its end; 0 keeps none. By default nothing changes; initially, none are kept.

        Raises:
            OptionsError: The facts after this number are not retained.
        """
        return _connection.FactStream(self.session, after=after, retain=retain)

    # Inspection -----------------------------------------------------------------------------------------------------

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: object) -> JSONObject:
        """Send any control request and return the payload of its reply (`{}` if the CLI sends none).

        Args:
            subtype: The subtype of the request, for example `get_settings`.
            timeout: Seconds; None means `Timeouts.control`.
            fields: The fields of the request, by their wire names.

        Raises:
            ControlRejectedError: The CLI answered with an error.
            ControlTimeoutError: The CLI did not answer in time.
            ConnectionClosedError: The client is not open, or was closed before the reply.
            OptionsError: The timeout is invalid, or the fields are not JSON or contain another subtype.
        """
        return await self.session.control(subtype, timeout=timeout, **fields)

    @property
    def options(self) -> ClientOptions[Output]:
        """The options of the client."""
        return self._options

    def use_options(self, options: ClientOptions[Output]) -> None:
        """Set the client's options after its session was changed to match them. Internal to this package."""
        self._options = options
        self.session.use_options(options)

    @property
    def tasks(self) -> TaskManager:
        """The background tasks of the session."""
        return self.session.tasks

    @property
    def agents(self) -> Sequence[Subagent]:
        """The subagents and child agents of the session so far, each with its definition and its task."""
        return _connection.find_subagents(self.tasks, self.session.agents)

    @property
    def task_list(self) -> TaskList:
        """The CLI's to-do list, which is unrelated to `tasks`. Enabled by the option `task_list_tools`."""
        return self.session.reported.task_list

    @property
    def session_id(self) -> str | None:
        """The id of the conversation, for `resume`. `/clear` changes it.

        None before the first turn, unless `session_id` or `resume` gives the id, or the client is that of a pool.
        """
        return self.session.reported.session_id

    @property
    def interactions(self) -> permissions.Inbox:
        """The inbox of questions for a person: permission prompts, questions, plans, elicitations.

        Raises:
            OptionsError: The option `interactions` is not set.
        """
        inbox = self.connection.handlers.permissions.interactions
        if inbox is None:
            raise OptionsError("set ClientOptions(interactions=True), or an inbox", option="interactions")
        return inbox

    @property
    def info(self) -> InitializeReply:
        """The CLI's reply to `initialize`: models, agents, commands, account, version. `commands` is kept up to date.

        Raises:
            ConnectionClosedError: The client has not been connected.
        """
        info = self.session.reported.info
        if info is None:
            raise ConnectionClosedError(NOT_CONNECTED)
        return info

    @property
    def is_open(self) -> bool:
        """Whether prompts and control requests can be sent."""
        return self._connection is not None and self._connection.session.is_open

    @property
    def is_closed(self) -> bool:
        """Whether `close` or `abort` was called."""
        return self._is_closed

    @property
    def handler_errors(self) -> Sequence[HandlerError]:
        """The last 1000 errors of handlers and listeners, oldest first."""
        return list(self.session.errors)

    @property
    def stderr_tail(self) -> str:
        """The end of the CLI's stderr; empty before connect."""
        launched = self.session.launched
        return "" if launched is None else launched.transport.stderr_tail

    @property
    def stderr_lines_dropped(self) -> int:
        """The number of stderr lines that were dropped before `on_stderr` was called with them.

        Lines are dropped when more than 64 MiB of them are waiting, or when the session ends first. A warning is
        logged when `on_stderr` has caught up or the session has ended.
        """
        stderr = self.session.stderr
        return 0 if stderr is None else stderr.dropped

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None before connect, or if the transport has no process."""
        launched = self.session.launched
        return None if launched is None else launched.transport.pid

    @property
    def exit_code(self) -> int | None:
        """The exit status of the CLI (negative: a signal's number); None while it runs, or if it is unknown."""
        launched = self.session.launched
        return None if launched is None else launched.transport.exit_code

    @property
    def config_dir(self) -> Path | None:
        """The configuration folder of the CLI, which has its transcripts. Before connect, the folder of the options.

        None if it is in another place (`spawn`, a transport) or not made yet (a private `home`).
        """
        launched = self.session.launched
        options = self._options
        if self._transport is not None or options.spawn is not None:
            return None
        if launched is not None:
            return launched.plan.config_dir
        return None if options.home is True else find_config_dir(options)

    @property
    def mcp(self) -> MCPControls:
        """The MCP servers of the session."""
        return _connection.MCPControls(self._port)

    @property
    def usage(self) -> UsageControls:
        """The context window and the cost of the session."""
        return _connection.UsageControls(self._port)

    @property
    def hooks(self) -> LiveHooks:
        """The hooks of the session. Change them with `await client.hooks.add(event, handler)` and `remove`."""
        if self._hooks is None:
            self._hooks = _connection.LiveHooks(self._port)
        return self._hooks

    @property
    def _port(self) -> CurrentConnection:
        if self._current is None:
            self._current = _connection.CurrentConnection(self.connection)
        return self._current
