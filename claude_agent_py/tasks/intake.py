"""Taking in what a session says of its tasks, and telling everyone who wants to know.

Owns the way of a message: into the ledger, the log of messages and the known paths, and from there, as events, to
listeners, streams, observers and waiting workers. Called by the pump, so everything here is quick, does no I/O and
never raises. Decides nothing: what a message means stands in `ledger`, what users see in `manager`.
"""

import logging
import math
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from claude_agent_py.tasks.events import (
    TaskEvent,
    TaskFinished,
    TaskOutputAvailable,
    TaskReopened,
    TaskRevised,
    TaskStarted,
)
from claude_agent_py.tasks.ledger import Ledger
from claude_agent_py.tasks.listeners import Listeners, What, event_filter
from claude_agent_py.tasks.message_log import MessageLog
from claude_agent_py.tasks.places import Places
from claude_agent_py.tasks.waiting import Bell, EventStream
from claude_agent_py.wire.messages import AssistantMessage, UserMessage
from claude_agent_py.wire.system import InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.tasks import TaskStartedMessage

logger: logging.Logger = logging.getLogger(__name__)

_OF_AGENTS: Final = frozenset({AssistantMessage, UserMessage, PermissionDeniedMessage})
"""The messages that may belong to a subagent's conversation."""
_TURNING_POINTS: Final = frozenset({TaskStarted, TaskReopened, TaskFinished, TaskRevised})

Observer = Callable[[list[TaskEvent]], object]


class Intake:
    """What comes in, and who is told."""

    def __init__(self, ledger: Ledger, places: Places, log: MessageLog, clock: Callable[[], float]) -> None:
        self.ledger = ledger
        self.places = places
        self.log = log
        self.clock = clock
        self._kinds = ledger.kinds | _OF_AGENTS | {InitMessage}
        self.listeners: Listeners = Listeners()
        self.observers: list[Observer] = []
        self.any_bell: Bell = Bell()
        """Rung when a task begins or ends."""
        self.agenda_bell: Bell = Bell()
        """Rung when there is something to reconcile before `next_look`."""
        self.next_look: float = math.inf
        """When the worker that reconciles looks by itself; infinity while it sleeps until it is rung."""
        self.stoppers: dict[str, Callable[[], Awaitable[object]]] = {}
        """How to stop the tasks that are not the CLI's."""
        self._bells: dict[str, Bell] = {}
        self._streams: list[weakref.ref[EventStream[Any]]] = []
        """The streams that somebody still holds, and some that nobody does."""
        self._is_over = False
        self._is_orphaned = False
        """The CLI is gone, and tasks that are not its own go on."""

    # From the session

    def track(self, message: Any, line: bytes = b"") -> list[TaskEvent]:
        """Take in a message; its line, where decoding that gives it again."""
        if type(message) not in self._kinds:
            return []
        try:
            return self._track(message, line)
        except Exception:
            logger.exception("The task ledger failed; the session goes on")
            return []

    def _track(self, message: Any, line: bytes) -> list[TaskEvent]:
        if self._is_over:
            self._reopen()
        events = self.publish(self.ledger.fold(message, self.clock()))
        kind = type(message)
        if kind in _OF_AGENTS:
            agent_id = message.agent_id
            if agent_id is not None and agent_id in self.ledger.entries:
                self.log.add(agent_id, message, line)
                self._ring(agent_id)
        elif kind is InitMessage:
            self._is_orphaned = False
            self.places.note_init(message.cwd, message.session_id)
        return events

    def track_hook(self, event: str, data: Mapping[str, Any]) -> list[TaskEvent]:
        """Take in the input of a hook."""

        def fold() -> list[TaskEvent]:
            self._reopen()
            self.places.note_hook(data)
            return self.publish(self.ledger.fold_hook(event, data, self.clock()))

        return self._safely(fold)

    def track_prompt(self, request_id: str, agent_id: str | None) -> list[TaskEvent]:
        """Take in that a subagent asks the user."""
        return self._safely(lambda: self.publish(self.ledger.asked(request_id, agent_id or "", self.clock())))

    def track_prompt_end(self, request_id: str) -> list[TaskEvent]:
        """Take in that a prompt is over."""
        return self._safely(lambda: self.publish(self.ledger.answered(request_id, self.clock())))

    def process_exited(self, reason: str) -> list[TaskEvent]:
        """Take in that the process is gone."""
        self._is_orphaned = True
        return self._safely(lambda: self.publish(self.ledger.process_exited(reason, self.clock())))

    def adopt(self, message: TaskStartedMessage, stop: Callable[[], Awaitable[object]]) -> None:
        """Take in a task that is not the CLI's."""
        self.stoppers[message.task_id] = stop
        self.ledger.book.entry(message.task_id, self.clock()).is_external = True
        self.track(message)

    def writes_to(self, task_id: str, path: str) -> None:
        """Take in where a task that is not the CLI's writes to."""
        entry = self.ledger.entries.get(task_id)
        if entry is not None and entry.runs:
            entry.transcript_path = path if entry.is_agent else entry.transcript_path
            self.publish(self.ledger.writes_to(entry, path, self.clock()))

    def _safely(self, fold: Callable[[], list[TaskEvent]]) -> list[TaskEvent]:
        try:
            return fold()
        except Exception:
            logger.exception("The task ledger failed; the session goes on")
            return []

    # To everyone else

    def publish(self, events: list[TaskEvent]) -> list[TaskEvent]:
        """Tell everyone of events."""
        if self.ledger.book.has_agenda:
            self._ring_agenda()
        if events:
            self._tell(events)
        if self._is_orphaned and not self.ledger.has_external:
            self._end_streams()
        return events

    def _tell(self, events: list[TaskEvent]) -> None:
        streams = self._held_streams() if self._streams else ()
        is_turning_point = False
        for event in events:
            is_turning_point |= type(event) in _TURNING_POINTS
            if isinstance(event, TaskOutputAvailable):
                self.places.note_output(event.task_id, event.path)
            self.listeners.put(event)
            for stream in streams:
                stream.put(event)
            self._ring(event.task_id)
        self._tell_observers(events)
        if is_turning_point:
            self.any_bell.ring()

    def _ring_agenda(self) -> None:
        task_ids, due = self.ledger.book.take_agenda()
        for task_id in task_ids:
            self._ring(task_id)
        if due < self.next_look or self.next_look == math.inf:
            self.agenda_bell.ring()
        self.any_bell.ring()

    def _tell_observers(self, events: list[TaskEvent]) -> None:
        for observer in self.observers:
            try:
                observer(events)
            except Exception:
                logger.exception("An observer of task events failed")

    def stream(self, what: What) -> EventStream[Any]:
        """Give a stream of the events from now on."""
        stream: EventStream[Any] = EventStream(event_filter(what))
        if self._is_over:
            stream.close()
        self._streams = [held for held in self._streams if held() is not None]
        self._streams.append(weakref.ref(stream))
        return stream

    def _held_streams(self) -> list[EventStream[Any]]:
        return [stream for held in self._streams if (stream := held()) is not None]

    def _end_streams(self) -> None:
        self._is_over = True
        self._is_orphaned = False
        self.listeners.close()
        for stream in self._held_streams():
            stream.close()
        self._streams.clear()
        self.ring_all()

    def _reopen(self) -> None:
        if self._is_over:
            self._is_over = False
            self.listeners.reopen()

    # Bells

    def bell(self, task_id: str) -> Bell:
        """Give the bell of a task, rung whenever something happens to it."""
        return self._bells.setdefault(task_id, Bell())

    def ring_all(self) -> None:
        """Wake all who wait for anything."""
        for bell in (self.any_bell, self.agenda_bell, *self._bells.values()):
            bell.ring()

    def _ring(self, task_id: str) -> None:
        bell = self._bells.get(task_id)
        if bell is not None:
            bell.ring()
