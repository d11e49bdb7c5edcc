"""The loop around a model: call it, run the requested tools, send the results, and call it again."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py._callbacks import Callback
from claude_agent_py.tools.call_results import ToolChainResult
from claude_agent_py.tools.calls import ToolCall, get_stop_reason, is_call, join_text, normalize_content
from claude_agent_py.wire.base import JSONObject

CallModel: TypeAlias = Callable[[list[Any]], Any]
"""Calls a model with messages in the form of the Messages API and returns its answer, or an awaitable of it."""


@dataclass(frozen=True, kw_only=True)
class LoopStep:
    """One call of the model, and the tool calls that it requested."""

    number: int
    """Counts from 1."""
    response: Any = field(repr=False)
    """The return value of `call_model`."""
    text: str
    """The text of the answer."""
    result: ToolChainResult | None = None
    """The results of the tool calls; None if the answer has no calls."""
    messages: Sequence[JSONObject] = field(default=(), repr=False)
    """The messages that the step adds: the model's answer and the results."""


BLOCKS_IN_RESULTS: Final = 6
"""The nesting depth of a result's content in a list of messages."""

StopWhen: TypeAlias = Callable[[LoopStep], bool | Awaitable[bool]]
"""Returns whether to stop after a step."""


@dataclass(frozen=True, kw_only=True)
class LoopResult:
    """How a loop ended."""

    ended: Literal["answered", "stopped", "max_steps"]
    """`answered`: the model called no tool. `stopped`: `stop_when` returned true. `max_steps`: the limit was
    reached."""
    steps: Sequence[LoopStep]
    """The steps, in order; at least one."""
    messages: Sequence[JSONObject] = field(repr=False)
    """The whole conversation, in the form of the Messages API."""

    @property
    def text(self) -> str:
        """The text of the last answer."""
        return self.steps[-1].text

    @property
    def response(self) -> Any:
        """The last response of the model, for example for its `stop_reason`."""
        return self.steps[-1].response


async def take_step(
    execute: Callable[[Any], Awaitable[ToolChainResult]], model: Callback, messages: list[JSONObject], number: int
) -> LoopStep:
    """Call the model, and run the tools that it calls."""
    response = await model.call(_copy_messages(messages))
    content = [_ensure_id(block) for block in normalize_content(response)]
    result = await execute({"content": content, "stop_reason": get_stop_reason(response)})
    answer = [block for block in map(_prepare_block, content) if block is not None]
    added: list[JSONObject] = [{"role": "assistant", "content": answer}] if answer else []
    if result.raw:
        added.append(result.to_api_message())
    return LoopStep(
        number=number,
        response=response,
        text=join_text(content),
        result=result if result.raw else None,
        messages=added,
    )


def _copy_messages(value: Any, depth: int = BLOCKS_IN_RESULTS) -> Any:
    """Copy messages, so that the user's function may change blocks, for example add `cache_control`."""
    if depth and isinstance(value, dict):
        return {name: _copy_messages(item, depth - 1) for name, item in value.items()}
    return [_copy_messages(item, depth - 1) for item in value] if depth and isinstance(value, list) else value


def _ensure_id(block: JSONObject | ToolCall) -> JSONObject | ToolCall:
    """Return a call in the form of the API, with an id to match its result. Other blocks stay unchanged."""
    if isinstance(block, ToolCall):
        return block if block.id else replace(block, id=_new_id())
    if not is_call(block) or (block.get("type") and block.get("id")):
        return block
    given = block.get("input", block.get("arguments"))
    known = {"type": "tool_use", "id": block.get("id") or _new_id(), "name": block["name"]}
    return known | {"input": {} if given is None else given}


def _new_id() -> str:
    return f"toolu_{secrets.token_hex(12)}"


def _prepare_block(block: JSONObject | ToolCall) -> JSONObject | None:
    """Return a block of an answer for the next request, or None for an empty text, which the API refuses."""
    if isinstance(block, ToolCall):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
    return None if block.get("type") == "text" and not str(block.get("text") or "").strip() else block


def is_answer(step: LoopStep) -> bool:
    """Return whether a step has no calls. A long turn that the API paused continues with the next request."""
    return step.result is None and get_stop_reason(step.response) != "pause_turn"
