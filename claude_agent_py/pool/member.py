"""`Member`: one process of a pool, from its start to its end. It serves one session at most.

`Crew` decides what happens to it.
"""

from __future__ import annotations

import logging
import math
from enum import Enum
from typing import TYPE_CHECKING, Final

import anyio

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._protocol.state import State
from claude_agent_py.client import Client
from claude_agent_py.pool.fitting import Wish

if TYPE_CHECKING:
    from claude_agent_py._runtime.session.ending import TasksAtClose

logger: logging.Logger = logging.getLogger("claude_agent_py")

CHECK_EVERY: Final = 30.0
"""Seconds between checks whether a spare still answers."""

CHECK_TIMEOUT: Final = 10.0
"""How long a spare may take to answer, in seconds. It takes milliseconds, but the machine may be busy."""


class Phase(Enum):
    """Where a member is in its life."""

    STARTING = "starting"
    SPARE = "spare"
    USED = "used"
    CLOSING = "closing"


class Member:
    """One process. Its phase says what it is for; only the pool makes it a spare or used."""

    def __init__(self, wish: Wish) -> None:
        self.made_for: Wish = wish
        self.client: Client = Client(wish.launch_options)
        self.phase: Phase = Phase.STARTING
        self.since: float = anyio.current_time()
        """When the phase began."""
        self.memory_bytes: int | None = None
        """The last measurement; None before the first."""
        self.is_reserved = False
        """Whether this spare is promised to a caller who has not taken it yet."""
        self.tasks_at_close: TasksAtClose = "stop"
        self.scope: anyio.CancelScope = anyio.CancelScope()
        """What the process does until it is to end."""
        self._is_left = self._ends_tasks = False

    @property
    def pid(self) -> int | None:
        """The process id; None before it started, and once it has ended."""
        session = vars(self.client).get("session")
        transport = None if session is None else session.transport
        return None if transport is None or transport.exit_code is not None else transport.pid

    def __repr__(self) -> str:
        return f"<Member {self.phase.value} {self.client!r}>"

    @property
    def is_ending(self) -> bool:
        """Whether the process is being ended, or has ended."""
        return self.phase is Phase.CLOSING

    @property
    def is_free(self) -> bool:
        """Whether it is a spare that is promised to nobody."""
        return self.phase is Phase.SPARE and not self.is_reserved

    def enter(self, phase: Phase) -> None:
        """Begin a phase."""
        self.phase, self.since = phase, anyio.current_time()

    def end(self, tasks: TasksAtClose = "stop") -> None:
        """End the process without waiting. Idempotent."""
        if self.phase is not Phase.CLOSING:
            self.tasks_at_close = tasks
            self.enter(Phase.CLOSING)
            self.scope.cancel()

    async def watch(self, idle: float | None) -> Exception | None:
        """Return the error of a spare that is lost; None once it is older than `idle`, or no spare any more."""
        while self.phase is Phase.SPARE:
            expires = math.inf if idle is None else self.since + idle
            session = self.client.session
            with anyio.CancelScope(deadline=min(expires, anyio.current_time() + CHECK_EVERY)):
                await session.ending.stream_over.wait()
            error = session.ending.error if not session.is_open else await self._fault()
            if self.is_free and (error is not None or anyio.current_time() >= expires):
                return error
        return None

    async def _fault(self) -> Exception | None:
        """Return the error if the process does not answer, or None."""
        try:
            await self.client.control("get_binary_version", timeout=CHECK_TIMEOUT)
        except ClaudeAgentError as error:
            return error
        return None

    async def close(self) -> None:
        """End the process, and wait until it has ended. Raises nothing."""
        self.phase = Phase.CLOSING
        try:
            await self.client.close(tasks=self.tasks_at_close)
            if self.client.session.state is State.LEFT:  # its tasks continue
                self._is_left = True
                if self._ends_tasks:
                    self.client.abort()
                await self.client.session.ending.wait_closed()
        except Exception:  # not expected: the slot must become free
            logger.exception("closing a process of a pool failed")

    def end_left_tasks(self) -> None:
        """End a process that was left to finish its tasks, without waiting."""
        self._ends_tasks = True
        if self._is_left:
            self.client.abort()
