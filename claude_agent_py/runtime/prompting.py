"""Prompting a session: from a prompt to its run, from the run's messages to its result.

Owns the meaning of `Client.query`. The user's end of a run is `run.py`, the pump's end `feed.py`; which message belongs
to which run is the router's business (`protocol/turns.py`).
"""

import inspect
import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import anyio
from pydantic import TypeAdapter

from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.callbacks import failure_of, is_not_the_functions
from claude_agent_py.errors import ControlError, InterruptedRunError, OptionsError, StructuredOutputError, TaskError
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.protocol.ports import ControlPort
from claude_agent_py.protocol.turns import RunLimits, Until
from claude_agent_py.runtime.connection import Connection
from claude_agent_py.runtime.feed import RunFeed
from claude_agent_py.runtime.prompts import Prompt, check_run_arguments, is_stream, prompt_message
from claude_agent_py.runtime.result import RunResult, structured_output
from claude_agent_py.runtime.run import InterruptReceipt, Run
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.task import Task

if TYPE_CHECKING:
    from claude_agent_py.runtime.subagents import Subagent
    from claude_agent_py.wire.messages import UserMessage

logger: logging.Logger = logging.getLogger("claude_agent_py")

GENERATOR_GRACE: Final = 1.0
"""How long a generator of prompts may take to end when no more are wanted, in seconds."""


class PromptedSession(ControlPort, Protocol):
    """What prompting needs of a session."""

    @property
    def connection(self) -> Connection:
        """The connection; raises where there is none."""
        ...

    @property
    def agents(self) -> Mapping[str, AgentDefinition]:
        """The definitions of agents that are known."""
        ...


class Prompting:
    """Sends prompts and puts results together, for one session."""

    def __init__(self, session: PromptedSession, options: ClientOptions, tasks: TaskManager) -> None:
        self._session = session
        self._options = options
        self._tasks = tasks
        shape = options.output_shape
        self._output: TypeAdapter[Any] | None = shape.adapter if shape is not None else None
        self._uuids: set[str] = set()
        """Those of all prompts that were sent so far."""
        self.told_late: frozenset[str] = frozenset()
        """The tasks of which a warning has said already that nobody waits for them."""

    def query(self, prompt: Prompt, *, until: Until, timeout: float | None) -> Run:
        """Send a prompt and give its run. See `Client.query`."""
        check_run_arguments(until, timeout)
        messages = [] if is_stream(prompt) else [self._message_of(prompt)]
        connection = self._session.connection
        feed = connection.runs.open(until, self._limits(timeout))
        feed.on_wait, feed.on_late = self._tell_of_waiting, self._end_late_tasks
        if isinstance(prompt, AsyncIterable):
            connection.start_soon(self._send_each, feed, prompt)
        else:
            for message in messages:
                self._send(feed, message)
            connection.runs.seal(feed)
        return Run(OpenRun(self, feed), feed)

    def _message_of(self, prompt: Any) -> "UserMessage":
        """Make the message of a prompt. One whose uuid was used before the CLI drops without a word: it hangs."""
        message = prompt_message(prompt, verbatim=self._options.verbatim_prompts)
        if message.uuid in self._uuids:
            raise OptionsError(f"an earlier prompt had the uuid {message.uuid}; give each its own", option="prompt")
        return message

    def _send(self, feed: RunFeed, message: "UserMessage") -> None:
        self._session.connection.runs.send_prompt(feed, message)
        self._uuids.add(message.uuid)

    def _limits(self, timeout: float | None) -> RunLimits:
        timeouts = self._options.timeouts
        return RunLimits(
            run=timeouts.run if timeout is None else timeout,
            first_message=timeouts.first_message,
            silence=timeouts.silence,
            idle=timeouts.idle,
        )

    def _tell_of_waiting(self, feed: RunFeed, seconds: float) -> None:
        """Say for whom a run has been waiting: one that never ends looks like a program that hangs."""
        names = self.names_of(self._tasks.live_ids())
        if names:
            logger.warning(
                "a run has its answer and has been waiting %.0f s for background tasks: %s; Timeouts(idle=...) limits "
                'that, and until="result" does without',
                seconds,
                names,
            )

    def _end_late_tasks(self, feed: RunFeed) -> None:
        """Do with the tasks that a run did not wait for what the options say."""
        self.told_late |= feed.late_tasks
        is_stop = self._options.late_tasks == "stop"
        limit = feed.end.limit if feed.end else None
        what = "they are stopped" if is_stop else "they go on"
        logger.warning(
            "background tasks still ran %g s after the answer (Timeouts.idle), %s: %s",
            limit or 0.0,
            what,
            self.names_of(feed.late_tasks),
        )
        if is_stop and self._session.connection.is_open:
            self._session.connection.start_soon(self._stop_tasks, feed)

    def names_of(self, task_ids: Iterable[str]) -> str:
        """Name tasks for a log."""
        return _named([self._tasks[task_id] for task_id in sorted(task_ids)])

    async def _send_each(self, feed: RunFeed, prompts: AsyncIterable[Any]) -> None:
        """Send what an async iterable gives, as it gives it; its failure is the run's."""
        connection = self._session.connection
        iterator: AsyncIterator[Any] | None = None
        try:
            with feed.sending:
                iterator = aiter(prompts)
                async for prompt in iterator:
                    self._send(feed, self._message_of(prompt))
                if not feed.prompts:
                    raise OptionsError("the iterable ended without giving one", option="prompt")
                connection.runs.seal(feed)
        except BaseException as error:
            failure = error if isinstance(error, Exception) else failure_of("the prompts", error)
            connection.runs.fail(feed, lambda: failure)
        finally:
            await _close(iterator)

    def result_of(self, feed: RunFeed) -> RunResult:
        """Put the result of a run together.

        Raises:
            StructuredOutputError: An `output_type` was asked for, and no output came or it does not fit.
        """
        result = RunResult(
            message=feed.own_result,
            results=feed.results,
            messages=feed.messages,
            tasks=self.tasks_of(feed),
            agents=self.agents_of(feed),
            prompts=feed.prompts,
            was_interrupted=feed.was_interrupted,
            late_tasks=feed.late_tasks,
        )
        if result.unfinished_tasks:
            logger.info("a run ended while background tasks of it go on: %s", _named(result.unfinished_tasks))
        if result.is_error:
            return result
        try:
            output = structured_output(feed.results, self._output)
        except StructuredOutputError as error:
            error.result = result
            raise
        return replace(result, output=output)

    def tasks_of(self, feed: RunFeed) -> tuple[Task, ...]:
        """Give the tasks of a run so far."""
        ids = self._session.connection.runs.tasks_of(feed)
        return tuple(task for task in self._tasks if task.id in ids)

    def agents_of(self, feed: RunFeed) -> list["Subagent"]:
        """Give the subagents of a run so far."""
        from claude_agent_py.runtime.subagents import subagents_of

        return subagents_of(self.tasks_of(feed), self._session.agents)

    async def interrupt(self, feed: RunFeed, *, cancel_queued: bool, stop_tasks: bool) -> InterruptReceipt:
        """Stop the work on a run. See `Run.interrupt`."""
        if feed.is_over:
            if stop_tasks:
                await self._stop_tasks(feed)
            return InterruptReceipt(outcome="too_late")
        queued = self._session.connection.runs.queued_prompts(feed)
        dequeued = tuple([prompt for prompt in queued if await self._dequeue(prompt)])
        if queued and len(dequeued) == len(feed.prompts):
            return InterruptReceipt(outcome="dequeued", cancelled=dequeued)
        feed.was_interrupted = True
        flags = {"cancel_queued": True} if cancel_queued else {}
        reply = await self._session.control("interrupt", **flags)
        if self._session.connection.runs.waits_for_idle(feed):
            self._session.connection.runs.fail(feed, lambda: InterruptedRunError("the run was interrupted"))
        if stop_tasks:
            await self._stop_tasks(feed)
        return InterruptReceipt(
            outcome="interrupted",
            still_queued=tuple(reply.get("still_queued") or ()),
            cancelled=(*dequeued, *(reply.get("cancelled") or ())),
        )

    async def _dequeue(self, prompt: str) -> bool:
        reply = await self._session.control("cancel_async_message", message_uuid=prompt)
        return reply.get("cancelled") is True

    async def _stop_tasks(self, feed: RunFeed) -> None:
        for task_id in self._session.connection.runs.tasks_of(feed) & self._tasks.live_ids():
            try:
                await self._tasks.stop(task_id)
            except (TaskError, ControlError):
                continue  # it ended by itself meanwhile


async def _close(iterator: AsyncIterator[Any] | None) -> None:
    """Close a generator of prompts, as Python would only do some time later, and trio not without a warning."""
    if inspect.isasyncgen(iterator):
        with anyio.move_on_after(GENERATOR_GRACE, shield=True):
            try:
                await iterator.aclose()
            except BaseException as error:
                if is_not_the_functions(error):
                    raise
                logger.exception("closing the prompts failed")


def _named(tasks: Sequence[Task]) -> str:
    return ", ".join(repr(task.description) for task in tasks)


class OpenRun:
    """A run of a session that lives on: what `Run` needs of it."""

    def __init__(self, prompting: Prompting, feed: RunFeed) -> None:
        self._prompting = prompting
        self._feed = feed

    async def feed(self) -> RunFeed:
        """Give the feed."""
        return self._feed

    def result(self, feed: RunFeed) -> RunResult:
        """Put the result together."""
        return self._prompting.result_of(feed)

    def tasks(self, feed: RunFeed) -> tuple[Task, ...]:
        """Give the tasks of the run so far."""
        return self._prompting.tasks_of(feed)

    def agents(self, feed: RunFeed) -> list["Subagent"]:
        """Give the subagents of the run so far."""
        return self._prompting.agents_of(feed)

    async def release(self) -> None:
        """Do nothing: the session lives on."""

    async def interrupt(self, feed: RunFeed, *, cancel_queued: bool, stop_tasks: bool) -> InterruptReceipt:
        """Stop the work on the run."""
        return await self._prompting.interrupt(feed, cancel_queued=cancel_queued, stop_tasks=stop_tasks)


class SessionMessages:
    """Every message of a session, through a mailbox of its own. Ends as the session does: well, or with its error.

    With `events`, what happens to tasks and questions as well.
    """

    def __init__(self, connection: Connection, *, events: bool = False) -> None:
        self._connection = connection
        self._mailbox = connection.readers.add(events=events)
        self.keeps: object = None
        """What has to live as long as this: the client."""

    def __repr__(self) -> str:
        return f"<messages of a session, {len(self._mailbox)} waiting>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = self._mailbox.ready()
        return await self._next() if message is None else message

    async def _next(self) -> Any:
        try:
            message = await self._mailbox.get()
        except StopAsyncIteration:
            if self._connection.ended_well:
                raise
            raise self._connection.end_reason() from None
        return message

    def __del__(self) -> None:
        self._connection.readers.remove(self._mailbox)
