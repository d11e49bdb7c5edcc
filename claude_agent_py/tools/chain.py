"""`ToolChain`: run tool calls without the CLI and format the results for the model."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

import anyio

from claude_agent_py._base.callbacks import Callback, is_not_the_functions
from claude_agent_py._base.errors import OptionsError, ToolError, ToolInputError, UnknownToolError
from claude_agent_py._base.event_loop import run_anywhere
from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.markdown import MarkdownFormat
from claude_agent_py.formatting.media import Media
from claude_agent_py.formatting.sections import check_name
from claude_agent_py.formatting.text_format import TextFormat
from claude_agent_py.tools.calls import (
    LooseCalls,
    ToolCall,
    find_similar_names,
    get_stop_reason,
    get_stop_sequence,
    is_call,
    join_text,
    normalize_content,
    read_calls,
    shorten_repr,
)
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import Tool, as_tool, build_failure, run_tool
from claude_agent_py.tools.results import ToolCallResult, ToolChainResult, ToolOutcome, ToolResult
from claude_agent_py.wire.base import JSONObject

CallModel: TypeAlias = Callable[[list[Any]], object]
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
    ended = {"stop_reason": get_stop_reason(response), "stop_sequence": get_stop_sequence(response)}
    result = await execute({"content": content, **ended})
    if not any(map(is_call, content)):
        # Calls in text: the API knows no blocks with the ids that the model gave them.
        result = replace(result, raw=tuple(replace(call, tool_use_id=None) for call in result.raw))
    answer = [block for block in map(_prepare_block, content) if block is not None]
    added: list[JSONObject] = []
    if answer:
        added.append({"role": "assistant", "content": answer})
    if result.raw:
        added.append(result.to_api_message())
    return LoopStep(
        number=number,
        response=response,
        text=join_text(content),
        result=result if result.raw else None,
        messages=added,
    )


def _copy_messages(value: object, depth: int = BLOCKS_IN_RESULTS) -> object:
    """Copy messages, so that the user's function may change blocks, for example add `cache_control`."""
    if depth and isinstance(value, dict):
        return {name: _copy_messages(item, depth - 1) for name, item in value.items()}
    if depth and isinstance(value, list):
        return [_copy_messages(item, depth - 1) for item in value]
    return value


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
    is_empty_text = block.get("type") == "text" and not str(block.get("text") or "").strip()
    return None if is_empty_text else block


def is_answer(step: LoopStep) -> bool:
    """Return whether a step has no calls. A long turn that the API paused continues with the next request."""
    return step.result is None and get_stop_reason(step.response) != "pause_turn"


MediaTransform: TypeAlias = Callable[[Media], Media | Awaitable[Media | None] | None]
"""Changes media before the model sees it, for example to shrink a large image. Returning None drops it."""

MAX_CONCURRENCY: Final = 10
"""The default maximum number of concurrent read-only calls. The CLI has the same limit."""


class ToolChain:
    """Runs tool calls and formats their results.

    Args:
        tools: Tools, or functions that become tools.
        encoder: Encodes results and decodes arguments in text; None uses each tool's own encoder.
        text_format: The default format of `execute`.
        media_transform: An async or plain function that changes media.
        timeout: Time limit in seconds for tools without their own; None means no limit.
        max_concurrency: Maximum number of concurrent read-only calls; None means no limit.

    Raises:
        OptionsError: Two tools have the same name, or `max_concurrency` is less than 1.
    """

    def __init__(
        self,
        tools: Iterable[Callable[..., object]],
        *,
        encoder: Encoder | None = None,
        text_format: TextFormat | None = None,
        media_transform: MediaTransform | None = None,
        timeout: float | None = None,
        max_concurrency: int | None = MAX_CONCURRENCY,
    ) -> None:
        if max_concurrency is not None and max_concurrency < 1:
            raise OptionsError(f"max_concurrency must be at least 1, not {max_concurrency}", option="ToolChain")
        self._tools: dict[str, Tool] = {}
        for made in map(as_tool, tools):
            if made.name in self._tools:
                raise OptionsError(f"two tools are named {made.name!r}", option="ToolChain")
            self._tools[made.name] = made
        self._encoder = encoder
        self._text_format = text_format
        self._media_transform = None if media_transform is None else Callback(media_transform)
        self._timeout = timeout
        self._max_concurrency = max_concurrency

    def __repr__(self) -> str:
        return f"<ToolChain {', '.join(self._tools)}>"

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order."""
        return tuple(self._tools.values())

    def definitions(self) -> list[Any]:
        """Return the tools in the form of the Messages API (`tools=`), as dicts."""
        return [
            {"name": item.name, "description": item.description, "input_schema": item.input_schema}
            for item in self._tools.values()
        ]

    def describe(self, text_format: TextFormat | None = None) -> str:
        """Return instructions for a model that calls tools in text.

        Raises:
            TypeError: Neither the call nor the chain has a format.
        """
        chosen = self._choose_format(text_format)
        if chosen is None:
            raise TypeError("a text format is required, such as XMLFormat(wrapper='observation') or MarkdownFormat()")
        encoder = self._encoder or JSONEncoder()
        lines = [
            "To call a tool, write a section with the name of the tool and its arguments as content, like this:",
            "",
            chosen.format_section(next(iter(self._tools), "tool"), encoder.encode({"argument": "value"})),
            "",
            "Tools:",
        ]
        for item in self._tools.values():
            lines += [f"- {item.name}: {item.description}", f"  arguments: {encoder.encode(item.input_schema)}"]
        return "\n".join(lines)

    # One step ----------------------------------------------------------------------------------------------------

    async def execute(self, calls: LooseCalls, text_format: TextFormat | None = None) -> ToolChainResult:
        """Run the calls and format the results.

        The calls run in order. Consecutive calls of `read_only` tools run concurrently, up to `max_concurrency`. A
        failing call, or a call of an unknown tool, becomes an error in the result, not an exception, and the later
        calls still run. Cancelling cancels the running calls; the others do not start.

        Args:
            calls: An answer of the model: text, a list of content blocks (objects or dicts), an `AssistantMessage`, or
                a response of the Messages API; or calls, as `ToolUseBlock`s, `ToolCall`s, or dicts with `name` and
                `input`. If there are `tool_use` blocks, they are the calls. Otherwise the text is read: as a JSON or
                YAML list of calls, or if it is none, as sections named after the tools.
            text_format: The format of the sections. If neither the call nor the chain has one, results are written as
                Markdown.

        Raises:
            TypeError: The calls are a string that needs a format, and neither the call nor the chain has one; or an
                item is not a call.
            ImportError: The text is a YAML list, and PyYAML is not installed.
        """
        chosen = self._choose_format(text_format)
        names = {name: bool(tool.annotations.read_only) for name, tool in self._tools.items()}
        wanted = read_calls(calls, chosen, self._encoder or JSONEncoder(), names)
        raw = [result for together in self._batches(wanted) for result in await self._run_together(together)]
        return ToolChainResult(
            text=(chosen or MarkdownFormat()).format_sections(
                [(_choose_section_name(result.name), result.as_text()) for result in raw]
            ),
            media=tuple(medium for result in raw if result.error is None for medium in result.told.media),
            raw=tuple(raw),
        )

    def _choose_format(self, text_format: TextFormat | None) -> TextFormat | None:
        chosen = text_format if text_format is not None else self._text_format
        if chosen is not None and not isinstance(chosen, TextFormat):
            raise TypeError(f"a text format is required, such as MarkdownFormat(), not {chosen!r}")
        return chosen

    def _batches(self, calls: Iterable[ToolCall]) -> Iterator[list[ToolCall]]:
        """Yield groups of calls that run concurrently, in order."""
        for is_read_only, group in groupby(calls, key=self._is_read_only):
            batch = list(group)
            yield from [batch] if is_read_only else [[call] for call in batch]

    def _is_read_only(self, call: ToolCall) -> bool:
        called = self._tools.get(call.name)
        return called is not None and bool(called.annotations.read_only)

    async def _run_together(self, calls: Sequence[ToolCall]) -> list[ToolCallResult]:
        if len(calls) == 1:
            return [await self._run(calls[0])]
        limiter = anyio.CapacityLimiter(self._max_concurrency or len(calls))
        results: dict[int, ToolCallResult] = {}

        async def keep(index: int, call: ToolCall) -> None:
            async with limiter:
                results[index] = await self._run(call)

        async with anyio.create_task_group() as workers:
            for index, call in enumerate(calls):
                workers.start_soon(keep, index, call)
        return [results[index] for index in range(len(calls))]

    async def _run(self, call: ToolCall) -> ToolCallResult:
        begun = anyio.current_time()
        outcome = await self._call_tool(call)
        value = outcome.value
        if outcome.is_error and outcome.error is None:
            error = ToolError(outcome.text if outcome.text.strip() else f"{call.name} failed")
            outcome = replace(outcome, text=str(error), error=error)
        return ToolCallResult(
            name=call.name,
            tool_use_id=call.id,
            input=call.input,
            output=value.text if isinstance(value, ToolResult) else value,
            error=outcome.error,
            duration=anyio.current_time() - begun,
            told=outcome,
        )

    async def _call_tool(self, call: ToolCall) -> ToolOutcome:
        called = self._tools.get(call.name)
        if call.problem:
            return build_failure(call.name, ToolError(call.problem))
        if called is None:
            return build_failure(
                call.name, UnknownToolError(call.name, list(self._tools), find_similar_names(call.name, self._tools))
            )
        if not isinstance(call.input, Mapping):
            problem = f"must be an object, not {shorten_repr(call.input)}"
            return build_failure(call.name, ToolInputError(call.name, [("", problem)]))
        context = ToolContext(request_id=call.id or "", tool_name=called.name, tool_use_id=call.id)
        try:
            outcome = await run_tool(called, call.input, context, encoder=self._encoder, timeout=self._timeout)
        except BaseException:
            # A plain function in its thread cannot be cancelled, only notified.
            context.cancellation.set()
            raise
        return await self._transform_media(call.name, outcome)

    async def _transform_media(self, name: str, outcome: ToolOutcome) -> ToolOutcome:
        """Transform the media; a failing transform fails the call."""
        if self._media_transform is None or not outcome.media:
            return outcome
        try:
            changed = [await self._media_transform.call(medium) for medium in outcome.media]
        except BaseException as error:
            if is_not_the_functions(error):
                raise
            return replace(build_failure(name, error), value=outcome.value)
        media: Sequence[Media] = [medium for medium in changed if medium is not None]
        return replace(outcome, media=tuple(media))

    # Many steps --------------------------------------------------------------------------------------------------

    async def loop(
        self,
        call_model: CallModel,
        messages: str | Mapping[str, object] | Iterable[Mapping[str, object]],
        *,
        max_steps: int = 10,
        stop_when: StopWhen | None = None,
        on_step: Callable[[LoopStep], object] | None = None,
        text_format: TextFormat | None = None,
    ) -> LoopResult:
        """Call a model and run the tools it calls, until it answers without a call.

            async def call_model(messages):
                return await client.messages.create(
                    model="...", max_tokens=1000, tools=chain.definitions(), messages=messages
                )

            result = await chain.loop(call_model, "How many people live in Cologne?")

        A step is one call of the model and of the tools that it requests. The messages are always complete: each call
        has its result, so a later loop or request may continue them. All functions may be async or plain; a plain one
        runs in a thread. Their exceptions end the loop and are raised here. Cancelling cancels the current step;
        `on_step` has been called for the earlier steps.

        Args:
            call_model: Called with a copy of the messages so far, in the form of the Messages API. Returns the model's
                answer: a response of the Messages API, a list of content blocks, or text.
            messages: The initial conversation, which is not changed; or its first message, or a prompt.
            max_steps: The maximum number of calls of the model. The tools of the last step still run.
            stop_when: Called after each step with calls; returns whether to stop.
            on_step: Called after each step.
            text_format: For a model that calls tools in text; see `execute`.

        Raises:
            OptionsError: `max_steps` is less than 1.
            TypeError: `call_model` returned another type.
        """
        if max_steps < 1:
            raise OptionsError(f"must be at least 1, not {max_steps}", option="max_steps")
        execute = partial(self.execute, text_format=text_format)
        model = Callback(call_model)
        step_callback = None if on_step is None else Callback(on_step)
        stop_callback = None if stop_when is None else Callback(stop_when)
        initial: Any = messages
        if isinstance(messages, str):
            initial = [{"role": "user", "content": messages}]
        elif isinstance(messages, Mapping):
            initial = [messages]
        conversation: list[JSONObject] = [dict(message) for message in initial]
        steps: list[LoopStep] = []
        ended: Literal["answered", "stopped", "max_steps"] | None = None
        while ended is None:
            step = await take_step(execute, model, conversation, len(steps) + 1)
            steps.append(step)
            conversation += step.messages
            if step_callback is not None:
                await step_callback.call(step)
            if is_answer(step):
                ended = "answered"
            elif stop_callback is not None and await stop_callback.call(step):
                ended = "stopped"
            elif len(steps) >= max_steps:
                ended = "max_steps"
        return LoopResult(ended=ended, steps=steps, messages=conversation)

    def loop_sync(
        self,
        call_model: CallModel,
        messages: str | Mapping[str, object] | Iterable[Mapping[str, object]],
        *,
        max_steps: int = 10,
        stop_when: StopWhen | None = None,
        on_step: Callable[[LoopStep], object] | None = None,
        text_format: TextFormat | None = None,
    ) -> LoopResult:
        """Run `loop` from synchronous code.

        Inside a running event loop (in a notebook, for example) it blocks the calling thread and runs in another one.
        """
        return run_anywhere(
            lambda: self.loop(
                call_model,
                messages,
                max_steps=max_steps,
                stop_when=stop_when,
                on_step=on_step,
                text_format=text_format,
            )
        )


def _choose_section_name(name: str) -> str:
    """Return the section name of a result: the tool's name, or a placeholder if the model used an invalid one."""
    try:
        return check_name(name)
    except ValueError:
        return "unknown_tool"
