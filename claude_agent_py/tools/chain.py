"""`ToolChain`: run tool calls without the CLI and format the results for the model."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import anyio

from claude_agent_py._callbacks import Callback, is_not_the_functions
from claude_agent_py.errors import OptionsError, ToolError, ToolInputError
from claude_agent_py.formatting.encoders import Encoder, JSONEncoder
from claude_agent_py.formatting.media import Media, api_blocks
from claude_agent_py.formatting.sections import check_name
from claude_agent_py.formatting.text_format import TextFormat
from claude_agent_py.tools.calls import LooseCalls, ToolCall, read_calls
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import Tool, as_tool
from claude_agent_py.tools.results import WrittenResult
from claude_agent_py.tools.running import ToolOutcome, failed, outcome_of
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.content import ContentBlock, TextBlock, ToolResultBlock
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage

MediaTransform: TypeAlias = Callable[[Media], Media | Awaitable[Media | None] | None]
"""Changes media before the model sees it, for example to shrink a large image. Returning None drops it."""


@dataclass(frozen=True, kw_only=True)
class RawResults:
    """The calls with their return values and errors, in the same order."""

    calls: tuple[ToolCall, ...]
    results: tuple[Any, ...]
    """Return values; None for a failed call."""
    errors: tuple[Exception | None, ...]
    """Exceptions; None for a successful call."""


@dataclass(frozen=True, kw_only=True)
class ToolChainResult:
    """The results of some calls, formatted for a model.

    `raw` is for programs. The model turns the results into an answer for the user.
    """

    text: str
    """All results and errors as sections, in the order of the calls, including the wrapper. Empty if nothing was
    called."""
    media: tuple[Media, ...]
    """Images, audio, files and links, in the order of the calls."""
    raw: RawResults
    told: tuple[WrittenResult, ...]
    """The result of each call as the model sees it."""

    def as_content_blocks(self) -> list[ContentBlock]:
        """Return text and media as the content of a user message, for a model that calls tools in text."""
        text: list[ContentBlock] = [TextBlock(text=self.text)] if self.text else []
        return text + [block for medium in self.media for block in api_blocks(medium)]

    def tool_result_blocks(self) -> list[ToolResultBlock]:
        """Return one `tool_result` block per call, in order, each with its `tool_use_id`."""
        return [_result_block(call.id, told) for call, told in zip(self.raw.calls, self.told, strict=True)]

    def tool_result_message(self) -> UserMessage:
        """Return the user message that answers all calls of an assistant message.

        The Messages API accepts its `message`: `dump(result.tool_result_message().message)`.
        """
        content: list[ContentBlock] = list(self.tool_result_blocks())
        return UserMessage(message=UserContent(role="user", content=content))


class ToolChain:
    """Runs tool calls and formats their results.

    Args:
        tools: Tools, or functions that become tools.
        encoder: Encodes results and decodes arguments in text; None uses each tool's own encoder.
        text_format: The default format of `execute`.
        media_transform: An async or plain function that changes media.
        timeout: Time limit in seconds for tools without their own; None means no limit.

    Raises:
        OptionsError: Two tools have the same name.
    """

    def __init__(
        self,
        tools: Iterable[Callable[..., Any]],
        *,
        encoder: Encoder | None = None,
        text_format: TextFormat | None = None,
        media_transform: MediaTransform | None = None,
        timeout: float | None = None,
    ) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for made in map(as_tool, tools):
            if made.name in self._tools:
                raise OptionsError(f"two tools are named {made.name!r}", option="ToolChain")
            self._tools[made.name] = made
        self._encoder = encoder
        self._text_format = text_format
        self._media_transform = None if media_transform is None else Callback(media_transform)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<ToolChain {', '.join(self._tools)}>"

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """The tools, in order."""
        return tuple(self._tools.values())

    def definitions(self) -> list[JSONObject]:
        """Return the tools in the form that the Messages API takes (`tools=`)."""
        return [
            {"name": item.name, "description": item.description, "input_schema": item.input_schema}
            for item in self._tools.values()
        ]

    def describe(self, text_format: TextFormat | None = None) -> str:
        """Return instructions for a model that calls tools in text."""
        chosen = self._format(text_format)
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

    async def execute(self, calls: LooseCalls, text_format: TextFormat | None = None) -> ToolChainResult:
        """Run the calls concurrently and format the results.

        Takes `ToolUseBlock`s, `ToolCall`s, dicts with `id`, `name` and `input`, or text in which the calls are
        sections named after the tools. A failing call becomes an error in the result, not an exception.
        Cancelling cancels all calls.

        Raises:
            TypeError: Neither the call nor the chain has a format, or an item is not a call.
        """
        chosen = self._format(text_format)
        wanted = read_calls(calls, chosen, self._encoder or JSONEncoder(), self._tools.keys())
        outcomes = await _all_at_once([partial(self._run, call) for call in wanted])
        sections = [(_section_name(call), outcome.told.text) for call, outcome in zip(wanted, outcomes, strict=True)]
        return ToolChainResult(
            text=chosen.format_sections(sections),
            media=tuple(medium for outcome in outcomes for medium in outcome.told.media),
            raw=RawResults(
                calls=tuple(wanted),
                results=tuple(outcome.value for outcome in outcomes),
                errors=tuple(outcome.error for outcome in outcomes),
            ),
            told=tuple(outcome.told for outcome in outcomes),
        )

    def _format(self, text_format: TextFormat | None) -> TextFormat:
        chosen = text_format or self._text_format
        if not isinstance(chosen, TextFormat):
            raise TypeError("a text format is required, such as XMLFormat(wrapper='observation') or MarkdownFormat()")
        return chosen

    async def _run(self, wanted: ToolCall) -> ToolOutcome:
        called = self._tools.get(wanted.name)
        if called is None:
            known = ", ".join(self._tools) or "none"
            return failed(wanted.name, ToolError(f"unknown tool {wanted.name!r}; available tools: {known}"))
        if not isinstance(wanted.input, Mapping):
            return failed(
                wanted.name, ToolInputError(wanted.name, [("", f"must be an object, not {wanted.input!r:.200}")])
            )
        context = ToolContext(request_id=wanted.id, tool_name=called.name, tool_use_id=wanted.id)
        outcome = await outcome_of(called, wanted.input, context, encoder=self._encoder, timeout=self._timeout)
        return await self._with_media(wanted.name, outcome)

    async def _with_media(self, name: str, outcome: ToolOutcome) -> ToolOutcome:
        """Transform the media; a failing transform fails the call."""
        if self._media_transform is None or not outcome.told.media:
            return outcome
        try:
            changed = [await self._media_transform.call(medium) for medium in outcome.told.media]
        except BaseException as error:
            if is_not_the_functions(error):
                raise
            return failed(name, error)
        media: Sequence[Media] = [medium for medium in changed if medium is not None]
        return replace(outcome, told=replace(outcome.told, media=tuple(media)))


async def _all_at_once(runs: Sequence[Callable[[], Awaitable[ToolOutcome]]]) -> list[ToolOutcome]:
    outcomes: dict[int, ToolOutcome] = {}

    async def keep(index: int, run: Callable[[], Awaitable[ToolOutcome]]) -> None:
        outcomes[index] = await run()

    async with anyio.create_task_group() as workers:
        for index, run in enumerate(runs):
            workers.start_soon(keep, index, run)
    return [outcomes[index] for index in range(len(runs))]


def _section_name(call: ToolCall) -> str:
    """Return the section name of a result: the tool's name, or a placeholder if the model used an invalid one."""
    try:
        return check_name(call.name)
    except ValueError:
        return "unknown_tool"


def _result_block(tool_use_id: str, told: WrittenResult) -> ToolResultBlock:
    text: list[ContentBlock] = [TextBlock(text=told.text)] if told.text else []
    content = text + [block for medium in told.media for block in api_blocks(medium)]
    if told.is_error:
        return ToolResultBlock(tool_use_id=tool_use_id, content=content, is_error=True)
    return ToolResultBlock(tool_use_id=tool_use_id, content=content)
