"""`Tracer`: exports the spans of a running session to OpenTelemetry, with metrics.

A turn is an `invoke_agent` span in the trace that was current when its prompt was sent. Its children are model calls,
tool calls, hooks, requests to the user and foreground subagents. A background task is the root of a separate trace,
with a link to the call that launched it, because it may continue for hours after the turn has ended.

An OpenTelemetry span is created when the span ends, with the original times, or earlier, with its first child.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs
from opentelemetry import context as contexts, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode

from claude_agent_py._base.bounded_dict import BoundedDict
from claude_agent_py._journal.facts import MAIN
from claude_agent_py._version import __version__
from claude_agent_py.observe.exports import PROVIDER, build_attributes, build_name, get_operation
from claude_agent_py.observe.fold import MAX_CHARS, SpanFold
from claude_agent_py.observe.spans import TASK_KINDS, Span
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.conversation import UserMessage

NAME: Final = "claude_agent_py"
_MAX_REMEMBERED: Final = 10_000
"""The maximum number of ended spans that are remembered, as parents and for links."""
_TOKEN_BUCKETS: Final = [1.0, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
_PARENT_KINDS: Final = frozenset({"turn", "tool", *TASK_KINDS})
"""The kinds of spans that may have children or be the target of a link."""
_UNKNOWN_TOOL: Final = "_OTHER"
"""The name in metrics and span names of tools that the session does not have. A model may invent any number."""
_NAMED: Final = {"model": "gen_ai.request.model", "tool": "gen_ai.tool.name"}
_FAILED: Final = frozenset({"error", "denied"})
_ERROR: Final = Status(StatusCode.ERROR)
_SECOND_BUCKETS: Final = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]


class Tracer(SpanFold):
    """Traces one session. The arguments are the fields of `Telemetry`."""

    def __init__(
        self,
        *,
        content: bool,
        agent_name: str,
        tracer_provider: Any,
        meter_provider: Any,
        secrets: Mapping[str, str] | None,
        earlier: "Tracer | None",
    ) -> None:
        super().__init__(self._record_ended, max_chars=MAX_CHARS if content else 0, secrets=secrets)
        self._content = content
        self._names = {MAIN: agent_name}
        self._tracer = trace.get_tracer(NAME, __version__, tracer_provider)
        self._meters = _Meters(metrics.get_meter(NAME, __version__, meter_provider))
        self._cli = trace.get_current_span().get_span_context()
        """The parent of the CLI's own spans: the CLI is started with this context."""
        self._prompt_contexts: BoundedDict[str, Context] = BoundedDict(_MAX_REMEMBERED)
        """The contexts in which prompts were sent, by their uuids. Those of the last process go on in this one."""
        if earlier is not None:
            self._prompt_contexts = earlier._prompt_contexts
        self._live: dict[str, trace.Span] = {}
        self._ended: BoundedDict[str, SpanContext] = BoundedDict(_MAX_REMEMBERED)
        """The contexts of ended spans, by id."""
        self._latest: tuple[str | None, Context] = (None, Context())
        """The latest parent, and the context for its children. A cache of one entry."""

    def sent(self, prompt: UserMessage) -> None:
        """Record the context in which a prompt is sent, if it is not sent again."""
        run = f"run:{prompt.uuid}"
        if prompt.uuid and run not in self._prompt_contexts:
            self._prompt_contexts.put(run, contexts.get_current())

    def _record_ended(self, span: Span) -> None:
        """Export a span that has ended."""
        kind = span.kind
        if kind == "run":
            # A run is not exported: its turns are.
            return
        live = self._live.pop(span.id, None) if kind in _PARENT_KINDS else None
        if live is None:
            recorded = self._start(span, attributes=True)
        else:
            recorded = live
            recorded.update_name(self._build_name(span))
            recorded.set_attributes(self._build_attributes(span))
        if kind == "turn":
            for link in self._build_links(span):
                recorded.add_link(link.context, link.attributes)
        if span.status in _FAILED:
            recorded.set_status(_ERROR)
        recorded.end(_nanoseconds(span.start if span.end is None else span.end))
        self._meters.note(self._without_invention(span), self._names.get(span.agent, ""))

    def _start(self, span: Span, *, attributes: bool) -> trace.Span:
        """Start an OpenTelemetry span, and remember its context if it may have children or be linked to."""
        kind = span.kind
        # Find the parent first: this may start the span of the agent, which sets the agent's name.
        context = self._parent_context(span)
        if kind in TASK_KINDS:
            self._names[span.agent] = span.name
        recorded = self._tracer.start_span(
            self._build_name(span),
            context=context,
            kind=SpanKind.CLIENT if kind == "model" else SpanKind.INTERNAL,
            attributes=self._build_attributes(span) if attributes else None,
            links=self._build_links(span) if span.links and kind != "turn" else None,
            start_time=_nanoseconds(span.start),
        )
        if kind in _PARENT_KINDS:
            span_context = recorded.get_span_context()
            self._ended.put(span.id, span_context)
            if kind == "turn":
                self._group_follow_ups(span.parent or "", span_context)
        return recorded

    def _group_follow_ups(self, run: str, turn: SpanContext) -> None:
        """Make the follow-up turns of a run children of its first turn, if the prompt was sent outside of any trace."""
        context = self._prompt_contexts.get(run) or Context()
        if not trace.get_current_span(context).get_span_context().is_valid:
            self._prompt_contexts.put(run, trace.set_span_in_context(NonRecordingSpan(turn), context))

    def _parent_context(self, span: Span) -> Context:
        """Return the context of the parent span; an empty context for a background task."""
        if span.kind == "turn":
            return self._prompt_contexts.get(span.parent or "") or Context()
        if span.parent is not None:
            return self._child_context(span.parent) or self._child_context(self.turn_id)
        if span.is_background:
            return Context()
        return self._child_context(self.turn_id)

    def _child_context(self, span_id: str | None) -> Context:
        """Return the context for the children of a span; an empty context if the span is unknown."""
        if span_id == self._latest[0]:
            return self._latest[1]
        parent = self._find_otel_span(span_id)
        if parent is None:
            return Context()
        self._latest = (span_id, trace.set_span_in_context(parent, Context()))
        return self._latest[1]

    def _find_otel_span(self, span_id: str | None) -> trace.Span | None:
        """Return the OpenTelemetry span for a span id, starting it if necessary; None if the id is unknown."""
        if span_id is None:
            return None
        live = self._live.get(span_id)
        if live is not None:
            return live
        known = self._ended.get(span_id)
        if known is not None:
            return NonRecordingSpan(known)
        open_span = self.open(span_id)
        if open_span is None or open_span.kind == "run":
            return None
        live = self._start(open_span, attributes=False)
        self._live[span_id] = live
        return live

    def _build_links(self, span: Span) -> list[Link]:
        found = [self._find_otel_span(link) for link in span.links]
        links = [Link(span.get_span_context()) for span in found if span is not None]
        if span.kind == "turn" and self._cli.is_valid and self._cli.trace_id != self._trace_id(span):
            links.append(Link(self._cli, {"claude_agent.link": "cli"}))
        return links

    def _trace_id(self, span: Span) -> int:
        known = self._ended.get(span.id)
        return known.trace_id if known is not None else 0

    def _build_name(self, span: Span) -> str:
        return build_name(self._without_invention(span), self._names.get(span.agent, ""))

    def _without_invention(self, span: Span) -> Span:
        """Return the span without the name of a tool that may not exist."""
        if span.status == "ok" or "is_unlisted" not in span.attributes:
            return span
        return structs.replace(span, name=_UNKNOWN_TOOL)

    def _build_attributes(self, span: Span) -> JSONObject:
        name = self._names.get(span.agent, "")
        return build_attributes(span, name, session_id=self.session_id, content=self._content)


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
        """Add a span to the metrics."""
        operation = get_operation(span)
        if operation is None or span.end is None:
            return
        shared: JSONObject = {"gen_ai.operation.name": operation, "gen_ai.provider.name": PROVIDER}
        if agent:
            shared["gen_ai.agent.name"] = agent
        attributes = shared.copy()
        if span.kind in _NAMED:
            attributes[_NAMED[span.kind]] = span.name
        if span.status in _FAILED:
            attributes["error.type"] = "denied" if span.status == "denied" else f"{span.kind}_error"
        self._durations.record(max(0.0, span.end - span.start), attributes)
        if span.kind == "turn":
            self._record_usage(span, shared)

    def _record_usage(self, turn: Span, shared: JSONObject) -> None:
        for model, spent in (turn.attributes.get("models") or {}).items():
            attributes = {**shared, "gen_ai.operation.name": "chat", "gen_ai.request.model": model}
            tokens = spent["tokens"]
            sums = {"input": tokens.total - tokens.output, "output": tokens.output}
            for kind, count in sums.items():
                self._tokens.record(count, {**attributes, "gen_ai.token.type": kind})
            self._cost.add(spent["cost_usd"], {"gen_ai.request.model": model})


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
