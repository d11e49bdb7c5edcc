"""`RetryPolicy`: when to retry a run, and how long to wait before."""

import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

import anyio
from pydantic import Field

from claude_agent_py.configuration import ConfigModel
from claude_agent_py.errors import RateLimitedError, RunFailed

logger: logging.Logger = logging.getLogger("claude_agent_py")

T = TypeVar("T")

NOT_BEFORE: Final = 0.1
"""The minimum wait after a limit resets, in seconds, because clocks differ."""

LONG: Final = 60.0
"""Waits of more seconds are logged as warnings."""

Pause = Annotated[float, Field(ge=0, strict=True)]


def _says_so(error: RunFailed) -> bool:
    return error.is_retryable


class RetryPolicy(ConfigModel):
    """When to retry a run, and how long to wait before.

    ::

        result = await RetryPolicy(attempts=5, budget=600).run(lambda: run(prompt, options))

    A policy has no state: any number of concurrent runs may share one.
    """

    attempts: Annotated[int, Field(ge=1, strict=True)] = 4
    """The maximum number of attempts, including the first."""
    wait: Pause = 1.0
    """The wait before the second attempt, in seconds; it doubles before each further attempt."""
    max_wait: Pause = 60.0
    """The maximum of that wait, in seconds. It does not apply to rate limits with a reset time."""
    jitter: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.5
    """The random part of a wait, 0 to 1, so that runs that failed together do not retry together."""
    budget: Annotated[float, Field(gt=0, strict=True)] | None = None
    """Seconds after which no further attempt begins; None means no limit. To limit an attempt, use `Timeouts.run`."""
    is_retryable: Callable[[RunFailed], bool] = _says_so
    """Returns whether to retry after an error; by default `RunFailed.is_retryable`."""
    sleep: Callable[[float], Awaitable[Any]] = anyio.sleep
    """Waits for a number of seconds. `sleep`, `clock` and `chance` can be replaced in tests."""
    clock: Callable[[], float] = time.time
    """Returns the time, in seconds since the epoch."""
    chance: Callable[[], float] = random.random
    """Returns a random number from 0 to 1."""

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call and await `attempt` until it succeeds, and return its result.

        Every attempt is a new run: `lambda: run(prompt, options)`, or `lambda: client.query(prompt)` in a session,
        where the failed prompts stay part of the conversation. Cancelling cancels the attempt or the wait.

        Raises:
            RunFailed: The error of the last attempt, with a note of the number of attempts, if it is not retryable or
                the attempts or the budget are used up. All other exceptions propagate at once.
        """
        began = self.clock()
        number = 1
        while True:
            try:
                return await attempt()
            except RunFailed as error:
                pause = self.pause_after(error, number)
                spent = self.clock() - began
                is_last = number >= self.attempts or (self.budget is not None and spent + pause > self.budget)
                if is_last or not self.is_retryable(error):
                    if number > 1:
                        error.add_note(f"the last of {number} attempts within {spent:.0f} s")
                    raise
                level = logging.WARNING if pause > LONG else logging.INFO
                logger.log(level, "attempt %d failed, the next one is in %.1f s: %s", number, pause, error)
            await self.sleep(pause)
            number += 1

    def pause_after(self, error: RunFailed, number: int) -> float:
        """Return how many seconds to wait after attempt `number` (1 is the first) failed with `error`."""
        longest = min(self.max_wait, self.wait * 2.0 ** min(number - 1, 60))
        if isinstance(error, RateLimitedError) and error.resets_at is not None:
            left = error.resets_at - self.clock()
            if left > 0:  # everyone waits for the same reset, so add a random wait
                return left + NOT_BEFORE + longest * self.jitter * self.chance()
        return longest * (1 - self.jitter * self.chance())


__all__ = ["RetryPolicy"]
