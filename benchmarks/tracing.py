"""What telemetry costs, and what OpenTelemetry's SDK itself takes for the same spans.

No CLI and no event loop: decoded messages are told to the journal of a session. The floor makes the same calls of
OpenTelemetry by hand, prepared, with a `BatchSpanProcessor` whose exporter drops what it gets.
"""

import gc
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, TypeAlias

from benchmarks.conversations import KINDS
from benchmarks.measuring import show
from claude_agent_py._journal.live import LiveJournal
from claude_agent_py.observe import Telemetry
from claude_agent_py.wire.codec import decode


def run(kinds: Sequence[str], messages: int, rounds: int) -> None:
    """Measure and print, if OpenTelemetry's SDK is installed."""
    try:
        import opentelemetry.sdk  # noqa: F401
    except ModuleNotFoundError:
        print("\nOpenTelemetry's SDK is not installed: what telemetry costs is left out.")
        return
    rows: list[tuple[object, ...]] = []
    for kind in kinds:
        lines = [json.dumps(frame).encode() for frame in itertools.islice(KINDS[kind](), messages)]
        samples = [_costs(lines) for _ in range(rounds)]
        costs = [median(column) / messages * 1e6 for column in zip(*samples, strict=True)]
        rows.append((kind, *(f"{cost:.2f}" for cost in costs)))
    columns = ("messages", "us decoding", "us traced", "us of it ours", "us floor")
    show(f"Telemetry, CPU of each of {messages} messages ({rounds} rounds)", columns, rows)


def _costs(lines: list[bytes]) -> tuple[float, ...]:
    decoding, messages = _timed(lambda: [decode(line) for line in lines])
    with _provider() as provider:
        traced = _observed(messages, _traced(provider))
    calls: list[Call] = []
    _observed(messages, _noting(calls))
    ours = _observed(messages, _noting([]))
    with _provider() as provider:
        floor = _by_hand(calls, provider)
    return decoding, traced, ours, floor


def _observed(messages: list[Any], journal: LiveJournal) -> float:
    """Return the seconds of folding the messages."""

    def take() -> None:
        for message in messages:
            journal.feed(message)

    return _timed(take)[0]


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    gc.freeze()  # what the benchmark itself keeps does not count
    began = time.process_time()
    made = work()
    took = time.process_time() - began
    gc.unfreeze()
    return took, made


@contextmanager
def _provider() -> Iterator[Any]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Dropping(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping(), max_queue_size=65536))
    yield provider
    provider.shutdown()


def _traced(provider: Any, meters: Any = None) -> LiveJournal:
    from opentelemetry.sdk.metrics import MeterProvider

    telemetry = Telemetry(content=False, tracer_provider=provider, meter_provider=meters or MeterProvider())
    journal = LiveJournal(clock=time.time)
    journal.observe(telemetry.observer())
    return journal


Call: TypeAlias = tuple[str, Any, Any]
"""What was called, on what, with what."""


class NotedSpan:
    """Notes what is called on a span."""

    def __init__(self, calls: list[Call]) -> None:
        self._note = calls.append

    def get_span_context(self) -> Any:
        from opentelemetry.trace import INVALID_SPAN_CONTEXT

        return INVALID_SPAN_CONTEXT

    def set_attributes(self, attributes: Any) -> None:
        self._note(("set_attributes", self, attributes))

    def set_status(self, status: Any) -> None:
        self._note(("set_status", self, status))

    def add_link(self, context: Any, attributes: Any) -> None:
        self._note(("add_link", self, context))

    def end(self, at: int) -> None:
        self._note(("end", self, at))


class Noting:
    """Provider, tracer, meter and instrument in one: notes the calls instead of making them."""

    def __init__(self, calls: list[Call]) -> None:
        self._calls = calls

    def get_tracer(self, *args: Any, **more: Any) -> Any:
        return self

    get_meter = create_histogram = create_counter = get_tracer

    def record(self, amount: float, attributes: Any) -> None:
        self._calls.append(("record", amount, attributes))

    add = record

    def start_span(self, name: str, **more: Any) -> NotedSpan:
        made = NotedSpan(self._calls)
        self._calls.append(("start", made, (name, more)))
        return made


def _noting(calls: list[Call]) -> LiveJournal:
    return _traced(Noting(calls), Noting(calls))


def _by_hand(calls: list[Call], provider: Any) -> float:
    """Return the seconds of the calls alone."""
    from opentelemetry import trace
    from opentelemetry.sdk.metrics import MeterProvider

    tracer = provider.get_tracer("by hand")
    histogram = MeterProvider().get_meter("by hand").create_histogram("duration", unit="s")
    above = trace.set_span_in_context(tracer.start_span("above"))
    spans: dict[int, Any] = {}

    def work() -> None:
        for step, subject, value in calls:
            if step == "start":
                spans[id(subject)] = tracer.start_span(value[0], **{**value[1], "context": above})
            elif step == "record":
                histogram.record(subject, value)
            elif step == "end":
                spans.pop(id(subject)).end(value)
            else:
                getattr(spans[id(subject)], step)(value)

    return _timed(work)[0]
