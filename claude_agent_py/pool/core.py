"""`PoolCore`: the queue of the callers that wait for a process, and the starts and ends of the processes.

`dispatch` decides, without waiting, which caller gets a process and which processes start and end. One worker runs each
process (`_live`). The workers belong to the event loop, so any task may call any method. `processes.py` has the
processes and their limits, `compatibility.py` decides which process can serve which caller.
"""

import math
import os
from dataclasses import replace
from typing import Final, Literal

import anyio
from anyio.abc import TaskGroup

from claude_agent_py._base.errors import ConnectionClosedError, PoolTimeoutError
from claude_agent_py._base.event_loop import spawn_detached, worker
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import LazyEvent, RepeatingEvent
from claude_agent_py.client import current_client
from claude_agent_py.pool.compatibility import SessionRequest, names_one_session
from claude_agent_py.pool.pooled_process import READY, Phase, PooledProcess
from claude_agent_py.pool.processes import Processes, can_serve, is_same
from claude_agent_py.pool.targets import PoolStats, ProcessWaiter, SpareTarget

CLOSED: Final = "the pool is closed"

MEASURE_EVERY: Final = 1.0
"""Seconds between measurements of the memory."""

STABLE_SECONDS: Final = 10.0
"""A spare that dies earlier counts as a failed start."""

MAX_STARTING: Final = max(2, os.cpu_count() or 1)
"""How many spares start concurrently: a start keeps a processor busy. Starts for waiting callers are not limited."""

FIRST_ANSWER: Final = 0.3
"""Seconds after a hand-out during which no spare starts while half of them are left. A start would slow down the first
answer of the session, which takes that long."""


class PoolCore:
    """The callers and the workers of a pool. Used once: `open`, then `close`.

    Args:
        targets: The numbers of spares to keep, the most important first.
        max_size: How many processes there may be.
        memory: How many bytes the processes may use; None means any number.
        idle: Seconds after which a spare is replaced; None means never.
    """

    def __init__(self, targets: list[SpareTarget], max_size: int, memory: int | None, idle: float | None) -> None:
        self.targets: list[SpareTarget] = targets
        self._processes = Processes(max_size, memory)
        self.changed: RepeatingEvent = RepeatingEvent()
        """Set when a process or a caller comes or goes."""
        self.is_opened: bool = False
        self.is_draining: bool = False
        """Whether new callers are refused."""
        self.is_putting_off: bool = False
        """Whether missing spares start later, because a session has just begun."""
        self.last_error: Exception | None = None
        self._idle = idle
        self._queue: list[ProcessWaiter] = []
        self._workers: TaskGroup | None = None
        self._is_closing = False
        self._closed = LazyEvent()
        self._handed_out_at = -math.inf
        """When the last spare was handed out."""
        self._counts = dict.fromkeys(("warm", "cold", "timeouts", "failed", "lost", "expired"), 0)

    # Lifecycle --------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the pool's worker. Cancelling closes the pool again."""
        self.is_opened = True
        ready = LazyEvent()
        spawn_detached(lambda: self._run(ready), name="claude_agent_py pool")
        try:
            await ready.wait()
        except BaseException:
            self._begin_close()
            raise

    async def close(self) -> None:
        """End all processes and wait until they have ended. Cancelling stops the waiting, not the closing.

        Does not wait if a handler of one of the sessions calls it, because that session waits for the handler.
        """
        is_called_from_session = self.is_called_from_session
        self._begin_close()
        if not is_called_from_session:
            await self._closed.wait()

    @property
    def is_serving(self) -> bool:
        """Whether a caller waits for a process, has one reserved, or uses one."""
        if self._queue:
            return True
        return any(process.phase in (Phase.USED, Phase.RESERVED) for process in self._processes)

    @property
    def is_called_from_session(self) -> bool:
        """Whether the caller is a handler of one of the sessions."""
        client = current_client()
        return client is not None and any(process.client is client for process in self._processes)

    def _begin_close(self) -> None:
        self._is_closing = self.is_draining = True
        for waiter in self._queue:
            waiter.fail(ConnectionClosedError(CLOSED))
        self._queue.clear()
        for process in self._processes:
            process.end()
            process.end_left_tasks()
        self.changed.set()

    def check_open(self) -> None:
        """Raise unless the pool can start processes.

        Raises:
            ConnectionClosedError: The pool was not opened, or is closed.
        """
        if not self.is_opened:
            raise ConnectionClosedError("the pool is not open; use `async with`, or call open() first")
        if self._workers is None or self._is_closing:
            raise ConnectionClosedError(CLOSED)

    def stats(self) -> PoolStats:
        """Return a snapshot of the pool."""
        return PoolStats(
            spares=self._processes.count(*READY),
            starting=self._processes.count(Phase.STARTING),
            used=self._processes.count(Phase.USED),
            closing=self._processes.count(Phase.CLOSING),
            waiting=len(self._queue),
            free=self._processes.count_free() - len(self._queue),
            memory_bytes=self._processes.memory_bytes(),
            last_error=self.last_error,
            **self._counts,
        )

    # Callers -----------------------------------------------------------------------------------------------------

    async def next(self, request: SessionRequest, deadline: float, timeout: float) -> tuple[PooledProcess, bool]:
        """Wait in the queue for a process. Return it, and whether it was available immediately.

        Without time to wait, no process is started.

        Raises:
            PoolTimeoutError: No process was free by the deadline, which was `timeout` seconds away.
            ConnectionClosedError: The pool is closed.
            ClaudeAgentError: The process could not be started.
        """
        self.check_open()
        waiter = ProcessWaiter(request)
        if deadline > anyio.current_time() or self._processes.find_spare(request) is not None:
            self._queue.append(waiter)
            self.dispatch()
        is_warm = waiter.served.is_set()
        try:
            with anyio.CancelScope(deadline=deadline):
                await waiter.served.wait()
        except BaseException:
            self._remove_waiter(waiter)
            raise
        if waiter.error is not None:
            raise waiter.error
        if waiter.process is None:
            self._remove_waiter(waiter)
            self._counts["timeouts"] += 1
            stats = self.stats()
            raise PoolTimeoutError(timeout, used=stats.used, waiting=stats.waiting, starting=stats.starting)
        waiter.process.enter(Phase.USED)
        return waiter.process, is_warm

    def _remove_waiter(self, waiter: ProcessWaiter) -> None:
        """Remove a caller that stopped waiting. Its reserved process becomes a spare again."""
        if waiter in self._queue:
            self._queue.remove(waiter)
        if waiter.process is not None:
            if waiter.process.phase is Phase.RESERVED:
                waiter.process.phase = Phase.SPARE
            self._end_if_unclaimed(waiter.process)
        self.changed.set()

    # Spares ----------------------------------------------------------------------------------------------------

    def find_target(self, request: SessionRequest) -> SpareTarget | None:
        """Return the target whose spares are started for such a request."""
        return next((target for target, wanted in self._build_requests() if is_same(request, wanted)), None)

    def _build_requests(self) -> list[tuple[SpareTarget, SessionRequest]]:
        """Return the targets with the requests to start spares for. Options that targets share are copied once."""
        options = {id(target.options): target.options for target in self.targets}
        requests = {key: SessionRequest.for_options(each) for key, each in options.items()}
        return [(target, replace(requests[id(target.options)], is_parked=target.is_parked)) for target in self.targets]

    # Scheduling --------------------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Serve the queue, then start spares."""
        if self._workers is None or self._is_closing:
            return
        self.is_putting_off = False
        self._serve_queue()
        self._end_spares_over_limit()
        if not self._queue and not self.is_draining:
            targets = self._build_requests()
            for target, request in targets:
                self._refill(target, request, targets)

    def _end_spares_over_limit(self) -> None:
        """End spares until the memory limit is kept. One process may always stay."""
        excess = self._processes.excess()
        for process in self._processes.spares():
            if excess <= 0 or len(self._processes) == 1:
                return
            excess -= self._processes.weigh(process)
            self._expire(process)

    def _serve_queue(self) -> None:
        """Assign processes to the queued callers, in order, or start processes for them."""
        starting = [process for process in self._processes if process.phase is Phase.STARTING]
        starting = [process for process in starting if not process.made_for.is_parked]
        closing = self._processes.count(Phase.CLOSING)
        for waiter in tuple(self._queue):
            process = self._processes.find_spare(waiter.request)
            if process is not None:
                self._reserve(process, waiter)
                continue
            match = next((process for process in starting if can_serve(process, waiter.request)), None)
            if match is not None:
                starting.remove(match)
            elif self._processes.has_room:
                self._start(waiter.request)
            elif closing:
                # A closing process makes room for this caller.
                closing -= 1
            elif spares := self._processes.spares():
                # No queued caller can use this spare, so close it to make room.
                self._expire(spares[0])

    def _reserve(self, process: PooledProcess, waiter: ProcessWaiter) -> None:
        process.phase = Phase.RESERVED
        waiter.process = process
        self._queue.remove(waiter)
        waiter.served.set()
        self._handed_out_at = anyio.current_time()
        # Wake the worker to start a replacement.
        self.changed.set()

    def _expire(self, process: PooledProcess) -> None:
        self._counts["expired"] += 1
        process.end()

    def _refill(
        self, target: SpareTarget, request: SessionRequest, targets: list[tuple[SpareTarget, SessionRequest]]
    ) -> None:
        """Start missing spares, a few at a time, replacing spares that no target needs any more."""
        missing = target.size - self._processes.count_available(request)
        is_pausing = anyio.current_time() < self._handed_out_at + FIRST_ANSWER
        if 2 * missing <= target.size and is_pausing:
            self.is_putting_off |= missing > 0 and self._processes.has_room
            return
        for _ in range(missing):
            if self._processes.count(Phase.STARTING) >= MAX_STARTING or target.not_before > anyio.current_time():
                return
            if self._processes.has_room:
                self._start(request)
                continue
            for spare in self._processes.spares():
                if not any(is_same(spare.made_for, wanted) for _, wanted in targets):
                    self._expire(spare)
                    break

    def _start(self, request: SessionRequest) -> None:
        assert self._workers is not None  # noqa: S101 - the callers have checked it
        process = PooledProcess(request)
        self._processes.add(process)
        self._workers.start_soon(self._live, process)

    # The life of a process ---------------------------------------------------------------------------------------

    @worker
    async def _live(self, process: PooledProcess) -> None:
        """Run a process from start to end. The process has ended whenever this returns or raises."""
        try:
            with process.scope:
                try:
                    while self._processes.has_open_session(process.made_for.options):
                        await self.changed.wait()
                    await process.client.connect()
                except Exception as error:
                    self._on_start_failed(process, error)
                    return
                self._on_ready(process)
                loss = await process.watch(self._idle)
                if loss is not None:
                    self._on_lost(process, loss)
                elif process.phase is Phase.SPARE:
                    # The spare is older than `idle`.
                    self._expire(process)
                    self.changed.set()
                else:
                    await process.client.wait_closed()
        finally:
            with anyio.CancelScope(shield=True):
                await process.close()
            self._processes.remove(process)
            self.changed.set()

    def _on_ready(self, process: PooledProcess) -> None:
        """Turn a started process into a spare, and serve the queue."""
        if process.phase is Phase.STARTING:
            process.enter(Phase.SPARE)
            self.dispatch()
            self._end_if_unclaimed(process)
            self.changed.set()

    def _end_if_unclaimed(self, process: PooledProcess) -> None:
        """End a spare that was started for one session if its caller is gone."""
        if process.phase is Phase.SPARE and names_one_session(process.made_for.options):
            process.end()

    def _on_start_failed(self, process: PooledProcess, error: Exception) -> None:
        """Raise the error to the first caller waiting for such a process."""
        if process.phase is Phase.CLOSING:
            return
        self._note_failure(process, error, "failed")
        waiter: ProcessWaiter | None = None
        # No caller waits for a parked process.
        if not process.made_for.is_parked:
            waiter = next((waiting for waiting in self._queue if can_serve(process, waiting.request)), None)
        if waiter is None:
            logger.warning("a pool could not start a spare: %s", error)
        else:
            self._queue.remove(waiter)
            waiter.fail(error)

    def _on_lost(self, process: PooledProcess, error: Exception) -> None:
        """Replace a spare that died or stopped answering."""
        logger.info("a pool lost a spare: %s", error)
        self._note_failure(process, error, "lost", pauses=anyio.current_time() - process.since < STABLE_SECONDS)

    def _note_failure(
        self, process: PooledProcess, error: Exception, what: Literal["failed", "lost"], *, pauses: bool = True
    ) -> None:
        self._counts[what] += 1
        self.last_error = error
        if pauses and (target := self.find_target(process.made_for)) is not None:
            target.note_failure()
        process.enter(Phase.CLOSING)
        self.changed.set()

    def note_use(self, process: PooledProcess, what: Literal["warm", "cold"]) -> None:
        """Record that a process was used, and whether it was ready."""
        self._counts[what] += 1
        target = self.find_target(process.made_for)
        if target is not None:
            target.note_success()

    # The worker --------------------------------------------------------------------------------------------------

    async def _run(self, ready: LazyEvent) -> None:
        """Start and end processes until the core is closed and all have ended."""
        try:
            async with anyio.create_task_group() as workers:
                self._workers = workers
                ready.set()
                while not self._is_closing:
                    if self._processes.is_measured:
                        await self._processes.measure()
                    self.dispatch()
                    await self.changed.wait(self.seconds_to_next_check())
        finally:
            if not self._is_closing:
                logger.warning("a Pool was not closed before its event loop ended: use `async with Pool(...)`")
                self._begin_close()
            self._workers = None
            self._closed.set()
            ready.set()

    def seconds_to_next_check(self) -> float | None:
        """Return the seconds until the next check if nothing changes before; None means no check."""
        now = anyio.current_time()
        delays = [target.not_before - now for target in self.targets if target.size and target.not_before > now]
        if self._processes.is_measured:
            delays.append(MEASURE_EVERY)
        if self.is_putting_off:  # the pause may have ended since
            delays.append(max(0.0, self._handed_out_at + FIRST_ANSWER - now))
        return min(delays, default=None)
