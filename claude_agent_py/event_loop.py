"""What anyio has no word for: the only module that tells asyncio from trio.

Owns workers that belong to nobody's cancel scope (a session is opened in one worker, used in another and closed in a
third, so its own workers cannot live in a task group of any of them), waking a worker from any thread, whether the
calling worker is being cancelled, and the thread limiters of each event loop.
"""

import asyncio
import contextlib
import contextvars
import logging
import math
import sys
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeAlias, TypeVar, TypeVarTuple

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

logger: logging.Logger = logging.getLogger("claude_agent_py")

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

PipeWriter: TypeAlias = asyncio.StreamWriter
"""Writes to a pipe without waiting."""

FILE_THREADS = 40
"""How many threads of one event loop may work on files at once."""

_file_threads: "RunVar[anyio.CapacityLimiter]" = RunVar("claude_agent_py_file_threads")

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


@types.coroutine
def run_until_wait(coroutine: Coroutine[Any, Any, T], on_wait: Callable[[], object]) -> Generator[Any, Any, T]:
    """Await a coroutine in a copy of the context, and call `on_wait` once, when it first has to wait for anything.

    All of it runs in the calling worker, so that cancel scopes and timeouts in it are sound.
    """
    context, is_first = contextvars.copy_context(), True
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            awaited = context.run(step, value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if is_first:
            is_first = False
            on_wait()
        try:
            value, step = (yield awaited), coroutine.send
        except BaseException as error:
            value, step = error, coroutine.throw


def pipe_writer(stream: object) -> PipeWriter | None:
    """Return what writes to the input of an anyio process at once, or None where that needs a wait.

    anyio lets other workers run at each write, which for an answer costs more than the write.
    """
    writer = getattr(stream, "_stream", None)
    return writer if isinstance(writer, asyncio.StreamWriter) else None


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


def is_cancelled() -> bool:
    """Tell whether the calling worker is being cancelled; if not, a cancellation that reaches it is somebody else's.

    On asyncio a worker meets `CancelledError` also where it awaits something that was cancelled.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    if in_trio():
        return False
    worker = asyncio.current_task()
    return worker is None or worker.cancelling() > 0


async def run_file_work(function: Callable[[*Arguments], T], *args: *Arguments, abandon_on_cancel: bool = False) -> T:
    """Call a function that works on files in a thread, apart from those that the program's own functions may hold."""
    limiter = _file_threads.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(FILE_THREADS)
        _file_threads.set(limiter)
    return await to_thread.run_sync(function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter)
