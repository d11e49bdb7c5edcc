"""`RetryPolicy`: retry a failed run with exponential backoff."""

import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

import anyio
from pydantic import Field

from claude_agent_py import errors
from claude_agent_py._base.configuration import ConfigModel
from claude_agent_py._base.errors import RunFailed
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import nth_pause

T = TypeVar("T")

NOT_BEFORE: Final = 0.1
"""Seconds to wait beyond the reset of a rate limit, because clocks differ."""

LONG: Final = 60.0
"""Waits of more seconds than this are logged as warnings."""

Pause = Annotated[float, Field(ge=0, strict=True)]


def _says_so(error: RunFailed) -> bool:
    return error.is_retryable


class RetryPolicy(ConfigModel):
    """When to retry a run, and how long to wait first.

        result = await RetryPolicy(attempts=5, budget=600).run(lambda: run(prompt, options))

    A policy has no state, so concurrent runs may share one.
    """

    attempts: Annotated[int, Field(ge=1, strict=True)] = 4
    """The maximum number of attempts, including the first."""
    wait: Pause = 1.0
    """Seconds to wait before the second attempt; doubled for each further one."""
    max_wait: Pause = 60.0
    """The maximum of that wait, in seconds. It does not apply to a rate limit whose reset time is known."""
    jitter: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.5
    """The fraction of a wait that is random, 0 to 1, so that runs that failed together do not retry together."""
    budget: Annotated[float, Field(gt=0, strict=True)] | None = None
    """Seconds after which no further attempt or wait begins; None means no limit. A running attempt is not cut short:
    use `Timeouts.run` for that."""
    is_retryable: Callable[[RunFailed], bool] = _says_so
    """Returns whether to retry after an error. The default returns `RunFailed.is_retryable`."""
    sleep: Callable[[float], Awaitable[Any]] = anyio.sleep
    """Waits a number of seconds. Replace it, `clock` and `chance` in tests."""
    clock: Callable[[], float] = time.time
    """Returns the time, in seconds since the epoch."""
    chance: Callable[[], float] = random.random
    """Returns a random number from 0 to 1."""

    async def run(self, attempt: Callable[[], Awaitable[T]], *, failures: list[RunFailed] | None = None) -> T:
        """Await `attempt()` until it succeeds, and return its result.

        Each attempt starts a new run: `lambda: run(prompt, options)`, or `lambda: client.query(prompt)` in a session,
        where failed prompts stay in the conversation. Cancelling cancels the attempt or the wait.

        Args:
            attempt: Starts a run.
            failures: The error of each failed attempt is appended to it, also the one that is raised. Failed attempts
                cost money, too: `sum(error.result.cost_usd for error in failures if error.result)`.

        Raises:
            RunFailed: The error of the last attempt, with a note that counts the attempts, once it is not retryable or
                the attempts or the budget are used up. Any other exception is raised immediately.
        """
        began = self.clock()
        number = 1
        while True:
            try:
                return await attempt()
            except RunFailed as error:
                if failures is not None:
                    failures.append(error)
                pause = self.pause_after(error, number)
                spent = self.clock() - began
                is_last = number >= self.attempts or (self.budget is not None and spent + pause > self.budget)
                if is_last or not self.is_retryable(error):
                    if number > 1:
                        error.add_note(f"failed after {number} attempts in {spent:.0f} s")
                    raise
                level = logging.WARNING if pause > LONG else logging.INFO
                logger.log(level, "attempt %d failed, retrying in %.1f s: %s", number, pause, error)
            await self.sleep(pause)
            number += 1

    def pause_after(self, error: RunFailed, number: int) -> float:
        """Return the seconds to wait after attempt `number` (counted from 1) failed with `error`."""
        longest = nth_pause(self.wait, self.max_wait, number - 1)
        if isinstance(error, errors.RateLimitedError) and error.resets_at is not None:
            left = error.resets_at - self.clock()
            if left > 0:  # add jitter, because everything under the same limit waits for the same moment
                return left + NOT_BEFORE + longest * self.jitter * self.chance()
        return longest * (1 - self.jitter * self.chance())


__all__ = ["RetryPolicy"]
