"""`Run`: the user's view of a run. `run_state.py` is the session's view."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

import anyio

from claude_agent_py import tools  # loads on first use
from claude_agent_py._base.errors import BacklogError, RunFailed
from claude_agent_py._base.log import logger
from claude_agent_py._connection import runs
from claude_agent_py._connection.reported import describe_retry
from claude_agent_py._connection.runs.result import (
    InterruptedRunError,
    RunResult,
    RunTimeoutError,
    StructuredOutputError,
    find_in_result,
    make_result,
)
from claude_agent_py._connection.runs.run_state import NEVER_AWAITED, RunState
from claude_agent_py._journal.ports import ControlPort
from claude_agent_py._journal.text import TextFold
from claude_agent_py._journal.tool_calls import ToolCallRecord
from claude_agent_py.options.output_shape import Output
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.conversation import AssistantMessage
from claude_agent_py.wire.messages.system import APIRetryMessage

Part = TypeVar("Part")


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

    * `async for message in run` yields its messages as they arrive. With `Client.query` an error result is just the
      last message; with `query` and `Pool.query` the loop raises its `RunError` at the end.
    * `await run` waits for the end and returns the `RunResult`; an error result raises its `RunError`.
    * `async with run` interrupts the run on exit, unless it has ended.

    Leaving a loop early loses nothing: iterate again to continue, or await. After the last message, iterating again
    yields the recorded messages, which are all but the deltas. Cancelling has no effect on the run. Only one coroutine
    may iterate at a time; any number may await. A run that is neither awaited nor iterated warns (RuntimeWarning).
    """

    _raises_at_end = False
    """Whether iterating raises the error of an error result."""

    def __init__(self, client: Any, state: RunState) -> None:
        self._client = client
        """The `Client`, which its runs keep alive; None before the run has started."""
        self._state = state
        self._is_exhausted = False
        """Whether an iteration has reached the end, so that the next one starts over."""
        self._result: RunResult[Output] | None = None
        self._was_awaited = False
        self._has_warned = False

    def __del__(self) -> None:
        state = self._state
        if state.is_resumed:
            return
        state.mailbox.discard()
        if state.is_forgotten:
            self._warn_forgotten()
            return
        # A failure is raised at the end of an iteration.
        is_read = self._was_awaited or state.was_entered or not self._is_exhausted or state.failure is not None
        if not is_read and state.results and state.results[-1].is_error:
            warnings.warn(
                "client.query(...) ended with an error that nothing has read: after the loop, `await run` raises it "
                "and `await run.result()` returns it",
                RuntimeWarning,
                stacklevel=2,  # the line that dropped it
                source=self,
            )

    def _warn_forgotten(self) -> None:
        """Warn that nobody has awaited the run: now, or at the end of the session if a reader may yet be added."""
        if not self.done:
            frame = sys._getframe(2)  # the line that dropped it
            self._client.connection.resumption.forgotten.add((frame.f_code.co_filename, frame.f_lineno))
        elif not self._state.session.readers.were_added:
            warnings.warn(NEVER_AWAITED, RuntimeWarning, stacklevel=3, source=self)

    def __copy__(self) -> Self:
        return self  # a copy that is collected would discard the messages of both

    def __repr__(self) -> str:
        if self._client is None:
            return "<Run not started>"
        state = (self._state.reason or "failed") if self.done else "running"
        return f"<Run {state}, {len(self._state.mailbox.recorded)} messages>"

    @property
    def tasks(self) -> Sequence[Task]:
        """The background tasks started in the run so far: follow, await or stop them."""
        if self._client is None:
            return []
        return [task for task in self._state.session.tasks if task.id in self._state.tasks]

    @property
    def agents(self) -> Sequence[runs.Subagent]:
        """The subagents and child agents started in the run so far, nested ones included.

        Each has its definition, status, usage, messages and task. The `agent_id` of a message is the id of its
        subagent's task: `client.tasks.get(message.agent_id)`.
        """
        return [] if self._client is None else runs.find_subagents(self.tasks, self._state.session.agents)

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._state.is_over

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            where = find_in_result(name)
            hint = f": it is an attribute of the result, so await the run first: (await run).{where}" if where else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    # Messages ----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        """After the last message, begin again with the recorded messages, unless the run has been resumed."""
        if self._is_exhausted and self.done and len(self._state.mailbox) == 0:
            self._state.mailbox.rewind()
        self._is_exhausted = False
        return self

    async def __anext__(self) -> runs.RunMessage:
        ready: runs.RunMessage | None = self._state.mailbox.get_nowait()
        if ready is not None:
            return ready
        if self._client is None:
            await self._start()
        self._warn_of_deadlock()
        try:
            message: runs.RunMessage = await self._state.mailbox.get()
        except StopAsyncIteration:
            self._is_exhausted = True
            await self._release()
            if self._state.failure is not None:
                raise self._make_error(self._state.failure) from None
            if self._raises_at_end:
                await self._finish()
            raise
        return message

    def text_stream(self) -> AsyncIterator[str]:
        """Iterate over the main agent's text as it arrives, each piece once.

        The pieces are deltas with `include_partial_messages`, otherwise whole blocks. Text that the CLI repeats after
        an API failure is not yielded again. Consumes the run's messages.

        It ends as `await run` does: after the last text it raises the `RunError` of an error result. API error messages
        of the CLI are in that error, not in the text.
        """
        return _Parts("text", aiter(self), TextFold().feed, raises=True)

    @property
    def text(self) -> OldText:
        """Deprecated: the earlier name of the method `text_stream`. The text of the answer is `(await run).text`."""
        return OldText(self)

    def tool_calls(self) -> AsyncIterator[ToolCallRecord]:
        """Iterate over the run's tool calls as their results arrive. Consumes the run's messages."""
        return _Parts("tool calls", aiter(self), tools.ToolTraffic().fold)

    # Result ------------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[object, None, RunResult[Output]]:
        return self._finish().__await__()

    async def result(self) -> RunResult[Output]:
        """Wait for the end and return the result, without raising for an error result.

        Raises:
            CLIError: The CLI could not be started, or exited during the run.
            ConnectionClosedError: The client was closed during the run.
            RunTimeoutError: A time limit expired.
            StructuredOutputError: The structured output is missing or does not match `output_type`.
        """
        self._was_awaited = True
        if self._client is None:
            await self._start()
        self._state.mailbox.skip_unrecorded()
        self._warn_of_deadlock()
        await self._state.wait()
        await self._release()
        if self._state.failure is not None:
            raise self._make_error(self._state.failure)
        if self._result is None:
            self._result = self._make_result()
            self._log_unfinished(self._result)
        return self._result

    def _warn_of_deadlock(self) -> None:
        """Warn if a handler or tool waits for a prompt that its own turn, which waits for the handler, goes before."""
        if not self._has_warned and not self.done and self._state.session.workers.is_called_from_awaited:
            self._has_warned = True
            logger.warning(
                "a tool, hook or permission handler waits for a prompt to its own session, which is answered after the "
                "turn that waits for the handler: use run(...) or client.spawn(...) there, or do not wait"
            )

    async def _finish(self) -> RunResult[Output]:
        result = await self.result()
        error = result.error()
        if error is not None:
            raise error
        return result

    def _make_error(self, failure: Callable[[], BaseException]) -> BaseException:
        error = failure()
        if isinstance(error, RunFailed):
            try:
                error.result = self._make_result()
            except StructuredOutputError as missing:  # expected: the run did not complete
                error.result = missing.result
        if isinstance(error, RunTimeoutError):
            error.waiting_for = self._state.pending_servers or _find_pending(error.result)
        return error

    def _make_result(self) -> RunResult:
        options = self._state.session.options
        return make_result(self._state, self.tasks, self.agents, options)

    def _log_unfinished(self, result: RunResult) -> None:
        if result.unfinished_tasks and not self._state.late_tasks:  # the session has logged late tasks
            names = ", ".join(repr(task.description) for task in result.unfinished_tasks)
            logger.info("a run ended while its background tasks are still running: %s", names)

    async def _start(self) -> None:
        """Start the run. Only called if it was created without a client."""

    async def _release(self) -> None:
        """Release the resources of the run."""

    # Control -----------------------------------------------------------------------------------------------------

    async def interrupt(self, *, cancel_queued: bool = False, stop_tasks: bool = False) -> InterruptReceipt:
        """Interrupt this run. It then ends, and awaiting it raises `InterruptedRunError`.

        A prompt that has not started is removed from the queue instead (`PromptCancelledError`). A turn goes on if it
        is of other runs alone. Background tasks keep running, unless `stop_tasks` is true or the option
        `per_task_stop_affordance` is False. `cancel_queued` also removes all other prompts from the queue.

        Raises:
            ControlError: The CLI did not accept the request.
            RemoteProtocolError: Its reply cannot be read.
        """
        if self._client is None:
            await self._start()
        assert self._client is not None  # noqa: S101 - it has started
        state, connection = self._state, self._client.connection
        state.was_entered = True
        is_queued = None if self._client.is_closed else connection.runs.withdraw(state)
        if state.is_over:
            if stop_tasks:
                await connection.runs.stop_tasks(state.tasks)
            if is_queued is None:
                return InterruptReceipt(outcome="too_late")
            return InterruptReceipt(outcome="dequeued" if is_queued else "interrupted")
        state.stop_sending()
        try:
            receipt = await self._stop_work(cancel_queued=cancel_queued)
        finally:
            connection.runs.seal(state)  # otherwise it would wait for prompts that are not sent
        if stop_tasks:
            await connection.runs.stop_tasks(state.tasks)
        return receipt

    async def _stop_work(self, *, cancel_queued: bool) -> InterruptReceipt:
        """Remove the prompts from the queue, and interrupt the turn if it is on one of them."""
        client, state, router = self._client, self._state, self._state.session.router
        affected = router.open_runs if cancel_queued else (state,)
        queued = [prompt for run in affected for prompt in router.queued_prompts(run)]
        try:
            dequeued = await _dequeue(state.session, queued)
        except anyio.get_cancelled_exc_class():  # nobody waits for the rest, which is sent nevertheless
            for prompt in queued:
                state.session.post("cancel_async_message", message_uuid=prompt)
            if state in router.turn_runs:
                state.was_interrupted = True
                state.session.post("interrupt")
            raise
        if state.prompts and set(dequeued).issuperset(state.prompts):
            return InterruptReceipt(outcome="dequeued", cancelled=dequeued)
        if self.done:
            return InterruptReceipt(outcome="too_late", cancelled=dequeued)
        is_answered = state in router.waiting_for_idle()
        state.was_interrupted = not is_answered  # from now on it ends with its answer
        receipt = InterruptReceipt(outcome="interrupted")
        # An interrupt names no run: the CLI may be working on others alone.
        if router.turns.current is None or state in router.turn_runs or not set(dequeued).issuperset(state.waiting):
            receipt = await client.interrupt(cancel_queued=cancel_queued)
        if is_answered:
            client.connection.runs.fail(state, lambda: InterruptedRunError("the run was interrupted"))
        state.was_interrupted = True
        return replace(receipt, outcome="interrupted", cancelled=(*dequeued, *receipt.cancelled))

    async def __aenter__(self) -> Self:
        if self._client is None:
            await self._start()
        self._state.was_entered = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if not self.done:
                await self.interrupt()
        finally:
            await self._release()


async def _dequeue(session: ControlPort, prompts: Iterable[str]) -> tuple[str, ...]:
    """Remove prompts from the CLI's queue. Return those that were still there."""
    removed: list[str] = []
    for prompt in prompts:
        reply = await session.control("cancel_async_message", message_uuid=prompt)
        if reply.get("cancelled") is True:
            removed.append(prompt)
    return tuple(removed)


class OldText:
    """The deprecated `Run.text()`. Printed, it is a hint, because `run.text` without `await` is a likely mistake."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self) -> AsyncIterator[str]:
        """Return `Run.text_stream()`, with a DeprecationWarning."""
        warnings.warn("Run.text() is now Run.text_stream()", DeprecationWarning, stacklevel=2)
        return self._run.text_stream()

    def __repr__(self) -> str:
        return (
            f"<no text yet: await the run for its text, (await run).text, or iterate run.text_stream(): {self._run!r}>"
        )


def _find_pending(result: RunResult) -> tuple[str, ...]:
    """Return what the main agent was waiting for: tools, or the API, which the CLI asks again."""
    with contextlib.suppress(BacklogError):  # messages were dropped
        if cut_off := [call for call in result.tool_calls if call.was_cut_off and call.agent_id is None]:
            return tuple(f"the tool {call.name}" for call in cut_off)
        for message in reversed(result.messages):
            if isinstance(message, APIRetryMessage):
                return (f"the API, which {describe_retry(message)}",)
            if isinstance(message, AssistantMessage):
                break
    return ()


class _Parts(AsyncIterator[Part]):
    """What a fold finds in the messages of a run, for example its text. It `raises` as awaiting the run does."""

    def __init__(self, what: str, run: Run, fold: Callable[[Any], Iterable[Part]], *, raises: bool = False) -> None:
        self._what = what
        self._run = run
        self._fold = fold
        self._raises = raises
        self._waiting: deque[Part] = deque()

    def __repr__(self) -> str:
        return f"<{self._what} of {self._run!r}>"

    async def __anext__(self) -> Part:
        while not self._waiting:
            try:
                message = await anext(self._run)
            except StopAsyncIteration:
                if self._raises:
                    await self._run
                raise
            self._waiting.extend(self._fold(message))
        return self._waiting.popleft()
