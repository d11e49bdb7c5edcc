"""Trying a run again: `RetryPolicy`.

Owns when another attempt is made and how long to wait before it. What an attempt does is the caller's; which errors are
worth another one, the errors say themselves (`RunFailed.is_retryable`).
"""

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
"""How long to wait at least after a limit resets, in seconds: clocks differ."""

LONG: Final = 60.0
"""A wait of more seconds is one that somebody should hear of."""

Pause = Annotated[float, Field(ge=0, strict=True)]


def _says_so(error: RunFailed) -> bool:
    return error.is_retryable


class RetryPolicy(ConfigModel):
    """When to try a run again, and how long to wait before.

    ::

        result = await RetryPolicy(attempts=5, budget=600).run(lambda: run(prompt, options))

    A policy has no state: any number of runs may share one, at the same time.
    """

    attempts: Annotated[int, Field(ge=1, strict=True)] = 4
    """How many attempts at most, the first one included."""
    wait: Pause = 1.0
    """How long to wait before the second attempt, in seconds; twice as long before each further one."""
    max_wait: Pause = 60.0
    """How long that wait may become, in seconds. A rate limit that says when it resets is waited for however long."""
    jitter: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.5
    """Which part of a wait is left to chance, 0 to 1, so that those who failed together do not come back together."""
    budget: Annotated[float, Field(gt=0, strict=True)] | None = None
    """Seconds after which no further attempt begins, and no wait for one; None: no limit. It ends no attempt: that is
    `Timeouts.run`."""
    is_retryable: Callable[[RunFailed], bool] = _says_so
    """Which errors are worth another attempt; by default those that say so themselves."""
    sleep: Callable[[float], Awaitable[Any]] = anyio.sleep
    """How to wait so many seconds. With `clock` and `chance`: for tests."""
    clock: Callable[[], float] = time.time
    """What time it is, in seconds since the epoch."""
    chance: Callable[[], float] = random.random
    """A random number from 0 to 1."""

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` and await what it gives, again and again until it succeeds; return its result.

        Every attempt is a run of its own: `lambda: run(prompt, options)`, or `lambda: client.query(prompt)` in a
        session, where the failed prompts stay part of the conversation. Cancelling ends the attempt or the wait.

        Raises:
            RunFailed: That of the last attempt, unchanged but for a note that counts the attempts: it is not worth
                another one, or attempts or budget are used up. Every other exception is raised at once.
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
            if left > 0:  # all who share the limit wait for the same moment: chance comes on top
                return left + NOT_BEFORE + longest * self.jitter * self.chance()
        return longest * (1 - self.jitter * self.chance())


__all__ = ["RetryPolicy"]
