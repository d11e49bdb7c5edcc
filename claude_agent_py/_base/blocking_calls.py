"""`blocking`: a function that blocks says so when it is called with `await`."""

import functools
import opcode
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_CACHE: Final = opcode.opmap.get("CACHE", 0)
_AWAIT: Final = opcode.opmap.get("GET_AWAITABLE")


def blocking(function: Callable[P, T]) -> Callable[P, T]:
    """Have `await function(...)` raise a TypeError that names the right form, before the function does anything.

    Without it, Python complains about the type of the result, after a change has been made. A result that can be
    awaited would be taken for a coroutine by callers that check.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _is_awaited(sys._getframe(1)):
            name = function.__name__
            raise TypeError(
                f"{name}() is not a coroutine: call it without await, or, so that it does not block the event loop, "
                f"as await anyio.to_thread.run_sync({name}, ...)"
            )
        return function(*args, **kwargs)

    return call


def _is_awaited(frame: FrameType) -> bool:
    """Return whether the caller awaits the result of the call that it is in."""
    code, place = frame.f_code.co_code, frame.f_lasti + 2
    while code[place : place + 1] == bytes([_CACHE]):  # of the call
        place += 2  # pragma: no cover - since Python 3.12
    return place < len(code) and code[place] == _AWAIT
