"""Calling user functions: handlers, listeners and tools.

Async functions are awaited; plain functions run in worker threads, but plain listeners, which are told and do not
answer, in the event loop, so that they may use its objects. Their exceptions become `HandlerError`, except for
the program's own cancellation and KeyboardInterrupt.
"""

import functools
import inspect
import math
import re
import time
from collections.abc import Awaitable, Callable
from types import BuiltinMethodType, MethodType
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread

from claude_agent_py._base.cancellation import Cancellation
from claude_agent_py._base.errors import HandlerError, OptionsError
from claude_agent_py._base.event_loop import PerLoop, in_event_loop, is_cancelled
from claude_agent_py._base.log import logger

Answer = TypeVar("Answer")

Report = Callable[[HandlerError], object]
"""Called with the error of a failed function, whose `__cause__` is the exception, if any. Must not raise."""

THREADS: Final = 40
"""How many calls of one plain function may run concurrently in an event loop; others wait."""

PATIENCE: Final = 1.0
"""After how many seconds of waiting for a thread a warning is logged."""

_threads: "PerLoop[WeakKeyDictionary[Callback, anyio.CapacityLimiter]]" = PerLoop(WeakKeyDictionary)
_unlimited = PerLoop(lambda: anyio.CapacityLimiter(math.inf))


GENERATOR: Final = "must not be a generator function: calling one does nothing"


class DeadlineExpiredError(Exception):
    """A function did not finish in time. `__cause__` is the exception that it raised, if any."""


class Callback:
    """A user function, inspected once and called any number of times.

    Each has its own thread limit, so that a blocking listener or tool cannot delay a permission handler.

    Raises:
        OptionsError: It is a generator function, whose calls do nothing.
    """

    __slots__ = ("__weakref__", "_running", "call", "function", "name")

    def __init__(self, function: Callable[..., Any], *, name: str | None = None) -> None:
        self.function: Callable[..., Any] = function
        self.name: str = callback_name(function) if name is None else name
        if is_generator_callable(function):
            raise OptionsError(GENERATOR, option=self.name)
        self.call: Callable[..., Awaitable[Any]] = function if is_async_callable(function) else self._in_thread
        """Calls the function and passes on its exceptions."""
        self._running: dict[object, float] = {}
        """When each call that holds a thread began."""

    @property
    def is_plain(self) -> bool:
        """Whether it runs in a thread."""
        return self.call is not self.function

    async def call_within(
        self, timeout: float | None, cancellation: Cancellation | None, /, *args: object, **keywords: object
    ) -> object:
        """Call the function with a time limit in seconds. A plain function that is late runs on; its result is dropped.

        Raises:
            DeadlineExpiredError: The function did not finish in time. `cancellation` is set, so that a plain function
                can notice.
            BaseException: Whatever the function raised.
        """
        if timeout is None:
            return await self.call(*args, **keywords)
        value = failure = None
        scope = anyio.CancelScope(deadline=anyio.current_time() + timeout)
        try:
            with scope:
                value = await self.call(*args, **keywords)
        except BaseException as error:
            if is_not_the_functions(error) or not _is_late(scope):
                raise
            failure = error
        if _is_late(scope):
            if cancellation is not None:
                cancellation.set()
            raise DeadlineExpiredError from failure
        return value

    async def call_and_read(
        self,
        *args: object,
        read: Callable[[Any], Answer],
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Answer:
        """Call the function and read its return value, within a time limit.

        Args:
            args: The arguments of the function.
            read: Converts the return value to the answer, or raises ValueError if it is invalid.
            timeout: In seconds; None means no limit.
            cancellation: Set when the time limit expires.

        Raises:
            HandlerError: The function raised, was too slow, or returned an invalid value. The exception, if any, is its
                `__cause__`. A cancellation of the caller propagates unchanged.
        """
        try:
            if timeout is None:
                value = await self.call(*args)
            else:
                value = await self.call_within(timeout, cancellation, *args)
        except DeadlineExpiredError as late:
            raise HandlerError(self.name, f"it did not answer within {timeout:g} s") from late.__cause__
        except BaseException as error:
            raise make_handler_error(self.name, error) from error
        try:
            return read(value)
        except BaseException as error:  # ValueError, or an exception of a user-defined object
            if is_not_the_functions(error):
                raise
            text = error_text(error) if isinstance(error, ValueError) else ""
            why = text or f"reading it raised {type(error).__name__}"
            raise HandlerError(self.name, f"it returned an invalid answer: {why}") from error

    async def tell(self, report: Report, *args: object) -> None:
        """Call a listener in the event loop, and await what it returns if that is awaitable.

        Its value is ignored. An error goes to `report`, with its text: no model reads it.
        """
        try:
            value = self.function(*args)
            if inspect.isawaitable(value):
                await value
        except BaseException as error:
            report(make_handler_error(self.name, error, with_text=True))

    # Threads -----------------------------------------------------------------------------------------------------

    async def _in_thread(self, /, *args: object, **keywords: object) -> object:
        """Call a plain function in a worker thread, with the context variables of the caller.

        Cancelling abandons the thread: it runs to its end, and its result is dropped. If the function returns an
        awaitable, as a lambda around an async function does, it is awaited here.
        """

        def call() -> tuple[object, BaseException | None]:
            try:  # a value, as GeneratorExit out of a thread would close the coroutine on asyncio, with its answer
                return self.function(*args, **keywords), None
            except BaseException as error:
                return None, error

        limiter, ticket = self._limiter(), object()
        try:
            limiter.acquire_on_behalf_of_nowait(ticket)
        except anyio.WouldBlock:
            await self._wait_for_thread(limiter, ticket)
        self._running[ticket] = time.monotonic()
        try:
            value, raised = await to_thread.run_sync(call, abandon_on_cancel=True, limiter=_unlimited.get())
        finally:
            del self._running[ticket]
            limiter.release_on_behalf_of(ticket)
        if raised is not None:
            try:
                raise raised
            finally:
                del raised  # which refers to this frame
        return await value if inspect.isawaitable(value) else value

    async def _wait_for_thread(self, limiter: "anyio.CapacityLimiter", ticket: object) -> None:
        with anyio.move_on_after(PATIENCE) as patience:
            await limiter.acquire_on_behalf_of(ticket)
        if not patience.cancelled_caught:
            return
        began = list(self._running.values())
        logger.warning(
            "%s blocks: %d calls of it are running, the longest for %.1f s; further calls wait until one ends",
            self.name,
            len(began),
            time.monotonic() - min(began, default=time.monotonic()),
        )
        await limiter.acquire_on_behalf_of(ticket)

    def _limiter(self) -> "anyio.CapacityLimiter":
        limiters = _threads.get()
        limiter = limiters.get(self)
        if limiter is None:
            limiter = limiters[self] = anyio.CapacityLimiter(THREADS)
        return limiter


def _is_late(scope: anyio.CancelScope) -> bool:
    """Return whether the deadline has passed, even if the function blocked the loop, which could not cancel it."""
    return scope.cancel_called or anyio.current_time() >= scope.deadline


# Failures --------------------------------------------------------------------------------------------------------


def make_handler_error(name: str, error: BaseException, *, with_text: bool = False) -> HandlerError:
    """Return the `HandlerError` for a caught exception of a user function, which becomes its cause.

    Without `with_text` it names only the type: the text may hold secrets, and a model may read it.

    Raises:
        BaseException: The exception itself, if it is a cancellation of the program or KeyboardInterrupt.
    """
    if is_not_the_functions(error):
        raise error
    raised = f"it raised {type(error).__name__}"
    failure = HandlerError(name, f"{raised}: {error_text(error)}" if with_text else raised)
    failure.__cause__ = error
    return failure


async def answer_or_refuse(
    call: Awaitable[Answer], refuse: Callable[[HandlerError], Answer], report: Report, *, name: str = ""
) -> tuple[Answer, HandlerError | None]:
    """Await what a user function answers. If it fails, report that; return the refusal and the failure.

    `name` is that of the function if `call` raises its exceptions, and not only a `HandlerError`.
    """
    try:
        return await call, None
    except BaseException as error:
        failure = make_handler_error(name, error) if name else error
        if not isinstance(failure, HandlerError):
            raise
        report(failure)
        return refuse(failure), failure


def is_not_the_functions(error: BaseException) -> bool:
    """Return whether an exception out of a user function is the program's own cancellation or KeyboardInterrupt."""
    if isinstance(error, Exception):
        return False
    if isinstance(error, BaseExceptionGroup):
        return any(is_not_the_functions(inner) for inner in error.exceptions)
    if not in_event_loop():
        return True  # the loop is gone, and Python closes the coroutine that it left behind
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return is_cancelled()
    return isinstance(error, KeyboardInterrupt)


def error_text(error: BaseException) -> str:
    """Return the text of an exception; empty if its class cannot tell."""
    try:
        return str.__str__(str(error))  # not of a class derived from str
    except BaseException as failure:
        if is_not_the_functions(failure):
            raise
        return ""


def log_failure(error: HandlerError) -> None:
    """Log a failure, with its traceback."""
    logger.error("%s", error, exc_info=error.__cause__)


# Looking at functions --------------------------------------------------------------------------------------------


def is_async_callable(function: Callable[..., object]) -> bool:
    """Return whether a callable is a coroutine function, or an object whose `__call__` is one."""
    return any(map(inspect.iscoroutinefunction, _find_functions(function)))


def is_generator_callable(function: Callable[..., object]) -> bool:
    """Return whether a callable is a plain or async generator function, or an object whose `__call__` is one."""
    found = _find_functions(function)
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in found)


def _find_functions(function: Callable[..., object]) -> tuple[object, object]:
    """Return a function without its partials, and its `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, getattr(function, "__call__", None)  # noqa: B004 - asked for the method, not whether it is callable


def is_same_function(one: object, other: object) -> bool:
    """Return whether two callables are the same object, or the same method of one object. `==` is up to the user."""
    if isinstance(one, MethodType) and isinstance(other, MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other or (isinstance(one, BuiltinMethodType) and one == other)


def callback_name(function: Callable[..., object]) -> str:
    """Return the name of a user function for logs and errors."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        return type(function).__name__
    is_ours = str(getattr(function, "__module__", None)).startswith("claude_agent_py.")
    return name.partition(".<locals>")[0] if is_ours else name  # `deny_tools` instead of `deny_tools.<locals>.policy`


def takes_arguments(function: Callable[..., object], count: int) -> bool:
    """Return whether a function accepts `count` positional arguments; True if its signature is unknown."""
    signature = _read_signature(function)
    if signature is None:
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def check_two_arguments(function: Callable[..., object], expected: str, *, port: str) -> None:
    """Raise ValueError if a function cannot be a handler of two arguments.

    Accepting two arguments is not enough: a callback `(tool_name, tool_input, context=None)` of the official SDK does,
    compares our request with a tool's name, and allows what it would have denied.

    Args:
        function: The handler.
        expected: The arguments, for the error.
        port: How to change a callback of the official SDK, for the error.
    """
    signature = _read_signature(function)
    if signature is None:
        return
    positional = [each for each in signature.parameters.values() if each.kind in _POSITIONAL]
    problem = _find_official_parameter(positional)
    if problem is None and len(positional) > 2:
        problem = f"{positional[2].name!r} would never get a value (make it keyword-only if it has a default)"
    if problem is not None:
        raise ValueError(f"{callback_name(function)} must take two arguments: {expected}, but {problem}. {port}")
    if not takes_arguments(function, 2):
        raise ValueError(f"{callback_name(function)} must take two arguments: {expected}")


PORT_PERMISSIONS: Final = (
    "To port a callback (tool_name, tool_input, context) of the official SDK, take (request, context) and read "
    "request.tool_name and request.raw_input"
)
"""How to port a permission callback."""


def _find_official_parameter(positional: list[inspect.Parameter]) -> str | None:
    """Return a text about the first parameter that expects a value of the official SDK."""
    for position, parameter in enumerate(positional[:2]):
        bare = parameter.name.replace("_", "").lower()
        if bare in _OFFICIAL_NAMES or (position == 1 and bare in _OFFICIAL_SECOND_NAMES):
            return f"{parameter.name!r} is a parameter of the official SDK's callbacks"
        annotation = _annotation_text(parameter)
        if _ANNOTATED_AS_OFFICIAL.match(annotation):
            return f"{parameter.name!r} is annotated as {annotation}, which it never gets"
    return None


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_OFFICIAL_NAMES: Final = frozenset({"toolname", "toolinput", "tooluseid"})
_OFFICIAL_SECOND_NAMES: Final = frozenset({"input", "inputdata"})
_ANNOTATED_AS_OFFICIAL: Final = re.compile(r"(typing\.)?(Optional\[)?(str|dict|Dict|Mapping)\b")


def _annotation_text(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return ""
    return annotation.__name__ if isinstance(annotation, type) and annotation in (str, dict) else str(annotation)


def _read_signature(function: Callable[..., object]) -> inspect.Signature | None:
    """Return the signature of a callable itself, not of a function that it wraps; None if it is unknown.

    A wrapper that passes on any arguments has the signature of the function that it wraps.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
        passes_on = any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())
        return inspect.signature(function) if passes_on else signature
    except (TypeError, ValueError):  # some functions written in C have no signature
        return None
