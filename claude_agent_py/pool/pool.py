"""`Pool`: sessions on pre-started processes. See also `core.py`, which has the queue."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Generic, Never, Self, TypeVar, overload

import anyio

from claude_agent_py._base.checks import check_count, check_seconds
from claude_agent_py._base.errors import (
    CLIExitError,
    ConnectionClosedError,
    ControlError,
    LocalProtocolError,
    OptionsError,
)
from claude_agent_py._base.log import logger
from claude_agent_py.client import Client
from claude_agent_py.messages import Prompt
from claude_agent_py.options import ClientOptions, options_or_defaults, refuse_options
from claude_agent_py.pool.compatibility import SessionRequest, check_for_parking, check_for_pool
from claude_agent_py.pool.core import PoolCore
from claude_agent_py.pool.outcome import Output
from claude_agent_py.pool.pooled_process import PooledProcess, PooledRun
from claude_agent_py.pool.targets import PoolStats, SpareTarget, read_memory_limit
from claude_agent_py.runs import Run, RunResult, Until

Other = TypeVar("Other")


class Pool(Generic[Output]):
    """Starts CLI processes ahead, and hands each out for one session.

    Use it as `async with Pool(options) as pool`, or call `open()` and `close()` yourself, each from any worker. The
    methods may be called concurrently, on asyncio and trio.

    A process serves one session and is closed afterwards, so conversations cannot mix.

    Args:
        options: The options of the sessions; None means `ClientOptions()`. They must not name one session (`resume`).
        size: How many spares to keep ready. No spare starts while callers wait for a process.
        parked: How many additional spares to keep that receive their directory when they are handed out. They also
            serve sessions with another `cwd`. The options must not depend on the directory: no external MCP servers,
            plugins, settings, sandbox, session store, additional directories or `spawn`.
        max_size: The maximum number of processes: spare, in use, starting or closing.
        idle: Seconds after which a new process, which has read the current project files, replaces a spare; None means
            never.
        memory: The maximum resident memory of all processes and their descendants, in bytes or as text (`"4GiB"`). The
            pool starts no process that would exceed it, and closes spares that do. Sessions in use are left alone, and
            one process is always allowed. Measured on Linux and macOS.
        timeout: Seconds that a caller waits for a process; None means no limit.

    Raises:
        OptionsError: An argument is invalid, or the system cannot measure memory.
    """

    def __init__(
        self,
        options: ClientOptions[Output] | None = None,
        *,
        size: int = 4,
        parked: int = 0,
        max_size: int = 16,
        idle: float | None = 300.0,
        memory: int | str | None = None,
        timeout: float | None = None,
        **misplaced: Never,
    ) -> None:
        refuse_options("Pool", misplaced)
        self._options: ClientOptions[Output] = check_for_pool(options_or_defaults(options))
        check_count(size, "size", 0)
        check_count(max_size, "max_size", 1)
        bytes_allowed = read_memory_limit(memory)
        check_count(parked, "parked", 0)
        if size + parked > max_size:
            raise OptionsError(f"must not exceed max_size ({max_size})", option="size")
        targets = [SpareTarget(self._options, size)]
        if parked:
            check_for_parking(self._options)
            targets.append(SpareTarget(self._options, parked, is_parked=True))
        self._timeout = check_seconds(timeout, "timeout")
        self._core = PoolCore(targets, max_size, bytes_allowed, check_seconds(idle, "idle"))

    def __repr__(self) -> str:
        stats = self.stats()
        return f"<Pool {stats.spares} spares, {stats.used} used, {stats.waiting} waiting>"

    # Lifecycle --------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the first spares, without waiting for them.

        Raises:
            LocalProtocolError: The pool was opened before; a pool opens once.
        """
        if self._core.is_opened:
            raise LocalProtocolError("open() was called already; a pool can only be used once, create a new one")
        await self._core.open()

    async def close(self) -> None:
        """Close all sessions, including those in use, and wait until no process is left. Idempotent.

        Callers in the queue get a `ConnectionClosedError`. Takes at most `Timeouts.close` of the sessions. Cancelling
        stops the waiting, not the closing. In a handler or hook of one of its sessions, it returns once closing has
        started, because closing waits for the handlers.
        """
        if self._core.is_opened:
            await self._core.close()

    async def drain(self, timeout: float | None = None) -> None:
        """Refuse new callers, wait until the queue is served and all sessions are returned, then close.

        Args:
            timeout: Seconds after which the remaining sessions are closed; None means no limit.

        Cancelling stops the waiting; the pool keeps refusing, until it is closed.

        Raises:
            LocalProtocolError: A handler or hook of one of the sessions called it, and would wait for itself.
        """
        core = self._core
        limit = check_seconds(timeout, "timeout")
        if core.is_called_from_session:
            raise LocalProtocolError("a pool cannot be drained by a handler of one of its own sessions")
        core.is_draining = True
        with anyio.move_on_after(limit):
            while core.is_serving:
                await core.changed.wait()
        await self.close()

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until all spares are ready, or until `max_size` or `memory` allows no more.

        Raises:
            CLINotFoundError, CLIStartError, OptionsError, ...: A spare could not be started, as in
                `Client.connect`.
            TimeoutError: The spares were not ready within `timeout` seconds.
            ConnectionClosedError: The pool is not open, or is closing.
        """
        core = self._core
        with anyio.fail_after(timeout):
            while True:
                core.check_open()
                core.dispatch()
                if not (core.stats().starting or core.is_putting_off):
                    break
                await core.changed.wait(core.seconds_to_next_check())
        if core.last_error is not None and any(target.failures for target in core.targets):
            raise core.last_error

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Sessions ----------------------------------------------------------------------------------------------------

    @overload
    def client(
        self, options: None = None, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Client[Output]]: ...
    @overload
    def client(
        self, options: ClientOptions[Other], *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Client[Other]]: ...
    @asynccontextmanager
    async def client(
        self, options: ClientOptions | None = None, *, timeout: float | None = None, **misplaced: Never
    ) -> AsyncIterator[Client]:
        """Use a connected client: `async with pool.client() as client`. It closes afterwards, in the background.

        Callers are served in order. A cancellation loses no process and leaves none behind.

        Args:
            options: Other options than the pool's: `pool_options.replace(...)`. A spare is used if only
                `model` and `permission_mode` differ, a parked one if `cwd` also differs. Otherwise a process starts,
                within the limits.
            timeout: Seconds to wait for a process; None means the `timeout` of the pool. With 0 it has to be a spare
                that is ready.
            **misplaced: Options belong in `options`; here they are a TypeError.

        Raises:
            PoolTimeoutError: No process was free in time.
            ConnectionClosedError: The pool is closed or draining.
            CLIStartError, OptionsError, ...: The process could not be started, as in `Client.connect`.
        """
        refuse_options("Pool.client", misplaced)
        process = await self.take(options, timeout)
        try:
            yield process.client
        finally:
            process.end()

    @overload
    def query(
        self, prompt: Prompt, options: None = None, *, until: Until = "idle", timeout: float | None = None
    ) -> Run[Output]: ...
    @overload
    def query(
        self, prompt: Prompt, options: ClientOptions[Other], *, until: Until = "idle", timeout: float | None = None
    ) -> Run[Other]: ...
    def query(
        self,
        prompt: Prompt,
        options: ClientOptions | None = None,
        *,
        until: Until = "idle",
        timeout: float | None = None,
        **misplaced: Never,
    ) -> Run:
        """Return a run in a separate session, like the function `query`, on a process of the pool.

        The first message or await waits for a process, at most for the pool's `timeout`. The run's `timeout` counts
        from the prompt. The process ends in the background after the run.

        Raises:
            OptionsError: The prompt is empty, or an argument has the wrong type.
        """
        refuse_options("Pool.query", misplaced)
        return PooledRun(self.take, options_or_defaults(options or self._options), prompt, until, timeout)

    @overload
    async def run(
        self, prompt: Prompt, options: None = None, *, until: Until = "idle", timeout: float | None = None
    ) -> RunResult[Output]: ...
    @overload
    async def run(
        self, prompt: Prompt, options: ClientOptions[Other], *, until: Until = "idle", timeout: float | None = None
    ) -> RunResult[Other]: ...
    async def run(
        self,
        prompt: Prompt,
        options: ClientOptions | None = None,
        *,
        until: Until = "idle",
        timeout: float | None = None,
        **misplaced: Never,
    ) -> RunResult:
        """Run one prompt in a separate session and return its result, like the function `run`.

        Raises:
            RunError: The result is an error; it is the `result` of the exception.
            PoolTimeoutError, ConnectionClosedError, CLIStartError, ...: As in `client`.
        """
        refuse_options("Pool.run", misplaced)
        async with self.query(prompt, options, until=until, timeout=timeout) as run:
            return await run

    async def warm(self, options: ClientOptions | None = None, *, size: int, **misplaced: Never) -> None:
        """Keep this many spares for some options from now on; 0 keeps none. None means the options of the pool.

        Spares for the pool's options start first, then those for other options in the order of the calls.
        Does not wait for them.

        Raises:
            OptionsError: `size` is negative, or the options name one session.
            ConnectionClosedError: The pool is not open.
        """
        refuse_options("Pool.warm", misplaced)
        core = self._core
        check_count(size, "size", 0)
        core.check_open()
        wanted = check_for_pool(options_or_defaults(options or self._options))
        target = core.find_target(SessionRequest.for_options(wanted))
        if target is None:
            core.targets.append(target := SpareTarget(wanted, size))
        target.size = size
        if not size and target is not core.targets[0]:
            core.targets.remove(target)
        core.changed.set()

    @property
    def options(self) -> ClientOptions[Output]:
        """The options of the sessions."""
        return self._options

    def stats(self) -> PoolStats:
        """Return a snapshot of the pool."""
        return self._core.stats()

    def check_accepting(self) -> None:
        """Raise unless the pool accepts callers. Internal to this package.

        Raises:
            ConnectionClosedError: The pool is not open, is draining, or is closed.
        """
        self._core.check_open()
        if self._core.is_draining:
            raise ConnectionClosedError("the pool is draining and accepts no new callers")

    async def take(self, options: ClientOptions | None, timeout: float | None) -> PooledProcess:
        """Return a process that serves the requested session. The caller has to `end` it. Internal to this package."""
        limit = self._timeout if timeout is None else timeout and check_seconds(timeout, "timeout")
        request = SessionRequest.for_options(options_or_defaults(options or self._options))
        self.check_accepting()
        deadline = math.inf if limit is None else anyio.current_time() + limit
        process, is_warm = await self._core.next(request, deadline, limit or 0.0)
        try:
            await process.become(request, deadline if limit else math.inf)
        except (ControlError, CLIExitError, TimeoutError) as error:
            # Retry with a process started for this request: its start raises a more precise error.
            logger.info("a spare could not become the requested session: %s", error)
            process, _ = await self._core.next(replace(request, is_exact=True), deadline, limit or 0.0)
            await process.become(request)
            is_warm = False
        self._core.note_use(process, "warm" if is_warm else "cold")
        return process
