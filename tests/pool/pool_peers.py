"""Pools of scripted peers, and waiting for what they report."""

from collections.abc import Callable
from typing import Any

import anyio

from claude_agent_py import ClientOptions
from claude_agent_py.pool import Pool, PoolStats
from claude_agent_py.testing import FakeCLI, steps
from claude_agent_py.transport import LaunchPlan, Transport

PATIENCE = 60
"""Seconds in which anything has to happen."""


class Peers:
    """Options whose processes are fakes in memory, the plans that they were started from, and the times."""

    def __init__(self, *script: Any, **more: Any) -> None:
        self.cli = FakeCLI(*(script or [steps.turn("done")]), **more)
        self.plans: list[LaunchPlan] = []
        self.times: list[float] = []

    def spawn(self, plan: LaunchPlan) -> Transport:
        self.plans.append(plan)
        self.times.append(anyio.current_time())
        return self.cli.transport()

    def options(self, **more: Any) -> ClientOptions:
        return ClientOptions(cli_path="claude", spawn=self.spawn, **more)


async def until(pool: Pool[Any], holds: Callable[[PoolStats], bool]) -> PoolStats:
    """Wait until the figures of a pool are as expected, and return them."""
    try:
        with anyio.fail_after(PATIENCE):
            while not holds(pool.stats()):
                await anyio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(str(pool.stats())) from None
    return pool.stats()


async def until_settled(pool: Pool[Any], spares: int) -> PoolStats:
    """Wait until so many spares are ready and nothing starts, ends or waits."""
    return await until(pool, lambda stats: (stats.spares, stats.processes, stats.waiting) == (spares, spares, 0))
