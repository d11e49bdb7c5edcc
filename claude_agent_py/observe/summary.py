"""`Summary`: totals of spans: time by kind, tokens and cost by model and agent, the slowest spans and the failures."""

import heapq
from typing import Final

import msgspec

from claude_agent_py.observe.spans import MAIN, TASK_KINDS, Span, SpanKind, Tokens

_MAX_LISTED: Final = 10
"""The maximum number of slow, and of failed, spans."""


class Used(msgspec.Struct, kw_only=True):
    """The usage of a model or an agent."""

    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    calls: int = 0
    """Model calls."""
    tools: int = 0
    """Tool calls, of an agent."""
    seen: Tokens = Tokens()
    """Tokens according to the messages."""
    told: Tokens = Tokens()
    """Tokens according to the results of turns."""

    def settle(self) -> None:
        """Choose the larger count: live messages lack most of their output tokens, and transcripts lack results."""
        self.tokens = self.told if self.told.total >= self.seen.total else self.seen


class Summary:
    """Totals of spans. The durations of parallel work are added up."""

    def __init__(self) -> None:
        self.count: int = 0
        self.start: float | None = None
        """When the first span began, in seconds since the epoch."""
        self.end: float | None = None
        self.cost_usd: float | None = None
        """US dollars, child agents included; None if the source has no cost."""
        self.seconds: dict[SpanKind, float] = {}
        """Seconds by kind."""
        self.counts: dict[SpanKind, int] = {}
        self.by_model: dict[str, Used] = {}
        """By model name. Tokens are the CLI's counts if it reported them, subagents included."""
        self.by_agent: dict[str, Used] = {}
        """By the id of the agent's task; `""` is the main agent. For subagents of a running session, only the input
        tokens are known."""
        self.names: dict[str, str] = {MAIN: "main"}
        """The names of the agents."""
        self.failures: int = 0
        self.failed: list[Span] = []
        """The first spans that failed or were denied, at most 10."""
        self._slow: list[tuple[float, int, Span]] = []

    def __repr__(self) -> str:
        cost = "" if self.cost_usd is None else f", {self.cost_usd:.4f} USD"
        return f"<Summary of {self.count} spans, {self.failures} failed or denied{cost}>"

    @property
    def slow(self) -> list[Span]:
        """The longest model calls, tool calls, questions and hooks, longest first, at most 10."""
        return [span for _, _, span in sorted(self._slow, reverse=True)]

    def add(self, span: Span) -> None:
        """Count a span."""
        self.count += 1
        self.counts[span.kind] = self.counts.get(span.kind, 0) + 1
        if span.start and (self.start is None or span.start < self.start):
            self.start = span.start
        last = span.end if span.end is not None else span.start
        if self.end is None or last > self.end:
            self.end = last
        self._add_time(span)
        if span.status in ("error", "denied"):
            self.failures += 1
            if len(self.failed) < _MAX_LISTED:
                self.failed.append(span)
        if span.kind in TASK_KINDS:
            self._add_task(span)
        if span.kind == "model":
            self._add_model_call(span)
        elif span.kind == "tool":
            self._agent(span.agent).tools += 1
        elif span.kind in ("run", "child") and span.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + span.cost_usd
        elif span.kind == "turn":
            self._add_turn(span)

    def _add_time(self, span: Span) -> None:
        seconds = span.duration or 0.0
        self.seconds[span.kind] = self.seconds.get(span.kind, 0.0) + seconds
        if span.kind in ("model", "tool", "waiting", "hook"):
            entry = (seconds, self.count, span)
            if len(self._slow) < _MAX_LISTED:
                heapq.heappush(self._slow, entry)
            else:
                heapq.heappushpop(self._slow, entry)

    def _add_task(self, span: Span) -> None:
        self.names[span.agent] = span.attributes.get("description") or span.name
        if span.cost_usd is not None:
            used = self._agent(span.agent)
            used.cost_usd = (used.cost_usd or 0.0) + span.cost_usd

    def _add_model_call(self, span: Span) -> None:
        for used in (self._agent(span.agent), self._model(span.name)):
            used.calls += 1
            used.seen += span.tokens or Tokens()
            used.settle()

    def _add_turn(self, span: Span) -> None:
        """Add the tokens and the cost by model, which only the CLI knows."""
        for model, spent in (span.attributes.get("models") or {}).items():
            used = self._model(model)
            used.cost_usd = (used.cost_usd or 0.0) + spent["cost_usd"]
            used.told += spent["tokens"] or Tokens()
            used.settle()
        if span.tokens is not None:
            main = self._agent(span.agent)
            main.told += span.tokens
            main.settle()

    def _model(self, name: str) -> Used:
        return self.by_model.setdefault(name, Used())

    def _agent(self, agent: str) -> Used:
        return self.by_agent.setdefault(agent, Used())
