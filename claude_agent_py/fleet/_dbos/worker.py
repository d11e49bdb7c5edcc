"""`DBOSWorker`: runs sessions that DBOS hands out, and adopts sessions of dead workers."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Final, Self, TypeVar

import anyio
from anyio import to_thread
from dbos import DBOS, Queue
from sqlalchemy import Connection

from claude_agent_py._base.errors import ClaudeAgentError, FleetError, OptionsError
from claude_agent_py._base.event_loop import Wakeup, in_trio, run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.fleet._dbos import _audit, _claims, _retention, _rows, _workflows
from claude_agent_py.fleet._dbos._database import Database
from claude_agent_py.fleet._dbos._execution import Execution
from claude_agent_py.fleet._dbos._line import ANYWHERE
from claude_agent_py.fleet._dbos._store import Heartbeat
from claude_agent_py.fleet._engine import Engine, NewSession
from claude_agent_py.fleet._folders import needs_folder, open_folder
from claude_agent_py.fleet._health import HealthServer
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.fleet.worker import Worker
from claude_agent_py.permissions.interactions import AnswerSource

T = TypeVar("T")

BRIEF_SECONDS: Final = 2.0
"""Seconds during which a periodic call of the database is retried; the next period repeats it anyway."""
LAST_SECONDS: Final = 20.0
"""Seconds that a worker that ends waits for the engine to record what has ended."""
PRUNE_SECONDS: Final = 3600.0
"""The longest pause in seconds between deletions of old sessions, if `retention` is set."""


class DBOSWorker(Worker):
    """A worker on asyncio, with the DBOS of this process."""

    def __init__(self, engine: Engine, database: Database, settings: FleetSettings, **given: Any) -> None:
        super().__init__(settings, **given)
        self._engine = engine
        self._database = database
        self._brief = {"patience": BRIEF_SECONDS, "answer_seconds": settings.lease}
        """The limits of calls between heartbeats: while one waits, the worker sends no heartbeat."""
        self._row: dict[str, object] = {
            "id": self.id,
            "machine": self.machine,
            "pid": os.getpid(),
            "slots": self._slots,
            "memory": self._memory,
        }
        self._executions: dict[str, Execution] = {}
        self._taken: set[str] = set()
        """The ids of the workflows that run in this process."""
        self._queues: dict[tuple[str, str], Queue] = {}
        """The engine's queues, by agent and version."""
        self._taking = anyio.Lock()
        self._has_untaken = False
        """Whether the engine may count workflows as taken that do not run."""
        self._heartbeat = Heartbeat(settings.lease)
        self._is_releasing = False
        """Whether sessions that begin now are released at once."""

    # Lifecycle --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if in_trio():
            raise FleetError("a fleet's worker runs on asyncio only, because DBOS does; start it with anyio.run(main)")
        self._known = list(self._fleet.agents.values())
        if not self._known:
            raise OptionsError("register an agent first: fleet.agent(...)", option="agents")
        async with AsyncExitStack() as stack:
            if self.health is not None:
                server = HealthServer(self._check_ready, self._load_metrics)
                self.health = await stack.enter_async_context(server.serve(self.health))
            # The lease counts from before the call, which may take long.
            before = self._heartbeat.now()
            await self._register()
            self._heartbeat.beat(*before)
            stack.push_async_callback(self._unregister)
            if any(map(needs_folder, self._known)):
                self._folder = await run_file_work(open_folder, self._given_folder, self._database.identity)
            handlers = _workflows.Handlers(self._run_step, self._start_scheduled)
            await _workflows.launch(self.id, self._database, handlers)
            stack.push_async_callback(self._shut_down)
            for agent in self._known:
                queue = await _workflows.register_queue(agent.name, agent.version, agent.limit)
                self._queues[agent.name, agent.version] = queue
            await _workflows.apply_schedules(self._fleet.schedules)
            self._group = await stack.enter_async_context(anyio.create_task_group())
            self._exit_stack = stack.pop_all()
        self.is_open = True
        self._group.start_soon(self._run_heartbeat)
        self._group.start_soon(self._run_looking)
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
            with anyio.move_on_after(LAST_SECONDS):
                # What the engine starts from now on is released at once.
                async with self._taking:
                    while self._taken:  # noqa: ASYNC110 - the engine ends its tasks
                        await anyio.sleep(0.01)
        self._group.cancel_scope.cancel()
        await self._exit_stack.aclose()

    async def _register(self, **limits: float) -> None:
        settings = (self._row, self._fleet.lease, self._known, self._fleet.tenant_limit)
        await self._database.write(_claims.register, *settings, **limits)

    async def _shut_down(self) -> None:
        """Stop the engine. Finishes even if it is cancelled."""
        with anyio.CancelScope(shield=True):
            self._has_untaken = True
            try:
                with anyio.move_on_after(LAST_SECONDS):
                    await to_thread.run_sync(_workflows.return_untaken, self.id, (), abandon_on_cancel=True)
                    self._has_untaken = False
            except Exception as error:  # of DBOS
                logger.warning("worker %s could not return its workflows: %s", self.id, error)
            await _workflows.shut_down()

    async def _unregister(self) -> None:
        # Otherwise others find this worker dead, and recover its workflows.
        if self._has_untaken:
            return
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
        # The first attempt may use a connection from before the server restarted.
        await self._database.read(_rows.load_grace, self.id, patience=1.0, answer_seconds=BRIEF_SECONDS)
        return ""

    async def _load_metrics(self) -> FleetMetrics:
        return await self._engine.load_metrics(self._fleet.agent_limits)

    async def drain(self, grace: float | None = None) -> None:
        """Take no more sessions, and wait until the running ones have ended."""
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

    async def _start_scheduled(self, at: datetime, wanted: Mapping[str, Any]) -> None:
        name = f"{wanted['name']}@{at.strftime('%Y-%m-%dT%H:%M:%S')}"
        given = {key: wanted[key] for key in ("agent", "tenant", "priority", "prompt", "timeout")}
        new = NewSession(id=name, version=None, **given)
        source = AnswerSource.here(f"schedule:{wanted['name']}")

        def start(connection: Connection) -> None:
            _rows.start(connection, new)
            _audit.record_prompt(connection, name, 1, source)

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
                    await self._remove_cancelled()
            except FleetError as error:
                logger.warning("worker %s could not send a heartbeat: %s", self.id, error)
                pause = min(pause, 1.0)

    async def _send_heartbeat(self) -> bool:
        """Extend the lease of this worker, and return whether it may have counted as dead before."""
        before = self._heartbeat.now()
        was_alive = self._heartbeat.is_alive
        pids = [execution.pid for execution in self._executions.values()]
        await self._measure_memory([pid for pid in pids if pid is not None])
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
        self._is_releasing = True
        for execution in list(self._executions.values()):
            execution.stop("released")

    async def _register_again(self) -> None:
        """Register this worker again after it was declared dead. Other workers may have claimed its sessions."""
        logger.warning("worker %s was declared dead", self.id)
        for execution in list(self._executions.values()):
            execution.stop("lost")
        await self._register(**self._brief)

    async def _remove_dead_workers(self) -> None:
        dead = await self._database.write(_claims.free_dead, self._fleet.max_crashes, **self._brief)
        if not dead:
            return
        logger.warning("workers are dead, and their sessions are queued again: %s", ", ".join(dead))
        # If that takes long, the next heartbeat repeats it.
        with anyio.move_on_after(BRIEF_SECONDS):
            await to_thread.run_sync(_workflows.recover, dead, abandon_on_cancel=True)
            await self._database.write(_claims.delete_dead, dead, **self._brief)

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
                    await self._remove(session.agent, session.version, session.id, session.cli_session)
            await anyio.sleep(min(max(seconds / 10, 1.0), PRUNE_SECONDS))

    async def _run_event_pruning(self, seconds: float) -> None:
        """Delete old events, periodically, until cancelled."""
        while True:
            try:
                await _retention.prune_events(self._database, seconds)
            except FleetError as error:
                logger.warning("worker %s could not delete old events: %s", self.id, error)
            except Exception:
                logger.exception("worker %s could not delete old events", self.id)
            await anyio.sleep(min(max(seconds / 10, 1.0), PRUNE_SECONDS))

    async def _run_looking(self) -> None:
        """Take sessions, and cancel or interrupt running ones on request, until cancelled."""
        while True:
            self._wakeup = Wakeup()
            try:
                await self._apply_wanted()
                async with self._taking:
                    await self._take_sessions()
            except FleetError as error:
                logger.warning("worker %s could not look for sessions: %s", self.id, error)
            except Exception:
                logger.exception("worker %s could not take sessions", self.id)
            if self._is_draining and not self._taken:
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

    async def _take_sessions(self) -> None:
        """Let the engine start workflows, as many as this worker has room for."""
        if self._count_free_slots(len(self._taken)) <= 0 or self._is_draining or not self._heartbeat.is_alive:
            return
        if self._has_untaken:
            await to_thread.run_sync(_workflows.return_untaken, self.id, self._taken)
            self._has_untaken = False
        for work in await self._database.read(_claims.find_work, self.machine, list(self._queues)):
            place = work.place
            if place not in (ANYWHERE, self.machine):
                await self._database.write(_claims.move_here, work)
                place = ANYWHERE
            room = self._count_free_slots(len(self._taken))
            if room > 0:
                self._has_untaken = True
                queue = self._queues[work.agent, work.version]
                await to_thread.run_sync(_workflows.dequeue, queue, place, room, self._taken)
                self._has_untaken = False

    async def _run_step(self, session: str, step: int) -> None:
        """Run the current prompt of a session. Called by its workflow.

        Raises CancelledError if another worker has the session, or this one ends. Then the engine records nothing.
        """
        task, workflow = asyncio.current_task(), str(DBOS.workflow_id)
        assert task is not None  # noqa: S101 - the caller is one

        def leave(task: object) -> None:
            self._taken.discard(workflow)
            self.wake()

        task.add_done_callback(leave)
        claim = await self._insist(lambda: self._begin(session, step))
        self.wake()
        if claim is not None:
            await self._execute(claim)

    async def _begin(self, session: str, step: int) -> _claims.Claim | None:
        return await self._database.write(_claims.begin, session, step, self.id, self.machine, self._fleet.agents)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until the database answers. Raises CancelledError if the worker ends before."""
        while True:
            try:
                return await call()
            except FleetError as error:
                logger.warning("worker %s tries again: %s", self.id, error)
                if not self.is_open:
                    raise anyio.get_cancelled_exc_class() from None
            await anyio.sleep(1.0)

    async def _execute(self, claim: _claims.Claim) -> None:
        earlier = self._executions.get(claim.id)
        # This worker lost the session, and has taken it again.
        if earlier is not None:
            earlier.stop("lost")
            await earlier.finished.wait()
        execution = self._executions[claim.id] = Execution(
            self._fleet.agents[claim.session["agent"], claim.session["version"]],
            claim,
            engine=self._engine,
            database=self._database,
            store=self._store,
            heartbeat=self._heartbeat,
            folder=self._get_folder(self._database.identity, claim.id, claim.session["cli_session"]),
            poll=self._fleet.poll,
        )
        if self._is_releasing or not self.is_open:
            execution.stop("released")
        try:
            outcome = await execution.perform()
            await self._insist(lambda: execution.settle(outcome))
        finally:
            execution.finished.set()
            if self._executions.get(claim.id) is execution:
                del self._executions[claim.id]
        if execution.was_cancelled:
            session = claim.session
            await self._remove(session["agent"], session["version"], session["id"], session["cli_session"])

    async def _remove_cancelled(self) -> None:
        """Remove the workspaces on this machine of sessions that were cancelled while they did not run."""
        cancelled = await self._database.read(_claims.list_cancelled, self.machine, **self._brief)
        for row in cancelled:
            if row["id"] not in self._executions:
                await self._remove(row["agent"], row["version"], row["id"], row["cli_session"])
                await self._database.write(_claims.forget_machine, row["id"], **self._brief)

    async def _remove(self, agent: str, version: str, session: str, cli_session: str) -> None:
        """Remove the workspace of a session on this machine."""
        folder = self._get_folder(self._database.identity, session, cli_session)
        await self._remove_workspace(folder, agent, version, session)
