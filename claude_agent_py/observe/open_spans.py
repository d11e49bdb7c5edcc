"""`OpenSpan`: a span that is still being built, and conversions for its fields."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from claude_agent_py._redaction import hide_secrets, without_secrets
from claude_agent_py.observe.spans import MAIN, Span, SpanKind, SpanStatus, Tokens
from claude_agent_py.tools.traffic import ToolCallStatus, ToolTraffic
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage, TaskStatus, TaskUsage
from claude_agent_py.wire.messages.usage import ModelUsage, Usage

NAME_CHARS: Final = 80
INTERRUPTED: Final = "[Request interrupted by user"
_SPACE: Final = re.compile(r"\s+")
CALL_STATUSES: Final[Mapping[ToolCallStatus, SpanStatus]] = {
    ToolCallStatus.SUCCEEDED: "ok",
    ToolCallStatus.FAILED: "error",
    ToolCallStatus.DENIED: "denied",
    ToolCallStatus.CANCELLED: "cancelled",
}
_TASK_STATUSES: Final[Mapping[TaskStatus, SpanStatus]] = {
    TaskStatus.COMPLETED: "ok",
    TaskStatus.FAILED: "error",
    TaskStatus.STOPPED: "cancelled",
}


@dataclass(slots=True)
class OpenSpan:
    """A span that has not ended. See `Span` for the fields."""

    id: str
    kind: SpanKind
    name: str
    start: float
    parent: str | None = None
    agent: str = MAIN
    end: float | None = None
    status: SpanStatus = "running"
    tokens: Tokens | None = None
    cost_usd: float | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    links: tuple[str, ...] = ()

    def to_span(self) -> Span:
        """Return a snapshot."""
        end = None
        if self.end is not None and self.status != "running":
            end = max(self.start, self.end)
        return Span(
            id=self.id,
            kind=self.kind,
            name=self.name,
            parent=self.parent,
            agent=self.agent,
            start=self.start,
            end=end,
            status=self.status,
            tokens=self.tokens,
            cost_usd=self.cost_usd,
            attributes={key: value for key, value in self.attributes.items() if value not in (None, "")},
            links=self.links,
        )


class SpanIds:
    """The ids of the latest spans: at least `limit` of them, at most twice as many."""

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._new: dict[str, int] = {}
        """How often each id was added."""
        self._old: dict[str, int] = {}

    def __contains__(self, span_id: object) -> bool:
        return span_id in self._new or span_id in self._old

    def add(self, span_id: str) -> str:
        """Add an id and return it. A number is appended to an id that was already added."""
        if len(self._new) >= self._limit:
            self._new, self._old = {}, self._new
        count = self._new.get(span_id) or self._old.get(span_id) or 0
        unique = span_id
        while unique in self:
            count += 1
            unique = f"{span_id}#{count}"
        if unique != span_id:
            self._new[span_id] = count
        self._new[unique] = 1
        return unique


@dataclass(slots=True)
class Texts:
    """Cuts texts to `limit` characters and hides secrets in them; a limit of 0 drops them."""

    limit: int

    def shorten(self, text: str | None) -> str | None:
        """Return a text cut to the limit, without secrets. None if nothing is left."""
        if not text or not self.limit:
            return None
        # A key that is cut in half is not recognised as a secret, so look a little beyond the limit.
        kept = hide_secrets(text[: self.limit + 64])
        if len(text) <= self.limit:
            return kept
        return f"{kept[: self.limit]}... [{len(text)} characters]"

    def shorten_json(self, value: Any) -> str | None:
        """Return JSON as text, cut to the limit, without secrets. None if nothing is left."""
        if not value or not self.limit:
            return None
        text = value if isinstance(value, str) else msgspec.json.encode(without_secrets(value)).decode()
        return self.shorten(text)

    def to_line(self, text: str) -> str:
        """Return the start of a text in one line, for a name; empty if texts are dropped."""
        if not self.limit:
            return ""
        line = _SPACE.sub(" ", hide_secrets(text[: NAME_CHARS * 2])).strip()
        return line if len(line) <= NAME_CHARS else f"{line[: NAME_CHARS - 1]}…"


def read_tokens(usage: Usage | ModelUsage | None) -> Tokens | None:
    """Convert the usage of a message or a model."""
    if usage is None:
        return None
    return Tokens(
        input=_count(usage.input_tokens),
        output=_count(usage.output_tokens),
        cache_read=_count(usage.cache_read_input_tokens),
        cache_write=_count(usage.cache_creation_input_tokens),
    )


def pick_larger(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    """Return the larger of two counts for the same message."""
    if one is None or other is None:
        return one or other
    return other if other.total >= one.total else one


def _count(number: float | None) -> int:
    return int(number) if number is not None and 0 <= number < 2**53 else 0


def convert_task_status(status: TaskStatus | None) -> SpanStatus:
    """Convert the status of a task to the status of its span."""
    if status is None:
        return "running"
    return _TASK_STATUSES.get(status, "running")


def add_usage(span: OpenSpan, usage: TaskUsage | None) -> None:
    """Add the usage of a task to the attributes of its span."""
    if usage is not None:
        known = {"tool_uses": usage.tool_uses, "total_tokens": usage.total_tokens}
        span.attributes |= {key: _count(value) for key, value in known.items() if value}
        if usage.cost_usd is not None:
            span.cost_usd = usage.cost_usd


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
