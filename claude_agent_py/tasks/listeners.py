"""Deliver task events to streams and listeners."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from claude_agent_py._base.callbacks import Report, is_same_function, log_failure
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.listeners import ListenerQueue
from claude_agent_py._base.streams import Stream
from claude_agent_py._journal.tasks.events import EVENT_TYPES, TaskEvent, TaskFinished, TaskProgressed

ItemT = TypeVar("ItemT")
TaskListener: TypeAlias = Callable[[ItemT], object]
"""An async or plain function that is called with task events, in the event loop."""
Listener: TypeAlias = TaskListener[Any]
What: TypeAlias = str | type[TaskEvent] | None
"""A selection of events: a class, a `kind`, `"notification"`, or None for all."""

QUEUE_LIMIT: Final = 10_000
"""How many events may wait for a slow reader before progress events are dropped."""

NOTIFICATION: Final = "notification"
_KINDS: Final = {kind.kind: kind for kind in EVENT_TYPES}
EventT = TypeVar("EventT", bound=TaskEvent)


def has_room(event: object, waiting: int) -> bool:
    """Return whether a queue takes an event. A slow reader misses progress events, but no others."""
    return waiting < QUEUE_LIMIT or not isinstance(event, TaskProgressed)


class EventStream(Stream[EventT]):
    """The events of tasks. A slow reader misses progress events, but no others."""

    def __init__(self, kind: type[TaskEvent] = TaskEvent) -> None:
        super().__init__()
        self.kind = kind
        self.skipped: int = 0
        """The number of dropped progress events."""

    def put(self, item: EventT) -> None:
        """Add an event if it is of the stream's kind."""
        if not isinstance(item, self.kind):
            return
        if has_room(item, self.waiting):
            super().put(item)
        else:
            self.skipped += 1


class _RegisteredListener(Struct, eq=False):
    listener: Listener
    kind: type[TaskEvent]
    wants_notification: bool
    queue: ListenerQueue

    def put(self, event: TaskEvent) -> None:
        if not isinstance(event, self.kind):
            return
        if not has_room(event, len(self.queue)):
            self.queue.dropped += 1
        elif self.wants_notification and isinstance(event, TaskFinished):
            self.queue.put(event.notification())
        else:
            self.queue.put(event)

    def close(self) -> None:
        self.queue.end()


class Listeners:
    """The listeners and streams of one manager.

    Each listener has a separate queue and worker, so that a slow one delays no other.
    """

    def __init__(self) -> None:
        self._registered: list[_RegisteredListener] = []
        self._streams: weakref.WeakSet[EventStream[Any]] | tuple[()] = ()
        self.is_closed: bool = False
        """Whether the process has ended, so that new streams are empty."""
        self._report: Report = log_failure
        self._start: Callable[[ListenerQueue], object] | None = None

    def add(self, listener: Listener, what: object = None) -> None:
        """Add a listener for events from now on. Raises OptionsError if it or `what` is invalid."""
        if not callable(listener):
            raise OptionsError(f"must be a function, not {listener!r}", option="listener")
        is_for_notifications = what == NOTIFICATION
        kind = TaskFinished if is_for_notifications else event_kind(what)
        queue = self._make_queue(listener)
        self._registered.append(_RegisteredListener(listener, kind, is_for_notifications, queue))
        if self._start is not None:
            self._start(queue)

    def _make_queue(self, listener: Listener) -> ListenerQueue:
        return ListenerQueue(listener, lambda error: self._report(error))

    def stream(self, what: What) -> EventStream[Any]:
        """Return a stream of the events from now on."""
        stream: EventStream[Any] = EventStream(event_kind(what))
        if self.is_closed:
            stream.close()
        self._streams = self._streams or weakref.WeakSet()
        self._streams.add(stream)
        return stream

    def deliver_with(self, start: Callable[[ListenerQueue], object], report: Report = log_failure) -> None:
        """Call `start`, which runs `ListenerQueue.deliver`, for each listener, now and when one is added.

        `report` receives their failures.
        """
        self._start, self._report = start, report
        self.is_closed = False
        for registered in self._registered:
            if registered.queue.over.is_set():  # with an earlier process of the session
                registered.queue = self._make_queue(registered.listener)
            start(registered.queue)

    def remove(self, listener: Listener) -> None:
        """Remove all registrations of a listener."""
        for registered in self._find(listener):
            self._registered.remove(registered)
            registered.close()

    def replay(self, listener: Listener, events: Iterable[TaskEvent]) -> None:
        """Queue events for one listener alone."""
        for event in events:
            for registered in self._find(listener):
                registered.put(event)

    def __contains__(self, listener: object) -> bool:
        return any(is_same_function(registered.listener, listener) for registered in self._registered)

    def put(self, event: TaskEvent) -> None:
        """Queue an event for the listeners and streams of its kind."""
        for receiver in self._receivers():
            receiver.put(event)

    def want(self, kind: type[TaskEvent]) -> bool:
        """Return whether any listener or stream receives events of a kind."""
        if not self._registered and not self._streams:
            return False  # as in most sessions
        return any(issubclass(kind, receiver.kind) for receiver in self._receivers())

    def close(self) -> None:
        """End the streams, and let the workers end once their queues are empty."""
        self.is_closed = True
        for receiver in self._receivers():
            receiver.close()
        self._streams = ()

    def _receivers(self) -> "tuple[_RegisteredListener | EventStream[Any], ...]":
        return (*self._registered, *self._streams)

    def _find(self, listener: Listener) -> list[_RegisteredListener]:
        return [registered for registered in self._registered if is_same_function(registered.listener, listener)]


def event_kind(what: object) -> type[TaskEvent]:
    """Return the class of events that `what` selects. Raises OptionsError if it is invalid."""
    if what is None:
        return TaskEvent
    if isinstance(what, str):
        try:
            return _KINDS[what]
        except KeyError:
            kinds = ", ".join([NOTIFICATION, *_KINDS])
            raise OptionsError(f"must be one of {kinds}, not {what!r}", option="what") from None
    if not (isinstance(what, type) and issubclass(what, TaskEvent)):
        raise OptionsError(f"must be an event class or its kind, not {what!r}", option="what")
    return what
