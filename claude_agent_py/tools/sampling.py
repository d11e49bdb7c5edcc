"""Requests of in-process servers for a model's message: `sampling/createMessage` of MCP.

The CLI calls no model for a server, so the program does, in its handler `on_sampling`. Without one the server gets an
error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from claude_agent_py._base.json_object import JSONObject
from claude_agent_py.tools.jsonrpc import INVALID_PARAMS, RPCError

SAMPLING: Final = "sampling/createMessage"


@dataclass(frozen=True, kw_only=True)
class SamplingRequest:
    """A server's request for a message of a model."""

    server_name: str
    messages: Sequence[JSONObject]
    """The conversation in MCP form: each message has a `role` and `content`, a block or a list of blocks."""
    max_tokens: int
    """The most tokens that the message may have."""
    system_prompt: str | None = None
    params: Mapping[str, object] = field(default_factory=dict, repr=False)
    """All that the server sent, such as `temperature`, `stopSequences` and `modelPreferences`."""


SamplingMessage: TypeAlias = str | Mapping[str, object]
"""A model's message: its text, or a dict in MCP form, with `content` and perhaps `model` and `stopReason`."""


def read_sampling_request(server_name: str, params: Mapping[str, object]) -> SamplingRequest:
    """Return the request in the parameters of `sampling/createMessage`. Raises RPCError if they are invalid."""
    messages, max_tokens, system_prompt = (params.get(name) for name in ("messages", "maxTokens", "systemPrompt"))
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise RPCError(INVALID_PARAMS, "messages must be a list of objects")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool):
        raise RPCError(INVALID_PARAMS, "maxTokens must be an integer")
    if max_tokens < 1:
        raise RPCError(INVALID_PARAMS, f"maxTokens must be at least 1, not {max_tokens}")
    return SamplingRequest(
        server_name=server_name,
        messages=messages,
        max_tokens=max_tokens,
        system_prompt=system_prompt if isinstance(system_prompt, str) else None,
        params=dict(params),
    )


def read_message(value: object) -> JSONObject:
    """Return a handler's message in MCP form. Raises ValueError for anything else."""
    message = value if isinstance(value, Mapping) else {"content": value}
    content = message.get("content")
    if isinstance(content, str):
        content = {"type": "text", "text": content}
    if not all(isinstance(block, dict) for block in (content if isinstance(content, list) else [content])):
        raise ValueError(f"the message must be text, or a dict in MCP form with content, not {type(value).__name__}")
    return {"role": "assistant", "model": "unknown", **message, "content": content}


def text_of_message(message: JSONObject) -> str:
    """Return the text of a message in MCP form."""
    content = message["content"]
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
