"""The page of a timeline: one self-contained HTML file with its style, script and data.

The data is JSON in a script element that browsers do not run, with `<`, `>` and `&` escaped, and the script inserts it
only as text. A content security policy allows only this style and this script.
"""

import html
import json
from string import Template
from typing import Final

import msgspec

from claude_agent_py._base.page_assets import hash_source, read_asset
from claude_agent_py.observe.spans import Span, Summary, Used
from claude_agent_py.wire.base import JSONObject

MOST_TEXT: Final = 12_000_000
"""The maximum number of characters of prompts, inputs and outputs on a page. Beyond that, all texts are shortened."""
_KINDS: Final = ("run", "turn", "model", "tool", "waiting", "hook", "subagent", "task", "child")
_UNSAFE: Final = ("<", ">", "&", "\u2028", "\u2029")


def build_page(spans: list[Span], summary: Summary, *, title: str, source: str, dropped: int) -> str:
    """Return the page."""
    data = json.dumps(_encode_page(spans, summary, title, source, dropped), separators=(",", ":"), ensure_ascii=False)
    style, script = read_asset(__name__, "page.css"), read_asset(__name__, "page.js")
    # The inserted texts are not searched for placeholders.
    return Template(read_asset(__name__, "page.html")).substitute(
        script_hash=hash_source(script),
        style_hash=hash_source(style),
        title=html.escape(title),
        style=style,
        script=script,
        data=_escape_json(data).encode("utf-8", "replace").decode(),
    )


def _escape_json(data: str) -> str:
    # `str.translate` is much slower.
    for char in _UNSAFE:
        data = data.replace(char, f"\\u{ord(char):04x}")
    return data


def build_iframe(page: str) -> str:
    """Return a page in an iframe that isolates it from the surrounding notebook."""
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" width="100%" height="620" '
        'style="border:1px solid #8884;border-radius:8px"></iframe>'
    )


def _encode_page(spans: list[Span], summary: Summary, title: str, source: str, dropped: int) -> JSONObject:
    start = summary.start or 0.0
    size = sum(len(value) for span in spans for value in span.attributes.values() if isinstance(value, str))
    limit = None if size <= MOST_TEXT else max(40, MOST_TEXT // (4 * len(spans)))
    return {
        "title": title,
        "source": source,
        "start": start,
        "duration": max(0.0, (summary.end or start) - start),
        "cost": summary.cost_usd,
        "failures": summary.failures,
        "dropped": dropped,
        "counts": summary.counts,
        "seconds": {kind: round(seconds, 6) for kind, seconds in summary.seconds.items()},
        "agents": summary.names,
        "byModel": {name: _encode_usage(used) for name, used in summary.by_model.items()},
        "byAgent": {name: _encode_usage(used) for name, used in summary.by_agent.items()},
        "slow": [span.id for span in summary.slow],
        "failed": [span.id for span in summary.failed],
        "spans": [_encode_span(span, start, limit) for span in spans],
    }


def _encode_usage(used: Used) -> JSONObject:
    counts = msgspec.structs.astuple(used.tokens)
    return {"calls": used.calls, "tools": used.tools, "tokens": counts, "cost": used.cost_usd}


def _encode_span(span: Span, start: float, limit: int | None) -> list[object]:
    return [
        span.id,
        _KINDS.index(span.kind),
        span.name,
        span.parent,
        span.agent,
        round(max(0.0, span.start - start), 6),
        None if span.duration is None else round(span.duration, 6),
        span.status,
        None if span.tokens is None else msgspec.structs.astuple(span.tokens),
        span.cost_usd,
        {key: _shorten(value, limit) for key, value in span.attributes.items() if key != "models"},
        list(span.links),
    ]


def _shorten(value: object, limit: int | None) -> object:
    if limit is not None and isinstance(value, str) and len(value) > limit:
        return f"{value[:limit]}..."
    return value
