"""`Pool`: sessions with processes that were started ahead. Twin: `crew.py`, which has the processes and the queue."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import anyio

from claude_agent_py._errors import (
    CLIExitError,
    ConnectionClosedError,
    ControlError,
    LocalProtocolError,
    OptionsError,
)
from claude_agent_py.client import Client
from claude_agent_py.options.client_options import ClientOptions, options_or_defaults
from claude_agent_py.options.output_shape import Output
from claude_agent_py.pool.crew import Crew
from claude_agent_py.pool.fitting import Wish, change_to, check_for_parking, check_for_pool
from claude_agent_py.pool.member import Member
from claude_agent_py.pool.planning import Supply, check_count, checked_memory, checked_seconds
from claude_agent_py.pool.stats import PoolStats

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from claude_agent_py._protocol.open_runs import Until
    from claude_agent_py._runtime.runs.prompts import Prompt
    from claude_agent_py._runtime.runs.result import RunResult
    from claude_agent_py._runtime.runs.run import Run

logger: logging.Logger = logging.getLogger("claude_agent_py")

Other = TypeVar("Other")


class Pool(Generic[Output]):
    """Starts CLI processes ahead, and hands each out for one session.

    Use it as `async with Pool(options) as pool`, or call `open()` and `close()` yourself, each from any worker. All
    methods may be called from any number of workers at once, on asyncio and trio.

    A process that has been handed out is closed afterwards and never serves somebody else, so conversations cannot mix.

    Args:
        options: The options of the sessions; None means `ClientOptions()`. They may not name one session (`resume`).
        size: How many spares to keep ready. None are started while callers wait for a process with other options.
        parked: How many further spares to keep that take their directory when they are handed out, for sessions that
            differ from the pool's options in `cwd`, too. The options may not name what depends on the directory:
            external MCP servers, plugins, settings, a sandbox, a session store, additional directories, `spawn`.
        max_size: How many processes there may be at once: spares, those in use, and those that start or end.
        idle: Seconds after which a spare is replaced by a new one, which has read the project's files anew; None means
            never.
        memory: The most resident memory of all processes and what they start, in bytes or as text (`"4GiB"`). No
            process is started, and spares are closed, where it would be exceeded; sessions in use are left alone, and
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
    ) -> None:
        self._options: ClientOptions[Output] = check_for_pool(options_or_defaults(options))
        check_count(size, "size", 0)
        check_count(max_size, "max_size", 1)
        bytes_allowed = checked_memory(memory)
        check_count(parked, "parked", 0)
        if size + parked > max_size:
            raise OptionsError(f"must not exceed max_size ({max_size})", option="size")
        supplies = [Supply(self._options, size)]
        if parked:
            check_for_parking(self._options)
            supplies.append(Supply(self._options, parked, is_parked=True))
        self._timeout = checked_seconds(timeout, "timeout")
        self._crew = Crew(supplies, max_size, bytes_allowed, checked_seconds(idle, "idle"))

    def __repr__(self) -> str:
        stats = self.stats()
        return f"<Pool {stats.spares} spares, {stats.used} used, {stats.waiting} waiting>"

    # Life --------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the first spares, without waiting for them.

        Raises:
            LocalProtocolError: It was called before; a pool opens once.
        """
        if self._crew.is_opened:
            raise LocalProtocolError("open() was called already; a pool is used once, make a new one")
        await self._crew.open()

    async def close(self) -> None:
        """Close all sessions, also those in use, and wait until no process is left. Idempotent.

        Callers in the queue get a `ConnectionClosedError`. Takes at most `Timeouts.close` of the sessions. Cancelling
        stops the waiting, not the closing. Called in a handler or hook of one of its sessions, it returns once closing
        has begun, because closing waits for them.
        """
        if self._crew.is_opened:
            await self._crew.close()

    async def drain(self, timeout: float | None = None) -> None:
        """Refuse new callers, wait until those in the queue are served and all sessions are given back, then close.

        Args:
            timeout: Seconds after which the remaining sessions are closed; None means no limit.

        Cancelling stops the waiting; the pool keeps refusing, until it is closed.

        Raises:
            LocalProtocolError: It is called in a handler or hook of one of its sessions, and would wait for itself.
        """
        crew, limit = self._crew, checked_seconds(timeout, "timeout")
        if crew.is_caller_served:
            raise LocalProtocolError("a pool cannot be drained by a handler of one of its own sessions")
        crew.refuses = True
        with anyio.move_on_after(limit):
            while crew.is_serving:
                await crew.changed.wait()
        await self.close()

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until all spares are ready, or until `max_size` or `memory` allows no more.

        Raises:
            CLINotFoundError, CLIStartError, OptionsError, ...: A spare could not be started, as `Client.connect`
                raises it.
            TimeoutError: They were not ready within `timeout` seconds.
            ConnectionClosedError: The pool is not open, or closes.
        """
        crew = self._crew
        with anyio.fail_after(timeout):
            while True:
                crew.check_open()
                crew.dispatch()
                if not crew.stats().starting:
                    break
                await crew.changed.wait()
        if crew.last_error is not None and any(supply.failures for supply in crew.roster.supplies):
            raise crew.last_error

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
        self, options: ClientOptions[Any] | None = None, *, timeout: float | None = None
    ) -> AsyncIterator[Client[Any]]:
        """Use a connected client: `async with pool.client() as client`. It is closed afterwards, in the background.

        Callers are served in order. A cancellation loses no process and leaves none behind.

        Args:
            options: Other options than the pool's: `pool_options.replace(...)`. A spare is used if they differ in
                nothing but `model` and `permission_mode`, and a parked one if they differ in `cwd`, too; otherwise a
                process is started, within the bounds.
            timeout: Seconds to wait for a process; None means that of the pool.

        Raises:
            PoolTimeoutError: None was free in time.
            ConnectionClosedError: The pool is closed, or drains.
            CLIStartError, OptionsError, ...: The process could not be started, as `Client.connect` raises it.
        """
        member = await self.take(options, timeout)
        try:
            yield member.client
        finally:
            member.end()

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
        options: ClientOptions[Any] | None = None,
        *,
        until: Until = "idle",
        timeout: float | None = None,
    ) -> Run[Any]:
        """Return a run in a session of its own, like the function `query`, with a process of the pool.

        It waits for a process with the first message or await, at most as long as the pool's `timeout`; its own
        `timeout` counts from the prompt. The process ends in the background after the run.

        Raises:
            OptionsError: The prompt is empty, or an argument has the wrong type.
        """
        from claude_agent_py.pool.pooled_run import PooledRun

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
        options: ClientOptions[Any] | None = None,
        *,
        until: Until = "idle",
        timeout: float | None = None,
    ) -> RunResult[Any]:
        """Run one prompt in a session of its own and return its result, like the function `run`.

        Raises:
            RunError: The result is an error; the exception has it as `result`.
            PoolTimeoutError, ConnectionClosedError, CLIStartError, ...: As in `client`.
        """
        async with self.query(prompt, options, until=until, timeout=timeout) as one:
            return await one

    async def warm(self, options: ClientOptions[Any] | None = None, *, size: int) -> None:
        """Keep this many spares for some options from now on; 0 keeps none. None means the options of the pool.

        Spares of the pool's own options come first, then in the order of the calls. Returns at once.

        Raises:
            OptionsError: `size` is negative, or the options name one session.
            ConnectionClosedError: The pool is not open.
        """
        crew = self._crew
        check_count(size, "size", 0)
        crew.check_open()
        wanted = check_for_pool(options_or_defaults(options or self._options))
        supply = crew.roster.supply_for(wanted)
        if supply is None:
            crew.roster.supplies.append(supply := Supply(wanted, size))
        supply.size = size
        if not size and supply is not crew.roster.supplies[0]:
            crew.roster.supplies.remove(supply)
        crew.changed.set()

    def stats(self) -> PoolStats:
        """Return a snapshot."""
        return self._crew.stats()

    def check_takes(self) -> None:
        """Raise unless callers are taken. Internal to this package.

        Raises:
            ConnectionClosedError: The pool is not open, drains, or is closed.
        """
        self._crew.check_open()
        if self._crew.refuses:
            raise ConnectionClosedError("the pool drains, and takes nobody any more")

    async def take(self, options: ClientOptions[Any] | None, timeout: float | None) -> Member:
        """Return a process that has become the session that is asked for. Internal to this package: `end` it."""
        limit = self._timeout if timeout is None else checked_seconds(timeout, "timeout")
        wish = Wish.of(options_or_defaults(options or self._options))
        self.check_takes()
        deadline = math.inf if limit is None else anyio.current_time() + limit
        member, is_warm = await self._crew.next(wish, deadline, limit or 0.0)
        problem = await self._change(member, wish)
        if problem is not None:  # a process of its own tells more
            logger.info("a spare could not become the session that was asked for: %s", problem)
            member, is_warm = (await self._crew.next(wish.exactly(), deadline, limit or 0.0))[0], False
        self._crew.note_use(member, "warm" if is_warm else "cold")
        return member

    async def _change(self, member: Member, wish: Wish) -> Exception | None:
        """Make a process the session that was asked for. End it and return the error if it cannot become that."""
        change = change_to(member.made_for, wish)
        try:
            if change is None or not member.client.is_open:
                raise member.client.session.ending.error
            await change.apply(member.client, wish.options)
        except (ControlError, CLIExitError) as error:
            member.end()
            return error
        except BaseException:
            member.end()
            raise
        return None
