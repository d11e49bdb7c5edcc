"""Waking a worker of an event loop from any thread."""

import asyncio
import contextlib
import sys
from collections.abc import Callable

import anyio


class Wakeup:
    """Something to wait for in one event loop that may be set from any thread. Made inside that loop."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._set_later = _scheduler(self._event.set)

    def set(self) -> None:
        """Wake up whoever waits, now and later. Does nothing once the loop is gone."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all that waited
            self._set_later()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()


def _scheduler(function: Callable[[], object]) -> Callable[[], object]:
    """Give what has the current event loop call a function soon."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        token = trio.lowlevel.current_trio_token()
        return lambda: token.run_sync_soon(function)
    loop = asyncio.get_running_loop()
    return lambda: loop.call_soon_threadsafe(function)
