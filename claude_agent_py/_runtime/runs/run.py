"""`Run`: the user's view of a run. `run_mailbox.py` is the session's view."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from claude_agent_py._errors import RunFailed
from claude_agent_py._runtime.runs.result import InterruptedRunError, StructuredOutputError
from claude_agent_py.options.output_shape import Output

if TYPE_CHECKING:
    from claude_agent_py._runtime.runs.message_types import RunMessage
    from claude_agent_py._runtime.runs.result import RunResult
    from claude_agent_py._runtime.runs.run_mailbox import RunMailbox
    from claude_agent_py._runtime.runs.subagents import Subagent
    from claude_agent_py._runtime.session.session import Session
    from claude_agent_py.tasks.task import Task
    from claude_agent_py.tools.traffic import ToolCallRecord

logger: logging.Logger = logging.getLogger("claude_agent_py")


@dataclass(frozen=True, kw_only=True)
class InterruptReceipt:
    """The outcome of an interrupt."""

    outcome: Literal["interrupted", "dequeued", "too_late"]
    """`interrupted`: the turn is being interrupted, and its result follows. `dequeued`: the prompt had not started and
    was removed from the queue. `too_late`: nothing was running."""
    still_queued: tuple[str, ...] = ()
    """The uuids of the prompts that remain in the CLI's queue and run next."""
    cancelled: tuple[str, ...] = ()
    """The uuids of the prompts that were removed from the queue."""


class Run(Generic[Output]):
    """A prompt that was sent to a session, with its messages and its result.

    * `async for message in run` yields its messages as they arrive; an error result is just the last message.
    * `await run` waits for the end and returns the `RunResult`; an error result raises its `RunError`.
    * `async with run` interrupts the run on exit, unless it has ended.

    Leaving a loop early loses nothing: iterate again to continue, or await. After the last message, iterating again
    yields the recorded messages, which are all but the deltas. Cancelling has no effect on the run. Only one coroutine
    may iterate at a time; any number may await.
    """

    def __init__(self, client: object = None, mailbox: RunMailbox | None = None) -> None:
        self._client = client
        """Kept alive by its runs."""
        self._mailbox = mailbox
        """None before the run has started."""
        self._reads: Literal["mailbox", "record"] | None = None
        """Where iteration reads from: the mailbox, or its record if the run was awaited first."""
        self._position = 0
        self._is_exhausted = False
        self._result: RunResult[Output] | None = None

    @property
    def _session(self) -> Session | None:
        """The session that the run is in, which `reopen` replaces; None before the run has started."""
        return None if self._mailbox is None else self._mailbox.session

    def __repr__(self) -> str:
        mailbox = self._mailbox
        if mailbox is None:
            return "<Run not started>"
        state = (mailbox.reason or "failed") if mailbox.is_over else "running"
        return f"<Run {state}, {len(mailbox.messages)} messages>"

    @property
    def tasks(self) -> Sequence[Task]:
        """The background tasks started in the run so far: follow, await or stop them."""
        if self._session is None or self._mailbox is None:
            return []
        ids = self._session.get_task_ids(self._mailbox)
        return [task for task in self._session.tasks if task.id in ids]

    @property
    def agents(self) -> Sequence[Subagent]:
        """The subagents and child agents started in the run so far, nested ones included.

        Each has its definition, status, usage, messages and task. The `agent_id` of a message is the id of its
        subagent's task: `client.tasks.get(message.agent_id)`.
        """
        from claude_agent_py._runtime.runs.subagents import find_subagents

        return [] if self._session is None else find_subagents(self.tasks, self._session.agents)

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._mailbox is not None and self._mailbox.is_over

    # Messages ----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[RunMessage]:
        self._begin_again()
        return _Messages(self)

    def _begin_again(self) -> None:
        """After the last message, restart with the recorded messages, unless the run has been resumed."""
        if self._is_exhausted and self._reads == "mailbox" and not self.done:
            self._is_exhausted = False
        elif self._is_exhausted:
            self._reads, self._position, self._is_exhausted = "record", 0, False

    def _ready(self) -> RunMessage | None:
        """Return the next message if it is already there, a fast path for a reader who is behind."""
        if self._reads != "mailbox" or self._mailbox is None:
            return None
        message: RunMessage | None = self._mailbox.ready()
        return message

    async def _next(self) -> RunMessage:
        _, mailbox = await self._ensure_started()
        if self._reads is None:
            self._reads = "mailbox"
        try:
            message: RunMessage = await (mailbox.get() if self._reads == "mailbox" else self._next_recorded(mailbox))
        except StopAsyncIteration:
            self._is_exhausted = True
            await self._release()
            if mailbox.failure is not None:
                raise self._failure(mailbox) from None
            raise
        return message

    async def _next_recorded(self, mailbox: RunMailbox) -> RunMessage:
        await mailbox.wait()
        if self._position == len(mailbox.messages):
            mailbox.messages.check()
            raise StopAsyncIteration
        self._position += 1
        message: RunMessage = mailbox.messages[self._position - 1]
        return message

    def text(self) -> AsyncIterator[str]:
        """Iterate over the main agent's text as it arrives, each piece once.

        The pieces are deltas with `include_partial_messages`, otherwise whole blocks. Text that the CLI repeats after
        an API failure is not yielded again. Consumes the run's messages.

        It ends as `await run` does: after the last text it raises the `RunError` of an error result. API error messages
        of the CLI are in that error, not in the text.
        """
        self._begin_again()
        return _Text(self, _Messages(self))

    def tool_calls(self) -> AsyncIterator[ToolCallRecord]:
        """Iterate over the run's tool calls as their results arrive. Consumes the run's messages."""
        self._begin_again()
        return _ToolCalls(self, _Messages(self))

    # Result ------------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, RunResult[Output]]:
        return self._finish().__await__()

    async def result(self) -> RunResult[Output]:
        """Wait for the end and return the result, without raising for an error result.

        Raises:
            CLIError: The CLI could not be started, or exited during the run.
            ConnectionClosedError: The client was closed during the run.
            RunTimeoutError: A time limit expired.
            StructuredOutputError: The structured output is missing or does not match `output_type`.
        """
        _, mailbox = await self._ensure_started()
        if self._reads is None:
            self._reads = "record"
            mailbox.discard()  # it has no reader
        await mailbox.wait()
        await self._release()
        if mailbox.failure is not None:
            raise self._failure(mailbox)
        if self._result is None:
            self._result = self._make_result()
        return self._result

    async def _finish(self) -> RunResult[Output]:
        result = await self.result()
        error = result.error()
        if error is not None:
            raise error
        return result

    def _failure(self, mailbox: RunMailbox) -> BaseException:
        assert mailbox.failure is not None  # noqa: S101 - asked by the caller
        error = mailbox.failure()
        if isinstance(error, RunFailed):
            try:
                error.result = self._make_result()
            except StructuredOutputError as missing:  # expected: the run did not complete
                error.result = missing.result
        return error

    def _make_result(self) -> RunResult:
        from claude_agent_py._runtime.runs.result import make_result

        assert self._session is not None  # noqa: S101 - it was started
        assert self._mailbox is not None  # noqa: S101
        result = make_result(self._mailbox, self.tasks, self.agents, self._session.options)
        if result.unfinished_tasks and not self._mailbox.late_tasks:  # the session has logged late tasks
            names = ", ".join(repr(task.description) for task in result.unfinished_tasks)
            logger.info("a run ended while its background tasks are still running: %s", names)
        return result

    async def _ensure_started(self) -> tuple[Session, RunMailbox]:
        assert self._session is not None  # noqa: S101 - made with both
        assert self._mailbox is not None  # noqa: S101
        return self._session, self._mailbox

    def _continue(self, other: Run) -> None:
        """Become a view of another run."""
        self._client = other._client
        self._mailbox = other._mailbox

    async def _release(self) -> None:
        """Release the resources of the run."""

    # Control -----------------------------------------------------------------------------------------------------

    async def interrupt(self, *, cancel_queued: bool = False, stop_tasks: bool = False) -> InterruptReceipt:
        """Interrupt this run. It then ends, and awaiting it raises `InterruptedRunError`.

        A prompt that has not started is removed from the queue instead (`PromptCancelledError`). Background tasks keep
        running, unless `stop_tasks` is true or the option `per_task_stop_affordance` is False. `cancel_queued` also
        removes all other prompts from the queue.

        Raises:
            ControlError: The CLI did not accept the request.
        """
        session, mailbox = await self._ensure_started()
        if mailbox.is_over:
            if stop_tasks:
                await session.stop_tasks(mailbox.task_ids)
            return InterruptReceipt(outcome="too_late")
        queued = session.queued_prompts(mailbox)
        dequeued = tuple([prompt for prompt in queued if await _dequeue(session, prompt)])
        if queued and len(dequeued) == len(mailbox.prompts):
            return InterruptReceipt(outcome="dequeued", cancelled=dequeued)
        mailbox.was_interrupted = True
        reply = await session.control("interrupt", **({"cancel_queued": True} if cancel_queued else {}))
        if session.waits_for_idle(mailbox):
            session.fail_run(mailbox, lambda: InterruptedRunError("the run was interrupted"))
        if stop_tasks:
            await session.stop_tasks(session.get_task_ids(mailbox))
        return InterruptReceipt(
            outcome="interrupted",
            still_queued=tuple(reply.get("still_queued") or ()),
            cancelled=(*dequeued, *(reply.get("cancelled") or ())),
        )

    async def __aenter__(self) -> Self:
        await self._ensure_started()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if not self.done:
                await self.interrupt()
        finally:
            await self._release()


async def _dequeue(session: Session, prompt: str) -> bool:
    """Remove a prompt from the CLI's queue. Return whether it was still there."""
    reply = await session.control("cancel_async_message", message_uuid=prompt)
    return reply.get("cancelled") is True


class _Messages:
    def __init__(self, run: Run) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"<messages of {self._run!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunMessage:
        message = self._run._ready()
        return await self._run._next() if message is None else message


class _Text:
    def __init__(self, run: Run, messages: _Messages) -> None:
        from claude_agent_py._protocol.text import TextFold

        self._run = run
        self._messages = messages
        self._fold = TextFold()
        self._pieces: deque[str] = deque()

    def __repr__(self) -> str:
        return f"<text of {self._run!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._pieces:
            try:
                message = await anext(self._messages)
            except StopAsyncIteration:
                await self._run  # raises for an error result
                raise
            self._pieces.extend(self._fold.feed(message))
        return self._pieces.popleft()


class _ToolCalls:
    def __init__(self, run: Run, messages: _Messages) -> None:
        from claude_agent_py.tools.traffic import ToolTraffic

        self._run = run
        self._messages = messages
        self._traffic = ToolTraffic()
        self._calls: deque[ToolCallRecord] = deque()

    def __repr__(self) -> str:
        return f"<tool calls of {self._run!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ToolCallRecord:
        while not self._calls:
            self._calls.extend(self._traffic.fold(await anext(self._messages)))
        return self._calls.popleft()
