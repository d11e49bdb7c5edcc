"""All tasks of a session: `client.tasks`.

`TaskManager` is the user's view of `TaskIntake`. It can be used alone, for example on recorded messages: without a
session, everything works except requests to the CLI.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Literal, TypeAlias, TypeVar, overload

import anyio

from claude_agent_py._errors import OptionsError, TaskError, TaskNotFoundError, TaskTimeoutError
from claude_agent_py._protocol.ports import ControlPort
from claude_agent_py.tasks.events import (
    TaskEvent,
    TaskFinished,
)
from claude_agent_py.tasks.files.reading import OutputReader, TaskOutput
from claude_agent_py.tasks.intake import TaskIntake, Watcher, steady_time
from claude_agent_py.tasks.ledger.record import Record
from claude_agent_py.tasks.ledger.registry import Grace
from claude_agent_py.tasks.ledger.spending import ModelPrice
from claude_agent_py.tasks.listeners import EventStream, EventT, Listener, TaskListener, What
from claude_agent_py.tasks.messages import MESSAGE_LIMIT
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.task import Task, TaskTree, build_tree, check_timeout
from claude_agent_py.tasks.waiting.completions import Completions
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage

ListenerT = TypeVar("ListenerT", bound=Listener)
TaskOrId: TypeAlias = Task | str
OtherKind: TypeAlias = Literal[
    "started", "reopened", "progressed", "backgrounded", "status_changed", "asked", "answered", "changed",
    "output_available", "revised",
]  # fmt: skip
"""Kinds of events whose listeners are not checked; pass the class of the events for that."""


class TaskManager:
    """The background tasks of a session. Iterating yields every `Task`, in the order in which they became known."""

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
        """Make a manager.

        Args:
            control: Sends requests to the CLI. Without it, `stop` and `move_to_background` raise TaskError.
            intake: Tracks the session's messages. By default the manager makes one from the other arguments.
            config_dir: The CLI's configuration directory, which has the transcripts of subagents.
            grace: How long to wait before inferring the end of a task.
            message_limit: How many messages of subagents to keep for `Task.messages()`, over all tasks.
            clock: Returns the time, in seconds since the epoch.
        """
        if intake is None:
            intake = TaskIntake(config_dir, grace=grace, message_limit=message_limit, clock=clock)
        self._intake = intake
        self._records = intake.registry.records
        self._control = control
        self._reader = OutputReader(intake.paths, intake.messages, control)
        self._tasks: dict[str, Task] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tasks without the session. The tasks of the copy no longer change."""
        return _copy_of, (self._intake,)

    def __repr__(self) -> str:
        return f"<TaskManager {len(self)} tasks, {len(self.live_ids())} live>"

    # Looking

    def __iter__(self) -> Iterator[Task]:
        return iter([self._task(record) for record in self._records.values()])

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, task: object) -> bool:
        return (task.id if isinstance(task, Task) else task) in self._records

    def __getitem__(self, task: TaskOrId) -> Task:
        """Return a task. Raises TaskNotFoundError."""
        task_id = task.id if isinstance(task, Task) else task
        if not isinstance(task_id, str):
            raise OptionsError(f"expected a task or its id, not {task_id!r}", option="task_id")
        record = self._records.get(task_id)
        if record is None:
            raise TaskNotFoundError(task_id)
        return self._task(record)

    def get(self, task_id: str | None) -> Task | None:
        """Return a task, or None if the id is unknown.

        `get(message.agent_id)` returns the task of the subagent that sent a message, and None for the main agent's.
        """
        record = self._records.get(task_id) if task_id is not None else None
        return None if record is None else self._task(record)

    def _task(self, record: Record) -> Task:
        task = self._tasks.get(record.id)
        if task is None:
            task = self._tasks[record.id] = Task(record, self, self._intake, self._reader, self._control)
        return task

    @property
    def prices(self) -> dict[str, ModelPrice]:
        """The prices used to derive the cost of subagents, by model. Add those that you know.

        A model without a price here has the one that the CLI's own sums imply (`ResultMessage.model_usage`), known once
        a turn is over; until then the cost is None.
        """
        return self._intake.registry.prices.given

    @property
    def running(self) -> list[Task]:
        """The tasks that are not over, including those that are paused or wait for the user."""
        return [task for task in self if not task.done]

    @property
    def finished(self) -> list[Task]:
        """The tasks that are over."""
        return [task for task in self if task.done]

    @property
    def roots(self) -> list[Task]:
        """The tasks that no known subagent launched."""
        return [task for task in self if task.parent is None]

    def tree(self) -> TaskTree:
        """Return all tasks as a tree: subagents with what they launched. `print()` draws it."""
        return build_tree(self.roots, lambda task: task.children)

    def live_ids(self) -> frozenset[str]:
        """Return the ids of the tasks that are not over, without ambient ones. Cheap."""
        return self._intake.registry.live_ids()

    # Events

    def track(self, message: Any, line: bytes = b"", /) -> list[TaskEvent]:
        """Track a message of any type, and return the task events that it caused.

        Does no I/O and never raises. Messages may be repeated, missing or out of order. `line` is the line that the
        message was decoded from, if known: a subagent's message is kept in this form, which takes a tenth of the
        memory.
        """
        events: list[TaskEvent] = []
        stop_observing = self._intake.observe(events.extend)
        self._intake.track(message, line)
        stop_observing()
        return events

    @overload
    def events(self, what: None = None) -> EventStream[TaskEvent]: ...

    @overload
    def events(self, what: type[EventT]) -> EventStream[EventT]: ...

    @overload
    def events(self, what: Literal["finished"]) -> EventStream[TaskFinished]: ...

    @overload
    def events(self, what: What) -> EventStream[Any]: ...

    def events(self, what: What = None) -> EventStream[Any]:
        """Return the events from now on, to be iterated with `async for`. It ends when the session is over.

        If the CLI dies, the tasks that fail with it are reported first, and the iteration ends without an error.

        Args:
            what: The events to yield: an event class or its `kind`. None means all.
        """
        return self._intake.stream(what)

    @overload
    def on(  # type: ignore[overload-overlap]  # a class is a function, too; it is taken for its events
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

        A type checker checks `f` for a class of events, `"finished"` and `"notification"`, not for the other words.
        `on("notification", f)` calls it once for each end, with a `TaskNotificationMessage` (made up if the CLI sent
        none). Without a function it is a decorator. The function is plain or async; it runs in a worker of its own, a
        plain one in a thread. Its exceptions are logged and reported, and do not end the calls. A slow listener misses
        progress events.
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
        return self._intake.watch(watcher)

    def so_far(self) -> list[TaskEvent]:
        """Return the start and the end of each run so far."""
        records = self._records
        return [event for record in records.values() for event in record.retold(records.get(record.parent_id or ""))]

    def catch_up(self, listener: Listener) -> None:
        """Call a listener added by `on` with the start and the end of each run so far."""
        self._intake.listeners.tell(listener, self.so_far())

    def listens(self, listener: Listener) -> bool:
        """Return whether `on` added a function, and `off` has not removed it."""
        return listener in self._intake.listeners

    def off(self, listener: Listener) -> None:
        """Remove a function that `on` added, if it is there."""
        self._intake.listeners.remove(listener)

    # Waiting

    async def wait(self, task_id: TaskOrId, timeout: float | None = None) -> TaskOutcome:
        """Wait for the end of a task's current run. See `Task.wait`.

        Raises:
            TaskNotFoundError: The id is unknown.
            TaskTimeoutError: It did not end in time.
        """
        return await self[task_id].wait(timeout)

    async def wait_all(
        self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None
    ) -> list[TaskOutcome]:
        """Wait until these tasks are over, or (None) until no task runs, including those that start meanwhile.

        Returns the outcomes in the order in which the tasks became known. Ambient tasks are not waited for.

        Raises:
            TaskNotFoundError: An id is unknown.
            TaskTimeoutError: Some did not end in time; `task_ids` has them.
        """
        check_timeout(timeout)
        chosen = self._chosen(task_ids)

        def live_ids() -> Collection[str]:
            return self.live_ids() if chosen is None else [task.id for task in chosen if task.outcome is None]

        with anyio.move_on_after(timeout):
            await self.until(lambda: not live_ids())
        late = {task_id for task_id in live_ids() if not self[task_id].done}
        if late:
            in_order = [task_id for task_id in self._records if task_id in late]
            raise TaskTimeoutError(in_order[0], timeout or 0.0, in_order)
        over = list(self) if chosen is None else chosen
        return [await task.wait() for task in over if task.done]

    async def wait_any(self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None) -> Task:
        """Wait until one of these tasks (None means all) is over, and return it. A task that is already over counts.

        Raises:
            TaskNotFoundError: An id is unknown.
            TaskTimeoutError: None ended in time.
            TaskError: There is no task to wait for.
        """
        async for task in self.as_completed(task_ids, timeout=timeout):
            return task
        raise TaskError("no task to wait for", task_id="")

    def as_completed(self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None) -> Completions:
        """Iterate over tasks as they end: first those that are over, then each one when its run ends.

        Without `task_ids` it continues while any task runs, including those that start meanwhile. Iterating raises
        TaskTimeoutError if it takes longer than `timeout` seconds, counted from the first step.
        """
        check_timeout(timeout)
        return Completions(self, self.events(TaskFinished), self._chosen(task_ids), timeout)

    def _chosen(self, tasks: Iterable[TaskOrId] | None) -> list[Task] | None:
        if tasks is None:
            return None
        if isinstance(tasks, str | bytes | Task) or not isinstance(tasks, Iterable):
            raise OptionsError(f"expected several tasks or ids, for example [{tasks!r}]", option="task_ids")
        return [self[task] for task in tasks]

    async def until(self, is_true: Callable[[], bool], task_id: str | None = None) -> None:
        """Wait for a condition. It is checked whenever a task begins or ends, or anything happens to `task_id`."""
        event = self._intake.changed if task_id is None else self._intake.event(task_id)
        await self._intake.wait_until(is_true, event)

    async def output(
        self, task_id: TaskOrId, block: bool = True, timeout: float = 30.0, *, tail_bytes: int | None = None
    ) -> TaskOutput:
        """Return the output of a task with its state, as the model's tool `TaskOutput` did.

        Args:
            task_id: The task, or its id.
            block: Whether to wait for its end.
            timeout: How long to wait, in seconds. If it runs out, `retrieval_status` says so; nothing is raised.
            tail_bytes: Read only about this many bytes from the end.

        Raises:
            TaskNotFoundError: The id is unknown.
            TaskOutputError: It is over, and its output cannot be read.
        """
        check_timeout(timeout)
        task = self[task_id]
        record = self._records[task.id]
        if block:
            with anyio.move_on_after(timeout):
                await self.until(lambda: task.done, task.id)
        if not task.done:
            return await self._reader.output(record, "timeout" if block else "not_ready", tail_bytes)
        await task.wait()  # for the report, which is at most a moment behind
        return await self._reader.output(record, "success", tail_bytes)

    # Acting

    async def stop(self, task_id: TaskOrId, timeout: float = 10.0) -> TaskOutcome:
        """Stop a task, and return its outcome once it is over. See `Task.stop`.

        Raises:
            TaskNotFoundError: The id is unknown.
            TaskTimeoutError: It did not end within `timeout` seconds of the request.
            ControlError: The request failed.
        """
        return await self[task_id].stop(timeout)

    async def stop_all(self, timeout: float = 10.0) -> list[TaskOutcome]:
        """Stop every task that runs except ambient ones, and return the outcomes.

        Subagents are stopped first, so that they launch nothing more and are not woken when their shells end. The
        outcomes of shells that end meanwhile are included.

        Raises:
            TaskTimeoutError: Some did not end in time; the others are stopped.
            ControlError: A request failed; the others are stopped.
        """
        check_timeout(timeout)
        outcomes: list[TaskOutcome] = []
        failures: list[Exception] = []

        async def stop(task: Task) -> None:
            try:
                outcomes.append(await task.stop(timeout))
            except Exception as error:  # so that the others are still stopped
                failures.append(error)

        chosen = self.running
        for are_agents in (True, False):
            chosen = list(dict.fromkeys([*chosen, *self.running]))
            async with anyio.create_task_group() as stops:
                for task in chosen:
                    if task.is_agent is are_agents and not task.is_ambient:
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
        if self._control is None:
            raise TaskError("this TaskManager has no session to send requests to", task_id="")
        await self._control.control("background_tasks")


def _copy_of(intake: TaskIntake) -> TaskManager:
    return TaskManager(intake=intake)
