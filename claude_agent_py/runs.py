"""`query`, `run` and `run_sync`: run one prompt in a separate CLI process.

The process starts with the first message or await and exits when the run has ended or is dropped.
"""

from __future__ import annotations

import warnings
from typing import Never

import anyio

from claude_agent_py._base.errors import ConnectionClosedError
from claude_agent_py._base.event_loop import run_anywhere
from claude_agent_py._connection.runs.prompts import Prompt, check_run_arguments as check_run_arguments, prepare_prompt
from claude_agent_py._connection.runs.result import RunResult as RunResult
from claude_agent_py._connection.runs.run import InterruptReceipt, Run as Run
from claude_agent_py._connection.runs.run_state import RunState
from claude_agent_py._connection.shutdown import TasksAtClose as TasksAtClose
from claude_agent_py._journal.open_runs import DEFAULT_IDLE, Until as Until
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions, options_or_defaults, refuse_options
from claude_agent_py.options.output_shape import Output
from claude_agent_py.transport import Transport


def query(
    prompt: Prompt,
    options: ClientOptions[Output] | None = None,
    *,
    until: Until = "idle",
    timeout: float | None = None,
    transport: Transport | None = None,
    **misplaced: Never,
) -> Run[Output]:
    """Return a run with its own CLI process: iterate it for messages, await it for the `RunResult`.

    Both raise the `RunError` of an error result: iterating after the last message.

    The process starts with the first message or await and exits when the run has ended or is dropped, for example after
    leaving a loop over it early. `until` is `idle` by default: the run waits for background tasks and includes their
    follow-up turns. If the tasks make no progress for 10 minutes, such as a shell with a server, the run ends with its
    last answer, stops them and names them in `RunResult.unfinished_tasks`. `Timeouts(idle=...)` changes this limit
    (None: no limit); `timeout` limits the whole run.

    If the start fails, every await and iteration of the run raises the same error; call `query` again to retry. If the
    start is cancelled, the next await or iteration starts the process again.

    `transport` is used instead of the `claude` program, for tests, as in `Client`.

    Raises:
        OptionsError: The prompt is empty, or the prompt or `options` has the wrong type.
    """
    refuse_options("query", misplaced)
    return OneShot(options_or_defaults(options), prompt, until, timeout, transport)


async def run(
    prompt: Prompt,
    options: ClientOptions[Output] | None = None,
    *,
    until: Until = "idle",
    timeout: float | None = None,
    transport: Transport | None = None,
    **misplaced: Never,
) -> RunResult[Output]:
    """Run one prompt and return its result. The CLI process has exited by then.

    By default it also waits for background tasks: see `query`.

    Raises:
        RunError: The result is an error; it is in `result` of the exception.
        CLIError: The CLI could not be started, or exited during the run.
    """
    refuse_options("run", misplaced)
    async with query(prompt, options, until=until, timeout=timeout, transport=transport) as started:
        return await started


def run_sync(
    prompt: Prompt,
    options: ClientOptions[Output] | None = None,
    *,
    until: Until = "idle",
    timeout: float | None = None,
    transport: Transport | None = None,
    **misplaced: Never,
) -> RunResult[Output]:
    """Run one prompt and return its result, like `run`, from synchronous code.

    Inside a running event loop (in a notebook, for example) it uses a thread with its own event loop and blocks
    the calling thread. By default it also waits for background tasks: see `query`.
    """
    refuse_options("run_sync", misplaced)
    return run_anywhere(lambda: run(prompt, options, until=until, timeout=timeout, transport=transport))


class OneShot(Run):
    """A run that opens its own client with the first message or await, and closes it at the end."""

    _raises_at_end = True

    def __init__(
        self, options: ClientOptions, prompt: Prompt, until: Until, timeout: float | None, transport: Transport | None
    ) -> None:
        check_run_arguments(until, timeout)
        super().__init__(None, RunState(options.limits.mailbox_bytes, until, timeout))
        self._options = options
        self._prompt = prepare_prompt(prompt, verbatim=options.verbatim_prompts)
        self._transport = transport
        self._was_used = False
        """Whether it was awaited, iterated or entered."""
        self._failed: Exception | None = None
        """The error of a failed start, raised again by later awaits and iterations."""
        self._starting = anyio.Lock()

    async def _start(self) -> None:
        self._was_used = True
        async with self._starting:
            if self._failed is not None:
                raise self._failed
            if self._client is not None:
                return
            try:
                self._client = await self._send_prompt()
            except Exception as error:
                self._failed = error
                raise
            except BaseException:
                if self._transport is not None:
                    self._failed = ConnectionClosedError("the start was cancelled, which used up the transport")
                raise

    async def _send_prompt(self) -> Client:
        """Open the client and send the prompt. An error or a cancellation leaves no process behind."""
        client = await self._open_client()
        client.connection.runs.default_idle = DEFAULT_IDLE
        idle = self._state.until == "idle"
        client.connection.shutdown.advice = (
            "the run ended before they did" if idle else 'to wait for them, run until="idle"'
        )
        try:
            client.connection.runs.start(self._state, self._prompt)
        except BaseException:  # the CLI has ended already, say
            with anyio.CancelScope(shield=True):
                await self._close_client(client, "stop")
            raise
        return client

    async def _open_client(self) -> Client:
        """Return a connected client. An error or a cancellation leaves no process behind."""
        client = Client(self._options, transport=self._transport)
        await client.connect()
        return client

    async def _close_client(self, client: Client, tasks: TasksAtClose) -> None:
        """Close the client that this run opened. Idempotent."""
        await client.close(tasks=tasks)

    async def _release(self) -> None:
        assert self._client is not None  # noqa: S101 - it was started
        is_left = self._options.late_tasks == "leave" and self._state.late_tasks
        await self._close_client(self._client, "leave" if is_left else "stop")

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._release()

    def _abandon(self) -> None:
        """End the process, in any thread. The run may be incomplete, if its constructor raised."""
        client: Client | None = vars(self).get("_client")
        if client is not None and not client.is_closed:
            client.abort()

    def __del__(self) -> None:
        self._abandon()
        if not vars(self).get("_was_used", True):
            warnings.warn(
                "query(...) was never awaited, so its prompt was not sent: await it, or iterate over it",
                RuntimeWarning,
                stacklevel=2,  # the line that dropped it
                source=self,
            )


__all__ = ["InterruptReceipt", "Run", "query", "run", "run_sync"]
