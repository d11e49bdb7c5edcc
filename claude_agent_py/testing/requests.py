"""`RecordedRequest`: a request that the CLI sent to the scripted model, with properties to read it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from claude_agent_py.wire import JSONObject

Conversation = Literal["main", "agent", "side"]

CONVERSATIONS: Mapping[str, Conversation] = {"main": "main", "subagent": "agent", "workflow": "agent"}
"""The CLI's class of a request, and the conversation it belongs to. Every other class is `side`."""


@dataclass(frozen=True)
class RecordedRequest:
    """One `POST /v1/messages`, as the CLI sent it."""

    body: Mapping[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    index: int = 0
    """Position in `ScriptedModel.requests`."""
    agent: str = "main"
    """The script that answered: `main`, the key of an agent or session, `agent` for a subagent without its own script,
    or `side` for a request outside the conversations (a summary, a title, a prompt hook)."""

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        """Whether the request asks for an event stream."""
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> list[JSONObject]:
        """The messages, with the roles `user`, `assistant` and (a peculiarity of the CLI) `system`."""
        return list(self.body.get("messages") or [])

    @property
    def tools(self) -> list[JSONObject]:
        """The tools that the model may call."""
        return list(self.body.get("tools") or [])

    @property
    def tool_names(self) -> list[str]:
        """The names of `tools`."""
        return [str(tool.get("name", "")) for tool in self.tools]

    @cached_property
    def system(self) -> str:
        """The system prompt, its blocks joined by blank lines."""
        return "\n\n".join(_get_texts(self.body.get("system")))

    @cached_property
    def prompt(self) -> str:
        """The first user message of the conversation, without the CLI's reminders."""
        for message in self.messages:
            if message.get("role") == "user":
                spoken = _get_spoken_texts(message)
                if spoken:
                    return "\n".join(spoken)
        return ""

    @cached_property
    def last_user_text(self) -> str:
        """The text of the last user message, without reminders; empty if it has only tool results.

        Feedback of a stop hook is included, although CLI 2.1.332 sends it as a reminder.
        """
        users = [message for message in self.messages if message.get("role") == "user"]
        return "\n".join(_get_spoken_texts(users[-1])) if users else ""

    @cached_property
    def tool_results(self) -> list[JSONObject]:
        """The `tool_result` blocks of the last user message that has any, in order."""
        for message in reversed(self.messages):
            found = [block for block in _get_blocks(message.get("content")) if block.get("type") == "tool_result"]
            if found:
                return found
        return []

    def tool_result(self, tool_use_id: str) -> JSONObject | None:
        """Return the result of a tool call anywhere in the conversation, or None."""
        for message in self.messages:
            for block in _get_blocks(message.get("content")):
                if block.get("type") == "tool_result" and block.get("tool_use_id") == tool_use_id:
                    return block
        return None

    def contains(self, text: str) -> bool:
        """Return whether a text occurs in the system prompt or the messages."""
        return text in self.system or any(text in said for message in self.messages for said in _iterate_texts(message))

    @property
    def agent_id(self) -> str | None:
        """The id of the subagent that sent the request, which is its task id; None for the main conversation."""
        return self.headers.get("x-claude-code-agent-id")

    @property
    def agent_type(self) -> str | None:
        """The `subagent_type` of the subagent that sent the request."""
        return self.headers.get("x-claude-code-agent-type")

    @property
    def session_id(self) -> str:
        """The id of the session that sent the request."""
        return self.headers.get("x-claude-code-session-id", "")

    @property
    def request_class(self) -> str:
        """The CLI's class of the request: `main`, `subagent`, `workflow`, `compaction`, `auxiliary`, ...

        Empty unless the CLI runs with `CLAUDE_CODE_GATEWAY_HINT_HEADERS`, as in `ScriptedModel.environment()`.
        """
        return self.headers.get("x-claude-code-request-class", "")

    @cached_property
    def conversation(self) -> Conversation:
        """The sender: the main agent, a subagent, or (`side`) the CLI itself."""
        if self.request_class:
            return CONVERSATIONS.get(self.request_class, "side")
        return "agent" if self.agent_id is not None or "cc_is_subagent=true" in self.system else "main"

    @cached_property
    def position(self) -> tuple[int, str]:
        """The position in the conversation. A retry has the same position."""
        spoken = [message for message in self.messages if message.get("role") != "system"]
        return len(spoken), self.last_user_text


def _get_blocks(content: object) -> list[JSONObject]:
    """Return content as blocks; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _get_texts(content: object) -> list[str]:
    return [str(block.get("text", "")) for block in _get_blocks(content) if block.get("type") == "text"]


def _get_spoken_texts(message: Mapping[str, object]) -> list[str]:
    texts = _get_texts(message.get("content"))
    return [said for said in map(_remove_reminders, texts) if said.strip()]


def _remove_reminders(text: str) -> str:
    """Return a text without reminders, but with the text of hooks in them."""
    kept, found = _REMINDER.subn(_keep_hook_text, text)
    return kept.strip() if found else text


def _keep_hook_text(reminder: re.Match[str]) -> str:
    hook = _HOOK_TEXT.fullmatch(reminder[1])
    return f"\n{hook[1].strip()}\n" if hook else ""


def _iterate_texts(message: Mapping[str, object]) -> Iterator[str]:
    yield from _get_texts(message.get("content"))
    for block in _get_blocks(message.get("content")):
        yield from _get_texts(block.get("content"))


_REMINDER: Final = re.compile(r"\s*<system-reminder>(.*?)</system-reminder>\s*", re.DOTALL)
_HOOK_TEXT: Final = re.compile(r"\s*The text below is the output of a hook[^\n]*\n(.*)", re.DOTALL)
"""A reminder with the text of a hook that starts another request, such as a stop hook's feedback. Older CLIs than
2.1.332 send only the text."""
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


def _extract_message_lines(message: Mapping[str, object]) -> Iterator[str]:
    role = message.get("role")
    if role in ("user", "assistant"):
        for block in _get_blocks(message.get("content")):
            yield from _extract_block_lines(str(role), block)


def _extract_block_lines(role: str, block: Mapping[str, object]) -> Iterator[str]:
    match block.get("type"):
        case "text":
            text = str(block.get("text", ""))
            for body in _NOTIFICATION.findall(text):
                yield f"notified: {_format_notification(body)}"
            said = _remove_reminders(text).strip()
            if said:
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


def _format_result(content: object) -> str:
    parts = _get_blocks(content)
    texts = [str(part["text"]) if part.get("type") == "text" else f"[{part.get('type')}]" for part in parts]
    return shorten_result("\n".join(texts))


def shorten_result(text: str) -> str:
    """Return the text of a tool's result without reminders. The result of a launch becomes a short phrase."""
    text = _remove_reminders(text).strip()
    return next((phrase for beginning, phrase in _LAUNCHES if text.startswith(beginning)), text)


def _format_notification(body: str) -> str:
    found = dict(re.findall(r"<(tool-use-id|status|result)>(.*?)</\1>", body, re.DOTALL))
    return " ".join(found.get(name, "") for name in ("tool-use-id", "status", "result")).strip()
