"""Prompts: what a user passes as one, checked and made into user messages with a uuid each.

The CLI forwards an empty prompt, drops one of a wrong type without a word (and never answers it), and dies of
others, so a bad prompt has to be an error here, before anything is sent.
"""

import uuid
from collections.abc import AsyncIterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from claude_agent_py.errors import OptionsError
from claude_agent_py.wire.content import Block, ContentBlock, TextBlock, UnknownBlock

if TYPE_CHECKING:
    from claude_agent_py.wire.messages import UserMessage

PromptContent: TypeAlias = str | Sequence[ContentBlock]
"""One prompt: text, or a list of content blocks."""

Prompt: TypeAlias = PromptContent | AsyncIterable[PromptContent]
"""What `query` takes: one prompt, or an async iterable of prompts."""


def check_run_arguments(until: Any, timeout: Any) -> None:
    """Check what `query` and `run` are told beside the prompt.

    Raises:
        OptionsError: `until` is no such word, or `timeout` no positive number of seconds.
    """
    if until not in ("result", "idle"):
        raise OptionsError(f"must be 'result' or 'idle', not {until!r}", option="until")
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout > 0):
        raise OptionsError(f"must be a positive number of seconds, or None, not {timeout!r}", option="timeout")


def is_stream(prompt: Any) -> bool:
    """Tell whether a prompt is an async iterable of prompts."""
    return isinstance(prompt, AsyncIterable)


def prompt_message(prompt: Any, *, verbatim: bool) -> "UserMessage":
    """Make the user message of one prompt, with a fresh uuid.

    Raises:
        OptionsError: It is empty, or neither text nor content blocks.
    """
    from claude_agent_py.wire.messages import UserContent, UserMessage

    content = UserContent(role="user", content=check_prompt(prompt))
    extra: dict[str, Any] = {"client_composed": True} if verbatim else {}
    return UserMessage(message=content, parent_tool_use_id=None, uuid=str(uuid.uuid4()), **extra)


def check_prompt(prompt: Any) -> str | list[ContentBlock]:
    """Give the content of one prompt.

    Raises:
        OptionsError: It is empty, or neither text nor content blocks.
    """
    if isinstance(prompt, str):
        if not prompt.strip():
            raise OptionsError("it is empty; the model needs something to answer", option="prompt")
        return prompt
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        kind = type(prompt).__name__
        raise OptionsError(
            f"expected text, a list of content blocks, or an async iterable of them, not {kind}", option="prompt"
        )
    blocks = [_checked_block(index, block) for index, block in enumerate(prompt)]
    if not any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks):
        raise OptionsError("it has no content; the model needs something to answer", option="prompt")
    return blocks


def _checked_block(index: int, block: Any) -> Any:
    if isinstance(block, dict):
        raise OptionsError(
            f"block {index} is a dict; pass content blocks (TextBlock(text=...), ImageBlock(...), ...)", option="prompt"
        )
    if not isinstance(block, Block | UnknownBlock):
        raise OptionsError(f"block {index} is no content block but {type(block).__name__}", option="prompt")
    return block
