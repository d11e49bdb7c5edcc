"""`OpenSpan`: a span that is still being built, and conversions for its fields."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from claude_agent_py._base.redaction import find_secrets, hide_secrets, hide_values, without_secrets
from claude_agent_py._journal.facts import MAIN, Tokens, ToolCallStatus
from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py.observe.spans import Span, SpanKind, SpanStatus, describe_usage, only_known
from claude_agent_py.wire.base import JSONObject

NAME_CHARS: Final = 80
"""The length of a name that is the start of a text."""
MAX_NAME_CHARS: Final = 200
"""The maximum length of the other names, which a model may invent, such as those of tools."""
MAX_SECRET_CHARS: Final = 512
"""The maximum length of a secret that is recognised also if it is cut."""
CALL_STATUSES: Final[Mapping[ToolCallStatus, SpanStatus]] = {
    ToolCallStatus.SUCCEEDED: "ok",
    ToolCallStatus.FAILED: "error",
    ToolCallStatus.DENIED: "denied",
    ToolCallStatus.CANCELLED: "cancelled",
}


class OpenSpan(msgspec.Struct):
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
    attributes: JSONObject = {}
    links: tuple[str, ...] = ()

    def to_span(self) -> Span:
        """Return a snapshot."""
        fields = msgspec.structs.asdict(self)
        fields["name"] = self.name[:MAX_NAME_CHARS]
        fields["attributes"] = only_known(self.attributes)
        if self.end is not None:
            fields["end"] = None if self.status == "running" else max(self.start, self.end)
        return Span(**fields)


@dataclass(slots=True)
class Texts:
    """Cuts texts to `limit` characters and hides secrets in them; a limit of 0 drops them.

    `secrets` are the values that are secrets whatever they look like, by default those of the environment.
    """

    limit: int
    secrets: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.secrets is None and self.limit:
            self.secrets = find_secrets(os.environ)

    def shorten(self, text: str | None) -> str | None:
        """Return a text cut to the limit, without secrets. None if nothing is left."""
        if not text or not self.limit:
            return None
        kept = self._cut(text, self.limit)
        return kept if len(text) <= self.limit else f"{kept}... [{len(text)} characters]"

    def shorten_json(self, value: object) -> str | None:
        """Return JSON as text, cut to the limit, without secrets. None if nothing is left."""
        if not value or not self.limit:
            return None
        text = value if isinstance(value, str) else msgspec.json.encode(without_secrets(value)).decode()
        return self.shorten(text)

    def to_line(self, text: str) -> str:
        """Return the start of a text in one line, for a name; empty if texts are dropped."""
        if not self.limit:
            return ""
        line = " ".join(self._cut(text, NAME_CHARS * 2).split())
        return line if len(line) <= NAME_CHARS else f"{line[: NAME_CHARS - 1]}…"

    def _cut(self, text: str, limit: int) -> str:
        """Return the start of a text without secrets.

        A secret that is cut is not recognised, so the end of what was looked at is not shown.
        """
        hidden = hide_secrets(hide_values(text[: limit + MAX_SECRET_CHARS], (self.secrets or {}).items()))
        unseen = min(max(0, len(text) - limit), MAX_SECRET_CHARS)
        return hidden[: min(limit, len(hidden) - unseen)] if unseen else hidden


def pick_larger(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    """Return the larger of two counts for the same message."""
    if one is None or other is None:
        return one or other
    return other if other.total >= one.total else one


def describe_end(outcome: TaskOutcome, texts: Texts) -> JSONObject:
    """Return the attributes of a task's span about its end. One without a value replaces an earlier one."""
    error = outcome.failure_reason
    return {
        "output": texts.shorten(outcome.summary) if outcome.summary != error else None,
        "error": texts.shorten(error),
        **describe_usage(outcome),
    }
