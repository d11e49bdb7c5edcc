"""Rules of the Messages API for `messages`, as its errors and the types of the `anthropic` package state them."""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args, get_type_hints


@cache
def params() -> dict[str, Any]:
    """Return the blocks that the API takes, by their type."""
    from anthropic.types.content_block_param import ContentBlockParam  # takes a second

    return {get_args(get_type_hints(param)["type"])[0]: param for param in get_args(ContentBlockParam)}


def refusals(messages: list[dict[str, Any]]) -> list[str]:
    """Return what the API would refuse."""
    return list(_refusals(messages))


def _refusals(messages: list[dict[str, Any]]) -> Iterator[str]:
    open_calls: list[str] = []
    role = ""
    for index, message in enumerate(messages):
        if set(message) != {"role", "content"} or message["role"] not in ("user", "assistant"):
            yield f"message {index} is {message}"
            continue
        if message["role"] == role:
            yield f"message {index} has the role of the one before"
        role, content = message["role"], message["content"]
        if not content:
            yield f"message {index} is empty"
        yield from (problem for block in content for problem in _block_refusals(index, block))
        leading = [block.get("tool_use_id") for block in content[: len(open_calls)]]
        if leading != open_calls:
            yield f"message {index} begins with results of {leading}, not of {open_calls}"
        if any(block["type"] == "tool_result" for block in content[len(open_calls) :]):
            yield f"message {index} has results of no call"
        open_calls = [block["id"] for block in content if block["type"] == "tool_use"]
    if open_calls:
        yield f"the calls {open_calls} have no result"


def _block_refusals(index: int, block: dict[str, Any]) -> Iterator[str]:
    param = params().get(block["type"])
    if param is None:
        yield f"message {index} has a block of the type {block['type']}"
        return
    if unknown := set(block) - set(get_type_hints(param)):
        yield f"message {index} has a {block['type']} with {unknown}"
    if missing := param.__required_keys__ - set(block):
        yield f"message {index} has a {block['type']} without {missing}"
    if block["type"] == "text" and not block["text"].strip():
        yield f"message {index} has an empty text"
    if None in block.values():
        yield f"message {index} has null in {block}"
