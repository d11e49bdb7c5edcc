"""`Client`: a session with the CLI that lives on, and may be used from any worker.

Owns what a user does with a session: open it, prompt it, listen to it, close it. The control requests are in
`runtime/controls.py`, the tasks in `tasks/`. Twin: `runs.py`, for a single prompt with a process of its own.
"""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter

from claude_agent_py.errors import (
    ClaudeAgentError,
    ConnectionClosedError,
    ControlError,
    HandlerError,
    LocalProtocolError,
    StructuredOutputError,
    TaskError,
)
from claude_agent_py.options import ClientOptions
from claude_agent_py.protocol.turns import RunLimits, Until
from claude_agent_py.runtime.controls import SessionControls
from claude_agent_py.runtime.feed import RunFeed
from claude_agent_py.runtime.mailbox import Mailbox
from claude_agent_py.runtime.prompts import Prompt, is_stream, prompt_message
from claude_agent_py.runtime.result import RunResult, structured_output
from claude_agent_py.runtime.run import InterruptReceipt, Run
from claude_agent_py.runtime.session import Session, TasksAtClose
from claude_agent_py.tasks import TaskManager
from claude_agent_py.transport import Transport
from claude_agent_py.wire.replies import InitializeReply


class Client(SessionControls):
    """A session with the Claude Code CLI.

    Use it as `async with Client(options) as client`, or call `connect()` and `close()` yourself, each from any worker.
    All methods may be called from any number of workers at once, on asyncio and trio.

    Args:
        options: Everything that can be set; `ClientOptions()` where None.
        transport: Stands in for the real program, for tests and remote processes.
    """

    def __init__(self, options: ClientOptions | None = None, *, transport: Transport | None = None) -> None:
        self._session = Session(options or ClientOptions(), transport=transport)
        self._is_connecting = False

    def __repr__(self) -> str:
        connection = self._session._connection
        state = "not connected" if connection is None else "open" if connection.is_open else "closed"
        return f"<Client {state}, {len(self.tasks)} tasks>"

    # Life --------------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Start the CLI and initialize the session. After an error or a cancellation nothing is left behind.

        Raises:
            OptionsError: An option cannot be put into effect.
            CLINotFoundError: There is no `claude` program.
            CLIStartError: It cannot be started, ended, or did not answer within `Timeouts.connect`.
            CLIVersionError: It is too old.
            LocalProtocolError: `connect` was called before; a client is used once.
        """
        if self._is_connecting:
            raise LocalProtocolError("connect() was called already; a client is used once, make a new one")
        self._is_connecting = True
        await self._session.open()

    async def close(self, *, tasks: TasksAtClose = "stop") -> None:
        """End the session; no process and no worker is left. Idempotent, and bounded by `Timeouts.close`.

        Args:
            tasks: What becomes of background tasks that still run: `stop` ends them; `wait` waits for them, at most as
                long as the bound; `leave` lets the CLI finish them by itself, for as long as the event loop runs, and
                returns at once.

        Cancelling stops the waiting; the session ends all the same. Runs that are open end with `ConnectionClosedError`.
        """
        await self._session.close(tasks=tasks)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # Prompting ---------------------------------------------------------------------------------------------------

    def query(self, prompt: Prompt, *, until: Until = "result", timeout: float | None = None) -> Run:
        """Send a prompt and give its run: iterate it for messages, await it for the `RunResult`.

        The prompt is on its way when this returns, whether or not the run is awaited. Several runs may be open: the
        CLI works on one turn at a time, queues the others or folds them into the turn, and each run receives the
        messages of its own.

        Args:
            prompt: Text, a list of content blocks, or an async iterable of either (iterated in a worker of the session).
            until: `result`: the run is over with its own result. `idle`: it goes on until no background task is live
                and the turns that finished tasks cause are over.
            timeout: Seconds for the whole run; None means `Timeouts.run`. On expiry the run is interrupted and raises
                `RunTimeoutError`.

        Raises:
            OptionsError: The prompt is empty or of a wrong type.
            ConnectionClosedError: The client is not connected.
            CLIExitError: The CLI has ended.
        """
        messages = [] if is_stream(prompt) else [prompt_message(prompt, verbatim=self.options.verbatim_prompts)]
        timeouts = self.options.timeouts
        limits = RunLimits(
            run=timeouts.run if timeout is None else timeout,
            first_message=timeouts.first_message,
            silence=timeouts.silence,
        )
        connection = self._session.connection
        feed = connection.open_run(until, limits)
        if isinstance(prompt, AsyncIterable):
            connection.start_soon(self._send_prompts, feed, prompt)
        else:
            for message in messages:
                connection.send_prompt(feed, message)
            connection.seal_run(feed)
        return Run(_OpenRun(self, feed))

    async def _send_prompts(self, feed: RunFeed, prompts: AsyncIterable[Any]) -> None:
        """Send what an async iterable gives, as it gives it; its failure is the run's."""
        connection = self._session.connection
        try:
            async for prompt in prompts:
                connection.send_prompt(feed, prompt_message(prompt, verbatim=self.options.verbatim_prompts))
        except Exception as exception:
            failure = exception
            connection.fail_run(feed, lambda: failure)
        else:
            connection.seal_run(feed)

    def messages(self) -> AsyncIterator[Any]:
        """Iterate every message of the session from now on, those of injected turns and of all runs included.

        The first call also gives what came before it and belonged to no run (notifications of tasks of an earlier
        process, say), as far as `Limits.unclaimed_messages` kept it. Any number of iterators may be open.
        """
        return _SessionMessages(self._session)

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
        return await self._session.control(subtype, timeout=timeout, **fields)

    @property
    def options(self) -> ClientOptions:
        """The options that the client was made with."""
        return self._session.options

    @property
    def tasks(self) -> TaskManager:
        """The background tasks of the session."""
        return self._session.tasks

    @property
    def info(self) -> InitializeReply | None:
        """What the CLI said of itself at connect: models, agents, commands, account, version."""
        return self._session.info

    @property
    def is_open(self) -> bool:
        """Whether prompts and control requests can be sent."""
        connection = self._session._connection
        return connection is not None and connection.is_open

    @property
    def handler_errors(self) -> Sequence[HandlerError]:
        """What went wrong in handlers and listeners so far, oldest first (the last 1000)."""
        return list(self._session.failures.errors)

    @property
    def stderr_tail(self) -> str:
        """The last that the CLI wrote to stderr."""
        return self._session.connection.transport.stderr_tail

    @property
    def pid(self) -> int | None:
        """The process id of the CLI; None before connect, and where there is no process."""
        connection = self._session._connection
        return None if connection is None else connection.transport.pid

    @cached_property
    def _output_adapter(self) -> TypeAdapter[Any] | None:
        return None if self.options.output_type is None else TypeAdapter(self.options.output_type)

    # For runs ----------------------------------------------------------------------------------------------------

    def _result_of(self, feed: RunFeed) -> RunResult:
        tasks = tuple(task for task_id in sorted(feed.tasks) if (task := self.tasks.get(task_id)) is not None)
        result = RunResult(result=feed.own_result, results=feed.results, messages=feed.messages, tasks=tasks)
        if result.is_error:
            return result
        try:
            output = structured_output(feed.results, self._output_adapter)
        except StructuredOutputError as error:
            error.result = result
            raise
        return RunResult(result=result.result, results=feed.results, messages=feed.messages, tasks=tasks, output=output)

    async def _interrupt_run(self, feed: RunFeed, *, cancel_queued: bool, stop_tasks: bool) -> InterruptReceipt:
        queued = self._session.connection.queued_prompts(feed)
        dequeued = [p for p in queued if (await self.cancel_async_message(p)).cancelled]
        if queued and len(dequeued) == len(feed.prompts):
            return InterruptReceipt(outcome="dequeued", cancelled=tuple(dequeued))
        reply = await self.interrupt(cancel_queued=cancel_queued)
        if stop_tasks:
            await self._stop_tasks_of(feed)
        return InterruptReceipt(
            outcome="interrupted",
            still_queued=tuple(reply.still_queued or ()),
            cancelled=(*dequeued, *(reply.cancelled or ())),
        )

    async def _stop_tasks_of(self, feed: RunFeed) -> None:
        for task_id in self._session.connection.tasks_of(feed) & self.tasks.live_ids():
            try:
                await self.tasks.stop(task_id)
            except (TaskError, ControlError):
                continue  # it ended by itself meanwhile


class _OpenRun:
    """A run of a client that lives on."""

    def __init__(self, client: Client, feed: RunFeed) -> None:
        self._client = client
        self._feed = feed

    async def feed(self) -> RunFeed:
        return self._feed

    def result(self, feed: RunFeed) -> RunResult:
        return self._client._result_of(feed)

    async def release(self) -> None:
        return None

    async def interrupt(self, feed: RunFeed, *, cancel_queued: bool, stop_tasks: bool) -> InterruptReceipt:
        return await self._client._interrupt_run(feed, cancel_queued=cancel_queued, stop_tasks=stop_tasks)


class _SessionMessages:
    """Every message of a session, through a mailbox of its own."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection
        self._mailbox: Mailbox = self._connection.subscribe()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self._mailbox.get()

    def __del__(self) -> None:
        self._connection.unsubscribe(self._mailbox)


__all__ = ["Client", "ClaudeAgentError", "ConnectionClosedError"]
