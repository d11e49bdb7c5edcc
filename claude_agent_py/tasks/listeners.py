"""Telling listeners of task events, so that none of them can harm anybody.

Owns the listeners and their workers: each has a queue and a worker of its own, so that a slow one delays only itself,
and what one raises is logged and reported. Nothing here runs in the pump. Knows no task.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

import anyio

from claude_agent_py.callbacks import Callback, Report, log_failure
from claude_agent_py.errors import OptionsError
from claude_agent_py.tasks.events import EVENT_TYPES, TaskEvent, TaskFinished
from claude_agent_py.tasks.waiting import Bell, EventStream

Told = TypeVar("Told")
TaskListener: TypeAlias = Callable[[Told], object]
"""A function that is told of task events. Async or plain; a plain one runs in a worker thread."""
Listener: TypeAlias = TaskListener[Any]
What: TypeAlias = str | type[TaskEvent] | None
"""Which events: a class, a `kind`, `"notification"`, or None for all."""

NOTIFICATION: Final = "notification"
_KINDS: Final = {kind.kind: kind for kind in EVENT_TYPES}


class _Registered:
    """A listener with its queue."""

    def __init__(self, listener: Listener, what: object) -> None:
        self.listener = listener
        self._callback = Callback(listener)
        self.what = what
        self.is_for_notifications = what == NOTIFICATION
        self.stream: EventStream[TaskEvent] = EventStream(
            event_filter(TaskFinished if self.is_for_notifications else what)
        )

    async def deliver(self, report: Report) -> None:
        """Tell the listener everything, one event after the other, until the session is over."""
        async for event in self.stream:
            await self._callback.tell(report, self._value(event))

    def _value(self, event: TaskEvent) -> Any:
        return event.notification() if self.is_for_notifications and isinstance(event, TaskFinished) else event


class Listeners:
    """The listeners of one manager."""

    def __init__(self) -> None:
        self._registered: list[_Registered] = []
        self._added = Bell()
        self._is_closed = False

    def add(self, listener: Listener, what: object = None) -> None:
        """Add a listener for `What`; it hears of what happens from now on. Raises OptionsError for what is none."""
        if not callable(listener):
            raise OptionsError(f"a function is expected, not {listener!r}", option="listener")
        self._registered.append(_Registered(listener, what))
        self._is_closed = False
        self._added.ring()

    def remove(self, listener: Listener) -> None:
        """Remove a listener, wherever it was added. One that is not there is no error."""
        for registered in [registered for registered in self._registered if registered.listener == listener]:
            self._registered.remove(registered)
            registered.stream.close()

    def tell(self, listener: Listener, events: Iterable[TaskEvent]) -> None:
        """Queue events for one listener alone."""
        for registered in [registered for registered in self._registered if registered.listener == listener]:
            for event in events:
                registered.stream.put(event)

    def put(self, event: TaskEvent) -> None:
        """Queue an event for those who want it."""
        for registered in self._registered:
            registered.stream.put(event)

    def close(self) -> None:
        """Let the workers end once they have told what is queued."""
        self._is_closed = True
        for registered in self._registered:
            registered.stream.close()
        self._added.ring()

    def reopen(self) -> None:
        """Begin anew for another process: the same listeners, with fresh queues."""
        self._registered = [_Registered(registered.listener, registered.what) for registered in self._registered]
        self._is_closed = False

    async def deliver_forever(self, report: Report | None) -> None:
        """Run the listeners until the session is over and all of it is told. Without `report`, failures are logged."""
        started: set[_Registered] = set()
        async with anyio.create_task_group() as workers:
            while True:
                for registered in [one for one in self._registered if one not in started]:
                    started.add(registered)
                    workers.start_soon(registered.deliver, report or log_failure)
                if self._is_closed:
                    return
                await self._added.wait()


def event_filter(what: object) -> Callable[[TaskEvent], bool]:
    """Give the test for the events that are meant. Raises OptionsError for what means none."""
    wanted = _event_type(what)
    return lambda event: isinstance(event, wanted)


def _event_type(what: object) -> type[TaskEvent]:
    if what is None:
        return TaskEvent
    if isinstance(what, str):
        try:
            return _KINDS[what]
        except KeyError:
            kinds = ", ".join([NOTIFICATION, *_KINDS])
            raise OptionsError(f"there are no {what!r} events; there are {kinds}", option="what") from None
    if not (isinstance(what, type) and issubclass(what, TaskEvent)):
        raise OptionsError(f"an event class or its kind is expected, not {what!r}", option="what")
    return what
