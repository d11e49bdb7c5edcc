"""`Span`: one piece of work of a session; the log that keeps them in bounded memory; and the summary of all of them."""

import heapq
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from claude_agent_py._journal.fact_base import MAIN, Spent, Tokens as Tokens
from claude_agent_py._journal.tasks.events import TaskFinished, TaskRevised
from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py._journal.tasks.spending import read_count, subtract_costs
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.tasks import TaskStatus

SpanKind: TypeAlias = Literal["run", "turn", "model", "tool", "waiting", "hook", "subagent", "task", "child"]
"""`run`: a prompt and all turns up to the next prompt. `turn`: from its start up to a `result`. `model`: one API
message. `tool`: a tool call. `waiting`: a question to a person or to a permission handler. `hook`: a hook that ran.
`subagent`, `child`: an agent inside the CLI, and one in a separate process. `task`: any other background task, such as
a shell."""

SpanStatus: TypeAlias = Literal["ok", "error", "denied", "cancelled", "running"]
"""`running` is also the status of work whose end the source does not contain."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work. Two spans are equal if all their fields are."""

    id: str
    """The CLI's id of the tool call, API message or task; otherwise a made-up id."""
    kind: SpanKind
    name: str
    """The tool, the model, the agent, the event of a hook, or the first line of a prompt."""
    parent: str | None = None
    """The id of the enclosing span. None for runs and for background tasks, which outlive their run."""
    agent: str = MAIN
    """The agent that did the work: the id of its task, or `""` for the main agent."""
    start: float = 0.0
    """Seconds since the epoch."""
    end: float | None = None
    """Seconds since the epoch; None while it runs, or if the source does not contain its end."""
    status: SpanStatus = "running"
    tokens: Tokens | None = None
    """For a `model` span, the tokens of its API message; for a `turn`, the main agent's tokens as counted by the CLI.
    A live message reports only the output tokens of its start; it has the attribute `output_tokens_so_far`."""
    cost_usd: float | None = None
    """The cost in US dollars, as estimated by the CLI; None if the source has no cost."""
    attributes: JSONObject = {}
    """Other fields, as JSON values. Texts (`prompt`, `input`, `output`, ...) are shortened, and secrets are removed."""
    links: tuple[str, ...] = ()
    """The ids of spans that caused it without being its parent: for a background task, the call that launched it; for a
    turn, the finished tasks that it responds to."""

    @property
    def duration(self) -> float | None:
        """Seconds from start to end, or None without an end."""
        return None if self.end is None else max(0.0, self.end - self.start)

    @property
    def is_background(self) -> bool:
        """Whether it is a background task, which continues after the turn that started it."""
        return self.kind in TASK_KINDS and self.parent is None


TASK_KINDS: Final = frozenset({"subagent", "task", "child"})
"""The kinds that have a separate lane in the timeline."""
TASK_STATUSES: Final[Mapping[TaskStatus, SpanStatus]] = {
    TaskStatus.COMPLETED: "ok",
    TaskStatus.FAILED: "error",
    TaskStatus.STOPPED: "cancelled",
}
"""The statuses of the spans of tasks that have ended."""
_FAILED: Final = frozenset({"error", "denied"})


def by_start(spans: Iterable[Span]) -> list[Span]:
    """Return spans ordered by start time, parents before their children."""
    rank = {"run": 0, "turn": 1}
    return sorted(spans, key=lambda span: (span.start, rank.get(span.kind, 2), -(span.end or float("inf"))))


_MAX_LISTED: Final = 10
"""The maximum number of slow, and of failed, spans."""


class Used(msgspec.Struct, kw_only=True):
    """The usage of a model or an agent."""

    cost_usd: float | None = None
    """US dollars; None if the source has no cost. The CLI reports it by model. Subagents that have ended have the cost
    of their tokens, and the main agent has the rest; None if a price is unknown."""
    calls: int = 0
    """Model calls."""
    tools: int = 0
    """Tool calls, of an agent."""
    from_messages: Tokens = Tokens()
    """Tokens according to the messages."""
    from_results: Tokens = Tokens()
    """Tokens according to the results of turns."""

    @property
    def tokens(self) -> Tokens:
        """The larger count: live messages lack most of their output tokens, and transcripts lack results."""
        return max(self.from_results, self.from_messages, key=lambda tokens: tokens.total)


class Summary(msgspec.Struct, kw_only=True, eq=False):
    """Totals of spans. The durations of parallel work are added up."""

    count: int = 0
    start: float | None = None
    """When the first span began, in seconds since the epoch."""
    end: float | None = None
    cost_usd: float | None = None
    """US dollars, child agents included; None if the source has no cost."""
    seconds: dict[SpanKind, float] = {}
    """Seconds by kind."""
    counts: dict[SpanKind, int] = {}
    by_model: dict[str, Used] = {}
    """By model name. Tokens are the CLI's counts if it reported them, subagents included."""
    names: dict[str, str] = msgspec.field(default_factory=lambda: {MAIN: "main"})
    """The names of the agents."""
    failures: int = 0
    failed: list[Span] = []
    """The first spans that failed or were denied, at most 10."""
    _slow: list[tuple[float, int, Span]] = []
    _agents: dict[str, Used] = {}
    """By agent, without what was counted for tasks."""
    _tasks: dict[str, tuple[str, float | None, Tokens, bool]] = {}
    """By the id of a task's run: the agent, its cost and tokens if known, and whether the CLI's costs include them."""

    def __repr__(self) -> str:
        cost = "" if self.cost_usd is None else f", {self.cost_usd:.4f} USD"
        return f"<Summary of {self.count} spans, {self.failures} failed or denied{cost}>"

    @property
    def by_agent(self) -> dict[str, Used]:
        """By the id of the agent's task; `""` is the main agent. What `RunResult.usage_by_agent` shows by name."""
        found = {agent: msgspec.structs.replace(used) for agent, used in self._agents.items()}
        for agent, cost, tokens, _ in self._tasks.values():
            used = found.setdefault(agent, Used())
            used.from_results += tokens
            used.cost_usd = cost if used.cost_usd is None else used.cost_usd + (cost or 0.0)
        costs = [used.cost_usd for used in self.by_model.values() if used.cost_usd is not None]
        if costs:
            inside = (cost for _, cost, _, is_inside in self._tasks.values() if is_inside)
            found.setdefault(MAIN, Used()).cost_usd = subtract_costs(sum(costs), inside)
        return found

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
        self._add_failure(span)
        if span.kind in TASK_KINDS:
            self.add_task(span)
        if span.kind == "model":
            self._add_model_call(span)
        elif span.kind == "tool":
            self._agent(span.agent).tools += 1
        elif span.kind in ("run", "child") and span.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + span.cost_usd
        elif span.kind == "turn":
            self._add_turn(span)

    def _add_failure(self, span: Span) -> None:
        if span.status in _FAILED:
            self.failures += 1
            if len(self.failed) < _MAX_LISTED:
                self.failed.append(span)

    def revise(self, old: Span, new: Span) -> None:
        """Count the span of a task again, whose end was corrected."""
        self.failures -= old.status in _FAILED
        self.failed = [span for span in self.failed if span is not old]
        self._add_failure(new)
        if new.kind == "child" and new.cost_usd != old.cost_usd:
            self.cost_usd = (self.cost_usd or 0.0) - (old.cost_usd or 0.0) + (new.cost_usd or 0.0)
        self.add_task(new)

    def _add_time(self, span: Span) -> None:
        seconds = span.duration or 0.0
        self.seconds[span.kind] = self.seconds.get(span.kind, 0.0) + seconds
        if span.kind in ("model", "tool", "waiting", "hook"):
            entry = (seconds, self.count, span)
            if len(self._slow) < _MAX_LISTED:
                heapq.heappush(self._slow, entry)
            else:
                heapq.heappushpop(self._slow, entry)

    def add_task(self, span: Span) -> None:
        """Count the usage of a task, or count it again once it is known better."""
        self.names[span.agent] = span.attributes.get("description") or span.name
        models = span.attributes.get("models") or {}
        tokens = sum((Spent(**spent).tokens for spent in models.values()), Tokens())
        if span.cost_usd is not None or tokens.total:
            self._tasks[span.id] = (span.agent, span.cost_usd, tokens, span.kind != "child")

    def _add_model_call(self, span: Span) -> None:
        for used in (self._agent(span.agent), self._model(span.name)):
            used.calls += 1
            used.from_messages += span.tokens or Tokens()

    def _add_turn(self, span: Span) -> None:
        """Add the tokens and the cost by model, which only the CLI knows."""
        models = span.attributes.get("models") or {}
        self.add_costs({model: Spent(**spent) for model, spent in models.items()})
        if span.tokens is not None:
            self._agent(span.agent).from_results += span.tokens

    def add_costs(self, models: Mapping[str, Spent]) -> None:
        """Add the tokens and the cost by model."""
        for model, spent in models.items():
            used = self._model(model)
            used.cost_usd = (used.cost_usd or 0.0) + spent.cost_usd
            used.from_results += spent.tokens

    def _model(self, name: str) -> Used:
        return self.by_model.setdefault(name, Used())

    def _agent(self, agent: str) -> Used:
        return self._agents.setdefault(agent, Used())


def describe_usage(outcome: TaskOutcome) -> JSONObject:
    """Return the attributes of a task's span about its usage. Counts that are 0 or unknown are None."""
    names = ("tool_uses", "total_tokens", "uncounted_tokens")
    found: JSONObject = {name: read_count(getattr(outcome.usage, name, None)) or None for name in names}
    if outcome.models:
        found["models"] = {model: msgspec.structs.asdict(spent) for model, spent in outcome.models.items()}
    return found


def only_known(attributes: Mapping[str, object]) -> JSONObject:
    """Return the attributes that have a value."""
    return {key: value for key, value in attributes.items() if value not in (None, "")}


MAX_SPANS: Final = 50_000
_FRAME: Final = frozenset({"run", "turn", *TASK_KINDS})


class SpanLog:
    """Collects at most `max_spans` spans. Beyond that, the shortest calls, answers and hooks are dropped first.

    Runs, turns, tasks and failures are dropped last. The summary counts all spans.
    """

    def __init__(self, max_spans: int = MAX_SPANS) -> None:
        self.summary: Summary = Summary()
        self.dropped: int = 0
        """The number of dropped spans."""
        self._max = max(2, max_spans)
        self._spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Add a span."""
        self.summary.add(span)
        self._spans.append(span)
        if len(self._spans) > self._max:
            self._thin_out()

    def revise(self, fact: TaskFinished | TaskRevised, attributes: Mapping[str, object]) -> None:
        """Correct the span of a task that was added before its usage had been counted, or its end reported."""
        usage, status = fact.outcome.usage, TASK_STATUSES.get(fact.outcome.status)
        for index in range(len(self._spans) - 1, -1, -1):
            span = self._spans[index]
            if span.id == fact.id and span.kind in TASK_KINDS:
                self._spans[index] = revised = msgspec.structs.replace(
                    span,
                    status=status or span.status,
                    cost_usd=span.cost_usd if usage is None else usage.cost_usd,
                    attributes=only_known({**span.attributes, **attributes}),
                )
                self.summary.revise(span, revised)
                return

    @property
    def spans(self) -> list[Span]:
        """The remaining spans, ordered by start time."""
        return by_start(self._spans)

    def _thin_out(self) -> None:
        """Drop the shorter half of the minor spans and, if these are few, the oldest quarter of the limit."""
        minor = [span for span in self._spans if span.kind not in _FRAME and span.status in ("ok", "running")]
        minor.sort(key=lambda span: span.duration or 0.0)
        out = {span.id for span in minor[: max(len(minor) // 2, 1)]}
        # Each pass costs time in the number of spans, so it must free enough room to be rare.
        if len(out) < self._max // 8:
            out |= {span.id for span in self._spans[: self._max // 4]}
        kept = [span for span in self._spans if span.id not in out]
        self.dropped += len(self._spans) - len(kept)
        self._spans = kept
