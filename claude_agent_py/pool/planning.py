"""The plan of a pool: waiting callers, the spares to keep, and the bounds."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio

from claude_agent_py._errors import OptionsError
from claude_agent_py._memory import can_measure, read_size
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.pool.fitting import Wish
from claude_agent_py.pool.member import Member

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before spares are started again after a failure; doubled with each further one."""

USUAL_BYTES: Final = 200 * 1024 * 1024
"""The assumed memory of a process before one was measured. (A CLI 2.1.328 that is ready takes 165 to 200 MB.)"""


class Waiter:
    """A caller who waits for a process."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.served: anyio.Event = anyio.Event()
        self.member: Member | None = None
        """The process that is promised to it."""
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Raise an error to the caller."""
        self.error = error
        self.served.set()


class Supply:
    """The spares to keep for some options."""

    def __init__(
        self,
        options: ClientOptions,
        size: int,
        *,
        is_parked: bool = False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.options = options
        self.size = size
        self.is_parked = is_parked
        """Whether the spares wait for their directory."""
        self.failures: int = 0
        """How many starts have failed in a row."""
        self.not_before: float = -math.inf
        """When to start the next spare, on the clock of the event loop."""
        self._chance = chance

    def wish(self) -> Wish:
        """Return the session to start a spare for."""
        return Wish.of(self.options, is_parked=self.is_parked)

    def note_failure(self) -> None:
        """Wait before the next start, longer after each failure."""
        self.failures += 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 60))
        self.not_before = anyio.current_time() + pause * (0.75 + 0.5 * self._chance())

    def note_success(self) -> None:
        """Start the next one without a pause."""
        self.failures, self.not_before = 0, -math.inf


@dataclass
class Bounds:
    """How many processes there may be, and how much memory they may take."""

    max_size: int
    memory_bytes: int | None = None
    """None means no limit."""
    usual_bytes: int = USUAL_BYTES
    """The assumed memory of a new process."""

    def has_room(self, members: list[Member]) -> bool:
        """Return whether another process may be started. The first always may."""
        if len(members) >= self.max_size:
            return False
        return not members or self.excess(members) + self.usual_bytes <= 0

    def excess(self, members: list[Member]) -> float:
        """Return by how many bytes the processes exceed the limit; negative below it.

        A process counts as measured, but at least as what a new one takes once it has started.
        """
        if self.memory_bytes is None:
            return -math.inf
        return sum(max(member.memory_bytes or 0, self.usual_bytes) for member in members) - self.memory_bytes


def checked_bounds(max_size: Any, memory: Any) -> Bounds:
    """Return the bounds for the arguments of a pool.

    Raises:
        OptionsError: One is invalid, or the system does not tell the memory of processes.
    """
    check_count(max_size, "max_size", 1)
    if memory is None:
        return Bounds(max_size)
    if not can_measure():
        raise OptionsError("this system does not tell how much memory processes take", option="memory")
    return Bounds(max_size, read_size(memory, option="memory"))


def check_count(value: Any, option: str, least: int) -> None:
    """Refuse what is not a number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionsError(f"must be a number of at least {least}, not {value!r}", option=option)


def checked_seconds(value: Any, option: str) -> float | None:
    """Return seconds, or None for no limit; refuse anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and value > 0):
        raise OptionsError(f"must be a positive number of seconds, or None, not {value!r}", option=option)
    return None if value is None else float(value)
