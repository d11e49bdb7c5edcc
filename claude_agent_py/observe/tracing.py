"""`Tracer`: the spans of a running session as spans and metrics of OpenTelemetry.

A turn is an `invoke_agent` span in the trace that was current when its prompt was sent. Calls of the model and of
tools, hooks, questions, and subagents that are waited for are below it. A background task has a trace of its own, with
a link to the call that launched it: it may go on for hours after the turn is over.

A span is started when it ends, with its own times, or when the first one below it does.
"""

from typing import Any, Final

from opentelemetry import context as contexts, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode

from claude_agent_py._version import __version__
from claude_agent_py.observe.conventions import PROVIDER, attributes_of, name_of, operation_of
from claude_agent_py.observe.fold import MAX_CHARS, SpanFold
from claude_agent_py.observe.spans import MAIN, TASK_KINDS, Span
from claude_agent_py.observe.watching import Observer
from claude_agent_py.wire.messages.conversation import UserMessage

NAME: Final = "claude_agent_py"
_MOST: Final = 10_000
"""How many ended spans are remembered, as parents and for links."""
_TOKEN_BUCKETS: Final = [1.0, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
_ABOVE: Final = frozenset({"turn", "tool", *TASK_KINDS})
"""Kinds that others are below, or linked to."""
_NAMED: Final = {"model": "gen_ai.request.model", "tool": "gen_ai.tool.name"}
_FAILED: Final = frozenset({"error", "denied"})
_ERROR: Final = Status(StatusCode.ERROR)
_SECOND_BUCKETS: Final = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]


class Tracer(Observer):
    """Traces one session. The arguments are the fields of `Telemetry`."""

    def __init__(self, *, content: bool, agent_name: str, tracer_provider: Any, meter_provider: Any) -> None:
        self._content = content
        super().__init__(SpanFold(self._over, max_chars=MAX_CHARS if self._content else 0))
        self._names = {MAIN: agent_name}
        self._tracer = trace.get_tracer(NAME, __version__, tracer_provider)
        self._meters = _Meters(metrics.get_meter(NAME, __version__, meter_provider))
        self._cli = trace.get_current_span().get_span_context()
        """Where the CLI's own spans belong: it got this context when it was started."""
        self._prompted_in: _Latest = _Latest()
        """The contexts in which prompts were sent, by their uuids."""
        self._live: dict[str, trace.Span] = {}
        self._ended: _Latest = _Latest()
        """The contexts of spans, by id."""
        self._latest: tuple[str | None, Context] = (None, Context())
        """The span that the latest one was below, and the context for what is below it."""

    def sent(self, prompt: UserMessage) -> None:
        """Note in which context a prompt is sent."""
        if prompt.uuid:
            self._prompted_in.put(f"run:{prompt.uuid}", contexts.get_current())
        super().sent(prompt)

    def _over(self, span: Span) -> None:
        """Record a span that is over."""
        kind = span.kind
        if kind == "run":
            return  # its turns are the spans
        live = self._live.pop(span.id, None) if kind in _ABOVE else None
        if live is None:
            recorded = self._start(span, attributes=True)
        else:
            recorded = live
            recorded.set_attributes(self._attributes(span))
        if kind == "turn":
            for link in self._links(span):
                recorded.add_link(link.context, link.attributes)
        if span.status in _FAILED:
            recorded.set_status(_ERROR)
        recorded.end(_nanoseconds(span.start if span.end is None else span.end))
        self._meters.note(span, self._names.get(span.agent, ""))

    def _start(self, span: Span, *, attributes: bool) -> trace.Span:
        """Start a span of OpenTelemetry, and remember where it is if others may be below it or linked to it."""
        kind = span.kind
        context = self._parent_of(span)  # starts the agent's span, which names it
        if kind in TASK_KINDS:
            self._names[span.agent] = span.name
        recorded = self._tracer.start_span(
            name_of(span, self._names.get(span.agent, "")),
            context=context,
            kind=SpanKind.CLIENT if kind == "model" else SpanKind.INTERNAL,
            attributes=self._attributes(span) if attributes else None,
            links=self._links(span) if span.links and kind != "turn" else None,
            start_time=_nanoseconds(span.start),
        )
        if kind in _ABOVE:
            where = recorded.get_span_context()
            self._ended.put(span.id, where)
            if kind == "turn":
                self._keep_together(span.parent or "", where)
        return recorded

    def _keep_together(self, run: str, turn: SpanContext) -> None:
        """Let the follow-up turns of a run be below its first turn, if its prompt was sent outside of any trace."""
        context = self._prompted_in.get(run) or Context()
        if not trace.get_current_span(context).get_span_context().is_valid:
            self._prompted_in.put(run, trace.set_span_in_context(NonRecordingSpan(turn), context))

    def _parent_of(self, span: Span) -> Context:
        """Return the context of the span above; an empty one for a background task."""
        if span.kind == "turn":
            return self._prompted_in.get(span.parent or "") or Context()
        above = span.parent
        if above is None:
            return Context() if span.is_background else self._below(self._fold.turn_id)
        return self._below(above) or self._below(self._fold.turn_id)

    def _below(self, span_id: str | None) -> Context:
        """Return the context for what is below a span; an empty one if it is unknown."""
        if span_id == self._latest[0]:
            return self._latest[1]
        above = self._context_of(span_id)
        if above is None:
            return Context()
        self._latest = (span_id, trace.set_span_in_context(above, Context()))
        return self._latest[1]

    def _context_of(self, span_id: str | None) -> trace.Span | None:
        """Return the span of OpenTelemetry with an id, which is started if it has not been."""
        if span_id is None:
            return None
        live = self._live.get(span_id)
        if live is not None:
            return live
        known = self._ended.get(span_id)
        if known is not None:
            return NonRecordingSpan(known)
        is_open = self._fold.open(span_id)
        if is_open is None or is_open.kind == "run":
            return None
        live = self._live[span_id] = self._start(is_open, attributes=False)
        return live

    def _links(self, span: Span) -> list[Link]:
        found = [self._context_of(link) for link in span.links]
        links = [Link(one.get_span_context()) for one in found if one is not None]
        if span.kind == "turn" and self._cli.is_valid and self._cli.trace_id != self._trace_of(span):
            links.append(Link(self._cli, {"claude_agent.link": "cli"}))
        return links

    def _trace_of(self, span: Span) -> int:
        known = self._ended.get(span.id)
        return known.trace_id if known is not None else 0

    def _attributes(self, span: Span) -> dict[str, Any]:
        name = self._names.get(span.agent, "")
        return attributes_of(span, name, session_id=self._fold.session_id, content=self._content)


class _Meters:
    """The metrics of a session."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used, by turn and model.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of agent, model and tool operations.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )
        self._cost = meter.create_counter("claude_agent.cost", unit="USD", description="Cost, estimated by the CLI.")

    def note(self, span: Span, agent: str) -> None:
        """Record what a span adds."""
        operation = operation_of(span)
        if operation is None or span.end is None:
            return
        shared: dict[str, Any] = {"gen_ai.operation.name": operation, "gen_ai.provider.name": PROVIDER}
        if agent:
            shared["gen_ai.agent.name"] = agent
        where = shared.copy()
        if span.kind in _NAMED:
            where[_NAMED[span.kind]] = span.name
        if span.status in _FAILED:
            where["error.type"] = "denied" if span.status == "denied" else f"{span.kind}_error"
        self._durations.record(max(0.0, span.end - span.start), where)
        if span.kind == "turn":
            self._note_spent(span, shared)

    def _note_spent(self, turn: Span, shared: dict[str, Any]) -> None:
        for model, spent in (turn.attributes.get("models") or {}).items():
            where = {**shared, "gen_ai.operation.name": "chat", "gen_ai.request.model": model}
            tokens = spent["tokens"]
            sums = {"input": tokens.total - tokens.output, "output": tokens.output}
            for kind, count in sums.items():
                self._tokens.record(count, {**where, "gen_ai.token.type": kind})
            self._cost.add(spent["cost_usd"], {"gen_ai.request.model": model})


class _Latest(dict[str, Any]):
    """A dict that forgets the oldest entries."""

    def put(self, key: str, value: Any) -> None:
        """Set an entry."""
        self[key] = value
        if len(self) > _MOST:
            del self[next(iter(self))]


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
