"""Exports are what other tools read: Chrome traces, OTLP, Gantt charts of Mermaid."""

import json
import re
from typing import Any

import recordings_loader as recordings
from otlp_receiver import spans_of_json

from claude_agent_py.observe import Span, Timeline
from claude_agent_py.observe.spans import SpanLog


def recorded(name: str) -> Timeline:
    return Timeline.from_recording(recordings.FOLDER / f"{name}.jsonl")


def of(spans: list[Span], title: str = "made") -> Timeline:
    log = SpanLog()
    for span in spans:
        log.add(span)
    return Timeline(log, title=title)


# Chrome ----------------------------------------------------------------------------------------------------------

FIELDS: dict[str, set[str]] = {
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"ph", "name", "pid", "tid", "args"},
    "s": {"ph", "name", "cat", "id", "pid", "tid", "ts"},
    "f": {"ph", "name", "cat", "id", "pid", "tid", "ts", "bp"},
}
"""What the Trace Event format wants of the phases that are used."""
METADATA = {"process_name": "name", "process_sort_index": "sort_index"} | {
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}


def is_in(flow: dict[str, Any], bar: dict[str, Any]) -> bool:
    """Return whether an arrow begins in a bar; viewers drop others."""
    place = (flow["pid"], flow["tid"]) == (bar["pid"], bar["tid"])
    return place and bar["ts"] <= flow["ts"] <= bar["ts"] + bar["dur"]


def check_trace(trace: dict[str, Any], spans: list[Span]) -> None:
    events: list[dict[str, Any]] = json.loads(json.dumps(trace, allow_nan=False))["traceEvents"]
    for event in events:
        assert set(event) == FIELDS[event["ph"]], event
        assert all(type(event[key]) is int and event[key] >= 0 for key in ("pid", "tid", "ts", "dur") if key in event)
        if event["ph"] == "M":
            assert set(event["args"]) == {METADATA[event["name"]]}
    bars = [event for event in events if event["ph"] == "X"]
    assert sorted(event["args"]["id"] for event in bars) == sorted(span.id for span in spans)
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in bars} == named
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert set(starts) == set(ends)
    assert all(starts[flow]["ts"] <= ends[flow]["ts"] for flow in starts)  # viewers drop others
    assert all(any(is_in(flow, bar) for bar in bars) for flow in starts.values())
    open_until: dict[tuple[int, int], int] = {}
    for event in sorted((event for event in bars if event["tid"] > 1), key=lambda event: event["ts"]):
        place = (event["pid"], event["tid"])
        assert event["ts"] + 1 >= open_until.get(place, 0)  # no bar hides another
        open_until[place] = event["ts"] + event["dur"]


def test_every_recording_is_a_trace_a_chart_and_an_export_request() -> None:
    linked = 0
    for name in recordings.names():
        timeline = recorded(name)
        trace = timeline.to_chrome_trace()
        check_trace(trace, timeline.spans)
        linked += sum(event["ph"] == "s" for event in trace["traceEvents"])
        check_chart(timeline.to_mermaid())
        spans = spans_of_json(timeline.to_otlp())
        assert len(spans) == len(timeline.spans)
        ids = {span.span_id for span in spans}
        assert all(not span.parent_span_id or span.parent_span_id in ids for span in spans)
        assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in spans)
    assert linked > 100


def test_the_same_session_has_the_same_ids() -> None:
    assert recorded("turns/nested_agents").to_otlp() == recorded("turns/nested_agents").to_otlp()


# Mermaid ---------------------------------------------------------------------------------------------------------

LEXER = {
    "space": r"\s+",
    "comment": r"%%[^\n]*",
    "gantt": r"gantt\b",
    "dateFormat": r"dateFormat\s[^#\n;]+",
    "axisFormat": r"axisFormat\s[^#\n;]+",
    "title": r"title\s[^\n]+",
    "section": r"section\s[^\n]+",
    "other": r"accTitle\s*:|accDescr\s*:|accDescr\s*\{|href\s+\"|call\s+|click\s+|inclusiveEndDates\b|topAxis\b"
    r"|(tickInterval|includes|excludes|accDescription)\s[^#\n;]+|todayMarker\s[^\n;]+|weekday\s+\w+day\b"
    r"|weekend\s+(friday|saturday)\b|\d{4}-\d\d-\d\d\b",
    "name": r"[^:\n]+",
    "data": r":[^#\n;]+",
}
"""The rules of Mermaid's lexer for Gantt charts, in their order, without regard to case."""


def check_chart(chart: str) -> None:
    """Check that a chart has only the statements that it should, and that each bar has its times."""
    first, *lines = chart.splitlines()
    assert first == "gantt"
    for line in lines:
        kinds, rest = [], line
        while rest:
            kind, match = next((k, m) for k, rule in LEXER.items() if (m := re.match(rule, rest, re.IGNORECASE)))
            kinds.append(kind)
            rest = rest[match.end() :]
        statements = [kind for kind in kinds if kind != "space"]
        assert statements in (["comment"], ["title"], ["dateFormat"], ["axisFormat"], ["section"], ["name", "data"]), (
            line
        )
        if statements == ["name", "data"]:
            times = re.search(r" :(?:crit, |active, )?(\d+), (\d+)$", line)
            assert times, line
            assert int(times[1]) < int(times[2])


NAMES = [
    "gantt", "section x", "title x", "click", "call f()", "href x", "dateFormat", "accTitle", "accDescr",
    "weekday monday", "topAxis", "inclusiveEndDates", "todayMarker off", "excludes weekends", "2026-01-01",
    "Includes x", "%% note", "a:b;c#d\nx", "done, crit, 1, 2", "{}", "", "<b>",
]  # fmt: skip


def test_no_name_is_read_as_a_statement_of_a_chart() -> None:
    for name in NAMES:
        span = Span(id="x", kind="tool", name=name, agent=name, start=1.0, end=2.0, status="error")
        chart = of([span], title=name).to_mermaid()
        check_chart(chart)
        assert len(chart.splitlines()) == 7
    assert (
        "    'click' :crit, 1000, 2000\n"
        in of([Span(id="x", kind="tool", name="click", start=1, end=2, status="error")]).to_mermaid()
    )
    assert len(recorded("turns/nested_agents").to_mermaid(most=3).splitlines()) < 20
