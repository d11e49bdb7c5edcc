"""`Worker`: runs sessions of a fleet on this machine, and adopts sessions of dead workers."""

import os
import platform
import secrets
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

import anyio
from sqlalchemy import Connection

from claude_agent_py._base.errors import ClaudeAgentError, FleetError, OptionsError
from claude_agent_py._base.event_loop import Wakeup, in_trio, run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.fleet import _audit, _claims, _retention, _rows
from claude_agent_py.fleet._execution import Execution
from claude_agent_py.fleet._fair_queue import Claimant, has_work
from claude_agent_py.fleet._folders import SessionFolder, needs_folder, open_folder
from claude_agent_py.fleet._health import Address, HealthServer, parse_address
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet._store import Heartbeat
from claude_agent_py.fleet._workflows import (
    apply_schedules,
    delete_queue,
    execute,
    launch,
    resume_schedules,
    shut_down,
)
from claude_agent_py.fleet.workspaces import safe_name
from claude_agent_py.transport.memory import can_measure, read_size, tree_memory

BRIEF_SECONDS: Final = 2.0
"""Seconds during which a periodic call of the database is retried; the next period repeats it anyway."""
SESSION_BYTES: Final = 300 * 1024 * 1024
"""The expected memory of a session before the first measurement."""
PRUNE_SECONDS: Final = 3600.0
"""The longest pause in seconds between deletions of old sessions, if `retention` is set."""


class Worker:
    """A worker of a fleet, created by `Fleet.worker`. Use it with `async with`, on asyncio.

    Leaving the block returns running sessions to the fleet, where another worker continues their turns.
    """

    def __init__(
        self,
        fleet: FleetSettings,
        *,
        sessions: int = 16,
        memory: int | str | None = None,
        machine: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        health: str | int | None = None,
    ) -> None:
        if sessions < 1:
            raise OptionsError("must be a positive number", option="sessions")
        self._fleet = fleet
        self._store = fleet.store
        self._database = fleet.database
        self._brief = {"patience": BRIEF_SECONDS, "answer_seconds": fleet.lease}
        """The limits of calls between heartbeats: while one waits, the worker sends no heartbeat."""
        self._slots = sessions
        self._memory = None if memory is None else read_size(memory, option="memory")
        self._memory_used = 0
        self.machine: str = machine or platform.node()
        """The name of the machine, for workspaces."""
        self.id: str = f"{self.machine}-{os.getpid()}-{secrets.token_hex(3)}"
        """The worker's name in the fleet."""
        self._row: dict[str, object] = {
            "id": self.id,
            "machine": self.machine,
            "pid": os.getpid(),
            "slots": sessions,
            "memory": self._memory,
        }
        self._given_folder = None if folder is None else Path(folder).absolute()
        self._folder = Path()
        """The folder for the workspaces of this fleet."""
        self._executions: dict[str, Execution] = {}
        self._heartbeat = Heartbeat(fleet.lease)
        self.is_open: bool = False
        """Whether it runs sessions. Internal."""
        self._is_draining = False
        self.health: Address | None = None if health is None else parse_address(health)
        """The address of its HTTP server for probes and metrics."""
        self._claiming = anyio.Lock()
        self._wakeup: Wakeup | None = None
        self._drained = anyio.Event()
        """Set when the worker drains and no session runs any more."""

    def __repr__(self) -> str:
        draining = ", draining" if self._is_draining else ""
        return f"<Worker {self.id}, {len(self._executions)} of {self._slots} sessions{draining}>"

    # Lifecycle --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if in_trio():
            raise FleetError("a fleet's worker runs on asyncio only, because DBOS does; start it with anyio.run(main)")
        self._known = list(self._fleet.agents.values())
        if not self._known:
            raise OptionsError("register an agent first: fleet.agent(...)", option="agents")
        async with AsyncExitStack() as stack:
            if self.health is not None:
                server = HealthServer(self._check_ready, self._fleet.metrics)
                self.health = await stack.enter_async_context(server.serve(self.health))
            # The lease counts from before the call, which may take long.
            before = self._heartbeat.now()
            await self._database.write(_claims.register, self._row, self._fleet.lease, self._known)
            self._heartbeat.beat(*before)
            stack.push_async_callback(self._unregister)
            if any(map(needs_folder, self._known)):
                self._folder = await run_file_work(open_folder, self._given_folder, self._database.identity)
            await launch(self.id, self._database, self._executions, self._start_scheduled)
            stack.push_async_callback(shut_down, self.id)
            await apply_schedules(self._fleet.schedules)
            self._group = await stack.enter_async_context(anyio.create_task_group())
            self._exit_stack = stack.pop_all()
        self.is_open = True
        self._group.start_soon(self._run_heartbeat)
        self._group.start_soon(self._run_claiming)
        if self._fleet.event_retention is not None:
            self._group.start_soon(self._run_event_pruning, self._fleet.event_retention)
        if self._fleet.retention is not None:
            self._group.start_soon(self._run_pruning, self._fleet.retention)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.is_open = False
        self._is_draining = True
        with anyio.CancelScope(shield=True):
            for execution in list(self._executions.values()):
                execution.stop("released")
            for execution in list(self._executions.values()):
                await execution.finished.wait()
        self._group.cancel_scope.cancel()
        await self._exit_stack.aclose()

    async def _unregister(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._database.write(_claims.unregister, self.id, patience=5.0)
            except ClaudeAgentError as error:
                logger.warning("worker %s could not unregister: %s", self.id, error)

    async def _check_ready(self) -> str:
        """Return why it takes no sessions, or an empty text if it does. Raises FleetError without a database."""
        if self._is_draining:
            return "the worker drains"
        if not self.is_open:
            return "the worker starts"
        if not self._heartbeat.is_alive:
            return "the worker could send no heartbeat"
        await self._database.read(_rows.load_grace, self.id, patience=0.0, answer_seconds=BRIEF_SECONDS)
        return ""

    async def drain(self, grace: float | None = None) -> None:
        """Claim no more sessions, and wait until the running ones have ended.

        Those that still run after `grace` seconds are released, and go on in other workers.
        """
        self._is_draining = True
        self.wake()
        if grace is not None:
            self._group.start_soon(self._release_after, grace)
        try:
            # `Fleet.workers` shows that the worker drains.
            await self._database.write(_rows.drain, self.id, grace, patience=5.0)
        except FleetError as error:
            logger.warning("worker %s could not record that it drains: %s", self.id, error)
        await self._drained.wait()

    async def wait_drained(self) -> None:
        """Wait until the worker was asked to drain and its sessions have ended."""
        await self._drained.wait()

    def wake(self) -> None:
        """Look for work immediately. Thread-safe. Internal."""
        if self._wakeup is not None:
            self._wakeup.set()

    async def _start_scheduled(self, at: datetime, wanted: Mapping[str, Any]) -> None:
        name = f"{wanted['name']}@{at.strftime('%Y-%m-%dT%H:%M:%S')}"
        new = _rows.NewSession(name, wanted["agent"], None, wanted["tenant"], wanted["priority"])

        def start(connection: Connection) -> None:
            _rows.start(connection, new, wanted["prompt"], wanted["timeout"])
            _audit.record_prompt(connection, name, 1, f"schedule:{wanted['name']}")

        await self._database.write(start)
        self.wake()

    # Background tasks ------------------------------------------------------------------------------------------------

    async def _run_heartbeat(self) -> None:
        """Send heartbeats and free the sessions of dead workers, until cancelled."""
        lease = self._fleet.lease
        reaps_at = 0.0
        pause = lease / 3
        while True:
            await anyio.sleep(pause)
            pause = lease / 3
            try:
                if await self._send_heartbeat():
                    # If the database was unavailable, other workers also need time to send a heartbeat.
                    reaps_at = time.monotonic() + lease
                elif time.monotonic() >= reaps_at:
                    await self._remove_dead_workers()
                    await self._requeue_strays()
                    await self._remove_cancelled()
            except FleetError as error:
                logger.warning("worker %s could not send a heartbeat: %s", self.id, error)
                pause = min(pause, 1.0)

    async def _send_heartbeat(self) -> bool:
        """Extend the lease of this worker, and return whether it may have counted as dead before."""
        before = self._heartbeat.now()
        was_alive = self._heartbeat.is_alive
        if self._memory is not None:
            pids = [execution.pid for execution in self._executions.values()]
            memory = await tree_memory([pid for pid in pids if pid is not None])
            self._memory_used = sum(memory.values())
        must_drain = await self._database.write(
            _claims.extend_lease, self.id, self._fleet.lease, self._memory_used, **self._brief
        )
        if must_drain is None:
            await self._register_again()
        # The lease may have expired while the call waited for the database.
        was_alive = was_alive and self._heartbeat.is_alive
        self._heartbeat.beat(*before)
        self._is_draining = self._is_draining or bool(must_drain)
        if must_drain:
            grace = await self._database.read(_rows.load_grace, self.id, **self._brief)
            if grace is not None and grace < self._fleet.lease:
                self._group.start_soon(self._release_after, grace)
        return not was_alive

    async def _release_after(self, seconds: float) -> None:
        """Release the sessions that still run after a while."""
        await anyio.sleep(seconds)
        for execution in list(self._executions.values()):
            execution.stop("released")

    async def _register_again(self) -> None:
        """Register this worker again after it was declared dead. Other workers may have claimed its sessions."""
        logger.warning("worker %s was declared dead", self.id)
        for execution in list(self._executions.values()):
            execution.stop("lost")
        await self._database.write(_claims.register, self._row, self._fleet.lease, self._known, **self._brief)

    async def _remove_dead_workers(self) -> None:
        for dead in await self._database.write(_claims.reap, self._fleet.max_crashes, **self._brief):
            logger.warning("worker %s is dead; its sessions are queued again", dead)
            await delete_queue(dead)
        try:
            live = await self._database.read(_rows.list_workers, **self._brief)
            # DBOS retries for minutes, in which this worker would send no heartbeat.
            with anyio.move_on_after(BRIEF_SECONDS):
                await resume_schedules([worker.id for worker in live])
        except Exception as error:  # of DBOS too, if the start was deleted in between
            logger.warning("worker %s could not look for schedules that a dead one has fired: %s", self.id, error)

    async def _run_pruning(self, seconds: float) -> None:
        """Delete old sessions and their workspaces on this machine, periodically, until cancelled."""
        while True:
            try:
                pruned = await _retention.prune(self._database, self._store, seconds, self.machine)
            except FleetError as error:
                logger.warning("worker %s could not delete old sessions: %s", self.id, error)
            except Exception:
                logger.exception("worker %s could not delete old sessions", self.id)
            else:
                for session in pruned:
                    await self._remove_workspace(session.agent, session.version, session.id, session.cli_session)
            await anyio.sleep(min(max(seconds / 10, 1.0), PRUNE_SECONDS))

    async def _run_event_pruning(self, seconds: float) -> None:
        """Delete old events, periodically, until cancelled."""
        while True:
            try:
                await _retention.prune_events(self._database, seconds)
            except FleetError as error:
                logger.warning("worker %s could not delete old events: %s", self.id, error)
            await anyio.sleep(min(max(seconds / 10, 1.0), PRUNE_SECONDS))

    async def _run_claiming(self) -> None:
        """Claim sessions, and cancel or interrupt running ones on request, until cancelled."""
        while True:
            self._wakeup = Wakeup()
            try:
                await self._apply_wanted()
                await self._claim_sessions()
            except FleetError as error:
                logger.warning("worker %s could not claim sessions: %s", self.id, error)
            except Exception:
                logger.exception("worker %s could not claim sessions", self.id)
            if self._is_draining and not self._executions:
                self._drained.set()
            with anyio.move_on_after(self._fleet.poll):
                await self._wakeup.wait()

    async def _apply_wanted(self) -> None:
        if not self._executions:
            return
        before = {session: execution.claim.epoch for session, execution in self._executions.items()}
        wanted = await self._database.read(_claims.load_wanted, self.id)
        for session, execution in list(self._executions.items()):
            epoch, action = wanted.get(session, (None, None))
            if session not in before or before[session] != execution.claim.epoch:
                # Claimed after the query, which does not know it.
                continue
            if epoch != execution.claim.epoch:
                execution.stop("lost")
            elif action == "cancel":
                execution.stop("cancelled")
            elif action == "interrupt":
                await execution.interrupt()

    async def _claim_sessions(self) -> None:
        count = self._count_free_slots()
        if count <= 0 or self._is_draining or not self._heartbeat.is_alive:
            return
        claimant = Claimant(self.id, self.machine, self._fleet.tenant_limit)
        if not await self._database.read(has_work, claimant, self._known):
            return
        async with self._claiming:
            for claim in await self._database.write(_claims.claim_sessions, claimant, self._known, count):
                await self._start_execution(claim)

    async def _requeue_strays(self) -> None:
        """Queue sessions again that this worker claimed but does not run: their outcome could not be stored."""
        async with self._claiming:
            wanted = await self._database.read(_claims.load_wanted, self.id, **self._brief)
            strays = {session: epoch for session, (epoch, _) in wanted.items() if session not in self._executions}
            if strays:
                await self._database.write(_claims.requeue, strays, self.id, **self._brief)

    def _count_free_slots(self) -> int:
        """Return how many more sessions this worker can run."""
        free = self._slots - len(self._executions)
        if self._memory is None:
            return free
        expected = len(self._executions) * SESSION_BYTES
        used = max(self._memory_used, expected) if can_measure() else expected
        return min(free, int((self._memory - used) // SESSION_BYTES))

    async def _start_execution(self, claim: _claims.Claim) -> None:
        earlier = self._executions.get(claim.id)
        # This worker lost the session, and has claimed it again.
        if earlier is not None:
            earlier.stop("lost")
            await earlier.finished.wait()
        agent = self._fleet.agents[claim.session["agent"], claim.session["version"]]
        execution = Execution(
            agent,
            claim,
            database=self._database,
            store=self._store,
            heartbeat=self._heartbeat,
            folder=self._get_folder(claim.id, claim.session["cli_session"]),
            poll=self._fleet.poll,
        )
        self._executions[claim.id] = execution
        self._group.start_soon(self._execute, execution)

    async def _execute(self, execution: Execution) -> None:
        try:
            await execute(execution, self.id)
        except FleetError as error:
            logger.warning("session %s is returned to the fleet: %s", execution.claim.id, error)
        except Exception:
            logger.exception("the workflow of session %s failed", execution.claim.id)
        finally:
            execution.finished.set()
            if not execution.is_settled and not execution.is_lost:
                with anyio.CancelScope(shield=True):
                    await self._requeue(execution)
            if self._executions.get(execution.claim.id) is execution:
                del self._executions[execution.claim.id]
            if execution.was_cancelled:
                session = execution.claim.session
                await self._remove_workspace(
                    session["agent"], session["version"], session["id"], session["cli_session"]
                )
            self.wake()

    async def _remove_cancelled(self) -> None:
        """Remove the workspaces on this machine of sessions that were cancelled while they did not run."""
        cancelled = await self._database.read(_claims.list_cancelled, self.machine, **self._brief)
        for row in cancelled:
            if row["id"] not in self._executions:
                await self._remove_workspace(row["agent"], row["version"], row["id"], row["cli_session"])
                await self._database.write(_claims.forget_machine, row["id"], **self._brief)

    def _get_folder(self, session: str, cli_session: str) -> SessionFolder:
        return SessionFolder(self._folder / safe_name(session), f"{self._database.identity} {cli_session}")

    async def _remove_workspace(self, agent: str, version: str, session: str, cli_session: str) -> None:
        found = self._fleet.agents.get((agent, version))
        if found is None or found.workspace is None or not needs_folder(found):
            return
        try:
            await run_file_work(self._get_folder(session, cli_session).free, found.workspace, session)
        except Exception as error:  # also RecursionError, if an agent nests a thousand folders
            logger.warning("the workspace of session %s could not be removed: %r", session, error)

    async def _requeue(self, execution: Execution) -> None:
        try:
            claimed = {execution.claim.id: execution.claim.epoch}
            await self._database.write(_claims.requeue, claimed, self.id)
        except FleetError as error:
            logger.warning("session %s could not be returned to the fleet: %s", execution.claim.id, error)
