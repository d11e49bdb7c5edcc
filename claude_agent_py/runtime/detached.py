"""Workers that belong to nobody's cancel scope.

A session is opened in one worker, used in another and closed in a third, so its own workers cannot live in a task
group of any of them. asyncio and trio each have a way to start a worker that belongs to the event loop itself; both
end it when the loop ends. This is the only module that tells the two apart.
"""

import asyncio
import contextlib
import contextvars
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

logger = logging.getLogger("claude_agent_py")

_asyncio_workers: set["asyncio.Task[None]"] = set()
"""asyncio keeps only weak references to its tasks."""


def in_trio() -> bool:
    """Tell whether the calling code runs under trio."""
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    in_run = getattr(lowlevel, "in_trio_run", None)  # missing while another thread is importing trio
    return in_run is not None and bool(in_run())


def spawn_detached(function: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
    """Run an async function as a worker of the event loop, with the context variables of the caller.

    When the loop ends, the worker is cancelled and may still clean up. An exception that escapes it is logged.
    """

    async def guarded() -> None:
        try:
            await function()
        except Exception:
            logger.exception("the worker %s failed", name)

    if in_trio():
        sys.modules["trio"].lowlevel.spawn_system_task(guarded, name=name, context=contextvars.copy_context())
    else:
        worker = asyncio.get_running_loop().create_task(guarded(), name=name)
        _asyncio_workers.add(worker)
        worker.add_done_callback(_asyncio_workers.discard)


class Wakeup:
    """Something to wait for that may be set from any thread, a finalizer included. Made inside the event loop."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        if in_trio():
            token = sys.modules["trio"].lowlevel.current_trio_token()
            self._set_later: Callable[[], object] = lambda: token.run_sync_soon(self._event.set)
        else:
            loop = asyncio.get_running_loop()
            self._set_later = lambda: loop.call_soon_threadsafe(self._event.set)

    def set(self) -> None:
        """Wake up whoever waits, now and later. Does nothing once the loop is gone."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all that waited
            self._set_later()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def is_set(self) -> bool:
        """Tell whether it was set."""
        return self._event.is_set()


def in_event_loop() -> bool:
    """Tell whether the calling thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return in_trio()
    return True
