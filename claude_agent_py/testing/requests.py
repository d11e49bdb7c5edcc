"""`RecordedRequest`: a request that the CLI sent to the scripted model, with properties to read it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

REMINDER = "<system-reminder>"

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
    def messages(self) -> list[dict[str, Any]]:
        """The messages, with the roles `user`, `assistant` and (a peculiarity of the CLI) `system`."""
        return list(self.body.get("messages") or [])

    @property
    def tools(self) -> list[dict[str, Any]]:
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
        """The text of the last user message, without reminders; empty if it has only tool results."""
        users = [message for message in self.messages if message.get("role") == "user"]
        return "\n".join(_get_spoken_texts(users[-1])) if users else ""

    @cached_property
    def tool_results(self) -> list[dict[str, Any]]:
        """The `tool_result` blocks of the last user message that has any, in order."""
        for message in reversed(self.messages):
            found = [block for block in _get_blocks(message) if block.get("type") == "tool_result"]
            if found:
                return found
        return []

    def tool_result(self, tool_use_id: str) -> dict[str, Any] | None:
        """Return the result of a tool call anywhere in the conversation, or None."""
        for message in self.messages:
            for block in _get_blocks(message):
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
    def parent_agent_id(self) -> str | None:
        """The id of the subagent that launched this one; None if the main agent did."""
        return self.headers.get("x-claude-code-parent-agent-id")

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


def _get_texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [str(block.get("text", "")) for block in content if isinstance(block, dict) and block.get("type") == "text"]


def _get_blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _get_spoken_texts(message: Mapping[str, Any]) -> list[str]:
    return [said for said in _get_texts(message.get("content")) if not said.lstrip().startswith(REMINDER)]


def _iterate_texts(message: Mapping[str, Any]) -> Iterator[str]:
    yield from _get_texts(message.get("content"))
    for block in _get_blocks(message):
        yield from _get_texts(block.get("content"))
