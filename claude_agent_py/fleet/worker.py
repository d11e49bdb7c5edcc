"""`Worker`: runs sessions of a fleet on this machine, and adopts those of workers that died."""

import logging
import os
import platform
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

import anyio

from claude_agent_py._errors import ClaudeAgentError, FleetError, OptionsError
from claude_agent_py._event_loop import Wakeup, in_trio, run_file_work
from claude_agent_py._memory import can_measure, read_size, tree_memory
from claude_agent_py.fleet import _claims, _pruning, _rows
from claude_agent_py.fleet._choosing import Place, is_work
from claude_agent_py.fleet._database import Database
from claude_agent_py.fleet._engine import apply_schedules, delete_queue, execute, launch, shut_down
from claude_agent_py.fleet._hold import Hold
from claude_agent_py.fleet._store import Pulse
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.workspaces import safe_name
from claude_agent_py.sessions.stores.protocol import SessionStore

logger: logging.Logger = logging.getLogger("claude_agent_py")

T = TypeVar("T")

BRIEF_SECONDS: Final = 2.0
"""For how long a worker tries what it does again and again."""
SESSION_BYTES: Final = 300 * 1024 * 1024
"""What a session is expected to use, before it is measured."""
PRUNE_SECONDS: Final = 3600.0
"""How often a worker deletes old sessions at least, if it is to."""


class Home(Protocol):
    """What a worker needs of its `Fleet`."""

    database: Database
    lease: float
    poll: float
    tenant_limit: int | None
    max_crashes: int
    retention: float | None
    agents: dict[tuple[str, str], FleetAgent]
    schedules: dict[str, dict[str, Any]]
    open_worker: "Worker | None"


class Worker:
    """A worker of a fleet; made by `Fleet.worker`. Use it as `async with`, on asyncio.

    Leaving the block gives the sessions that run back to the fleet, where their turns go on.
    """

    def __init__(
        self,
        fleet: Home,
        store: SessionStore,
        *,
        sessions: int = 16,
        memory: int | str | None = None,
        machine: str | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if sessions < 1:
            raise OptionsError("must be a positive number", option="sessions")
        self._fleet = fleet
        self._store = store
        self._database = fleet.database
        self._slots = sessions
        self._memory = None if memory is None else read_size(memory, option="memory")
        self._memory_used = 0
        self.machine: str = machine or platform.node()
        """The name of the machine, for workspaces."""
        self.id: str = f"{self.machine}-{os.getpid()}-{secrets.token_hex(3)}"
        """The worker's name in the fleet."""
        self._row: dict[str, Any] = {"id": self.id, "machine": self.machine, "pid": os.getpid()}
        self._row |= {"slots": sessions, "memory": self._memory}
        there = folder if folder is not None else Path(tempfile.gettempdir()) / "claude-agent-py-fleet"
        self._folder = Path(there).absolute()
        self._holds: dict[str, Hold] = {}
        self._pulse = Pulse(fleet.lease)
        self._is_draining = False
        self._claiming = anyio.Lock()
        self._wakeup: Wakeup | None = None
        self._is_over = anyio.Event()
        """Set when it drains and nothing runs."""

    def __repr__(self) -> str:
        drains = ", draining" if self._is_draining else ""
        return f"<Worker {self.id}, {len(self._holds)} of {self._slots} sessions{drains}>"

    # Life ------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if in_trio():
            raise FleetError("a fleet's worker runs on asyncio only, because DBOS does: anyio.run(main)")
        self._known = list(self._fleet.agents.values())
        if not self._known:
            raise OptionsError("register an agent first: fleet.agent(...)", option="agents")
        async with AsyncExitStack() as stack:
            before = self._pulse.now()
            await self._database.call(_claims.register, self._row, self._fleet.lease, self._known)
            self._pulse.beat(*before)
            stack.push_async_callback(self._sign_off)
            await launch(self.id, self._database.url, self._holds, self._fire)
            stack.push_async_callback(shut_down, self.id)
            await apply_schedules(self._fleet.schedules)
            self._group = await stack.enter_async_context(anyio.create_task_group())
            self._ending = stack.pop_all()
        self._fleet.open_worker = self
        self._group.start_soon(self._live)
        self._group.start_soon(self._take)
        if self._fleet.retention is not None:
            self._group.start_soon(self._prune, self._fleet.retention)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._fleet.open_worker = None
        self._is_draining = True
        with anyio.CancelScope(shield=True):
            for hold in list(self._holds.values()):
                hold.stop("released")
            for hold in list(self._holds.values()):
                await hold.finished.wait()
        self._group.cancel_scope.cancel()
        await self._ending.aclose()

    async def _sign_off(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._database.call(_claims.leave, self.id, patience=5.0)
            except ClaudeAgentError as error:
                logger.warning("worker %s cannot sign off: %s", self.id, error)

    async def drain(self) -> None:
        """Take no more sessions, and return when those that run are over."""
        self._is_draining = True
        self.wake()
        try:
            await self._database.call(_rows.drain, self.id, patience=5.0)  # so that `Fleet.workers` tells
        except FleetError as error:
            logger.warning("worker %s cannot tell that it drains: %s", self.id, error)
        await self._is_over.wait()

    async def wait_drained(self) -> None:
        """Return when somebody else has asked it to drain, and what ran is over."""
        await self._is_over.wait()

    def wake(self) -> None:
        """Look for work at once. From any thread. Internal."""
        if self._wakeup is not None:
            self._wakeup.set()

    async def _fire(self, at: datetime, wanted: Mapping[str, Any]) -> None:
        """Start the session of a schedule."""
        name = f"{wanted['name']}@{at.strftime('%Y-%m-%dT%H:%M:%S')}"
        new = _rows.NewSession(name, wanted["agent"], None, wanted["tenant"], wanted["priority"])
        await self._database.call(_rows.start, new, wanted["prompt"], wanted["timeout"])
        self.wake()

    # The workers -----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Tell of this worker, and free the sessions of the dead, until it is cancelled."""
        lease, reaps_at = self._fleet.lease, 0.0
        pause = lease / 3
        while True:
            await anyio.sleep(pause)
            pause = lease / 3
            try:
                if await self._was_away():  # others get the time to tell of themselves, too
                    reaps_at = time.monotonic() + lease
                elif time.monotonic() >= reaps_at:
                    await self._reap()
                    await self._free_strays()
                    await self._remove_cancelled()
            except FleetError as error:
                logger.warning("worker %s cannot tell of itself: %s", self.id, error)
                pause = min(pause, 1.0)

    async def _was_away(self) -> bool:
        """Tell of this worker, and return whether it may have counted as dead before."""
        before, was_alive = self._pulse.now(), self._pulse.is_alive
        if self._memory is not None:
            pids = [pid for hold in self._holds.values() if (pid := hold.pid) is not None]
            self._memory_used = sum((await tree_memory(pids)).values())
        told = await self._briefly(_claims.beat, self.id, self._fleet.lease, self._memory_used)
        if told is None:
            await self._come_back()
        was_alive = was_alive and self._pulse.is_alive  # the call may have waited for the database
        self._pulse.beat(*before)
        self._is_draining = self._is_draining or bool(told)
        return not was_alive

    async def _come_back(self) -> None:
        """Enter this worker again, which counted as dead: others have its sessions."""
        logger.warning("worker %s was taken for dead", self.id)
        for hold in list(self._holds.values()):
            hold.stop("lost")
        await self._briefly(_claims.register, self._row, self._fleet.lease, self._known)

    async def _briefly(self, work: Callable[..., T], *args: Any, write: bool = True) -> T:
        """Call the database for what comes again soon: a worker that waits long does not tell of itself meanwhile."""
        return await self._database.call(work, *args, write=write, patience=BRIEF_SECONDS, answer=self._fleet.lease)

    async def _reap(self) -> None:
        for dead in await self._briefly(_claims.reap, self._fleet.max_crashes):
            logger.warning("worker %s is dead; its sessions go on elsewhere", dead)
            await delete_queue(dead)

    async def _prune(self, seconds: float) -> None:
        """Delete sessions that have been over for so long, with their workspaces here, until it is cancelled."""
        while True:
            try:
                pruned = await _pruning.prune(self._database, self._store, seconds, self.machine)
            except FleetError as error:
                logger.warning("worker %s cannot delete old sessions: %s", self.id, error)
            except Exception:
                logger.exception("worker %s cannot delete old sessions", self.id)
            else:
                for one in pruned:
                    await self._remove_workspace(self._fleet.agents.get((one.agent, one.version)), one.id)
            await anyio.sleep(min(max(seconds / 10, 1.0), PRUNE_SECONDS))

    async def _take(self) -> None:
        """Take sessions, and do what is wanted of those that run, until it is cancelled."""
        while True:
            self._wakeup = Wakeup()
            try:
                await self._obey()
                await self._claim()
            except FleetError as error:
                logger.warning("worker %s cannot take sessions: %s", self.id, error)
            except Exception:
                logger.exception("worker %s cannot take sessions", self.id)
            if self._is_draining and not self._holds:
                self._is_over.set()
            with anyio.move_on_after(self._fleet.poll):
                await self._wakeup.wait()

    async def _obey(self) -> None:
        if not self._holds:
            return
        before = {session: hold.claim.epoch for session, hold in self._holds.items()}
        wishes = await self._database.call(_claims.wishes, self.id, write=False)
        for session, hold in list(self._holds.items()):
            epoch, wanted = wishes.get(session, (None, None))
            if session not in before or before[session] != hold.claim.epoch:
                continue  # begun meanwhile
            if epoch != hold.claim.epoch:
                hold.stop("lost")
            elif wanted == "cancel":
                hold.stop("cancelled")
            elif wanted == "interrupt":
                await hold.interrupt()

    async def _claim(self) -> None:
        count = self._free()
        if count <= 0 or self._is_draining or not self._pulse.is_alive:
            return
        place = Place(self.id, self.machine, self._fleet.tenant_limit)
        if not await self._database.call(is_work, place, self._known, write=False):
            return
        async with self._claiming:
            for claim in await self._database.call(_claims.claim, place, self._known, count):
                await self._begin(claim)

    async def _free_strays(self) -> None:
        """Queue sessions again that this worker has by the table only: what became of them could not be written."""
        async with self._claiming:
            wishes = await self._briefly(_claims.wishes, self.id, write=False)
            strays = {session: epoch for session, (epoch, _) in wishes.items() if session not in self._holds}
            if strays:
                await self._briefly(_claims.abandon, strays, self.id)

    def _free(self) -> int:
        """Return how many more sessions fit."""
        free = self._slots - len(self._holds)
        if self._memory is None:
            return free
        expected = len(self._holds) * SESSION_BYTES
        used = max(self._memory_used, expected) if can_measure() else expected
        return min(free, int((self._memory - used) // SESSION_BYTES))

    async def _begin(self, claim: _claims.Claim) -> None:
        earlier = self._holds.get(claim.id)
        if earlier is not None:  # lost, and got again
            earlier.stop("lost")
            await earlier.finished.wait()
        agent = self._fleet.agents[claim.session["agent"], claim.session["version"]]
        hold = Hold(
            agent,
            claim,
            database=self._database,
            store=self._store,
            pulse=self._pulse,
            folder=self._folder / safe_name(claim.id),
            poll=self._fleet.poll,
        )
        self._holds[claim.id] = hold
        self._group.start_soon(self._execute, hold)

    async def _execute(self, hold: Hold) -> None:
        try:
            await execute(hold, self.id)
        except FleetError as error:
            logger.warning("session %s is given back: %s", hold.claim.id, error)
        except Exception:
            logger.exception("the workflow of session %s failed", hold.claim.id)
        finally:
            hold.finished.set()
            if not hold.is_settled and not hold.is_lost:
                with anyio.CancelScope(shield=True):
                    await self._abandon(hold)
            if self._holds.get(hold.claim.id) is hold:
                del self._holds[hold.claim.id]
            if hold.was_cancelled:
                await self._remove_workspace(hold.agent, hold.claim.id)
            self.wake()

    async def _remove_cancelled(self) -> None:
        """Remove the workspaces on this machine of sessions that were cancelled while no worker had them."""
        for session, agent, version in await self._briefly(_claims.cancelled, self.machine, write=False):
            if session not in self._holds:
                await self._remove_workspace(self._fleet.agents.get((agent, version)), session)
                await self._briefly(_claims.forget_machine, session)

    async def _remove_workspace(self, agent: FleetAgent | None, session: str) -> None:
        if agent is None or agent.workspace is None:
            return
        try:
            await run_file_work(agent.workspace.remove, self._folder / safe_name(session), session)
        except (FleetError, OSError) as error:
            logger.warning("the workspace of session %s stays: %s", session, error)

    async def _abandon(self, hold: Hold) -> None:
        try:
            claimed = {hold.claim.id: hold.claim.epoch}
            await self._database.call(_claims.abandon, claimed, self.id)
        except FleetError as error:
            logger.warning("session %s cannot be given back: %s", hold.claim.id, error)
