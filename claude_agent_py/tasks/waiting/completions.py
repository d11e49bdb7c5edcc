"""Iterate over tasks as they end."""

import math
from collections import deque
from collections.abc import AsyncIterator, Sequence

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._errors import TaskTimeoutError
from claude_agent_py.tasks.events import TaskFinished
from claude_agent_py.tasks.listeners import EventStream
from claude_agent_py.tasks.task import Task, Tasks


class Completions(AsyncIterator[Task]):
    """Tasks as they end: iterate it with `async for`."""

    def __init__(
        self,
        tasks: Tasks,
        ends: EventStream[TaskFinished],
        chosen: Sequence[Task] | None,
        timeout: float | None,
    ) -> None:
        self._all = tasks
        self._selected = chosen
        self._timeout = timeout
        self._deadline: float | None = None
        over = [task for task in self._list_tasks() if task.outcome is not None]
        self._done = deque(sorted(over, key=lambda task: task.ended_at or 0.0))
        self._ends = ends

    async def __anext__(self) -> Task:
        await checkpoint()
        if self._deadline is None:
            self._deadline = anyio.current_time() + (math.inf if self._timeout is None else self._timeout)
        while True:
            task = self._take_next()
            if task is not None:
                return task
            if not self._live_ids():
                raise StopAsyncIteration
            with anyio.CancelScope(deadline=self._deadline) as wait:
                await self._all.until(lambda: bool(self._ends.waiting) or not self._live_ids())
            if wait.cancelled_caught and not self._ends.waiting and self._live_ids():
                late = [task.id for task in self._list_tasks() if task.outcome is None]
                raise TaskTimeoutError(late[0], self._timeout or 0.0, late)

    def _take_next(self) -> Task | None:
        if self._done:
            return self._done.popleft()
        while self._ends.waiting:
            task = self._all[self._ends.take().task_id]
            if task in self._selected if self._selected is not None else not task.is_ambient:
                return task
        return None

    def _live_ids(self) -> list[str]:
        live = self._all.live_ids()
        return list(live) if self._selected is None else [task.id for task in self._selected if task.outcome is None]

    def _list_tasks(self) -> list[Task]:
        if self._selected is not None:
            return list(self._selected)
        return [task for task in self._all if not task.is_ambient]
