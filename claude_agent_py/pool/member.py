"""`Member`: one process of a pool, from its start to its end. It serves one session at most.

`Crew` decides what happens to it; the worker in `live` does it.
"""

from __future__ import annotations

import logging
import math
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py._event_loop import worker
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


class Owner(Protocol):
    """What a member reports to: the crew."""

    def on_ready(self, member: Member) -> None:
        """It is connected."""
        ...

    def on_failed(self, member: Member, error: Exception) -> None:
        """It cannot be started."""
        ...

    def on_lost(self, member: Member, error: Exception) -> None:
        """It was a spare, and has died or does not answer."""
        ...

    def on_expired(self, member: Member) -> None:
        """It was a spare for too long."""
        ...

    def on_gone(self, member: Member) -> None:
        """Its process has ended."""
        ...


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
        self._scope = anyio.CancelScope()
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

    def _serves_nobody(self) -> bool:
        return self.phase is Phase.SPARE and not self.is_reserved

    def enter(self, phase: Phase) -> None:
        """Begin a phase."""
        self.phase, self.since = phase, anyio.current_time()

    def end(self, tasks: TasksAtClose = "stop") -> None:
        """End the process without waiting. Idempotent."""
        if self.phase is not Phase.CLOSING:
            self.tasks_at_close = tasks
            self.enter(Phase.CLOSING)
            self._scope.cancel()

    @worker
    async def live(self, owner: Owner, idle: float | None) -> None:
        """Run the process from start to end. The process has always ended when this returns or raises."""
        try:
            with self._scope:
                try:
                    await self.client.connect()
                except Exception as error:
                    owner.on_failed(self, error)
                    return
                owner.on_ready(self)
                await self._look_after(owner, idle)
        finally:
            self.phase = Phase.CLOSING
            with anyio.CancelScope(shield=True):
                await self._close()
            owner.on_gone(self)

    async def _look_after(self, owner: Owner, idle: float | None) -> None:
        """Return once the process is to end: it was lost or expired as a spare, or its user has closed it."""
        while self.phase is Phase.SPARE:
            expires = math.inf if idle is None else self.since + idle
            session = self.client.session
            with anyio.CancelScope(deadline=min(expires, anyio.current_time() + CHECK_EVERY)):
                await session.ending.stream_over.wait()
            error = session.ending.error if not session.is_open else await self._fault()
            if not self._serves_nobody():
                continue
            if error is not None:
                owner.on_lost(self, error)
                return
            if anyio.current_time() >= expires:
                owner.on_expired(self)
                return
        await self.client.wait_closed()

    async def _fault(self) -> Exception | None:
        """Return the error if the process does not answer, or None."""
        try:
            await self.client.control("get_binary_version", timeout=CHECK_TIMEOUT)
        except ClaudeAgentError as error:
            return error
        return None

    async def _close(self) -> None:
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
