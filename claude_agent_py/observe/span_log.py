"""`SpanLog`: keeps spans in bounded memory, with a summary of all of them."""

from typing import Final

from claude_agent_py.observe.spans import TASK_KINDS, Span, by_start
from claude_agent_py.observe.summary import Summary

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
