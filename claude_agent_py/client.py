"""`Client`: a session with the CLI that lives on, and may be used from any worker.

Owns what a user does with a session: open it, prompt it, listen to it, close it. The control requests are in
`runtime/controls.py`, the tasks in `tasks/`. Twin: `runs.py`, for a single prompt with a process of its own.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self

import anyio

from claude_agent_py.errors import ConnectionClosedError, HandlerError, LocalProtocolError, OptionsError
from claude_agent_py.options.client_options import ClientOptions, options_or_defaults
from claude_agent_py.options.output_shape import Output
from claude_agent_py.protocol.state import State
from claude_agent_py.runtime.controls import SessionControls
from claude_agent_py.runtime.current import current, running_client
from claude_agent_py.runtime.launching import launch

if TYPE_CHECKING:
    from claude_agent_py.hooks.live import LiveHooks
    from claude_agent_py.permissions.interactions import Inbox
    from claude_agent_py.protocol.turns import Until
    from claude_agent_py.runtime.above import Above
    from claude_agent_py.runtime.message_types import SessionEvent, SessionMessage
    from claude_agent_py.runtime.prompts import Prompt
    from claude_agent_py.runtime.run import Run
    from claude_agent_py.runtime.session import Session, TasksAtClose
    from claude_agent_py.runtime.subagents import Subagent
    from claude_agent_py.tasks.manager import TaskManager
    from claude_agent_py.tasks.task import Task
    from claude_agent_py.todo import TaskList
    from claude_agent_py.tools.host import MCPHost
    from claude_agent_py.transport import Transport
    from claude_agent_py.wire.initialize import InitializeReply


NOT_CONNECTED: Final = "the client is not connected; use `async with`, or call connect() first"
ADVICE: Final = 'await them before (client.tasks.wait_all()), or close(tasks="wait")'
"""How background tasks that a close ends could have been waited for."""


class Spawnable(Protocol):
    """What `Client.spawn` takes: a `ChildAgent`."""

    async def spawn(self, client: Client, prompt: str) -> Task:
        """Start it under a client and give its task."""
        ...


def current_client() -> Client | None:
    """Give the client whose handler, listener or tool is running; None outside of these."""
    client: Client | None = current()
    return client


class Client(SessionControls, Generic[Output]):
    """A session with the Claude Code CLI.

    Use it as `async with Client(options) as client`, or call `connect()` and `close()` yourself, each from any worker.
    All methods may be called from any number of workers at once, on asyncio and trio.

    Who drops a client without closing it gets a `ResourceWarning`, and the session ends at once, by force. Its runs and
    its `messages()` keep a client alive; its tasks do not.

    Args:
        options: Everything that can be set; `ClientOptions()` where None.
        transport: Stands in for the real program, for tests and remote processes.

    Raises:
        OptionsError: `options` or `transport` is something else.
    """

    _warns = False
    """Whether there is a session that nobody has closed. An attribute of the class, because `__init__` may fail."""

    def __init__(self, options: ClientOptions[Output] | None = None, *, transport: Transport | None = None) -> None:
        self._options: ClientOptions[Output] = options_or_defaults(options)
        if transport is not None and not hasattr(transport, "receive"):
            raise OptionsError(f"a Transport is expected, not {transport!r}", option="transport")
        self._transport = transport
        self._above: Above | None = None
        self._connected: anyio.Event | None = None
        """Set once `connect` is over, well or not."""
        self._advice = ADVICE

    @cached_property
    def session(self) -> Session:
        """What is below: for this package alone, and not bound by semantic versioning.

        Loaded when it is first needed and not with this module, whose import is to be quick.
        """
        from claude_agent_py.runtime.session import Session

        return Session(self._options, above=self._above)

    def __repr__(self) -> str:
        session: Session | None = vars(self).get("session")
        if session is None or session.state is State.NEW:
            return "<Client not connected>"
        return f"<Client {session.state.value}, {len(session.tasks)} tasks>"

    # Life --------------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Start the CLI and initialize the session. After an error or a cancellation nothing is left behind.

        Raises:
            OptionsError: An option cannot be put into effect.
            CLINotFoundError: There is no `claude` program.
            SessionNotFoundError: There is no session to `resume`.
            SessionInUseError: There is a session with this `session_id` already.
            CLIStartError: It cannot be started, ended, or did not answer within `Timeouts.connect`.
            CLIVersionError: It is too old.
            ConnectionClosedError: The client was closed, before or meanwhile.
            LocalProtocolError: `connect` was called before; a client is used once.
        """
        if self._connected is not None:
            raise LocalProtocolError("connect() was called already; a client is used once, make a new one")
        self._check_not_closed()
        self._connected = anyio.Event()
        try:
            with running_client(self):
                await self._connect()
            self._warns = self.is_open
        finally:
            self._connected.set()

    async def _connect(self) -> None:
        launched = await launch(self._options, self._transport, on_stderr=self._on_stderr_line)
        try:
            from claude_agent_py.runtime.startup import open_session  # loaded while the CLI starts

            session = self.session
            self._check_not_closed()
        except BaseException:
            await launched.discard()
            raise
        await open_session(session, launched)

    def _check_not_closed(self) -> None:
        session: Session | None = vars(self).get("session")
        if session is not None and session.state is not State.NEW:
            raise ConnectionClosedError("the client is closed; open a new one")

    @property
    def _on_stderr_line(self) -> Callable[[str], None]:
        """What takes a line of stderr; it does not keep the client alive."""
        reference = weakref.ref(self)

        def take(line: str) -> None:
            client = reference()
            if client is not None:
                client.session.answers.on_stderr_line(line)

        return take

    async def close(self, *, tasks: TasksAtClose = "stop") -> None:
        """End the session; no process and no worker is left. Idempotent, and bounded by `Timeouts.close`.

        Args:
            tasks: What becomes of background tasks that still run: `stop` ends them; `wait` waits for them, at most as
                long as the bound; `leave` returns at once and lets them finish, for as long as the event loop runs:
                hooks, permissions and tools still answer, listeners are still told, tasks can still be awaited.

        Cancelling stops the waiting; the session ends all the same. Open runs end with `ConnectionClosedError`. In a
        handler, listener or tool of the session this returns when the end has begun: the end waits for them.

        Raises:
            OptionsError: `tasks` is something else.
        """
        if tasks not in ("stop", "wait", "leave"):
            raise OptionsError(f"must be 'stop', 'wait' or 'leave', not {tasks!r}", option="tasks")
        self._warns = False
        from_within = current() is self
        await self.session.close(tasks=tasks, wait=not from_within, advice=self._advice, client=self)
        if self._connected is not None and not from_within:
            await self._connected.wait()  # it gives up when it sees that the client is closed

    def abort(self) -> None:
        """End the session soon, by force; returns at once. May be called from any thread.

        Its child agents are cancelled. To wait for the end, `await close()`.
        """
        self._warns = False
        session: Session | None = vars(self).get("session")
        if session is not None:
            session.cancel_children()
            session.abort()

    def __del__(self) -> None:
        if self._warns and not self.session.is_forked:
            what = repr(self.session.transport)
            self._warns = False
            self.session.abort("its client was dropped without being closed, and the session ended with it")
            warnings.warn(
                f"unclosed Client over {what}: use `async with Client(...)`, or `await client.close()`",
                ResourceWarning,
                stacklevel=2,  # where it was dropped
                source=self,
            )

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # Prompting ---------------------------------------------------------------------------------------------------

    def query(self, prompt: Prompt, *, until: Until = "result", timeout: float | None = None) -> Run[Output]:
        """Send a prompt and give its run: iterate it for messages, await it for the `RunResult`.

        The prompt is on its way when this returns, whether or not the run is awaited. Several runs may be open: the
        CLI works on one turn at a time, queues the others or folds them into the turn, and each run receives the
        messages of its own.

        Args:
            prompt: Text, a list of content blocks, a whole `UserMessage`, or an async iterable of these, which a worker
                of the session iterates.
            until: `result`: the run is over with its own result. `idle`: it goes on until no background task is live
                and the turns that finished tasks cause are over.
            timeout: Seconds for the whole run; None means `Timeouts.run`. On expiry the run is interrupted and raises
                `RunTimeoutError`.

        Raises:
            OptionsError: The prompt is empty or of a wrong type.
            ConnectionClosedError: The client is not connected.
            CLIExitError: The CLI has ended.
        """
        from claude_agent_py.runtime.prompts import check_run_arguments, prompt_message, send_each
        from claude_agent_py.runtime.run import Run

        check_run_arguments(until, timeout)
        session = self.session
        if isinstance(prompt, AsyncIterable):
            mailbox = session.open_run(until, timeout)
            session.start_soon(send_each, session, mailbox, prompt)
        else:
            message = session.check_prompt(prompt_message(prompt, verbatim=self._options.verbatim_prompts))
            mailbox = session.open_run(until, timeout)
            session.send_prompt(mailbox, message)
            session.seal_run(mailbox)
        return Run(self, session, mailbox)

    async def spawn(self, agent: Spawnable, prompt: str) -> Task:
        """Start a child agent, a CLI process of its own, and give its task. Returns once the task is there.

        Args:
            agent: A `ChildAgent`.
            prompt: What it is to do.

        Raises:
            OptionsError: The prompt is empty, a limit for child agents is reached, or `agent` is something else.
            ConnectionClosedError: The client is not open.
        """
        if not hasattr(agent, "spawn"):
            raise OptionsError(f"must be a ChildAgent, not {type(agent).__name__}", option="agent")
        return await agent.spawn(self, prompt)

    def messages(self) -> AsyncIterator[SessionMessage]:
        """Iterate every message of the session from now on, those of injected turns and of all runs included.

        The first call also gives what came before it and belonged to no run (notifications of tasks of an earlier
        process, say), as far as `Limits.unclaimed_messages` kept it. Any number of iterators may be open.

        It ends when the client is closed, or the CLI has ended because it was asked to (`request_exit`). Cancelling
        loses no message.

        Raises:
            ConnectionClosedError: The client is not connected, or (while iterating) the session broke.
            CLIExitError: While iterating, after all that came: the CLI ended, and nobody had asked for it.
            LocalProtocolError: While iterating: another worker is at it; give each an iterator of its own.
        """
        from claude_agent_py.runtime.readers import SessionMessages

        return SessionMessages(self, self.session)

    def events(self) -> AsyncIterator[SessionEvent]:
        """Iterate all that happens in the session from now on, in order: what an interface has to show.

        That is every message, as `messages()` gives them; every `TaskEvent`, after the message that caused it; and for
        what waits in the inbox for a person (the option `interactions`) `InteractionOpened` and `InteractionSettled`.
        Any number of iterators may be open. What waits for a reader who is slow goes to a temporary file as with
        `messages()`; events stay in memory, and where more than 10 000 things wait, `TaskProgressed` is left out.

        It ends, cancels and raises as `messages()` does, but after the events of the end: the tasks that failed with
        it, the questions that nobody will answer. After `close(tasks="leave")` it goes on until the tasks are over.
        """
        from claude_agent_py.runtime.readers import SessionMessages

        return SessionMessages(self, self.session, events=True)

    # Looking -----------------------------------------------------------------------------------------------------

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
        """Send any control request and give the payload of its reply (`{}` where the CLI sends none).

        Args:
            subtype: The request, for example `get_settings`.
            timeout: Seconds; None means `Timeouts.control`.
            fields: The request's fields, by their wire names.

        Raises:
            ControlRejectedError: The CLI answered with an error.
            ControlTimeoutError: It did not answer in time.
            ConnectionClosedError: The client is not open, or closed before the reply.
        """
        return await self.session.control(subtype, timeout=timeout, **fields)

    @property
    def options(self) -> ClientOptions[Output]:
        """The options that the client was made with."""
        return self._options

    @property
    def tasks(self) -> TaskManager:
        """The background tasks of the session."""
        return self.session.tasks

    @property
    def agents(self) -> Sequence[Subagent]:
        """The subagents of the session so far, child agents included, each with its definition and its task."""
        from claude_agent_py.runtime.subagents import subagents_of

        return subagents_of(self.tasks, self.session.agents)

    @property
    def task_list(self) -> TaskList:
        """The CLI's to-do list, which is another thing than `tasks`. The option `task_list_tools` switches it on."""
        return self.session.task_list

    @property
    def session_id(self) -> str | None:
        """The id of the conversation, to `resume` it later. `/clear` changes it.

        Known from the start where `session_id` or `resume` names it, else None before the first turn.
        """
        return self.session.answers.session_id

    @property
    def interactions(self) -> Inbox:
        """What waits for a person: permission prompts, questions, plans, elicitations.

        Raises:
            OptionsError: The option `interactions` was not given, so nothing ever waits.
        """
        inbox = self.session.answers.permissions.interactions
        if inbox is None:
            raise OptionsError("give ClientOptions(interactions=True), or an inbox", option="interactions")
        return inbox

    @property
    def info(self) -> InitializeReply:
        """What the CLI said of itself at connect: models, agents, commands, account, version.

        Raises:
            ConnectionClosedError: The client was not connected.
        """
        info = self.session.info
        if info is None:
            raise ConnectionClosedError(NOT_CONNECTED)
        return info

    @property
    def is_open(self) -> bool:
        """Whether prompts and control requests can be sent."""
        session: Session | None = vars(self).get("session")
        return session is not None and session.is_open

    @property
    def handler_errors(self) -> Sequence[HandlerError]:
        """What went wrong in handlers and listeners so far, oldest first (the last 1000)."""
        return list(self.session.failures.errors)

    @property
    def stderr_tail(self) -> str:
        """The last that the CLI wrote to stderr; empty before connect."""
        transport = self.session.transport
        return "" if transport is None else transport.stderr_tail

    @property
    def stderr_lines_dropped(self) -> int:
        """How many lines of stderr `on_stderr` was not told so far.

        More than 64 MiB of them waited, or the session ended before it got through them. One warning says so when it
        has caught up, or the session has ended.
        """
        return self.session.answers.stderr_lines_dropped

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None before connect, and where there is no process."""
        transport = self.session.transport
        return None if transport is None else transport.pid

    @cached_property
    def hooks(self) -> LiveHooks:
        """The hooks of the session: `await client.hooks.add(event, handler)` and `remove` while it runs."""
        from claude_agent_py.hooks.live import LiveHooks

        return LiveHooks(self.session.answers.hooks, self.session)

    @property
    def _port(self) -> Session:
        return self.session

    @property
    def _mcp_host(self) -> MCPHost:
        return self.session.answers.mcp
