"""`TaskIntake`: tracks tasks from the messages of a session, and notifies waiters and listeners.

A session creates it, feeds it from its pump and runs its workers; `TaskManager` is its public interface. The methods
that the pump calls do no I/O and never raise. Use it only in the thread of the event loop.
"""

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol
from weakref import WeakSet, WeakValueDictionary

from claude_agent_py._base.errors import TaskError
from claude_agent_py._base.event_loop import HomeLoop
from claude_agent_py._base.log import get_logger
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py._journal.ports import ControlPort
from claude_agent_py._journal.tasks import signals
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py._journal.tasks.ledger import Grace, Ledger
from claude_agent_py._journal.tasks.outcome import EndedBy
from claude_agent_py._journal.tasks.record import Record
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.tasks.files.paths import Paths
from claude_agent_py.tasks.listeners import Listeners
from claude_agent_py.tasks.messages import MESSAGE_LIMIT, SubagentMessage, SubagentMessages
from claude_agent_py.tasks.reconcile import Reconciler
from claude_agent_py.wire.control.asks import HookCallbackRequest
from claude_agent_py.wire.control.frames import ControlRequest
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage

logger: logging.Logger = get_logger(__name__)

_OF_SUBAGENTS: Final = frozenset({AssistantMessage, UserMessage, PermissionDeniedMessage})
_TRACKED: Final = frozenset({*signals.HANDLERS, *_OF_SUBAGENTS})
_EPOCH: Final = time.time() - time.monotonic()
_FAILED: Final = "The task ledger failed; the session continues"

Watcher = Callable[[set[str], list[TaskEvent]], object]
"""Receives the ids of the tasks that may have changed, and the events, if any. It must not keep or change them."""


def concerns_tasks(message: object) -> bool:
    """Return whether a message may be about tasks. Most are not: the main agent's text, and pieces of messages."""
    if type(message) is AssistantMessage and message.agent_id is None:
        return ToolUseBlock in map(type, message.message.content)
    return type(message) in _TRACKED


def steady_time() -> float:
    """Return the time in seconds since the epoch, from a monotonic clock."""
    return _EPOCH + time.monotonic()


class TaskHost(Protocol):
    """The running session whose tasks an intake tracks."""

    def wants_event(self, kind: type[TaskEvent], /) -> bool:
        """Return whether anyone there receives events of a kind."""
        ...

    def number_events(self, events: list[TaskEvent], /) -> None:
        """Replace the events of the ledger by facts of the session's journal, if it has one."""

    def take_events(self, events: list[TaskEvent], /) -> None:
        """Take in the events, perhaps none, when a task began or ended, or its events have receivers."""


class TaskIntake:
    """The tasks of one session, with their waiters and listeners."""

    def __init__(
        self,
        config_dir: str | os.PathLike[str] | None = None,
        *,
        grace: Grace | None = None,
        message_limit: int = MESSAGE_LIMIT,
        clock: Callable[[], float] = steady_time,
        host: TaskHost | None = None,
    ) -> None:
        """Create an intake of a host; without one, it makes all events. For the other arguments, see `TaskManager`."""
        self.clock = clock
        self.ledger: Ledger = Ledger(grace)
        self.paths: Paths = Paths(config_dir)
        self.ledger.on_output = self.paths.record_output
        self.ledger.wants = self._wants
        self.messages: SubagentMessages = SubagentMessages(message_limit)
        self.listeners: Listeners = Listeners()
        self.stoppers: dict[str, Callable[[], Awaitable[object]]] = {}
        """Functions that stop adopted tasks, by task id."""
        self.is_copy = False
        """Whether the tasks were unpickled, and therefore never change."""
        self.reconciler: Reconciler = Reconciler(self.ledger, self.paths, clock, self.publish, self._wake_all)
        self._events: WeakValueDictionary[str | None, RepeatingEvent] = WeakValueDictionary()
        """What waits for a task now, by its id; None for what waits for any."""
        self.host = host
        """The connection of the process that runs now, or that ran last; None without a session."""
        self.control: ControlPort | None = None
        """Sends requests to the CLI; None without a session."""
        self.home: HomeLoop = HomeLoop()
        """The event loop in which tasks are waited for."""
        self.followers: WeakSet[TaskIntake] = WeakSet()
        """Intakes that a program feeds with the messages of the session, which are told when it ends."""
        self.watchers: dict[object, Watcher] = {}
        """Called on each change, even without an event."""
        self._is_orphaned = False
        """Whether the CLI has ended while adopted tasks are still running."""

    # From the session

    def track(self, message: object, /) -> list[TaskEvent]:
        """Track a message of any type, or what happens to a request, and return the events of that. Never raises.

        For a manager that a program feeds. `Session.tell` feeds the journal between `update` and `publish`.
        """
        self.update(message)
        return self.publish()

    def update(self, message: Any, /) -> None:
        """Update the tasks, without publishing the events of that. Never raises."""
        kind = type(message)
        try:
            handler = signals.HANDLERS.get(kind)
            if handler is not None:
                handler(self.ledger, message, self.clock())
            if kind in _OF_SUBAGENTS:
                if message.agent_id in self.ledger.records:
                    self._keep(message.agent_id, message)
            elif kind is InitMessage:
                self._is_orphaned = self.listeners.is_closed = False
                self.paths.record_init(message.cwd, message.session_id)
            elif kind is ControlRequest and type(message.request) is HookCallbackRequest:
                self.paths.record_hook(message.request.input)
        except Exception:
            logger.exception(_FAILED)

    def expect_end(self, reason: str | None, by: EndedBy) -> None:
        """Record why the tasks of the CLI's process end, if it reports that they were stopped. Earlier causes stay."""
        for record in self.ledger.own_live():
            record.run.stop_reason = record.run.stop_reason or reason
            record.run.ended_by = record.run.ended_by or by

    def process_exited(self, reason: str | None, by: EndedBy = EndedBy.PROCESS) -> None:
        """End the tasks of the CLI's process for this reason, and end the streams of events.

        They failed if the process ended by itself, and were stopped if it ended because of `by`. If adopted tasks are
        running, the streams continue until these end.
        """
        self._is_orphaned = True
        try:
            self.ledger.end_all(reason, by, self.clock())
        except Exception:
            logger.exception(_FAILED)
        self.publish()
        for follower in tuple(self.followers):
            follower.process_exited(reason, by)

    def adopt(
        self,
        message: TaskStartedMessage,
        stop: Callable[[], Awaitable[object]],
        *,
        brief: Mapping[str, object] | None = None,
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
        record.brief = brief
        record.launched_by = author

    def recall(self, record: Record) -> None:
        """Add a task that an earlier process of the session ran, without events. Does nothing if the task is known."""
        if record.id not in self.ledger.records:
            self.ledger.add_earlier(record)
            if record.output_file:
                self.paths.record_output(record.id, record.output_file)

    def set_cause(self, task_id: str, by: EndedBy | None, inferred_by: Evidence | None = None) -> None:
        """Record the cause of the end of the current run, and how it was inferred. The first cause stays."""
        record = self.ledger.records.get(task_id)
        if record is not None and record.runs:
            record.run.ended_by = record.run.ended_by or by
            record.run.inferred_by = inferred_by

    def set_path(self, task_id: str, path: str) -> None:
        """Record the path of the output or transcript of an adopted task."""
        record = self.ledger.records.get(task_id)
        if record is not None and record.runs:
            if record.is_agent:
                record.transcript_path = path
            self.ledger.set_output(record, record.run, path, self.clock())
            self.publish()

    def add_message(self, task_id: str, message: SubagentMessage) -> None:
        """Add a message to the conversation of an adopted task, without other effects."""
        self._keep(task_id, message)
        self.publish()

    def _keep(self, task_id: str, message: SubagentMessage) -> None:
        self.messages.add(task_id, message)
        self.ledger.touched.add(task_id)

    def paths_of(self, task_id: str) -> list[str]:
        """Return the possible paths of a task's output (or a subagent's transcript), most likely first."""
        return [file.path for file in self.paths.list_candidates(self.ledger.records[task_id])]

    # Events

    def publish(self) -> list[TaskEvent]:
        """Deliver and return the events of the ledger, and wake what waits for the tasks that may have changed.

        First the host numbers the events. Then they go to listeners and watchers, waiters wake, and the host takes them
        in, for the readers and the runs of the session. Never raises.
        """
        ledger, host = self.ledger, self.host
        events: list[TaskEvent] = []
        try:
            if ledger.touched:
                touched, events = ledger.take_changes(self.clock())
                if host is not None and events:
                    host.number_events(events)
                if events or self.watchers:
                    self._deliver(touched, events)
                self._wake(touched)
            has_news, ledger.has_news = ledger.has_news, False
            if has_news:
                self.reconciler.wake()
                self._wake([None])
            if self._is_orphaned and not ledger.has_external:
                self._is_orphaned = False
                self.listeners.close()
                self._wake_all()
            if host is not None and (events or has_news):
                host.take_events(events)
        except Exception:
            logger.exception(_FAILED)
        return events

    def _deliver(self, touched: set[str], events: list[TaskEvent]) -> None:
        for event in events:
            self.listeners.put(event)
        for watcher in tuple(self.watchers.values()):
            try:
                watcher(touched, events)
            except Exception:
                logger.exception("A watcher of tasks failed")

    def _wants(self, kind: type[TaskEvent]) -> bool:
        """Return whether anyone receives events of a kind."""
        return bool(self.watchers) or self.listeners.want(kind) or self.host is None or self.host.wants_event(kind)

    # Waiting

    def event(self, task_id: str | None) -> RepeatingEvent:
        """Return the event that is set whenever a task changes; for None, whenever any begins or ends."""
        return self._events.setdefault(task_id, RepeatingEvent())

    async def wait(self, event: RepeatingEvent, timeout: float | None = None) -> None:
        """Wait for an event, at most `timeout` seconds, and reconcile unless a worker does.

        Reconciling detects the end of a task even if the message about it was lost.

        Raises:
            TaskError: The tasks are an unpickled copy, which never changes, and there is no timeout.
        """
        self.home.enter()
        if self.is_copy and timeout is None:
            raise TaskError("cannot wait for an unpickled copy of a task that was still running", task_id="")
        await self.reconciler.wait(event, timeout)

    async def wait_until(self, is_true: Callable[[], bool], event: RepeatingEvent) -> None:
        """Wait for a condition, which is checked whenever the event is set."""
        while not is_true():
            await self.wait(event)

    def _wake(self, task_ids: Iterable[str | None]) -> None:
        for task_id in task_ids if self._events else ():
            if (event := self._events.get(task_id)) is not None:
                event.set()

    def _wake_all(self) -> None:
        for event in self._events.values():
            event.set()
