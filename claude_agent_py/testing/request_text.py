"""The text of a request to the model, as readable lines that cassettes compare.

The CLI's reminders, its system prompt and the descriptions of its tools change with its version and are left out.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from claude_agent_py.testing.requests import RecordedRequest

_REMINDER: Final = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_NOTIFICATION: Final = re.compile(r"<task-notification>(.*?)</task-notification>", re.DOTALL)

_LAUNCHES: Final = (
    ("Async agent launched", "the subagent runs in the background"),
    ("Command running in background", "the command runs in the background"),
)
"""The beginnings of launch results and their replacements. The full texts contain paths."""


def name_conversation(request: RecordedRequest) -> str:
    """Return the name of the conversation: `main`, `side`, or the type and prompt of a subagent."""
    if request.conversation != "agent":
        return request.conversation
    return f"agent {request.agent_type or ''}: {request.prompt}"


def extract_lines(request: RecordedRequest) -> tuple[list[str], list[str]]:
    """Return the lines of all answers of the model so far, and the lines after the last answer."""
    answers: list[str] = []
    new: list[str] = []
    for message in request.messages:
        lines = list(_extract_message_lines(message))
        if message.get("role") == "assistant":
            answers += lines
            new = []
        else:
            new += lines
    return answers, new


def _extract_message_lines(message: Mapping[str, Any]) -> Iterator[str]:
    role = message.get("role")
    content = message.get("content")
    if role in ("user", "assistant"):
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            yield from _extract_block_lines(str(role), block)


def _extract_block_lines(role: str, block: Mapping[str, Any]) -> Iterator[str]:
    match block.get("type"):
        case "text":
            text = str(block.get("text", ""))
            for body in _NOTIFICATION.findall(text):
                yield f"notified: {_format_notification(body)}"
            if said := _REMINDER.sub("", text).strip():
                yield f"{role}: {said}"
        case "tool_use":
            arguments = json.dumps(block.get("input"), sort_keys=True, ensure_ascii=False)
            yield f"call {block.get('id')}: {block.get('name')} {arguments}"
        case "tool_result":
            failed = " failed" if block.get("is_error") else ""
            yield f"result {block.get('tool_use_id')}{failed}: {_format_result(block.get('content'))}"
        case "thinking" | "redacted_thinking":
            pass
        case other:
            yield f"{role}: [{other}]"


def _format_result(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = [str(part["text"]) if part.get("type") == "text" else f"[{part.get('type')}]" for part in parts]
    return shorten_result("\n".join(texts))


def shorten_result(text: str) -> str:
    """Return the text of a tool's result without reminders. The result of a launch becomes a short phrase."""
    text = _REMINDER.sub("", text).strip()
    return next((phrase for beginning, phrase in _LAUNCHES if text.startswith(beginning)), text)


def _format_notification(body: str) -> str:
    found = dict(re.findall(r"<(tool-use-id|status|result)>(.*?)</\1>", body, re.DOTALL))
    return " ".join(found.get(name, "") for name in ("tool-use-id", "status", "result")).strip()
