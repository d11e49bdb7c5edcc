"""`PooledProcess`: one process of a pool, from start to end. It serves at most one session.

`PoolCore` decides when it starts, is handed out and ends.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

import anyio

from claude_agent_py._base.errors import ClaudeAgentError
from claude_agent_py._base.log import logger
from claude_agent_py.client import Client
from claude_agent_py.messages import Prompt
from claude_agent_py.options import ClientOptions
from claude_agent_py.pool.compatibility import SessionRequest, find_change
from claude_agent_py.runs import OneShot, TasksAtClose, Until

CHECK_EVERY: Final = 30.0
"""Seconds between checks whether a spare still answers."""

CHECK_TIMEOUT: Final = 10.0
"""Seconds that a spare may take to answer. It usually takes milliseconds, but the machine may be busy."""


class Phase(Enum):
    """The phase of a pooled process."""

    STARTING = "starting"
    SPARE = "spare"
    RESERVED = "reserved"
    """For a caller that has not received it yet."""
    USED = "used"
    CLOSING = "closing"


READY: Final = (Phase.SPARE, Phase.RESERVED)


class PooledProcess:
    """One process. Only `PoolCore` makes it a spare or hands it out."""

    def __init__(self, request: SessionRequest) -> None:
        self.made_for: SessionRequest = request
        self.client: Client = Client(request.launch_options)
        self.phase: Phase = Phase.STARTING
        self.since: float = anyio.current_time()
        """When the phase began."""
        self.memory_bytes: int | None = None
        """The last measurement; None before the first."""
        self.tasks_at_close: TasksAtClose = "stop"
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """Cancelled to end the process."""

    @property
    def pid(self) -> int | None:
        """The process id while the session is open, otherwise None."""
        return self.client.pid if self.client.is_open else None

    def enter(self, phase: Phase) -> None:
        """Begin a phase."""
        self.phase = phase
        self.since = anyio.current_time()

    def end(self, tasks: TasksAtClose = "stop") -> None:
        """End the process without waiting. Idempotent."""
        if self.phase is not Phase.CLOSING:
            self.tasks_at_close = tasks
            self.enter(Phase.CLOSING)
            self.scope.cancel()

    async def become(self, request: SessionRequest, deadline: float = math.inf) -> None:
        """Turn the process into the requested session. If that fails, end it.

        Raises:
            ControlError: The CLI refuses the change.
            CLIExitError: It has exited.
            TimeoutError: It does not answer like a healthy spare, or by the deadline.
        """
        change = find_change(self.made_for, request)
        assert change is not None  # noqa: S101 - `PoolCore.next` returns only processes that can serve the request
        try:
            if not self.client.is_open:
                raise self.client.session.error
            with anyio.fail_after(min(CHECK_TIMEOUT, deadline - anyio.current_time())):
                await change.apply(self.client, request.options)
        except BaseException:
            self.end()
            raise

    async def watch(self, idle: float | None) -> Exception | None:
        """Return the error of a lost spare, or None once it is older than `idle` or no longer a spare."""
        while self.phase in READY:
            expires = math.inf if idle is None else self.since + idle
            session = self.client.session
            with anyio.CancelScope(deadline=min(expires, anyio.current_time() + CHECK_EVERY)):
                await session.stream_over.wait()
            error = await self._check_health() if session.is_open else session.error
            if self.phase is Phase.SPARE and (error is not None or anyio.current_time() >= expires):
                return error
        return None

    async def _check_health(self) -> Exception | None:
        """Return the error, or None if the process answers."""
        try:
            await self.client.control("get_binary_version", timeout=CHECK_TIMEOUT)
        except ClaudeAgentError as error:
            return error
        return None

    async def close(self) -> None:
        """End the process and wait until it has ended. Never raises."""
        self.phase = Phase.CLOSING
        try:
            await self.client.close(tasks=self.tasks_at_close)
            # The process continues until its tasks have ended.
            if self.client.session.state == "left":
                await self.client.connection.shutdown.wait_closed()
        except Exception:
            # Unexpected, but the slot must become free.
            logger.exception("closing a process of a pool failed")

    def end_left_tasks(self) -> None:
        """End a process that was left to finish its tasks, without waiting."""
        self.tasks_at_close = "stop"
        if self.client.session.state == "left":
            self.client.abort()


class PooledRun(OneShot):
    """A run that acquires a process at the first message or await, and ends it in the background after the run."""

    def __init__(
        self,
        take: Callable[[ClientOptions, float | None], Awaitable[PooledProcess]],
        options: ClientOptions,
        prompt: Prompt,
        until: Until,
        timeout: float | None,
    ) -> None:
        super().__init__(options, prompt, until, timeout, None)
        self._take_process = take
        self._process: PooledProcess | None = None

    async def _open_client(self) -> Client:
        self._process = await self._take_process(self._options, None)
        return self._process.client

    async def _close_client(self, client: Client, tasks: TasksAtClose) -> None:
        assert self._process is not None  # noqa: S101 - the client is that of the process
        self._process.end(tasks)

    def _abandon(self) -> None:
        process: PooledProcess | None = vars(self).get("_process")
        if process is not None and process.phase is not Phase.CLOSING:
            # The worker of the process then cleans up.
            process.client.abort()
