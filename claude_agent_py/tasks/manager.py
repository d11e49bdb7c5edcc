"""All tasks of a session: `client.tasks`.

Owns the public face, `TaskManager`, and how its parts are put together. The parts: `intake` takes messages in, `ledger`
knows what they mean, `reconcile` infers what never arrived, `waits` waits, `commands` sends requests, `reading` and
`follow` read outputs. A manager can be used alone, on recorded messages for instance: without a session behind it
everything works but the requests to the CLI.

All of it belongs to one thread, that of the event loop. Nothing is tied to a loop before somebody waits.
"""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, overload

import anyio

from claude_agent_py.errors import HandlerError, TaskError
from claude_agent_py.protocol.ports import ControlPort
from claude_agent_py.tasks.commands import Commands
from claude_agent_py.tasks.entry import Entry
from claude_agent_py.tasks.events import (
    TaskBackgrounded,
    TaskEvent,
    TaskFinished,
    TaskOutputAvailable,
    TaskProgressed,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.tasks.follow import AgentDecoder, Follow, ShellDecoder
from claude_agent_py.tasks.intake import Intake
from claude_agent_py.tasks.iteration import Completions, Conversation
from claude_agent_py.tasks.ledger import Ledger
from claude_agent_py.tasks.listeners import Listener, TaskListener, What
from claude_agent_py.tasks.message_log import MESSAGE_LIMIT, MessageGap, MessageLog, SubagentMessage
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.places import Places
from claude_agent_py.tasks.reading import OutputReader, TaskOutput
from claude_agent_py.tasks.reconcile import Grace, Reconciler
from claude_agent_py.tasks.spending import ModelPrice
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.tree import TaskTree, build_tree
from claude_agent_py.tasks.waiting import EventStream, EventT
from claude_agent_py.tasks.waits import TaskOrId, Waits, check_timeout
from claude_agent_py.wire.tasks import TaskNotificationMessage, TaskStartedMessage

_EPOCH: Final = time.time() - time.monotonic()


def steady_time() -> float:
    """Give the time in seconds since the epoch, by a clock that is never set back."""
    return _EPOCH + time.monotonic()


class TaskManager:
    """The background tasks of a session. Iterating gives every `Task`, in the order in which they became known."""

    def __init__(
        self,
        control: ControlPort | None = None,
        *,
        config_dir: str | os.PathLike[str] | None = None,
        grace: Grace | None = None,
        message_limit: int = MESSAGE_LIMIT,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        """Make a manager.

        Args:
            control: Sends requests to the CLI. Without it, `stop` and `move_to_background` raise TaskError.
            config_dir: The CLI's configuration directory, under which the transcripts of subagents lie.
            grace: How long to wait before something is inferred.
            message_limit: How many messages of subagents to keep for `Task.messages()`, over all tasks.
            clock: Gives the time, in seconds since the epoch.
        """
        grace = grace or Grace()
        ledger = Ledger(report_grace=grace.report, doubt_grace=grace.doubt)
        places, log = Places(config_dir), MessageLog(message_limit)
        self._ledger = ledger
        self._intake = Intake(ledger, places, log, clock)
        self._waits = Waits(self._intake, Reconciler(ledger, places, clock, self._intake.publish, grace.quiet))
        self._commands = Commands(self._intake, self._waits, control)
        self._tasks: dict[str, Task] = {}
        self.reader: Final = OutputReader(places, log, control)
        """Reads outputs and transcripts by entry; users call the methods of `Task`."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what is known of the tasks, without the session: nothing happens to the tasks of a copy any more."""
        return _copy_of, (dict(self._ledger.entries), self._intake.places)

    def __repr__(self) -> str:
        return f"<TaskManager {len(self)} tasks, {len(self.live_ids())} live>"

    # Looking

    def __iter__(self) -> Iterator[Task]:
        return iter([self._task(entry) for entry in self._ledger.entries.values()])

    def __len__(self) -> int:
        return len(self._ledger.entries)

    def __contains__(self, task: object) -> bool:
        return (task.id if isinstance(task, Task) else task) in self._ledger.entries

    def __getitem__(self, task: TaskOrId) -> Task:
        """Give a task. Raises TaskNotFoundError."""
        return self._task(self._waits.entry(task))

    def get(self, task_id: str | None) -> Task | None:
        """Give a task; None where there is none with that id.

        `get(message.agent_id)` gives the task of the subagent that a message is of, and None for the main agent's.
        """
        entry = self._ledger.entries.get(task_id) if task_id is not None else None
        return None if entry is None else self._task(entry)

    def _task(self, entry: Entry) -> Task:
        task = self._tasks.get(entry.id)
        if task is None:
            task = self._tasks[entry.id] = Task(entry, self)
        return task

    @property
    def prices(self) -> dict[str, ModelPrice]:
        """The prices from which the cost of subagents is derived, by model: put in those that you know.

        A model that is not in it has the prices that the CLI's own sums imply (`ResultMessage.model_usage`), as soon as
        a turn is over; until then the cost is None.
        """
        return self._ledger.book.prices.given

    @property
    def running(self) -> list[Task]:
        """The tasks that are not over, paused ones and those that wait for the user included."""
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
        """Give all tasks as a tree: subagents with what they launched. `print()` draws it."""
        return build_tree(self.roots, lambda task: task.children)

    def live_ids(self) -> frozenset[str]:
        """Give the ids of the tasks that are not over, ambient ones left out. Cheap."""
        return self._ledger.live_ids()

    # Taking in

    def track(self, message: Any, line: bytes = b"", /) -> list[TaskEvent]:
        """Take in a message of the session, whatever its type, and give the task events that it caused.

        Quick, does no I/O, never raises. Order, repetitions and gaps do no harm. `line` may be given where the message
        was decoded from one: it is kept in place of a subagent's message, in a tenth of the memory.
        """
        return self._intake.track(message, line)

    def track_hook(self, event: str, data: Mapping[str, Any], /) -> list[TaskEvent]:
        """Take in the input of a hook, as it stands on the wire. Quick, never raises."""
        return self._intake.track_hook(event, data)

    def track_prompt(self, request_id: str, agent_id: str | None) -> list[TaskEvent]:
        """Note that a subagent asks the user (a permission, a question): its task is `awaiting_user`. Never raises."""
        return self._intake.track_prompt(request_id, agent_id)

    def track_prompt_end(self, request_id: str) -> list[TaskEvent]:
        """Note that a prompt was answered or withdrawn. Never raises."""
        return self._intake.track_prompt_end(request_id)

    def process_exited(self, reason: str) -> list[TaskEvent]:
        """Note that the CLI's process is gone: what it ran has failed, for this reason. Ends the streams of events.

        Tasks that were adopted go on, and the streams with them. Messages of another process may be tracked afterwards.
        """
        return self._intake.process_exited(reason)

    def adopt(self, message: TaskStartedMessage, stop: Callable[[], Awaitable[object]]) -> Task:
        """Take in a task that this side runs, not the CLI. Report on it with `track`, as the CLI does on its own.

        `stop` is called to stop it, in place of a request to the CLI; the task then ends by what is tracked.
        """
        self._intake.adopt(message, stop)
        return self[message.task_id]

    def writes_to(self, task_id: str, path: str) -> None:
        """Take in where a task that was adopted writes to: its text, or the transcript of an agent."""
        self._intake.writes_to(task_id, path)

    # Events

    @overload
    def events(self, what: None = None) -> EventStream[TaskEvent]: ...

    @overload
    def events(self, what: type[EventT]) -> EventStream[EventT]: ...

    @overload
    def events(self, what: Literal["started"]) -> EventStream[TaskStarted]: ...

    @overload
    def events(self, what: Literal["reopened"]) -> EventStream[TaskReopened]: ...

    @overload
    def events(self, what: Literal["progressed"]) -> EventStream[TaskProgressed]: ...

    @overload
    def events(self, what: Literal["backgrounded"]) -> EventStream[TaskBackgrounded]: ...

    @overload
    def events(self, what: Literal["status_changed"]) -> EventStream[TaskStatusChanged]: ...

    @overload
    def events(self, what: Literal["output_available"]) -> EventStream[TaskOutputAvailable]: ...

    @overload
    def events(self, what: Literal["finished"]) -> EventStream[TaskFinished]: ...

    @overload
    def events(self, what: Literal["revised"]) -> EventStream[TaskRevised]: ...

    @overload
    def events(self, what: What) -> EventStream[Any]: ...

    def events(self, what: What = None) -> EventStream[Any]:
        """Give the events from now on, to be iterated with `async for`. It ends when the session is over.

        It ends without an error also when the CLI has died: after the events by which what was live has failed.

        Args:
            what: Only these: an event class, or its `kind`. None gives all.
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
        self, what: Literal["started"], listener: None = None
    ) -> Callable[[TaskListener[TaskStarted]], TaskListener[TaskStarted]]: ...

    @overload
    def on(self, what: Literal["started"], listener: TaskListener[TaskStarted]) -> TaskListener[TaskStarted]: ...

    @overload
    def on(
        self, what: Literal["reopened"], listener: None = None
    ) -> Callable[[TaskListener[TaskReopened]], TaskListener[TaskReopened]]: ...

    @overload
    def on(self, what: Literal["reopened"], listener: TaskListener[TaskReopened]) -> TaskListener[TaskReopened]: ...

    @overload
    def on(
        self, what: Literal["progressed"], listener: None = None
    ) -> Callable[[TaskListener[TaskProgressed]], TaskListener[TaskProgressed]]: ...

    @overload
    def on(
        self, what: Literal["progressed"], listener: TaskListener[TaskProgressed]
    ) -> TaskListener[TaskProgressed]: ...

    @overload
    def on(
        self, what: Literal["backgrounded"], listener: None = None
    ) -> Callable[[TaskListener[TaskBackgrounded]], TaskListener[TaskBackgrounded]]: ...

    @overload
    def on(
        self, what: Literal["backgrounded"], listener: TaskListener[TaskBackgrounded]
    ) -> TaskListener[TaskBackgrounded]: ...

    @overload
    def on(
        self, what: Literal["status_changed"], listener: None = None
    ) -> Callable[[TaskListener[TaskStatusChanged]], TaskListener[TaskStatusChanged]]: ...

    @overload
    def on(
        self, what: Literal["status_changed"], listener: TaskListener[TaskStatusChanged]
    ) -> TaskListener[TaskStatusChanged]: ...

    @overload
    def on(
        self, what: Literal["output_available"], listener: None = None
    ) -> Callable[[TaskListener[TaskOutputAvailable]], TaskListener[TaskOutputAvailable]]: ...

    @overload
    def on(
        self, what: Literal["output_available"], listener: TaskListener[TaskOutputAvailable]
    ) -> TaskListener[TaskOutputAvailable]: ...

    @overload
    def on(
        self, what: Literal["finished"], listener: None = None
    ) -> Callable[[TaskListener[TaskFinished]], TaskListener[TaskFinished]]: ...

    @overload
    def on(self, what: Literal["finished"], listener: TaskListener[TaskFinished]) -> TaskListener[TaskFinished]: ...

    @overload
    def on(
        self, what: Literal["revised"], listener: None = None
    ) -> Callable[[TaskListener[TaskRevised]], TaskListener[TaskRevised]]: ...

    @overload
    def on(self, what: Literal["revised"], listener: TaskListener[TaskRevised]) -> TaskListener[TaskRevised]: ...

    @overload
    def on(
        self, what: Literal["notification"], listener: None = None
    ) -> Callable[[TaskListener[TaskNotificationMessage]], TaskListener[TaskNotificationMessage]]: ...

    @overload
    def on(
        self, what: Literal["notification"], listener: TaskListener[TaskNotificationMessage]
    ) -> TaskListener[TaskNotificationMessage]: ...

    @overload
    def on(self, what: TaskListener[TaskEvent]) -> TaskListener[TaskEvent]: ...

    def on(self, what: What | Listener = None, listener: Listener | None = None) -> Any:
        """Call a function for each event: `on(f)` for all, `on(TaskFinished, f)` or `on("finished", f)` for some.

        `on("notification", f)` calls it once for each end, with the `TaskNotificationMessage` (one that is made up
        where the CLI sent none). Without a function it is a decorator. The function is plain or async; it runs in a
        worker of its own, a plain one in a thread. What it raises is logged and reported, and harms nobody.
        """
        if listener is not None:
            return self._listen(what, listener)
        if what is None or isinstance(what, str | type):
            return lambda function: self._listen(what, function)
        return self._listen(None, what)

    def _listen(self, what: What | Listener, listener: Listener) -> Listener:
        self._intake.listeners.add(listener, what)
        return listener

    def catch_up(self, listener: Listener) -> None:
        """Tell a listener that `on` added what it missed: the start and the end of each run so far."""
        entries = self._ledger.entries
        missed = [event for entry in entries.values() for event in entry.retold(entries.get(entry.parent_id or ""))]
        self._intake.listeners.tell(listener, missed)

    def off(self, listener: Listener) -> None:
        """Take a function away that `on` added. One that is not there is no error."""
        self._intake.listeners.remove(listener)

    def observe(self, observer: Callable[[list[TaskEvent]], object]) -> None:
        """Call a function for all events at once, in the thread of the loop. For the runtime: it must be quick."""
        self._intake.observers.append(observer)

    async def deliver_forever(self, report: Callable[[HandlerError], None] | None = None) -> None:
        """Run the listeners, until the session is over and all of it is told. For a worker of the session."""
        await self._intake.listeners.deliver_forever(report)

    async def reconcile_forever(self) -> None:
        """Decide about tasks whose end nobody reported. For a worker of the session; runs until it is cancelled."""
        await self._waits.reconcile_forever()

    # Waiting

    async def wait(self, task_id: TaskOrId, timeout: float | None = None) -> TaskOutcome:
        """Wait for the end of a task's current run. See `Task.wait`.

        Raises:
            TaskNotFoundError: There is no such task.
            TaskTimeoutError: It was not over in time.
        """
        return await self._waits.one(task_id, timeout)

    async def wait_all(
        self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None
    ) -> list[TaskOutcome]:
        """Wait until these tasks are over, or (None) until no task runs, those that start meanwhile included.

        Gives the outcomes in the order in which the tasks became known. Ambient tasks are not waited for.

        Raises:
            TaskNotFoundError: There is no such task.
            TaskTimeoutError: Not all were over in time; `task_ids` names those that were not.
        """
        return await self._waits.all(task_ids, timeout)

    async def wait_any(self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None) -> Task:
        """Wait until one of these tasks (None: of all) is over, and give it. One that is over already counts.

        Raises:
            TaskNotFoundError: There is no such task.
            TaskTimeoutError: None was over in time.
            TaskError: There is no task to wait for.
        """
        async for task in self.as_completed(task_ids, timeout=timeout):
            return task
        raise TaskError("there is no task to wait for", task_id="")

    def as_completed(self, task_ids: Iterable[TaskOrId] | None = None, *, timeout: float | None = None) -> Completions:
        """Iterate tasks as they end: first those that are over, then each when its run ends.

        Without tasks it goes on as long as a task runs, those that start meanwhile included. Iterating raises
        TaskTimeoutError when `timeout` seconds (from the first step on) were not enough.
        """
        check_timeout(timeout)
        chosen = self._waits.chosen(task_ids)
        return Completions(self, None if chosen is None else [self._task(entry) for entry in chosen], timeout)

    async def until(self, is_true: Callable[[], bool], task_id: str | None = None) -> None:
        """Wait until a condition holds. It is looked at whenever a task begins or ends, or anything happens to one."""
        bell = self._intake.any_bell if task_id is None else self._intake.bell(task_id)
        await self._waits.until(is_true, bell)

    # Reading

    async def output(
        self, task_id: TaskOrId, block: bool = True, timeout: float = 30.0, *, tail_bytes: int | None = None
    ) -> TaskOutput:
        """Give the output of a task and how it is, like the model's `TaskOutput` tool did.

        Args:
            task_id: The task, or its id.
            block: Whether to wait for its end.
            timeout: How long to wait, in seconds. Running out of it is no error: `retrieval_status` says so.
            tail_bytes: Only about the last so many bytes.

        Raises:
            TaskNotFoundError: There is no such task.
            TaskOutputError: It is over, and its output cannot be read.
        """
        check_timeout(timeout)
        entry = self._waits.entry(task_id)
        if block:
            with anyio.move_on_after(timeout):
                await self.until(lambda: entry.run.status.is_terminal, entry.id)
        if not entry.run.status.is_terminal:
            return await self.reader.output(entry, "timeout" if block else "not_ready", tail_bytes)
        await self.wait(entry.id)  # for the report, which is at most a moment behind
        return await self.reader.output(entry, "success", tail_bytes)

    def follow(self, task_id: TaskOrId) -> Follow:
        """Follow the output of a task live. See `Task.follow`."""
        entry, places = self._waits.entry(task_id), self._intake.places
        bell = self._intake.bell(entry.id)
        return Follow(
            entry.id,
            lambda: places.transcript_of(entry) if entry.is_agent else places.output_of(entry),
            lambda: entry.run.status.is_terminal or self._waits.is_copy,
            lambda pause: self._waits.nap(bell, pause),
            AgentDecoder() if entry.is_agent else ShellDecoder(),
        )

    def seen_messages(self, task_id: TaskOrId) -> list[SubagentMessage]:
        """Give the messages of a subagent that came so far, as far as they are kept. See `Task.seen_messages`."""
        return self._intake.log.all_of(self._waits.entry(task_id).id)

    def places_of(self, task_id: TaskOrId) -> list[str]:
        """Give the files in which the output of a task may be (an agent's transcript), the likeliest first."""
        entry, places = self._waits.entry(task_id), self._intake.places
        return places.transcript_of(entry) if entry.is_agent else places.output_of(entry)

    def messages_of(self, task_id: TaskOrId) -> AsyncIterator[SubagentMessage | MessageGap]:
        """Iterate the messages of a subagent. See `Task.messages`."""
        entry = self._waits.entry(task_id)
        bell = self._intake.bell(entry.id)
        return Conversation(entry.id, self._intake.log, lambda: not entry.is_live, lambda: self._waits.nap(bell))

    # Acting

    async def stop(self, task_id: TaskOrId, timeout: float = 10.0) -> TaskOutcome:
        """Stop a task, and give its outcome once the stop took effect. One that is over is left alone.

        Raises:
            TaskNotFoundError: There is no such task.
            TaskTimeoutError: It was not over `timeout` seconds after the request.
            ControlError: The request did not succeed.
        """
        return await self._commands.stop(task_id, timeout)

    async def stop_all(self, timeout: float = 10.0) -> list[TaskOutcome]:
        """Stop every task that runs, ambient ones left out, and give the outcomes.

        Raises:
            TaskTimeoutError: Not all were over in time; the others are stopped.
            ControlError: A request did not succeed; the others are stopped.
        """
        return await self._commands.stop_all(timeout)

    async def move_to_background(self, task_id: TaskOrId, timeout: float = 10.0) -> bool:
        """Move a foreground task to the background, and give whether it is there now. See `Task.move_to_background`.

        Raises:
            TaskNotFoundError: There is no such task.
            ControlError: The request did not succeed.
        """
        return await self._commands.move_to_background(task_id, timeout)

    async def move_all_to_background(self) -> None:
        """Move all foreground tasks to the background; where there are none, nothing happens.

        Raises:
            ControlError: The request did not succeed.
        """
        await self._commands.move_all_to_background()


def _copy_of(entries: dict[str, Entry], places: Places) -> TaskManager:
    """Make a manager from the pickle of one."""
    manager = TaskManager()
    manager._intake.places.take_over(places)
    manager._ledger.book.take_over(entries)
    manager._waits.is_copy = True
    return manager
