"""Validation of prompts, and their conversion to user messages.

The CLI forwards empty prompts, silently drops those of some wrong types and crashes on others, so all of them are
refused before anything is sent.
"""

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import anyio
from typing_extensions import TypeIs

from claude_agent_py._base.callbacks import is_not_the_functions
from claude_agent_py._base.checks import check_seconds, is_uuid
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.log import logger
from claude_agent_py.wire.base import JSONObject, WireModel, dump, keep_source
from claude_agent_py.wire.codec import encode_json
from claude_agent_py.wire.fitting import Misfit, check, fit
from claude_agent_py.wire.messages.catalog import SlashCommand
from claude_agent_py.wire.messages.content import Block, ContentBlock, TextBlock, UnknownBlock
from claude_agent_py.wire.messages.conversation import UserContent, UserMessage

GENERATOR_GRACE: Final = 1.0
"""How many seconds a generator of prompts may take to close."""

Value = TypeVar("Value")

PromptContent: TypeAlias = str | Sequence[ContentBlock | Mapping[str, object]] | Mapping[str, object] | UserMessage
"""One prompt: text, a list of content blocks, or a `UserMessage`; blocks and messages also as dicts of the API."""

Prompt: TypeAlias = PromptContent | AsyncIterable[PromptContent]
"""The prompt of `query`: one prompt, or an async iterable of prompts."""


def check_run_arguments(until: object, timeout: object) -> None:
    """Check the arguments `until` and `timeout` of `query` and `run`.

    Raises:
        OptionsError: `until` is unknown, or `timeout` is not a positive number of seconds.
    """
    if until not in ("result", "idle"):
        raise OptionsError(f"must be 'result' or 'idle', not {until!r}", option="until")
    check_seconds(timeout, "timeout")


def is_stream(prompt: object) -> TypeIs[AsyncIterable[object]]:
    """Return whether a prompt is an async iterable of prompts."""
    return isinstance(prompt, AsyncIterable)


async def close_stream(iterator: AsyncIterator[object] | None) -> None:
    """Close a generator of prompts. Python would do so later, and trio only with a warning."""
    if inspect.isasyncgen(iterator):
        with anyio.move_on_after(GENERATOR_GRACE, shield=True):
            try:
                await iterator.aclose()
            except BaseException as error:
                if is_not_the_functions(error):
                    raise
                logger.exception("closing the prompts failed")


def verbatim(prompt: PromptContent) -> UserMessage:
    """Return a prompt that the CLI passes to the model as it is, for text that was not typed for the CLI.

    The CLI reads a prompt as a person's typing: it runs a `/command`, and puts the files that `@paths` name into the
    request, without a tool call. It does not in this message, and omits the context that it adds at the start of a
    turn. The option `verbatim_prompts` does the same for all prompts.

    Raises:
        OptionsError: The prompt is empty or has the wrong type.
    """
    return prompt_message(prompt, verbatim=True)


def prompt_message(prompt: object, *, verbatim: bool, uuid: str | None = None) -> UserMessage:
    """Return the user message of one prompt, with this uuid, otherwise with its own or a new one.

    A prompt of several texts is verbatim if the CLI would expand the last one, unless its `client_composed` is set:
    nobody can know whether that text was typed or is attached.

    Raises:
        OptionsError: The prompt is empty, has an invalid field, or has the wrong type.
    """
    whole = _whole_message(prompt)
    content = UserContent(role="user", content=_check_content(prompt if whole is None else whole.content))
    is_chosen = whole is not None and whole.client_composed is not None
    is_verbatim = verbatim or (not is_chosen and _may_expand_attached_text(content.content))
    marks: JSONObject = {"client_composed": True} if is_verbatim else {}
    if whole is None:
        return UserMessage(message=content, uuid=uuid or str(uuid4()), **marks)
    message = whole.replace(message=content, uuid=uuid or whole.uuid or str(uuid4()), **marks)
    _must_fit("the user message", check, message)
    _must_fit("the uuid", str.encode, message.uuid)  # the answer would name another one
    return message


def prepare_prompt(
    prompt: Prompt, *, verbatim: bool, uuid: str | None = None
) -> UserMessage | AsyncIterable[PromptContent]:
    """Return one prompt as a user message, with this uuid if given, and an iterable unchanged.

    Raises as `prompt_message` does; also OptionsError for something else than a uuid, or one for an iterable.
    """
    if uuid is not None and (is_stream(prompt) or not is_uuid(uuid) or uuid != uuid.lower()):
        what = "must be None for an async iterable of prompts" if is_stream(prompt) else f"must be a uuid, not {uuid!r}"
        raise OptionsError(what, option="uuid")
    return prompt if is_stream(prompt) else prompt_message(prompt, verbatim=verbatim, uuid=uuid)


def check_prompt(prompt: object) -> str | list[ContentBlock]:
    """Return the content of one prompt.

    Raises:
        OptionsError: The prompt is empty or has the wrong type.
    """
    whole = _whole_message(prompt)
    return _check_content(prompt if whole is None else whole.content)


def check_keeps_conversation(prompt: object, commands: Iterable[SlashCommand], *, verbatim: bool) -> None:
    """Check that the CLI does not begin another conversation for a prompt, as it does for `/clear`.

    Raises:
        OptionsError: It does, or the prompt is empty or has the wrong type.
    """
    message = prompt_message(prompt, verbatim=verbatim)
    last = message.content if isinstance(message.content, str) else getattr(message.content[-1], "text", "")
    if not message.client_composed and any(each.name == "clear" and each.is_run_by(last) for each in commands):
        raise OptionsError("this command begins another conversation; start a new session instead", option="prompt")


def _check_content(prompt: object) -> str | list[ContentBlock]:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise OptionsError("must not be empty", option="prompt")
        return prompt
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        kind = type(prompt).__name__
        raise OptionsError(
            f"must be text, a list of content blocks, a UserMessage, or an async iterable of them, not {kind}",
            option="prompt",
        )
    blocks = [_check_block(index, block) for index, block in enumerate(prompt)]
    if not any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks):
        raise OptionsError("must have content", option="prompt")
    return blocks


def _may_expand_attached_text(content: object) -> bool:
    """Return whether the CLI would expand a text that may be attached.

    Measured on CLI 2.1.328: it expands the last block, if that is text, and never other blocks.
    """
    if not isinstance(content, list) or not isinstance(content[-1], TextBlock):
        return False
    last = content[-1].text
    texts = sum(isinstance(block, TextBlock) for block in content)
    return texts > 1 and ("@" in last or last.lstrip().startswith("/"))


def _whole_message(prompt: object) -> UserMessage | None:
    """Return the prompt as a user message if it is one, or an official SDK's dict of one; otherwise None."""
    if isinstance(prompt, str) or not isinstance(prompt, WireModel | Mapping):
        return None
    if isinstance(prompt, UserMessage):
        return prompt
    if isinstance(prompt, WireModel) or prompt.get("type") != "user":
        return None
    # The CLI would silently drop an invalid one and never answer.
    message: UserMessage
    message, _ = _must_fit("the user message", fit, UserMessage, dict(prompt))
    keep_source(message, "_source", dict(prompt))
    return message


def _check_block(index: int, block: object) -> Any:
    if isinstance(block, Mapping):
        return _must_fit(f"block {index}", _read_block, dict(block), skip=1)
    if not isinstance(block, Block | UnknownBlock):
        raise OptionsError(f"block {index} must be a content block, not {type(block).__name__}", option="prompt")
    _must_fit(f"block {index} ({type(block).__name__})", check, block)
    return block


def _read_block(data: JSONObject) -> object:
    known: Any
    [known], _ = fit(list[ContentBlock], [data])
    if dump(known) == data:
        return known
    encode_json(data)  # refuses what is not JSON in fields that the model lacks
    return UnknownBlock(raw=data)  # which keeps them


def _must_fit(what: str, convert: Callable[..., Value], *arguments: object, skip: int = 0) -> Value:
    """Return the converted value. Raises OptionsError for a misfit, without the first steps of its place."""
    try:
        return convert(*arguments)
    except Misfit as error:
        problem = f"{what} is invalid: {Misfit(error.place[skip:], error.what)}"
    except RecursionError:
        problem = f"{what} is nested too deeply"
    except (TypeError, ValueError) as error:
        problem = f"{what} must be JSON: {error}"
    raise OptionsError(problem, option="prompt")  # outside of `except`: the context would show the values
