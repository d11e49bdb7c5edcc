"""All tasks of a session: `client.tasks`.

`TaskManager` is the public interface of `TaskIntake`. It also works without a session, for example on recorded
messages, except for requests to the CLI.
"""

import copy
import math
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar, overload

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._base.errors import OptionsError, TaskError, TaskNotFoundError, TaskTimeoutError
from claude_agent_py._journal.ports import ControlPort
from claude_agent_py._journal.routes import find_task_id
from claude_agent_py._journal.tasks.events import TaskEvent, TaskFinished
from claude_agent_py._journal.tasks.ledger import Grace
from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py._journal.tasks.record import Record, TaskRun
from claude_agent_py._journal.tasks.spending import ModelPrice, Prices
from claude_agent_py.tasks.files.output_reader import OutputReader, TaskOutput
from claude_agent_py.tasks.files.paths import Paths
from claude_agent_py.tasks.intake import TaskIntake, Watcher, steady_time
from claude_agent_py.tasks.listeners import EventStream, EventT, Listener, TaskListener, What
from claude_agent_py.tasks.messages import MESSAGE_LIMIT
from claude_agent_py.tasks.task import Task, TaskTree, build_tree, check_timeout
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage

ListenerT = TypeVar("ListenerT", bound=Listener)
TaskOrId: TypeAlias = Task | str
OtherKind: TypeAlias = Literal[
    "started", "reopened", "progressed", "backgrounded", "status_changed", "asked", "answered", "changed",
    "output_available", "revised",
]  # fmt: skip
"""Kinds of events for which type checkers do not check the listener; pass the event class instead."""


class TaskManager:
    """The background tasks of a session. Iterating yields every `Task`, in the order of discovery."""

    def __init__(
        self,
        control: ControlPort | None = None,
        *,
        intake: TaskIntake | None = None,
        config_dir: str | os.PathLike[str] | None = None,
        grace: Grace | None = None,
        message_limit: int = MESSAGE_LIMIT,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        """Create a manager.

        Args:
            control: Sends requests to the CLI. Without it, `stop` and `move_to_background` raise TaskError. If it is a
                `Client`, the manager also hears how its process ends, which no message reports.
            intake: Tracks the session's messages. By default, one is created from the other arguments.
            config_dir: The CLI's configuration directory, which contains the transcripts of subagents.
            grace: How long to wait before inferring the end of a task.
            message_limit: The maximum number of messages kept for `Task.messages()`, over all tasks.
            clock: Returns the time, in seconds since the epoch.
        """
        if intake is None:
            intake = TaskIntake(config_dir, grace=grace, message_limit=message_limit, clock=clock)
            session: object = getattr(control, "tasks", None)
            if isinstance(session, TaskManager):
                session._intake.followers.add(intake)
        intake.control = control
        self._intake: TaskIntake = intake
        self._records = intake.ledger.records
        self._tasks: dict[str, Task] = {}

    @cached_property
    def _reader(self) -> OutputReader:
        intake = self._intake
        return OutputReader(intake.paths, intake.messages, lambda: intake.control)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the tasks without the session. The tasks of the copy no longer change."""
        return _build_copy, (dict(self._records), self._intake.paths, self._intake.ledger.prices)

    def __copy__(self) -> "TaskManager":
        return copy.deepcopy(self)  # otherwise the session would change the records of the copy

    def __repr__(self) -> str:
        return f"<TaskManager {len(self)} tasks, {len(self.live_ids())} live>"

    # Queries

    def __iter__(self) -> Iterator[Task]:
        return iter([self._get_task(record) for record in self._records.values()])

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, task: object) -> bool:
        return (task.id if isinstance(task, Task) else task) in self._records

    def __getitem__(self, task: TaskOrId) -> Task:
        """Return a task. Raises TaskNotFoundError."""
        task_id = task.id if isinstance(task, Task) else task
        if not isinstance(task_id, str):
            raise OptionsError(f"must be a task or its id, not {task_id!r}", option="task_id")
        record = self._records.get(task_id)
        if record is None:
            raise TaskNotFoundError(task_id)
        return self._get_task(record)

    def get(self, task_id: str | None) -> Task | None:
        """Return a task, or None if the id is unknown.

        `get(message.agent_id)` returns the task of the subagent that sent a message, and None for the main agent's.
        """
        record = self._records.get(task_id) if task_id is not None else None
        return None if record is None else self._get_task(record)

    def _get_task(self, record: Record) -> Task:
        task = self._tasks.get(record.id)
        if task is None:
            task = self._tasks[record.id] = Task(record, self.get, self._intake, self._reader)
        return task

    @property
    def prices(self) -> dict[str, ModelPrice]:
        """The prices used to derive the cost of subagents, by model. Add your own prices here.

        For other models, the price is derived from the CLI's totals (`ResultMessage.model_usage`) after each turn;
        until then, the cost is None.
        """
        return self._intake.ledger.prices.given

    @property
    def running(self) -> list[Task]:
        """The tasks that have not ended, including paused tasks and tasks that wait for the user."""
        return [task for task in self if not task.done]

    @property
    def finished(self) -> list[Task]:
        """The tasks that have ended."""
        return [task for task in self if task.done]

    @property
    def roots(self) -> list[Task]:
        """The tasks that no known subagent launched."""
        return [task for task in self if task.parent is None]

    def tree(self) -> TaskTree:
        """Return all tasks as a tree: subagents with their own tasks below them. `print()` draws it."""
        return build_tree(self.roots)

    def live_ids(self) -> frozenset[str]:
        """Return the ids of the tasks that have not ended, except ambient tasks. Cheap."""
        return self._intake.ledger.live_ids()

    # Events

    def track(self, message: object, /) -> Task | None:
        """Track a message of any type, and return the task that it is about, or None.

        Does no I/O and never raises. Messages may be repeated, missing or out of order. May be called from any thread:
        if tasks are waited for in an event loop of another thread, the message is tracked there, and this thread blocks
        meanwhile.
        """
        self._intake.home.call(lambda: self._intake.track(message))
        return self.get(find_task_id(message))

    @overload
    def events(self, what: None = None) -> EventStream[TaskEvent]: ...

    @overload
    def events(self, what: type[EventT]) -> EventStream[EventT]: ...

    @overload
    def events(self, what: Literal["finished"]) -> EventStream[TaskFinished]: ...

    @overload
    def events(self, what: What) -> EventStream[Any]: ...

    def events(self, what: What = None) -> EventStream[Any]:
        """Return an async iterator of the events from now on. It ends with the session.

        If the CLI dies, the tasks that fail with it are reported first; then the iteration ends without an error.

        Args:
            what: The events to yield: an event class or its `kind`. None means all.
        """
        return self._intake.listeners.stream(what)

    @overload
    def on(  # type: ignore[overload-overlap]  # a class is also callable, but selects its events
        self, what: type[EventT], listener: None = None
    ) -> Callable[[TaskListener[EventT]], TaskListener[EventT]]: ...

    @overload
    def on(self, what: type[EventT], listener: TaskListener[EventT]) -> TaskListener[EventT]: ...

    @overload
    def on(
        self, what: None = None, listener: None = None
    ) -> Callable[[TaskListener[TaskEvent]], TaskListener[TaskEvent]]: ...

    @overload
    def on(self, what: None, listener: TaskListener[TaskEvent]) -> TaskListener[TaskEvent]: ...

    @overload
    def on(
        self, what: Literal["finished"], listener: None = None
    ) -> Callable[[TaskListener[TaskFinished]], TaskListener[TaskFinished]]: ...

    @overload
    def on(self, what: Literal["finished"], listener: TaskListener[TaskFinished]) -> TaskListener[TaskFinished]: ...

    @overload
    def on(
        self, what: Literal["notification"], listener: None = None
    ) -> Callable[[TaskListener[TaskNotificationMessage]], TaskListener[TaskNotificationMessage]]: ...

    @overload
    def on(
        self, what: Literal["notification"], listener: TaskListener[TaskNotificationMessage]
    ) -> TaskListener[TaskNotificationMessage]: ...

    @overload
    def on(self, what: OtherKind, listener: None = None) -> Callable[[ListenerT], ListenerT]: ...

    @overload
    def on(self, what: OtherKind, listener: ListenerT) -> ListenerT: ...

    @overload
    def on(self, what: TaskListener[TaskEvent]) -> TaskListener[TaskEvent]: ...

    def on(self, what: What | Listener = None, listener: Listener | None = None) -> Any:
        """Call a function for each event: `on(f)` for all, `on(TaskFinished, f)` or `on("finished", f)` for some.

        A type checker checks `f` for an event class, `"finished"` and `"notification"`, not for the other words.
        `on("notification", f)` calls it once for each end, with a `TaskNotificationMessage` (made up if the CLI sent
        none). Without a function it is a decorator. The function may be async or plain, and runs in the event loop, in
        a separate worker, so it may use the loop's queues and events; a plain one must not block. Its exceptions are
        logged and reported, and do not stop later calls. A slow listener misses progress events. Listeners stay for the
        life of the client, also after `Client.reopen`. Only `client.tasks` calls them; another manager has `events` and
        `watch`.
        """
        if listener is not None:
            return self._listen(what, listener)
        if what is None or isinstance(what, str | type):
            return lambda function: self._listen(what, function)
        return self._listen(None, what)

    def _listen(self, what: What | Listener, listener: Listener) -> Listener:
        self._intake.listeners.add(listener, what)
        return listener

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call a function synchronously on each change, even without an event. Returns a function that removes it."""
        watchers, key = self._intake.watchers, object()  # watchers may be equal
        watchers[key] = watcher

        def remove() -> None:
            watchers.pop(key, None)

        return remove

    def so_far(self) -> list[TaskEvent]:
        """Return the start and the end of each run so far."""
        replay = self._intake.ledger.replay_events
        return [event for record in self._records.values() for event in replay(record)]

    def catch_up(self, listener: Listener) -> None:
        """Call a listener added by `on` with the start and the end of each run so far."""
        self._intake.listeners.replay(listener, self.so_far())

    def listens(self, listener: Listener) -> bool:
        """Return whether `on` added a function, and `off` has not removed it."""
        return listener in self._intake.listeners

    def off(self, listener: Listener) -> None:
        """Remove a function that was added by `on`. Does nothing for other functions."""
        self._intake.listeners.remove(listener)

    # Waiting

    async def wait(self, task_id: TaskOrId, timeout: float | None = None) -> TaskOutcome:
        """Wait for the end of a task's current run. See `Task.wait`.

        Raises:
            TaskNotFoundError: The id is unknown.
            TaskTimeoutError: The task did not end in time.
        """
        return await self[task_id].wait(timeout)

    async def wait_all(
        self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None
    ) -> list[TaskOutcome]:
        """Wait for the end of these tasks; with None, until no task is running, including tasks that start meanwhile.

        Returns the outcomes, in the given order or (for None) the order of discovery. With None, ambient tasks are
        ignored.

        Raises:
            TaskNotFoundError: An id is unknown.
            TaskTimeoutError: Some tasks did not end in time; `task_ids` lists them.
        """
        check_timeout(timeout)
        chosen = self._resolve_tasks(task_ids)

        deadline = anyio.current_time() + (math.inf if timeout is None else timeout)
        runs = None if chosen is None else self._list_runs(chosen)

        def live_ids() -> Collection[str]:
            return self.live_ids() if runs is None else [task.id for task, run in runs if run.is_live]

        with anyio.CancelScope(deadline=deadline):
            await self.until(lambda: not live_ids())
        if runs is None:
            late = {task_id for task_id in live_ids() if not self[task_id].done}
            runs = self._list_runs(task for task in self if task.done)
        else:
            late = {task.id for task, run in runs if not run.status.is_terminal}
        if late:
            in_order = [task for task in self if task.id in late]
            raise _build_timeout(in_order, timeout)
        return [await task._wait_for(run, _seconds_until(deadline)) for task, run in runs]

    def _list_runs(self, tasks: Iterable[Task]) -> list[tuple[Task, TaskRun]]:
        """Return the current run of each task: a task that is reopened still has the outcome of the run before."""
        return [(task, self._records[task.id].run) for task in tasks]

    async def wait_any(self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None) -> Task:
        """Wait until one of these tasks (None means all) has ended, and return it. It may have ended before the call.

        Raises:
            TaskNotFoundError: An id is unknown.
            TaskTimeoutError: No task ended in time.
            TaskError: No task is given or known.
        """
        async for task in self.as_completed(task_ids, timeout=timeout):
            return task
        raise TaskError("no task to wait for", task_id="")

    def as_completed(
        self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None
    ) -> "Completions":
        """Iterate over tasks as they end: first the tasks that have already ended, then each task when its run ends.

        Without `task_ids`, the iteration continues while any task is running, including tasks that start meanwhile. It
        raises TaskTimeoutError after `timeout` seconds, counted from the first step.
        """
        check_timeout(timeout)
        return Completions(self, self.events(TaskFinished), self._resolve_tasks(task_ids), timeout)

    def _resolve_tasks(self, tasks: Iterable[TaskOrId] | None) -> list[Task] | None:
        if tasks is None:
            return None
        if isinstance(tasks, str | bytes | Task) or not isinstance(tasks, Iterable):
            problem = f"must be an iterable of tasks or ids, such as [{tasks!r}], not {tasks!r}"
            raise OptionsError(problem, option="task_ids")
        return [self[task] for task in tasks]

    async def until(self, is_true: Callable[[], bool], task_id: str | None = None) -> None:
        """Wait for a condition. It is checked whenever a task begins or ends, or anything happens to `task_id`."""
        await self._intake.wait_until(is_true, self._intake.event(task_id))

    async def output(
        self, task_id: TaskOrId, block: bool = True, timeout: float = 30.0, *, tail_bytes: int | None = None
    ) -> TaskOutput:
        """Return the output of a task with its state, as the model's tool `TaskOutput` did.

        Args:
            task_id: The task, or its id.
            block: Whether to wait for its end.
            timeout: How long to wait, in seconds. After that, `retrieval_status` is `timeout`; nothing is raised.
            tail_bytes: Read only about this many bytes from the end.

        Raises:
            TaskNotFoundError: The id is unknown.
            TaskOutputError: The task has ended, and its output cannot be read.
        """
        check_timeout(timeout)
        task = self[task_id]
        record = self._records[task.id]
        deadline = anyio.current_time() + timeout
        if block:
            with anyio.CancelScope(deadline=deadline):
                await self.until(lambda: task.done, task.id)
        if not task.done:
            return await self._reader.output(record, "timeout" if block else "not_ready", tail_bytes)
        # The report may arrive a moment after the status.
        await task.wait(_seconds_until(deadline))
        return await self._reader.output(record, "success", tail_bytes)

    # Actions

    async def stop(self, task_id: TaskOrId, timeout: float = 10.0) -> TaskOutcome:
        """Stop a task, wait for its end, and return its outcome. See `Task.stop`.

        Raises:
            TaskNotFoundError: The id is unknown.
            TaskTimeoutError: The task did not end within `timeout` seconds of the request.
            ControlError: The request failed.
        """
        return await self[task_id].stop(timeout)

    async def stop_all(self, timeout: float = 10.0, *, task_ids: Iterable[TaskOrId] | None = None) -> list[TaskOutcome]:
        """Stop every running task except ambient tasks, or the running ones of `task_ids`, and return the outcomes.

        Subagents are stopped first, so that they launch nothing more and are not woken when their shells end. What a
        subagent launches while it is stopped is stopped as well. The outcomes of shells that end in the meantime are
        included.

        Raises:
            TaskNotFoundError: An id is unknown.
            TaskTimeoutError: Some tasks did not end in time; the others are stopped.
            ControlError: A request failed; the other tasks are stopped.
        """
        check_timeout(timeout)
        chosen = self._resolve_tasks(task_ids)
        first = [task for task in (self.running if chosen is None else chosen) if not task.done and not task.is_ambient]
        stopped: list[Task] = []
        outcomes: list[TaskOutcome] = []
        failures: list[Exception] = []

        async def stop(task: Task) -> None:
            try:
                outcomes.append(await task.stop(timeout))
            except Exception as error:
                # Raised at the end, so that the other tasks are still stopped.
                failures.append(error)

        def find_next() -> list[Task]:
            launched = [task for task in self.running if task.parent in stopped]
            left = [task for task in dict.fromkeys([*first, *launched]) if task not in stopped]
            return [task for task in left if task.is_agent] or left

        while group := find_next():
            stopped += group
            async with anyio.create_task_group() as stops:
                for task in group:
                    stops.start_soon(stop, task)
        if failures:
            raise failures[0]
        return outcomes

    async def move_to_background(self, task_id: TaskOrId, timeout: float = 10.0) -> bool:
        """Move a foreground task to the background, and return whether it runs there now.

        See `Task.move_to_background`.

        Raises:
            TaskNotFoundError: The id is unknown.
            ControlError: The request failed.
        """
        return await self[task_id].move_to_background(timeout)

    async def move_all_to_background(self) -> None:
        """Move all foreground tasks to the background, if there are any.

        Raises:
            ControlError: The request failed.
        """
        if self._intake.control is None:
            raise TaskError("this TaskManager has no session to send requests to", task_id="")
        await self._intake.control.control("background_tasks")


class Completions(AsyncIterator[Task]):
    """Tasks as they end: iterate it with `async for`."""

    def __init__(
        self,
        tasks: TaskManager,
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
        while (task := self._take_next()) is None:
            if not self._live_ids():
                raise StopAsyncIteration
            with anyio.CancelScope(deadline=self._deadline) as wait:
                await self._all.until(lambda: bool(self._ends.waiting) or not self._live_ids())
            if wait.cancelled_caught and not self._ends.waiting and self._live_ids():
                late = [task for task in self._list_tasks() if task.outcome is None]
                raise _build_timeout(late, self._timeout)
        return task

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


def _build_timeout(late: Sequence[Task], timeout: float | None) -> TaskTimeoutError:
    descriptions = {task.id: task.description for task in late}
    return TaskTimeoutError(late[0].id, timeout or 0.0, list(descriptions), descriptions)


def _seconds_until(deadline: float) -> float | None:
    return None if deadline == math.inf else max(0.0, deadline - anyio.current_time())


def _build_copy(records: dict[str, Record], paths: Paths, prices: Prices) -> TaskManager:
    intake = TaskIntake()
    intake.ledger.prices = prices
    vars(intake.paths).update(vars(paths))
    intake.ledger.restore(records)
    intake.is_copy = True
    return TaskManager(intake=intake)
