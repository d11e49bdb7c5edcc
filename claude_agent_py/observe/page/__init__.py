"""The page of a timeline: one HTML file with its style, its script and its data, which needs nothing else.

The data is JSON in a script element that no browser runs, with `<`, `>` and `&` escaped, and the script writes it as
text only. A content security policy lets exactly this style and this script in.
"""

import base64
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from claude_agent_py.observe.spans import Span
from claude_agent_py.observe.summary import Summary, Used

MOST_TEXT: Final = 12_000_000
"""How many characters of prompts, inputs and outputs a page has; beyond that, all of them are cut shorter."""
_KINDS: Final = ("run", "turn", "model", "tool", "waiting", "hook", "subagent", "task", "child")
_ESCAPED: Final = ("<", ">", "&", "\u2028", "\u2029")


def page_of(spans: list[Span], summary: Summary, *, title: str, source: str, dropped: int) -> str:
    """Return the page."""
    data = json.dumps(_data(spans, summary, title, source, dropped), separators=(",", ":"), ensure_ascii=False)
    style, script = _file("page.css"), _file("page.js")
    parts = {
        "@SCRIPT_HASH@": _hash(script),
        "@STYLE_HASH@": _hash(style),
        "@TITLE@": html.escape(title),
        "@STYLE@": style,
        "@SCRIPT@": script,
        "@DATA@": _escaped(data).encode("utf-8", "replace").decode(),
    }
    pieces = []
    rest = _file("page.html")
    for mark, text in sorted(
        parts.items(), key=lambda part: rest.index(part[0])
    ):  # each once: texts may look like marks
        before, _, rest = rest.partition(mark)
        pieces += [before, text]
    return "".join([*pieces, rest])


def _escaped(data: str) -> str:
    for char in _ESCAPED:  # `str.translate` takes far longer
        data = data.replace(char, f"\\u{ord(char):04x}")
    return data


def frame_of(page: str, height: int = 620) -> str:
    """Return a page in a frame that keeps it apart from the notebook around it."""
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" width="100%" height="{height}" '
        'style="border:1px solid #8884;border-radius:8px"></iframe>'
    )


@cache
def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(spans: list[Span], summary: Summary, title: str, source: str, dropped: int) -> dict[str, Any]:
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
        "byModel": {name: _used(used) for name, used in summary.by_model.items()},
        "byAgent": {name: _used(used) for name, used in summary.by_agent.items()},
        "slow": [span.id for span in summary.slow],
        "failed": [span.id for span in summary.failed],
        "spans": [_row(span, start, limit) for span in spans],
    }


def _used(used: Used) -> dict[str, Any]:
    tokens = used.tokens
    counts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write]
    return {"calls": used.calls, "tools": used.tools, "tokens": counts, "cost": used.cost_usd}


def _row(span: Span, start: float, limit: int | None) -> list[Any]:
    tokens = span.tokens
    return [
        span.id,
        _KINDS.index(span.kind),
        span.name,
        span.parent,
        span.agent,
        round(max(0.0, span.start - start), 6),
        None if span.duration is None else round(span.duration, 6),
        span.status,
        None if tokens is None else [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write],
        span.cost_usd,
        {key: _cut(value, limit) for key, value in span.attributes.items() if key != "models"},
        list(span.links),
    ]


def _cut(value: Any, limit: int | None) -> Any:
    return f"{value[:limit]}..." if limit is not None and isinstance(value, str) and len(value) > limit else value
