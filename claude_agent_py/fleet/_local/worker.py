"""`LocalWorker`: leases sessions in the file of the fleet, and runs each with `run_turn`.

A worker sends heartbeats, which count up in the file. If they stay the same for its lease, by the clocks of the workers
that watch them, it is dead, and its sessions are queued again. Whoever claims a session raises its epoch, without which
nobody changes it.
"""

import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import anyio

from claude_agent_py._base.errors import ConnectionClosedError, FleetError, OptionsError
from claude_agent_py._base.event_loop import Wakeup, run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.durable import Failed, Later, Lost, TurnOutcome, TurnStop, run_turn
from claude_agent_py.fleet._folders import SessionFolder, needs_folder, open_folder
from claude_agent_py.fleet._health import HealthServer
from claude_agent_py.fleet._local import _changes, _queries, _retention, _schedules
from claude_agent_py.fleet._local._changes import OVERDUE, Claim, LostError
from claude_agent_py.fleet._local._desk import FileDesk
from claude_agent_py.fleet._local._file import File, Row
from claude_agent_py.fleet._local._retention import PROJECT
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.fleet.worker import Worker
from claude_agent_py.fleet.workspaces import safe_name
from claude_agent_py.journal import Fact, encode_fact
from claude_agent_py.options import ClientOptions

T = TypeVar("T")

BRIEF_SECONDS: Final = 2.0
"""Seconds during which a periodic call is retried; the next period repeats it anyway."""
LAST_SECONDS: Final = 20.0
"""Seconds that a worker that ends waits for its sessions to be returned."""
FLUSH_SECONDS: Final = 0.2
"""Seconds during which facts are collected for one transaction."""


class _Execution:
    """A claimed session that runs, and the facts that are not yet in the file."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.stop = TurnStop()
        self.facts: list[_changes.Event] = []
        self.writing = anyio.Lock()
        self.has_ended = anyio.Event()

    def add_fact(self, fact: Fact) -> None:
        """Keep a fact for the next transaction."""
        self.facts.append(("fact", fact.at or time.time(), json.loads(encode_fact(fact))))


class LocalWorker(Worker):
    """A worker on the machine of the file."""

    def __init__(self, file: File, settings: FleetSettings, **given: Any) -> None:
        super().__init__(settings, **given)
        self._file = file
        self._executions: dict[str, _Execution] = {}
        self._beat_at = time.monotonic()
        self._seen: dict[str, tuple[int, float]] = {}
        """The number of heartbeats of other workers, and since when it is the same."""
        self._is_releasing = False

    # Lifecycle --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._known = list(self._fleet.agents.values())
        if not self._known:
            raise OptionsError("register an agent first: fleet.agent(...)", option="agents")
        async with AsyncExitStack() as stack:
            if self.health is not None:
                server = HealthServer(self._check_ready, self._load_metrics)
                self.health = await stack.enter_async_context(server.serve(self.health))
            await self._file.write(_schedules.apply_schedules, self._fleet.schedules)
            if any(map(needs_folder, self._known)):
                self._folder = await run_file_work(open_folder, self._given_folder, self._file.identity)
            await self._register()
            stack.push_async_callback(self._unregister)
            self._group = await stack.enter_async_context(anyio.create_task_group())
            self._exit_stack = stack.pop_all()
        self.is_open = True
        self._group.start_soon(self._run_heartbeat)
        self._group.start_soon(self._run_looking)
        self._start_pruning()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.is_open, self._is_draining = False, True
        self._release()
        with anyio.move_on_after(LAST_SECONDS, shield=True):
            while self._executions:  # noqa: ASYNC110 - each ends in its own time
                await anyio.sleep(0.01)
        self._group.cancel_scope.cancel()
        await self._exit_stack.aclose()

    async def _register(self, **limits: float) -> None:
        row = {"id": self.id, "machine": self.machine, "pid": os.getpid(), "slots": self._slots}
        row |= {"memory": self._memory, "lease": self._fleet.lease}
        self._beat_at = time.monotonic()
        await self._file.write(_changes.register, row, self._known, self._fleet.tenant_limit, **limits)

    async def _unregister(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._file.write(_changes.delete_worker, self.id, patience=5.0)
            except FleetError as error:
                logger.warning("worker %s could not unregister: %s", self.id, error)

    async def _check_ready(self) -> str:
        """Return why it takes no sessions, or an empty text if it does. Raises FleetError without a database."""
        if self._is_draining:
            return "the worker drains"
        if not self.is_open:
            return "the worker starts"
        if not self._is_alive:
            return "the worker could send no heartbeat"
        await self._file.read(_queries.count_open_sessions, patience=1.0)
        return ""

    async def _load_metrics(self) -> FleetMetrics:
        return await self._file.read(_queries.load_metrics, self._fleet.agent_limits, patience=BRIEF_SECONDS)

    async def drain(self, grace: float | None = None) -> None:
        """Take no more sessions, and wait until the running ones have ended."""
        self._is_draining = True
        self.wake()
        if grace is not None:
            self._group.start_soon(self._release_after, grace)
        try:
            # `Fleet.workers` shows that the worker drains.
            await self._file.write(_changes.drain, self.id, grace, None, patience=5.0)
        except FleetError as error:
            logger.warning("worker %s could not record that it drains: %s", self.id, error)
        await self._drained.wait()

    async def _release_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._release()

    def _release(self) -> None:
        """Return the sessions that run, and those that begin from now on."""
        self._is_releasing = True
        for execution in self._executions.values():
            execution.stop.release()

    # Heartbeats -------------------------------------------------------------------------------------------------------

    @property
    def _is_alive(self) -> bool:
        """Whether no other worker can have declared this one dead."""
        return time.monotonic() < self._beat_at + self._fleet.lease

    async def _run_heartbeat(self) -> None:
        """Send heartbeats, and free the sessions of dead workers, until cancelled."""
        pause = self._fleet.lease / 3
        while True:
            await anyio.sleep(pause)
            pause = self._fleet.lease / 3
            try:
                await self._send_heartbeat()
                await self._free_dead()
                await self._file.write(_changes.fail_overdue, patience=BRIEF_SECONDS)
                await self._remove_cancelled()
            except FleetError as error:
                logger.warning("worker %s could not send a heartbeat: %s", self.id, error)
                pause = min(pause, 1.0)

    async def _send_heartbeat(self) -> None:
        await self._measure_memory()
        before, was_late = time.monotonic(), time.monotonic() > self._beat_at + self._fleet.lease * 2 / 3
        row = await self._file.write(_changes.beat, self.id, self._memory_used, patience=BRIEF_SECONDS)
        if was_late:
            # Nor could others send heartbeats, if the file was locked or this machine slept.
            self._seen.clear()
        if row is None:
            logger.warning("worker %s was declared dead", self.id)
            for execution in self._executions.values():
                execution.stop.abandon()
            await self._register(patience=BRIEF_SECONDS)
            return
        self._beat_at = before
        if row["is_draining"]:
            self._is_draining = True
            if row.get("release_in", self._fleet.lease) < self._fleet.lease:
                self._group.start_soon(self._release_after, row["release_in"])

    async def _free_dead(self) -> None:
        """Queue the sessions of workers whose heartbeats have stayed the same for their lease."""
        now = time.monotonic()
        rows = await self._file.read(_changes.load_beats, patience=BRIEF_SECONDS)
        seen = {row["id"]: (row["beats"], now) for row in rows}
        for worker, (beats, since) in self._seen.items():
            if worker in seen and seen[worker][0] == beats:
                seen[worker] = (beats, since)
        self._seen = seen
        leases = {row["id"]: row["lease"] for row in rows}
        dead = {
            worker: beats
            for worker, (beats, since) in seen.items()
            if worker != self.id and now - since >= leases[worker]
        }
        freed = await self._file.write(_changes.free_dead, dead, self._fleet.max_crashes, patience=BRIEF_SECONDS)
        if freed:
            logger.warning("workers are dead, and their sessions are queued again: %s", ", ".join(freed))
            self.wake()

    # Looking for work -------------------------------------------------------------------------------------------------

    async def _run_looking(self) -> None:
        """Claim sessions, and interrupt or cancel running ones on request, until cancelled."""
        while True:
            self._wakeup = Wakeup()
            try:
                await self._look()
            except FleetError as error:
                logger.warning("worker %s could not look for sessions: %s", self.id, error)
            except Exception:
                logger.exception("worker %s could not take sessions", self.id)
            if self._is_draining and not self._executions:
                self._drained.set()
            with anyio.move_on_after(self._fleet.poll):
                await self._wakeup.wait()

    async def _look(self) -> None:
        running = dict(self._executions)
        found = await self._file.read(_changes.look, self.id, self._known)
        for session, execution in running.items():
            epoch, action = found.wanted.get(session, (None, None))
            if epoch != execution.claim.epoch:
                execution.stop.abandon()
            elif action == "cancel":
                execution.stop.release()
            elif action == "interrupt":
                execution.stop.interrupt()
        if any(session not in self._executions for session in found.wanted):
            # What could not be settled must not stay running.
            await self._file.write(_changes.free_unknown, self.id, list(self._executions), self._fleet.max_crashes)
        if self._is_draining or not self._is_alive:
            return
        if found.is_due:
            await self._file.write(_schedules.fire_due)
        if found.has_work or found.is_due:
            await self._claim_sessions()

    async def _claim_sessions(self) -> None:
        while self._count_free_slots(len(self._executions)) > 0:
            claim = await self._file.write(_changes.claim, self.id, self._known)
            if claim is None:
                return
            # An execution that lost the session, and has not ended yet.
            while claim.id in self._executions:
                self._executions[claim.id].stop.abandon()
                await anyio.sleep(0.01)
            execution = self._executions[claim.id] = _Execution(claim)
            if self._is_releasing:
                execution.stop.release()
            self._group.start_soon(self._execute, execution)

    # Running a session ------------------------------------------------------------------------------------------------

    async def _execute(self, execution: _Execution) -> None:
        """Run the prompt of a claim, and settle it. Nothing that happens ends the worker."""
        claim = execution.claim
        try:
            self._group.start_soon(self._record, execution)
            outcome = await self._run(claim, execution)
            execution.has_ended.set()
            if not isinstance(outcome, Lost):
                state = await self._insist(lambda: self._settle(execution, outcome))
                if state == "cancelled":
                    await self._remove_cancelled()
        except LostError:
            logger.debug("another worker has the session %s", claim.id)
        except Exception:
            logger.exception("the session %s is not settled", claim.id)
        finally:
            if self._executions.get(claim.id) is execution:
                del self._executions[claim.id]
            self.wake()

    async def _run(self, claim: Claim, execution: _Execution) -> TurnOutcome:
        """Run the prompt of a claim."""
        attempt = int(claim.run["attempts"]) + 1
        agent = self._fleet.agents[claim.session["agent"], claim.session["version"]]
        outcome: TurnOutcome = OVERDUE
        try:
            with anyio.move_on_after(claim.seconds):
                outcome = await run_turn(
                    await self._prepare(claim, agent),
                    store=self._store,
                    session_id=claim.session["cli_session"],
                    prompt_id=claim.run["uuid"],
                    prompt=json.loads(claim.run["prompt"]),
                    desk=FileDesk(self._file, claim, self._fleet.poll),
                    patience=agent.patience,
                    attempt=attempt,
                    retry=agent.retry,
                    stop=execution.stop,
                    on_fact=execution.add_fact,
                    until=agent.until,
                    project=PROJECT,
                )
        except LostError as error:
            return Lost(reason=str(error))
        except Exception as error:  # of the workspace
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, FleetError) and (error.is_retryable or attempt < agent.retry.attempts):
                pause = agent.retry.pause_after(ConnectionClosedError(str(error)), attempt)
                return Later(pause=pause, is_attempt=not error.is_retryable, reason=reason)
            logger.error("session %s of the fleet failed", claim.id, exc_info=error)
            return Failed(error=type(error).__name__, reason=str(error))
        return outcome

    async def _prepare(self, claim: Claim, agent: FleetAgent) -> ClientOptions:
        """Prepare the workspace and return the options of the process."""
        options, workspace = agent.options, agent.workspace
        if workspace is None:
            return options
        folder = None
        if needs_folder(agent):
            folder = await run_file_work(self._find_folder, claim.session)
            await run_file_work(folder.take, workspace, claim.id)
        path = await run_file_work(workspace.prepare, Path() if folder is None else folder.path, claim.id)
        if str(path) != claim.session["workspace"]:
            where = {"workspace": str(path)}
            if folder is not None:
                where |= {"machine": self.machine, "folder": str(folder.path.parent)}
            await self._file.write(_changes.note_workspace, claim, where)
        return options.replace(cwd=path)

    def _find_folder(self, session: Row) -> SessionFolder:
        """Return the folder of a session: the one that it had before, unless that is gone."""
        given = session["folder"]
        folder = Path(given) if given is not None and Path(given).is_dir() else self._folder
        owner = f"{self._file.identity} {session['cli_session']}"
        return SessionFolder(folder / safe_name(session["id"]), owner)

    async def _record(self, execution: _Execution) -> None:
        """Write facts until the prompt has ended."""
        while not execution.has_ended.is_set():
            with anyio.move_on_after(FLUSH_SECONDS):
                await execution.has_ended.wait()
            try:
                await self._write_facts(execution)
            except LostError:
                execution.stop.abandon()
                return
            except FleetError as error:
                logger.warning("events of session %s cannot be written yet: %s", execution.claim.id, error)

    async def _write_facts(self, execution: _Execution) -> None:
        """Write the facts so far. Raises LostError."""
        async with execution.writing:
            if facts := list(execution.facts):
                with anyio.CancelScope(shield=True):
                    try:
                        await self._file.write(_changes.write_events, execution.claim, facts, patience=BRIEF_SECONDS)
                    except (LostError, FleetError):
                        raise
                    except Exception:
                        logger.exception("events of session %s cannot be written", execution.claim.id)
                    del execution.facts[: len(facts)]

    async def _settle(self, execution: _Execution, outcome: TurnOutcome) -> str:
        """Store the last facts and the outcome, or fail the prompt with the error for which that is impossible."""
        await self._write_facts(execution)
        try:
            return await self._file.write(_changes.settle, execution.claim, outcome)
        except (LostError, FleetError):
            raise
        except Exception as error:
            logger.exception("the outcome of session %s cannot be stored", execution.claim.id)
            failed = Failed(error=type(error).__name__, reason=str(error))
            return await self._file.write(_changes.settle, execution.claim, failed)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until the database answers, or the worker ends."""
        while True:
            try:
                return await call()
            except FleetError as error:
                if not self.is_open:
                    raise
                logger.warning("worker %s tries again: %s", self.id, error)
            await anyio.sleep(1.0)

    # Cleaning up ------------------------------------------------------------------------------------------------------

    async def _remove_cancelled(self) -> None:
        """Remove the workspaces of cancelled sessions."""
        for row in await self._file.read(_changes.list_cancelled, patience=BRIEF_SECONDS):
            await self._remove_workspace(self._find_folder(row), row["agent"], row["version"], row["id"])
            await self._file.write(_changes.forget_workspace, row["id"], patience=BRIEF_SECONDS)

    async def _prune(self, seconds: float) -> None:
        for row in await _retention.prune(self._file, self._store, seconds):
            await self._remove_workspace(self._find_folder(row), row["agent"], row["version"], row["id"])

    async def _prune_events(self, seconds: float) -> None:
        await _retention.prune_events(self._file, seconds, None, None)
