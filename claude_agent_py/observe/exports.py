"""Spans as other tools read them: Chrome traces (Perfetto), and names and attributes for OpenTelemetry.

The latter follow OpenTelemetry's semantic conventions for generative AI (version 1.38).
"""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from claude_agent_py._journal.facts import MAIN, Tokens
from claude_agent_py.observe.spans import TASK_KINDS, Span, SpanKind
from claude_agent_py.wire.base import JSONObject

PROVIDER: Final = "anthropic"
_OPERATIONS: Final[dict[SpanKind, str]] = {
    "run": "invoke_agent",
    "turn": "invoke_agent",
    "subagent": "invoke_agent",
    "child": "invoke_agent",
    "model": "chat",
    "tool": "execute_tool",
}
_CUSTOM_ATTRIBUTES: Final = {
    name: f"claude_agent.{name}"
    for name in (
        "type",
        "question",
        "tool",
        "handler",
        "notified_at",
        "tool_uses",
        "total_tokens",
        "uncounted_tokens",
        "api_retries",
        "terminal_reason",
    )
}
"""Attributes without a convention, exported under `claude_agent.`. None of them is content."""
_CONTENT: Final = ("prompt", "description", "input", "output", "error")


def get_operation(span: Span) -> str | None:
    """Return the `gen_ai.operation.name` of a span, or None if it has none."""
    return _OPERATIONS.get(span.kind)


def build_name(span: Span, agent: str = "") -> str:
    """Return the name of a span: `invoke_agent {name}`, `chat {model}`, `execute_tool {tool}`, `hook {event}`, ..."""
    operation = get_operation(span)
    if span.kind in ("run", "turn"):
        return f"invoke_agent {agent}".strip()
    return f"{operation or span.kind} {span.name}"


def build_attributes(span: Span, agent_name: str = "", *, session_id: str = "", content: bool = False) -> JSONObject:
    """Return the attributes of a span. `content` includes prompts, inputs and outputs."""
    kind = span.kind
    attributes = span.attributes
    operation = _OPERATIONS.get(kind)
    if operation is None:
        found: JSONObject = {"claude_agent.span.kind": kind}
    else:
        found = {"gen_ai.operation.name": operation, "gen_ai.provider.name": PROVIDER}
    if session_id:
        found["gen_ai.conversation.id"] = session_id
    if span.agent != MAIN:
        found["gen_ai.agent.id"] = span.agent
    if agent_name:
        found["gen_ai.agent.name"] = agent_name
    _add_kind(found, span)
    if span.tokens is not None:
        _add_usage(found, span.tokens, is_complete="output_tokens_so_far" not in attributes)
    if span.cost_usd is not None:
        found["claude_agent.cost_usd"] = span.cost_usd
    found |= {_CUSTOM_ATTRIBUTES[key]: value for key, value in attributes.items() if key in _CUSTOM_ATTRIBUTES}
    if span.status != "ok":
        _add_failure(found, span)
    if content:
        found |= _content_attributes(span)
    return found


def _add_failure(found: JSONObject, span: Span) -> None:
    if span.status in ("error", "denied"):
        found["error.type"] = "denied" if span.status == "denied" else _error_type(span)
    elif span.status == "cancelled":
        found["claude_agent.cancelled"] = True


def _add_kind(found: JSONObject, span: Span) -> None:
    kind = span.kind
    if kind == "model":
        found["gen_ai.response.model"] = found["gen_ai.request.model"] = span.name
        found["gen_ai.response.id"] = span.id
        if reason := span.attributes.get("stop_reason"):
            found["gen_ai.response.finish_reasons"] = (reason,)
    elif kind == "tool":
        found["gen_ai.tool.name"] = span.name
        found["gen_ai.tool.call.id"] = span.id
        found["gen_ai.tool.type"] = "function"
    elif kind in TASK_KINDS:
        found["claude_agent.task.id"] = span.agent


def _add_usage(found: JSONObject, tokens: Tokens, *, is_complete: bool) -> None:
    found["gen_ai.usage.input_tokens"] = tokens.input + tokens.cache_read + tokens.cache_write
    if is_complete:
        found["gen_ai.usage.output_tokens"] = tokens.output
    if tokens.cache_read:
        found["gen_ai.usage.cache_read.input_tokens"] = tokens.cache_read
    if tokens.cache_write:
        found["gen_ai.usage.cache_creation.input_tokens"] = tokens.cache_write


def _error_type(span: Span) -> str:
    """Return a low-cardinality error type. The error text of a tool is content, so it is never used."""
    return span.attributes.get("error_type") or f"{span.kind}_error"


def _content_attributes(span: Span) -> JSONObject:
    texts = {key: span.attributes[key] for key in _CONTENT if span.attributes.get(key)}
    names = {"error": "claude_agent.error", "description": "gen_ai.agent.description", "input": "claude_agent.input"}
    if span.kind == "tool":
        names |= {
            "description": "claude_agent.description",
            "input": "gen_ai.tool.call.arguments",
            "output": "gen_ai.tool.call.result",
        }
    elif get_operation(span) is not None:
        names |= {"prompt": "gen_ai.input.messages", "output": "gen_ai.output.messages"}
    found: JSONObject = {}
    for key, text in texts.items():
        name = names.get(key, f"claude_agent.{key}")
        role = "user" if key == "prompt" else "assistant"
        found[name] = _encode_message(role, text) if name.endswith("messages") else text
    return found


def _encode_message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}], ensure_ascii=False)


_THREADS: Final = ((1, "turns"), (2, "model"), (1_000_000, "tools"), (2_000_000, "hooks and waiting"))
"""The first thread of each kind in a Chrome trace. Overlapping spans use the threads after it."""


# Chrome ----------------------------------------------------------------------------------------------------------


def chrome_trace(spans: Sequence[Span], names: Mapping[str, str], title: str) -> JSONObject:
    """Return a trace of complete events: one process per agent, threads for overlapping spans, flows for links."""
    processes = {agent: number for number, agent in enumerate(dict.fromkeys([MAIN, *(s.agent for s in spans)]), 1)}
    start = min((span.start for span in spans), default=0.0)
    events: list[JSONObject] = []
    for agent, number in processes.items():
        events.append(_metadata_event("process_name", number, 0, name=names.get(agent, agent) or title))
        events.append(_metadata_event("process_sort_index", number, 0, sort_index=number))
    threads = _assign_threads(spans)
    places = {span.id: (processes[span.agent], threads[span.id]) for span in spans}
    for pid, tid in sorted(set(places.values())):
        events.append(_metadata_event("thread_name", pid, tid, name=_thread_name(tid)))
        events.append(_metadata_event("thread_sort_index", pid, tid, sort_index=tid))
    last = max((span.end or span.start for span in spans), default=start)
    events += [_span_event(span, places[span.id], start, last) for span in spans]
    by_id = {span.id: span for span in spans}
    for span in spans:
        events += _flow_events(span, by_id, places, start)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"title": title}}


def _span_event(span: Span, place: tuple[int, int], start: float, last: float) -> JSONObject:
    """Return the event of a span. An open span ends at `last`."""
    pid, tid = place
    until = last if span.end is None else span.end
    args = {"id": span.id, "status": span.status, **msgspec.to_builtins(span.attributes)}
    if span.tokens is not None:
        args["tokens"] = msgspec.to_builtins(span.tokens)
    event = {"ph": "X", "name": span.name, "cat": span.kind, "pid": pid, "tid": tid}
    times = {"ts": _to_microseconds(span.start - start), "dur": max(1, _to_microseconds(until - span.start))}
    return event | times | {"args": args}


def _metadata_event(event: str, pid: int, tid: int, **args: object) -> JSONObject:
    return {"ph": "M", "name": event, "pid": pid, "tid": tid, "args": args}


def _assign_threads(spans: Sequence[Span]) -> dict[str, int]:
    """Return a thread for each span. Spans of a thread never overlap, except runs and turns, which enclose others."""
    found: dict[str, int] = {}
    first_threads = {"model": 2, "tool": 1_000_000, "hook": 2_000_000, "waiting": 2_000_000}
    lanes: dict[tuple[str, int], _Lane] = {}
    for span in spans:
        first = first_threads.get(span.kind)
        if first is None:
            found[span.id] = 1
        else:
            found[span.id] = lanes.setdefault((span.agent, first), _Lane(first)).place(span)
    return found


class _Lane:
    """The threads of the spans of an agent and a kind, which are placed in the order of their starts."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._free: list[int] = []
        self._busy: list[tuple[float, int]] = []
        """The ends of the latest spans of the other threads."""

    def place(self, span: Span) -> int:
        """Return the first thread that is free when a span starts."""
        while self._busy and self._busy[0][0] <= span.start + 1e-9:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if not self._free:
            self._free.append(self._next)
            self._next += 1
        thread = heapq.heappop(self._free)
        heapq.heappush(self._busy, (float("inf") if span.end is None else span.end, thread))
        return thread


def _thread_name(thread: int) -> str:
    first, name = next((first, name) for first, name in reversed(_THREADS) if thread >= first)
    return name if thread == first else f"{name} {thread - first + 1}"


def _flow_events(
    span: Span, by_id: Mapping[str, Span], places: Mapping[str, tuple[int, int]], start: float
) -> Iterator[JSONObject]:
    for number, link in enumerate(span.links):
        cause = by_id.get(link)
        if cause is None:
            continue
        left = cause.start
        if span.kind == "turn" and cause.end:
            left = cause.end
        # Clocks differ, and viewers drop an arrow that ends before it begins.
        right = max(left, span.start)
        for phase, place, at in (("s", places[cause.id], left), ("f", places[span.id], right)):
            flow: JSONObject = {"ph": phase, "name": "link", "cat": "link", "id": f"{span.id}-{number}"}
            flow |= {"pid": place[0], "tid": place[1], "ts": _to_microseconds(at - start)}
            yield flow | ({"bp": "e"} if phase == "f" else {})


def _to_microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
