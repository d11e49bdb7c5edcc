"""Deliver task events to streams and listeners."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from claude_agent_py._callbacks import Report, log_failure
from claude_agent_py._errors import OptionsError
from claude_agent_py._listeners import ListenerQueue
from claude_agent_py._streams import QUEUE_LIMIT, Stream
from claude_agent_py.tasks.events import EVENT_TYPES, TaskEvent, TaskFinished, TaskProgressed

ItemT = TypeVar("ItemT")
TaskListener: TypeAlias = Callable[[ItemT], object]
"""An async or plain function that is called with task events. A plain function runs in a worker thread."""
Listener: TypeAlias = TaskListener[Any]
What: TypeAlias = str | type[TaskEvent] | None
"""A selection of events: a class, a `kind`, `"notification"`, or None for all."""

NOTIFICATION: Final = "notification"
_KINDS: Final = {kind.kind: kind for kind in EVENT_TYPES}
EventT = TypeVar("EventT", bound=TaskEvent)


class EventStream(Stream[EventT]):
    """The events of tasks. A slow reader misses progress events, but no others."""

    def __init__(self, kind: type[TaskEvent] = TaskEvent, limit: int = QUEUE_LIMIT) -> None:
        super().__init__()
        self.kind = kind
        self._limit = limit
        self.skipped: int = 0
        """The number of dropped progress events."""

    def put(self, item: EventT) -> None:
        """Add an event if it is of the stream's kind."""
        if not isinstance(item, self.kind):
            return
        if isinstance(item, TaskProgressed) and self.waiting >= self._limit:
            self.skipped += 1
        else:
            super().put(item)


class _Registered(Struct, eq=False):
    listener: Listener
    kind: type[TaskEvent]
    wants_notification: bool
    queue: ListenerQueue

    def put(self, event: TaskEvent) -> None:
        if not isinstance(event, self.kind):
            return
        if isinstance(event, TaskProgressed) and len(self.queue) >= QUEUE_LIMIT:
            self.queue.dropped += 1
        elif self.wants_notification and isinstance(event, TaskFinished):
            self.queue.put(event.notification())
        else:
            self.queue.put(event)


class Listeners:
    """The listeners of one manager. Each has a separate queue and worker, so that a slow listener delays no other."""

    def __init__(self) -> None:
        self._registered: list[_Registered] = []
        self._report: Report = log_failure
        self._start: Callable[[ListenerQueue], object] | None = None

    def add(self, listener: Listener, what: object = None) -> None:
        """Add a listener for events from now on. Raises OptionsError if it or `what` is invalid."""
        if not callable(listener):
            raise OptionsError(f"must be a function, not {listener!r}", option="listener")
        is_for_notifications = what == NOTIFICATION
        kind = TaskFinished if is_for_notifications else event_kind(what)
        queue = ListenerQueue(listener, lambda error: self._report(error))
        self._registered.append(_Registered(listener, kind, is_for_notifications, queue))
        if self._start is not None:
            self._start(queue)

    def deliver_with(self, start: Callable[[ListenerQueue], object], report: Report = log_failure) -> None:
        """Call `start`, which runs `ListenerQueue.deliver`, for each listener, now and when one is added.

        `report` receives their failures.
        """
        self._start, self._report = start, report
        for registered in self._registered:
            start(registered.queue)

    def remove(self, listener: Listener) -> None:
        """Remove all registrations of a listener."""
        for registered in self._find(listener):
            self._registered.remove(registered)
            registered.queue.end()

    def replay(self, listener: Listener, events: Iterable[TaskEvent]) -> None:
        """Queue events for one listener alone."""
        for event in events:
            for registered in self._find(listener):
                registered.put(event)

    def __contains__(self, listener: object) -> bool:
        return any(registered.listener == listener for registered in self._registered)

    def put(self, event: TaskEvent) -> None:
        """Queue an event for the listeners of its kind."""
        for registered in self._registered:
            registered.put(event)

    def has_listener_for(self, kind: type[TaskEvent]) -> bool:
        """Return whether any listener receives events of a kind."""
        return bool(self._registered) and any(issubclass(kind, registered.kind) for registered in self._registered)

    def close(self) -> None:
        """Let the workers end once their queues are empty."""
        for registered in self._registered:
            registered.queue.end()

    def _find(self, listener: Listener) -> list[_Registered]:
        return [registered for registered in self._registered if registered.listener == listener]


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
