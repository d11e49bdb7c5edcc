"""Count the usage of a child agent and keep its last text, from the messages of its session."""

from typing import Any

from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage
from claude_agent_py.wire.messages.tasks import TaskUsage
from claude_agent_py.wire.messages.usage import Usage


class ChildUsage:
    """The usage of one child. Its subagents are separate tasks with separate usage."""

    def __init__(self) -> None:
        self.last_text: str = ""
        """Its last message, even if it failed afterwards."""
        self.tool_uses: int = 0
        self._message_tokens: dict[str, float] = {}
        self._result_tokens = 0.0
        self._cost_usd = 0.0

    def add(self, message: Any) -> None:
        """Count a message of the child's session."""
        if isinstance(message, AssistantMessage) and not message.is_subagent:
            self.last_text = message.text or self.last_text
            self.tool_uses += len(message.tool_uses)
            self._message_tokens[message.message.id or message.uuid] = _count_tokens(message.message.usage)
        elif isinstance(message, ResultMessage):
            self._result_tokens += _count_tokens(message.usage)
            self._message_tokens.clear()
            self._cost_usd = float(message.total_cost_usd)

    def usage(self, seconds: float) -> TaskUsage:
        """Return the usage after `seconds` of work.

        `total_tokens` counts input and output of all model calls, including cached tokens; `cost_usd` includes
        subagents.
        """
        tokens = self._result_tokens + sum(self._message_tokens.values())
        return TaskUsage(
            total_tokens=int(tokens),
            tool_uses=self.tool_uses,
            duration_ms=int(seconds * 1000),
            cost_usd=self._cost_usd,
        )


def _count_tokens(usage: Usage | None) -> float:
    return 0.0 if usage is None else float(usage.total_tokens)
