"""Calling user functions: handlers, which answer, and listeners, which are told.

Owns the one rule that they share: an `async` function is awaited, a plain one runs in a worker thread, so that it
blocks neither the event loop nor the pump. What an exception means is the caller's business.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from anyio import to_thread


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Tell whether calling gives an awaitable: a coroutine function, or an object whose `__call__` is one."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asked for the method, not whether it is callable
    )


def callback_name(function: Callable[..., Any]) -> str:
    """Name a user function for logs and errors."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__name__


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a user function and give what it returns.

    A plain function runs in a worker thread, with the context variables of the caller. Cancelling abandons the thread:
    it runs to its end, and its result is dropped. A plain function that returns an awaitable (a lambda around an async
    function, say) has it awaited here.
    """
    if is_async_callable(function):
        return await function(*args, **kwargs)

    def boxed() -> list[Any]:
        return [function(*args, **kwargs)]  # trio refuses a bare coroutine as the result of a thread

    [value] = await to_thread.run_sync(boxed, abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value
