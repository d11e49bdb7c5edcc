"""Running a handler whose failure must not go unnoticed.

Owns one promise: whatever a handler does, there is an outcome in time. Either the value that it returned, read by the
caller's own rules, or a `HandlerError` that says in which of the three ways it failed: it raised, it was too slow, or
it returned what is no answer. What the failure means (deny, ignore) is the caller's business, as is reporting it.
"""

import asyncio
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from claude_agent_py.callbacks import call, callback_name
from claude_agent_py.errors import HandlerError
from claude_agent_py.protocol.handlers import Cancellation

Answer = TypeVar("Answer")


async def answer_of(
    handler: Callable[..., Any],
    *args: Any,
    read: Callable[[Any], Answer],
    timeout: float | None = None,
    cancellation: Cancellation | None = None,
) -> Answer:
    """Call a handler and read what it returns.

    Args:
        handler: An async function, or a plain one, which runs in a worker thread.
        args: What it is called with.
        read: Makes the answer of the returned value, or raises ValueError where it is none.
        timeout: In seconds; None sets no limit. A plain function that is too slow runs on; its result is dropped.
        cancellation: Set when the time is over, so that a plain function can notice.

    Raises:
        HandlerError: It failed; the exception, where there is one, is its `__cause__`. A cancellation of the caller is
            no failure and goes through.
    """
    value: Any = None
    with anyio.move_on_after(timeout) as scope:
        value = await _outcome(handler, args)
    if scope.cancelled_caught:
        if cancellation is not None:
            cancellation.set()
        raise HandlerError(callback_name(handler), f"it did not answer within {timeout:g} s")
    try:
        return read(value)
    except ValueError as error:
        raise HandlerError(callback_name(handler), f"what it returned is no answer: {error}") from error


async def _outcome(handler: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return await call(handler, *args)
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        # asyncio raises the same when something that the handler awaited was cancelled by someone else
        raise _raised(handler, error) from error
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # who asks must get an answer, even where the handler wants to end it all
        if isinstance(error, BaseExceptionGroup) and error.subgroup(_not_the_handlers):
            raise
        raise _raised(handler, error) from error


def _raised(handler: Callable[..., Any], error: BaseException) -> HandlerError:
    return HandlerError(callback_name(handler), f"it raised {type(error).__name__}")


def _not_the_handlers(error: BaseException) -> bool:
    """Tell whether an exception is the program's own end, or the cancellation of whoever asked."""
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return is_cancelled()
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def is_cancelled() -> bool:
    """Tell whether the calling worker itself is being cancelled. Under trio nothing else can have raised it."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return True
    worker = asyncio.current_task()
    return worker is None or worker.cancelling() > 0


def takes_arguments(function: Callable[..., Any], count: int) -> bool:
    """Tell whether a function can be called with so many positional arguments; yes where it cannot be known."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        return True
    return True
