"""Make the messages of the official SDK from the JSON of the CLI (`claude_agent_sdk._internal.message_parser`)."""

from collections.abc import Callable, Container, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final, cast

from claude_agent_py.compat import types
from claude_agent_py.compat.errors import MessageParseError
from claude_agent_py.wire import JSONObject

_BLOCKS: Final[Mapping[str, type]] = {
    "text": types.TextBlock,
    "thinking": types.ThinkingBlock,
    "tool_use": types.ToolUseBlock,
    "tool_result": types.ToolResultBlock,
    "server_tool_use": types.ServerToolUseBlock,
    "advisor_tool_result": types.ServerToolResultBlock,
}
"""The blocks that have a class. Others are left out."""

_OF_USERS: Final = frozenset({"text", "tool_use", "tool_result"})
"""The blocks that a user's message may have."""

_SYSTEM: Final[Mapping[str, type[types.SystemMessage]]] = {
    "task_started": types.TaskStartedMessage,
    "task_progress": types.TaskProgressMessage,
    "task_notification": types.TaskNotificationMessage,
    "mirror_error": types.MirrorErrorMessage,
}


_KEY: Final = {"projectKey": "project_key", "sessionId": "session_id"}
"""The names in a `SessionKey` of those on the wire."""


def parse_message(data: Any) -> types.Message | None:
    """Return the message of a frame, or None for a type that has no class.

    Raises:
        MessageParseError: The frame lacks a part that its class needs.
    """
    if not isinstance(data, dict):
        raise MessageParseError(f"Invalid message data type (expected dict, got {type(data).__name__})", data)
    kind = data.get("type")
    if not kind:
        raise MessageParseError("Message missing 'type' field", data)
    parse = _PARSERS.get(str(kind))
    if parse is None:
        return None
    try:
        return parse(data)
    except (KeyError, TypeError) as error:
        problem = "Missing required field" if isinstance(error, KeyError) else "Invalid field"
        raise MessageParseError(f"{problem} in {kind} message: {error}", data) from error


def read_message(data: JSONObject) -> types.Message | None:
    """Return the message of a frame, or None if it has no class or the program did not ask for it."""
    return None if data.get("sdk_host_only") is True else parse_message(data)


def _fill(kind: type, frame: Mapping[str, object], /, **known: object) -> Any:
    """Return an object whose fields are those of the same names in the frame. Raises KeyError if one is missing."""
    for field in fields(kind):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        if field.name not in known and (is_needed or field.name in frame):
            known[field.name] = frame[field.name]
    return kind(**known)


def _blocks(data: JSONObject, allowed: Container[str]) -> list[Any]:
    content = data["message"]["content"]
    for block in content:
        if not isinstance(block, dict):
            raise MessageParseError(f"Invalid content block (expected dict, got {type(block).__name__})", data)
    return [_fill(_BLOCKS[kind], block) for block in content if (kind := str(block["type"])) in allowed]


def _origin(data: Mapping[str, object]) -> Any:
    origin = data.get("origin")
    return origin if isinstance(origin, dict) and isinstance(origin.get("kind"), str) else None


def _user(data: JSONObject) -> types.UserMessage:
    content = data["message"]["content"]
    message: types.UserMessage = _fill(
        types.UserMessage,
        data,
        content=_blocks(data, _OF_USERS) if isinstance(content, list) else content,
        origin=_origin(data),
    )
    return message


def _assistant(data: JSONObject) -> types.AssistantMessage:
    inner = data["message"]
    if not isinstance(inner["content"], list):
        found = type(inner["content"]).__name__
        raise MessageParseError(f"Invalid assistant content (expected list, got {found})", data)
    message: types.AssistantMessage = _fill(
        types.AssistantMessage,
        data,
        content=_blocks(data, _BLOCKS),
        model=inner["model"],
        usage=inner.get("usage"),
        message_id=inner.get("id"),
        stop_reason=inner.get("stop_reason"),
    )
    return message


def _system(data: JSONObject) -> types.SystemMessage:
    subtype = data["subtype"]
    if subtype in ("hook_started", "hook_response"):
        name = data.get("hook_event") or data.get("hook_name") or data.get("hook_event_name") or ""
        return types.HookEventMessage(subtype, data, name, data.get("session_id"), data.get("uuid"))
    if subtype == "task_updated":
        patch = data["patch"] if isinstance(data.get("patch"), dict) else {}
        ids = (data.get("session_id"), data.get("uuid"))
        return types.TaskUpdatedMessage(subtype, data, data.get("task_id", ""), patch, patch.get("status"), *ids)
    if subtype == "mirror_error" and isinstance(data.get("key"), dict):
        key = {_KEY.get(name, name): value for name, value in data["key"].items()}
        return types.MirrorErrorMessage(subtype, data, cast("types.SessionKey", key), data.get("error", ""))
    message: types.SystemMessage = _fill(_SYSTEM.get(str(subtype), types.SystemMessage), data, data=data)
    return message


def _result(data: JSONObject) -> types.ResultMessage:
    deferred = data.get("deferred_tool_use")
    message: types.ResultMessage = _fill(
        types.ResultMessage,
        data,
        model_usage=data.get("modelUsage"),
        deferred_tool_use=_fill(types.DeferredToolUse, deferred) if deferred else None,
        origin=_origin(data),
    )
    return message


def _rate_limit(data: JSONObject) -> types.RateLimitEvent:
    info = data["rate_limit_info"]
    limits = types.RateLimitInfo(
        status=info["status"],
        resets_at=info.get("resetsAt"),
        rate_limit_type=info.get("rateLimitType"),
        utilization=info.get("utilization"),
        overage_status=info.get("overageStatus"),
        overage_resets_at=info.get("overageResetsAt"),
        overage_disabled_reason=info.get("overageDisabledReason"),
        raw=info,
    )
    return types.RateLimitEvent(limits, data["uuid"], data["session_id"])


_PARSERS: Final[Mapping[str, Callable[[JSONObject], types.Message]]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "result": _result,
    "rate_limit_event": _rate_limit,
    "stream_event": lambda data: _fill(types.StreamEvent, data),
    "conversation_reset": lambda data: _fill(types.ConversationResetMessage, data),
}
