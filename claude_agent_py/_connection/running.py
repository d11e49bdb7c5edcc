"""`Runs`: the open runs of a session. It sends their prompts, and ends them as the router decides."""

import functools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import anyio

from claude_agent_py._base.callbacks import make_handler_error
from claude_agent_py._base.errors import ClaudeAgentError, ControlError, LocalProtocolError, OptionsError, TaskError
from claude_agent_py._base.log import logger
from claude_agent_py._connection.resumption import Resumption
from claude_agent_py._connection.runs.prompts import close_stream, is_stream, prompt_message
from claude_agent_py._connection.runs.result import AuthenticationError, RunTimeoutError, UnreadableResultError
from claude_agent_py._connection.runs.run_state import RunState
from claude_agent_py._connection.session import Session
from claude_agent_py._connection.shutdown import Shutdown, describe_tasks
from claude_agent_py._journal.open_runs import DEFAULT_IDLE, RunEnded, RunLimits, RunWaits
from claude_agent_py._journal.turns import SentPrompt
from claude_agent_py.wire.base import dump
from claude_agent_py.wire.messages.conversation import UserMessage

STATUS_SECONDS: Final = 2.0
"""How long a run that got no message waits for the state of the MCP servers, for its error."""


class Runs:
    """The open runs of a session.

    Args:
        session: The session.
        shutdown: The end of the session.
        resumption: The work of its earlier processes.
        act: Acts on verdicts of the router, and writes what the engine has to send.
    """

    def __init__(self, session: Session, shutdown: Shutdown, resumption: Resumption, act: Callable[..., None]) -> None:
        self._session = session
        self._shutdown = shutdown
        self._resumption = resumption
        self._act = act
        self.default_idle: float | None = None if len(session.lineage) == 1 else DEFAULT_IDLE
        """The wait for tasks without progress unless `Timeouts.idle` is set; None means no limit."""

    def start(self, run: RunState, prompt: UserMessage | AsyncIterable[object]) -> None:
        """Open a run and send its prompt, or begin to send its iterable of prompts.

        Returns before the prompt is written.

        Raises:
            OptionsError: An earlier prompt had the same uuid, or the prompt is not JSON.
            LocalProtocolError: The caller is in another thread than the event loop.
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        self._session.check_open()
        if is_stream(prompt):
            run.sending = anyio.CancelScope()
            self._session.workers.start_logged(self._send_each, run, prompt, run.sending)
        else:
            self._send_prompt(run, prompt)
            run.is_sealed = True
        self.open(run, run.prompts)

    async def _send_each(self, run: RunState, prompts: AsyncIterable[object], scope: anyio.CancelScope) -> None:
        """Send the prompts of an async iterable as they come. Its errors fail the run."""
        iterator: AsyncIterator[Any] | None = None
        try:
            with scope:
                iterator = aiter(prompts)
                async for prompt in iterator:
                    self.send(run, prompt_message(prompt, verbatim=self._session.options.verbatim_prompts))
                if not run.prompts:
                    raise OptionsError("the iterable yielded no prompt", option="prompt")
                self._act(self._session.router.seal_run(run, self._session.now()))
        except BaseException as error:
            failure = error if isinstance(error, Exception) else make_handler_error("the prompts", error)
            if not run.is_over:
                was_in_turn = run in self._session.router.turn_runs
                self.fail(run, lambda: failure)
                self._stop_work(run, was_in_turn=was_in_turn)
        finally:
            await close_stream(iterator)

    def open(self, run: RunState, prompts: Sequence[str]) -> None:
        """Open a run with these prompts, which have been sent, or will be."""
        run.session = self._session
        timeouts = self._session.options.timeouts
        run.limits = RunLimits(
            run=timeouts.run if run.timeout is None else run.timeout,
            first_message=timeouts.first_message,
            silence=timeouts.silence,
            idle=timeouts.idle if "idle" in timeouts.model_fields_set else self.default_idle,
        )
        self._session.router.open_run(run, self._session.now(), prompts)
        self._act()

    def send(self, run: RunState, prompt: UserMessage) -> None:
        """Send another prompt of a run, unless it takes no more. Returns before it is written. Raises like `start`."""
        if run.is_over or run.is_sealed:
            return
        self._send_prompt(run, prompt)
        self._session.router.add_prompt(run, prompt.uuid, self._session.now())
        self._act()

    def _send_prompt(self, run: RunState, prompt: UserMessage) -> None:
        if prompt.uuid in self._session.router.prompts:  # the CLI would silently drop it
            raise OptionsError(f"an earlier prompt had the uuid {prompt.uuid}; give each its own", option="prompt")
        has_guard = self._session.hooks is not None and self._session.hooks.has_guard
        try:
            if (
                has_guard
                and "verbatim_prompts" not in self._session.options.model_fields_set
                and "@" in str(dump(prompt.message))
            ):
                prompt = prompt.replace(client_composed=True)  # the CLI would read `@files` without asking the guard
            self.write(prompt)
        except (ValueError, TypeError) as error:
            raise OptionsError(f"must be JSON: {error}", option="prompt") from error
        run.sent.append(prompt)
        run.sent_at[prompt.uuid] = self._session.now()

    def write(self, prompt: UserMessage) -> None:
        """Send a prompt of a run, and tell the store, the turns and the journal.

        Raises:
            ValueError, TypeError: The prompt is not JSON.
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        try:
            self._session.engine.send_prompt(prompt)
        except LocalProtocolError:
            raise self._session.error_now from None
        if self._session.store_sync is not None:
            self._session.store_sync.note_prompt(prompt.uuid)
        self._session.router.turns.note_sent(prompt.uuid, SentPrompt(prompt, self._session.intake.clock()))
        if self._session.journal is not None:
            self._session.journal.feed(prompt, sent=True)

    def seal(self, run: RunState) -> None:
        """Send no more prompts of a run. It ends if it has been interrupted and all of them are answered."""
        run.stop_sending()
        self._act(self._session.router.seal_run(run, self._session.now()))

    def withdraw(self, run: RunState) -> bool | None:
        """End a run that the next process would continue, or has yet to, and return whether it was queued.

        None if it does not wait for one.
        """
        router = self._session.router
        goes_on = run in router.turn_runs and not run.is_over
        was_in_turn = None if goes_on else self._resumption.withdraw(run)
        if was_in_turn is None:
            return None
        is_queued = bool(run.waiting) and not was_in_turn
        run.failure, run.was_interrupted = None, not is_queued
        router.drop_run(run)
        run.finish()
        return is_queued

    def fail(self, run: RunState, failure: Callable[[], BaseException]) -> None:
        """End a run with an error, for example because its iterable of prompts failed."""
        self._session.router.drop_run(run)
        run.finish(failure=failure)

    async def fail_login(self, why: str) -> None:
        """End the runs of the current turn with an `AuthenticationError`, and stop the turn."""
        for run in self._session.router.turn_runs:
            self.fail(run, functools.partial(AuthenticationError, why))
            self._stop_work(run, was_in_turn=True)

    def on_ended(self, end: RunEnded) -> None:
        """End a run as the router decided: answered, timed out, unreadable or closed."""
        run: RunState = end.run
        failure: Callable[[], BaseException] | None = None
        if end.reason == "timeout":
            failure = functools.partial(RunTimeoutError, end.kind or "run", end.limit or 0.0)
            self._stop_work(run, was_in_turn=end.was_in_turn)
        elif run.bad_result is not None:
            problem = f"the result of the run cannot be read: {run.bad_result.error}"
            failure = functools.partial(UnreadableResultError, problem, raw=run.bad_result.raw)
        elif end.reason == "closed":
            failure = lambda: self._session.error  # noqa: E731
            run.ended_at = self._session.intake.clock()
            self._resumption.cut(run, was_in_turn=end.was_in_turn)
        # The CLI starts the first turn, and reports its tools, when its MCP servers have connected or are too late.
        is_unbegun = end.kind == "first_message" or (end.reason == "timeout" and self._session.reported.tools is None)
        if is_unbegun and self._session.is_open:
            self._session.workers.start_logged(self._finish_unbegun, run, end, failure)
        else:
            run.finish(end, failure)
        if end.late_tasks:
            self._end_late_tasks(end)

    async def _finish_unbegun(self, run: RunState, end: RunEnded, failure: Callable[[], BaseException] | None) -> None:
        """End a run that got no message, once the CLI has told which MCP servers it may be waiting for."""
        try:
            reply = await self._session.control("mcp_status", timeout=STATUS_SECONDS)
            servers = [server for server in reply.get("mcpServers") or () if isinstance(server, Mapping)]
            pending = [server.get("name") for server in servers if server.get("status") == "pending"]
            run.pending_servers = tuple(f"the MCP server {name!r}" for name in pending)
        except ClaudeAgentError:
            pass  # the time-out is the error
        finally:
            run.finish(end, failure)

    def on_waits(self, event: RunWaits) -> None:
        """Log which tasks a run waits for, because the program may look as if it hangs."""
        if names := describe_tasks(self._session.tasks, self._session.tasks.live_ids()):
            logger.warning(
                "a run has its answer and has been waiting %.0f s for background tasks: %s; limit the "
                'time with Timeouts(idle=...), or use until="result"',
                event.seconds,
                names,
            )

    def _end_late_tasks(self, end: RunEnded) -> None:
        """Stop or leave the tasks that were running when `Timeouts.idle` expired, as `late_tasks` says."""
        self._shutdown.reported_tasks |= end.late_tasks
        is_stop = self._session.options.late_tasks == "stop"
        logger.warning(
            "background tasks made no progress for %g s after the answer (Timeouts.idle), %s: %s",
            end.limit or 0.0,
            "they are stopped" if is_stop else "they go on",
            describe_tasks(self._session.tasks, end.late_tasks),
        )
        if is_stop and self._session.is_open:
            self._session.workers.start_logged(self.stop_tasks, end.run.tasks)

    async def stop_tasks(self, task_ids: Collection[str]) -> None:
        """Stop those of these tasks that are running."""
        tasks = self._session.tasks
        with suppress(TaskError, ControlError):  # of a task that has just ended
            await tasks.stop_all(task_ids=tasks.live_ids().intersection(task_ids))

    def _stop_work(self, run: RunState, *, was_in_turn: bool) -> None:
        """Stop the work on an abandoned run, but not a turn that it shares with other runs.

        Everything is sent now, without waiting for replies: an interrupt names no prompt, so it must precede the next
        prompt.
        """
        if not was_in_turn:
            self._resumption.withdraw(run)  # the CLI may be about to resume its turn
        for prompt in run.prompts:
            self._session.post("cancel_async_message", message_uuid=prompt)
        if was_in_turn and not self._session.router.turn_runs:
            self._session.post("interrupt")
