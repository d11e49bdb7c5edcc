"""The results of tool calls that a `ToolChain` ran: `ToolCallResult` and `ToolChainResult`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from claude_agent_py.formatting.media import Media, api_blocks
from claude_agent_py.tools.failures import format_failure
from claude_agent_py.tools.results import WrittenResult
from claude_agent_py.wire.base import JSONObject, dump
from claude_agent_py.wire.messages.content import ContentBlock, TextBlock, ToolResultBlock
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage


@dataclass(frozen=True, kw_only=True)
class ToolCallResult:
    """A call and its outcome, for programs."""

    name: str
    tool_use_id: str | None
    """The id of the `tool_use` block; None for a call in text."""
    input: Any
    """The arguments, as the model wrote them."""
    output: Any = None
    """The typed value that the tool returned, without the `ToolResult` around it."""
    error: Exception | None = None
    """Why the call failed; None if it succeeded. A `ToolResult(..., is_error=True)` has an output as well."""
    duration: float = 0.0
    """Seconds from the start of the call to its end, including a wait for the tool's `max_concurrency`."""
    told: WrittenResult = field(repr=False)
    """The result as the model sees it."""

    def as_text(self) -> str:
        """Return the content of the call's section. After a failure it begins with `Error: ` and the error's type."""
        return self.told.text if self.error is None else format_failure(self.error)

    def as_content_block(self) -> ToolResultBlock:
        """Return the `tool_result` block. For a failed call it has only text, because the API accepts nothing else."""
        text: list[ContentBlock] = [TextBlock(text=self.told.text)] if self.told.text.strip() else []
        if self.error is None:
            text += [block for medium in self.told.media for block in api_blocks(medium)]
        return ToolResultBlock(tool_use_id=self.tool_use_id or "", content=text, is_error=self.error is not None)


@dataclass(frozen=True, kw_only=True)
class ToolChainResult:
    """The results of some calls, formatted for a model.

    `raw` is for programs.
    """

    text: str
    """All results and errors as sections, in the order of the calls, including the wrapper. Empty without calls."""
    media: tuple[Media, ...]
    """Images, audio, files and links, in the order of the calls."""
    raw: tuple[ToolCallResult, ...]
    """The calls with their outputs and errors, in the same order."""

    def as_content_blocks(self) -> list[ContentBlock]:
        """Return text and media as the content of a user message, for a model that calls tools in text."""
        text: list[ContentBlock] = [TextBlock(text=self.text)] if self.text else []
        return text + [block for medium in self.media for block in api_blocks(medium)]

    def tool_result_blocks(self) -> list[ToolResultBlock]:
        """Return one `tool_result` block per call, in order, each with its `tool_use_id`."""
        return [call.as_content_block() for call in self.raw]

    def tool_result_message(self) -> UserMessage:
        """Return the user message that answers all calls of an assistant message."""
        return UserMessage(message=UserContent(role="user", content=list(self.tool_result_blocks())))

    def to_api_message(self) -> JSONObject:
        """Return the user message for the Messages API.

        It has one `tool_result` block for each call, in the order of the calls. If the calls have no ids, because the
        model wrote them in text, it has the text and the media instead.
        """
        has_ids = all(call.tool_use_id for call in self.raw)
        blocks: Sequence[ContentBlock] = self.tool_result_blocks() if has_ids else self.as_content_blocks()
        return {"role": "user", "content": [dump(block) for block in blocks]}
