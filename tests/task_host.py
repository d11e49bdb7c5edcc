"""`Host`, the session of a `TaskIntake` in tests without one."""

from collections.abc import Callable
from typing import Any


class Host:
    """What a session does for its tasks.

    Args:
        number: Numbers the events, as a journal does; without it, they are no facts, and nobody wants them.
        take: Gets the events of the tasks, perhaps none.
    """

    def __init__(
        self, number: Callable[[list[Any]], object] | None = None, take: Callable[[list[Any]], object] = len
    ) -> None:
        self.number = number
        self.take = take

    def wants_event(self, kind: type[Any], /) -> bool:
        return self.number is not None

    def number_events(self, events: list[Any], /) -> None:
        if self.number is not None:
            self.number(events)

    def take_events(self, events: list[Any], /) -> None:
        self.take(events)
