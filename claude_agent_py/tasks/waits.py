"""Waiting for tasks, and reconciling while one waits.

Owns the waits behind `TaskManager.wait` and its kin. A wait only looks: no timeout and no cancellation of it ever
touches the task. Where no worker of a session reconciles (`reconcile_forever`), whoever waits does it, so that a wait
for a task that is over cannot hang, whatever message got lost.
"""

import math
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeAlias

import anyio

from claude_agent_py.errors import OptionsError, TaskError, TaskNotFoundError, TaskTimeoutError
from claude_agent_py.tasks.entry import Entry
from claude_agent_py.tasks.intake import Intake
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.reconcile import Reconciler
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.waiting import Bell

if TYPE_CHECKING:
    from collections.abc import Mapping

TaskOrId: TypeAlias = Task | str


def check_timeout(timeout: object) -> None:
    """Refuse what is no number of seconds. Raises OptionsError."""
    if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
        raise OptionsError(f"seconds, 0 or more, or None are expected, not {timeout!r}", option="timeout")


class Waits:
    """The waits on the tasks of one session."""

    def __init__(self, intake: Intake, reconciler: Reconciler) -> None:
        self._intake = intake
        self._reconciler = reconciler
        self._workers = 0
        self.is_copy = False
        """Whether the tasks came out of a pickle, so that nothing happens to them: a wait for one would never end."""

    @property
    def _entries(self) -> "Mapping[str, Entry]":
        return self._intake.ledger.entries

    def entry(self, task: TaskOrId) -> Entry:
        """Give the entry of a task. Raises TaskNotFoundError."""
        task_id = task.id if isinstance(task, Task) else task
        if not isinstance(task_id, str):
            raise OptionsError(f"a task or its id is expected, not {task_id!r}", option="task_id")
        entry = self._entries.get(task_id)
        if entry is None:
            raise TaskNotFoundError(task_id)
        return entry

    def chosen(self, tasks: Iterable[TaskOrId] | None) -> list[Entry] | None:
        """Give the entries of several tasks; None for None, which stands for all."""
        if tasks is None:
            return None
        if isinstance(tasks, str | bytes | Task) or not isinstance(tasks, Iterable):
            raise OptionsError(f"several tasks or ids are expected, for example [{tasks!r}]", option="task_ids")
        return [self.entry(task) for task in tasks]

    async def one(self, task: TaskOrId, timeout: float | None) -> TaskOutcome:
        """Wait for the end of the current run of a task."""
        check_timeout(timeout)
        entry = self.entry(task)
        intake, task_id, run = self._intake, entry.id, entry.run
        with anyio.move_on_after(timeout):
            await self.until(lambda: run.outcome is not None and not run.is_to_count, intake.bell(task_id))
        if run.outcome is None and run.status.is_terminal:  # it is over, only the report is late
            intake.publish(intake.ledger.conclude(task_id, None, intake.clock()))
        if run.outcome is None:
            raise TaskTimeoutError(task_id, timeout or 0.0)
        return run.outcome

    async def all(self, tasks: Iterable[TaskOrId] | None, timeout: float | None) -> list[TaskOutcome]:
        """Wait for the end of several tasks, or of all."""
        check_timeout(timeout)
        chosen = self.chosen(tasks)

        def live_ids() -> Collection[str]:
            if chosen is None:
                return self._intake.ledger.live_ids()
            return [entry.id for entry in chosen if entry.is_live]

        with anyio.move_on_after(timeout):
            await self.until(lambda: not live_ids(), self._intake.any_bell)
        late = {task_id for task_id in live_ids() if not self._entries[task_id].run.status.is_terminal}
        if late:
            in_order = [task_id for task_id in self._entries if task_id in late]
            raise TaskTimeoutError(in_order[0], timeout or 0.0, in_order)
        over = self._entries.values() if chosen is None else chosen
        return [await self.one(entry.id, None) for entry in list(over) if entry.run.status.is_terminal]

    async def until(self, is_true: Callable[[], bool], bell: Bell) -> None:
        """Wait for a condition, which is looked at whenever the bell rings."""
        while not is_true():
            await self.nap(bell)

    async def nap(self, bell: Bell, timeout: float | None = None) -> None:
        """Sleep until the bell rings, at most for `timeout` seconds, and reconcile where nobody else does."""
        if self.is_copy and timeout is None:
            raise TaskError("the task is a copy, out of a pickle, and was not over when it was made", task_id="")
        if self._workers:
            await bell.wait(timeout)
            return
        times = [time for time in (timeout, self._reconciler.pause()) if time is not None]
        await bell.wait(min(times, default=None))
        await self._reconciler.check()

    async def reconcile_forever(self) -> None:
        """Reconcile until cancelled."""
        self._workers += 1
        try:
            while True:
                pause = self._reconciler.pause()
                self._intake.next_look = math.inf if pause is None else self._intake.clock() + pause
                await self._intake.agenda_bell.wait(pause)
                await self._reconciler.check()
        finally:
            self._workers -= 1
            self._intake.next_look = math.inf
            self._intake.ring_all()  # whoever waits has to reconcile itself again
