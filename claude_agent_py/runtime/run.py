"""`Run`: the user's end of a run. An object, not a generator: nothing hangs when a loop over it is left.

Iterate it for the messages, await it for the result, or both. Knows nothing of the pipe: a `RunSource` gives the feed
that the pump fills (`feed.py`) and does what needs the session. A run may be made before the parts of a session are
loaded, so this module needs none of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self

from claude_agent_py.errors import RunFailed, StructuredOutputError
from claude_agent_py.options.output_shape import Output

if TYPE_CHECKING:
    from claude_agent_py.runtime.feed import RunFeed
    from claude_agent_py.runtime.mailbox import Mailbox
    from claude_agent_py.runtime.message_types import RunMessage
    from claude_agent_py.runtime.result import RunResult
    from claude_agent_py.runtime.subagents import Subagent
    from claude_agent_py.tasks.task import Task
    from claude_agent_py.tools.traffic import ToolCallRecord


@dataclass(frozen=True, kw_only=True)
class InterruptReceipt:
    """What became of an interrupt."""

    outcome: Literal["interrupted", "dequeued", "too_late"]
    """`interrupted`: the CLI stops the turn; its result follows. `dequeued`: the prompt had not started and was taken
    out of the queue. `too_late`: nothing runs."""
    still_queued: tuple[str, ...] = ()
    """The uuids of the prompts that wait in the CLI's queue and run next."""
    cancelled: tuple[str, ...] = ()
    """The uuids of the prompts that were taken out of the queue."""


class RunSource(Protocol):
    """What a run needs of its session."""

    async def feed(self) -> RunFeed:
        """Give the feed; starts the session where it is the run's own."""
        ...

    def result(self, feed: RunFeed) -> RunResult:
        """Put the result together. Raises a `RunError` for a structured output that is missing or does not fit."""
        ...

    def tasks(self, feed: RunFeed) -> Sequence[Task]:
        """Give the tasks of the run so far."""
        ...

    def agents(self, feed: RunFeed) -> Sequence[Subagent]:
        """Give the subagents of the run so far."""
        ...

    async def release(self) -> None:
        """The run is over: end the session where it is the run's own."""
        ...

    async def interrupt(self, feed: RunFeed, *, cancel_queued: bool, stop_tasks: bool) -> InterruptReceipt:
        """Stop the work on the run."""
        ...


class Run(Generic[Output]):
    """One prompt's way through the session, and what came of it.

    * `async for message in run` gives its messages as they arrive; an error result is just the last of them.
    * `await run` waits for the end and gives the `RunResult`; an error result raises its `RunError`.
    * `async with run` interrupts it, if it is not over, when the block is left.

    Leaving a loop early loses nothing: iterate again to go on, or await. Once all messages were given, iterating again
    gives those that are kept, which are all but the deltas. Cancelling disturbs nothing. Iterate in one worker at a
    time; await in as many as you like.
    """

    def __init__(self, source: RunSource, feed: RunFeed | None = None) -> None:
        self._source = source
        self._feed = feed
        self._reads: Literal["mailbox", "record"] | None = None
        """Where iteration reads: the mailbox; or, once the run was awaited first, what the feed has recorded."""
        self._mailbox: Mailbox | None = None
        """The mailbox, while iteration reads there."""
        self._position = 0
        self._is_exhausted = False
        self._result: RunResult[Output] | None = None
        self._keeps: object = None
        """What has to live as long as the run: the client."""

    def __repr__(self) -> str:
        feed = self._feed
        if feed is None:
            return "<Run not started>"
        state = (feed.end.reason if feed.end else "failed") if feed.is_over else "running"
        return f"<Run {state}, {len(feed.messages)} messages>"

    @property
    def tasks(self) -> Sequence[Task]:
        """The background tasks that were started in the run so far: follow them, await them, stop them."""
        return [] if self._feed is None else self._source.tasks(self._feed)

    @property
    def agents(self) -> Sequence[Subagent]:
        """The subagents that were started in the run so far, those of subagents and child agents included.

        Each has its definition, its status, its usage, its messages and its task. A message leads to its subagent by
        its `agent_id`, which is the id of the task: `client.tasks.get(message.agent_id)`.
        """
        return [] if self._feed is None else self._source.agents(self._feed)

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._feed is not None and self._feed.is_over

    # Messages ----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[RunMessage]:
        self._begin_again()
        return _Messages(self)

    def _begin_again(self) -> None:
        """Once all messages were given, give again those that are kept."""
        if self._is_exhausted:
            self._reads, self._mailbox, self._position, self._is_exhausted = "record", None, 0, False

    async def _next(self) -> RunMessage:
        feed = await self._started()
        if self._reads is None:
            self._reads, self._mailbox = "mailbox", feed.mailbox
        try:
            message: RunMessage = await (self._next_recorded(feed) if self._mailbox is None else self._mailbox.get())
        except StopAsyncIteration:
            self._is_exhausted = True
            await self._source.release()
            if feed.failure is not None:
                raise self._failure(feed) from None
            raise
        return message

    async def _next_recorded(self, feed: RunFeed) -> RunMessage:
        await feed.wait()
        if self._position == len(feed.messages):
            feed.messages.check()
            raise StopAsyncIteration
        self._position += 1
        message: RunMessage = feed.messages[self._position - 1]
        return message

    def text(self) -> AsyncIterator[str]:
        """Iterate the main agent's text as it arrives, each piece once.

        With `include_partial_messages` the pieces are deltas, else whole blocks. Where the API broke off and the CLI
        started the answer again, what was given already is not repeated. Consumes the run's messages.

        It ends as `await run` does: after all text that came it raises the `RunError` of an error result. The words in
        which the CLI reports a failure of the API are in that error, not in the text.
        """
        self._begin_again()
        return _Text(self)

    def tool_calls(self) -> AsyncIterator[ToolCallRecord]:
        """Iterate the run's tool calls, each when its result is there. Consumes the run's messages."""
        self._begin_again()
        return _ToolCalls(self)

    # Result ------------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, RunResult[Output]]:
        return self._finish().__await__()

    async def result(self) -> RunResult[Output]:
        """Wait for the end and give the result, without raising for an error result.

        Raises:
            CLIError: The CLI could not be started, or ended under the run.
            ConnectionClosedError: The client was closed under the run.
            RunTimeoutError: A time limit ran out.
            StructuredOutputError: The structured output is missing or does not fit `output_type`.
        """
        feed = await self._started()
        if self._reads is None:
            self._reads = "record"
            feed.mailbox.discard()  # nobody reads along
        await feed.wait()
        await self._source.release()
        if feed.failure is not None:
            raise self._failure(feed)
        if self._result is None:
            self._result = self._source.result(feed)
        return self._result

    async def _finish(self) -> RunResult[Output]:
        result = await self.result()
        error = result.error()
        if error is not None:
            raise error
        return result

    def _failure(self, feed: RunFeed) -> BaseException:
        assert feed.failure is not None  # noqa: S101 - asked by the caller
        error = feed.failure()
        if isinstance(error, RunFailed):
            try:
                error.result = self._source.result(feed)
            except StructuredOutputError as missing:  # no wonder: the run did not come to its end
                error.result = missing.result
        return error

    async def _started(self) -> RunFeed:
        if self._feed is None:
            self._feed = await self._source.feed()
        return self._feed

    # Control -----------------------------------------------------------------------------------------------------

    async def interrupt(self, *, cancel_queued: bool = False, stop_tasks: bool = False) -> InterruptReceipt:
        """Stop the work on this run; its end follows, and an await raises `InterruptedRunError`.

        A prompt that has not started is taken out of the queue instead (`PromptCancelledError`). Background tasks go
        on, unless `stop_tasks` is true or the option `per_task_stop_affordance` was switched off. `cancel_queued`
        takes all other waiting prompts out of the queue, too.

        Raises:
            ControlError: The CLI did not take it.
        """
        feed = await self._started()
        return await self._source.interrupt(feed, cancel_queued=cancel_queued, stop_tasks=stop_tasks)

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if not self.done:
                await self.interrupt()
        finally:
            await self._source.release()


class _Messages:
    """The messages of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"<messages of {self._run!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunMessage:
        mailbox = self._run._mailbox
        message = None if mailbox is None else mailbox.ready()  # without the detours, for a reader who is behind
        return await self._run._next() if message is None else message


class _Text:
    """The text of a run."""

    def __init__(self, run: Run) -> None:
        from claude_agent_py.protocol.text import TextFold

        self._run = run
        self._fold = TextFold()
        self._ready: deque[str] = deque()

    def __repr__(self) -> str:
        return f"<text of {self._run!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._ready:
            mailbox = self._run._mailbox
            message = None if mailbox is None else mailbox.ready()
            self._ready.extend(self._fold.feed(await self._next() if message is None else message))
        return self._ready.popleft()

    async def _next(self) -> RunMessage:
        try:
            return await self._run._next()
        except StopAsyncIteration:
            await self._run  # an error result raises: the text is not the whole answer, or none at all
            raise


class _ToolCalls:
    """The tool calls of a run, each with its result."""

    def __init__(self, run: Run) -> None:
        from claude_agent_py.tools.traffic import ToolTraffic

        self._run = run
        self._traffic = ToolTraffic()
        self._ready: deque[ToolCallRecord] = deque()

    def __repr__(self) -> str:
        return f"<tool calls of {self._run!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ToolCallRecord:
        while not self._ready:
            self._ready.extend(self._traffic.fold(await self._run._next()))
        return self._ready.popleft()
