"""`Crew`: the processes of a pool, and the queue of those who wait for one.

It decides who gets a process, and which are started and ended, without waiting for anything (`dispatch`); each process
has a worker of its own (`_live`). The workers belong to the event loop, so any task may call any method. Which
process suits which caller is decided in `roster.py` and `fitting.py`.
"""

import logging
import math
import os
from typing import Final, Literal

import anyio
from anyio.abc import TaskGroup

from claude_agent_py._errors import ConnectionClosedError, PoolTimeoutError
from claude_agent_py._event_loop import spawn_detached, worker
from claude_agent_py._runtime.session.current import current
from claude_agent_py._streams import LazyEvent, RepeatingEvent
from claude_agent_py.pool.fitting import Wish, names_one_session
from claude_agent_py.pool.member import Member, Phase
from claude_agent_py.pool.planning import Supply, Waiter
from claude_agent_py.pool.roster import Roster, fits
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
        max_size: How many processes there may be.
        memory: How many bytes they may take; None means any number.
        idle: Seconds after which a spare is replaced; None means never.
    """

    def __init__(self, supplies: list[Supply], max_size: int, memory: int | None, idle: float | None) -> None:
        self.roster: Roster = Roster(supplies, max_size, memory)
        self.changed: RepeatingEvent = RepeatingEvent()
        """Set when a process or a caller comes or goes."""
        self.is_opened: bool = False
        self.refuses: bool = False
        """Whether no further callers are taken."""
        self.last_error: Exception | None = None
        self._idle = idle
        self._queue: list[Waiter] = []
        self._workers: TaskGroup | None = None
        self._is_closing = False
        self._over = LazyEvent()
        self._handed_out = -math.inf
        """When the last spare was handed out."""
        self._counts = dict.fromkeys(("warm", "cold", "timeouts", "failed", "lost", "expired"), 0)

    # Life --------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the worker. A cancellation closes the crew again."""
        self.is_opened = True
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
        """Whether a caller waits for a process, was promised one, or has one."""
        return bool(self._queue) or any(one.phase is Phase.USED or one.is_reserved for one in self.roster.members)

    @property
    def is_caller_served(self) -> bool:
        """Whether the caller is a handler of one of the sessions."""
        client = current()
        return client is not None and any(member.client is client for member in self.roster.members)

    def _begin_close(self) -> None:
        self._is_closing = self.refuses = True
        for waiter in self._queue:
            waiter.fail(ConnectionClosedError(CLOSED))
        self._queue.clear()
        for member in self.roster.members:
            member.end()
            member.end_left_tasks()
        self.changed.set()

    def check_open(self) -> None:
        """Raise unless processes can be started.

        Raises:
            ConnectionClosedError: It was not opened, or is closed.
        """
        if not self.is_opened:
            raise ConnectionClosedError("the pool is not open; use `async with`, or call open() first")
        if self._workers is None or self._is_closing:
            raise ConnectionClosedError(CLOSED)

    def stats(self) -> PoolStats:
        """Return a snapshot."""
        roster = self.roster
        return PoolStats(
            spares=roster.count(Phase.SPARE),
            starting=roster.count(Phase.STARTING),
            used=roster.count(Phase.USED),
            closing=roster.count(Phase.CLOSING),
            waiting=len(self._queue),
            memory_bytes=roster.memory_bytes,
            last_error=self.last_error,
            **self._counts,
        )

    # Callers -----------------------------------------------------------------------------------------------------

    async def next(self, wish: Wish, deadline: float, timeout: float) -> tuple[Member, bool]:
        """Wait in the queue for a process. Return it, and whether it was available at once.

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
            self._counts["timeouts"] += 1
            stats = self.stats()
            raise PoolTimeoutError(timeout, used=stats.used, waiting=stats.waiting, starting=stats.starting)
        waiter.member.is_reserved = False
        waiter.member.enter(Phase.USED)
        return waiter.member, is_warm

    def _leave(self, waiter: Waiter) -> None:
        """Remove a caller that stopped waiting. A process promised to it stays a spare."""
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
        for member in self.roster.excessive():
            self._expire(member)
        if not self._queue and not self.refuses:
            for supply in self.roster.supplies:
                self._refill(supply)

    def _serve(self) -> None:
        """Assign processes to the callers in the queue, in order, or start what they need."""
        roster = self.roster
        coming, ending = roster.coming(), roster.count(Phase.CLOSING)
        for waiter in tuple(self._queue):
            if (member := roster.spare_for(waiter.wish)) is not None:
                self._promise(member, waiter)
            elif (starts := next((one for one in coming if fits(one, waiter.wish)), None)) is not None:
                coming.remove(starts)
            elif roster.has_room:
                self._start(waiter.wish)
            elif ending:
                ending -= 1
            elif (oldest := next(roster.spares(), None)) is not None:
                self._expire(oldest)  # no caller can use it, so it makes room

    def _promise(self, member: Member, waiter: Waiter) -> None:
        member.is_reserved = True
        waiter.member = member
        self._queue.remove(waiter)
        waiter.served.set()
        self._handed_out = anyio.current_time()
        self.changed.set()  # the worker starts the next one

    def _expire(self, member: Member) -> None:
        self._counts["expired"] += 1
        member.end()

    def _refill(self, supply: Supply) -> None:
        """Start missing spares, a few at a time, replacing those that belong to no supply any more."""
        roster, wish = self.roster, supply.wish()
        missing = roster.missing(supply, wish)
        if 2 * missing <= supply.size and anyio.current_time() < self._handed_out + FIRST_ANSWER:
            return
        for _ in range(missing):
            if roster.count(Phase.STARTING) >= AT_ONCE or supply.not_before > anyio.current_time():
                return
            if roster.has_room:
                self._start(wish)
            elif (useless := roster.useless()) is not None:
                self._expire(useless)

    def _start(self, wish: Wish) -> None:
        assert self._workers is not None  # noqa: S101 - asked by the caller
        member = Member(wish)
        self.roster.members.append(member)
        self._workers.start_soon(self._live, member)

    # The life of a process ---------------------------------------------------------------------------------------

    @worker
    async def _live(self, member: Member) -> None:
        """Run a process from start to end. It has always ended when this returns or raises."""
        try:
            with member.scope:
                try:
                    await member.client.connect()
                except Exception as error:
                    self._on_failed(member, error)
                    return
                self._on_ready(member)
                if (loss := await member.watch(self._idle)) is not None:
                    self._on_lost(member, loss)
                elif member.is_free:  # it is too old
                    self._expire(member)
                    self.changed.set()
                else:
                    await member.client.wait_closed()
        finally:
            with anyio.CancelScope(shield=True):
                await member.close()
            self.roster.members.remove(member)
            self.changed.set()

    def _on_ready(self, member: Member) -> None:
        """Make it a spare, for the first caller it fits."""
        if member.phase is Phase.STARTING:
            member.enter(Phase.SPARE)
            self.dispatch()
            self._drop_if_useless(member)
            self.changed.set()

    def _drop_if_useless(self, member: Member) -> None:
        """End a spare for one session if the caller who asked for it is gone."""
        if member.is_free and names_one_session(member.made_for.options):
            member.end()

    def _on_failed(self, member: Member, error: Exception) -> None:
        """Raise the error to the first caller who waits for such a process."""
        if member.phase is Phase.CLOSING:
            return
        self._note_failure(member, error, "failed")
        fitting = (one for one in self._queue if fits(member, one.wish))
        waiter = None if member.made_for.is_parked else next(fitting, None)  # no caller waits for a parked one
        if waiter is None:
            logger.warning("a spare of a pool could not be started: %s", error)
        else:
            self._queue.remove(waiter)
            waiter.fail(error)

    def _on_lost(self, member: Member, error: Exception) -> None:
        """Replace a spare that died or does not answer."""
        logger.info("a spare of a pool was lost: %s", error)
        self._note_failure(member, error, "lost", pauses=anyio.current_time() - member.since < STABLE_SECONDS)

    def _note_failure(
        self, member: Member, error: Exception, what: Literal["failed", "lost"], *, pauses: bool = True
    ) -> None:
        self._counts[what] += 1
        self.last_error = error
        if pauses and (supply := self.roster.supply_of(member)) is not None:
            supply.note_failure()
        member.enter(Phase.CLOSING)
        self.changed.set()

    def note_use(self, member: Member, what: Literal["warm", "cold"]) -> None:
        """Record that a process was used, and whether it was ready."""
        self._counts[what] += 1
        if (supply := self.roster.supply_of(member)) is not None:
            supply.note_success()

    # The worker --------------------------------------------------------------------------------------------------

    async def _keep(self, ready: LazyEvent) -> None:
        """Start and end processes until the crew is closed and all have ended."""
        try:
            async with anyio.create_task_group() as workers:
                self._workers = workers
                ready.set()
                while not self._is_closing:
                    if self.roster.is_measured and self.roster.members:
                        await self.roster.measure()
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
        """Return the seconds until the next check, even if nothing changes, or None."""
        now = anyio.current_time()
        looks = [MEASURE_EVERY] if self.roster.is_measured and self.roster.members else []
        looks += [supply.not_before - now for supply in self.roster.supplies if supply.size and supply.not_before > now]
        if now < self._handed_out + FIRST_ANSWER:
            looks.append(self._handed_out + FIRST_ANSWER - now)
        return min(looks, default=None)
