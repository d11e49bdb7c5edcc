"""Running a tool once: its limits, and what becomes of its failure.

Owns the time limit, the concurrency limit and the boundary that no exception of a tool passes: whatever happens, there
is an outcome to tell the model. Knows neither MCP nor formats.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter, get_cancelled_exc_class, move_on_after
from anyio.lowlevel import RunVar

from claude_agent_py.callbacks import call
from claude_agent_py.errors import HandlerError, ToolError, ToolTimeoutError
from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.guarding import is_cancelled
from claude_agent_py.tools.failures import failure_text
from claude_agent_py.tools.results import ToolResult, WrittenResult, as_result, written

if TYPE_CHECKING:
    from claude_agent_py.tools.context import ToolContext
    from claude_agent_py.tools.definition import Tool

_NO_FAILURES = (KeyboardInterrupt, GeneratorExit, BaseExceptionGroup)
"""What a tool may raise beside cancellation that is not about the tool. (A group that is no `Exception` may hold
any of these.)"""

Report: TypeAlias = Callable[[HandlerError], object]
"""Is told of a tool that failed and did not mean to; the exception is the error's `__cause__`."""

logger = logging.getLogger("claude_agent_py.tools")

_limiters: "RunVar[WeakKeyDictionary[Tool[..., Any], CapacityLimiter]]" = RunVar("tool_limiters")
"""One limiter per tool and event loop: a limiter belongs to the loop that it was made in."""


@dataclass(frozen=True, kw_only=True)
class ToolOutcome:
    """What a call came to: a value or an error, and what the model is told of it."""

    told: WrittenResult
    value: Any = None
    """What the function returned."""
    error: Exception | None = None
    """What it raised, or what was wrong with the call."""


async def run(
    tool: "Tool[..., Any]", arguments: Mapping[str, Any], context: "ToolContext", timeout: float | None
) -> Any:
    """Check the arguments and call the function of a tool within its limits. The time limit starts with the call.

    Raises ToolInputError, ToolTimeoutError, or whatever the function raised.
    """
    positional, keywords = tool.parameters.bind(arguments, context)
    async with _turn(tool):
        with move_on_after(timeout) as scope:
            return await call(tool.function, *positional, **keywords)
    if scope.cancelled_caught and timeout is not None:
        context.cancellation.set()  # for a plain function, which runs on in its thread
        raise ToolTimeoutError(tool.name, timeout)
    return None  # unreachable: the scope was left by a return, an exception or its deadline


def _turn(tool: "Tool[..., Any]") -> AbstractAsyncContextManager[Any]:
    """Give what holds a call back while as many others as allowed are running."""
    if tool.max_concurrency is None:
        return nullcontext()
    limiters = _limiters.get(None)
    if limiters is None:
        limiters = WeakKeyDictionary()
        _limiters.set(limiters)
    return limiters.setdefault(tool, CapacityLimiter(tool.max_concurrency))


async def outcome_of(
    tool: "Tool[..., Any]",
    arguments: Mapping[str, Any],
    context: "ToolContext",
    *,
    encoder: Encoder | None = None,
    timeout: float | None = None,
    report: Report | None = None,
) -> ToolOutcome:
    """Run a call and give what it came to. Raises nothing but cancellation.

    `timeout` is the limit, in seconds, of a tool that has none of its own. What was not raised on purpose (with
    `ToolError`) goes to `report`, which must not raise; without one, it is logged once, with its traceback.
    """
    try:
        value = await _uncancelled(tool, arguments, context, timeout if tool.timeout is None else tool.timeout)
        result = as_result(value)
        if tool.structured and not isinstance(value, ToolResult):
            result = replace(result, structured=result.text)
        told = await written(result, encoder or tool.encoder, tool.size_limit)
    except ToolError as error:
        return failed(tool.name, error)
    except BaseException as error:
        if not isinstance(error, Exception) and isinstance(error, (*_NO_FAILURES, get_cancelled_exc_class())):
            raise
        (report or log_failure)(_reported(tool, error))
        return failed(
            tool.name, error if isinstance(error, Exception) else ToolError(f"{tool.name} tried to end the program")
        )
    return ToolOutcome(told=told, value=value)


def _reported(tool: "Tool[..., Any]", error: BaseException) -> HandlerError:
    reported = HandlerError(f"tool {tool.name}", f"it raised {type(error).__name__}")
    reported.__cause__ = error
    return reported


def log_failure(error: HandlerError) -> None:
    """Log a failure, with its traceback."""
    logger.error("%s", error, exc_info=error.__cause__)


def failed(tool: str, error: Exception) -> ToolOutcome:
    """Give the outcome of a call that failed."""
    return ToolOutcome(told=WrittenResult(text=failure_text(tool, error), is_error=True), error=error)


async def _uncancelled(
    tool: "Tool[..., Any]", arguments: Mapping[str, Any], context: "ToolContext", timeout: float | None
) -> Any:
    """Run it; a cancellation that nobody asked for (of a tool that awaits a cancelled future) is its failure."""
    try:
        return await run(tool, arguments, context, timeout)
    except get_cancelled_exc_class():
        if is_cancelled():
            raise
        raise ToolError(f"{tool.name} was cancelled from within") from None
