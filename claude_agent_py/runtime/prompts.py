"""Prompts: what a user passes as one, checked and made into user messages with a uuid each.

The CLI forwards an empty prompt, drops one of a wrong type without a word (and never answers it), and dies of
others, so a bad prompt has to be an error here, before anything is sent.
"""

import inspect
import logging
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

import anyio

from claude_agent_py.callbacks import failure_of, is_not_the_functions
from claude_agent_py.errors import OptionsError
from claude_agent_py.wire.base import WireModel, keep_source
from claude_agent_py.wire.content import Block, ContentBlock, TextBlock, UnknownBlock
from claude_agent_py.wire.fitting import Misfit, check, fit

if TYPE_CHECKING:
    from claude_agent_py.runtime.run_mailbox import RunMailbox
    from claude_agent_py.runtime.session import Session
    from claude_agent_py.wire.messages import UserMessage

logger: logging.Logger = logging.getLogger("claude_agent_py")

GENERATOR_GRACE: Final = 1.0
"""How long a generator of prompts may take to end when no more are wanted, in seconds."""

# The message is named by a text because its module is loaded with the first prompt, and not with this one.
PromptContent: TypeAlias = Union[str, Sequence[ContentBlock], Mapping[str, Any], "UserMessage"]
"""One prompt: text; a list of content blocks; or a whole `UserMessage`, also as a dict."""

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
    """Return whether a prompt is an async iterable of prompts."""
    return isinstance(prompt, AsyncIterable)


def prompt_message(prompt: Any, *, verbatim: bool) -> "UserMessage":
    """Return the user message of one prompt, with a fresh uuid unless it is a message that has one.

    Raises:
        OptionsError: It is empty, has a wrong field, or is neither text, nor content blocks, nor a user message.
    """
    from claude_agent_py.wire.messages import UserContent, UserMessage

    whole = _whole_message(prompt)
    content = UserContent(role="user", content=check_prompt(prompt if whole is None else whole.content))
    marks: dict[str, Any] = {"client_composed": True} if verbatim else {}
    if whole is None:
        return UserMessage(message=content, uuid=str(uuid.uuid4()), **marks)
    message = whole.replace(message=content, uuid=whole.uuid or str(uuid.uuid4()), **marks)
    try:
        check(message)
    except Misfit as error:
        problem = OptionsError(f"the user message is wrong: {error}", option="prompt")
    else:
        return message
    raise problem  # outside of `except`: the context would show the values


async def send_each(session: "Session", run: "RunMailbox", prompts: AsyncIterable[Any]) -> None:
    """Send what an async iterable gives, as it gives it; its failure is the run's. A worker of the session does it."""
    iterator: AsyncIterator[Any] | None = None
    try:
        with run.sending:
            iterator = aiter(prompts)
            async for prompt in iterator:
                message = prompt_message(prompt, verbatim=session.options.verbatim_prompts)
                session.send_prompt(run, session.check_prompt(message))
            if not run.prompts:
                raise OptionsError("the iterable ended without giving one", option="prompt")
            session.seal_run(run)
    except BaseException as error:
        failure = error if isinstance(error, Exception) else failure_of("the prompts", error)
        session.fail_run(run, lambda: failure)
    finally:
        await _close(iterator)


async def _close(iterator: AsyncIterator[Any] | None) -> None:
    """Close a generator of prompts, as Python would only do some time later, and trio not without a warning."""
    if inspect.isasyncgen(iterator):
        with anyio.move_on_after(GENERATOR_GRACE, shield=True):
            try:
                await iterator.aclose()
            except BaseException as error:
                if is_not_the_functions(error):
                    raise
                logger.exception("closing the prompts failed")


def check_prompt(prompt: Any) -> str | list[ContentBlock]:
    """Return the content of one prompt.

    Raises:
        OptionsError: It is empty, or neither text, nor content blocks, nor a user message.
    """
    if (whole := _whole_message(prompt)) is not None:
        return check_prompt(whole.content)
    if isinstance(prompt, str):
        if not prompt.strip():
            raise OptionsError("it is empty; the model needs something to answer", option="prompt")
        return prompt
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        kind = type(prompt).__name__
        raise OptionsError(
            f"expected text, a list of content blocks, a UserMessage, or an async iterable of them, not {kind}",
            option="prompt",
        )
    blocks = [_checked_block(index, block) for index, block in enumerate(prompt)]
    if not any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks):
        raise OptionsError("it has no content; the model needs something to answer", option="prompt")
    return blocks


def _whole_message(prompt: Any) -> "UserMessage | None":
    """Return a prompt that is a whole user message, also as a dict of the official SDKs; None for any other prompt."""
    if isinstance(prompt, str) or not isinstance(prompt, WireModel | Mapping):
        return None
    from claude_agent_py.wire.messages import UserMessage

    if isinstance(prompt, UserMessage):
        return prompt
    if isinstance(prompt, WireModel) or prompt.get("type") != "user":
        return None
    try:
        message: UserMessage
        message, _ = fit(UserMessage, dict(prompt))
        keep_source(message, "_source", dict(prompt))
        return message
    except Misfit as error:  # the CLI would drop it without a word, and never answer
        problem = OptionsError(f"the user message is wrong: {error}", option="prompt")
    raise problem  # outside of `except`: the context would show the values


def _checked_block(index: int, block: Any) -> Any:
    if isinstance(block, Mapping):
        raise OptionsError(
            f"block {index} is a dict; pass content blocks (TextBlock(text=...), ImageBlock(...), ...)", option="prompt"
        )
    if not isinstance(block, Block | UnknownBlock):
        raise OptionsError(f"block {index} must be a content block, not {type(block).__name__}", option="prompt")
    try:
        check(block)
    except Misfit as error:
        problem = OptionsError(f"block {index} ({type(block).__name__}) is wrong: {error}", option="prompt")
    else:
        return block
    raise problem  # outside of `except`: the context would show the values
