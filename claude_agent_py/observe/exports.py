"""Spans in the formats of other tools: Chrome traces (Perfetto), OTLP JSON, Gantt charts of Mermaid."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from claude_agent_py._version import __version__
from claude_agent_py.observe.conventions import attributes_of, name_of
from claude_agent_py.observe.spans import MAIN, TASK_KINDS, Span

_FRAME: Final = frozenset({"run", "turn"})
_OTLP_STATUS: Final = {"ok": 1, "error": 2, "denied": 2}
_NOT_MERMAID: Final = re.compile(r"[^\w .,+/()-]+")
_MERMAID_STATEMENT: Final = re.compile(
    r"(?:gantt|dateformat|inclusiveenddates|topaxis|axisformat|tickinterval|includes|excludes|todaymarker|weekday|weekend"
    r"|title|acctitle|accdescr|accdescription|section|click|call|href|\d{4}-\d\d-\d\d)\b",
    re.IGNORECASE,
)
"""How other lines of a chart than its bars begin."""
_THREADS: Final = ((1, "turns"), (2, "model"), (1000, "tools"), (2000, "hooks and waiting"))
"""The first thread of each kind in a Chrome trace. What overlaps has the ones after it."""


# Chrome ----------------------------------------------------------------------------------------------------------


def chrome_trace(spans: Sequence[Span], names: Mapping[str, str], title: str) -> dict[str, Any]:
    """Return a trace of complete events: a process for each agent, threads for what overlaps, flows for links."""
    processes = {agent: number for number, agent in enumerate(dict.fromkeys([MAIN, *(s.agent for s in spans)]), 1)}
    start = min((span.start for span in spans), default=0.0)
    events: list[dict[str, Any]] = []
    for agent, number in processes.items():
        events.append(_metadata("process_name", number, 0, name=names.get(agent, agent) or title))
        events.append(_metadata("process_sort_index", number, 0, sort_index=number))
    threads = _threads(spans)
    for pid, tid in sorted({(processes[span.agent], threads[span.id]) for span in spans}):
        events.append(_metadata("thread_name", pid, tid, name=_thread_name(tid)))
        events.append(_metadata("thread_sort_index", pid, tid, sort_index=tid))
    last = max((span.end or span.start for span in spans), default=start)
    places = {span.id: (processes[span.agent], threads[span.id]) for span in spans}
    for span in spans:
        pid, tid = places[span.id]
        until = last if span.end is None else span.end
        args = {"id": span.id, "status": span.status, **msgspec.to_builtins(span.attributes)}
        if span.tokens is not None:
            args["tokens"] = msgspec.to_builtins(span.tokens)
        times = {"ts": _micro(span.start - start), "dur": max(1, _micro(until - span.start))}
        events.append({"ph": "X", "name": span.name, "cat": span.kind, "pid": pid, "tid": tid, **times, "args": args})
    by_id = {span.id: span for span in spans}
    for span in spans:
        events += _flows(span, by_id, places, start)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"title": title}}


def _metadata(event: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": event, "pid": pid, "tid": tid, "args": args}


def _threads(spans: Sequence[Span]) -> dict[str, int]:
    """Return a thread for each span. Spans of one thread follow each other; frames enclose what is in them."""
    found: dict[str, int] = {}
    ends: dict[tuple[str, int], float] = {}
    base = {"model": 2, "tool": 1000, "hook": 2000, "waiting": 2000}
    for span in spans:
        thread = base.get(span.kind, 1)
        while thread > 1 and ends.get((span.agent, thread), float("-inf")) > span.start + 1e-9:
            thread += 1
        ends[span.agent, thread] = float("inf") if span.end is None else span.end
        found[span.id] = thread
    return found


def _thread_name(thread: int) -> str:
    first, name = next((first, name) for first, name in reversed(_THREADS) if thread >= first)
    return name if thread == first else f"{name} {thread - first + 1}"


def _flows(
    span: Span, by_id: Mapping[str, Span], places: Mapping[str, tuple[int, int]], start: float
) -> Iterator[dict[str, Any]]:
    for number, link in enumerate(span.links):
        cause = by_id.get(link)
        if cause is None:
            continue
        left = cause.start if span.kind != "turn" else (cause.end or cause.start)
        right = max(left, span.start)  # clocks differ: viewers drop an arrow that ends before it begins
        for phase, place, at in (("s", places[cause.id], left), ("f", places[span.id], right)):
            flow: dict[str, Any] = {"ph": phase, "name": "link", "cat": "link", "id": f"{span.id}-{number}"}
            flow |= {"pid": place[0], "tid": place[1], "ts": _micro(at - start)}
            yield flow | ({"bp": "e"} if phase == "f" else {})


def _micro(seconds: float) -> int:
    return round(seconds * 1_000_000)


# OTLP ------------------------------------------------------------------------------------------------------------


def otlp(spans: Sequence[Span], names: Mapping[str, str]) -> dict[str, Any]:
    """Return an export request for traces. Ids derive from those of the spans: the same session gives the same ids."""
    by_id = {span.id: span for span in spans}
    first = next((span.id for span in spans if span.kind == "run"), spans[0].id if spans else "")
    traces = {span.id: _trace_of(span, by_id, first) for span in spans}
    resource = {"attributes": _keyed({"service.name": "claude-agent-py"})}
    scope = {"name": "claude_agent_py", "version": __version__}
    listed = [_otlp_span(span, by_id, traces, names) for span in spans]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": listed}]}]}


def _trace_of(span: Span, by_id: Mapping[str, Span], first: str) -> str:
    """Return the trace of a span: that of the run, or background task, that it is a part of."""
    seen = set()
    while span.parent is not None and span.parent in by_id and span.id not in seen:
        seen.add(span.id)
        span = by_id[span.parent]
    return _hex(f"{first} {span.id}", 32)


def _otlp_span(
    span: Span, by_id: Mapping[str, Span], traces: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": traces[span.id],
        "spanId": _hex(span.id, 16),
        "name": name_of(span),
        "kind": 3 if span.kind == "model" else 1,  # a client, or internal
        "startTimeUnixNano": str(round(span.start * 1e9)),
        "endTimeUnixNano": str(round((span.start if span.end is None else span.end) * 1e9)),
        "attributes": _keyed(attributes_of(span, names.get(span.agent, ""), content=True)),
        "status": {"code": _OTLP_STATUS.get(span.status, 0)},
        "links": [{"traceId": traces[link], "spanId": _hex(link, 16)} for link in span.links if link in by_id],
    }
    if span.parent is not None and span.parent in by_id:
        made["parentSpanId"] = _hex(span.parent, 16)
    return made


def _keyed(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": str(value)}


def _hex(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:length]


# Mermaid ---------------------------------------------------------------------------------------------------------


def mermaid(spans: Sequence[Span], names: Mapping[str, str], title: str, *, most: int) -> str:
    """Return a Gantt chart with a section for each agent and the longest spans."""
    longest = sorted(spans, key=lambda span: (span.kind not in TASK_KINDS, -(span.duration or 0.0)))
    chosen = {span.id for span in [span for span in longest if span.kind not in _FRAME][: max(1, most)]}
    lines = ["gantt", f"    title {_word(title)}", "    dateFormat x", "    axisFormat %H:%M:%S"]
    for agent in dict.fromkeys([MAIN, *(span.agent for span in spans)]):
        rows = [span for span in spans if span.agent == agent and span.id in chosen]
        if rows:
            lines.append(f"    section {_word(names.get(agent) or agent or 'main')}")
        for span in rows:
            start, end = round(span.start * 1000), round((span.end or span.start) * 1000)
            mark = "crit, " if span.status in ("error", "denied") else "active, " if span.kind == "model" else ""
            lines.append(f"    {_bar(span.name)} :{mark}{start}, {max(end, start + 1)}")
    began = min((span.start for span in spans), default=0.0)
    lines.insert(1, f"    %% began {datetime.fromtimestamp(began, UTC).isoformat(timespec='seconds')}")
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    """Return text that means nothing else in a chart."""
    return (_NOT_MERMAID.sub(" ", text).strip() or "span")[:60]


def _bar(name: str) -> str:
    """Return a name that begins no other statement of a chart."""
    word = _word(name)
    return f"'{word}'" if _MERMAID_STATEMENT.match(word) else word
