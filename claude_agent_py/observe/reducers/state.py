"""`State`: the open spans of a session (run, turn, model calls, tool calls, tasks, requests), its clock and its ids."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from claude_agent_py.observe.open_spans import OpenSpan, SpanIds, Texts
from claude_agent_py.observe.spans import MAIN, Span, SpanStatus, Tokens
from claude_agent_py.tools.traffic import ToolTraffic
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage

_END_OF_TIME: Final = 1e11
"""Seconds since the epoch. A recording may contain any number, so later times are ignored."""


@dataclass(slots=True)
class Conversation:
    """The conversation of the main agent or a subagent."""

    asked_at: float | None = None
    """When the model got its latest input: a prompt or a result."""
    model: OpenSpan | None = None
    """The API message that is arriving."""


class State:
    """The state of a fold. See `SpanFold` for the arguments."""

    def __init__(self, on_end: Callable[[Span], object], max_chars: int) -> None:
        self.session_id: str = ""
        self.texts: Texts = Texts(max_chars)
        self.now: float = 0.0
        """The latest time seen, in seconds since the epoch."""
        self.is_dated: bool = False
        """Whether any message so far had a time."""
        self.run: OpenSpan | None = None
        self.runs: int = 0
        self.turns: int = 0
        """The number of reported turns of the run."""
        self.turn: OpenSpan | None = None
        self.problem: SpanStatus | None = None
        """The status of the turn according to its messages, if something went wrong."""
        self.spent: dict[str, tuple[Tokens, float]] = {}
        """The usage by model of turns without an answer, caused by finished subagents. It is added to the next turn."""
        self.sent: dict[str, tuple[UserMessage, float]] = {}
        self.started: list[str] = []
        """The prompts that the CLI has started since the last turn began."""
        self.conversations: dict[str, Conversation] = {}
        self.traffic: ToolTraffic = ToolTraffic()
        self.calls: dict[str, OpenSpan] = {}
        self.tasks: dict[str, OpenSpan] = {}
        self.foreground: dict[str, TaskStartedMessage] = {}
        """Foreground shells. They get no span unless they move to the background."""
        self.requests: dict[str, OpenSpan] = {}
        self.task_of_run: dict[str, str] = {}
        self.run_numbers: dict[str, int] = {}
        self.span_ids: SpanIds = SpanIds()
        self._on_end = on_end

    def advance(self, at: float | None) -> float:
        """Move the clock to a time and return it. If the time is unknown or invalid, return the latest time."""
        if at is None or not 0 <= at < _END_OF_TIME:
            return self.now
        if not self.is_dated:
            self._backdate(at)
        self.now = max(self.now, at)
        return at

    def _backdate(self, at: float) -> None:
        """Set the start of all open spans to the first known time."""
        self.is_dated = True
        self.sent = {key: (prompt, at) for key, (prompt, _) in self.sent.items()}
        for span in (self.run, self.turn, *self.requests.values(), *self.tasks.values()):
            if span is not None:
                span.start = at
        for conversation in self.conversations.values():
            conversation.asked_at = at

    def finish(self, span: OpenSpan) -> None:
        """Report a span under a unique id."""
        span.id = self.span_ids.add(span.id)
        self._on_end(span.to_span())

    def find_owner(self, agent: str) -> str | None:
        """Return the id of the span that encloses the work of an agent."""
        if agent != MAIN:
            task = self.tasks.get(agent)
            return agent if task is None else task.id
        return self.turn.id if self.turn is not None else None

    def conversation(self, agent: str) -> Conversation:
        """Return the conversation of an agent."""
        conversation = self.conversations.get(agent)
        if conversation is None:
            conversation = self.conversations[agent] = Conversation()
        return conversation

    def end_model(self, agent: str) -> None:
        """End the API message of an agent, if one is arriving."""
        conversation = self.conversations.get(agent)
        if conversation is None or conversation.model is None:
            return
        model, conversation.model = conversation.model, None
        model.attributes.pop("message_id", None)
        model.attributes["output"] = self.texts.shorten(model.attributes.get("output"))
        if not model.attributes["calls"]:
            del model.attributes["calls"]
        if model.attributes.get("stop_reason") is None and not model.attributes.pop("is_counted", False):
            model.attributes["output_tokens_so_far"] = True
        self.finish(model)
