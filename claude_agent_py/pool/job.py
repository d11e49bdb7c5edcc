"""`Job`: the work behind `MapRuns`. It has its own workers, independent of its readers."""

from __future__ import annotations

import functools
import math
from collections import deque
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._errors import ConnectionClosedError, RunFailed
from claude_agent_py._event_loop import from_any_thread, run_file_work, spawn_detached, worker
from claude_agent_py._runtime.runs.prompts import Prompt
from claude_agent_py._streams import LazyEvent, RepeatingEvent
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.pool.fitting import names_one_session
from claude_agent_py.pool.journal import Journal
from claude_agent_py.pool.outcome import MapProgress, RunOutcome, outcome_of
from claude_agent_py.pool.pool import Pool
from claude_agent_py.pool.progress import Progress, shown
from claude_agent_py.retrying import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from claude_agent_py._protocol.open_runs import Until

AHEAD: Final = 4
"""How many outcomes may wait for a slow reader, in multiples of `concurrency`. Then no further prompt begins."""


class Job:
    """The runs of some prompts. Begins with the first reader; `stop` it at the end."""

    def __init__(
        self,
        prompts: list[Prompt],
        options: ClientOptions,
        concurrency: int,
        *,
        retry: RetryPolicy,
        until: Until,
        timeout: float | None,
        journal: str | Path | None,
        progress: Progress,
        pool: Pool[Any] | None,
        memory: int | str | None,
    ) -> None:
        self._prompts = prompts
        self._options = options
        self._retry = retry
        self._until: Until = until
        self._timeout = timeout
        self._concurrency = concurrency
        self._journal_path = journal
        self._shows = progress
        self._pool = pool
        self._memory = memory
        self._outcomes: dict[int, RunOutcome] = {}
        self._unread: deque[int] = deque()
        """The indexes of the outcomes that were not yielded, as they came."""
        self._read = 0
        self._ahead: float = AHEAD * concurrency
        self._failure: Exception | None = None
        self._scope: anyio.CancelScope | None = None
        """Cancels the work; None before it began."""
        self._is_stopped = False
        self._changed = RepeatingEvent()
        self._over = LazyEvent()
        self._stop_soon: Callable[[], object] = lambda: None
        self._todo: deque[int] = deque()
        self._running = 0
        self._failed = 0
        self._cost = 0.0

    # Readers -----------------------------------------------------------------------------------------------------

    async def next(self, *, ordered: bool) -> RunOutcome[Any]:
        """Return the next outcome. Raises StopAsyncIteration after the last."""
        self._begin()
        await checkpoint()
        while True:
            if ordered and self._read in self._outcomes:
                return self._yielded(self._read)
            if not ordered and self._unread:
                return self._yielded(self._unread[0])
            self._check()
            if self._over.is_set():
                raise StopAsyncIteration
            await self._changed.wait()

    def _yielded(self, index: int) -> RunOutcome[Any]:
        self._unread.remove(index)
        self._read += 1
        self._changed.set()
        return self._outcomes[index]

    async def all(self) -> list[RunOutcome[Any]]:
        """Wait for all outcomes."""
        self._ahead = math.inf
        self._begin()
        self._changed.set()
        await self._over.wait()
        self._check()
        return [self._outcomes[index] for index in range(len(self._prompts))]

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._over.is_set() and len(self._outcomes) < len(self._prompts):
            raise ConnectionClosedError("the runs were stopped")

    # Life --------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._scope is None and not self._is_stopped:
            self._scope = anyio.CancelScope()
            self._stop_soon = from_any_thread(self._scope.cancel)
            spawn_detached(functools.partial(self._work, self._scope), name="claude_agent_py map_runs")

    async def stop(self) -> None:
        """Cancel the runs, and wait until they have ended."""
        self._is_stopped = True
        if self._scope is None:
            self._over.set()
        else:
            self._scope.cancel()
            await self._over.wait()

    def stop_soon(self) -> None:
        """Cancel the runs without waiting; in any thread."""
        if not self._over.is_set():
            try:
                self._stop_soon()
            except RuntimeError:  # the loop is closed, and everything with it
                return

    async def _work(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                async with AsyncExitStack() as stack:
                    journal = await self._opened_journal(stack)
                    tell = stack.enter_context(shown(self._shows, self.progress))
                    if self._todo:
                        pool = self._pool
                        if pool is None:
                            pool = self._own_pool()
                            stack.push_async_callback(_close, pool)
                            await pool.open()
                        await self._run_all(pool, journal, tell)
        except Exception as error:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            self._failure = error
        finally:
            self._over.set()
            self._changed.set()

    async def _opened_journal(self, stack: AsyncExitStack) -> Journal | None:
        """Open the journal, and take the answers that it has."""
        self._todo.extend(range(len(self._prompts)))
        if self._journal_path is None:
            return None
        journal = await run_file_work(Journal, self._journal_path, self._prompts)
        stack.callback(journal.close)
        shape = self._options.output_shape
        found = await run_file_work(journal.answered, None if shape is None else shape.adapter)
        for index in sorted(found):
            self._put(found[index])
        self._todo = deque(index for index in self._todo if index not in found)
        return journal

    def _own_pool(self) -> Pool[Any]:
        at_once = min(self._concurrency, len(self._todo))
        spares = max(1, at_once // 2)
        if names_one_session(self._options):  # each process resumes it
            return Pool(size=0, max_size=at_once, memory=self._memory)
        return Pool(self._options, size=min(spares, len(self._todo)), max_size=at_once + spares, memory=self._memory)

    async def _run_all(self, pool: Pool[Any], journal: Journal | None, tell: Callable[[MapProgress], object]) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(min(self._concurrency, len(self._todo))):
                group.start_soon(self._run_some, pool, journal, tell)

    @worker
    async def _run_some(self, pool: Pool[Any], journal: Journal | None, tell: Callable[[MapProgress], object]) -> None:
        """Run one prompt after another until none is left."""
        while self._todo:
            while len(self._unread) + self._running >= self._ahead:
                await self._changed.wait()
            if not self._todo:
                return
            index = self._todo.popleft()
            self._running += 1
            if self._pool is None:
                await self._keep_spares(pool)
            try:
                outcome = await self._outcome(pool, index)
                if journal is not None:
                    with anyio.CancelScope(shield=True):
                        await run_file_work(journal.record, outcome)
            finally:
                self._running -= 1
            self._put(outcome)
            tell(self.progress)

    async def _outcome(self, pool: Pool[Any], index: int) -> RunOutcome:
        """Run a prompt until it has an answer or an error that is final."""
        prompt, failures = self._prompts[index], list[RunFailed]()

        async def attempt() -> Any:
            return await pool.run(prompt, self._options, until=self._until, timeout=self._timeout)

        try:
            ended = await self._retry.run(attempt, failures=failures)
        except RunFailed as error:
            if isinstance(error, ConnectionClosedError):
                pool.check_takes()  # else the pool was closed, and no prompt can be run any more
            ended = error
        return outcome_of(index, prompt, ended, failures)

    async def _keep_spares(self, pool: Pool[Any]) -> None:
        """Start no spare at the end that no prompt is left for."""
        if len(self._todo) < max(1, self._concurrency // 2) and not names_one_session(self._options):
            await pool.warm(size=len(self._todo))

    def _put(self, outcome: RunOutcome) -> None:
        self._outcomes[outcome.index] = outcome
        self._unread.append(outcome.index)
        self._failed += not outcome.ok
        self._cost += 0.0 if outcome.from_journal else outcome.cost_usd
        self._changed.set()

    @property
    def progress(self) -> MapProgress:
        """How far it is."""
        return MapProgress(
            total=len(self._prompts),
            done=len(self._outcomes),
            failed=self._failed,
            running=self._running,
            cost_usd=self._cost,
        )


async def _close(pool: Pool[Any]) -> None:
    with anyio.CancelScope(shield=True):
        await pool.close()
