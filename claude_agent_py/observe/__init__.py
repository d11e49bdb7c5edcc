"""See what agents do: spans of a session, a timeline as one HTML file, OpenTelemetry."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.observe.fold import SpanFold as SpanFold
    from claude_agent_py.observe.spans import (
        Span as Span,
        SpanKind as SpanKind,
        SpanLog as SpanLog,
        SpanStatus as SpanStatus,
        Summary as Summary,
        Tokens as Tokens,
        Used as Used,
    )
    from claude_agent_py.observe.telemetry import (
        Telemetry as Telemetry,
        instrument as instrument,
        uninstrument as uninstrument,
    )
    from claude_agent_py.observe.timeline import Timeline as Timeline
    from claude_agent_py.observe.watching import Watch as Watch, watch as watch
else:
    _NAMES = {
        "claude_agent_py.observe.fold": "SpanFold",
        "claude_agent_py.observe.watching": "Watch watch",
        "claude_agent_py.observe.spans": "Span SpanKind SpanLog SpanStatus Summary Tokens Used",
        "claude_agent_py.observe.telemetry": "Telemetry instrument uninstrument",
        "claude_agent_py.observe.timeline": "Timeline",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
