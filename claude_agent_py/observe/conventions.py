"""Names and attributes of spans, following OpenTelemetry's semantic conventions for generative AI (version 1.38)."""

import json
from typing import Any, Final

from claude_agent_py.observe.spans import MAIN, TASK_KINDS, Span, SpanKind, Tokens

PROVIDER: Final = "anthropic"
_OPERATIONS: Final[dict[SpanKind, str]] = {
    "run": "invoke_agent",
    "turn": "invoke_agent",
    "subagent": "invoke_agent",
    "child": "invoke_agent",
    "model": "chat",
    "tool": "execute_tool",
}
_CUSTOM_ATTRIBUTES: Final = {
    name: f"claude_agent.{name}"
    for name in (
        "type",
        "question",
        "handler",
        "notified_at",
        "tool_uses",
        "total_tokens",
        "api_retries",
        "terminal_reason",
    )
}
"""Attributes without a convention, exported under `claude_agent.`. None of them is content."""
_CONTENT: Final = ("prompt", "description", "input", "output", "error")


def get_operation(span: Span) -> str | None:
    """Return the `gen_ai.operation.name` of a span, or None if it has none."""
    return _OPERATIONS.get(span.kind)


def build_name(span: Span, agent: str = "") -> str:
    """Return the name of a span: `invoke_agent {name}`, `chat {model}`, `execute_tool {tool}`, `hook {event}`, ..."""
    operation = get_operation(span)
    if span.kind in ("run", "turn"):
        return f"invoke_agent {agent}".strip()
    return f"{operation or span.kind} {span.name}"


def build_attributes(
    span: Span, agent_name: str = "", *, session_id: str = "", content: bool = False
) -> dict[str, Any]:
    """Return the attributes of a span.

    Args:
        span: The span.
        agent_name: The name of its agent.
        session_id: The id of the session.
        content: Include prompts, inputs and outputs.
    """
    kind = span.kind
    attributes = span.attributes
    operation = _OPERATIONS.get(kind)
    if operation is None:
        found: dict[str, Any] = {"claude_agent.span.kind": kind}
    else:
        found = {"gen_ai.operation.name": operation, "gen_ai.provider.name": PROVIDER}
    if session_id:
        found["gen_ai.conversation.id"] = session_id
    if span.agent != MAIN:
        found["gen_ai.agent.id"] = span.agent
    if agent_name:
        found["gen_ai.agent.name"] = agent_name
    _add_kind(found, span)
    if span.tokens is not None:
        _add_usage(found, span.tokens, is_complete="output_tokens_so_far" not in attributes)
    if span.cost_usd is not None:
        found["claude_agent.cost_usd"] = span.cost_usd
    found |= {_CUSTOM_ATTRIBUTES[key]: value for key, value in attributes.items() if key in _CUSTOM_ATTRIBUTES}
    if span.status != "ok":
        _add_failure(found, span)
    if content:
        found |= _content_attributes(span)
    return found


def _add_failure(found: dict[str, Any], span: Span) -> None:
    if span.status in ("error", "denied"):
        found["error.type"] = "denied" if span.status == "denied" else _error_type(span)
    elif span.status == "cancelled":
        found["claude_agent.cancelled"] = True


def _add_kind(found: dict[str, Any], span: Span) -> None:
    kind = span.kind
    if kind == "model":
        found["gen_ai.response.model"] = found["gen_ai.request.model"] = span.name
        found["gen_ai.response.id"] = span.id
        if reason := span.attributes.get("stop_reason"):
            found["gen_ai.response.finish_reasons"] = (reason,)
    elif kind == "tool":
        found["gen_ai.tool.name"] = span.name
        found["gen_ai.tool.call.id"] = span.id
        found["gen_ai.tool.type"] = "function"
    elif kind in TASK_KINDS:
        found["claude_agent.task.id"] = span.agent


def _add_usage(found: dict[str, Any], tokens: Tokens, *, is_complete: bool) -> None:
    found["gen_ai.usage.input_tokens"] = tokens.input + tokens.cache_read + tokens.cache_write
    if is_complete:
        found["gen_ai.usage.output_tokens"] = tokens.output
    if tokens.cache_read:
        found["gen_ai.usage.cache_read.input_tokens"] = tokens.cache_read
    if tokens.cache_write:
        found["gen_ai.usage.cache_creation.input_tokens"] = tokens.cache_write


def _error_type(span: Span) -> str:
    """Return a low-cardinality error type. The error text of a tool is content, so it is never used."""
    error = span.attributes.get("error")
    if span.kind == "model" and isinstance(error, str):
        return error
    return f"{span.kind}_error"


def _content_attributes(span: Span) -> dict[str, Any]:
    texts = {key: span.attributes[key] for key in _CONTENT if span.attributes.get(key)}
    names = {"error": "claude_agent.error", "description": "gen_ai.agent.description", "input": "claude_agent.input"}
    if span.kind == "tool":
        names |= {
            "description": "claude_agent.description",
            "input": "gen_ai.tool.call.arguments",
            "output": "gen_ai.tool.call.result",
        }
    elif get_operation(span) is not None:
        names |= {"prompt": "gen_ai.input.messages", "output": "gen_ai.output.messages"}
    found: dict[str, Any] = {}
    for key, text in texts.items():
        name = names.get(key, f"claude_agent.{key}")
        role = "user" if key == "prompt" else "assistant"
        found[name] = _encode_message(role, text) if name.endswith("messages") else text
    return found


def _encode_message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}], ensure_ascii=False)
