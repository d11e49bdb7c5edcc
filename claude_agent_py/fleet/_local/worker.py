"""`LocalWorker`: leases sessions in the file of the fleet, and runs each with `run_turn`.

A worker sends heartbeats, which count up in the file. If they stay the same for its lease, by the clocks of the workers
that watch them, it is dead, and its sessions are queued again. Whoever claims a session raises its epoch, without which
nobody changes it.
"""

import json
import math
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import anyio

from claude_agent_py._base.errors import FleetError
from claude_agent_py._base.event_loop import Wakeup, call_later, run_to_its_end
from claude_agent_py._base.kept_alive import KeptAlive
from claude_agent_py._base.log import logger
from claude_agent_py.durable import Failed, Later, Lost, TurnOutcome
from claude_agent_py.fleet._events import NewDeltas, NewEvent
from claude_agent_py.fleet._folders import SessionFolder
from claude_agent_py.fleet._local import _changes, _queries, _retention, _schedules
from claude_agent_py.fleet._local._changes import Claim, LostError
from claude_agent_py.fleet._local._desk import FileDesk
from claude_agent_py.fleet._local._file import FleetFile, Row
from claude_agent_py.fleet._local._rows import delete_old_deltas
from claude_agent_py.fleet._state import OVERDUE
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.worker import Execution, Worker

BRIEF_SECONDS: Final = 2.0
"""Seconds during which a periodic call is retried; the next period repeats it anyway."""
LATE_SECONDS: Final = 10.0
"""Seconds in which a turn whose time is over says what it has spent, before it is cancelled."""
LAST_SECONDS: Final = 20.0
"""Seconds that a worker that ends waits for its sessions to be returned."""


class _LocalExecution(Execution):
    """A claimed session that runs."""

    keeps_deltas = True

    def __init__(self, claim: Claim, file: FleetFile, poll: float) -> None:
        prompt = claim.prompt
        content = json.loads(prompt.content)
        super().__init__(claim.id, claim.session.conversation, prompt.uuid, content, prompt.attempts + 1)
        self.claim = claim
        self.scope = anyio.CancelScope(shield=True)
        """Keeps what cancels the worker away: it returns the session first."""
        self.desk = FileDesk(file, claim, poll)
        self.is_late: bool = False
        """Whether the time of the prompt is over."""
        self._file = file

    def end_late(self) -> None:
        """End the turn because the time of the prompt is over."""
        self.is_late = True
        self.stop.release()

    async def begin(self, where: dict[str, str]) -> None:
        """Note the workspace, if it is another one than before."""
        if where["workspace"] != self.claim.session.workspace:
            try:
                await self._file.write(_changes.note_workspace, self.claim, where)
            except LostError:
                self.stop.abandon()

    async def write(self, events: Sequence[NewEvent], deltas: NewDeltas) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._file.write(_changes.write_events, self.claim, events, deltas, patience=BRIEF_SECONDS)
            except LostError:
                self.stop.abandon()
                raise
            except FleetError:
                raise
            except Exception:  # they are left out
                logger.exception("events of session %s cannot be written", self.claim.id)

    async def flush(self) -> None:
        """Write the events so far, if no other worker has the session."""
        if self.stop.wish != "abandon":
            await super().flush()


class LocalWorker(Worker):
    """A worker on the machine of the file."""

    _executions: dict[str, _LocalExecution]  # type: ignore[assignment]

    def __init__(self, file: FleetFile, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._file = file
        self._known: list[FleetAgent] = []
        self._beat_at = time.monotonic()
        self._is_claiming = False
        """Whether a session may be claimed that is not in `_executions` yet."""
        self._seen: dict[str, tuple[int, float]] = {}
        """The number of heartbeats of other workers, and since when it is the same."""

    # Lifecycle --------------------------------------------------------------------------------------------------------

    @property
    def _identity(self) -> str:
        return self._file.identity

    async def _connect(self, stack: AsyncExitStack) -> None:
        self._known = list(self._fleet.agents.values())
        stack.push_async_callback(self._unregister)

    async def _apply_schedules(self) -> None:
        await self._file.write(_schedules.apply_schedules, self._fleet.schedules)

    async def _begin(self) -> None:
        await self._register()
        self._group.start_soon(KeptAlive(self._beat, self._fleet.lease / 3, f"worker {self.id}").run)
        self._group.start_soon(self._run_looking)

    async def _finish(self) -> None:
        self.wake()
        with anyio.move_on_after(None if self.is_open else LAST_SECONDS):
            # While it is open, the loop that takes sessions says when there are none any more.
            while self._executions or self._is_claiming or (self.is_open and not self._drained.is_set()):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        for execution in self._executions.values():
            execution.scope.cancel()

    async def drain(self, grace: float | None = None) -> None:
        """Take no more sessions, and wait until the running ones have ended. `Fleet.workers` shows it."""
        self._is_draining = True
        try:
            await self._file.write(_changes.drain, self.id, grace, None, patience=5.0)
        except FleetError as error:
            logger.warning("worker %s could not record that it drains: %s", self.id, error)
        await super().drain(grace)

    async def _register(self, **limits: float) -> None:
        row = {"id": self.id, "machine": self.machine, "pid": os.getpid(), "slots": self._slots}
        row |= {"memory": self._memory, "lease": self._fleet.lease}
        self._beat_at = time.monotonic()
        await self._file.write(_changes.register, row, self._known, self._fleet.tenant_limit, **limits)

    async def _unregister(self) -> None:
        delete = partial(self._file.write, _changes.delete_worker, self.id, patience=5.0)
        try:
            await run_to_its_end(delete, name="claude_agent_py worker")
        except FleetError as error:
            logger.warning("worker %s could not unregister: %s", self.id, error)

    async def _find_problem(self) -> str:
        if not self._is_alive:
            return "the worker could send no heartbeat"
        await self._file.read(_queries.count_open_sessions, patience=1.0)
        return ""

    # Heartbeats -------------------------------------------------------------------------------------------------------

    @property
    def _is_alive(self) -> bool:
        """Whether no other worker can have declared this one dead."""
        return time.monotonic() < self._beat_at + self._fleet.lease

    async def _beat(self) -> None:
        """Send a heartbeat, and free the sessions of dead workers."""
        await self._send_heartbeat()
        await self._free_dead()
        await self._file.write(_changes.fail_overdue, patience=BRIEF_SECONDS)
        await self._file.write(delete_old_deltas, patience=BRIEF_SECONDS)
        await self._remove_cancelled()
        await self._file.write(_schedules.follow_clock, patience=BRIEF_SECONDS)

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
        before, self._seen, dead = self._seen, {}, {}
        for worker, beats, lease in rows:
            last, since = before.get(worker, (None, now))
            self._seen[worker] = (beats, since if beats == last else now)
            if worker != self.id and now - self._seen[worker][1] >= lease:
                dead[worker] = beats
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
            if epoch != execution.claim.session.epoch:
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
        while not self._is_draining and self._count_free_slots(len(self._executions)) > 0:
            self._is_claiming = True
            try:
                claim = await self._file.write(_changes.claim, self.id, self._known)
            finally:
                self._is_claiming = False
            if claim is None:
                return
            # An execution that lost the session, and has not ended yet.
            while claim.id in self._executions:
                self._executions[claim.id].stop.abandon()
                await anyio.sleep(0.01)
            execution = self._executions[claim.id] = _LocalExecution(claim, self._file, self._fleet.poll)
            self._group.start_soon(self._execute_shielded, execution)

    # Running a session ------------------------------------------------------------------------------------------------

    async def _execute_shielded(self, execution: _LocalExecution) -> None:
        with execution.scope:
            await self._execute(execution)

    async def _execute(self, execution: _LocalExecution) -> None:
        """Run the prompt of a claim, and settle it. Nothing that happens ends the worker."""
        claim, late = execution.claim, math.inf if execution.claim.seconds is None else execution.claim.seconds
        outcome: TurnOutcome = Failed(**OVERDUE)
        forget_deadline = call_later(late, execution.end_late)
        try:
            agent = self._fleet.agents[claim.session.agent, claim.session.version]
            folder = self._get_folder(claim.id, claim.session.conversation, claim.folder)
            with anyio.move_on_after(late + LATE_SECONDS):
                outcome = await self._run_prompt(agent, execution, folder)
            if isinstance(outcome, Later) and execution.is_late:
                outcome = Failed(**OVERDUE, cost_usd=outcome.cost_usd)
            if not isinstance(outcome, Lost):
                state = await self._settle(execution, outcome)
                if state == "cancelled":
                    await self._remove_cancelled()
        except LostError:
            logger.debug("another worker has the session %s", claim.id)
        except Exception:
            logger.exception("the session %s is not settled", claim.id)
        finally:
            forget_deadline()
            if self._executions.get(claim.id) is execution:
                del self._executions[claim.id]
            self.wake()

    def _find_folder(self, session: Row) -> SessionFolder:
        return self._get_folder(session["id"], session["cli_session"], session["folder"])

    async def _settle(self, execution: _LocalExecution, outcome: TurnOutcome) -> str:
        """Store the last events and the outcome, or fail the prompt with the error for which that is impossible.

        Repeats it until the file answers, or the worker ends.
        """
        fallback: TurnOutcome | None = None
        while True:
            try:
                await execution.write_events()
                return await self._file.write(_changes.settle, execution.claim, outcome)
            except LostError:
                raise
            except FleetError as error:
                if not self.is_open:
                    raise
                logger.warning("worker %s tries again: %s", self.id, error)
                await anyio.sleep(1.0)
            except Exception as error:
                if outcome is fallback:
                    raise
                logger.exception("the outcome of session %s cannot be stored", execution.claim.id)
                outcome = fallback = Failed(error=type(error).__name__, reason=str(error))

    # Cleaning up ------------------------------------------------------------------------------------------------------

    async def _remove_cancelled(self) -> None:
        """Remove the workspaces of cancelled sessions of the agents that this worker runs."""
        for row in await self._file.read(_changes.list_cancelled, self._known, patience=BRIEF_SECONDS):
            await self._remove_workspace(self._find_folder(row), row["agent"], row["version"], row["id"])
            await self._file.write(_changes.forget_workspace, row["id"], patience=BRIEF_SECONDS)

    async def _prune(self, seconds: float) -> None:
        for row in await _retention.prune(self._file, self._store, seconds):
            await self._remove_workspace(self._find_folder(row), row["agent"], row["version"], row["id"])

    async def _prune_events(self, seconds: float) -> None:
        await _retention.prune_events(self._file, seconds, None, None)
