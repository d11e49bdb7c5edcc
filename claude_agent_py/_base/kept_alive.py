"""`KeptAlive`: keeps a claim that lapses unless its holder says again and again that it lives.

Such claims are the lease of a session in a store, a question in an inbox, and a worker in the file of a fleet. This
module only repeats: how a claim lapses, by whose clock, and what follows if it is lost is the matter of its owner.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio

from claude_agent_py._base.event_loop import spawn_detached
from claude_agent_py._base.log import logger


class KeptAlive:
    """A claim that is kept. Either `run` it in a task group, or use `start` and `stop`, or `async with`.

    Args:
        beat: Says that the holder lives. It is called again soon after an error, which is logged once.
        every: Seconds between two calls.
        claim: What is kept, for the log.
    """

    def __init__(self, beat: Callable[[], Awaitable[object]], every: float, claim: str) -> None:
        self._beat = beat
        self._every = every
        self._claim = claim
        self._scope = anyio.CancelScope()
        self._has_ended: anyio.Event | None = None

    async def run(self) -> None:
        """Call `beat` until cancelled."""
        pause, level = self._every, logging.WARNING
        while True:
            await anyio.sleep(pause)
            try:
                await self._beat()
                pause, level = self._every, logging.WARNING
            except Exception as error:
                logger.log(level, "%s cannot be kept, trying again: %s", self._claim, error)
                pause, level = self._every / 3, logging.DEBUG

    def start(self) -> None:
        """Call `beat` in a worker outside of any task group, until `stop`."""
        has_ended = self._has_ended = anyio.Event()

        async def run() -> None:
            try:
                with self._scope:
                    await self.run()
            finally:
                has_ended.set()

        spawn_detached(run, name=f"claude_agent_py {self._claim}")

    async def stop(self) -> None:
        """End the calls that `start` began, if it did, and wait for the last one. Idempotent."""
        self._scope.cancel()
        if self._has_ended is not None:
            await self._has_ended.wait()

    async def __aenter__(self) -> None:
        self.start()

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()
