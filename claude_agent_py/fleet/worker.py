"""`Worker`: runs sessions of a fleet on this machine, and adopts those of workers that died."""

import logging
import os
import platform
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import anyio

from claude_agent_py._errors import ClaudeAgentError, FleetError, OptionsError
from claude_agent_py._event_loop import in_trio, run_file_work
from claude_agent_py._memory import can_measure, read_size, tree_memory
from claude_agent_py.fleet import _claims
from claude_agent_py.fleet._choosing import Known, Place, is_work
from claude_agent_py.fleet._store import Pulse
from claude_agent_py.fleet.workspaces import safe_name

if TYPE_CHECKING:
    from claude_agent_py.fleet._hold import Hold
    from claude_agent_py.fleet._home import Home
    from claude_agent_py.fleet.agents import FleetAgent

logger: logging.Logger = logging.getLogger("claude_agent_py")

T = TypeVar("T")

BRIEF_SECONDS: Final = 2.0
"""For how long a worker tries what it does again and again."""
SESSION_BYTES: Final = 300 * 1024 * 1024
"""What a session is expected to use, before it is measured."""
PRUNE_SECONDS: Final = 3600.0
"""How often a worker deletes old sessions at least, if it is to."""


class Worker:
    """A worker of a fleet; made by `Fleet.worker`. Use it as `async with`, on asyncio.

    Leaving the block gives the sessions that run back to the fleet, where their turns go on.
    """

    def __init__(
        self,
        fleet: "Home",
        *,
        sessions: int = 16,
        memory: int | str | None = None,
        machine: str | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if sessions < 1:
            raise OptionsError("must be a positive number", option="sessions")
        self._fleet = fleet
        self._database = fleet.database
        self._slots = sessions
        self._memory = None if memory is None else read_size(memory, option="memory")
        self._memory_used = 0
        self.machine: str = machine or platform.node()
        """The name of the machine, for workspaces."""
        self.id: str = f"{self.machine}-{os.getpid()}-{secrets.token_hex(3)}"
        """The worker's name in the fleet."""
        there = folder if folder is not None else Path(tempfile.gettempdir()) / "claude-agent-py-fleet"
        self._folder = Path(there).absolute()
        self._holds: dict[str, Hold] = {}
        self._pulse = Pulse(fleet.lease)
        self._is_draining = False
        self._claiming = anyio.Lock()
        self._is_over = anyio.Event()
        """Set when it drains and nothing runs."""

    def __repr__(self) -> str:
        drains = ", draining" if self._is_draining else ""
        return f"<Worker {self.id}, {len(self._holds)} of {self._slots} sessions{drains}>"

    # Life ------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if in_trio():
            raise FleetError("a fleet's worker runs on asyncio only, because DBOS does: anyio.run(main)")
        from claude_agent_py.fleet._engine import apply_schedules, launch, shut_down

        known = [
            Known(
                agent.name,
                agent.version,
                agent.weight,
                agent.limit,
                agent.timeout,
                is_shared=agent.workspace is None or agent.workspace.is_shared,
            )
            for agent in self._fleet.agents.values()
        ]
        if not known:
            raise OptionsError("register an agent first: fleet.agent(...)", option="agents")
        self._known = known
        row = {"id": self.id, "machine": self.machine, "pid": os.getpid(), "slots": self._slots}
        before = self._pulse.now()
        row |= {"memory": self._memory, "lease": self._fleet.lease}
        await self._database.call(_claims.register, self._database, row, known)
        self._pulse.beat(*before)
        try:
            await launch(self, self._database.url, self.id)
            try:
                await apply_schedules(self._fleet.schedules)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await shut_down(self.id)
                raise
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._sign_off()
            raise
        self._fleet.worker_began(self)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._live)
        self._group.start_soon(self._take)
        if self._fleet.retention is not None:
            self._group.start_soon(self._prune, self._fleet.retention)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        from claude_agent_py.fleet._engine import shut_down

        self._fleet.worker_ended(self)
        self._is_draining = True
        with anyio.CancelScope(shield=True):
            for hold in list(self._holds.values()):
                hold.stop("released")
            for hold in list(self._holds.values()):
                await hold.finished.wait()
        try:
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await shut_down(self.id)
                await self._sign_off()

    async def _sign_off(self) -> None:
        try:
            await self._database.call(_claims.leave, self.id, patience=5.0)
        except ClaudeAgentError as error:
            logger.warning("worker %s cannot sign off: %s", self.id, error)

    async def drain(self) -> None:
        """Take no more sessions, and return when those that run are over."""
        from claude_agent_py.fleet import _rows

        self._is_draining = True
        self._fleet.wake()
        try:
            await self._database.call(_rows.drain, self.id, patience=5.0)  # so that `Fleet.workers` tells
        except FleetError as error:
            logger.warning("worker %s cannot tell that it drains: %s", self.id, error)
        await self._is_over.wait()

    async def wait_drained(self) -> None:
        """Return when somebody else has asked it to drain, and what ran is over."""
        await self._is_over.wait()

    # What its workflows see ------------------------------------------------------------------------------------------

    def held(self, session: str) -> "Hold | None":
        """Return the hold on a session, or None. Internal."""
        return self._holds.get(session)

    async def fire(self, schedule: str, at: datetime, wanted: Mapping[str, Any]) -> None:
        """Start the session of a schedule. Internal."""
        name = f"{schedule}@{at.strftime('%Y-%m-%dT%H:%M:%S')}"
        given = {key: wanted[key] for key in ("tenant", "priority", "timeout")}
        await self._fleet.start(wanted["agent"], wanted["prompt"], id=name, **given)

    # The workers -----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Tell of this worker, and free the sessions of the dead, until it is cancelled."""
        lease, reaps_at = self._fleet.lease, 0.0
        pause = lease / 3
        while True:
            await anyio.sleep(pause)
            pause = lease / 3
            before, was_away = self._pulse.now(), not self._pulse.is_alive
            if self._memory is not None:
                pids = [pid for hold in self._holds.values() if (pid := hold.pid) is not None]
                self._memory_used = sum((await tree_memory(pids)).values())
            try:
                told = await self._briefly(_claims.beat, self._database, self.id, lease, self._memory_used)
                if told is None:
                    await self._come_back()
                was_away = was_away or not self._pulse.is_alive  # the call may have waited for the database
                self._pulse.beat(*before)
                self._is_draining = self._is_draining or bool(told)
                if was_away:  # others get the time to tell of themselves, too
                    reaps_at = time.monotonic() + lease
                elif time.monotonic() >= reaps_at:
                    await self._reap()
                    await self._free_strays()
                    await self._remove_cancelled()
            except FleetError as error:
                logger.warning("worker %s cannot tell of itself: %s", self.id, error)
                pause = min(pause, 1.0)

    async def _come_back(self) -> None:
        """Enter this worker again, which counted as dead: others have its sessions."""
        logger.warning("worker %s was taken for dead", self.id)
        for hold in list(self._holds.values()):
            hold.stop("lost")
        row = {"id": self.id, "machine": self.machine, "pid": os.getpid(), "slots": self._slots}
        row |= {"memory": self._memory, "lease": self._fleet.lease}
        await self._briefly(_claims.register, self._database, row, self._known)

    async def _briefly(self, work: Callable[..., T], *args: Any, write: bool = True) -> T:
        """Call the database for what comes again soon: a worker that waits long does not tell of itself meanwhile."""
        return await self._database.call(work, *args, write=write, patience=BRIEF_SECONDS, answer=self._fleet.lease)

    async def _reap(self) -> None:
        from claude_agent_py.fleet._engine import delete_dead_queue

        for dead in await self._briefly(_claims.reap, self._database, self._fleet.max_crashes):
            logger.warning("worker %s is dead; its sessions go on elsewhere", dead)
            await delete_dead_queue(dead)

    async def _prune(self, seconds: float) -> None:
        """Delete sessions that have been over for so long, with their workspaces here, until it is cancelled."""
        from claude_agent_py.fleet import _pruning

        while True:
            try:
                pruned = await _pruning.prune(self._database, self._fleet.store, seconds, self.machine)
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
            try:
                await self._obey()
                await self._claim()
            except FleetError as error:
                logger.warning("worker %s cannot take sessions: %s", self.id, error)
            except Exception:
                logger.exception("worker %s cannot take sessions", self.id)
            if self._is_draining and not self._holds:
                self._is_over.set()
            await self._fleet.pause()

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
        if not await self._database.call(is_work, self._database, place, self._known, write=False):
            return
        async with self._claiming:
            for claim in await self._database.call(_claims.claim, self._database, place, self._known, count):
                await self._begin(claim)

    async def _free_strays(self) -> None:
        """Queue sessions again that this worker has by the table only: what became of them could not be written."""
        async with self._claiming:
            wishes = await self._briefly(_claims.wishes, self.id, write=False)
            strays = {session: epoch for session, (epoch, _) in wishes.items() if session not in self._holds}
            if strays:
                await self._briefly(_claims.abandon, self._database, strays, self.id)

    def _free(self) -> int:
        """Return how many more sessions fit."""
        free = self._slots - len(self._holds)
        if self._memory is None:
            return free
        expected = len(self._holds) * SESSION_BYTES
        used = max(self._memory_used, expected) if can_measure() else expected
        return min(free, int((self._memory - used) // SESSION_BYTES))

    async def _begin(self, claim: _claims.Claim) -> None:
        from claude_agent_py.fleet._hold import Hold

        earlier = self._holds.get(claim.id)
        if earlier is not None:  # lost, and got again
            earlier.stop("lost")
            await earlier.finished.wait()
        agent = self._fleet.agents[claim.session["agent"], claim.session["version"]]
        hold = Hold(
            agent,
            claim,
            database=self._database,
            store=self._fleet.store,
            pulse=self._pulse,
            folder=self._folder / safe_name(claim.id),
            poll=self._fleet.poll,
        )
        self._holds[claim.id] = hold
        self._group.start_soon(self._execute, hold)

    async def _execute(self, hold: "Hold") -> None:
        from claude_agent_py.fleet._engine import execute

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
            self._fleet.wake()

    async def _remove_cancelled(self) -> None:
        """Remove the workspaces on this machine of sessions that were cancelled while no worker had them."""
        for session, agent, version in await self._database.call(_claims.cancelled, self.machine, write=False):
            if session not in self._holds:
                await self._remove_workspace(self._fleet.agents.get((agent, version)), session)
                await self._database.call(_claims.forget_machine, session)

    async def _remove_workspace(self, agent: "FleetAgent | None", session: str) -> None:
        if agent is None or agent.workspace is None:
            return
        try:
            await run_file_work(agent.workspace.remove, self._folder / safe_name(session), session)
        except (FleetError, OSError) as error:
            logger.warning("the workspace of session %s stays: %s", session, error)

    async def _abandon(self, hold: "Hold") -> None:
        try:
            claimed = {hold.claim.id: hold.claim.epoch}
            await self._database.call(_claims.abandon, self._database, claimed, self.id)
        except FleetError as error:
            logger.warning("session %s cannot be given back: %s", hold.claim.id, error)
