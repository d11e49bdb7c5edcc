"""`Crew`: the processes of a pool, and the queue of those who wait for one.

It decides who gets a process, and which are started and ended, without waiting for anything (`dispatch`); each process
has a worker of its own (`member.py`). The workers belong to the event loop, so any task may call any method. Which
session a process may become is decided in `fitting.py`.
"""

import logging
import math
import os
from collections.abc import Iterator
from typing import Any, Final, Literal

import anyio
from anyio.abc import TaskGroup

from claude_agent_py._errors import ConnectionClosedError, PoolTimeoutError
from claude_agent_py._event_loop import spawn_detached
from claude_agent_py._memory import tree_memory
from claude_agent_py._runtime.session.current import current
from claude_agent_py._streams import LazyEvent, RepeatingEvent
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.pool.fitting import Wish, change_to, names_one_session
from claude_agent_py.pool.member import Member, Phase
from claude_agent_py.pool.planning import Bounds, Supply, Waiter
from claude_agent_py.pool.stats import PoolStats

logger: logging.Logger = logging.getLogger("claude_agent_py")

CLOSED: Final = "the pool is closed"

MEASURE_EVERY: Final = 1.0
"""Seconds between measurements of the memory."""

STABLE_SECONDS: Final = 10.0
"""A spare that dies earlier counts as a failed start."""

AT_ONCE: Final = max(2, os.cpu_count() or 1)
"""How many spares are started at once: a start keeps a processor busy. Starts that callers wait for are not limited."""


FIRST_ANSWER: Final = 0.3
"""Seconds after a hand-out in which no spare is started while half of them are left: a start would slow down the first
answer of the session, which takes that long."""


class Crew:
    """The processes of a pool. Used once: `open`, then `close`.

    Args:
        supplies: The spares to keep, the most important first.
        bounds: How many processes there may be.
        idle: Seconds after which a spare is replaced; None means never.
    """

    def __init__(self, supplies: list[Supply], bounds: Bounds, idle: float | None) -> None:
        self.supplies = supplies
        self.changed: RepeatingEvent = RepeatingEvent()
        """Set when a process or a caller comes or goes."""
        self.refuses: bool = False
        """Whether no further callers are taken."""
        self.last_error: Exception | None = None
        self._bounds = bounds
        self._idle = idle
        self._members: list[Member] = []
        """In the order of their start."""
        self._queue: list[Waiter] = []
        self._workers: TaskGroup | None = None
        self._is_closing = False
        self._over = LazyEvent()
        self._handed_out = -math.inf
        """When a spare was handed out last."""
        self._counts = dict.fromkeys(("warm", "cold", "timeouts", "failed", "lost", "expired"), 0)

    # Life --------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the worker. A cancellation closes the crew again."""
        ready = LazyEvent()
        spawn_detached(lambda: self._keep(ready), name="claude_agent_py pool")
        try:
            await ready.wait()
        except BaseException:
            self._begin_close()
            raise

    async def close(self) -> None:
        """End all processes, and wait until they have ended. Cancelling stops the waiting, not the closing.

        In a handler of one of the sessions it does not wait, because their end waits for the handler.
        """
        from_within = self.is_caller_served
        self._begin_close()
        if not from_within:
            await self._over.wait()

    @property
    def is_serving(self) -> bool:
        """Whether somebody waits for a process, is promised one, or has one."""
        return bool(self._queue) or any(one.phase is Phase.USED or one.is_reserved for one in self._members)

    @property
    def is_caller_served(self) -> bool:
        """Whether the caller is a handler of one of the sessions."""
        client = current()
        return client is not None and any(member.client is client for member in self._members)

    def _begin_close(self) -> None:
        self._is_closing = self.refuses = True
        for waiter in self._queue:
            waiter.fail(ConnectionClosedError(CLOSED))
        self._queue.clear()
        for member in self._members:
            member.end()
            member.end_left_tasks()
        self.changed.set()

    def check_open(self) -> None:
        """Raise unless processes can be started.

        Raises:
            ConnectionClosedError: It was not opened, or is closed.
        """
        if self._workers is None or self._is_closing:
            raise ConnectionClosedError(CLOSED)

    def note(self, what: Literal["warm", "cold", "timeouts"]) -> None:
        """Count something."""
        self._counts[what] += 1

    def stats(self) -> PoolStats:
        """Return a snapshot."""
        phases = [member.phase for member in self._members]
        is_measured = self._bounds.memory_bytes is not None
        return PoolStats(
            spares=phases.count(Phase.SPARE),
            starting=phases.count(Phase.STARTING),
            used=phases.count(Phase.USED),
            closing=phases.count(Phase.CLOSING),
            waiting=len(self._queue),
            memory_bytes=sum(member.memory_bytes or 0 for member in self._members) if is_measured else None,
            last_error=self.last_error,
            **self._counts,
        )

    # Callers -----------------------------------------------------------------------------------------------------

    async def next(self, wish: Wish, deadline: float, timeout: float) -> tuple[Member, bool]:
        """Wait in the queue for a process, and return it, and whether it was there at once.

        Raises:
            PoolTimeoutError: None was free at the deadline, which was `timeout` seconds away.
            ConnectionClosedError: The crew is closed.
            ClaudeAgentError: The process could not be started.
        """
        self.check_open()
        waiter = Waiter(wish)
        self._queue.append(waiter)
        self.dispatch()
        is_warm = waiter.served.is_set()
        try:
            with anyio.CancelScope(deadline=deadline):
                await waiter.served.wait()
        except BaseException:
            self._leave(waiter)
            raise
        if waiter.error is not None:
            raise waiter.error
        if waiter.member is None:
            self._leave(waiter)
            self.note("timeouts")
            stats = self.stats()
            raise PoolTimeoutError(timeout, used=stats.used, waiting=stats.waiting, starting=stats.starting)
        waiter.member.is_reserved = False
        waiter.member.enter(Phase.USED)
        return waiter.member, is_warm

    def _leave(self, waiter: Waiter) -> None:
        """Forget a caller who waits no longer. A process that was promised to it stays a spare."""
        if waiter in self._queue:
            self._queue.remove(waiter)
        if waiter.member is not None:
            waiter.member.is_reserved = False
            self._drop_if_useless(waiter.member)
        self.changed.set()

    # What to start and what to end, decided without waiting -------------------------------------------------------

    def dispatch(self) -> None:
        """Serve the queue, then start spares."""
        if self._workers is None or self._is_closing:
            return
        self._serve()
        self._trim()
        if not self._queue and not self.refuses:
            for supply in self.supplies:
                self._refill(supply)

    def _serve(self) -> None:
        """Give everybody in the queue a process, in order, or see to it that one comes."""
        coming = [one for one in self._members if one.phase is Phase.STARTING and not one.made_for.is_parked]
        ending = sum(member.phase is Phase.CLOSING for member in self._members)
        for waiter in tuple(self._queue):
            if (member := self._spare_for(waiter.wish)) is not None:
                self._promise(member, waiter)
            elif (starts := next((one for one in coming if _fits(one, waiter.wish)), None)) is not None:
                coming.remove(starts)
            elif self._bounds.has_room(self._members):
                self._start(waiter.wish)
            elif ending:
                ending -= 1
            elif (oldest := next(self._spares(), None)) is not None:
                self._expire(oldest)  # it fits nobody so far, and makes room

    def _spares(self) -> Iterator[Member]:
        return (one for one in self._members if one.phase is Phase.SPARE and not one.is_reserved)

    def _spare_for(self, wish: Wish) -> Member | None:
        """Return the spare that fits, preferably without a claim or a change, and of these the oldest."""
        fitting = [one for one in self._spares() if one.client.is_open and _fits(one, wish)]
        return min(fitting, key=lambda one: (one.made_for.is_parked, not _is_made_for(one, wish)), default=None)

    def _promise(self, member: Member, waiter: Waiter) -> None:
        member.is_reserved = True
        waiter.member = member
        self._queue.remove(waiter)
        waiter.served.set()
        self._handed_out = anyio.current_time()
        self.changed.set()  # the worker starts the next one

    def _trim(self) -> None:
        """Close spares while the memory is exceeded. One process always may stay."""
        excess = self._bounds.excess(self._members)
        for member in list(self._spares()):
            if excess <= 0 or len(self._members) == 1:
                return
            excess -= max(member.memory_bytes or 0, self._bounds.usual_bytes)
            self._expire(member)

    def _expire(self, member: Member) -> None:
        self._counts["expired"] += 1
        member.end()

    def _refill(self, supply: Supply) -> None:
        """Start the spares that are missing, a few at a time, in place of those that belong to no supply any more."""
        wish = supply.wish()
        ahead = [one for one in self._members if one.phase in (Phase.STARTING, Phase.SPARE) and not one.is_reserved]
        missing = supply.size - sum(_is_made_for(one, wish) for one in ahead)
        if 2 * missing <= supply.size and anyio.current_time() < self._handed_out + FIRST_ANSWER:
            return
        for _ in range(missing):
            starting = sum(member.phase is Phase.STARTING for member in self._members)
            if starting >= AT_ONCE or supply.not_before > anyio.current_time():
                return
            if self._bounds.has_room(self._members):
                self._start(wish)
            elif (useless := next((one for one in self._spares() if self._supply_of(one) is None), None)) is not None:
                self._expire(useless)

    def _start(self, wish: Wish) -> None:
        assert self._workers is not None  # noqa: S101 - asked by the caller
        member = Member(wish)
        self._members.append(member)
        self._workers.start_soon(member.live, self, self._idle)

    def _supply_of(self, member: Member) -> Supply | None:
        """Return the supply that a process belongs to."""
        return next((one for one in self.supplies if _is_made_for(member, one.wish())), None)

    def supply_for(self, options: ClientOptions[Any]) -> Supply | None:
        """Return the supply of options, if there is one."""
        wish = Wish.of(options)
        return next((one for one in self.supplies if _is_same(one.wish(), wish)), None)

    # What processes report ---------------------------------------------------------------------------------------

    def on_ready(self, member: Member) -> None:
        """Make it a spare, which the first caller whom it fits gets."""
        if member.phase is Phase.STARTING:
            member.enter(Phase.SPARE)
            self.dispatch()
            self._drop_if_useless(member)
            self.changed.set()

    def _drop_if_useless(self, member: Member) -> None:
        """End a spare for one session if the caller who asked for it is gone."""
        if member.phase is Phase.SPARE and not member.is_reserved and names_one_session(member.made_for.options):
            member.end()

    def on_failed(self, member: Member, error: Exception) -> None:
        """Raise the error to the first caller who waits for such a process."""
        if member.phase is Phase.CLOSING:
            return
        self._note_failure(member, error, "failed")
        fitting = (one for one in self._queue if _fits(member, one.wish))
        waiter = None if member.made_for.is_parked else next(fitting, None)  # nobody waits for a parked one
        if waiter is None:
            logger.warning("a spare of a pool could not be started: %s", error)
        else:
            self._queue.remove(waiter)
            waiter.fail(error)

    def on_lost(self, member: Member, error: Exception) -> None:
        """Replace a spare that died or does not answer."""
        logger.info("a spare of a pool was lost: %s", error)
        self._note_failure(member, error, "lost", pauses=anyio.current_time() - member.since < STABLE_SECONDS)

    def on_expired(self, member: Member) -> None:
        """Replace a spare that is too old."""
        self._expire(member)
        self.changed.set()

    def on_gone(self, member: Member) -> None:
        """Make room for the next process."""
        self._members.remove(member)
        self.changed.set()

    def _note_failure(
        self, member: Member, error: Exception, what: Literal["failed", "lost"], *, pauses: bool = True
    ) -> None:
        self._counts[what] += 1
        self.last_error = error
        if pauses and (supply := self._supply_of(member)) is not None:
            supply.note_failure()
        member.enter(Phase.CLOSING)
        self.changed.set()

    def note_use(self, member: Member) -> None:
        """Note that a process was good enough to be used."""
        if (supply := self._supply_of(member)) is not None:
            supply.note_success()

    # The worker --------------------------------------------------------------------------------------------------

    async def _keep(self, ready: LazyEvent) -> None:
        """Start and end processes as time passes, until the crew is closed and no process is left."""
        try:
            async with anyio.create_task_group() as workers:
                self._workers = workers
                ready.set()
                while not self._is_closing:
                    if self._bounds.memory_bytes is not None and self._members:
                        await self._measure()
                    self.dispatch()
                    await self.changed.wait(self._next_look())
        finally:
            if not self._is_closing:
                logger.warning("a Pool was not closed before its event loop ended: use `async with Pool(...)`")
                self._begin_close()
            self._workers = None
            self._over.set()
            ready.set()

    def _next_look(self) -> float | None:
        """Return after how many seconds something may have to be done although nothing has changed."""
        now = anyio.current_time()
        looks = [MEASURE_EVERY] if self._bounds.memory_bytes is not None and self._members else []
        looks += [supply.not_before - now for supply in self.supplies if supply.size and supply.not_before > now]
        if now < self._handed_out + FIRST_ANSWER:
            looks.append(self._handed_out + FIRST_ANSWER - now)
        return min(looks, default=None)

    async def _measure(self) -> None:
        pids = {member: pid for member in self._members if (pid := member.pid) is not None}
        measured = await tree_memory(pids.values())
        for member, pid in pids.items():
            member.memory_bytes = measured[pid]
        spares = [measured[pid] for member, pid in pids.items() if member.phase is Phase.SPARE]
        self._bounds.usual_bytes = max(spares, default=0) or self._bounds.usual_bytes


def _fits(member: Member, wish: Wish) -> bool:
    return change_to(member.made_for, wish) is not None


def _is_made_for(member: Member, wish: Wish) -> bool:
    return _is_same(member.made_for, wish)


def _is_same(one: Wish, other: Wish) -> bool:
    change = change_to(one, other)
    return change is not None and change.is_nothing
