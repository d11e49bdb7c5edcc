"""Run one tool call within its timeout and concurrency limit, and turn any failure into a result for the model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anyio import get_cancelled_exc_class

from claude_agent_py._callbacks import Report, log_failure, make_handler_error
from claude_agent_py._errors import ToolError
from claude_agent_py.formatting.encoders import Encoder
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import Tool
from claude_agent_py.tools.failures import failure_text
from claude_agent_py.tools.results import ToolResult, WrittenResult, as_result, encode_result


@dataclass(frozen=True, kw_only=True)
class ToolOutcome:
    """The outcome of a call: its value or error, and the result for the model."""

    result: WrittenResult
    value: Any = None
    """The return value of the function."""
    error: Exception | None = None
    """The exception of the function, or an error in the call itself."""


async def run_tool(
    tool: Tool[..., Any],
    arguments: Mapping[str, Any],
    context: ToolContext,
    *,
    encoder: Encoder | None = None,
    timeout: float | None = None,
    report: Report | None = None,
) -> ToolOutcome:
    """Run a call and return its outcome. Raises only on cancellation.

    `timeout`, in seconds, applies to tools without their own. Exceptions other than `ToolError` go to `report`, which
    must not raise; without one they are logged with their traceback.
    """
    try:
        value = await tool.call(arguments, context, default_timeout=timeout)
        result = as_result(value)
        if tool.structured and not isinstance(value, ToolResult):
            result = replace(result, structured=result.text)
        encoded = await encode_result(result, encoder or tool.encoder, tool.size_limit)
    except ToolError as error:
        return build_failure(tool.name, error)
    except BaseException as error:
        (report or log_failure)(make_handler_error(f"tool {tool.name}", error))
        return build_failure(tool.name, error)
    return ToolOutcome(result=encoded, value=value)


def build_failure(tool: str, error: BaseException) -> ToolOutcome:
    """Return the outcome of a failed call."""
    if not isinstance(error, Exception):
        cancelled_itself = isinstance(error, get_cancelled_exc_class())
        error = ToolError(f"{tool} cancelled itself" if cancelled_itself else f"{tool} tried to exit the program")
    return ToolOutcome(result=WrittenResult(text=failure_text(tool, error), is_error=True), error=error)
