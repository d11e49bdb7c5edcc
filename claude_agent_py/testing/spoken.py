"""What a request to the model says, as lines that people read and cassettes compare.

The CLI's own reminders, its system prompt and its tools' descriptions change from version to version and are left out.
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
"""How the results of launches begin, and what is said instead: the rest is for the model, and full of paths."""


def conversation_of(request: RecordedRequest) -> str:
    """Return the name of the conversation: `main`, `side`, or how a subagent was asked."""
    if request.conversation != "agent":
        return request.conversation
    return f"agent {request.agent_type or ''}: {request.prompt}"


def spoken(request: RecordedRequest) -> tuple[list[str], list[str]]:
    """Return the lines of all answers of the model so far, and those of what came after the last one."""
    answers: list[str] = []
    new: list[str] = []
    for message in request.messages:
        lines = list(_lines(message))
        if message.get("role") == "assistant":
            answers, new = answers + lines, []
        else:
            new += lines
    return answers, new


def _lines(message: Mapping[str, Any]) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role in ("user", "assistant"):
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            yield from _line(str(role), block)


def _line(role: str, block: Mapping[str, Any]) -> Iterator[str]:
    match block.get("type"):
        case "text":
            text = str(block.get("text", ""))
            for body in _NOTIFICATION.findall(text):
                yield f"notified: {_notification(body)}"
            if said := _REMINDER.sub("", text).strip():
                yield f"{role}: {said}"
        case "tool_use":
            arguments = json.dumps(block.get("input"), sort_keys=True, ensure_ascii=False)
            yield f"call {block.get('id')}: {block.get('name')} {arguments}"
        case "tool_result":
            failed = " failed" if block.get("is_error") else ""
            yield f"result {block.get('tool_use_id')}{failed}: {_result(block.get('content'))}"
        case "thinking" | "redacted_thinking":
            pass
        case other:
            yield f"{role}: [{other}]"


def _result(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = [str(part["text"]) if part.get("type") == "text" else f"[{part.get('type')}]" for part in parts]
    return shown_result("\n".join(texts))


def shown_result(text: str) -> str:
    """Return the text of a tool's result without reminders, and that of a launch in a few words."""
    text = _REMINDER.sub("", text).strip()
    return next((told for begin, told in _LAUNCHES if text.startswith(begin)), text)


def _notification(body: str) -> str:
    found = dict(re.findall(r"<(tool-use-id|status|result)>(.*?)</\1>", body, re.DOTALL))
    return " ".join(found.get(name, "") for name in ("tool-use-id", "status", "result")).strip()
