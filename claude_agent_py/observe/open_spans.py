"""`OpenSpan`: a span that is still being built, and conversions for its fields."""

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
