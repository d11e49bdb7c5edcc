"""The plan of a pool: waiting callers, and the spares to keep; and checks of its arguments."""

import math
import random
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

    def __init__(self, options: ClientOptions, size: int, *, is_parked: bool = False) -> None:
        self.options = options
        self.size = size
        self.is_parked = is_parked
        """Whether the spares wait for their directory."""
        self.failures: int = 0
        """How many starts have failed in a row."""
        self.not_before: float = -math.inf
        """When to start the next spare, on the clock of the event loop."""

    def wish(self) -> Wish:
        """Return the session to start a spare for."""
        return Wish.of(self.options, is_parked=self.is_parked)

    def note_failure(self) -> None:
        """Wait before the next start, longer after each failure."""
        self.failures += 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 60))
        self.not_before = anyio.current_time() + pause * (0.75 + 0.5 * random.random())  # noqa: S311 - no secret

    def note_success(self) -> None:
        """Start the next one without a pause."""
        self.failures, self.not_before = 0, -math.inf


def checked_memory(memory: Any) -> int | None:
    """Return the bytes that a bound of memory allows.

    Raises:
        OptionsError: It is invalid, or the system does not tell the memory of processes.
    """
    if memory is not None and not can_measure():
        raise OptionsError("this system does not tell how much memory processes take", option="memory")
    return None if memory is None else read_size(memory, option="memory")


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
