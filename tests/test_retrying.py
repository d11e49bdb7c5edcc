"""Retries and their delays, with a fake clock."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from claude_agent_py import (
    CLIExitError,
    ConnectionClosedError,
    OptionsError,
    RateLimitedError,
    RetryPolicy,
    RunTimeoutError,
)
from claude_agent_py.errors import InvalidRequestError, OverloadedError, RunFailed, ServerError

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that only `sleep` advances."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()
        self.waits.append(seconds)
        self.now += seconds

    def policy(self, chance: float = 0.0, **more: Any) -> RetryPolicy:
        return RetryPolicy(sleep=self.sleep, clock=lambda: self.now, chance=lambda: chance, **more)


class Attempts:
    """Fails with each of these errors in turn, then succeeds."""

    def __init__(self, *failures: Exception | Callable[[], Exception]) -> None:
        self.made = 0
        self._failures = failures

    async def __call__(self) -> str:
        await anyio.lowlevel.checkpoint()
        self.made += 1
        if self.made > len(self._failures):
            return "done"
        failure = self._failures[self.made - 1]
        raise failure if isinstance(failure, Exception) else failure()


async def test_waits_grow_up_to_the_cap() -> None:
    clock, attempts = Clock(), Attempts(*[OverloadedError("busy") for _ in range(5)])
    assert await clock.policy(attempts=6, wait=1.0, max_wait=5.0).run(attempts) == "done"
    assert clock.waits == [1.0, 2.0, 4.0, 5.0, 5.0]


async def test_chance_takes_its_part_of_a_wait() -> None:
    clock = Clock()
    await clock.policy(chance=1.0, wait=8.0, jitter=0.25).run(Attempts(ServerError("oops")))
    assert clock.waits == [6.0]


async def test_the_last_error_is_raised_and_says_how_often_it_was_tried() -> None:
    clock, last = Clock(), ServerError("the last")
    attempts = Attempts(ServerError("first"), ServerError("second"), last)
    with pytest.raises(ServerError) as raised:
        await clock.policy(attempts=3).run(attempts)
    assert raised.value is last
    assert raised.value.__notes__ == ["failed after 3 attempts in 3 s"]
    assert attempts.made == 3


async def test_the_failed_attempts_can_be_had() -> None:
    first, second, failures = ServerError("first"), ServerError("second"), list[RunFailed]()
    assert await Clock().policy(attempts=3).run(Attempts(first, second), failures=failures) == "done"
    assert failures == [first, second]
    with pytest.raises(ServerError):
        await Clock().policy(attempts=1).run(Attempts(last := ServerError("last")), failures=failures)
    assert failures == [first, second, last]


@pytest.mark.parametrize(
    "failure",
    [InvalidRequestError("no"), RunTimeoutError("run", 3), ConnectionClosedError("closed"), OptionsError("wrong")],
    ids=lambda e: type(e).__name__,
)
async def test_a_permanent_failure_is_not_tried_again(failure: Exception) -> None:
    clock, attempts = Clock(), Attempts(failure)
    with pytest.raises(type(failure)):
        await clock.policy().run(attempts)
    assert (attempts.made, clock.waits) == (1, [])


async def test_the_death_of_the_cli_is_tried_again() -> None:
    assert await Clock().policy().run(Attempts(CLIExitError("it died", exit_code=-9))) == "done"


async def test_a_rate_limit_is_waited_for_beyond_the_cap(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with caplog.at_level(logging.WARNING, "claude_agent_py"):
        await clock.policy(max_wait=5.0).run(Attempts(RateLimitedError("limit", resets_at=clock.now + 3600)))
    assert clock.now >= 1_000_000 + 3600
    assert sum(clock.waits) == pytest.approx(3600, abs=1)
    assert "3600" in caplog.text


async def test_a_limit_that_has_reset_is_waited_for_like_any_failure() -> None:
    clock = Clock()
    await clock.policy(wait=2.0).run(Attempts(RateLimitedError("limit", resets_at=clock.now - 5)))
    assert clock.waits == [2.0]


async def test_no_wait_begins_that_the_budget_does_not_cover() -> None:
    clock = Clock()
    attempts = Attempts(ServerError("one"), RateLimitedError("limit", resets_at=clock.now + 3600))
    with pytest.raises(RateLimitedError):
        await clock.policy(budget=60.0).run(attempts)
    assert clock.waits == [1.0]


async def test_the_caller_may_say_what_is_worth_it() -> None:
    clock, attempts = Clock(), Attempts(RunTimeoutError("run", 3))
    policy = clock.policy(is_retryable=lambda error: isinstance(error, RunTimeoutError))
    assert await policy.run(attempts) == "done"


async def test_cancelling_ends_the_wait() -> None:
    policy = RetryPolicy(wait=1000.0)
    attempts = Attempts(ServerError("oops"))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(policy.run, attempts)
            while not attempts.made:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert attempts.made == 1


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"wait": -1.0}, {"jitter": 1.5}, {"budget": 0.0}, {"retries": 3}])
async def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionsError):
        RetryPolicy(**wrong)


async def test_every_error_that_ends_a_run_is_a_failed_run() -> None:
    for error in (CLIExitError("x"), ConnectionClosedError("x"), RunTimeoutError("run", 1), ServerError("x")):
        assert isinstance(error, RunFailed)
        assert error.result is None
    assert not issubclass(OptionsError, RunFailed)
