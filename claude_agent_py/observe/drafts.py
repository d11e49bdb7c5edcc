"""`Draft`: a span that is still being folded, and what its fields are made of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from claude_agent_py._redaction import hide_secrets, without_secrets
from claude_agent_py.observe.spans import MAIN, Span, SpanKind, SpanStatus, Tokens
from claude_agent_py.tools.traffic import ToolCallStatus
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage
from claude_agent_py.wire.messages.usage import ModelUsage, Usage

NAME_CHARS: Final = 80
INTERRUPTED: Final = "[Request interrupted by user"
_SPACE: Final = re.compile(r"\s+")
STATUS_OF_CALL: Final[Mapping[ToolCallStatus, SpanStatus]] = {
    ToolCallStatus.SUCCEEDED: "ok",
    ToolCallStatus.FAILED: "error",
    ToolCallStatus.DENIED: "denied",
    ToolCallStatus.CANCELLED: "cancelled",
}
_TASK: Final[Mapping[TaskStatus, SpanStatus]] = {
    TaskStatus.COMPLETED: "ok",
    TaskStatus.FAILED: "error",
    TaskStatus.STOPPED: "cancelled",
}


@dataclass(slots=True)
class Draft:
    """A span that is not over. See `Span` for the fields."""

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

    def span(self) -> Span:
        """Return it as it is now."""
        end = None if self.end is None or self.status == "running" else max(self.start, self.end)
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


class Seen:
    """The ids of the latest spans: at least `limit` of them, at most twice as many."""

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._new: dict[str, int] = {}
        """How often each was taken."""
        self._old: dict[str, int] = {}

    def __contains__(self, span_id: object) -> bool:
        return span_id in self._new or span_id in self._old

    def add(self, span_id: str) -> str:
        """Add an id, or one with a number if there was one like it, and return it."""
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

    def of(self, text: str | None) -> str | None:
        """Return what is kept of a text."""
        if not text or not self.limit:
            return None
        kept = hide_secrets(text[: self.limit + 64])  # a key at the cut is seen whole
        return kept if len(text) <= self.limit else f"{kept[: self.limit]}... [{len(text)} characters]"

    def json(self, value: Any) -> str | None:
        """Return what is kept of JSON, as text."""
        if not value or not self.limit:
            return None
        return self.of(value if isinstance(value, str) else msgspec.json.encode(without_secrets(value)).decode())

    def line(self, text: str) -> str:
        """Return the start of a text in one line, for a name; empty if texts are dropped."""
        if not self.limit:
            return ""
        line = _SPACE.sub(" ", hide_secrets(text[: NAME_CHARS * 2])).strip()
        return line if len(line) <= NAME_CHARS else f"{line[: NAME_CHARS - 1]}…"


def tokens_of(usage: Usage | ModelUsage | None) -> Tokens | None:
    """Return the tokens of a usage."""
    if usage is None:
        return None
    return Tokens(
        input=_count(usage.input_tokens),
        output=_count(usage.output_tokens),
        cache_read=_count(usage.cache_read_input_tokens),
        cache_write=_count(usage.cache_creation_input_tokens),
    )


def most(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    """Return the larger of two counts of one message."""
    if one is None or other is None:
        return one or other
    return other if other.total >= one.total else one


def _count(number: float | None) -> int:
    return int(number) if number is not None and 0 <= number < 2**53 else 0


def status_of_task(status: TaskStatus | None) -> SpanStatus:
    """Return the status of a task."""
    return "running" if status is None else _TASK.get(status, "running")


def note_usage(draft: Draft, usage: TaskUsage | None) -> None:
    """Add what a task used to its attributes."""
    if usage is not None:
        known = {"tool_uses": usage.tool_uses, "total_tokens": usage.total_tokens}
        draft.attributes |= {key: _count(value) for key, value in known.items() if value}
        draft.cost_usd = usage.cost_usd if usage.cost_usd is not None else draft.cost_usd
