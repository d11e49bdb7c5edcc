"""`SpanLog`: keeps spans in bounded memory, and what all of them add up to."""

from typing import Final

from claude_agent_py.observe.spans import TASK_KINDS, Span, by_start
from claude_agent_py.observe.summary import Summary

MAX_SPANS: Final = 50_000
_FRAME: Final = frozenset({"run", "turn", *TASK_KINDS})


class SpanLog:
    """Collects spans, at most `max_spans` of them: beyond that, the shortest calls, answers and hooks are left out.

    Runs, turns, tasks and failures stay. The summary counts all.
    """

    def __init__(self, max_spans: int = MAX_SPANS) -> None:
        self.summary: Summary = Summary()
        self.dropped: int = 0
        """How many spans were left out."""
        self._max = max(2, max_spans)
        self._spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Take a span."""
        self.summary.add(span)
        self._spans.append(span)
        if len(self._spans) > self._max:
            self._thin_out()

    @property
    def spans(self) -> list[Span]:
        """The spans kept, by their starts."""
        return by_start(self._spans)

    def _thin_out(self) -> None:
        """Leave out the shorter half of what may be, and if nothing may, the older half of the rest."""
        small = [span for span in self._spans if span.kind not in _FRAME and span.status in ("ok", "running")]
        small.sort(key=lambda span: span.duration or 0.0)
        out = {span.id for span in small[: max(len(small) // 2, 1)]} if small else set()
        if len(out) < self._max // 8:  # too little to be worth a pass each time
            out |= {span.id for span in self._spans[: self._max // 4]}
        kept = [span for span in self._spans if span.id not in out]
        self.dropped += len(self._spans) - len(kept)
        self._spans = kept
