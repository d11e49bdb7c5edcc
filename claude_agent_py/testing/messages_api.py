"""Encode replies as JSON of the Messages API: as an event stream, as one message, or as an error."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import NamedTuple

from claude_agent_py.testing.script import Block, RawBlock, Reply, Text, Thinking, ToolCall
from claude_agent_py.wire import JSONObject

NewID = Callable[[str], str]
"""Returns a fresh id with a prefix."""


class StreamStep(NamedTuple):
    """One event of a stream."""

    event: JSONObject
    chars: int = 0
    """The number of characters of content in the event."""

    def encode(self) -> bytes:
        """Encode as a server-sent event."""
        return f"event: {self.event['type']}\ndata: {json.dumps(self.event)}\n\n".encode()


def stream(reply: Reply, model: str, new_id: NewID) -> Iterator[StreamStep]:
    """Yield the events of a reply, from `message_start` to `message_stop`."""
    yield StreamStep({"type": "message_start", "message": _build_envelope(reply, model, new_id)})
    for index, block in enumerate(reply.blocks):
        yield from _stream_block(block, index, reply.chunk_chars, new_id)
    usage = {"output_tokens": reply.usage.output_tokens}
    delta = {"stop_reason": stop_reason(reply), "stop_sequence": None}
    yield StreamStep({"type": "message_delta", "delta": delta, "usage": usage})
    yield StreamStep({"type": "message_stop"})


def message(reply: Reply, model: str, new_id: NewID) -> JSONObject:
    """Return a reply as one message, for a request without `stream`."""
    return {
        **_build_envelope(reply, model, new_id),
        "content": [_encode_block(block, new_id) for block in reply.blocks],
        "stop_reason": stop_reason(reply),
        "usage": asdict(reply.usage),
    }


def stop_reason(reply: Reply) -> str:
    """Return the stop reason of a reply, by default derived from its blocks."""
    if reply.stop_reason is not None:
        return reply.stop_reason
    return "tool_use" if any(isinstance(block, ToolCall) for block in reply.blocks) else "end_turn"


def error_event(error_type: str, message: str) -> JSONObject:
    """Return an error object, which serves as a body and as an event of a stream."""
    return {"type": "error", "error": {"type": error_type, "message": message}}


def _build_envelope(reply: Reply, model: str, new_id: NewID) -> JSONObject:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**asdict(reply.usage), "output_tokens": min(1, reply.usage.output_tokens)},
    }


def _stream_block(block: Block, index: int, chunk_chars: int | None, new_id: NewID) -> Iterator[StreamStep]:
    start = _encode_block(block, new_id)
    kind = field = content = signature = ""
    match start:
        case {"type": "text", "text": str(content)}:
            kind, field = "text_delta", "text"
            start["text"] = ""
        case {"type": "thinking", "thinking": str(content), "signature": str(signature)}:
            kind, field = "thinking_delta", "thinking"
            start |= {"thinking": "", "signature": ""}
        case {"type": "tool_use", "input": given}:
            kind, field, content = "input_json_delta", "partial_json", json.dumps(given)
            start["input"] = {}
    yield StreamStep({"type": "content_block_start", "index": index, "content_block": start})
    size = chunk_chars or len(content) or 1
    for at in range(0, len(content), size):
        part = content[at : at + size]
        yield StreamStep(
            {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: part}}, len(part)
        )
    if signature:
        delta = {"type": "signature_delta", "signature": signature}
        yield StreamStep({"type": "content_block_delta", "index": index, "delta": delta})
    yield StreamStep({"type": "content_block_stop", "index": index})


def _encode_block(block: Block, new_id: NewID) -> JSONObject:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": block.id or new_id("toolu_"),
                "name": block.name,
                "input": dict(block.input),
            }
        case RawBlock():
            return dict(block.json)
