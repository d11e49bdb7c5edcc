"""One prompt with a process of its own: `query`, `run` and `run_sync`.

Owns the life of that process: started with the first message or await, gone when the run is over or dropped. What a
run is stands in `runtime/run.py`. Twin: `client.py`, for a session that lives on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from claude_agent_py.client import Client
from claude_agent_py.errors import ConnectionClosedError
from claude_agent_py.event_loop import in_event_loop
from claude_agent_py.options.client_options import ClientOptions, options_or_defaults
from claude_agent_py.options.output_shape import Output
from claude_agent_py.runtime.prompts import Prompt, check_prompt, check_run_arguments, is_stream
from claude_agent_py.runtime.run import InterruptReceipt, Run

if TYPE_CHECKING:
    from claude_agent_py.protocol.turns import Until
    from claude_agent_py.runtime.result import RunResult
    from claude_agent_py.runtime.run_mailbox import RunMailbox
    from claude_agent_py.runtime.session import Session
    from claude_agent_py.transport import Transport

T = TypeVar("T")


def query(
    prompt: Prompt,
    options: ClientOptions[Output] | None = None,
    *,
    until: Until = "idle",
    timeout: float | None = None,
    transport: Transport | None = None,
) -> Run[Output]:
    """Give a run that has a CLI process of its own: iterate it for messages, await it for the `RunResult`.

    The process starts with the first message or await and is gone when the run is over, or when the run is dropped
    (a loop that is left early, say). It ends with the run, so `until` is `idle` by default: background tasks are
    waited for, and their follow-up turns belong to the run. **That has no limit by default**: a background shell that
    never ends (a server, say) is waited for for ever, with a warning after a minute. `Timeouts(idle=...)` limits the
    wait for tasks, `timeout` the whole run.

    A start that fails is the end of the run: whoever awaits or iterates it, then or later, gets the same error, and no
    further process is started. To try again, call `query` again. A start that was cancelled has not failed: the next
    await or iteration starts afresh.

    `transport` stands in for the process, as that of `Client` does.

    Raises:
        OptionsError: The prompt is empty or of a wrong type, or `options` is something else.
    """
    checked = options_or_defaults(options)
    check_run_arguments(until, timeout)
    if not is_stream(prompt):
        check_prompt(prompt)  # a bad one is an error here and not later
    return _OneShot(checked, prompt, until, timeout, transport)


async def run(
    prompt: Prompt,
    options: ClientOptions[Output] | None = None,
    *,
    until: Until = "idle",
    timeout: float | None = None,
    transport: Transport | None = None,
) -> RunResult[Output]:
    """Run one prompt to its end and give the result; the CLI process is gone then.

    By default it waits for background tasks, too, also for one that never ends: see `query`.

    Raises:
        RunError: The result is an error; it is attached.
        CLIError: The CLI could not be started, or ended under the run.
    """
    async with query(prompt, options, until=until, timeout=timeout, transport=transport) as one:
        return await one


def run_sync(
    prompt: Prompt,
    options: ClientOptions[Output] | None = None,
    *,
    until: Until = "idle",
    timeout: float | None = None,
    transport: Transport | None = None,
) -> RunResult[Output]:
    """Do what `run` does, from code that is not async.

    Works inside a running event loop, too (a notebook, say): it then runs in a thread with a loop of its own, and
    blocks the calling one. By default it waits for background tasks, too, also for one that never ends: see `query`.
    """
    return _run_anywhere(lambda: run(prompt, options, until=until, timeout=timeout, transport=transport))


def _run_anywhere(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    if not in_event_loop():
        return anyio.run(function)
    outcome: list[Callable[[], T]] = []
    worker = threading.Thread(target=lambda: outcome.append(_outcome_of(function)), name="claude_agent_py run_sync")
    worker.start()
    worker.join()
    return outcome[0]()


def _outcome_of(function: Callable[[], Coroutine[Any, Any, T]]) -> Callable[[], T]:
    try:
        value = anyio.run(function)
    except BaseException as error:
        failure = error

        def fail() -> T:
            raise failure

        return fail
    return lambda: value


class _OwnClient(Client):
    """The client of one run."""

    def __init__(self, options: ClientOptions, transport: Transport | None, advice: str) -> None:
        super().__init__(options, transport=transport)
        self._advice = advice


class _OneShot(Run):
    """A run with a client of its own, which starts with the first message or await and ends with the run."""

    def __init__(
        self, options: ClientOptions, prompt: Prompt, until: Until, timeout: float | None, transport: Transport | None
    ) -> None:
        super().__init__(None, None, None)
        self._options = options
        self._prompt = prompt
        self._until: Until = until
        self._timeout = timeout
        self._transport = transport
        self._failed: Exception | None = None
        """Why the start failed: for whoever asks again."""
        self._starting = anyio.Lock()

    async def _started(self) -> tuple[Session, RunMailbox]:
        async with self._starting:
            if self._failed is not None:
                raise self._failed
            if self._client is None:
                try:
                    await self._start()
                except Exception as error:
                    self._failed = error
                    raise
                except BaseException:
                    if self._transport is not None:
                        self._failed = ConnectionClosedError("the start was cancelled, which used up the transport")
                    raise
        return await super()._started()

    async def _start(self) -> None:
        """Start the process and send the prompt. After an error or a cancellation nothing is left behind."""
        idle = self._until == "idle"
        advice = "the run ended before they did" if idle else 'to wait for them, run until="idle"'
        client = _OwnClient(self._options, self._transport, advice)
        await client.connect()
        try:
            self._take(client.query(self._prompt, until=self._until, timeout=self._timeout))
        except BaseException:  # the CLI has ended already, say
            with anyio.CancelScope(shield=True):
                await client.close()
            raise

    async def _release(self) -> None:
        if self._client is not None:
            is_left = self._options.late_tasks == "leave" and self._mailbox is not None and self._mailbox.late_tasks
            await self._client.close(tasks="leave" if is_left else "stop")

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._release()  # which ends its work, too

    def __del__(self) -> None:
        client: Client | None = vars(self).get("_client")
        if client is not None:
            client.abort()


__all__ = ["InterruptReceipt", "Run", "query", "run", "run_sync"]
