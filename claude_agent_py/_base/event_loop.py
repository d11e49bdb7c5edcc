"""Event loop functions that anyio does not provide; the only module that distinguishes asyncio from trio.

A session may be opened, used and closed in three different workers, so its own workers run outside of their task groups
(`spawn_detached`).

asyncio is imported on first use, because a running event loop has loaded it: it is a seventh of the time that the
package takes to import.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import signal
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread

from claude_agent_py._base.lazy_names import LazyModule
from claude_agent_py._base.log import logger
from claude_agent_py._base.thread_locks import ThreadLock

if TYPE_CHECKING:
    import asyncio
    from concurrent import futures
else:  # their import takes a while
    asyncio = LazyModule("asyncio")
    futures = LazyModule("concurrent.futures")

T = TypeVar("T")
Returned: TypeAlias = Coroutine[Any, Any, T]
"""What a call of an async function returns."""
AnyWorker = TypeVar("AnyWorker", bound=Callable[..., Returned[None]])
Arguments = TypeVarTuple("Arguments")

PipeWriter: TypeAlias = "asyncio.StreamWriter"
"""Writes to a pipe without waiting."""

AsyncioLoop: TypeAlias = "asyncio.AbstractEventLoop"
Waiter: TypeAlias = "asyncio.Future[None] | anyio.Event"
Waiters: TypeAlias = "list[Waiter]"
"""Those that wait for the same thing; for `wait_in`."""

LOOP_CHECK = 1.0
"""After how many seconds a thread that waits for an event loop looks whether it is still there."""

FILE_THREADS = 40
"""How many threads of one event loop may work on files concurrently."""


class PerLoop(Generic[T]):
    """A value per event loop, made on first use. It must not refer to the loop."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[object, T] = WeakKeyDictionary()

    def get(self) -> T:
        """Return the value of the running loop."""
        loop = asyncio_loop() or sys.modules["trio"].lowlevel.current_trio_token()
        try:
            return self._values[loop]
        except KeyError:
            made = self._values[loop] = self._make()
            return made


_file_threads = PerLoop(lambda: anyio.CapacityLimiter(FILE_THREADS))

_asyncio_workers: set[asyncio.Task[Any]] = set()
"""asyncio keeps only weak references to its tasks."""


def in_trio() -> bool:
    """Return whether the calling code runs under trio."""
    if "trio" not in sys.modules:
        return False
    lowlevel = getattr(sys.modules["trio"], "lowlevel", None)
    in_run = getattr(lowlevel, "in_trio_run", None)  # missing while another thread is importing trio
    return in_run is not None and bool(in_run())


_workers: list[Callable[..., object]] = []
"""The functions marked with `worker`."""


def worker(function: AnyWorker) -> AnyWorker:
    """Mark an async function that detached workers start as a separate task.

    Under trio, Ctrl+C then interrupts the main task and never such a worker. trio protects its system tasks itself, but
    not the tasks that they start, and KeyboardInterrupt in one of those would be an internal error of trio.
    """
    _workers.append(function)
    return function


def asyncio_loop() -> AsyncioLoop | None:
    """Return the running loop of asyncio; None under trio."""
    if in_trio():
        return None
    return asyncio.get_running_loop()


async def wait_in(waiters: Waiters, deadline: float = math.inf) -> None:
    """Wait in this list until `wake`, or until the deadline on the clock of the event loop.

    Under asyncio it takes half the time of `anyio.Event`, also with a deadline instead of a scope.
    """
    loop = asyncio_loop()
    if loop is None:
        event = anyio.Event()
        waiters.append(event)
        try:
            with anyio.CancelScope(deadline=deadline):
                await event.wait()
        finally:
            if event in waiters:
                waiters.remove(event)
        return
    waiter = loop.create_future()
    waiters.append(waiter)
    alone: Waiters = [waiter]
    timer = loop.call_at(deadline, wake, alone) if deadline < math.inf else None
    try:
        await waiter
    finally:
        if waiter in waiters:
            waiters.remove(waiter)
        if timer is not None:
            timer.cancel()


def wake(waiters: Waiters) -> None:
    """Wake all who wait in this list, and empty it."""
    for waiter in waiters:
        if isinstance(waiter, anyio.Event):
            waiter.set()
        elif not waiter.done():
            waiter.set_result(None)
    waiters.clear()


@functools.cache
def _direct_future() -> Callable[..., asyncio.Future[None]]:
    """Return the class, which is made on first use because its base is in asyncio."""

    class DirectFuture(asyncio.Future[None]):
        """A future that can also run its waiter at once, and not in the next turn of the loop."""

        _waiter: tuple[Callable[[object], object], contextvars.Context]

        def add_done_callback(self, fn: Any, /, *, context: Any = None) -> None:
            self._waiter = fn, context
            super().add_done_callback(fn, context=context)

        def run_waiter(self) -> None:
            """Set the result, and run the one waiter until it waits again. Not for callers that are in a task."""
            fn, context = self._waiter
            self.remove_done_callback(fn)
            self.set_result(None)
            context.run(fn, self)

    return DirectFuture


class AsyncioReader:
    """Where the one reader of a pipe waits. The callback of the pipe runs it at once: a turn of the loop costs more."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: AsyncioLoop) -> None:
        self._loop = loop
        self._future: Any = None

    async def wait(self) -> None:
        """Wait until `run` or `wake`."""
        self._future = _direct_future()(loop=self._loop)
        try:
            await self._future
        finally:
            self._future = None

    def run(self) -> None:
        """Run the reader, if any, until it waits again. Only for a callback of the loop, which belongs to no task."""
        if hasattr(self._loop, "_nest_patched"):
            self.wake()  # with nest_asyncio, a handler may run the loop again, and with it this callback
        elif self._future is not None and not self._future.done():
            self._future.run_waiter()

    def wake(self) -> None:
        """Wake the reader in the next turn of the loop."""
        if self._future is not None:
            wake([self._future])


def spawn_detached(function: Callable[[], Returned[None]], *, name: str) -> None:
    """Run an async function as a worker outside of any task group, with the context variables of the caller.

    The worker is cancelled when the loop ends, and may still clean up. Its exceptions are logged.
    """

    async def guarded() -> None:
        try:
            await function()
        except Exception:
            logger.exception("the worker %s failed", name)

    async def guarded_in_trio() -> None:
        try:
            await guarded()
        except* KeyboardInterrupt:  # from a task that a handler or tool started
            signal.raise_signal(signal.SIGINT)  # a system task is protected: the main task is interrupted

    if in_trio():
        lowlevel = sys.modules["trio"].lowlevel
        for marked in _workers:  # only now: trio may be imported after a module that marks its functions
            lowlevel.enable_ki_protection(marked)
        lowlevel.spawn_system_task(guarded_in_trio, name=name, context=contextvars.copy_context())
        return

    async def kept() -> None:
        is_cancelled = False
        try:
            await _first_step()
        except asyncio.CancelledError:
            is_cancelled = True
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it runs in one
        if is_cancelled:
            task.cancel()  # as under trio, the function starts, and is cancelled where it first waits
        _asyncio_workers.add(task)
        try:
            await guarded()
        finally:
            _asyncio_workers.discard(task)  # a callback of the task would take another turn of the loop

    started = kept()
    started.send(None)  # asyncio does not start a task that is cancelled before its first step
    asyncio.get_running_loop().create_task(started, name=name)


async def run_to_its_end(function: Callable[[], Returned[object]], *, name: str, seconds: float = math.inf) -> None:
    """Run an async function to its end, however often the caller is cancelled; then raise the cancellation, if any.

    A cancellation by asyncio itself passes a shield, and a second one reaches what cleans up after the first. So the
    function runs in a worker, which is cancelled after this many seconds.
    """
    waiters: Waiters = []
    failure: Exception | None = None
    is_over = False

    async def work() -> None:
        nonlocal failure, is_over
        try:
            with anyio.move_on_after(seconds):
                await function()
        except Exception as error:
            failure = error
        finally:
            is_over = True
            wake(waiters)

    spawn_detached(work, name=name)
    cancellation: BaseException | None = None
    with anyio.CancelScope(shield=True):
        while not is_over:
            try:
                await wait_in(waiters)
            except anyio.get_cancelled_exc_class() as error:
                cancellation = error
    if cancellation is not None:
        raise cancellation
    if failure is not None:
        raise failure


def call_later(delay: float, function: Callable[[], object]) -> Callable[[], object]:
    """Have this event loop call a function after a delay in seconds. Return a function that cancels the call."""
    loop = asyncio_loop()
    if loop is not None:
        return loop.call_later(delay, function).cancel
    scope = anyio.CancelScope()

    async def wait() -> None:
        with scope:
            await anyio.sleep(delay)
            function()

    spawn_detached(wait, name="call_later")
    return scope.cancel


@types.coroutine
def _first_step() -> Generator[None, None, None]:
    yield


@types.coroutine
def run_until_wait(coroutine: Returned[None], on_wait: Callable[[], object]) -> Generator[object, object, bool]:
    """Await a coroutine in a copy of the context, and return whether it had to wait for anything.

    `on_wait` is called once, when it first has to wait. The coroutine runs in the calling worker, so that cancel scopes
    and timeouts in it are sound.
    """
    context, has_waited = contextvars.copy_context(), False
    step: Callable[[Any], object] = coroutine.send
    value: object = None
    while True:
        try:
            awaited = context.run(step, value)
        except StopIteration:
            return has_waited
        if not has_waited:
            has_waited = True
            on_wait()
        step, value = yield from _wait_for(awaited, coroutine)


@types.coroutine
def contain_cancellation(coroutine: Returned[T]) -> Generator[Any, Any, T]:
    """Await a coroutine that may cancel its own asyncio task: it alone gets the `CancelledError`."""
    worker = None if in_trio() else asyncio.current_task()
    if worker is None:
        answer: T = yield from coroutine
        return answer
    step: Callable[[Any], object] = coroutine.send
    value: Any = None
    while True:
        before = worker.cancelling()
        try:
            awaited = step(value)
        except StopIteration as end:
            yield from _drop_cancellation(worker, before)
            answer = end.value
            return answer
        except BaseException:
            yield from _drop_cancellation(worker, before)
            raise
        if worker.cancelling() > before:
            yield from _drop_cancellation(worker, before)
            step, value = coroutine.throw, asyncio.CancelledError()
        else:
            step, value = yield from _wait_for(awaited, coroutine)


def _wait_for(
    awaited: object, coroutine: Returned[T]
) -> Generator[object, object, tuple[Callable[[Any], object], object]]:
    """Wait for what a coroutine awaits. Return its next step, and with what."""
    try:
        return coroutine.send, (yield awaited)
    except BaseException as error:
        return coroutine.throw, error


def _drop_cancellation(worker: asyncio.Task[Any], before: int) -> Generator[None]:
    """Take back the cancellations that the running worker has asked for itself, if any."""
    if worker.cancelling() <= before:
        return
    while worker.cancelling() > before:
        worker.uncancel()
    try:
        yield  # before Python 3.13, and in a cancelled worker, the next await raises nevertheless
    except asyncio.CancelledError:
        if worker.cancelling() > before:
            raise


def pipe_writer(stream: object) -> PipeWriter | None:
    """Return a writer for the stdin of an anyio process that does not await, or None if the event loop has none.

    anyio lets other workers run at each write, which for an answer costs more than the write.
    """
    writer = getattr(stream, "_stream", None)
    return writer if isinstance(writer, asyncio.StreamWriter) else None


def is_read_to_its_end(stream: object) -> bool:
    """Return whether the output of an anyio process was read to its end, and closed by that. Only asyncio closes it."""
    reader = getattr(stream, "_stream", None)
    return isinstance(reader, asyncio.StreamReader) and reader.at_eof()


def from_any_thread(function: Callable[..., object]) -> Callable[..., object]:
    """Return a callable that has this event loop call a function soon; for any thread, and for finalizers.

    The callable raises RuntimeError once the loop is closed.
    """
    if in_trio():
        return functools.partial(sys.modules["trio"].lowlevel.current_trio_token().run_sync_soon, function)
    return functools.partial(asyncio.get_running_loop().call_soon_threadsafe, function)


class HomeLoop:
    """The event loop that an object is used in, so that calls from other threads can run there."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._call_soon: Callable[[Callable[[], object]], object] | None = None
        self._lock = ThreadLock()

    def enter(self) -> None:
        """Note that the object is used in the running loop."""
        self._call_soon = from_any_thread(lambda function: function())
        self._thread = threading.get_ident()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop and return its value, blocking another thread meanwhile.

        Without a loop that runs, it is called here, but not by two threads at once.
        """
        call_soon = self._call_soon
        if call_soon is None or self._thread == threading.get_ident():
            with self._lock:
                return function()
        done: futures.Future[T] = futures.Future()

        def call() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(function())
                except BaseException as error:
                    done.set_exception(error)

        try:
            call_soon(call)
            while not futures.wait([done], LOOP_CHECK).done:
                call_soon(lambda: None)  # raises once the loop is closed
        except RuntimeError:
            if done.cancel():
                with self._lock:
                    return function()
        return done.result()


class Wakeup:
    """An event that can be set from any thread, finalizers included. Create it inside the event loop."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._set_later = from_any_thread(self._event.set)

    def set(self) -> None:
        """Wake all current and later waiters. Does nothing once the loop is closed."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._set_later()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def is_set(self) -> bool:
        """Whether it has been set."""
        return self._event.is_set()


def clock() -> Callable[[], float]:
    """Return the clock of this event loop; unlike `anyio.current_time`, it does not look up the loop at each call."""
    if in_trio():
        return sys.modules["trio"].current_time  # type: ignore[no-any-return]
    return asyncio.get_running_loop().time


def in_event_loop() -> bool:
    """Return whether the calling thread runs an event loop."""
    if in_trio():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_anywhere(function: Callable[[], Returned[T]]) -> T:
    """Run an async function from synchronous code, inside a running event loop in a thread with its own loop.

    The thread has the context variables of the caller. Ctrl+C cancels the function, and waits for its end.
    """
    if not in_event_loop():
        return anyio.run(function)
    context = contextvars.copy_context()
    cancel: list[Callable[[], object]] = []
    is_left = False

    async def call() -> T:
        own = contextvars.copy_context()  # has what anyio notes about this loop
        for variable, value in context.items():
            if variable not in own:
                variable.set(value)
        with anyio.CancelScope() as scope:
            cancel.append(from_any_thread(scope.cancel))
            if is_left:
                scope.cancel()
            return await function()
        raise asyncio.CancelledError  # nobody reads it

    worker = None if in_trio() else asyncio.current_task()
    cancellations = 0 if worker is None else worker.cancelling()
    thread = futures.ThreadPoolExecutor(1, "claude_agent_py run_sync")
    running = thread.submit(anyio.run, call)
    try:
        while not futures.wait([running], LOOP_CHECK).done:
            if worker is not None and worker.cancelling() > cancellations:
                raise asyncio.CancelledError  # the first Ctrl+C in `asyncio.run`, which this thread keeps from ending
        return running.result()
    finally:
        is_left = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            for each in cancel:
                each()
        thread.shutdown()


def is_cancelled() -> bool:
    """Return whether the calling worker is being cancelled.

    On asyncio a worker also sees `CancelledError` when something that it awaits is cancelled.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    if in_trio():
        return False
    worker = asyncio.current_task()
    return worker is None or worker.cancelling() > 0


async def run_file_work(function: Callable[[*Arguments], T], *args: *Arguments, abandon_on_cancel: bool = False) -> T:
    """Call a function that works on files in a thread, with a separate limit from user functions."""
    limiter = _file_threads.get()
    return await to_thread.run_sync(function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter)
