"""`Worker`: runs sessions of a fleet on this machine. Each engine has its own kind."""

import os
import platform
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, Final, Self

import anyio
from anyio.abc import TaskGroup

from claude_agent_py._base.checks import read_size
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.event_loop import Wakeup, run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.fleet._folders import SessionFolder, needs_folder
from claude_agent_py.fleet._health import Address, parse_address
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet.workspaces import safe_name
from claude_agent_py.transport import can_measure, tree_memory

PRUNE_SECONDS: Final = 3600.0
"""The longest pause in seconds between deletions of what is old."""
SESSION_BYTES = 300 * 1024 * 1024
"""The expected memory of a session before the first measurement."""


class Worker(ABC):
    """A worker of a fleet, created by `Fleet.worker`. Use it with `async with`.

    Leaving the block returns running sessions to the fleet, where another worker continues their turns.
    """

    def __init__(
        self,
        settings: FleetSettings,
        *,
        sessions: int = 16,
        memory: int | str | None = None,
        machine: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        health: str | int | None = None,
    ) -> None:
        if sessions < 1:
            raise OptionsError("must be a positive number", option="sessions")
        self._fleet = settings
        self._store = settings.store
        self._slots = sessions
        self._memory = None if memory is None else read_size(memory, option="memory")
        self._memory_used = 0
        self.machine: str = machine or platform.node()
        """The name of the machine, for workspaces."""
        self.id: str = f"{self.machine}-{os.getpid()}-{secrets.token_hex(3)}"
        """The worker's name in the fleet."""
        self._given_folder = None if folder is None else Path(folder).absolute()
        self._folder = Path()
        """The folder for the workspaces of this fleet."""
        self._executions: dict[str, Any] = {}
        """The sessions that run in this worker, by id."""
        self.is_open: bool = False
        """Whether it runs sessions. Internal."""
        self._is_draining = False
        self.health: Address | None = None if health is None else parse_address(health)
        """The address of its HTTP server for probes and metrics."""
        self._group: TaskGroup
        self._wakeup: Wakeup | None = None
        self._drained = anyio.Event()
        """Set when the worker drains and no session runs any more."""

    def __repr__(self) -> str:
        draining = ", draining" if self._is_draining else ""
        return f"<Worker {self.id}, {len(self._executions)} of {self._slots} sessions{draining}>"

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open the worker."""

    @abstractmethod
    async def __aexit__(self, *exc: object) -> None:
        """Return running sessions to the fleet."""

    @abstractmethod
    async def drain(self, grace: float | None = None) -> None:
        """Take no more sessions, and wait until the running ones have ended.

        Those that still run after `grace` seconds are released, and go on in other workers.
        """

    async def wait_drained(self) -> None:
        """Wait until the worker was asked to drain and its sessions have ended."""
        await self._drained.wait()

    def wake(self) -> None:
        """Look for work immediately. Thread-safe. Internal."""
        if self._wakeup is not None:
            self._wakeup.set()

    async def _measure_memory(self, pids: Collection[int] | None = None) -> None:
        """Measure these processes and those below them; None means this process."""
        if self._memory is not None:
            self._memory_used = sum((await tree_memory([os.getpid()] if pids is None else pids)).values())

    def _count_free_slots(self, taken: int) -> int:
        """Return how many more sessions this worker can run."""
        free = self._slots - taken
        if self._memory is None:
            return free
        expected = taken * SESSION_BYTES
        used = max(self._memory_used, expected) if can_measure() else expected
        return min(free, int((self._memory - used) // SESSION_BYTES))

    def _get_folder(self, fleet: str, session: str, cli_session: str) -> SessionFolder:
        return SessionFolder(self._folder / safe_name(session), f"{fleet} {cli_session}")

    async def _remove_workspace(self, folder: SessionFolder, agent: str, version: str, session: str) -> None:
        found = self._fleet.agents.get((agent, version))
        if found is None or found.workspace is None or not needs_folder(found):
            return
        try:
            await run_file_work(folder.free, found.workspace, session)
        except Exception as error:  # also RecursionError, if an agent nests a thousand folders
            logger.warning("the workspace of session %s could not be removed: %r", session, error)

    @abstractmethod
    async def _prune(self, seconds: float) -> None:
        """Delete old sessions and their workspaces on this machine."""

    @abstractmethod
    async def _prune_events(self, seconds: float) -> None:
        """Delete old events."""

    def _start_pruning(self) -> None:
        for seconds, prune in (
            (self._fleet.event_retention, self._prune_events),
            (self._fleet.retention, self._prune),
        ):
            if seconds is not None:
                self._group.start_soon(self._run_pruning, seconds, prune)

    async def _run_pruning(self, seconds: float, prune: Callable[[float], Awaitable[None]]) -> None:
        """Delete what is old, periodically, until cancelled."""
        while True:
            try:
                await prune(seconds)
            except Exception as error:
                logger.warning("worker %s could not delete what is old: %s", self.id, error, exc_info=error)
            await anyio.sleep(min(max(seconds / 10, 1.0), PRUNE_SECONDS))
