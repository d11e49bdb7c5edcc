"""`TaskIntake`: tracks tasks from the messages of a session, and notifies waiters and listeners.

The runtime creates it, feeds it from its pump and runs its workers; `TaskManager` is its public interface. The methods
that the pump calls do no I/O and never raise. Use it only in the thread of the event loop.
"""

import logging
import math
import os
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio

from claude_agent_py._errors import TaskError
from claude_agent_py._streams import RepeatingEvent
from claude_agent_py.tasks.events import Answered, Asked, TaskEvent, TaskOutputAvailable, TaskProgressed
from claude_agent_py.tasks.files.paths import Paths
from claude_agent_py.tasks.ledger import signals
from claude_agent_py.tasks.ledger.ledger import Grace, Ledger
from claude_agent_py.tasks.ledger.record import Record
from claude_agent_py.tasks.listeners import EventStream, Listeners, What, event_kind
from claude_agent_py.tasks.messages import MESSAGE_LIMIT, SubagentMessages
from claude_agent_py.tasks.outcome import EndedBy
from claude_agent_py.tasks.reconcile import PAUSE, Reconciler
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage

logger: logging.Logger = logging.getLogger(__name__)

_OF_SUBAGENTS: Final = frozenset({AssistantMessage, UserMessage, PermissionDeniedMessage})
_TRACKED: Final = frozenset({*signals.HANDLERS, *_OF_SUBAGENTS, InitMessage})
_EPOCH: Final = time.time() - time.monotonic()
_FAILED: Final = "The task ledger failed; the session continues"

Observer = Callable[[set[str], list[TaskEvent]], object]
"""Receives the ids of the tasks that may have changed, and the events, if any. It must not keep or change them."""


def steady_time() -> float:
    """Return the time in seconds since the epoch, from a monotonic clock."""
    return _EPOCH + time.monotonic()


class TaskIntake:
    """The tasks of one session, with their waiters and listeners."""

    def __init__(
        self,
        config_dir: str | os.PathLike[str] | None = None,
        *,
        grace: Grace | None = None,
        message_limit: int = MESSAGE_LIMIT,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        """Create an intake.

        Args:
            config_dir: The CLI's configuration directory, which contains the transcripts of subagents.
            grace: How long to wait before inferring the end of a task.
            message_limit: The maximum number of messages kept for `Task.messages()`, over all tasks.
            clock: Returns the time, in seconds since the epoch.
        """
        self.clock = clock
        self.ledger: Ledger = Ledger(grace)
        self.ledger.wants_progress = self._wants_progress
        self.paths: Paths = Paths(config_dir)
        self.messages: SubagentMessages = SubagentMessages(message_limit)
        self.listeners: Listeners = Listeners()
        self.changed: RepeatingEvent = RepeatingEvent()
        """Set when any task begins or ends, and when a deadline is set: wakes the worker and who waits for any task."""
        self.stoppers: dict[str, Callable[[], Awaitable[object]]] = {}
        """Functions that stop adopted tasks, by task id."""
        self.is_copy = False
        """Whether the tasks were unpickled, and therefore never change."""
        self._reconciler = Reconciler(self.ledger, self.paths, clock, self.publish)
        self._has_worker = False
        """Whether a worker runs `reconcile`."""
        self._start_reconciling: Callable[[], object] | None = None
        """Starts that worker; None while it runs."""
        self._is_reconciling_over = False
        self._events: dict[str, RepeatingEvent] = {}
        self._observers: list[tuple[Observer, Callable[[], bool]]] = []
        self._streams: weakref.WeakSet[EventStream[Any]] | tuple[()] = ()
        self._is_closed = False
        self._is_orphaned = False
        """Whether the CLI has ended while adopted tasks are still running."""

    # From the session

    def track(self, message: Any, /) -> None:
        """Track a message of any type. Never raises."""
        kind = type(message)
        if kind not in _TRACKED:
            return
        try:
            handler = signals.HANDLERS.get(kind)
            if handler is not None:
                handler(self.ledger, message, self.clock())
            if kind is InitMessage:
                self._is_orphaned = False
                self.paths.record_init(message.cwd, message.session_id)
            elif kind in _OF_SUBAGENTS and message.agent_id in self.ledger.records:
                self.messages.add(message.agent_id, message)
                self.ledger.touched.add(message.agent_id)
            self.publish()
        except Exception:
            logger.exception(_FAILED)

    def track_hook(self, event: str, data: Mapping[str, Any], /) -> None:
        """Track the input of a hook, in wire form. Never raises."""
        self.paths.record_hook(data)
        if event in signals.HOOKS_ABOUT_TASKS or "background_tasks" in data:
            self._apply(signals.apply_hook, event, data)

    def track_prompt(self, request_id: str, agent_id: str | None, asked: Asked | None = None) -> None:
        """Record that a subagent asks the user (for permission, or a question); it is `awaiting_user`. Never raises."""
        self._apply(signals.open_question, request_id, agent_id or "", asked or Asked())

    def track_answer(self, agent_id: str | None, answered: Answered) -> None:
        """Record the answer to a subagent's question. Never raises."""
        self._apply(signals.record_answer, agent_id or "", answered)

    def track_prompt_end(self, request_id: str) -> None:
        """Record that a question was answered or withdrawn. Never raises."""
        self._apply(signals.close_question, request_id)

    def process_exited(self, reason: str) -> None:
        """Mark the tasks of the CLI's process as failed for this reason, and end the streams of events.

        If adopted tasks are running, the streams continue until these end.
        """
        self._is_orphaned = True
        self._apply(signals.process_exited, reason)

    def adopt(
        self,
        message: TaskStartedMessage,
        stop: Callable[[], Awaitable[object]],
        *,
        brief: Mapping[str, Any] | None = None,
        author: str | None = None,
    ) -> None:
        """Add a task that the SDK runs, not the CLI. Its start, its progress and its end follow with `track`.

        Args:
            message: The message about its start.
            stop: Called to stop the task, instead of a request to the CLI.
            brief: Its input other than the prompt, for `Task.brief`.
            author: The agent that launched it; None means the agent of its parent.
        """
        self.stoppers[message.task_id] = stop
        record = self.ledger.ensure_record(message.task_id, self.clock())
        record.is_external = True
        record.brief = brief or {}
        record.launched_by = author

    def recall(self, record: Record, parent_id: str | None) -> None:
        """Add a task that an earlier process of the session ran, without events. Does nothing if the task is known."""
        if record.id not in self.ledger.records:
            self.ledger.add_earlier(record, parent_id)
            if record.output_file:
                self.paths.record_output(record.id, record.output_file)

    def ends_by(self, task_id: str, by: EndedBy) -> None:
        """Record the cause of the end of the current run. Only the first call has an effect."""
        record = self.ledger.records.get(task_id)
        if record is not None and record.runs:
            record.run.ended_by = record.run.ended_by or by

    def writes_to(self, task_id: str, path: str) -> None:
        """Record the path of the output or transcript of an adopted task."""
        record = self.ledger.records.get(task_id)
        if record is not None and record.runs:
            if record.is_agent:
                record.transcript_path = path
            self.ledger.set_output(record, record.run, path, self.clock())
            self.publish()

    def paths_of(self, task_id: str) -> list[str]:
        """Return the possible paths of a task's output (or a subagent's transcript), most likely first."""
        return self.paths.list_candidates(self.ledger.records[task_id])

    def _apply(self, signal: Callable[..., None], *args: Any) -> None:
        try:
            signal(self.ledger, *args, self.clock())
            self.publish()
        except Exception:
            logger.exception(_FAILED)

    # Events

    def observe(self, observer: Observer, *, wants_progress: Callable[[], bool] = lambda: True) -> Callable[[], None]:
        """Call a function synchronously on each change, even without an event. Returns a function that removes it.

        Args:
            observer: Called in the thread of the loop, after the listeners and streams have their events.
            wants_progress: Returns whether it currently needs `TaskProgressed`.
        """
        entry = (observer, wants_progress)
        self._observers.append(entry)
        return partial(self._observers.remove, entry)

    def stream(self, what: What) -> EventStream[Any]:
        """Return a stream of the events from now on."""
        stream: EventStream[Any] = EventStream(event_kind(what))
        if self._is_closed:
            stream.close()
        self._streams = self._streams or weakref.WeakSet()
        self._streams.add(stream)
        return stream

    def publish(self) -> None:
        """Deliver the events of the ledger, and wake what waits for the tasks that may have changed."""
        ledger = self.ledger
        if ledger.touched:
            touched, events = ledger.take_changes(self.clock())
            self._deliver(events)
            for observer, _ in tuple(self._observers):
                try:
                    observer(touched, events)
                except Exception:
                    logger.exception("An observer of tasks failed")
            for task_id in touched:
                if task_id in self._events:
                    self._events[task_id].set()
        if ledger.has_news:
            ledger.has_news = False
            if self._start_reconciling is not None and self._reconciler.seconds_until_check() is not None:
                start, self._start_reconciling = self._start_reconciling, None
                start()
            self.changed.set()
        if self._is_orphaned and not ledger.has_external:
            self._end_streams()

    def _wants_progress(self) -> bool:
        for _, wants_progress in self._observers:
            if wants_progress():
                return True
        if self.listeners.has_listener_for(TaskProgressed):
            return True
        return bool(self._streams) and any(issubclass(TaskProgressed, stream.kind) for stream in self._streams)

    def _deliver(self, events: list[TaskEvent]) -> None:
        for event in events:
            if type(event) is TaskOutputAvailable:
                self.paths.record_output(event.task_id, event.path)
            self.listeners.put(event)
            for stream in self._streams:
                stream.put(event)

    def _end_streams(self) -> None:
        self._is_closed = True
        self._is_orphaned = False
        self.listeners.close()
        for stream in self._streams:
            stream.close()
        self._streams = ()
        self._wake_all()

    # Waiting

    def event(self, task_id: str) -> RepeatingEvent:
        """Return the event that is set whenever a task changes."""
        return self._events.setdefault(task_id, RepeatingEvent())

    async def wait(self, event: RepeatingEvent, timeout: float | None = None) -> None:
        """Wait for an event, at most `timeout` seconds, and reconcile unless a worker does.

        Reconciling detects the end of a task even if the message about it was lost.

        Raises:
            TaskError: The tasks are an unpickled copy, which never changes, and there is no timeout.
        """
        if self.is_copy and timeout is None:
            raise TaskError("cannot wait for an unpickled copy of a task that was still running", task_id="")
        if self._has_worker:
            await event.wait(timeout)
            return
        pause = self._reconciler.seconds_until_check()
        if pause is not None:
            timeout = min(max(PAUSE, pause), math.inf if timeout is None else timeout)
        await event.wait(timeout)
        await self._reconciler.check()

    async def wait_until(self, is_true: Callable[[], bool], event: RepeatingEvent) -> None:
        """Wait for a condition, which is checked whenever the event is set."""
        while not is_true():
            await self.wait(event)

    def reconcile_with(self, start: Callable[[], object]) -> None:
        """Call `start` once, when `reconcile` has something to do."""
        if not self._is_reconciling_over:
            self._start_reconciling = start

    async def reconcile(self) -> None:
        """Infer unreported ends of tasks until no task needs it, or `stop_reconciling`.

        A worker of the session runs this only while there is a task to watch: a session that closes waits for it.
        """
        reconciler = self._reconciler
        self._has_worker = True
        try:
            while not self._is_reconciling_over and (pause := reconciler.seconds_until_check()) is not None:
                if pause:
                    await self.changed.wait(pause)
                    continue
                await reconciler.check()
                if reconciler.seconds_until_check() is not None:
                    await anyio.sleep(PAUSE)
        finally:
            self._has_worker = False
            # Without this worker, the waiters must reconcile themselves.
            self._wake_all()

    def stop_reconciling(self) -> None:
        """End `reconcile`, after the current check. From then on, waiters reconcile."""
        self._is_reconciling_over = True
        self._start_reconciling = None
        self.changed.set()

    def _wake_all(self) -> None:
        for event in (self.changed, *self._events.values()):
            event.set()
